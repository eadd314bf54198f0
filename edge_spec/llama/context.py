"""A llama_context with its batch: fill rows, decode, read logits without copying."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import llama_cpp
import numpy as np

from edge_spec.cancel import Cancel
from edge_spec.config import ModelSettings
from edge_spec.errors import Cancelled, EngineError, MemoryForeseenError
from edge_spec.llama import abi
from edge_spec.llama.model import Model, default_threads
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
    elsewhere. `busy_s` adds up the time inside llama.cpp.
    """

    def __init__(self, model: Model, settings: ModelSettings, num_outputs: int, cancel: Cancel) -> None:
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
        abi.log.forget_errors()
        self._context = llama_cpp.llama_init_from_model(model.pointer, params)
        if not self._context:
            abi.log.flush()
            reason = abi.log.last_error() or "no reason given"
            raise MemoryForeseenError(
                f"llama.cpp cannot make a context of {settings.context_size} tokens for {model.path.name}: "
                f"{reason}; try a smaller --ctx-size (its log is {abi.log.path})."
            )
        self.memory = llama_cpp.llama_get_memory(self._context)
        self._allocate()

    def _allocate(self) -> None:
        n = self.batch_size
        self.tokens = np.zeros(n, np.int32)
        self.positions = np.zeros(n, np.int32)
        self.seqs = np.zeros(n, np.int32)
        self.wanted = np.zeros(n, np.int8)
        self._one = np.ones(n, np.int32)
        # seq_id[i] points at row i's list of sequence ids, here always of length one.
        self._seq_pointers = self.seqs.ctypes.data + 4 * np.arange(n, dtype=np.uint64)
        self._batch = llama_cpp.llama_batch()
        kinds: dict[str, Any] = {field[0]: field[1] for field in llama_cpp.llama_batch._fields_}
        arrays: dict[str, np.ndarray[Any, Any]] = {
            "token": self.tokens,
            "pos": self.positions,
            "n_seq_id": self._one,
            "seq_id": self._seq_pointers,
            "logits": self.wanted,
        }
        for name, array in arrays.items():
            abi.fill(self._batch, **{name: ctypes.cast(array.ctypes.data, kinds[name])})

    def decode(self, num_rows: int) -> Logits:
        """Decode the first `num_rows` rows of the batch arrays; return the wanted rows' logits.

        Shape (rows wanted, n_vocab), float32, a view valid until the next decode. Raises
        Cancelled after an abort (rows may be half in memory: roll back every sequence) and
        EngineError when llama.cpp fails.
        """
        if not 0 < num_rows <= self.batch_size:
            raise EngineError(f"A decode of {num_rows} rows does not fit a batch of {self.batch_size}.")
        wanted = int(np.count_nonzero(self.wanted[:num_rows]))
        if wanted > self.num_outputs:
            raise EngineError(
                f"{wanted} rows of logits are wanted, but the context holds {self.num_outputs}."
            )
        if self.cancel.is_set:
            raise Cancelled
        self._batch.n_tokens = num_rows
        started = time.perf_counter()
        status = llama_cpp.llama_decode(self.pointer, self._batch)
        llama_cpp.llama_synchronize(self._context)
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
        n_vocab = self.model.num_vocab
        if wanted == 0:
            return np.empty((0, n_vocab), np.float32)
        pointer = llama_cpp.llama_get_logits(self._context)
        view: Logits = np.ctypeslib.as_array(pointer, shape=(wanted, n_vocab))
        return view

    @property
    def pointer(self) -> Any:
        """The llama_context pointer; EngineError after `close`."""
        if not self._context:
            raise EngineError(f"The context of {self.model.path.name} was closed; load the pair again.")
        return self._context

    def close(self) -> None:
        """Free the context; its model stays."""
        if self._context:
            llama_cpp.llama_free(self._context)
            self._context = None
