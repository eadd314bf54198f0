"""The KV cache and recurrent state of a model, by its header.

Follows llama.cpp's src/llama-kv-cache.cpp, src/llama-memory-recurrent.cpp, `create_memory` in
src/llama-model.cpp and src/llama-hparams.cpp. Which layers have attention and which a state is
read from their tensors, so no list of architectures has to be kept. Sliding windows save nothing,
because contexts are made with the full window (`swa_full`), which alone can be rolled back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from edge_spec.config import ModelSettings
from edge_spec.models.ggml_types import TENSOR_TYPES
from edge_spec.models.header import Header, TensorInfo

CELLS: Final = 256
"""A context's tokens are rounded up to a multiple of this."""

_STATES: Final = ("ssm_", "time_mix_", "shortconv.")
_UNUSUAL: Final = frozenset(
    {"deepseek32", "deepseek4", "dots3note", "glm-dsa", "glm5-next", "hy-v4", "minimax-m3", "qwen4exp"}
)
"""Architectures that keep further caches (indexers); here only their attention is counted."""


@dataclass(frozen=True, slots=True)
class CacheBytes:
    """Bytes by place: keys and values, and recurrent state. `known` says that the layout is one
    whose formula is exact."""

    keys_values: dict[str, int]
    state: dict[str, int]
    known: bool


def num_cells(settings: ModelSettings) -> int:
    """Tokens that the cache of all slots together has room for."""
    return _padded(settings.context_size * settings.num_slots, CELLS)


def cache_bytes(settings: ModelSettings, header: Header, places: Sequence[str]) -> CacheBytes:
    """What the memory of a context takes, once for all slots."""
    layers = _layers(header)
    used = header.num_layers - header.own_integer("nextn_predict_layers")
    with_cache = used - header.own_integer("attention.shared_kv_layers")
    hybrid = any(_has_state(layer) for layer in layers)
    cells, state = num_cells(settings), 4 * _state_width(header) * max(1, settings.num_slots)
    keys_values: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for index, tensors in enumerate(layers[:used]):
        if index < with_cache and (not hybrid or _has_attention(tensors)):
            key, value = _widths(header, index, tensors)
            row = _row_bytes(settings.kv_type_k, key) + _row_bytes(settings.kv_type_v, value)
            keys_values[places[index]] += row * cells
        if _has_state(tensors):
            states[places[index]] += state
    return CacheBytes(dict(keys_values), dict(states), header.architecture not in _UNUSUAL)


def _layers(header: Header) -> list[dict[str, TensorInfo]]:
    """The tensors of each layer, by what follows `blk.N.` in their names."""
    layers: list[dict[str, TensorInfo]] = [{} for _ in range(header.num_layers)]
    for tensor in header.tensors:
        index = tensor.layer
        if index is not None and index < len(layers):
            layers[index][tensor.name.split(".", 2)[2]] = tensor
    return layers


def _has_state(tensors: dict[str, TensorInfo]) -> bool:
    return any(name.startswith(_STATES) for name in tensors)


def _has_attention(tensors: dict[str, TensorInfo]) -> bool:
    """In a hybrid: Qwen3-Next calls the input of its linear attention attn_qkv too."""
    if "attn_k.weight" in tensors or "attn_kv_a_mqa.weight" in tensors:
        return True
    return "attn_qkv.weight" in tensors and not _has_state(tensors)


def _widths(header: Header, index: int, tensors: dict[str, TensorInfo]) -> tuple[int, int]:
    """Numbers that a token's key and value take in a layer: from its matrices where it has plain
    ones, since windowed layers may have heads of their own size."""
    kv_heads = header.num_kv_heads
    heads = kv_heads[index] if index < len(kv_heads) else 0
    per_head = header.embedding_length // header.num_heads if header.num_heads else 0
    key = heads * header.own_integer("attention.key_length", per_head)
    value = heads * header.own_integer("attention.value_length", per_head)
    if header.own_integer("attention.key_length_mla") and header.own_integer("attention.value_length_mla"):
        return key, 0  # latent attention caches one vector, which keys and values are made from
    key_matrix, value_matrix = tensors.get("attn_k.weight"), tensors.get("attn_v.weight")
    if key_matrix is not None and len(key_matrix.shape) > 1:
        key = key_matrix.shape[1]
    if value_matrix is not None and len(value_matrix.shape) > 1:
        value = value_matrix.shape[1]
    return key, value


def _state_width(header: Header) -> int:
    """Floats of a layer's recurrent state for one sequence, both parts (n_embd_r, n_embd_s)."""
    width, heads = header.embedding_length, header.num_heads
    if head := header.own_integer("wkv.head_size"):
        return header.own_integer("token_shift_count", 2) * width + width * head
    if length := header.own_integer("shortconv.l_cache"):
        return width * (length - 1)
    kernel = header.own_integer("ssm.conv_kernel")
    if head := header.own_integer("kda.head_dim"):
        return 3 * (kernel - 1 if kernel else 3) * heads * head + head * head * heads
    inner, state = header.own_integer("ssm.inner_size"), header.own_integer("ssm.state_size")
    groups = header.own_integer("ssm.group_count")
    return max(0, kernel - 1) * (inner + 2 * groups * state) + state * inner


def _row_bytes(kv_type: str, width: int) -> int:
    kind = next(kind for kind in TENSOR_TYPES.values() if kind.name == kv_type.upper())
    return width * kind.block_bytes // kind.block_size


def _padded(count: int, step: int) -> int:
    return (count + step - 1) // step * step
