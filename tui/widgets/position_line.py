"""Where a replay stands: a bar, the round, the time, the speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from tui.models.amounts import clock_text

_SIGNS: Final = {"playing": "▶ playing", "paused": "‖ paused", "ended": "■ at the end"}


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a recording; times in seconds. `text` of `num_texts` counts from 1.

    `reading` is (done, total) of the prompt's tokens while there is nothing else yet.
    """

    state: Literal["playing", "paused", "ended"]
    reading: tuple[int, int] | None = None
    num_rounds: int = 0
    all_rounds: int = 0
    clock: float = 0.0
    duration: float = 0.0
    speed: float = 1.0
    text: int = 1
    num_texts: int = 1


class PositionLine(Widget):
    """Two lines: a bar as wide as the screen, and the figures in words."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"position--done", "position--rest", "position--words"}
    DEFAULT_CSS = """
    PositionLine {
        height: 2;
        padding: 0 1;
        .position--done { color: $primary; }
        .position--rest { color: $foreground 30%; }
        .position--words { color: $text-muted; }
    }
    """

    position: reactive[Position] = reactive(Position("paused"))

    def render(self) -> Content:
        at, width = self.position, self.content_size.width
        share = at.num_rounds / at.all_rounds if at.all_rounds else float(at.state == "ended")
        full = round(share * max(width - 1, 0))
        words = _words(at)
        if cell_len(words) > width:
            words = _words(at, short=True)
        return Content.assemble(
            ("━" * full + "●", self.get_visual_style("position--done")),
            ("─" * (width - full - 1), self.get_visual_style("position--rest")),
            "\n",
            (words, self.get_visual_style("position--words")),
        )


def _words(at: Position, *, short: bool = False) -> str:
    """The figures, spelled out or as short as they can be told."""
    of = "/" if short else " of "
    place = f"round {at.num_rounds}{of}{at.all_rounds}"
    if at.reading is not None:
        done, total = at.reading
        place = f"reading {done}/{total}" if short else f"reading the prompt, {done} of {total} tokens"
    sign = _SIGNS[at.state][0] if short else _SIGNS[at.state]
    words = [sign, place, f"{clock_text(at.clock)}{of}{clock_text(at.duration)}", f"{at.speed:g}x"]
    if at.num_texts > 1:
        words.append(f"text {at.text}{of}{at.num_texts}{' [ ]' if short else ', [ ] others'}")
    return "  ".join(words)
