"""Forging in a process of its own, for interfaces: theirs stays quick, and a crash is not theirs."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from edge_spec.errors import Cancelled
from edge_spec.forge.running import Running
from edge_spec.host.process import EngineProcess
from edge_spec.host.wire import Failed

PATIENCE_S: Final = 10.0
"""How long a cancelled forging may take to end in good order: it finishes the tensor in hand."""

_MODULE: Final = "edge_spec.forge.child"
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ForgeRequest(Running):
    """What to make a faster draft for `target` of: `draft`, or of the target itself if that is None.

    `type_name` is "auto" (the best of several, measured), "keep", or a type. `num_tokens` None is
    chosen by measuring, 0 leaves the vocabulary whole; `num_dropped` None is chosen, 0 leaves all
    layers. The target writes `sample_tokens` to each sample prompt. The file goes into the store, and
    replaces nothing there.
    """

    target: str
    draft: str | None
    type_name: str = "auto"
    num_tokens: int | None = None
    num_dropped: int | None = 0
    sample_tokens: int = 64


@dataclass(frozen=True, slots=True)
class ForgeStep:
    """A draft that was made and measured, the draft as given first.

    `step_s` is one draft step's time in seconds, `acceptance` the rate at which the target accepts
    what it drafts, `speedup` the expected one over plain decoding when `length` tokens are drafted
    a round. `taken` says that it leads to the result; while forging goes on, that is not known.
    """

    name: str
    size: int
    step_s: float
    acceptance: float
    speedup: float
    length: int
    taken: bool = True


@dataclass(frozen=True, slots=True)
class ForgeStatus:
    """What is being done now; if it is a `note`, something worth knowing, said once."""

    text: str
    note: bool = False


@dataclass(frozen=True, slots=True)
class ForgeResult:
    """The file that was made, or None when nothing was better than the draft as given."""

    path: Path | None
    steps: tuple[ForgeStep, ...]

    @property
    def given(self) -> ForgeStep:
        return self.steps[0]

    @property
    def best(self) -> ForgeStep:
        """The last step that was taken."""
        return [step for step in self.steps if step.taken][-1]


def forge_draft(
    request: ForgeRequest,
    tell: Callable[[ForgeStatus | ForgeStep], None],
    cancelled: Callable[[], bool],
) -> ForgeResult:
    """Make a faster draft, which takes minutes; every core is used.

    `cancelled()` is asked several times a second; nothing is left of a forging that was cancelled
    or failed. Raises ModelError, OutputError, SettingError and Cancelled.
    """
    child = EngineProcess(_MODULE)
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(child, lines), name="forge", daemon=True)
    reader.start()
    ends_by: float | None = None
    try:
        child.send(json.dumps(asdict(request)) + "\n")
        while True:
            if ends_by is None and cancelled():
                child.send("cancel\n")
                ends_by = time.monotonic() + PATIENCE_S
            if ends_by is not None and time.monotonic() > ends_by:
                raise Cancelled
            with contextlib.suppress(queue.Empty):
                line = lines.get(timeout=_POLL_S)
                if line is None:
                    if ends_by is not None:
                        raise Cancelled
                    raise child.crash("forging", outcome="nothing was written")
                result = _understood(line, tell)
                if result is not None:
                    return result
    finally:
        child.end()
        reader.join()
        child.close()
        _clear_up()


def _read(child: EngineProcess, lines: queue.SimpleQueue[bytes | None]) -> None:
    while (line := child.read_line()) is not None:
        lines.put(line)
    lines.put(None)


def _understood(line: bytes, tell: Callable[[ForgeStatus | ForgeStep], None]) -> ForgeResult | None:
    """Pass on what the child said; the result when that was it. Raises the error that it said."""
    said: dict[str, Any] = json.loads(line)
    match said.pop("forge"):
        case "status":
            tell(ForgeStatus(**said))
        case "step":
            tell(ForgeStep(**said))
        case "failed":
            if said["error"] == Cancelled.__name__:
                raise Cancelled
            raise Failed(**said).exception()
        case "done":
            path = None if said["path"] is None else Path(said["path"])
            return ForgeResult(path, tuple(ForgeStep(**step) for step in said["steps"]))
    return None


def _clear_up() -> None:
    """What a child left that was killed or crashed."""
    from edge_spec.forge.scratch import clear_orphans
    from edge_spec.models.store import store_path

    with contextlib.suppress(OSError):
        clear_orphans(store_path())
