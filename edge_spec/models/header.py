"""What a GGUF file says about itself, read in a moment and without touching its weights.

The reader trusts nothing: lengths are checked against the file's size, counts against caps, and
the last tensor must end inside the file, so that a truncated download is named before llama.cpp
sees it. The `gguf` package is the test oracle; refusals follow ggml/src/gguf.cpp.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import BufferedReader
from mmap import mmap
from pathlib import Path

import numpy as np

from edge_spec.errors import ModelFileError
from edge_spec.models import kinds
from edge_spec.models.ggml_types import FILE_TYPES, TENSOR_TYPES, TensorType
from edge_spec.models.kinds import FileKind, MemoryKind, Rollback
from edge_spec.models.names import Split, file_stem, split_of
from edge_spec.models.reader import (
    MAX_KEY_VALUES,
    MAX_NAME_BYTES,
    MAX_TENSORS,
    READ_STEPS,
    Cursor,
    DamagedHeader,
    NeedMoreBytes,
    Value,
    plain,
)
from edge_spec.models.vocab import Vocab, read_vocab

MAX_LAYERS = 4096
MAX_SHORT_NAME = 40

_LAYER = re.compile(r"blk\.([0-9]{1,9})\.")

_LOOKALIKES = (
    (b"version https://git-lfs", "a Git LFS pointer, so fetch the file that it stands for"),
    (b"<!DOCTYPE", "a web page, so the download went wrong"),
    (b"<html", "a web page, so the download went wrong"),
    (b"PK\x03\x04", "a zip archive (PyTorch weights or a wheel), which must be converted or unpacked"),
    (b"lmgg", "a GGML file from before 2023, which llama.cpp no longer reads"),
    (b"tjgg", "a GGML file from before 2023, which llama.cpp no longer reads"),
    (b"fmgg", "a GGML file from before 2023, which llama.cpp no longer reads"),
)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: `shape` is fastest axis first, `offset` counts from the start of its file's data."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int

    @property
    def layer(self) -> int | None:
        """The layer that it belongs to; None for input and output."""
        found = _LAYER.match(self.name)
        return int(found[1]) if found else None

    @property
    def num_weights(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def num_bytes(self) -> int:
        return self.num_weights // self.type.block_size * self.type.block_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """The head of a GGUF: key-values, tensor list, and what follows from them.

    Of a model in several parts, `path` is the first, from which llama.cpp loads it, `files` are
    all in order, and `size` and `tensors` those of all. `data_offset` is where the weights of the
    first start. Sizes are in bytes.
    """

    path: Path
    size: int
    version: int
    metadata: Mapping[str, Value] = field(repr=False)
    tensors: tuple[TensorInfo, ...] = field(repr=False)
    data_offset: int
    vocab: Vocab = field(repr=False)
    files: tuple[Path, ...] = ()

    @property
    def architecture(self) -> str:
        return self.text("general.architecture") or ""

    @property
    def name(self) -> str:
        """The model's own name, else the file's, fit to print."""
        return "".join(c for c in self.text("general.name") or file_stem(self.path.name) if c.isprintable())

    @property
    def short_name(self) -> str:
        """A name fit for a heading: family and size, else the model's name, else the file's."""
        family, size = self.text("general.basename") or "", self.text("general.size_label") or ""
        named = family if size.lower() in family.lower() else f"{family}-{size}"
        for name in (named if family else "", self.text("general.name") or ""):
            if 0 < len(name) <= MAX_SHORT_NAME and name.isprintable() and not set(name) & set("/\\"):
                return name
        return file_stem(self.path.name)

    @property
    def kind(self) -> FileKind:
        """What the file is for: a model, or something that only goes with one."""
        return kinds.file_kind(self.architecture, self.metadata, [tensor.name for tensor in self.tensors])

    @property
    def memory_kind(self) -> MemoryKind:
        """What a context of this model remembers of a text."""
        return kinds.memory_kind(self.architecture, self.metadata)

    @property
    def rollback(self) -> Rollback:
        """How rejected tokens leave such a memory; the cache's self-test has the last word."""
        return kinds.rollback(self.architecture, self.memory_kind)

    @property
    def quantization(self) -> str:
        """The file type as llama.cpp names it, else the type that holds most bytes."""
        named = FILE_TYPES.get(self.integer("general.file_type", -1))
        if named is not None:
            return named
        bytes_by_type: dict[str, int] = {}
        for tensor in self.tensors:
            name = tensor.type.name
            bytes_by_type[name] = bytes_by_type.get(name, 0) + tensor.num_bytes
        return max(bytes_by_type, key=bytes_by_type.__getitem__, default="none")

    @property
    def num_parameters(self) -> int:
        return sum(tensor.num_weights for tensor in self.tensors)

    @property
    def context_length(self) -> int:
        """The context the model was trained for, in tokens; 0 when the file does not say."""
        return self.own_integer("context_length")

    @property
    def num_layers(self) -> int:
        return self.own_integer("block_count")

    @property
    def embedding_length(self) -> int:
        return self.own_integer("embedding_length")

    @property
    def num_heads(self) -> int:
        """Attention heads a layer, the most of any layer; 0 without attention."""
        return max(self.per_layer("attention.head_count"), default=0)

    @property
    def num_kv_heads(self) -> tuple[int, ...]:
        """Key-value heads of each layer; 0 for a layer without attention."""
        return self.per_layer("attention.head_count_kv") or self.per_layer("attention.head_count")

    @property
    def chat_template(self) -> str | None:
        return self.text("tokenizer.chat_template")

    @property
    def num_splits(self) -> int:
        """How many files the model is spread over; 1 when it is whole."""
        return max(1, self.integer("split.count", 1))

    def text(self, key: str) -> str | None:
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str, default: int = 0) -> int:
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def own_integer(self, key: str, default: int = 0) -> int:
        """An integer under the architecture's own prefix."""
        return self.integer(f"{self.architecture}.{key}", default)

    def per_layer(self, key: str) -> tuple[int, ...]:
        """A number that a file gives once for all layers, or once for each."""
        value = self.metadata.get(f"{self.architecture}.{key}")
        if isinstance(value, np.ndarray):
            whole = np.issubdtype(value.dtype, np.integer)
            return tuple(int(item) for item in value[:MAX_LAYERS]) if whole else ()
        if isinstance(value, int) and not isinstance(value, bool):
            return (value,) * min(self.num_layers, MAX_LAYERS)
        return ()


