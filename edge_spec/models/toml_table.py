"""A table of a TOML file, read key by key with errors that name the place."""

from __future__ import annotations

import re

from edge_spec.errors import SettingError

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


class Table:
    """A TOML table that checks types as it is read, and complains of keys nobody asked for."""

    def __init__(self, raw: object, where: str) -> None:
        if not isinstance(raw, dict):
            raise SettingError(f"{where} must be a table.")
        self._raw: dict[str, object] = dict(raw)
        self.where = where

    def fail(self, key: str, must: str) -> SettingError:
        return SettingError(f'{self.where}: "{key}" must be {must}.')

    def text(self, key: str, default: str | None = None) -> str:
        value = self._raw.pop(key, default)
        if not isinstance(value, str) or not value:
            raise self.fail(key, "a text")
        return value

    def optional(self, key: str) -> str | None:
        return self.text(key) if key in self._raw else None

    def count(self, key: str) -> int:
        value = self._raw.pop(key, None)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.fail(key, "a whole number above 0")
        return value

    def items(self, key: str) -> list[object]:
        value = self._raw.pop(key, None)
        if not isinstance(value, list) or not value:
            raise self.fail(key, "a list with at least one entry")
        return value

    def tables(self, key: str) -> list[tuple[str, Table]]:
        """The tables below `key` by name; none when it is not there."""
        found = Table(self._raw.pop(key, {}), f"{self.where}: [{key}]")
        for name in found._raw:
            if not _NAME.fullmatch(name):
                raise SettingError(f'{found.where}: "{name}" may have only a-z, 0-9, dot, dash, underscore.')
        return [(name, Table(raw, f'{self.where}: [{key}."{name}"]')) for name, raw in found._raw.items()]

    def list_of_tables(self, key: str) -> list[Table]:
        """The tables `[[key]]`; none when it is not there."""
        if key not in self._raw:
            return []
        return [Table(raw, f"{self.where}: [[{key}]] {n}") for n, raw in enumerate(self.items(key), 1)]

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def finish(self) -> None:
        if self._raw:
            raise SettingError(f"{self.where}: unknown key {', '.join(sorted(self._raw))}.")
