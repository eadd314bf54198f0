"""Names of models on the hub, and which file names may be written below a folder of ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from edge_spec.errors import SettingError

DEFAULT_REVISION = "main"

_PREFIX = re.compile(r"(?:https?://)?(?:hf\.co|(?:www\.)?huggingface\.co)/", re.IGNORECASE)
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?"
_REPO = re.compile(r"(?!.*(--|\.\.))(\w|\w[\w.-]{0,94}\w)/(\w|\w[\w.-]{0,94}\w)(?<!\.git)", re.ASCII)
_REF = re.compile(rf"(?P<repo>{_PART}/{_PART})(?::(?P<quant>.+))?", re.DOTALL)
_SPLIT = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf", re.DOTALL | re.ASCII)

# Names that Windows keeps for devices, with any ending.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}


@dataclass(frozen=True, slots=True)
class HubRef:
    """`user/repo[:QUANT]`: a repository, and a quantisation or a file of it if one is named."""

    repo: str
    quant: str | None = None

    def __str__(self) -> str:
        return self.repo if self.quant is None else f"{self.repo}:{self.quant}"


def hub_ref(text: str) -> HubRef | None:
    """What `text` names on the hub, or None when it is no such name; `hf.co/` before it is dropped.

    `user/repo:latest` is `user/repo`, as Ollama writes it. A name that ends in .gguf before any
    colon is a path, and so is one with a part of dots.
    """
    found = _REF.fullmatch(_PREFIX.sub("", text, count=1).rstrip("/"))
    if found is None or found["repo"].lower().endswith(".gguf") or ".." in found["repo"]:
        return None
    quant = found["quant"]
    if quant is not None and not is_safe(quant):
        return None
    return HubRef(found["repo"], None if quant is None or quant.lower() == "latest" else quant)


def is_repo(text: str) -> bool:
    """Whether this names a repository, user/name, as the hub allows it (huggingface_hub's
    `validate_repo_id`): not all that looks like one is."""
    return _REPO.fullmatch(text) is not None


def is_safe(name: str) -> bool:
    """Whether a file of this relative name, with `/` between folders, stays below any folder it is
    put in, on every platform."""
    parts = name.split("/")
    return len(name) <= 400 and all(_is_safe_part(part) for part in parts)


def _is_safe_part(part: str) -> bool:
    return (
        bool(part)
        and not part.startswith(".")  # . and .., and folders like our own .partial
        and not part.endswith((".", " "))
        and len(part.encode("utf-8", "replace")) <= 200
        and all(sign.isprintable() and sign not in '\\:*?"<>|' for sign in part)
        and part.partition(".")[0].rstrip().lower() not in _DEVICES
    )


def require_safe(name: str, where: str) -> str:
    """`name`, if a file of that name can be kept; raises SettingError otherwise."""
    if not is_safe(name):
        raise SettingError(f"{where} has the file name {name!r}, which is refused: it might leave the store.")
    return name


@dataclass(frozen=True, slots=True)
class Split:
    """What the name of one part of a split model says: `stem-00002-of-00003.gguf`, counted from 1."""

    stem: str
    part: int
    parts: int

    def name(self, part: int) -> str:
        return f"{self.stem}-{part:05}-of-{self.parts:05}.gguf"

    @property
    def names(self) -> list[str]:
        return [self.name(part) for part in range(1, self.parts + 1)]


def split_of(name: str) -> Split | None:
    """What a file name says of being a part; None for a whole model. Folders before it are kept.

    As llama.cpp's gguf-split gives them and its loader finds them (`llama_split_prefix`).
    """
    found = _SPLIT.fullmatch(name)
    if found is None:
        return None
    split = Split(found["stem"], int(found["part"]), int(found["parts"]))
    return split if 1 <= split.part <= split.parts <= 1000 else None


def file_stem(name: str) -> str:
    """A model file's name without folders, part number and `.gguf`."""
    split = split_of(name)
    if split is not None:
        return PurePosixPath(split.stem).name
    path = PurePosixPath(name)
    return path.stem if path.suffix.lower() == ".gguf" else path.name
