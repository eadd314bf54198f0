"""Foresee from headers alone whether two models fit in memory, before llama.cpp tries.

A wrong "no" is worse than none, so every figure is a lower bound, and weights that are mapped
from the file count only against the machine's whole memory: the system can drop their pages.
Figures were measured with llama.cpp on AVX-512 (CPU_REPACK, KV and RssAnon, 1.5B and 0.5B).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import psutil

from edge_spec.config import ModelSettings
from edge_spec.errors import MemoryForeseenError
from edge_spec.models.ggml_types import TENSOR_TYPES
from edge_spec.models.header import Header

_REPACKED = frozenset({"Q4_0", "Q4_K", "IQ4_NL"})
"""Types that the CPU backend keeps a second, rearranged copy of on every machine with AVX2."""
_VOCAB_ENTRY_BYTES = 330
_WORK_BYTES = 12 << 20
_OUTPUT_ROWS = 8


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes that a model takes at least: mapped from its file, and the process's own."""

    mapped: int
    repacked: int
    kv_cache: int
    other: int

    @property
    def private(self) -> int:
        return self.repacked + self.kv_cache + self.other


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """Bytes in the machine and bytes that can be had now, swap not counted."""

    total: int
    available: int


def machine_memory() -> MachineMemory:
    memory = psutil.virtual_memory()
    return MachineMemory(memory.total, memory.available)


def estimate_download(size: int) -> MemoryEstimate:
    """What a model of `size` bytes takes at least, whose header is not here yet."""
    return MemoryEstimate(mapped=size, repacked=0, kv_cache=0, other=_WORK_BYTES)


def estimate_memory(settings: ModelSettings, header: Header, *, gpu: bool = False) -> MemoryEstimate:
    """What loading a model with these settings takes at least.

    `gpu` says that llama.cpp has a GPU with memory of its own: unless the settings keep every
    layer off it, only what stays in the machine's memory for certain is counted.
    """
    on_cpu = settings.gpu_layers == 0 or not gpu
    rows = _OUTPUT_ROWS * settings.num_slots
    return MemoryEstimate(
        mapped=header.size if on_cpu else 0,
        repacked=_repacked_bytes(header) if on_cpu else 0,
        kv_cache=_kv_bytes(settings, header) if on_cpu else 0,
        other=_WORK_BYTES + header.vocab.size * (_VOCAB_ENTRY_BYTES + 4 * rows),
    )


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What the models of a pair take at least, against what there is; `advice` is a sentence."""

    mapped: int
    private: int
    machine: MachineMemory
    advice: str

    @property
    def fits(self) -> bool:
        needed = self.private + self.mapped
        return self.private <= self.machine.available and needed <= self.machine.total


def plan_memory(estimates: Sequence[MemoryEstimate], context_size: int, machine: MachineMemory) -> MemoryPlan:
    """Whether one or two models fit together; the target comes first."""
    private = sum(estimate.private for estimate in estimates)
    mapped = sum(estimate.mapped for estimate in estimates)
    cache = sum(estimate.kv_cache for estimate in estimates)
    models = "The model" if len(estimates) == 1 else "The target and the draft"
    figures = (
        f"at least {_gb(private + mapped)} of memory ({_gb(mapped)} weights, {_gb(cache)} KV cache, "
        f"{_gb(private - cache)} other)"
    )
    free = f"{_gb(machine.available)} of {_gb(machine.total)} are free"
    verb = "needs" if len(estimates) == 1 else "need"
    plan = MemoryPlan(mapped, private, machine, f"{models} {verb} {figures}; {free}.")
    if plan.fits:
        return plan
    # Whichever is the larger share is what lowering helps with.
    context = f"a context below {context_size} tokens (-c)"
    smaller = "a smaller quantisation or a smaller model"
    choice = f"{context} or {smaller}" if cache > private + mapped - cache else f"{smaller} or {context}"
    return replace(plan, advice=f"{models} would need {figures}, but {free}: choose {choice}.")


def check_memory(
    settings: ModelSettings,
    header: Header,
    draft_settings: ModelSettings | None = None,
    draft_header: Header | None = None,
    *,
    gpu: bool = False,
    machine: Callable[[], MachineMemory] = machine_memory,
) -> None:
    """Raise MemoryForeseenError, naming needed and free, if the models surely do not fit."""
    estimates = [estimate_memory(settings, header, gpu=gpu)]
    if draft_settings is not None and draft_header is not None:
        estimates.append(estimate_memory(draft_settings, draft_header, gpu=gpu))
    plan = plan_memory(estimates, settings.context_size, machine())
    if not plan.fits:
        raise MemoryForeseenError(plan.advice)


def _repacked_bytes(header: Header) -> int:
    """Matrices inside the layers whose rows come in eights (ggml-cpu/repack.cpp)."""
    return sum(
        tensor.num_bytes
        for tensor in header.tensors
        if tensor.type.name in _REPACKED
        and tensor.name.startswith("blk.")
        and len(tensor.shape) == 2
        and tensor.shape[1] % 8 == 0
    )


def _kv_bytes(settings: ModelSettings, header: Header) -> int:
    """Layers x heads x context x slots x (key + value) x bytes; 0 where the layout is not the plain one.

    Layers without attention have no heads. Latent attention (DeepSeek), shared caches (Gemma 3n)
    and layers mostly without attention (Qwen3-Next) keep less than the formula says, so they are
    not counted at all.
    """
    special = ("attention.kv_lora_rank", "attention.shared_kv_layers", "full_attention_interval")
    mostly_linear = header.architecture in ("qwen3next", "qwen35", "qwen35moe")
    if mostly_linear or any(header.own_integer(key) for key in special) or header.num_heads == 0:
        return 0
    per_head = header.embedding_length // header.num_heads
    key_length = header.own_integer("attention.key_length", per_head)
    value_length = header.own_integer("attention.value_length", per_head)
    layers = header.num_kv_heads[: header.num_layers]
    bytes_per_head = _bytes_per_weight(settings.kv_type_k) * key_length
    bytes_per_head += _bytes_per_weight(settings.kv_type_v) * value_length
    return int(sum(layers) * settings.context_size * settings.num_slots * bytes_per_head)


def _bytes_per_weight(kv_type: str) -> float:
    kind = next(kind for kind in TENSOR_TYPES.values() if kind.name == kv_type.upper())
    return kind.block_bytes / kind.block_size


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"
