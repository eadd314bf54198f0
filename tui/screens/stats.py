"""An answer, and what was loaded for it, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Static

from edge_spec import PairInfo, Stats, harmless
from tui.chat.gauges import Gauges
from tui.chat.transcript import AnswerFold
from tui.screens.closing import ClosingModal


class StatsScreen(ClosingModal[None]):
    """Every metric of an answer by its name in `run --json`, with what it means.

    Of an answer that has not ended only what its rounds tell already.
    """

    BINDINGS: ClassVar = [Binding("escape,q,enter", "dismiss(None)", "Close", show=False)]

    def __init__(
        self, gauges: Gauges, fold: AnswerFold | None, info: PairInfo | None, *, is_answering: bool = False
    ) -> None:
        super().__init__()
        self._is_answering = is_answering
        self._gauges = gauges
        self._fold = fold
        self._info = info

    def compose(self) -> ComposeResult:
        rows = list(_info_rows(self._info))
        title = "The last answer in numbers"
        if self._fold is not None:
            rows += _rows(self._fold.stats, self._gauges)
            if self._fold.finished is not None:
                rows += _time_rows(self._fold.stats)
            else:
                came = "has come" if self._is_answering else "came"
                title = f"The answer as far as it {came}, in numbers"
                rows += _rounds_rows(self._fold.stats, self._gauges)
        with VerticalScroll(id="stats-box") as box:
            box.border_title = title
            box.border_subtitle = "Esc closes"
            if self._fold is None:
                yield Static("There is no answer yet.", markup=False)
            yield Static("\n".join(f"{name:<26}{value}" for name, value in rows), markup=False)

    def on_mount(self) -> None:
        self.query_one("#stats-box").focus()


def _info_rows(info: PairInfo | None) -> Iterator[tuple[str, str]]:
    if info is None:
        return
    yield "target", harmless(info.target_file)
    yield "draft", harmless(info.draft_file or "none")
    for notice in info.notices:
        yield notice.level, harmless(notice.text)


def _rows(stats: Stats, gauges: Gauges) -> Iterator[tuple[str, str]]:
    yield "speed", _with(stats.tokens_per_second, "{:.1f} tokens/s, decoding alone")
    yield "plain decoding", _with(gauges.plain_speed, "{:.1f} tokens/s, by rounds that drafted nothing")
    yield "speed-up of decoding", _with(gauges.speed_up, "x{:.2f}")
    yield "prompt", f"{stats.prompt_tokens} tokens"
    yield "  held by the target", f"{stats.cached_tokens}"
    if gauges.speculation.on or stats.draft_cached_tokens:
        yield "  held by the draft", f"{stats.draft_cached_tokens}"
    yield "answer", f"{stats.completion_tokens} tokens in {stats.rounds} rounds"
    yield "mean acceptance length", _with(stats.mean_acceptance_length, "{:.2f} tokens a round")
    yield "drafted", f"{stats.drafted}"
    yield "  accepted", f"{stats.accepted}"
    yield "  rejected", f"{stats.rejected}"
    yield "  discarded", f"{stats.discarded}"
    yield "acceptance rate", _with(stats.acceptance_rate, "{:.1%} of those judged")
    yield "draft yield", _with(stats.draft_yield, "{:.1%} of those drafted")
    by_position = "  ".join(f"{share:.0%}" for share in stats.acceptance_by_position)
    yield "acceptance by position", by_position or "-"


def _time_rows(stats: Stats) -> Iterator[tuple[str, str]]:
    """Where the time of an answer that has ended went, and whether it was drafted for at its end."""
    yield "time to first token", f"{stats.time_to_first_token_s:.2f} s"
    yield "wall time", f"{stats.wall_s:.2f} s"
    timers = stats.timers
    yield "  target reads", f"{timers.prefill_s:.2f} s"
    yield "  draft reads", f"{timers.draft_prefill_s:.2f} s"
    yield "  drafting", f"{timers.draft_s:.2f} s"
    yield "  verifying", f"{timers.verify_s:.2f} s"
    yield "  sampling", f"{timers.sample_s:.2f} s"
    yield "  the rest", f"{stats.rest_s:.2f} s"
    yield "speculation", f"{stats.state}{f', {stats.reason}' if stats.reason else ''}"


def _rounds_rows(stats: Stats, gauges: Gauges) -> Iterator[tuple[str, str]]:
    """What the rounds took so far: how long models read the prompt is told when the answer ends."""
    timers = stats.timers
    yield "time of its rounds", f"{stats.wall_s:.2f} s, the first one included"
    yield "  drafting", f"{timers.draft_s + timers.draft_prefill_s:.2f} s, with the draft's reading"
    yield "  verifying", f"{timers.verify_s:.2f} s, without the first"
    yield "  sampling", f"{timers.sample_s:.2f} s"
    speculation = gauges.speculation
    length = "auto" if speculation.draft_max is None else speculation.draft_max
    state = f"on, K {length}" if speculation.on else "off"
    yield "speculation", f"{state}{f', {speculation.reason}' if speculation.reason else ''}"


def _with(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
