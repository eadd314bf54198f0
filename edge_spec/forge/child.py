"""The process that forges for an interface; `forge.process` starts it and reads what it says.

The first line on stdin is the request. Any other line is an order to stop, and so is the end of
stdin: then the parent is gone, and nobody waits for longer than it takes to tidy up.
"""

from __future__ import annotations

import json
import os
import threading
import time
import traceback
from dataclasses import asdict
from typing import TYPE_CHECKING, BinaryIO, Final

from edge_spec.cancel import Cancel
from edge_spec.errors import Cancelled, EdgeSpecError
from edge_spec.forge.process import PATIENCE_S, ForgeRequest, ForgeStatus, ForgeStep
from edge_spec.host.pipes import private_pipes, write_all

if TYPE_CHECKING:
    from edge_spec.forge.job import Forge
    from edge_spec.forge.report import ForgeReport, Stage

_TELL_S: Final = 0.1
"""A status is told so often at most; the last words before a pause may be older by that."""


class _Teller:
    """What the forging tells, as lines for the parent. A `Reporter`."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._told = 0.0
        self._text = ""

    def status(self, text: str) -> None:
        now = time.monotonic()
        same = text.partition(":")[0] == self._text.partition(":")[0]
        if not same or now - self._told >= _TELL_S:
            self._told, self._text = now, text
            self.say("status", **asdict(ForgeStatus(text)))

    def note(self, text: str) -> None:
        self.say("status", **asdict(ForgeStatus(text, note=True)))

    def stage(self, stage: Stage) -> None:
        self.say("step", **asdict(_step(stage)))

    def say(self, what: str, **fields: object) -> None:
        write_all(self._sink, f"{json.dumps({'forge': what, **fields})}\n")


def _step(stage: Stage) -> ForgeStep:
    return ForgeStep(
        stage.name,
        stage.header.size,
        stage.step_s,
        stage.acceptance.sampled,
        stage.gain.speedup,
        stage.gain.length,
        stage.taken,
    )


def main() -> None:
    """Forge what the request says, on what were stdin and stdout."""
    source, sink = private_pipes()
    lines = os.fdopen(source, "rb")
    teller, cancel = _Teller(sink), Cancel()
    status = 1
    try:
        request = ForgeRequest(**json.loads(lines.readline()))
        forge = _forge(request, cancel, teller)
        threading.Thread(target=_listen, args=(lines, cancel, forge), daemon=True).start()
        report = forge.run()
    except (Cancelled, EdgeSpecError) as error:
        teller.say("failed", error=type(error).__name__, text=str(error))
    except BaseException:
        traceback.print_exc()
    else:
        teller.say("done", **_result(report))
        status = 0
    os._exit(status)  # the thread that listens may hold stdin's lock, which an orderly end waits for


def _forge(request: ForgeRequest, cancel: Cancel, teller: _Teller) -> Forge:
    from edge_spec.forge.job import Forge
    from edge_spec.forge.report import ForgeSettings
    from edge_spec.forge.running import running_options
    from edge_spec.forge.samples import built_in_prompts
    from edge_spec.models.quantize import checked_type
    from edge_spec.models.resolve import resolve_model

    target = resolve_model(request.target)
    kind = request.type_name
    settings = ForgeSettings(
        target=target,
        draft=target if request.draft is None else resolve_model(request.draft),
        output=None,
        prompts=built_in_prompts(),
        type_name=kind if kind in ("auto", "keep") else checked_type(kind),
        num_tokens=request.num_tokens,
        num_dropped=request.num_dropped,
        sample_tokens=request.sample_tokens,
        **running_options(asdict(request)),
    )
    return Forge(settings, cancel, teller)


def _listen(lines: BinaryIO, cancel: Cancel, forge: Forge) -> None:
    line = lines.readline()
    cancel.set()
    if not line:
        time.sleep(PATIENCE_S / 2)
        forge.clear()
        os._exit(1)


def _result(report: ForgeReport) -> dict[str, object]:
    path = None if report.path is None else str(report.path)
    return {"path": path, "steps": [asdict(_step(stage)) for stage in report.stages]}
