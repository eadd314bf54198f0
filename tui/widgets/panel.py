"""The speculation panel, and the one line that it folds into on a narrow terminal."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import ClassVar, Final

from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.chat.gauges import Gauges
from tui.chat.speculation import Speculation
from tui.chat.transcript import Kind
from tui.widgets.token_marks import NO_MARKS
from tui.widgets.token_view import TokenView

_EIGHTHS: Final = "▁▂▃▄▅▆▇█"
_PARTS: Final = " ▏▎▍▌▋▊▉"
_LEGEND: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("accepted", "accepted", "accepted"),
    ("the target's own", "own", "plain"),
    ("for a rejected guess", "own", "residual"),
    ("on top of the guesses", "own", "bonus"),
    ("rejected", "rejected", "rejected"),
    ("discarded", "discarded", "discarded"),
    ("not judged yet", "dim", "drafted"),
)
"""Words, their look, and the kind of token; some have a line only where they have a mark."""
_ALWAYS_TOLD: Final[frozenset[Kind]] = frozenset({"accepted", "plain", "rejected", "discarded"})
_NOTHING: Final = Gauges(Speculation(on=False, draft_max=0, reason="nothing is loaded"))


class SpeculationPanel(Widget):
    """Speed, acceptance, the cost of a round, and whether speculation is on; give it `Gauges`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "panel--heading", "panel--value", "panel--dim", "panel--bar", "panel--good", "panel--bad",
        "panel--accepted", "panel--own", "panel--rejected", "panel--discarded",
    }  # fmt: skip

    DEFAULT_CSS = """
    SpeculationPanel {
        width: 30;
        height: 1fr;
        padding: 0 1;
        .panel--heading { color: $text-muted; text-style: bold; }
        .panel--value { color: $foreground; text-style: bold; }
        .panel--dim { color: $text-muted; }
        .panel--bar { color: $primary; }
        .panel--good { color: $text-success; text-style: bold; }
        .panel--bad { color: $text-warning; text-style: bold; }
        .panel--accepted { color: $text-primary; text-style: underline; }
        .panel--own { color: $foreground; text-style: bold; }
        .panel--rejected { color: $text-warning; text-style: strike dim; }
        .panel--discarded { color: $foreground; text-style: strike dim; }
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._gauges = _NOTHING
        self._plain_hint = ""
        self._lines: list[Content] = []

    def show(self, gauges: Gauges, plain_hint: str = "") -> None:
        """Show these; `plain_hint` says how the plain speed can be learnt while it is unknown."""
        if (gauges, plain_hint) == (self._gauges, self._plain_hint):
            return
        self._gauges, self._plain_hint = gauges, plain_hint
        # While an answer streams this comes several times a second; most lines stay as they are.
        before, self._lines = self._lines, self._laid_out()
        for y, (old, new) in enumerate(itertools.zip_longest(before, self._lines)):
            if old is None or new is None or not old.is_same(new):
                self.refresh(Region(0, y, self.content_size.width, 1))

    def on_mount(self) -> None:
        for view in self.screen.query(TokenView):
            self.watch(view, "glyphs", self._lay_out, init=False)

    def on_resize(self) -> None:
        self._lay_out()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_mounted:
            self._lay_out()

    def _lay_out(self) -> None:
        self._lines = self._laid_out()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, style = self.content_size.width, self.visual_style
        if y >= len(self._lines):
            return Strip.blank(width, style.rich_style)
        line = self._lines[y].pad_right(max(width - self._lines[y].cell_length, 0))
        return Strip(line.render_segments(style), width)

    def _laid_out(self) -> list[Content]:
        """Its lines, from the top."""
        width, height = self.content_size
        head = [*self._speed(width), Content("")]
        tail = [*self._round(width), Content(""), *self._speculation(width)]
        # The bars take what is left, for a large K has many.
        room = height - len(head) - len(tail) - 2
        lines = [*head, *self._accepted(width, room), Content(""), *tail]
        legend = list(self._legend())
        if height - len(lines) > len(legend):
            lines += [Content("")] * (height - len(lines) - len(legend))
            lines += legend
        return lines

    def _legend(self) -> Iterable[Content]:
        """What tokens look like in the view beside it, with the marks that it has now."""
        views = self.screen.query(TokenView)
        marks = views.first().marks if views else NO_MARKS
        for text, name, kind in _LEGEND:
            if kind in marks or kind in _ALWAYS_TOLD:
                before, after = (self._styled(mark, "dim") for mark in marks.get(kind, ("", "")))
                yield Content.assemble(before, self._styled(text, name), after)

    def _speed(self, width: int) -> Iterable[Content]:
        gauges = self._gauges
        yield self._styled("SPEED", "heading")
        speed = "-" if gauges.speed is None else f"{gauges.speed:.1f}"
        left = Content.assemble(" ", self._styled(speed, "value"), self._styled(" tok/s", "dim"))
        yield _spread(left, self._styled(_plain_words(gauges), "dim"), width)
        if gauges.speed_up is not None:
            ratio = self._styled(f" x{gauges.speed_up:.2f}", "good" if gauges.speed_up >= 1 else "bad")
        else:
            ratio = Content("")
        sparks = self._styled(sparkline(gauges.recent, width - ratio.cell_length - 2), "bar")
        yield _spread(ratio, sparks, width)
        if gauges.num_drafted and gauges.plain_speed is None and self._plain_hint:
            yield self._styled(f" {self._plain_hint}", "dim")

    def _accepted(self, width: int, room: int) -> Iterable[Content]:
        gauges = self._gauges
        share = "-" if gauges.acceptance is None else f"{gauges.acceptance:.0%}"
        yield _spread(self._styled("ACCEPTED", "heading"), self._styled(share, "value"), width)
        positions = gauges.by_position[: max(room, 0)]
        digits = len(str(len(positions)))
        cells = max(width - digits - 6, 1)
        for position, value in enumerate(positions, 1):
            bar = self._styled(_bar(value, cells).ljust(cells), "bar")
            number = self._styled(f"{position:>{digits + 1}} ", "dim")
            yield Content.assemble(number, bar, self._styled(f"{100 * value:>4.0f}", "value"))

    def _round(self, width: int) -> Iterable[Content]:
        gauges = self._gauges
        heading = self._styled("ROUND", "heading")
        if gauges.tokens_a_round is None or gauges.round_ms is None:
            yield _spread(heading, self._styled("-", "value"), width)
            return
        value = Content.assemble(
            self._styled(f"{gauges.tokens_a_round:.1f}", "value"), self._styled(" tok ", "dim"),
            self._styled(f"{gauges.round_ms:.0f}", "value"), self._styled(" ms", "dim"),
        )  # fmt: skip
        yield _spread(heading, value, width)
        draft, verify, rest = gauges.draft_ms or 0.0, gauges.verify_ms or 0.0, gauges.rest_ms or 0.0
        yield self._styled(f" draft {draft:.0f} verify {verify:.0f} +{rest:.0f}", "dim")

    def _speculation(self, width: int) -> Iterable[Content]:
        speculation = self._gauges.speculation
        state = self._styled("on", "good") if speculation.on else self._styled("off", "bad")
        left = Content.assemble(self._styled("SPECULATION ", "heading"), state)
        right = self._styled(f"K {_length(speculation)}" if speculation.on else "", "value")
        yield _spread(left, right, width)
        if speculation.reason:
            reason = Content(speculation.reason)
            lines = reason.wrap(max(width - 1, 1))
            yield from (Content.assemble(" ", self._styled(line.plain, "dim")) for line in lines)

    def _styled(self, text: str, name: str) -> Content:
        return Content.styled(text, self.get_visual_style(f"panel--{name}"))


def _length(speculation: Speculation) -> str:
    return "auto" if speculation.draft_max is None else str(speculation.draft_max)


class FoldedPanel(Widget):
    """The panel in one line: `42.6 t/s x1.25  94%  K3 on  812/4096`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"folded--good", "folded--bad", "folded--dim"}

    DEFAULT_CSS = """
    FoldedPanel {
        height: 1;
        padding: 0 1;
        .folded--good { color: $text-success; }
        .folded--bad { color: $text-warning; }
        .folded--dim { color: $text-muted; }
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._gauges = _NOTHING

    def show(self, gauges: Gauges) -> None:
        if gauges != self._gauges:
            self._gauges = gauges
            self.refresh()

    def render(self) -> Content:
        gauges = self._gauges
        parts = []
        if gauges.speed is not None:
            ratio = Content("")
            if gauges.speed_up is not None:
                ratio = self._styled(f" x{gauges.speed_up:.2f}", "good" if gauges.speed_up >= 1 else "bad")
            parts.append(Content.assemble(f"{gauges.speed:.1f} t/s", ratio))
        if gauges.acceptance is not None:
            parts.append(Content(f"{gauges.acceptance:.0%}"))
        speculation = gauges.speculation
        if speculation.on:
            parts.append(Content.assemble(f"K {_length(speculation)} ", self._styled("on", "good")))
        else:
            reason = f": {speculation.reason}" if speculation.reason else ""
            parts.append(Content.assemble(self._styled("off", "bad"), self._styled(reason, "dim")))
        width = self.content_size.width
        right = self._styled(context_text(gauges, "/"), "dim")
        # A reason may be long, and nothing else says how full the context is.
        room = max(width - right.cell_length - 1, 0)
        return _spread(Content("  ").join(parts).truncate(room, ellipsis=True), right, width)

    def _styled(self, text: str, name: str) -> Content:
        return Content.styled(text, self.get_visual_style(f"folded--{name}"))


def _plain_words(gauges: Gauges) -> str:
    """What is known of plain decoding, to stand beside the speed."""
    if gauges.speed is not None and not gauges.num_drafted:
        return "all plain"  # the speed is that of plain decoding itself
    if gauges.plain_speed is not None:
        return f"plain {gauges.plain_speed:.1f}"
    return "plain unknown" if gauges.num_drafted else ""


def context_text(gauges: Gauges, between: str = " / ") -> str:
    """How full the context is, such as 812 / 4096; "" while nothing is loaded."""
    if gauges.context_size is None:
        return ""
    used = "-" if gauges.context_used is None else str(gauges.context_used)
    return f"{used}{between}{gauges.context_size}"


def sparkline(values: tuple[float, ...], width: int) -> str:
    """The last `width` values as bars between nothing and the largest of them."""
    values = values[-max(width, 0) :] if width > 0 else ()
    top = max(values, default=0.0)
    return "".join(_EIGHTHS[round(7 * value / top)] for value in values) if top > 0 else ""


def _bar(share: float, cells: int) -> str:
    """A bar of so many cells, in steps of an eighth."""
    full, part = divmod(round(min(max(share, 0.0), 1.0) * cells * 8), 8)
    return "█" * full + (_PARTS[part] if part else "")


def _spread(left: Content, right: Content, width: int) -> Content:
    """`left` and `right` at the two ends of a line; too long, the right one goes."""
    gap = width - left.cell_length - right.cell_length
    if gap < 1:
        return left.truncate(max(width, 0), ellipsis=True)
    return Content.assemble(left, " " * gap, right)
