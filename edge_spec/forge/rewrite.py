"""Write a GGUF again with some of its rows, layers and key-values, the weights byte for byte.

llama.cpp's own `prune_layers` sends every tensor through its quantiser and leaves arrays with
one entry a layer as they are; here nothing is computed, so what is kept is exactly what was there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from edge_spec.errors import OutputError
from edge_spec.models.header import Header, TensorInfo
from edge_spec.models.reader import Cursor, Value, plain

_ARRAY = int(gguf.GGUFValueType.ARRAY)
_LAYER = re.compile(r"blk\.(\d+)\.")
_OWN_KEYS = ("general.architecture", "general.alignment")
"""Keys that the writer sets by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyValue:
    """A value with its GGUF type, and the type of its items if it is an array."""

    value: Value | list[bytes]
    type: gguf.GGUFValueType
    item_type: gguf.GGUFValueType | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """What becomes of a file.

    `values` replaces key-values or adds new ones; None leaves a key out. `rows` are the token ids
    whose rows stay, ascending; None is all. `dropped_layers` are the blocks left out.
    """

    values: Mapping[str, KeyValue | None] = field(default_factory=dict)
    rows: NDArray[np.int64] | None = None
    dropped_layers: tuple[int, ...] = ()


def read_key_values(header: Header) -> dict[str, KeyValue]:
    """Every key-value of a file that `read_header` found sound, with its type, in order."""
    with header.path.open("rb") as file:
        data = file.read(header.data_offset)
    cursor = Cursor(data, header.size)
    cursor.need(16, "the counts")
    values = {}
    for _ in range(cursor.u64("the key-value count")):
        key = plain(cursor.string("a key"))
        kind = cursor.u32(key)
        item = None
        if kind == _ARRAY:
            item = gguf.GGUFValueType(int.from_bytes(data[cursor.position : cursor.position + 4], "little"))
        values[key] = KeyValue(cursor.value(kind, key), gguf.GGUFValueType(kind), item)
    return values


def rewrite(header: Header, destination: Path, edit: Edit, check: Callable[[], None] = lambda: None) -> Path:
    """Write the edited file to `destination`; `check` is called between tensors, to stop there.

    Raises OutputError, and whatever `check` raises.
    """
    values = {**read_key_values(header), **_without_layers(header, edit.dropped_layers), **edit.values}
    try:
        writer = gguf.GGUFWriter(destination, header.architecture)
        if (alignment := header.integer("general.alignment")) > 0:
            writer.add_custom_alignment(alignment)
        for key, value in values.items():
            if value is None or key in _OWN_KEYS:
                continue
            items = value.value
            if isinstance(items, np.ndarray):
                items = items.tolist()
            if value.item_type is None or len(items):  # type: ignore[arg-type]  # arrays have a length
                writer.add_key_value(key, items, value.type, sub_type=value.item_type)
        mapped = np.memmap(header.path, np.uint8, mode="r", offset=0)
        kept = [tensor for tensor in header.tensors if _layer(tensor) not in edit.dropped_layers]
        for tensor in kept:
            shape = _byte_shape(header, tensor, edit.rows)
            writer.add_tensor_info(
                _renamed(tensor, edit.dropped_layers),
                shape,
                np.dtype(np.uint8),
                int(np.prod(shape)),
                raw_dtype=gguf.GGMLQuantizationType[tensor.type.name],
            )
        try:
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_ti_data_to_file()
            for tensor in kept:
                check()
                start = header.data_offset + tensor.offset
                data = mapped[start : start + tensor.num_bytes]
                if edit.rows is not None and _has_a_row_a_token(header, tensor):
                    data = data.reshape(header.vocab.size, -1)[edit.rows]
                writer.write_tensor_data(data)
        finally:
            writer.close()
    except OSError as error:
        raise OutputError(f"{destination} cannot be written: {error.strerror or error}.") from None
    return destination


def _has_a_row_a_token(header: Header, tensor: TensorInfo) -> bool:
    return _layer(tensor) is None and bool(tensor.shape) and tensor.shape[-1] == header.vocab.size


def _byte_shape(header: Header, tensor: TensorInfo, rows: NDArray[np.int64] | None) -> tuple[int, ...]:
    """The tensor's shape, slowest axis first, its last axis in bytes."""
    shape = [*reversed(tensor.shape)]
    if rows is not None and _has_a_row_a_token(header, tensor):
        shape[0] = len(rows)
    shape[-1] = shape[-1] // tensor.type.block_size * tensor.type.block_bytes
    return tuple(shape)


def _layer(tensor: TensorInfo) -> int | None:
    found = _LAYER.match(tensor.name)
    return int(found[1]) if found else None


def _renamed(tensor: TensorInfo, dropped: tuple[int, ...]) -> str:
    """The tensor's name when the dropped layers before its own are gone."""
    layer = _layer(tensor)
    if layer is None:
        return tensor.name
    before = sum(1 for gone in dropped if gone < layer)
    return _LAYER.sub(f"blk.{layer - before}.", tensor.name, count=1)


def _without_layers(header: Header, dropped: tuple[int, ...]) -> dict[str, KeyValue]:
    """The layer count, and every array with an entry a layer, without the dropped ones."""
    if not dropped:
        return {}
    num = header.num_layers
    changed = {}
    for key, old in read_key_values(header).items():
        if key == f"{header.architecture}.block_count":
            changed[key] = KeyValue(num - len(dropped), old.type)
        elif (
            key.startswith(f"{header.architecture}.")
            and isinstance(old.value, np.ndarray)
            and len(old.value) == num
        ):
            changed[key] = KeyValue(np.delete(old.value, list(dropped)), old.type, old.item_type)
    return changed
