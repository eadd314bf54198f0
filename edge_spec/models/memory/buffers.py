"""What a context takes beside its cache: logits, room for computing, and the vocabulary.

The room for computing is the peak of llama.cpp's graph allocator. The formula was fitted to its
own figures ("compute buffer size" of dry runs with `no_alloc`, fifteen shapes of llama, qwen2,
qwen3, qwen3moe, gemma3, lfm2 and deepseek2): a layer's feed-forward takes 3 F + 4 E floats a token,
experts 2 F + 2 E each, the last step one row of logits for each row that wants them.
`scripts/measure_memory.py` holds the whole plan against a process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from edge_spec.config import ModelSettings
from edge_spec.models.header import Header
from edge_spec.models.memory.cache import num_cells

VOCAB_ENTRY_BYTES: Final = 330
"""A token in llama.cpp's vocabulary: text, score, and its place in two maps."""
_HEADER_ENTRY_BYTES: Final = 130
"""A token in our own header: its text, and an index of texts."""
WORK_BYTES: Final = 6 << 20
"""A context's graphs, its threads' usual scratch space, the tokenizer's tables."""

_ROWS_A_SLOT: Final = 8
"""Rows whose logits a round usually wants; buffers for more are touched only when K is larger."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """Bytes: `logits` for others to read; room for computing, as `compute` uses it and as it is
    `reserved`; `inputs`, what a CPU that computes no layer needs of it; the `vocabulary`."""

    logits: int
    compute: int
    reserved: int
    inputs: int
    vocabulary: int


def buffer_bytes(settings: ModelSettings, header: Header, max_outputs: int) -> Buffers:
    """The buffers of one context whose decodes want logits of `max_outputs` rows at most."""
    num_vocab = header.vocab.size
    rows = min(max_outputs, _ROWS_A_SLOT * settings.num_slots)
    return Buffers(
        logits=4 * num_vocab * rows,
        compute=_compute_bytes(settings, header, rows),
        reserved=_compute_bytes(settings, header, max_outputs),
        inputs=_mask_bytes(settings, header) + 4 * _num_tokens(settings) * header.embedding_length,
        vocabulary=num_vocab * (VOCAB_ENTRY_BYTES + _HEADER_ENTRY_BYTES),
    )


def work_bytes(settings: ModelSettings, header: Header) -> int:
    """What a CPU that computes layers takes beside the room for computing.

    Without flash attention it turns all scores into half floats, to multiply them with the cached values.
    """
    scores = 0
    if settings.flash_attention == "off" and settings.kv_type_v != "f32":
        scores = 2 * _num_tokens(settings) * num_cells(settings) * header.num_heads
    return WORK_BYTES + scores


def num_outputs(settings: ModelSettings, max_draft: int) -> int:
    """Rows of logits that a context is made for: each slot's K and one more."""
    rows = settings.num_slots * (1 + max(1, max_draft // settings.num_slots))
    return min(rows, settings.batch_size)


def _compute_bytes(settings: ModelSettings, header: Header, rows: int) -> int:
    tokens, width = _num_tokens(settings), header.embedding_length
    feed_forward = 4 * tokens * _feed_forward_width(header)
    scores = 0
    if settings.flash_attention == "off":
        scores = 4 * tokens * (num_cells(settings) * header.num_heads + 6 * width)
    last = 4 * rows * header.vocab.size + 4 * tokens * width
    return max(_mask_bytes(settings, header) + max(feed_forward, scores), last)


def _mask_bytes(settings: ModelSettings, header: Header) -> int:
    """Which token sees which cell, once more for sliding windows."""
    if not header.num_heads:
        return 0
    masks = 2 if header.own_integer("attention.sliding_window") else 1
    return (
        masks * num_cells(settings) * _num_tokens(settings) * (4 if settings.flash_attention == "off" else 2)
    )


def _num_tokens(settings: ModelSettings) -> int:
    return min(settings.batch_size, num_cells(settings))


def _feed_forward_width(header: Header) -> int:
    """Floats for one token at a layer's widest step: dense, or in all experts that it is given to."""

    def most(key: str) -> int:
        return max(header.per_layer(key), default=0)

    width, dense = header.embedding_length, most("feed_forward_length")
    hidden = max(dense, header.own_integer("ssm.inner_size"))
    experts = most("expert_used_count")
    expert_hidden = most("expert_feed_forward_length") or dense
    return max(3 * hidden + 4 * width, 2 * experts * (width + expert_hidden))
