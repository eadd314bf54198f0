"""Answers saved as a trace while one chats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edge_spec import EdgeSpecError, Event, TraceHeader, TraceWriter


class Tracing:
    """Writes the events of the answers from now on to a file, until it is ended or writing fails."""

    def __init__(self) -> None:
        self._writer: TraceWriter | None = None
        self._begun = False

    @property
    def path(self) -> Path | None:
        """The file that is being written, or None."""
        return None if self._writer is None else self._writer.path

    def start(self, path: Path) -> None:
        """Save the answers that begin from now on. Raises OutputError for an impossible path."""
        self.end()
        self._writer, self._begun = TraceWriter(path), False

    def answer(self, header: TraceHeader, piece: Callable[[int], bytes]) -> None:
        """An answer begins; `header` says of which models. Raises OutputError."""
        if self._writer is not None and not self._begun:
            self._begun = True
            self._guard(lambda writer: writer.begin(header, piece))

    def see(self, event: Event) -> None:
        """Save one event of an answer that began while tracing. Raises OutputError, once."""
        if self._begun:
            self._guard(lambda writer: writer.write(event))

    def end(self) -> None:
        """Close the file; one that nothing was written to is removed."""
        if self._writer is not None:
            self._writer.close()
        self._writer, self._begun = None, False

    def _guard(self, write: Callable[[TraceWriter], None]) -> None:
        assert self._writer is not None
        try:
            write(self._writer)
        except EdgeSpecError:
            self.end()
            raise
