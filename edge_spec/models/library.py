"""What user interfaces ask about models: what is here, what can be had, and whether it fits."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from edge_spec.config import ModelSettings
from edge_spec.errors import IncompatiblePairError
from edge_spec.models import inventory, store
from edge_spec.models.catalogue import Entry, HubEntry, catalogue
from edge_spec.models.header import read_header
from edge_spec.models.inventory import FoundModel, FoundPair
from edge_spec.models.memory import MemoryPlan, Request, Saving, advice, plan_memory, savings, this_machine
from edge_spec.models.pairing import check_files, raise_if_incompatible
from edge_spec.models.records import records_in
from edge_spec.models.resolve import is_missing, resolve_model

if TYPE_CHECKING:
    from edge_spec.host import PairSpec

Params = ParamSpec("Params")
Result = TypeVar("Result")

_SIZES = (
    "context_size", "kv_type_k", "kv_type_v", "flash_attention", "batch_size", "num_slots", "load_mode",
)  # fmt: skip
"""Options of `load_pair` that decide how much memory both models take."""


def _giving_back(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """`function`, after which the system has back what the headers took that it read.

    glibc keeps some 30 MB a header in an interface that goes on for hours.
    """

    @functools.wraps(function)
    def wrapper(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        finally:
            with contextlib.suppress(OSError, TypeError, AttributeError):  # other systems need none
                ctypes.CDLL(None).malloc_trim(0)

    return wrapper


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model on this machine. `problem` says why it cannot be used, in which case the facts that
    its header would tell may be None.

    `name` loads it everywhere; `place` is where it was found, `kind` what the file is ("model", or
    what only goes with one), and models with the same `vocabulary` have the same tokens. `forged`
    is the recipe of a draft made here; one that is `trimmed` cannot write every text, so it is no
    target.
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
    forged: str | None = None
    trimmed: bool = False


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
    """The memory that a pair will take, in bytes, against what there is; `advice` is a sentence.

    `fits` is false when it probably does not; `plan` has the parts and says whether it is sure, and
    `savings` are what could be lowered, those first that suffice.
    """

    mapped: int
    private: int
    available: int
    total: int
    fits: bool
    advice: str
    plan: MemoryPlan | None = None
    savings: tuple[Saving, ...] = ()


@dataclass(frozen=True, slots=True)
class PullPreview:
    """What a pull would bring: `models` by the names that load them then, `num_bytes` still to be
    downloaded of `total_bytes`, and `notes`, sentences on what was chosen and why.
    """

    models: tuple[str, ...]
    num_bytes: int
    total_bytes: int
    licence: str | None
    notes: tuple[str, ...]


@_giving_back
def installed() -> list[InstalledModel]:
    """Every model in the store, damaged ones included, by file name."""
    return [_installed(model) for model in inventory.stored_models()]


@_giving_back
def found_models() -> list[InstalledModel]:
    """Every model on this machine: in the store, and where other programs keep theirs."""
    return [_installed(model) for model in inventory.found_models()]


@_giving_back
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


def preview_pull(name: str, cancelled: Callable[[], bool]) -> PullPreview:
    """What `pull_models` would bring by this name; the hub is asked if need be, nothing is fetched.

    Raises SettingError, ModelFileError, FetchError and Cancelled.
    """
    from edge_spec.models import sources

    plan = sources.plan_pull([name], cancelled)
    licences = dict.fromkeys(wanted.licence for wanted in plan.wanted if wanted.licence)
    return PullPreview(
        models=tuple(wanted.name for wanted in plan.wanted),
        num_bytes=plan.num_bytes,
        total_bytes=sum(wanted.size for wanted in plan.wanted),
        licence=", ".join(licences) or None,
        notes=tuple(note for wanted in plan.wanted for note in wanted.notes),
    )


@_giving_back
def estimate_pair(spec: PairSpec) -> PairEstimate:
    """Whether a pair would fit in memory, by its headers.

    Of a model of the catalogue that is not here yet only the size is known. Raises ModelFileError
    and SettingError.
    """
    requests = memory_requests(spec)
    machine = this_machine()
    plan = plan_memory(requests, machine)
    fits = plan.verdict == "fits"
    return PairEstimate(
        mapped=plan.mapped,
        private=plan.private,
        available=plan.machine.available,
        total=plan.machine.total,
        fits=fits,
        advice=advice(requests, plan),
        plan=plan,
        savings=() if fits else tuple(savings(requests, machine)),
    )


def memory_requests(spec: PairSpec) -> list[Request]:
    """What `plan_memory` is to be asked about a pair. Raises ModelFileError and SettingError."""
    requests = [_request(spec.target, _settings(spec, "gpu_layers", "device"))]
    if spec.draft is not None:
        requests.append(_request(spec.draft, _settings(spec, "draft_gpu_layers", "draft_device")))
    return requests


@_giving_back
def check_models(target: str, draft: str) -> str | None:
    """Why `draft` cannot draft for `target`, or None when it can. Raises ModelFileError."""
    report = check_files(*(resolve_model(name) for name in (target, draft)))
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
        forged=facts.forged if facts else None,
        trimmed=facts is not None and facts.vocab.target_ids is not None,
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


def _is_here(entry: Entry) -> bool:
    """Whether its whole file is; the bytes are checked when they are fetched."""
    if isinstance(entry, HubEntry):
        return not is_missing(entry.name)
    try:
        return (store.store_path() / entry.file).stat().st_size == entry.size
    except OSError:
        return False


def _size_of(entry: Entry) -> int | None:
    """Bytes of a model, if anybody here knows them."""
    if not isinstance(entry, HubEntry):
        return entry.size
    return next((record.size for record in records_in(store.store_path()) if record.means(entry.ref)), None)


def _settings(spec: PairSpec, layers: str, device: str) -> ModelSettings:
    """What a plan reads of the settings that a model of the pair would be loaded with."""
    fields = {name: spec.options[name] for name in _SIZES if name in spec.options}
    if layers in spec.options:
        fields["gpu_layers"] = spec.options[layers]
    return ModelSettings(Path(), device=spec.options.get(device), **fields)


def _request(name: str, settings: ModelSettings) -> Request:
    entry = catalogue().models.get(name)
    if entry is not None and entry.size is not None and not _is_here(entry):
        return Request(replace(settings, path=Path(entry.name)), None, entry.size)
    header = read_header(resolve_model(name))
    return Request(replace(settings, path=header.path), header)
