"""A stop flag that both Python and llama.cpp can read, set from any thread or signal handler."""

from __future__ import annotations

import ctypes


class Cancel:
    """A flag in a two-byte C buffer: as a C string it is empty until `set`.

    llama.cpp polls it about a thousand times a decode with libc's `strlen` as the abort
    callback, so a stop needs neither the GIL nor a Python frame.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(2)

    @property
    def address(self) -> int:
        """Address of the buffer; valid as long as this object lives."""
        return ctypes.addressof(self._buffer)

    @property
    def is_set(self) -> bool:
        return self._buffer.raw[0] != 0

    def set(self) -> None:
        self._buffer[0] = b"\x01"

    def clear(self) -> None:
        self._buffer[0] = b"\x00"
