"""How much memory a target and perhaps a draft will take, where, and how they are best loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from edge_spec.config import MAX_DRAFT, LoadMode, ModelSettings
from edge_spec.models.header import Header
from edge_spec.models.memory.buffers import WORK_BYTES, buffer_bytes, num_outputs, work_bytes
from edge_spec.models.memory.cache import cache_bytes
from edge_spec.models.memory.machine import Machine, less_taken
from edge_spec.models.memory.placing import RAM, layer_places, place_weights, shares_ram

PROGRAM_BYTES: Final = 29 << 20
"""This program before a model is loaded: Python, numpy, llama.cpp's tables."""

_ROLES: Final[tuple[Role, ...]] = ("target", "draft")
_WORTH_COPYING: Final = 0.1
"""Share of the weights that is rearranged from which on their mapped originals are in the way."""
_SPARE: Final = 0.05
"""Share of the machine's memory that must stay free for weights to be loaded without mmap."""

Role = Literal["target", "draft"]
What = Literal["weights", "repacked", "KV cache", "state", "checkpoints", "logits", "compute", "vocabulary"]
Verdict = Literal["fits", "tight", "too small"]
"""`tight`: it probably does not fit. `too small`: it surely does not."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes that a model takes in one place for one purpose, and `least`, what it takes for certain."""

    what: What
    place: str
    num_bytes: int
    least: int


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """What one loaded model takes: `parts` of its own, and of its file's pages `mapped` that are
    read all the time (`unread` of them not for every token, in a mixture of experts) and `idle`
    originals of rearranged weights. `why` is a clause."""

    role: Role
    name: str
    load_mode: LoadMode
    why: str
    mapped: int
    unread: int
    idle: int
    parts: tuple[Part, ...]

    def total(self, what: What | None = None, place: str | None = None) -> int:
        return sum(
            part.num_bytes for part in self.parts if what in (None, part.what) and place in (None, part.place)
        )


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What the models of a pair take together, against what there is. All in bytes.

    `private` is this process's own memory, which nobody else can use. `mapped` are pages of files:
    the system may drop them, and reads them again from the disk when they are needed.
    """

    models: tuple[ModelMemory, ...]
    machine: Machine
    context_size: int

    @property
    def private(self) -> int:
        return PROGRAM_BYTES + sum(part.num_bytes for part in self._in_ram())

    @property
    def mapped(self) -> int:
        return sum(model.mapped for model in self.models)

    @property
    def idle(self) -> int:
        """Mapped pages that are not read again once the models are loaded."""
        return sum(model.idle for model in self.models)

    @property
    def needed(self) -> int:
        """What must be in memory for every token: private memory and the mapped weights."""
        return self.private + self.mapped

    @property
    def least(self) -> int:
        """Private memory that is needed for certain."""
        return sum(part.least for part in self._in_ram())

    @property
    def least_in_all(self) -> int:
        """What is needed for certain, with the mapped weights that every token reads."""
        return self.least + sum(model.mapped - model.unread for model in self.models)

    @property
    def verdict(self) -> Verdict:
        """Video memory is never surely too small: drivers lend the machine's own."""
        available, total = self.machine.available, self.machine.total
        if self.least > available or self.least_in_all > total:
            return "too small"
        return "tight" if self.needed > available or self.crowded else "fits"

    @property
    def crowded(self) -> tuple[str, ...]:
        """GPUs that have less free memory than the plan puts there."""
        return tuple(
            device.name
            for device in self.machine.devices
            if self.on_device(device.name) > device.free_bytes and not shares_ram(device)
        )

    def on_device(self, name: str) -> int:
        return sum(model.total(place=name) for model in self.models)

    def _in_ram(self) -> list[Part]:
        own = {device.name for device in self.machine.devices if not shares_ram(device)}
        return [part for model in self.models for part in model.parts if part.place not in own]


@dataclass(frozen=True, slots=True)
class Request:
    """A model that is to be loaded; its `header` is None when only its `size` is known."""

    settings: ModelSettings
    header: Header | None
    size: int = 0


