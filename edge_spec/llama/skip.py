"""Decode as if some layers were not there, without writing another file.

llama.cpp calls back after each node of its graph that one asks for. The output of the last
skipped layer is replaced with what went into the first, so the block of layers becomes the
identity; its attention still runs, on a cache that nothing reads from.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp
from llama_cpp._ggml import libggml

from edge_spec.errors import EngineError


class LayerSkip:
    """Given to a Context, leaves the layers `first` .. `end - 1` out of its decodes; none at first.

    The first layer and the last must stay. Relies on the name `l_out-N` that llama.cpp gives each
    layer's output.
    """

    def __init__(self) -> None:
        self._ggml: ctypes.CDLL = libggml
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self._ggml.ggml_get_name.restype = ctypes.c_char_p
        self._ggml.ggml_get_name.argtypes = [pointer]
        self._ggml.ggml_nbytes.restype = size
        self._ggml.ggml_nbytes.argtypes = [pointer]
        for function in (self._ggml.ggml_backend_tensor_get, self._ggml.ggml_backend_tensor_set):
            function.restype = None
            function.argtypes = [pointer, pointer, size, size]
        self._before = self._last = b""
        self._saved: Any = None
        self._num_skipped = 0
        self.callback = llama_cpp.ggml_backend_sched_eval_callback(self._on_node)

    def skip(self, first: int, end: int) -> None:
        """Leave out layers `first` .. `end - 1` from now on; none when they are equal."""
        assert 0 < first <= end
        self._before, self._last = b"l_out-%d" % (first - 1), b"l_out-%d" % (end - 1)
        if first == end:
            self._before = self._last = b""
        self._num_skipped = 0

    def require_skipped(self) -> None:
        """Raise EngineError when no decode since `skip` had such layers."""
        if self._last and not self._num_skipped:
            raise EngineError(
                "llama.cpp does not name this architecture's layers, so none can be left out for a "
                "trial: say how many with --drop-layers N."
            )

    def _on_node(self, tensor: int, ask: bool, _user_data: object) -> bool:
        if not self._last:
            return False
        name = self._ggml.ggml_get_name(tensor)
        if ask:
            return name in (self._before, self._last)
        size = self._ggml.ggml_nbytes(tensor)
        if name == self._before:
            self._saved = (ctypes.c_uint8 * size)()
            self._ggml.ggml_backend_tensor_get(tensor, self._saved, 0, size)
        elif name == self._last and self._saved is not None and len(self._saved) == size:
            self._ggml.ggml_backend_tensor_set(tensor, self._saved, 0, size)
            self._num_skipped += 1
        return True
