"""What could be lowered so that a plan fits, and what each would save."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from edge_spec.models.ggml_types import TensorType
from edge_spec.models.memory.machine import Machine
from edge_spec.models.memory.plan import MemoryPlan, Request, plan_memory
from edge_spec.sizes import size_text

_LEAST_CONTEXT: Final = 512
_SMALL_BITS: Final = 4.85
"""Bits a weight of Q4_K_M, which is advised for what is larger."""
_SMALL: Final = ("Q4_", "Q3_", "Q2_", "Q1_", "IQ", "TQ", "MXFP4", "NVFP4")
_WORTH_SAYING: Final = 0.01
"""Share of the memory needed that a change must save."""


@dataclass(frozen=True, slots=True)
class Saving:
    """A change, as a clause that begins with a verb; the bytes of memory (or of video memory
    where that is short) that it saves; whether the plan fits then."""

    change: str
    num_bytes: int
    fits: bool


def savings(requests: Sequence[Request], machine: Machine) -> list[Saving]:
    """Changes that save memory, those first that suffice alone, then the greatest."""
    plan = plan_memory(requests, machine)
    found = [
        Saving(change, saved, after.verdict == "fits")
        for change, after in _changes(requests, plan)
        if (saved := _saved(plan, after)) > _WORTH_SAYING * plan.needed
    ]
    return sorted(found, key=lambda saving: (not saving.fits, -saving.num_bytes))


def advice(requests: Sequence[Request], plan: MemoryPlan) -> str:
    """What is needed, what is free, and what to do about it, in a sentence or two."""
    one = len(plan.models) == 1
    models, verb = ("The model", "needs") if one else ("The target and the draft", "need")
    machine = plan.machine
    free = f"{size_text(machine.available)} of {size_text(machine.total)} are free"
    if plan.verdict == "too small":
        needed = size_text(plan.least_in_all)
        sentence = f"{models} would need at least {needed} of memory {_shares(plan)}, but {free}"
    elif plan.needed > machine.available:
        sentence = f"{models} probably {verb} {size_text(plan.needed)} of memory {_shares(plan)}, but {free}"
    elif plan.crowded:
        name = plan.crowded[0]
        device = machine.device(name)
        left = size_text(device.free_bytes if device else 0)
        sentence = (
            f"{models} probably {verb} {size_text(plan.on_device(name))} on {name}, where {left} are free"
        )
    else:
        return f"{models} {verb} {size_text(plan.needed)} of memory {_shares(plan)}; {free}."
    best = savings(requests, machine)[:3]
    ways = ", or ".join(f"{saving.change} (saves {size_text(saving.num_bytes)})" for saving in best)
    return f"{sentence}: {ways or 'choose a smaller model'}."


def _shares(plan: MemoryPlan) -> str:
    weights = plan.mapped + sum(model.total("weights") + model.total("repacked") for model in plan.models)
    cache = sum(model.total("KV cache") for model in plan.models)
    return f"({size_text(weights)} weights, {size_text(cache)} KV cache)"


def _saved(before: MemoryPlan, after: MemoryPlan) -> int:
    on_gpus = sum(before.on_device(name) - after.on_device(name) for name in before.crowded)
    return max(on_gpus, before.needed - after.needed)


def _changes(requests: Sequence[Request], plan: MemoryPlan) -> Iterator[tuple[str, MemoryPlan]]:
    """Each change with the plan that it leads to."""
    machine = plan.machine
    context = plan.context_size
    while context // 2 >= _LEAST_CONTEXT:
        context //= 2
        after = plan_memory(_with(requests, context_size=context), machine)
        if after.verdict == "fits" or context // 2 < _LEAST_CONTEXT:
            yield f"lower the context to {context} tokens (-c {context})", after
            break
    first = requests[0].settings
    wide = {first.kv_type_k, first.kv_type_v} & {"f32", "f16", "bf16"}
    if wide and first.flash_attention != "off":
        after = plan_memory(_with(requests, kv_type_k="q8_0", kv_type_v="q8_0"), machine)
        yield "cache in q8_0 (-ctk q8_0 -ctv q8_0)", after
    for index, request in enumerate(requests):
        smaller = _requantised(request)
        if smaller is not None:
            after = plan_memory([*requests[:index], smaller, *requests[index + 1 :]], machine)
            yield f"requantise the {plan.models[index].role} to Q4_K_M (models quantize)", after
    if any(request.settings.load_mode == "none" for request in requests):
        yield "map the weights (--load-mode mmap)", plan_memory(_with(requests, load_mode="mmap"), machine)
    yield from _fewer_layers(requests, plan)
    if len(requests) > 1:
        yield "leave the draft out (--drafter none)", plan_memory(requests[:1], machine)


def _fewer_layers(requests: Sequence[Request], plan: MemoryPlan) -> Iterator[tuple[str, MemoryPlan]]:
    """Layers moved off a GPU that has too little memory for them, the target's first."""
    if not plan.crowded:
        return
    for index, (request, flag) in enumerate(zip(requests, ("-ngl", "-ngld"), strict=False)):
        if request.header is None:
            continue
        every = request.header.num_layers + 1
        held = request.settings.gpu_layers
        for layers in range((every if held < 0 else min(held, every)) - 1, -1, -1):
            changed = replace(request, settings=replace(request.settings, gpu_layers=layers))
            after = plan_memory([*requests[:index], changed, *requests[index + 1 :]], plan.machine)
            if not after.crowded or layers == 0:
                role = plan.models[index].role
                yield f"put {layers} of the {role}'s {every} layers on the GPU ({flag} {layers})", after
                break


def _with(requests: Sequence[Request], **changes: Any) -> list[Request]:
    return [replace(request, settings=replace(request.settings, **changes)) for request in requests]


def _requantised(request: Request) -> Request | None:
    """The model with its matrices at Q4_K_M's mean size; None where they are that small already."""
    header = request.header
    if header is None or not header.num_parameters or header.quantization.startswith(_SMALL):
        return None
    share = header.num_parameters * _SMALL_BITS / 8 / sum(tensor.num_bytes for tensor in header.tensors)
    if share > 0.9:
        return None
    tensors = tuple(
        replace(tensor, type=_shrunk(tensor.type, share)) if len(tensor.shape) > 1 else tensor
        for tensor in header.tensors
    )
    return replace(request, header=replace(header, tensors=tensors))


def _shrunk(kind: TensorType, share: float) -> TensorType:
    blocks = 256 // kind.block_size or 1
    num_bytes = max(1, round(blocks * kind.block_bytes * share))
    return TensorType(kind.name, blocks * kind.block_size, num_bytes)
