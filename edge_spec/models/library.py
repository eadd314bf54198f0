"""What user interfaces ask about models: what is here, what can be had, and whether it fits."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edge_spec.config import ModelSettings
from edge_spec.errors import IncompatiblePairError
from edge_spec.models import inventory, store
from edge_spec.models.catalogue import ModelEntry, catalogue
from edge_spec.models.header import read_header
from edge_spec.models.inventory import FoundModel, FoundPair
from edge_spec.models.memory import (
    MemoryEstimate,
    estimate_download,
    estimate_memory,
    machine_memory,
    plan_memory,
)
from edge_spec.models.pairing import check_files, raise_if_incompatible

if TYPE_CHECKING:
    from edge_spec.host_wire import PairSpec

_SIZES = ("context_size", "kv_type_k", "kv_type_v", "num_slots")
"""Options of `load_pair` that decide how much memory a model takes, besides its layers' place."""

_GPU_BACKENDS = ("cuda", "hip", "metal", "musa", "opencl", "sycl", "vulkan", "cann")


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model on this machine. `problem` says why it cannot be used, in which case the facts that
    its header would tell may be None.

    `name` loads it everywhere; `place` is where it was found, `kind` what the file is ("model", or
    what only goes with one), and models with the same `vocabulary` have the same tokens.
    """

    name: str
    file: str
    path: Path
    size: int
    architecture: str | None
    quantization: str | None
    num_vocab: int | None
    context_length: int | None
    parameters: int | None
    licence: str | None
    problem: str | None
    place: str = "store"
    kind: str | None = None
    vocabulary: str | None = None


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """A model as a draft for one target: `reason` says why it cannot be, None that it can.

    `verdict` is the short form, such as "pairs, with 3 tokens masked"; `share` is its bytes a
    token as a share of the target's; `pays` is False when that is no less than 1.
    """

    model: InstalledModel
    verdict: str
    reason: str | None
    notes: tuple[str, ...]
    num_masked: int
    share: float
    pays: bool


@dataclass(frozen=True, slots=True)
class CataloguePair:
    """A pair of the catalogue. `num_bytes` are still to be downloaded, of `total_bytes`."""

    name: str
    description: str
    target: str
    draft: str | None
    num_bytes: int
    total_bytes: int
    licence: str

    @property
    def installed(self) -> bool:
        return self.num_bytes == 0


@dataclass(frozen=True, slots=True)
class PairEstimate:
    """The least memory that a pair takes, in bytes, against what there is; `advice` is a sentence."""

    mapped: int
    private: int
    available: int
    total: int
    fits: bool
    advice: str


def installed() -> list[InstalledModel]:
    """Every model in the store, damaged ones included, by file name."""
    return [model for model in found_models() if model.place == "store"]


def found_models() -> list[InstalledModel]:
    """Every model on this machine: in the store, and where other programs keep theirs."""
    return [_installed(model) for model in inventory.found_models()]


def drafts_for(target: str) -> list[DraftChoice]:
    """Every other model on this machine as a draft for `target`, best first.

    Takes milliseconds for files that were seen before, a few tenths of a second for each that was
    not. Raises ModelFileError for a target that cannot be used.
    """
    return [_choice(pair) for pair in inventory.drafts_for(target)]


def catalogue_pairs() -> list[CataloguePair]:
    """The pairs that can be had by name, in the catalogue's order."""
    known = catalogue()
    pairs = []
    for pair in known.pairs.values():
        entries = known.expand(pair.name)
        pairs.append(
            CataloguePair(
                name=pair.name,
                description=pair.description,
                target=pair.target,
                draft=pair.draft,
                num_bytes=sum(entry.size for entry in entries if not _is_here(entry)),
                total_bytes=sum(entry.size for entry in entries),
                licence=", ".join(dict.fromkeys(entry.licence for entry in entries)),
            )
        )
    return pairs


