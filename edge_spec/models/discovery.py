"""Model files that other programs keep on this machine: found by looking, never written to.

Five places: our store, the hub cache (huggingface_hub: models--USER--REPO/snapshots/COMMIT/FILE),
LM Studio (PUBLISHER/REPO/FILE), Ollama (manifests that name blobs) and llama.cpp's own cache
(common/common.cpp:fs_get_cache_directory; newer builds keep it as a hub cache). Folders are walked
within limits, each at most once, so links in a circle end; only regular files count.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from edge_spec.models.names import file_stem, split_of
from edge_spec.models.quants import label_of
from edge_spec.models.records import Record
from edge_spec.models.store import names_of, records_by_file, store_path
from edge_spec.paths import user_path

Place = Literal["store", "hub cache", "LM Studio", "Ollama", "llama.cpp"]

MAX_DEPTH: Final = 8
MAX_ENTRIES: Final = 50_000
"""How much of one place is looked at: far more than anyone keeps, little enough to end soon."""

_HUB_MODEL: Final = "models--"
_NO_MODELS: Final = ("datasets--", "spaces--")
"""What else lies in the hub's cache (huggingface_hub's `repo_folder_name`)."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A GGUF and where it was found; `path` is the first part of a model in several.

    `names` are what it answers to, the best first: it is unique among all that were found. `record`
    says where a file of our store was pulled from.
    """

    path: Path
    place: Place
    names: tuple[str, ...]
    record: Record | None = None

    @property
    def name(self) -> str:
        return self.names[0]


def find_files(only: Literal["store"] | None = None) -> list[FoundFile]:
    """Every GGUF in the five places, by place and name; a file that is in two counts once.

    With `only` the store alone is looked at, whose names are the same then: it comes first.
    """
    from edge_spec.models.discovery_ollama import ollama_files

    seen: set[tuple[int, int]] = set()
    taken: set[str] = set()
    found: list[FoundFile] = []
    places = [_files("store", [store_path()])]
    if only is None:
        places += [_files("hub cache", _hub_folders()), _files("LM Studio", _lm_studio_folders()),
                   ollama_files(), _files("llama.cpp", _llama_cpp_folders())]  # fmt: skip
    for file in itertools.chain.from_iterable(places):
        try:
            state = file.path.stat()
        except OSError:
            continue
        if (state.st_dev, state.st_ino) in seen:
            continue
        seen.add((state.st_dev, state.st_ino))
        found.append(_with_own_name(file, taken))
    return found


def find_file(name: str) -> FoundFile | None:
    """The file that answers to `name`; the first place counts where several have one."""
    files = find_files()
    exact = next((file for file in files if file.name == name), None)
    return exact or next((file for file in files if name in file.names), None)


def home() -> Path:
    """The user's folder; where there is none, a path below which nothing is found."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


def folder_from(variable: str) -> Path | None:
    """The folder that an environment variable names."""
    value = os.environ.get(variable)
    return user_path(value).absolute() if value else None


# -- places


def _cache_home() -> Path:
    return folder_from("XDG_CACHE_HOME") or home() / ".cache"


def _hub_folders() -> list[Path]:
    """As huggingface_hub decides (its constants.py)."""
    chosen = folder_from("HF_HUB_CACHE") or folder_from("HUGGINGFACE_HUB_CACHE")
    if chosen is None:
        chosen = (folder_from("HF_HOME") or _cache_home() / "huggingface") / "hub"
    return [chosen]


def _lm_studio_folders() -> list[Path]:
    return [home() / ".lmstudio" / "models", home() / ".cache" / "lm-studio" / "models"]


def _llama_cpp_folders() -> list[Path]:
    chosen = folder_from("LLAMA_CACHE")
    if chosen is not None:
        return [chosen]
    if sys.platform == "win32":
        local = folder_from("LOCALAPPDATA")
        return [local / "llama.cpp"] if local else []
    if sys.platform == "darwin":
        return [home() / "Library" / "Caches" / "llama.cpp"]
    return [_cache_home() / "llama.cpp"]


# -- files and their names


def _files(place: Place, roots: list[Path]) -> Iterator[FoundFile]:
    """The GGUFs of one place, sorted by path; of a split model its first part, or the first there is."""
    records = records_by_file() if place == "store" else {}
    for root in roots:
        first: dict[Path, Path] = {}
        for path in sorted(_walk(root)):
            split = split_of(path.name)
            first.setdefault(path if split is None else path.with_name(split.name(1)), path)
        for path in first.values():
            record = records.get(path)
            yield FoundFile(path, place, tuple(dict.fromkeys(_names(place, root, path, record))), record)


def _walk(root: Path) -> Iterator[Path]:
    """Regular files below `root` whose names end in .gguf, hidden folders and unfinished files aside.

    Of the hub's cache only the snapshots of models are entered: a dataset may have any number of files.
    """
    left = MAX_ENTRIES
    seen: set[tuple[int, int]] = set()
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            state = folder.stat()
            if (state.st_dev, state.st_ino) in seen:
                continue
            seen.add((state.st_dev, state.st_ino))
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    if entry.name.startswith("."):
                        continue
                    path = folder / entry.name
                    if entry.name.lower().endswith(".gguf"):
                        if entry.is_file():
                            yield path
                    elif depth < MAX_DEPTH and not entry.name.startswith(_NO_MODELS) and entry.is_dir():
                        inner = "snapshots" if entry.name.startswith(_HUB_MODEL) else ""
                        waiting.append((path / inner, depth + 1))
        except OSError:
            continue  # not there, not ours to read, or a link to itself


def _names(place: Place, root: Path, path: Path, record: Record | None) -> Iterator[str]:
    """What a file answers to: by its own name, and by the repository that it is from."""
    stem = file_stem(path.name)
    parts = path.relative_to(root).parts
    if place == "store":
        yield from names_of(path, record)
    elif place == "llama.cpp" and "-GGUF_" in stem:
        yield stem.rpartition("-GGUF_")[2]  # USER_REPO-GGUF_FILE
    yield stem
    repo = ""
    if parts[0].startswith(_HUB_MODEL):
        repo = parts[0].removeprefix(_HUB_MODEL).replace("--", "/")
    elif place == "LM Studio" and len(parts) > 2:
        repo = "/".join(parts[:2])
    if repo:
        label = label_of(path.name)
        yield from (f"{repo}:{label}",) if label else ()
        yield f"{repo}/{stem}"


def _with_own_name(file: FoundFile, taken: set[str]) -> FoundFile:
    """`file` with a first name that nothing found before has; at worst that is its path."""
    own = next((name for name in file.names if name not in taken), None)
    if own is None:
        own = str(file.path)
    taken.add(own)
    return replace(file, names=tuple(dict.fromkeys((own, *file.names))))
