"""What user interfaces ask about models: what is here, what can be had, and whether it fits."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edge_spec.config import ModelSettings
from edge_spec.errors import IncompatiblePairError
from edge_spec.models import store
from edge_spec.models.catalogue import Entry, HubEntry, catalogue
from edge_spec.models.header import read_header
from edge_spec.models.memory import (
    MemoryEstimate,
    estimate_download,
    estimate_memory,
    machine_memory,
    plan_memory,
)
from edge_spec.models.pairing import check_pair, raise_if_incompatible
from edge_spec.models.records import records_in
from edge_spec.models.store import StoredModel

if TYPE_CHECKING:
    from edge_spec.host_wire import PairSpec

_SIZES = ("context_size", "kv_type_k", "kv_type_v", "num_slots")
"""Options of `load_pair` that decide how much memory a model takes, besides its layers' place."""

_GPU_BACKENDS = ("cuda", "hip", "metal", "musa", "opencl", "sycl", "vulkan", "cann")


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model in the store. `problem` says why it cannot be used, in which case the facts that
    its header would tell are None."""

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


@dataclass(frozen=True, slots=True)
class CataloguePair:
    """A pair of the catalogue. `num_bytes` are still to be downloaded, of `total_bytes`.

    It is not `sized` while only the hub knows the size of one of its models, which is then not
    counted: it is known once it was pulled. `pitfall` is a sentence on what to look out for.
    """

    name: str
    description: str
    target: str
    draft: str | None
    num_bytes: int
    total_bytes: int
    licence: str
    sized: bool = True
    pitfall: str | None = None

    @property
    def installed(self) -> bool:
        return self.sized and self.num_bytes == 0


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
    return [_installed(model) for model in store.list_models()]


def catalogue_pairs() -> list[CataloguePair]:
    """The pairs that can be had by name, in the catalogue's order."""
    known = catalogue()
    pairs = []
    for pair in known.pairs.values():
        entries = known.expand(pair.name)
        sizes = [_size_of(entry) for entry in entries]
        pairs.append(
            CataloguePair(
                name=pair.name,
                description=pair.description,
                target=pair.target,
                draft=pair.draft,
                num_bytes=sum(
                    size or 0 for entry, size in zip(entries, sizes, strict=True) if not _is_here(entry)
                ),
                total_bytes=sum(size or 0 for size in sizes),
                licence=", ".join(dict.fromkeys(entry.licence for entry in entries)),
                sized=None not in sizes,
                pitfall=pair.pitfall,
            )
        )
    return pairs


def pull_models(
    names: Sequence[str],
    on_progress: Callable[[str, str, int, int], None],
    cancelled: Callable[[], bool],
) -> list[Path]:
    """Bring pairs or models into the store; returns their files.

    A name is of the catalogue, `user/repo[:QUANT]` on the hub, or `file:PATH`.
    `on_progress(model, source, done, total)` gets bytes; `cancelled()` is asked several times a
    second. Raises SettingError for an unknown name before anything is fetched, FetchError and
    its kind, OutputError (store not writable) and Cancelled.
    """
    from edge_spec.models import sources
    from edge_spec.models.wanted import check_name

    for name in names:
        check_name(name, catalogue())
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
    headers = [read_header(store.resolve(name)) for name in (target, draft)]
    try:
        raise_if_incompatible(check_pair(*headers))
    except IncompatiblePairError as error:
        return str(error)
    return None


def _installed(model: StoredModel) -> InstalledModel:
    known = model.catalogue_name and catalogue().models[model.catalogue_name].licence
    known = (model.record and model.record.licence) or known
    header = model.header
    licence = header.text("general.license") if header else None
    return InstalledModel(
        name=model.name,
        file=model.file,
        path=model.path,
        size=model.size,
        architecture=header.architecture if header else None,
        quantization=header.quantization if header else None,
        num_vocab=header.vocab.size if header else None,
        context_length=header.context_length if header else None,
        parameters=header.num_parameters if header else None,
        licence=known or licence,
        problem=model.problem,
    )


def _is_here(entry: Entry) -> bool:
    """Whether its whole file is; the bytes are checked when they are fetched."""
    if isinstance(entry, HubEntry):
        return not store.is_missing(entry.name)
    try:
        return (store.store_path() / entry.file).stat().st_size == entry.size
    except OSError:
        return False


def _size_of(entry: Entry) -> int | None:
    """Bytes of a model, if anybody here knows them."""
    if not isinstance(entry, HubEntry):
        return entry.size
    return next((record.size for record in records_in(store.store_path()) if record.means(entry.ref)), None)


def _settings(spec: PairSpec, layers: str) -> ModelSettings:
    """What an estimate reads of the settings that a model of the pair would be loaded with."""
    fields = {name: spec.options[name] for name in _SIZES if name in spec.options}
    if layers in spec.options:
        fields["gpu_layers"] = spec.options[layers]
    return ModelSettings(Path(), **fields)


def _estimate(name: str, settings: ModelSettings) -> MemoryEstimate:
    entry = catalogue().models.get(name)
    if entry is not None and entry.size is not None and not _is_here(entry):
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
