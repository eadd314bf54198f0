"""Answers saved as a trace while one chats."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

from edge_spec import EdgeSpecError, Event, Notice, TraceHeader, TraceWriter

_log = logging.getLogger(__name__)


class Tracing:
    """Writes the events of the answers from now on to a file, until it is ended or writing fails.

    Why it ends, unless it was asked to, `tell` hears: no answer is lost for a trace.
    """

    def __init__(self, tell: Callable[[Notice], None]) -> None:
        self._tell = tell
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
        """An answer begins; `header` says of which models, whose tokens `piece` gives the bytes of."""
        if self._writer is not None and not self._begun:
            self._begun = True
            self._guard(lambda writer: writer.begin(header, piece))

    def see(self, event: Event) -> None:
        """Save one event of an answer that began while tracing."""
        if self._begun:
            self._guard(lambda writer: writer.write(event))

    def end(self) -> None:
        """Close the file; one that nothing was written to is removed."""
        writer, self._writer, self._begun = self._writer, None, False
        if writer is not None:
            with contextlib.suppress(OSError):  # an empty file stays where none can be removed
                writer.close()

    def end_for(self, reason: str) -> None:
        """The models whose answers are saved are gone."""
        if self._writer is not None:
            self._tell(Notice("warning", f"The trace {self.path} ends here, because {reason}."))
            self.end()

    def _guard(self, write: Callable[[TraceWriter], None]) -> None:
        writer = self._writer
        assert writer is not None
        try:
            write(writer)
        except EdgeSpecError as error:
            self.end()
            self._tell(Notice("warning", str(error)))
        except Exception as error:
            _log.error("the trace cannot go on", exc_info=error)
            self.end()
            bug = f"This is a bug in edge-spec: {type(error).__name__}: {error}"
            self._tell(Notice("warning", f"The trace {writer.path} ends here. {bug}."))
