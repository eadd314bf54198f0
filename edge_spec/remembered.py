"""What was found out on this machine, kept between starts: small JSON files, named by what it depends on."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import platformdirs

from edge_spec.models.header import Header
from edge_spec.whole_file import write_whole

Value = TypeVar("Value")

_NOTHING_OF_OURS: Final = (OSError, ValueError, TypeError, KeyError, AttributeError)
"""Nothing is kept, or something else is, or what it depends on is gone."""


class Remembered:
    """A folder of such files in the cache; `facts` are all that a finding depends on, as JSON values.

    They are asked for by a function, since a model's file may be gone by then.
    """

    def __init__(self, folder: str) -> None:
        self._name = folder

    def keep(self, facts: Callable[[], object], state: Mapping[str, Any]) -> None:
        """Keep `state`; quietly does nothing where that is not possible."""
        with contextlib.suppress(OSError):
            write_whole(self._file(facts()), json.dumps(state).encode())

    def recall(self, facts: Callable[[], object], understand: Callable[[Any], Value]) -> Value | None:
        """What is kept, as `understand` makes it of the JSON; None where it cannot."""
        try:
            return understand(json.loads(self._file(facts()).read_text("utf-8")))
        except _NOTHING_OF_OURS:
            return None

    def everything(self, understand: Callable[[Any, float], Value]) -> list[Value]:
        """All that is kept and understood; `understand` also gets when it was kept, as a POSIX time."""
        found = []
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(*_NOTHING_OF_OURS):
                found.append(understand(json.loads(path.read_text("utf-8")), path.stat().st_mtime))
        return found

    @property
    def _folder(self) -> Path:
        return platformdirs.user_cache_path("edge-spec") / self._name

    def _file(self, facts: object) -> Path:
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
        return self._folder / f"{digest[:32]}.json"


def file_facts(header: Header) -> Sequence[tuple[str, int, int]]:
    """What tells a model's files from others: names, sizes and times. Raises OSError."""
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in header.files]
