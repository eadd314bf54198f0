"""Which model files a repository holds, by quantisation, and which one a name means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edge_spec.errors import SettingError
from edge_spec.models.names import HubRef, file_stem, is_safe, require_safe, split_of

PREFERRED = "Q4_K_M"
"""What is taken when nobody says which: the quantisation that most repositories have, and that
llama.cpp's -hf and Ollama take as well."""

_LABEL = re.compile(
    r"(?<![A-Za-z0-9])(?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|F(?:P)?16|F(?:P)?32)"
    r"(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(r"(?:^|[-_.])(?:mmproj|imatrix)(?:[-_.]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RepoFile:
    """One file of a repository at a commit; `sha256` is None where the hub does not tell it."""

    path: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class RepoModel:
    """A model in a repository: one file, or all parts of a split one in order.

    `label` is the quantisation in its name, in capitals, or None.
    """

    files: tuple[RepoFile, ...]
    label: str | None

    @property
    def path(self) -> str:
        return self.files[0].path

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def label_of(path: str) -> str | None:
    """The quantisation that a file's name says, else its folder's; in capitals.

    The last one counts: `Qwen3-F16-embed-Q4_K_M.gguf` is Q4_K_M.
    """
    for part in (file_stem(path), path):
        if found := _LABEL.findall(part):
            return re.sub("^FP", "F", str(found[-1]).upper())
    return None


def models_in(files: Iterable[RepoFile]) -> list[RepoModel]:
    """The models among a repository's files, by path; projectors and matrices are none.

    A file with an unsafe name, and a split model with a part missing, are left out.
    """
    ggufs = {
        file.path: file
        for file in files
        if file.path.lower().endswith(".gguf") and not _NO_MODEL.search(file_stem(file.path))
    }
    models = []
    for path, file in sorted(ggufs.items()):
        split = split_of(path)
        parts = [file] if split is None else [ggufs[name] for name in split.names if name in ggufs]
        if split is not None and (split.part > 1 or len(parts) < split.parts):
            continue
        if all(is_safe(part.path) for part in parts):
            models.append(RepoModel(tuple(parts), label_of(path)))
    return models


def name_among(model: RepoModel, models: Iterable[RepoModel]) -> str:
    """What to write behind the colon to get `model` of a repository's: its label, if that will do."""
    alike = [other for other in models if other.label == model.label]
    return model.label if model.label is not None and _in_one_form(alike) == [model] else model.path


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that a name means, and why, where the name left it open."""

    model: RepoModel
    reason: str | None


def choose(ref: HubRef, files: Sequence[RepoFile]) -> Choice:
    """The model of the repository that `ref` means; another one is never taken in its place.

    With a quantisation, or the name of a file, exactly that. Without: Q4_K_M, else the only model.
    Of a model that is there both whole and split it is the whole one, unless a part is named.
    Raises SettingError with what there is.
    """
    models = models_in(files)
    if not models:
        unsafe = [
            file.path for file in files if file.path.lower().endswith(".gguf") and not is_safe(file.path)
        ]
        if unsafe:
            require_safe(unsafe[0], ref.repo)
        raise SettingError(f"{ref.repo} holds no GGUF model; repositories with GGUFs often end in -GGUF.")
    if ref.quant is None:
        return _default(ref, _in_one_form(models))
    wanted = ref.quant.lower()
    ranked = [(names.index(wanted), model) for model in models if wanted in (names := _names(model))]
    best = min((rank for rank, _ in ranked), default=0)
    found = _in_one_form([model for rank, model in ranked if rank == best])
    if len(found) == 1:
        return Choice(found[0], None)
    if found:
        raise SettingError(
            f"{ref.repo} has {len(found)} models of {ref.quant}: name one by its file, "
            f"{_example(ref, found)}."
        )
    raise SettingError(f"{ref.repo} has no {ref.quant}; it has {_listing(_in_one_form(models))}.")


def _in_one_form(models: Sequence[RepoModel]) -> list[RepoModel]:
    """These models without the parts of one that is there as a whole too: that is one upload twice."""
    paths = {model.path for model in models}
    return [
        model
        for model in models
        if (split := split_of(model.path)) is None or f"{split.stem}.gguf" not in paths
    ]


def _default(ref: HubRef, models: list[RepoModel]) -> Choice:
    preferred = [model for model in models if model.label == PREFERRED]
    if len(preferred) == 1:
        others = f", one of {len(models)}" if len(models) > 1 else ""
        return Choice(preferred[0], f"{PREFERRED}{others}, since none was named")
    if len(models) == 1:
        return Choice(models[0], f"{name_among(models[0], models)}, the only one")
    if preferred:
        raise SettingError(
            f"{ref.repo} has {len(preferred)} models of {PREFERRED}: name one by its file, "
            f"{_example(ref, preferred)}."
        )
    raise SettingError(
        f"{ref.repo} has no {PREFERRED}, which is taken when none is named; say which: {_listing(models)}."
    )


def _names(model: RepoModel) -> list[str]:
    """What names this model, the most exact first: path, file, either without part number and
    ending, quantisation."""
    path = model.path.lower()
    name, stem = path.rpartition("/")[2], file_stem(model.path).lower()
    label = [model.label.lower()] if model.label else []
    return [path, name, path.removesuffix(".gguf"), f"{stem}.gguf", stem, *label]


def _example(ref: HubRef, models: list[RepoModel]) -> str:
    return " or ".join(f"{ref.repo}:{model.path}" for model in models[:4])


def _listing(models: list[RepoModel]) -> str:
    """Every model as it can be named, with its size."""
    return ", ".join(f"{name_among(model, models)} ({_size(model.size)})" for model in models)


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"