def read_header(path: str | Path) -> Header:
    """Read and check the head of the GGUF at `path`, or of the model that it is a part of.

    Raises ModelFileError, in one sentence, for a file that is missing, empty, truncated,
    damaged, or of another kind, and for a part whose fellows are not beside it.
    """
    path = Path(path)
    head = _read_file(path)
    return replace(head, files=(path,)) if head.num_splits == 1 else _joined(head)


def _read_file(path: Path) -> Header:
    """The head of one file, whole or part."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ModelFileError(f"{path} is a folder, not a GGUF file.")
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its other end
            raise ModelFileError(f"{path} is not a regular file.")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise ModelFileError(f"{path} is empty: download it again.")
            for step in READ_STEPS:
                try:
                    return _parse(path, _first_bytes(file, min(step, size)), size)
                except NeedMoreBytes:
                    if step == READ_STEPS[-1]:
                        raise
    except FileNotFoundError:
        raise ModelFileError(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"{path} cannot be read: {reason}.") from None
    except DamagedHeader as why:
        raise ModelFileError(f"{path} is not a usable GGUF: {why}.") from None
    raise AssertionError("the last step returns or raises")


def _first_bytes(file: BufferedReader, length: int) -> bytes | mmap:
    """The first bytes of a file, in memory that goes back to the system as soon as it is not needed.

    What the C library gives for so much may stay with it, in a process that lives long.
    """
    buffer = mmap(-1, length)
    file.seek(0)
    read = file.readinto(buffer)
    return buffer if read == length else buffer[:read]


def _joined(head: Header) -> Header:
    """The model that `head` is a part of (llama.cpp: src/llama-model-loader.cpp)."""
    count, split = head.num_splits, split_of(head.path.name)
    if split is None or split.parts != count:
        wanted = Split(file_stem(head.path.name), 1, count).name(1)
        raise ModelFileError(
            f"{head.path} is one of {count} parts, and the others are found by names such as {wanted}: "
            "give all parts the names that they were published with."
        )
    paths = [head.path.with_name(name) for name in split.names]
    missing = next((path for path in paths if not os.path.isfile(path)), None)
    if missing is not None:
        raise ModelFileError(
            f"{head.path} is one of {count} parts, and {missing.name} is not beside it: fetch that one too."
        )
    parts = [head if path == head.path else _read_file(path) for path in paths]
    for number, part in enumerate(parts):
        if part.num_splits != count or part.integer("split.no", -1) != number:
            raise ModelFileError(
                f"{part.path} is not part {number + 1} of {count}, as its name says: fetch it again."
            )
    first, tensors = parts[0], tuple(tensor for part in parts for tensor in part.tensors)
    due = first.integer("split.tensors.count", len(tensors))
    if due != len(tensors) or len({tensor.name for tensor in tensors}) != due:
        raise ModelFileError(
            f"{first.path} and its parts hold {len(tensors)} tensors where {due} are due: "
            "they are not of one model, so fetch them again."
        )
    return replace(first, size=sum(part.size for part in parts), tensors=tensors, files=tuple(paths))


def read_loadable(path: str | Path) -> Header:
    """The header of a model that can be loaded. Raises what `read_header` and `check_loadable` raise."""
    header = read_header(path)
    check_loadable(header)
    return header


def check_loadable(header: Header) -> None:
    """Raise ModelFileError for what would make llama.cpp end the whole process while loading.

    That is kept out of `read_header` because it looks at every token, which takes about 0.1 s
    for 150,000 of them. Assertions: src/llama-vocab.cpp.
    """
    vocab = header.vocab
    twice = vocab.first_duplicate()
    if twice is not None:
        raise ModelFileError(
            f"{header.path} is not a usable GGUF: token {twice} has the same text as an earlier one."
        )
    for what, adds, token in (("begin", vocab.add_bos, vocab.bos_id), ("end", vocab.add_eos, vocab.eos_id)):
        if adds and token is None and vocab.size:
            raise ModelFileError(
                f"{header.path} is not a usable GGUF: it adds a {what}-of-text token and does not name one."
            )


def _parse(path: Path, data: bytes | mmap, size: int) -> Header:
    if data[:4] != b"GGUF":
        known = (what for magic, what in _LOOKALIKES if data[: len(magic)] == magic)
        kind = next(known, f"it begins with {data[:4]!r} instead of b'GGUF'")
        raise DamagedHeader(kind if kind.startswith("it ") else f"it is {kind}")
    cursor = Cursor(data, size)
    cursor.need(4, "the magic")
    version = cursor.u32("the version")
    if version & 0xFFFF == 0 and version:
        raise DamagedHeader("it is in big-endian byte order, which this machine does not read")
    if version not in (2, 3):
        raise DamagedHeader(f"it has GGUF version {version}, and only 2 and 3 can be read")
    num_tensors, num_values = cursor.u64("the tensor count"), cursor.u64("the key-value count")
    if num_tensors > MAX_TENSORS or num_values > MAX_KEY_VALUES:
        raise DamagedHeader(f"it claims {num_tensors} tensors and {num_values} key-values")

    metadata: dict[str, Value] = {}
    for index in range(num_values):
        key = plain(cursor.string(f"key {index}", MAX_NAME_BYTES))
        if not key or key in metadata:
            raise DamagedHeader(f"key {index} ({_quoted(key)}) is empty or a duplicate")
        metadata[key] = cursor.value(cursor.u32(f"the type of {_quoted(key)}"), _quoted(key))

    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        # An importance matrix and the later parts of a model have none.
        purpose, part = metadata.get("general.type"), metadata.get("split.no")
        is_part = isinstance(part, int) and part > 0
        if not is_part and not (isinstance(purpose, str) and purpose == "imatrix"):
            raise DamagedHeader("it does not name its architecture")
        architecture = ""
    num_layers = metadata.get(f"{architecture}.block_count", 0)
    if isinstance(num_layers, int) and not 0 <= num_layers <= MAX_LAYERS:
        raise DamagedHeader(f"it claims {num_layers} layers")
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise DamagedHeader(f"its alignment is {alignment!r}, which is not a power of two")
    tensors = _tensors(cursor, num_tensors, alignment)
    data_offset = _padded(cursor.position, alignment)
    _check_complete(tensors, data_offset, size)
    return Header(path, size, version, metadata, tensors, data_offset, read_vocab(metadata, architecture))


def _tensors(cursor: Cursor, count: int, alignment: int) -> tuple[TensorInfo, ...]:
    tensors: list[TensorInfo] = []
    names: set[str] = set()
    expected = 0
    for index in range(count):
        name = plain(cursor.string(f"the name of tensor {index}", MAX_NAME_BYTES))
        what = f"tensor {_quoted(name)}"
        if name in names:
            raise DamagedHeader(f"{what} appears twice")
        names.add(name)
        num_dims = cursor.u32(f"the shape of {what}")
        if num_dims > 4:
            raise DamagedHeader(f"{what} has {num_dims} dimensions")
        shape = tuple(cursor.u64(f"the shape of {what}") for _ in range(num_dims))
        number = cursor.u32(f"the type of {what}")
        kind = TENSOR_TYPES.get(number)
        if kind is None:
            raise DamagedHeader(f"{what} has the type {number}, which llama.cpp does not know")
        row = shape[0] if shape else 1
        if row % kind.block_size:
            raise DamagedHeader(f"{what} has rows of {row}, not a multiple of {kind.block_size}")
        tensor = TensorInfo(name, shape, kind, cursor.u64(f"the offset of {what}"))
        if tensor.num_weights >= 2**63:
            raise DamagedHeader(f"{what} has an impossible shape")
        if tensor.offset != expected:
            raise DamagedHeader(f"{what} lies at {tensor.offset} where {expected} is due")
        expected = _padded(expected + tensor.num_bytes, alignment)
        tensors.append(tensor)
    return tuple(tensors)


def _check_complete(tensors: tuple[TensorInfo, ...], data_offset: int, size: int) -> None:
    if not tensors:
        return
    needed = data_offset + tensors[-1].offset + tensors[-1].num_bytes
    if needed > size:
        raise DamagedHeader(
            f"it is truncated: it has {size:,} bytes where its own header needs {needed:,}, "
            "so download it again"
        )


def _padded(offset: int, alignment: int) -> int:
    return (offset + alignment - 1) // alignment * alignment


def _quoted(name: str) -> str:
    """A name from the file, shortened and without control characters."""
    return '"' + "".join(c if c.isprintable() else "?" for c in name[:80]) + '"'
