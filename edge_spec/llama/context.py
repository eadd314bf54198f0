"""A llama_context with its batch: fill rows, decode, read logits without copying."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np

from edge_spec.cancel import Cancel
from edge_spec.config import ModelSettings
from edge_spec.errors import Cancelled, EngineError
from edge_spec.llama import abi
from edge_spec.llama.model import Model, default_threads
from edge_spec.llama.skip import LayerSkip
from edge_spec.types import Logits

_FLASH = {
    "auto": llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}
_ABORTED = 2


class Context:
    """A model's computing state: its KV memory and one reusable batch.

    `num_outputs` is the most rows of one decode whose logits are wanted. A decode stops
    within milliseconds after `cancel` is set where the CPU computes, and between chunks
    elsewhere. `busy_s` adds up the time inside llama.cpp. `skip` leaves layers out of decodes.
    """

    def __init__(
        self,
        model: Model,
        settings: ModelSettings,
        num_outputs: int,
        cancel: Cancel,
        skip: LayerSkip | None = None,
    ) -> None:
        self.model = model
        self.cancel = cancel
        self.batch_size = settings.batch_size
        self.num_outputs = max(num_outputs, settings.num_slots)
        self.num_slots = settings.num_slots
        self.context_size = settings.context_size
        self.busy_s = 0.0
        threads = settings.threads or default_threads()
        self._abort = abi.abort_callback()
        params = abi.fill(
            llama_cpp.llama_context_default_params(),
            n_ctx=settings.context_size * settings.num_slots,
            n_batch=settings.batch_size,
            n_ubatch=settings.batch_size,
            n_seq_max=settings.num_slots,
            n_outputs_max=self.num_outputs,
            n_threads=threads,
            n_threads_batch=settings.threads_batch or threads,
            type_k=getattr(llama_cpp, f"GGML_TYPE_{settings.kv_type_k.upper()}"),
            type_v=getattr(llama_cpp, f"GGML_TYPE_{settings.kv_type_v.upper()}"),
            flash_attn_type=_FLASH[settings.flash_attention],
            # Ragged slots in separate streams would be split into several passes.
            kv_unified=settings.num_slots > 1,
            # A partial window cannot be rolled back once it was overwritten.
            swa_full=True,
            abort_callback=self._abort,
            abort_callback_data=cancel.address,
        )
        if skip is not None:
            abi.fill(params, cb_eval=skip.callback)
        abi.log.forget_errors()
        self._context = llama_cpp.llama_init_from_model(model.pointer, params)
        if not self._context:
            abi.log.flush()
            reason = abi.log.last_error() or "no reason given"
            raise EngineError(
                f"llama.cpp cannot make a context of {settings.context_size} tokens for {model.path.name}: "
                f"{reason} (its log is {abi.log.path})."
            )
        self._allocate()

    def _allocate(self) -> None:
        """The batch's arrays, in ctypes: after a decode every numpy function not used yet costs
        50 us, since the processor's caches hold nothing but the model's weights."""
        n = self.batch_size
        # Any: typeshed wants a list of ctypes objects for what takes every sequence of ints.
        self._tokens: Any = (llama_cpp.llama_token * n)()
        self._positions: Any = (llama_cpp.llama_pos * n)()
        self._seqs: Any = (llama_cpp.llama_seq_id * n)()
        self._wanted: Any = (ctypes.c_int8 * n)()
        self._one = (ctypes.c_int32 * n)(*[1] * n)
        # seq_id[i] points at row i's list of sequence ids, here always of length one.
        seq_size = ctypes.sizeof(llama_cpp.llama_seq_id)
        first = ctypes.addressof(self._seqs)
        self._seq_pointers = (ctypes.c_void_p * n)(*[first + seq_size * i for i in range(n)])
        self._batch = llama_cpp.llama_batch()
        kinds: dict[str, Any] = {field[0]: field[1] for field in llama_cpp.llama_batch._fields_}
        arrays: dict[str, ctypes.Array[Any]] = {
            "token": self._tokens,
            "pos": self._positions,
            "n_seq_id": self._one,
            "seq_id": self._seq_pointers,
            "logits": self._wanted,
        }
        for name, array in arrays.items():
            abi.fill(self._batch, **{name: ctypes.cast(array, kinds[name])})
        self._logits_at = 0
        self._logits: Logits = np.empty((0, self.model.num_vocab), np.float32)

    def put(self, row: int, tokens: Sequence[int], position: int, seq: int, wanted_from: int) -> None:
        """Put tokens of sequence `seq` into the batch from `row` on, the first at `position`.

        Logits are wanted of those from index `wanted_from` on.
        """
        count = len(tokens)
        end = row + count
        self._tokens[row:end] = tokens
        self._positions[row:end] = range(position, position + count)
        self._seqs[row:end] = (seq,) * count
        self._wanted[row:end] = (0,) * wanted_from + (1,) * (count - wanted_from)

    def decode(self, num_rows: int, num_wanted: int) -> Logits:
        """Decode the first `num_rows` rows of the batch arrays; return the wanted rows' logits.

        Shape (num_wanted, n_vocab), float32, a view valid until the next decode. Raises
        Cancelled after an abort (rows may be half in memory: roll back every sequence) and
        EngineError when llama.cpp fails.
        """
        if not 0 < num_rows <= self.batch_size:
            raise EngineError(f"A decode of {num_rows} rows does not fit a batch of {self.batch_size}.")
        if num_wanted > self.num_outputs:
            raise EngineError(
                f"{num_wanted} rows of logits are wanted, but the context holds {self.num_outputs}."
            )
        context = self.pointer
        self._batch.n_tokens = num_rows
        started = time.perf_counter()
        status = llama_cpp.llama_decode(context, self._batch)
        llama_cpp.llama_synchronize(context)
        self.busy_s += time.perf_counter() - started
        if status == _ABORTED or (status != 0 and self.cancel.is_set):
            raise Cancelled
        if status != 0:
            abi.log.flush()
            why = "no room in its KV cache" if status == 1 else abi.log.last_error() or f"status {status}"
            raise EngineError(
                f"llama.cpp failed to decode {num_rows} rows with {self.model.path.name}: {why}; "
                f"its log is {abi.log.path}."
            )
        return self._view()[:num_wanted] if num_wanted else self._logits[:0]

    def _view(self) -> Logits:
        """All rows that the context can hold, over llama.cpp's own buffer.

        Only rows of the last decode may be read: the buffer grows, and moves, when more are
        wanted than ever before.
        """
        address = abi.logits_address(self._context)
        if address != self._logits_at:
            self._logits_at = address
            pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
            self._logits = np.ctypeslib.as_array(pointer, shape=(self.num_outputs, self.model.num_vocab))
        return self._logits

    def set_threads(self, one_row: int, several_rows: int) -> None:
        """From the next decode on, use so many threads."""
        llama_cpp.llama_set_n_threads(self.pointer, one_row, several_rows)

    @property
    def pointer(self) -> Any:
        """The llama_context pointer; EngineError after `close`."""
        if not self._context:
            raise EngineError(f"The context of {self.model.path.name} was closed; load the pair again.")
        return self._context

    @property
    def memory(self) -> Any:
        """The llama_memory handle of this context; EngineError after `close`."""
        return llama_cpp.llama_get_memory(self.pointer)

    def close(self) -> None:
        """Free the context; its model stays."""
        if self._context:
            llama_cpp.llama_free(self._context)
            self._context = None
