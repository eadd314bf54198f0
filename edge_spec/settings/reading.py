"""What a flag, a variable or a file says, checked: a SettingError names the place."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge_spec.config import ModelSettings
from edge_spec.errors import SettingError
from edge_spec.settings.table import CHAT, Setting, row_of
from edge_spec.settings.values import Value

KEYS: Final = "keys"
"""The table of a file that gives the chat's actions other keys."""


def read_text(path: Path) -> str:
    try:
        # Line ends as they are: who writes the file again keeps them.
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise SettingError(f"The settings file {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise SettingError(f"The settings file {path} is not TOML: {error}.") from error


@dataclass(frozen=True, slots=True)
class FileContents:
    values: dict[str, Value]
    keys: dict[str, Value]


def parse_file(text: str, path: Path) -> FileContents:
    """What a file says, types checked. Raises SettingError with the place."""
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise SettingError(f"The settings file {path} is not TOML: {error}.") from error
    contents = FileContents({}, {})
    for key, raw in document.items():
        if key == KEYS:
            contents.keys.update(_parse_keys(raw, path))
        elif key == CHAT.lower() and isinstance(raw, dict):
            for name, value in raw.items():
                contents.values[name] = _file_value(name, value, path, key)
        else:
            contents.values[key] = _file_value(key, raw, path, None)
    return contents


def _file_value(name: str, raw: Any, path: Path, table: str | None) -> Value:
    row = row_of(name, f"{path} has the unknown key")
    if row.table != table:
        place = f"in the table [{row.table}]" if row.table else "above the first table"
        raise SettingError(f"{name} belongs {place} of {path}.")
    return Value(parse_value(row, raw, row.kind.toml, f"{row.key} in {path}"), str(path))


_KEY: Final = re.compile(r"[^\s,]+")


def _parse_keys(raw: Any, path: Path) -> dict[str, Value]:
    """The `[keys]` table: action to a key or a list of keys; none switches the action's key off."""
    if not isinstance(raw, dict):
        raise SettingError(
            f'{KEYS} in {path} is {raw!r}, but it must be a table of actions, like stop = "f8".'
        )
    found = {}
    for action, given in raw.items():
        keys = given if isinstance(given, list) else [given]
        if not all(isinstance(key, str) and _KEY.fullmatch(key) for key in keys):
            must = 'a key like "ctrl+r", or a list of them'
            raise SettingError(f"{KEYS}.{action} in {path} is {given!r}, but it must be {must}.")
        found[action] = Value(tuple(keys), str(path))
    return found


def parse_value(row: Setting, raw: Any, types: tuple[type, ...], where: str) -> Any:
    """A value, or the several values of a setting that holds many, from a flag, variable or file."""
    items = raw if row.kind.many and isinstance(raw, list | tuple) else [raw]
    parsed = []
    for item in items:
        try:
            if type(item) not in types:
                raise ValueError
            parsed.append(row.kind.parse(item))
        except ValueError as error:
            raise SettingError(f"{where} is {item!r}, but it must be {row.kind.words}.") from error
    return tuple(parsed) if row.kind.many else parsed[0]


def parse_text(row: Setting, text: str, where: str) -> Any:
    """A variable holds one text; for a setting that holds many, it may be a JSON list."""
    raw: Any = text
    if row.kind.many and text.startswith("["):
        try:
            raw = json.loads(text)
        except ValueError as error:
            raise SettingError(f"{where} is {text!r}, which is no JSON list.") from error
    return parse_value(row, raw, (str,), where)


def check_range(row: Setting, value: Value) -> None:
    """Let the class that owns the field judge it, and say where a bad value stands."""
    if row.field is None or value.origin == "default" or value.value is None:
        return
    cls, field = row.field
    fields = {field: value.value}
    if cls is ModelSettings:
        fields["path"] = Path()
    try:
        cls(**fields)
    except SettingError as error:
        raise SettingError(f"{str(error).removesuffix('.')} ({row.place(value.origin)}).") from error
