"""The cache owner: it alone knows which tokens a context holds.

Every removal's result is checked and the end position asserted, because llama.cpp reports
success for some rollbacks that left a wrong state behind. How a sequence is rolled back is
chosen once, at load, by a self-test that rolls back and compares logits; a model's name or
architecture is never asked.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Literal, Protocol

import llama_cpp
import numpy as np

from edge_spec.errors import Cancelled, EngineError
from edge_spec.llama.context import Context
from edge_spec.types import Logits, Rows

Strategy = Literal["trim", "checkpoint", "reread"]


class _Rollback(Protocol):
    """One way to shorten a sequence."""

    def mark(self, seq: int, length: int) -> None:
        """The sequence holds `length` tokens that are sure to stay."""
        ...

    def shorten(self, seq: int, length: int) -> int:
        """Shorten to at most `length`; return the length reached."""
        ...

    def forget(self, seq: int) -> None:
        """The sequence was emptied."""
        ...


class _Trim:
    """Remove cells from a position on; exact for attention memory."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def mark(self, seq: int, length: int) -> None:
        pass

    def shorten(self, seq: int, length: int) -> int:
        if not llama_cpp.llama_memory_seq_rm(self._context.memory, seq, length, -1):
            raise EngineError(
                f"llama.cpp refused to roll sequence {seq} of {self._context.model.path.name} "
                f"back to {length} tokens, though its self-test passed; please report this model."
            )
        return length

    def forget(self, seq: int) -> None:
        pass


class _Checkpoint:
    """Restore the state saved at the last mark; what followed it must be decoded again.

    For memory that folds all tokens into one state (recurrent and hybrid models).
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._saved: dict[int, tuple[int, ctypes.Array[ctypes.c_uint8]]] = {}

    def mark(self, seq: int, length: int) -> None:
        if seq in self._saved and self._saved[seq][0] == length:
            return
        flags = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        pointer = self._context.pointer
        size = llama_cpp.llama_state_seq_get_size_ext(pointer, seq, flags)
        buffer = (ctypes.c_uint8 * size)()
        if llama_cpp.llama_state_seq_get_data_ext(pointer, buffer, size, seq, flags) != size:
            raise EngineError(f"llama.cpp could not save the state of {self._context.model.path.name}.")
        self._saved[seq] = (length, buffer)

    def shorten(self, seq: int, length: int) -> int:
        saved_length, buffer = self._saved.get(seq, (0, None))
        if buffer is None or saved_length > length or saved_length == 0:
            llama_cpp.llama_memory_seq_rm(self._context.memory, seq, -1, -1)
            self._saved.pop(seq, None)
            return 0
        flags = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        size = len(buffer)
        if llama_cpp.llama_state_seq_set_data_ext(self._context.pointer, buffer, size, seq, flags) != size:
            raise EngineError(f"llama.cpp could not restore the state of {self._context.model.path.name}.")
        # The attention half of a hybrid memory is not in the partial state: trim it.
        llama_cpp.llama_memory_seq_rm(self._context.memory, seq, saved_length, -1)
        return saved_length

    def forget(self, seq: int) -> None:
        self._saved.pop(seq, None)


class _Reread:
    """Empty the sequence and read it again: always right, and slow.

    For memory that neither trims nor restores soundly.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def mark(self, seq: int, length: int) -> None:
        pass

    def shorten(self, seq: int, length: int) -> int:
        llama_cpp.llama_memory_seq_rm(self._context.memory, seq, -1, -1)
        return 0

    def forget(self, seq: int) -> None:
        pass