def pull_models(
    names: Sequence[str],
    on_progress: Callable[[str, str, int, int], None],
    cancelled: Callable[[], bool],
) -> list[Path]:
    """Bring pairs or models into the store; returns their files.

    `on_progress(model, source, done, total)` gets bytes; `cancelled()` is asked several times a
    second. Raises SettingError for an unknown name before anything is fetched, FetchError and
    its kind, OutputError (store not writable) and Cancelled.
    """
    from edge_spec.models import sources

    for name in names:
        catalogue().expand(name)
    return [path for name in names for path in sources.pull(name, on_progress, cancelled)]


def estimate_pair(spec: PairSpec) -> PairEstimate:
    """Whether a pair would fit in memory, by its headers; a lower bound.

    Of a model of the catalogue that is not here yet only the size is known. Raises ModelFileError
    and SettingError.
    """
    settings = _settings(spec, "gpu_layers")
    estimates = [_estimate(spec.target, settings)]
    if spec.draft is not None:
        estimates.append(_estimate(spec.draft, _settings(spec, "draft_gpu_layers")))
    machine = machine_memory()
    plan = plan_memory(estimates, settings.context_size, machine)
    return PairEstimate(plan.mapped, plan.private, machine.available, machine.total, plan.fits, plan.advice)


def check_models(target: str, draft: str) -> str | None:
    """Why `draft` cannot draft for `target`, or None when it can. Raises ModelFileError."""
    report = check_files(*(store.resolve(name) for name in (target, draft)))
    try:
        raise_if_incompatible(report)
    except IncompatiblePairError as error:
        return str(error)
    return None


def _installed(model: FoundModel) -> InstalledModel:
    facts = model.facts
    return InstalledModel(
        name=model.name,
        file=model.path.name,
        path=model.path,
        size=model.size,
        architecture=facts.architecture if facts else None,
        quantization=facts.quantization if facts else None,
        num_vocab=facts.vocab.size if facts else None,
        context_length=facts.context_length if facts else None,
        parameters=facts.parameters if facts else None,
        licence=model.licence,
        problem=model.problem,
        place=model.place,
        kind=facts.kind if facts else None,
        vocabulary=facts.vocab.fingerprint[:8] if facts and facts.vocab.has_texts else None,
    )


def _choice(pair: FoundPair) -> DraftChoice:
    report = pair.report
    return DraftChoice(
        model=_installed(pair.draft),
        verdict=report.verdict,
        reason=report.reasons[0] if report.reasons else None,
        notes=report.notes,
        num_masked=len(report.masked),
        share=pair.share,
        pays=not report.draft_free,
    )


def _is_here(entry: ModelEntry) -> bool:
    """Whether its whole file is; the bytes are checked when they are fetched."""
    try:
        return (store.store_path() / entry.file).stat().st_size == entry.size
    except OSError:
        return False


def _settings(spec: PairSpec, layers: str) -> ModelSettings:
    """What an estimate reads of the settings that a model of the pair would be loaded with."""
    fields = {name: spec.options[name] for name in _SIZES if name in spec.options}
    if layers in spec.options:
        fields["gpu_layers"] = spec.options[layers]
    return ModelSettings(Path(), **fields)


def _estimate(name: str, settings: ModelSettings) -> MemoryEstimate:
    entry = catalogue().models.get(name)
    if entry is not None and not _is_here(entry):
        return estimate_download(entry.size)
    return estimate_memory(settings, read_header(store.resolve(name)), gpu=_may_use_gpu())


def _may_use_gpu() -> bool:
    """Whether the installed llama.cpp has a GPU backend, by its files.

    Asking llama.cpp itself would load it into this process, which it can end.
    """
    found = importlib.util.find_spec("llama_cpp")
    folders = (
        [] if found is None else [Path(place) / "lib" for place in found.submodule_search_locations or ()]
    )
    return any(
        backend in library.name
        for folder in folders
        for library in folder.glob("*ggml-*")
        for backend in _GPU_BACKENDS
    )
