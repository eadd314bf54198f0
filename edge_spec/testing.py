"""A model that is a table: the engine's real code paths without a GGUF, for tests and examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from edge_spec.cancel import Cancel
from edge_spec.errors import Cancelled
from edge_spec.types import Logits, Rows


class TableModel:
    """Logits that depend on the last `order` tokens only, drawn once from `seed`.

    Two tables with seeds that differ disagree; `blend(other, w)` makes one that agrees more
    with `other` the larger w is.
    """

    def __init__(self, num_vocab: int, seed: int, order: int = 2, sharpness: float = 2.0) -> None:
        self.num_vocab = num_vocab
        self.order = order
        rng = np.random.default_rng(seed)
        shape = (*([num_vocab + 1] * order), num_vocab)
        self._table: NDArray[np.float32] = (sharpness * rng.standard_normal(shape)).astype(np.float32)

    def blend(self, other: TableModel, weight: float) -> TableModel:
        """A table `weight` of the way from this one to `other`."""
        mixed = TableModel(self.num_vocab, 0, self.order)
        mixed._table = ((1 - weight) * self._table + weight * other._table).astype(np.float32)
        return mixed

    def logits(self, tokens: Sequence[int]) -> Logits:
        """The row after `tokens`, shape (num_vocab,)."""
        tail = list(tokens[-self.order :])
        missing = self.order - len(tail)
        row: Logits = self._table[(*([self.num_vocab] * missing), *tail)]
        return row


class TableCache:
    """A KV cache whose model is a table; implements `types.KVCache` and checks its callers.

    With `replays` it behaves like recurrent memory: it can only go back to its last mark. With
    `steady_rows` 2, a row that is decoded alone has its logits the wrong way round.
    `on_append` is called before each decode with its rows, to cancel or to fail there.
    """

    def __init__(
        self,
        model: TableModel,
        *,
        context_size: int = 256,
        batch_size: int = 64,
        num_slots: int = 1,
        replays: bool = False,
        steady_rows: int = 1,
        cancel: Cancel | None = None,
        on_append: Callable[[Sequence[Rows]], None] | None = None,
    ) -> None:
        self.model = model
        self.num_vocab = model.num_vocab
        self.context_size = context_size
        self.batch_size = batch_size
        self.max_drafted = 16
        self.steady_rows = steady_rows
        self.busy_s = 0.0
        self.decodes: list[tuple[int, int]] = []
        self._held: list[list[int]] = [[] for _ in range(num_slots)]
        self._marks = [0] * num_slots
        self._replays = replays
        self._cancel = cancel
        self._on_append = on_append

    def tokens(self, seq: int) -> Sequence[int]:
        return tuple(self._held[seq])

    def length(self, seq: int) -> int:
        return len(self._held[seq])

    def sync(self, seq: int, tokens: Sequence[int]) -> int:
        held = self._held[seq]
        common = 0
        while common < min(len(held), len(tokens) - 1) and held[common] == tokens[common]:
            common += 1
        return self.rollback(seq, common)

    def rollback(self, seq: int, length: int) -> int:
        held = self._held[seq]
        if length >= len(held):
            return len(held)
        if self._replays:
            length = self._marks[seq] if self._marks[seq] <= length else 0
        del held[length:]
        self._marks[seq] = min(self._marks[seq], length)
        return length

    def mark(self, seq: int) -> None:
        self._marks[seq] = len(self._held[seq])

    def clear(self) -> None:
        for seq, held in enumerate(self._held):
            held.clear()
            self._marks[seq] = 0

    def append(self, parts: Sequence[Rows], min_rows: int = 1) -> Logits:
        if self._on_append is not None:
            self._on_append(parts)
        if self._cancel is not None and self._cancel.is_set:
            raise Cancelled
        assert sum(len(part.tokens) for part in parts) <= self.batch_size
        assert all(len(part.tokens) > 0 for part in parts)
        rows = []
        for part in parts:
            held = self._held[part.seq]
            for index, token in enumerate(part.tokens):
                assert 0 <= token < self.num_vocab
                held.append(token)
                if index >= part.wanted_from:
                    rows.append(self.model.logits(held))
            assert len(held) <= self.context_size
        num_rows = sum(len(part.tokens) for part in parts)
        if num_rows < min_rows and len(self._held[parts[-1].seq]) < self.context_size:
            num_rows = min_rows
        self.decodes.append((num_rows, len(rows)))
        sign = -1 if num_rows < self.steady_rows else 1
        return sign * np.array(rows, np.float32).reshape(len(rows), self.num_vocab)