class Cache:
    """The KV memory of one context, by sequence; implements `types.KVCache`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._tokens: list[list[int]] = [[] for _ in range(context.num_slots)]
        self._rollback_s = 0.0
        self._rollback: _Rollback
        self.strategy: Strategy = self._choose_rollback()
        self.steady_rows = self._find_steady_rows() if self.strategy == "trim" else 1

    @property
    def num_vocab(self) -> int:
        return self.context.model.num_vocab

    @property
    def context_size(self) -> int:
        return self.context.context_size

    @property
    def batch_size(self) -> int:
        return self.context.batch_size

    @property
    def max_drafted(self) -> int:
        return self.context.num_outputs // self.context.num_slots - 1

    @property
    def busy_s(self) -> float:
        return self.context.busy_s + self._rollback_s

    def tokens(self, seq: int) -> Sequence[int]:
        """The tokens that sequence `seq` holds, oldest first; do not change them."""
        return self._tokens[seq]

    def length(self, seq: int) -> int:
        return len(self._tokens[seq])

    def sync(self, seq: int, tokens: Sequence[int]) -> int:
        """Keep the longest common prefix with `tokens`, less the last one; return its length.

        The last token is left out since its logits are wanted and must be decoded for.
        """
        held = self._tokens[seq]
        if self._end(seq) != len(held) - 1:
            # An interrupt struck between a change of the memory and its record here.
            self._empty(seq)
        common = min(len(held), len(tokens) - 1)
        if held[:common] != tokens[:common]:
            common = next(i for i, (a, b) in enumerate(zip(held, tokens, strict=False)) if a != b)
        return self.rollback(seq, common)

    def rollback(self, seq: int, length: int) -> int:
        """Shorten `seq` to `length` tokens, or to fewer where the memory cannot stop there.

        Returns the length reached; the caller decodes again what is missing.
        """
        held = self._tokens[seq]
        if length >= len(held):
            return len(held)
        if length == 0:
            self._empty(seq)
            return 0
        del held[length:]  # first the record: what the memory holds beyond it, `sync` can see
        started = time.perf_counter()
        reached = self._rollback.shorten(seq, length)
        self._rollback_s += time.perf_counter() - started
        del held[reached:]
        self._check_end(seq)
        return reached

    def mark(self, seq: int) -> None:
        """What `seq` holds now will stay: a memory that needs checkpoints saves one."""
        started = time.perf_counter()
        self._rollback.mark(seq, len(self._tokens[seq]))
        self._rollback_s += time.perf_counter() - started

    def clear(self) -> None:
        """Forget every sequence."""
        for seq in range(len(self._tokens)):
            self._empty(seq)

    def append(self, parts: Sequence[Rows], min_rows: int = 1) -> Logits:
        """Append rows to their sequences in one decode; return the wanted rows' logits in order.

        Shape (rows wanted, n_vocab), a view valid until the next decode. Below `min_rows`, rows
        are decoded behind the last sequence and removed at once, if it has room.
        When the decode is cancelled or fails, no sequence is longer than before, and the
        exception passes on.
        """
        context = self.context
        row = num_wanted = 0
        lengths = [len(self._tokens[part.seq]) for part in parts]
        for part, length in zip(parts, lengths, strict=True):
            end = row + len(part.tokens)
            if end > context.batch_size:
                raise EngineError(f"{end} rows do not fit a batch of {context.batch_size}.")
            context.put(row, part.tokens, length, part.seq, part.wanted_from)
            num_wanted += len(part.tokens) - part.wanted_from
            row = end
        if context.cancel.is_set:
            raise Cancelled
        last = parts[-1]
        end = lengths[-1] + len(last.tokens)
        num_padding = max(0, min(min_rows - row, self.context_size - end))
        if num_padding:
            # Their logits are wanted, too: llama.cpp computes the last layer for wanted rows alone.
            context.put(row, [last.tokens[-1]] * num_padding, end, last.seq, 0)
        try:
            logits = context.decode(row + num_padding, num_wanted + num_padding)[:num_wanted]
            for part in parts:
                self._tokens[part.seq].extend(part.tokens)
            if num_padding:
                self._rollback.shorten(last.seq, end)
        except BaseException:
            for part, length in zip(parts, lengths, strict=True):
                self._discard_after(part.seq, length)
            raise
        return logits

    def close(self) -> None:
        self.context.close()

    # -- inside

    def _empty(self, seq: int) -> None:
        llama_cpp.llama_memory_seq_rm(self.context.memory, seq, -1, -1)
        self._tokens[seq].clear()
        self._rollback.forget(seq)
        self._check_end(seq)

    def _discard_after(self, seq: int, length: int) -> None:
        """Remove what a decode that failed may have written behind the first `length` tokens."""
        held = self._tokens[seq]
        del held[length:]
        if self._end(seq) != length - 1:
            del held[self._rollback.shorten(seq, length) :]
        if self._end(seq) != len(held) - 1:
            self._empty(seq)

    def _end(self, seq: int) -> int:
        """The position of the last token in memory; -1 when there is none."""
        return int(llama_cpp.llama_memory_seq_pos_max(self.context.memory, seq))

    def _check_end(self, seq: int) -> None:
        end, held = self._end(seq), len(self._tokens[seq])
        if end != held - 1:
            raise EngineError(
                f"{self.context.model.path.name}: sequence {seq} ends at position {end} after a rollback "
                f"to {held} tokens; please report this model."
            )

    def _choose_rollback(self) -> Strategy:
        """Roll back and decode again; the first way that reproduces the logits is used."""
        ways: tuple[tuple[Strategy, _Rollback], ...] = (
            ("trim", _Trim(self.context)),
            ("checkpoint", _Checkpoint(self.context)),
        )
        for name, way in ways:
            self._rollback = way
            try:
                sound = self._reproduces_logits()
            except EngineError:
                sound = False
            self.clear()
            if sound:
                return name
        self._rollback = _Reread(self.context)
        return "reread"

    def _reproduces_logits(self) -> bool:
        num_vocab = self.context.model.num_vocab
        prefix, kept, undone = (
            [token % num_vocab for token in range(start, start + 3)] for start in (40, 50, 60)
        )
        self._empty(0)
        self.append([Rows(0, prefix, 3)])
        self.mark(0)
        fresh = self.append([Rows(0, kept, 2)]).copy()
        for _ in range(2):
            if self.rollback(0, len(prefix)) != len(prefix):
                return False
            self.append([Rows(0, undone, 2)])
            if self.rollback(0, len(prefix)) != len(prefix):
                return False
            again = self.append([Rows(0, kept, 2)]).copy()
        return bool(np.allclose(fresh, again, rtol=0, atol=1e-3 * max(1.0, float(np.abs(fresh).max()))))

    def _find_steady_rows(self) -> int:
        """Whether a row has the same logits, to the bit, decoded alone and beside others.

        Where only the row that is alone differs, as with llamafile's BF16 kernels on CPUs, 2.
        """
        num_vocab = self.context.model.num_vocab
        prefix, tokens = ([token % num_vocab for token in range(start, start + 4)] for start in (40, 50))

        def first_row(width: int) -> bytes:
            self.rollback(0, len(prefix))
            row: bytes = self.append([Rows(0, tokens[:width], 0)])[0].tobytes()
            return row

        self.append([Rows(0, prefix, len(prefix))])
        alone, beside_one = first_row(1), first_row(2)
        steady = 2 if alone != beside_one and first_row(4) == beside_one else 1
        self.clear()
        return steady