def plan_memory(requests: Sequence[Request], machine: Machine) -> MemoryPlan:
    """The plan for one or two models, the target first, each in the load mode that suits it.

    The mode `auto` becomes `none` where a good part of the weights is rearranged, since mapped
    originals would stay in memory beside the copies, if all of it fits well without mmap; else
    `mmap`. With layers on a GPU it stays `auto`, and llama.cpp asks the device.
    """
    mapped = _planned(requests, ["mmap"] * len(requests), machine)
    copied = _planned(requests, ["none"] * len(requests), machine)
    room = copied.needed + int(_SPARE * machine.total) <= machine.available
    modes: list[LoadMode] = []
    reasons = []
    for request, model in zip(requests, mapped.models, strict=True):
        mode, why = request.settings.load_mode, "as it was asked for"
        if mode == "auto":
            mode, why = _suited(model, room)
        modes.append(mode)
        reasons.append(why)
    plan = _planned(requests, modes, machine)
    models = zip(plan.models, reasons, strict=True)
    return replace(plan, models=tuple(replace(model, why=why) for model, why in models))


def _suited(model: ModelMemory, room: bool) -> tuple[LoadMode, str]:
    if any(part.place != RAM for part in model.parts):
        return "auto", "layers are on a GPU, whose driver decides"
    if model.idle <= _WORTH_COPYING * (model.mapped + model.idle):
        return "mmap", "its weights are used as they lie in the file"
    if room:
        return "none", "mapped originals of rearranged weights would stay beside their copies"
    return "mmap", "memory is scarce, and mapped weights can be dropped and read again"


def _planned(requests: Sequence[Request], modes: Sequence[LoadMode], machine: Machine) -> MemoryPlan:
    models: list[ModelMemory] = []
    left = machine
    for role, request, mode in zip(_ROLES, requests, modes, strict=False):
        models.append(_model(role, request, mode, left))
        left = less_taken(left, {place: models[-1].total(place=place) for place in _places(models[-1])})
    return MemoryPlan(tuple(models), machine, requests[0].settings.context_size)


def _places(model: ModelMemory) -> set[str]:
    return {part.place for part in model.parts}


def _model(role: Role, request: Request, mode: LoadMode, machine: Machine) -> ModelMemory:
    settings, header = request.settings, request.header
    if header is None:
        work = Part("compute", RAM, WORK_BYTES, WORK_BYTES)
        return ModelMemory(role, settings.path.name, mode, "", request.size, 0, 0, (work,))
    places = layer_places(settings, header, machine)
    weights = place_weights(header, places, machine)
    cache = cache_bytes(settings, header, places)
    buffers = buffer_bytes(settings, header, num_outputs(settings, MAX_DRAFT))
    parts: list[Part] = []

    def add(what: What, place: str, num_bytes: int, *, certain: bool = True) -> None:
        if num_bytes:
            parts.append(Part(what, place, num_bytes, num_bytes if certain else 0))

    mapped = 0
    for place, num_bytes in weights.plain.items():
        if mode != "none" and place in _mappable(machine):
            mapped += num_bytes
        else:
            add("weights", place, num_bytes)
    add("repacked", RAM, weights.repacked)
    for place, num_bytes in cache.keys_values.items():
        add("KV cache", place, num_bytes, certain=cache.known)
    for place, num_bytes in cache.state.items():
        add("state", place, num_bytes)
    add("checkpoints", RAM, sum(cache.state.values()), certain=False)
    parts.append(Part("logits", RAM, buffers.logits, 4 * header.vocab.size * settings.num_slots))
    computing = set(places)
    computed = (
        work_bytes(settings, header) + buffers.compute if RAM in computing else WORK_BYTES + buffers.inputs
    )
    add("compute", RAM, computed, certain=False)
    for place in sorted(computing - {RAM}):
        add("compute", place, buffers.reserved, certain=False)
    add("vocabulary", RAM, buffers.vocabulary)
    unread, idle = (0, 0) if mode == "none" else (weights.unread, weights.originals)
    return ModelMemory(role, header.short_name, mode, "", mapped, unread, idle, tuple(parts))


def _mappable(machine: Machine) -> set[str]:
    """Places whose weights can be used where they are mapped: RAM, and Apple's GPUs."""
    return {RAM} | {device.name for device in machine.devices if device.kind == "gpu" and shares_ram(device)}
