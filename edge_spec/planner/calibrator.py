"""When a pair's costs are measured: before they are first needed, and again when they have changed."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Literal

from edge_spec.cancel import Cancel
from edge_spec.errors import Cancelled
from edge_spec.events import Calibrating, Event, Notice
from edge_spec.planner.calibration import Calibration, keep, recall
from edge_spec.planner.knowledge import Knowledge
from edge_spec.planner.length import described

if TYPE_CHECKING:
    from edge_spec.api import LoadedModel


class Calibrator:
    """Sees to it that what decodes of a pair cost is known; `knowledge` is None before that.

    `cancel` stops both models' decodes.
    """

    def __init__(self, target: LoadedModel, draft: LoadedModel | None, cancel: Cancel) -> None:
        self.knowledge: Knowledge | None = None
        self._target = target
        self._draft = draft
        self._cancel = cancel
        self._lock = threading.Lock()
        self._skip: Literal["impossible", "possible", "asked"] = "impossible"

    def calibrate(self) -> Generator[Event]:
        """Take up what an earlier process found out, or measure, as events; empties both caches.

        Ends early, with nothing known, where the generation is cancelled.
        """
        if self.knowledge is not None:
            return
        known, drifted = recall(self._target, self._draft) or (None, False)
        if known is not None and not drifted:
            self.knowledge = known
            return
        again = " again, since the last texts took longer or shorter than foreseen" if drifted else ""
        yield Notice("info", f"Measuring what decodes cost here{again}; this takes some seconds.")
        calibration = Calibration(self._target, self._draft)
        self._skip = "possible"
        finished = False
        try:
            for fraction in calibration.steps():
                yield Calibrating(fraction)
            finished = True
        except Cancelled:
            pass
        finally:
            skipped = self._was_skipped()
        if not finished:
            if skipped:
                self.knowledge = known
                how = "decoded plainly" if known is None else "planned by what was measured before"
                yield Notice("info", f"Measuring was skipped: this answer is {how}.")
            return
        self.knowledge = calibration.knowledge
        if known is not None:
            self.knowledge.restore(known.state())
        self.keep()
        yield Notice("info", described(self.knowledge))

    def skip(self) -> None:
        """End a calibration that is going on; its text goes on without. From any thread."""
        with self._lock:
            if self._skip == "possible":
                self._skip = "asked"
                self._cancel.set()

    def forbid_skip(self) -> None:
        """The whole generation is cancelled, which a skip must not undo. Fit for signal handlers."""
        self._skip = "impossible"

    def _was_skipped(self) -> bool:
        """Whether `skip` was called, which it can be no longer."""
        with self._lock:
            asked, self._skip = self._skip == "asked", "impossible"
            if asked:
                self._cancel.clear()
        return asked

    def keep(self) -> None:
        """Keep what was measured and learned for the next start."""
        if self.knowledge is not None:
            keep(self.knowledge, self._target, self._draft)
