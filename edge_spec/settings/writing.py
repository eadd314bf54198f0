"""Settings written into a file, with what a person wrote there left as it is."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge_spec.config import ModelSettings
from edge_spec.errors import OutputError
from edge_spec.settings.reading import KEYS, check_range, parse_file, parse_text, parse_value, read_text
from edge_spec.settings.resolving import user_file
from edge_spec.settings.table import SETTINGS, Setting, row_of
from edge_spec.settings.values import Settings, defaults
from edge_spec.whole_file import write_whole


def save_settings(changes: Mapping[str, Any], path: Path | None = None) -> None:
    """Write settings into a file, the user's unless `path` is another; comments and order stay.

    `changes` maps names to values as a file holds them, or to texts as their variables do;
    None takes a key out, so that the places below decide. Under "keys" it maps the chat's
    actions to a key, a list of keys, or None. What the file would say is checked first, by the
    rules that `resolve` has and as a whole; then it is replaced at once, or not at all.
    Raises SettingError and OutputError.
    """
    # A link in the file's place stays a link.
    file = Path(os.path.realpath(path or user_file()))
    text = ""
    if os.path.exists(file):
        text = read_text(file)
        parse_file(text, file)
    for name, value in changes.items():
        if name == KEYS:
            for action, keys in value.items():
                text = _put(text, KEYS, action, keys)
        else:
            row = row_of(name, "There is no setting")
            text = _put(text, row.table, name, None if value is None else _as_toml(row, value))
    _check_whole(text, file)
    _replace(file, text)


def _put(text: str, table: str | None, key: str, value: Any) -> str:
    """The file's text with `key` set in `table`, or taken out when `value` is None."""
    import tomlkit  # slow to import, and only who writes needs it

    if isinstance(value, tuple):
        value = list(value)
    document = tomlkit.parse(text)
    place: Any = document if table is None else document.get(table)
    if value is None:
        if place is not None:
            place.pop(key, None)
        return tomlkit.dumps(document)
    entry = {key: _item(value)}
    if key not in (place or ()):
        # tomlkit would set it below a comment that belongs to the next table.
        inserted = _insert(text, table, tomlkit.dumps(entry))
        wanted = tomllib.loads(text)
        (wanted if table is None else wanted.setdefault(table, {}))[key] = value
        if _loads(inserted) == wanted:
            return inserted
    place.update(entry)  # also where a table is written otherwise than below its name
    return tomlkit.dumps(document)


def _insert(text: str, table: str | None, entry: str) -> str:
    """The text with `entry` behind the last value of `table`, which is made where there is none."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += line_end
    known, new = _keys(text, table), entry
    if known is None:
        end = len(lines)
        new = ("\n" if lines else "") + f"[{table}]\n{entry}"
    elif not known and table is None:
        # A comment at the top, with nothing right below it, is about the whole file.
        count = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        end = count + 1 if count and not "".join(lines[count : count + 1]).strip() else 0
        new = entry + ("\n" if lines[end:] else "")
    else:
        end = next(end for end in range(len(lines) + 1) if _keys("".join(lines[:end]), table) == known)
    return "".join((*lines[:end], new.replace("\n", line_end), *lines[end:]))


def _keys(text: str, table: str | None) -> set[str] | None:
    """The keys of a table, or of the values above all tables; None where there is no such table."""
    document = _loads(text)
    if document is None or (table is not None and table not in document):
        return None
    if table is not None:
        return set(document[table])
    return {key for key, value in document.items() if not isinstance(value, dict)}


def _loads(text: str) -> dict[str, Any] | None:
    """What a text says; None while it is no TOML, as a beginning of one often is."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _item(value: Any) -> Any:
    import tomlkit

    if isinstance(value, str) and "\n" in value and "\r" not in value and not value.startswith("\n"):
        # Several lines, as a system message may have, are easier to edit as such.
        return tomlkit.string(value, multiline=True)
    return value


def _as_toml(row: Setting, raw: Any) -> Any:
    """The value that stands in a file for `raw`, a value of a file or a text."""
    if isinstance(raw, str):
        value = parse_text(row, raw, row.name)
    else:
        value = parse_value(row, raw, row.kind.toml, row.name)
    if row.kind.many:
        return [row.kind.show(item) for item in value]  # of what TOML has no type for, the text
    return value


def _check_whole(text: str, file: Path) -> None:
    """Refuse what `resolve` would refuse of the file alone, and what does not go together in it."""
    read = parse_file(text, file)
    for name, value in read.values.items():
        check_range(SETTINGS[name], value)
    found = Settings({**defaults(), **read.values}, (file,), read.keys, file)
    found.sampling()
    found.decoding()
    options = found.load_options()
    for draft in ("draft_gpu_layers", "draft_device"):
        del options[draft]
    ModelSettings(Path(), **options)


def _replace(file: Path, text: str) -> None:
    try:
        write_whole(file, text.encode("utf-8", "replace"), durable=True)
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"The settings file {file} cannot be written: {reason}.") from error
