"""Which layer lies where, and which weights the CPU backend rearranges.

Follows llama.cpp's src/llama-model.cpp (`load_tensors`), src/llama-model-loader.cpp
(`create_tensor`) and ggml-cpu/repack.cpp (`ggml_repack_get_optimal_repack_type`).
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from edge_spec.config import ModelSettings
from edge_spec.models.header import Header, TensorInfo
from edge_spec.models.memory.machine import Machine
from edge_spec.types import Device

RAM: Final = "RAM"
"""The place of what is not on a device; other places are names of devices."""

_INPUTS: Final = frozenset(
    {"token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight"}
)
"""Looked up row by row, always on the CPU and never rearranged."""

_AVX2, _AVX512 = frozenset({"AVX2"}), frozenset({"AVX512"})
_INT8, _DOT = frozenset({"NEON", "MATMUL_INT8"}), frozenset({"NEON", "DOTPROD"})
_VXE = frozenset({"VXE"})

_REPACKED: Final[dict[str, tuple[tuple[frozenset[str], int], ...]]] = {
    "Q4_0": ((_AVX2, 8), (_INT8, 4), (_DOT, 4), (_VXE, 4)),
    "Q4_K": ((_AVX2, 8), (_INT8, 8), (_DOT, 8)),
    "Q2_K": ((_AVX512, 8),),
    "Q5_K": ((_INT8, 8), (_DOT, 8)),
    "Q6_K": ((_INT8, 8), (_DOT, 8)),
    "IQ4_NL": ((_AVX2, 8), (_DOT, 4)),
    "MXFP4": ((_AVX2, 8), (_DOT, 4)),
    "Q8_0": ((_INT8, 4), (_DOT, 4)),
    "Q1_0": ((_INT8, 4), (_DOT, 4)),
}
"""By type: CPU features that it needs, and what the number of rows must be a multiple of."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of a model's weights.

    `plain` by place: used as they lie in the file, so in RAM they may be mapped. `repacked` are
    copies in RAM, whose originals are `originals` bytes of the file; under mmap those stay mapped
    and are not read again. `unread` bytes of what is plain in RAM belong to experts that a token
    is not given to.
    """

    plain: dict[str, int]
    repacked: int
    originals: int
    unread: int


def layer_places(settings: ModelSettings, header: Header, machine: Machine) -> list[str]:
    """The place of each layer and, last, of the output, by the devices' free memory."""
    num_places = header.num_layers + 1
    devices = _devices(settings, machine)
    on_gpu = num_places if settings.gpu_layers < 0 else min(settings.gpu_layers, num_places)
    if not devices or on_gpu == 0:
        return [RAM] * num_places
    free = list(itertools.accumulate(device.free_bytes or 1 for device in devices))
    shares = [part / free[-1] for part in free]
    first = num_places - on_gpu
    places = [RAM] * first
    for index in range(on_gpu):
        places.append(devices[min(bisect.bisect_right(shares, index / on_gpu), len(devices) - 1)].name)
    return places


def place_weights(header: Header, places: Sequence[str], machine: Machine) -> Weights:
    """Where every tensor goes that llama.cpp loads.

    Layers for predicting several tokens (nextn) are left in the file. With tied embeddings the
    output is the input's tensor, and gets a copy of its own where it is rearranged or on a GPU.
    """
    used = header.num_layers - header.own_integer("nextn_predict_layers")
    # Beside a GPU with pinned host memory, that takes the place of rearranged weights.
    repacks = machine.repacks and all(shares_ram(device) for device in machine.devices)
    names = {tensor.name for tensor in header.tensors}
    plain: Counter[str] = Counter()
    repacked = originals = stacks = 0
    for tensor in header.tensors:
        layer = tensor.layer
        if layer is not None and layer >= used:
            continue
        place = places[-1] if layer is None else places[min(layer, len(places) - 1)]
        again = repacks and is_repacked(tensor, machine)
        if tensor.name in _INPUTS:
            plain[RAM] += tensor.num_bytes
            if tensor.name == "token_embd.weight" and "output.weight" not in names:
                if place != RAM:
                    plain[place] += tensor.num_bytes
                elif again:
                    repacked += tensor.num_bytes
        elif place == RAM and again:
            repacked += tensor.num_bytes
            originals += tensor.num_bytes
        else:
            plain[place] += tensor.num_bytes
            if place == RAM and "_exps." in tensor.name:
                stacks += tensor.num_bytes
    count = header.own_integer("expert_count")
    asleep = max(0, count - header.own_integer("expert_used_count"))
    return Weights(dict(plain), repacked, originals, stacks * asleep // count if count else 0)


def is_repacked(tensor: TensorInfo, machine: Machine) -> bool:
    """Whether this CPU's kernels want the tensor in another order: matrices, and experts' stacks."""
    if not tensor.name.endswith(".weight") or len(_extents(tensor)) not in (2, 3):
        return False
    rules = _REPACKED.get(tensor.type.name, ())
    return any(needs <= machine.features and tensor.shape[1] % rows == 0 for needs, rows in rules)


def shares_ram(device: Device) -> bool:
    """Whether a device's memory is the machine's own: integrated GPUs and Apple's (Metal)."""
    return device.kind == "igpu" or device.name.startswith(("MTL", "Metal"))


def _devices(settings: ModelSettings, machine: Machine) -> tuple[Device, ...]:
    if settings.device is None:
        return machine.devices
    named = machine.device(settings.device)
    return () if named is None else (named,)


def _extents(tensor: TensorInfo) -> tuple[int, ...]:
    """The shape without ones at its slow end."""
    shape = tensor.shape
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    return shape
