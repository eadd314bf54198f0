"""One token, looked at closely: how it came, how likely it was, what else could have stood there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from edge_spec import Alternative, Alternatives
from tui.chat.transcript import Kind, TokenInfo

Piece = Callable[[int], bytes]
"""The bytes of a token."""

_EXPLAINED: Final[dict[Kind, str]] = {
    "residual": "residual, instead of a rejected guess",
    "bonus": "bonus, after every guess was accepted",
    "plain": "plain, nothing was drafted",
    "rejected": "rejected by the target",
    "discarded": "discarded, never judged",
    "drafted": "drafted, not judged yet",
}
_GAP: Final = "  "
_LABEL_CELLS: Final = 12
_MOST_TOKEN_CELLS: Final = 20
_NUM_ALTERNATIVES: Final = 5


class InspectBar(Widget):
    """Three lines about one token; what the width has no room for goes, the least telling first.

    p and q are what was sampled from, after temperature, top-k and the like, where the verdict knows
    them; the rows below are the models' own probabilities, before those.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "inspect-bar--here",
        "inspect-bar--how",
        "inspect-bar--label",
        "inspect-bar--token",
    }
    DEFAULT_CSS = """
    InspectBar {
        height: 3;
        padding: 0 1;
        background: $panel;
        color: $foreground;
        & > .inspect-bar--token { text-style: bold; }
        & > .inspect-bar--how { color: $text-primary; }
        & > .inspect-bar--label { color: $text-muted; }
        & > .inspect-bar--here { text-style: bold underline; }
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._info: TokenInfo | None = None
        self._alternatives: Alternatives | None = None
        self._piece: Piece = bytes

    def show_token(self, info: TokenInfo, alternatives: Alternatives | None, piece: Piece) -> None:
        """Tell of a token; `alternatives` are those of its place, None if they were not recorded."""
        self._info, self._alternatives, self._piece = info, alternatives, piece
        self.refresh()

    def clear(self) -> None:
        """Tell of no token."""
        self._info = None
        self.refresh()

    def render(self) -> Content:
        width = self.content_size.width
        if self._info is None:
            lines = [self._styled("Choose a token with the arrow keys or the mouse.", "label")]
        else:
            lines = [
                self._first_line(self._info, width),
                *self._places(self._info, self._alternatives, width),
            ]
        return Content("\n").join(line.truncate(max(width, 0), ellipsis=True) for line in lines)

    def _first_line(self, info: TokenInfo, width: int) -> Content:
        """Token and how it came on the left, its round on the right: as much of both as fits."""
        explained = _EXPLAINED.get(info.kind, info.kind)
        hows: tuple[str, ...] = (explained, info.kind)
        if info.source != "target":
            hows = (f"{explained} ({info.source})", *hows)
        rounds = _round_texts(info)
        for how, told in itertools.chain(
            itertools.product(hows, rounds[:1]), itertools.product(hows, rounds)
        ):
            left, right = self._token_part(info, how), self._styled(told, "label")
            gap = width - left.cell_length - right.cell_length
            if gap >= len(_GAP):
                return Content.assemble(left, " " * gap, right)
        return self._token_part(info, info.kind)

    def _token_part(self, info: TokenInfo, how: str) -> Content:
        return Content.assemble(
            self._styled(f"{info.token} ", "label"),
            self._styled(token_text(self._piece(info.token)), "token"),
            _GAP,
            self._styled(how, "how"),
            *(
                Content.assemble(self._styled(f"{_GAP}{name} ", "label"), _prob_text(prob))
                for name, prob in (("p", info.p), ("q", info.q))
                if prob is not None
            ),
        )

    def _places(self, info: TokenInfo, alternatives: Alternatives | None, width: int) -> list[Content]:
        if alternatives is None:
            if info.kind in ("discarded", "drafted"):
                return [self._styled("The target has not judged this place.", "label")]
            text = "Alternatives are recorded for answers that begin while this line is open."
            return [self._styled(text, "label")]
        return [
            self._row("target raw", alternatives.target, info.token, width),
            self._row("draft raw", alternatives.draft, info.token, width),
        ]

    def _row(self, label: str, row: Sequence[Alternative], token: int, width: int) -> Content:
        line = self._styled(label.ljust(_LABEL_CELLS), "label")
        if not row:
            return line + self._styled("was not asked here", "label")
        for index, alternative in enumerate(row[:_NUM_ALTERNATIVES]):
            text = self._styled(
                token_text(self._piece(alternative.token)), "here" if alternative.token == token else None
            )
            item = Content.assemble(text, " ", self._styled(_percent(alternative.prob), "label"))
            if index:
                item = Content(_GAP) + item
            if line.cell_length + item.cell_length > width:
                break
            line += item
        return line

    def _styled(self, text: str, name: str | None) -> Content:
        if name is None:
            return Content(text)
        return Content.styled(text, self.get_visual_style(f"inspect-bar--{name}"))


def token_text(piece: bytes) -> str:
    """A token for one line: quoted, controls escaped, bytes that are no text in hexadecimal, not long."""
    try:
        text = repr(piece.decode("utf-8"))
    except UnicodeDecodeError:
        text = f"bytes {piece.hex(' ').upper()}"
    if cell_len(text) <= _MOST_TOKEN_CELLS:
        return text
    while cell_len(text) >= _MOST_TOKEN_CELLS:
        text = text[:-1]
    return text + "\u2026"


def _round_texts(info: TokenInfo) -> list[str]:
    """The round and its timing, from the longest way to tell it to the shortest."""
    place = f"round {info.round}, place {info.depth + 1}"
    if info.timings is None:
        return [place, f"round {info.round}", ""]
    draft, verify, wall = (
        f"{seconds * 1000:.0f}"
        for seconds in (info.timings.draft_s, info.timings.verify_s, info.timings.wall_s)
    )
    return [
        f"{place}: draft {draft} + verify {verify}, all {wall} ms",
        f"round {info.round}: {draft} + {verify}, {wall} ms",
        f"round {info.round}: {wall} ms",
        f"round {info.round}",
        "",
    ]


def _prob_text(prob: float) -> str:
    return f"{prob:.3f}" if prob >= 0.001 or prob == 0 else f"{prob:.0e}"


def _percent(prob: float) -> str:
    """Two digits are enough to compare with."""
    if prob >= 0.0995:
        return f"{prob:.0%}"
    return f"{prob:.1%}" if prob >= 0.0005 else "<0.1%"
