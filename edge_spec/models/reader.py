"""Read values from the head of a GGUF file without trusting a single length in it.

Every count and length is checked against the file's size and against a cap before anything is
allocated, so a damaged or hostile file costs at most a moment and some memory. Format: ggml's
docs/gguf.md; refusals follow llama.cpp's ggml/src/gguf.cpp.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import NoReturn, overload

import numpy as np
from numpy.typing import NDArray

READ_STEPS = (1 << 20, 16 << 20, 96 << 20)
"""How much of a file is read for its header, in bytes: enough for a later part of a model, for
every vocabulary there is, and for what still costs little memory."""

MAX_KEY_VALUES = 1 << 16
MAX_TENSORS = 1 << 18
MAX_NAME_BYTES = 1 << 16
MAX_TEXT_BYTES = 16 << 20
MAX_ARRAY_ITEMS = 1 << 22
MAX_STRINGS_IN_ALL = 1 << 23
"""Caps far above any real model (262k tokens, 514k merges), far below what could hurt."""

_U64 = struct.Struct("<Q")
_SCALARS = {
    0: struct.Struct("<B"), 1: struct.Struct("<b"), 2: struct.Struct("<H"), 3: struct.Struct("<h"),
    4: struct.Struct("<I"), 5: struct.Struct("<i"), 6: struct.Struct("<f"), 7: struct.Struct("<?"),
    10: struct.Struct("<Q"), 11: struct.Struct("<q"), 12: struct.Struct("<d"),
}  # fmt: skip
_BOOL, _STRING, _ARRAY = 7, 8, 9
_DTYPES = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?",
    10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip

NumberArray = NDArray[np.generic]


class DamagedHeader(Exception):
    """Why the bytes cannot be a GGUF header; header.py adds which file it is."""


class NeedMoreBytes(DamagedHeader):
    """The header goes on beyond what was read of the file."""


@dataclass(frozen=True, slots=True, eq=False)
class StringArray(Sequence[bytes]):
    """An array of byte strings kept as the file has it: one blob, and where each string ends.

    `ends` is int64, shape (n,), offsets into `blob`; each string is preceded by its 8-byte length.
    """

    blob: bytes
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        start = 0 if position == 0 else int(self.ends[position - 1])
        return self.blob[start + 8 : int(self.ends[position])]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.all())

    def all(self) -> list[bytes]:
        """Every string; quicker than one by one."""
        blob, ends = self.blob, self.ends.tolist()
        return [blob[start + 8 : end] for start, end in zip([0, *ends], ends, strict=False)]


Value = int | float | bool | str | StringArray | NumberArray


def plain(raw: bytes) -> str:
    """Bytes as text; what is not UTF-8 becomes U+FFFD."""
    return raw.decode("utf-8", "replace")


class Cursor:
    """A position in `data`, the first bytes of a file of `file_size` bytes."""

    def __init__(self, data: bytes | mmap, file_size: int) -> None:
        self._data = data
        self._file_size = file_size
        self._strings_left = MAX_STRINGS_IN_ALL
        self.position = 0

    def cut(self, what: str) -> NoReturn:
        """Refuse: `what` reaches beyond the file, or beyond what was read of it."""
        if len(self._data) < self._file_size:
            raise NeedMoreBytes(f"{what} lies more than {len(self._data) >> 20} MiB into the file")
        raise DamagedHeader(f"the file ends in the middle of {what}")

    def need(self, length: int, what: str) -> int:
        """Move on by `length` bytes and return where they start."""
        start = self.position
        if length > len(self._data) - start:
            self.cut(what)
        self.position = start + length
        return start

    def u32(self, what: str) -> int:
        return int.from_bytes(self._data[(at := self.need(4, what)) : at + 4], "little")

    def u64(self, what: str) -> int:
        return int.from_bytes(self._data[(at := self.need(8, what)) : at + 8], "little")

    def string(self, what: str, cap: int = MAX_TEXT_BYTES) -> bytes:
        length = self.u64(what)
        if length > cap:
            raise DamagedHeader(f"{what} claims a length of {length} bytes")
        start = self.need(length, what)
        return self._data[start : start + length]

    def value(self, kind: int, what: str) -> Value:
        """A value of GGUF type `kind`, as a number, text or array."""
        if kind == _STRING:
            return plain(self.string(what))
        if kind == _ARRAY:
            return self._array(what)
        scalar = _SCALARS.get(kind)
        if scalar is None:
            raise DamagedHeader(f"{what} has the unknown type {kind}")
        (number,) = scalar.unpack_from(self._data, self.need(scalar.size, what))
        result: int | float | bool = number
        return result

    def _array(self, what: str) -> StringArray | NumberArray:
        kind, count = self.u32(what), self.u64(what)
        if count > MAX_ARRAY_ITEMS:
            raise DamagedHeader(f"{what} claims {count} items")
        if kind == _STRING:
            return self._strings(count, what)
        if kind not in _DTYPES:
            # llama.cpp refuses arrays of arrays as well, so nothing nests.
            raise DamagedHeader(f"{what} is an array of the unknown or nested type {kind}")
        dtype = np.dtype("u1" if kind == _BOOL else _DTYPES[kind])
        start = self.need(count * dtype.itemsize, what)
        array = np.frombuffer(self._data, dtype, count, start).copy()
        return array != 0 if kind == _BOOL else array

    def _strings(self, count: int, what: str) -> StringArray:
        self._strings_left -= count
        if self._strings_left < 0:
            raise DamagedHeader(f"it claims more than {MAX_STRINGS_IN_ALL} strings in all")
        data, start = self._data, self.position
        if count * 8 > len(data) - start:
            self.cut(what)
        unpack, position = _U64.unpack_from, start
        ends = array("q")  # eight bytes each, where a list would hold an object each
        append = ends.append
        try:
            for _ in range(count):
                position += 8 + unpack(data, position)[0]
                append(position)
        except (struct.error, OverflowError):
            self.cut(what)
        if position > len(data):
            self.cut(what)
        self.position = position
        return StringArray(data[start:position], np.array(ends, np.int64) - start)
