"""The line about one token: what it tells, and that it fits."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult

from edge_spec import Alternative, Alternatives, RoundTimings
from tests.tui.contrast import contrast
from tui.chat.transcript import Kind, TokenInfo
from tui.widgets.inspect_bar import InspectBar, token_text

PIECES = [
    b" merge",
    b" sort",
    b"\n\x1b",
    b"\xf0\x9f",
    "\u65e5\u672c".encode(),
    b" an_identifier_that_is_long",
    b"",
]
TIMINGS = RoundTimings(draft_s=0.037, verify_s=0.051, sample_s=0.001, wall_s=0.0894)
ALTERNATIVES = Alternatives(
    0,
    tuple(
        Alternative(token, prob) for token, prob in enumerate((0.9134, 0.0412, 0.0123, 0.0004, 0.0001, 0.0))
    ),
    (Alternative(1, 0.6), Alternative(0, 0.3)),
)


class BarApp(App[None]):
    def compose(self) -> ComposeResult:
        yield InspectBar()


def info(kind: Kind = "accepted", token: int = 0, p: float | None = 0.9134) -> TokenInfo:
    if kind in ("residual", "bonus", "plain"):
        return TokenInfo(token, kind, 12, 1, None, None, "target", TIMINGS)
    return TokenInfo(token, kind, 12, 1, p, 0.8701, "draft", TIMINGS)


async def told(
    info: TokenInfo | None, alternatives: Alternatives | None = None, width: int = 80
) -> list[str]:
    app = BarApp()
    async with app.run_test(size=(width, 6)) as pilot:
        bar = app.query_one(InspectBar)
        if info is not None:
            bar.show_token(info, alternatives, PIECES.__getitem__)
        await pilot.pause()
        return [bar.render_line(y).text.rstrip() for y in range(bar.size.height)]


async def test_a_token_is_told_with_its_probabilities_round_and_alternatives() -> None:
    assert await told(info(), ALTERNATIVES, 100) == [
        "0 ' merge'  accepted (draft)  p 0.913  q 0.870  round 12, place 2: draft 37 + verify 51, all 89 ms",
        "target raw  ' merge' 91%  ' sort' 4.1%  '\\n\\x1b' 1.2%  bytes F0 9F <0.1%  '\u65e5\u672c' <0.1%",
        "draft raw   ' sort' 60%  ' merge' 30%",
    ]


async def test_at_80_columns_the_least_telling_parts_go() -> None:
    assert await told(info(), ALTERNATIVES, 80) == [
        "0 ' merge'  accepted (draft)  p 0.913  q 0.870        round 12: 37 + 51, 89 ms",
        "target raw  ' merge' 91%  ' sort' 4.1%  '\\n\\x1b' 1.2%  bytes F0 9F <0.1%",
        "draft raw   ' sort' 60%  ' merge' 30%",
    ]
    assert (await told(info(), ALTERNATIVES, 36))[0] == "0 ' merge'  accepted  p 0.913  q \u2026"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
async def test_every_line_fits(width: int) -> None:
    app = BarApp()
    async with app.run_test(size=(width, 6)) as pilot:
        bar = app.query_one(InspectBar)
        for kind, token in itertools.product(get_args(Kind), range(len(PIECES))):
            bar.show_token(info(kind, token), ALTERNATIVES, PIECES.__getitem__)
            await pilot.pause(0)
            lines = [bar.render_line(y).text.rstrip() for y in range(3)]
            assert lines[0].startswith(f"{token} ")
            assert all(cell_len(line) <= width - 2 for line in lines)
            assert bar.render_line(3).text.strip() == ""


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("accepted", "accepted (draft)"),
        ("residual", "residual, instead of a rejected guess"),
        ("bonus", "bonus, after every guess was accepted"),
        ("plain", "plain, nothing was drafted"),
        ("rejected", "rejected by the target (draft)"),
        ("discarded", "discarded, never judged (draft)"),
        ("drafted", "drafted, not judged yet (draft)"),
    ],
)
async def test_how_a_token_came_is_told_in_words(kind: Kind, words: str) -> None:
    assert f"  {words}  " in (await told(info(kind), width=130))[0]


async def test_a_probability_that_was_not_computed_is_not_told() -> None:
    first = (await told(info("plain")))[0]
    assert "plain" in first and "  p " not in first and "  q " not in first
    first = (await told(info("discarded", p=None)))[0]
    assert "  q 0.870" in first and "  p " not in first
    assert "p 4e-04" in (await told(info("rejected", p=0.0004)))[0]
    assert "p 0.000" in (await told(info("rejected", p=0.0)))[0]


async def test_it_says_why_there_are_no_alternatives() -> None:
    assert (await told(info("accepted")))[1].startswith("Alternatives are recorded for answers that")
    assert (await told(info("discarded")))[1] == "The target has not judged this place."
    only_target = Alternatives(0, ALTERNATIVES.target, ())
    assert (await told(info("bonus"), only_target))[2] == "draft raw   was not asked here"


async def test_without_a_token_it_says_how_to_choose_one() -> None:
    assert (await told(None))[0] == "Choose a token with the arrow keys or the mouse."


async def test_the_token_stands_out_among_its_alternatives() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 6)) as pilot:
        bar = app.query_one(InspectBar)
        bar.show_token(info(token=1), ALTERNATIVES, PIECES.__getitem__)
        await pilot.pause()
        for y in (1, 2):
            lit = [
                segment.text for segment in bar.render_line(y) if segment.style and segment.style.underline
            ]
            assert lit == ["' sort'"]
        bar.clear()
        await pilot.pause()
        assert "Choose a token" in bar.render_line(0).text


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
async def test_all_of_it_can_be_read(theme: str) -> None:
    app = BarApp()
    async with app.run_test(size=(100, 6)) as pilot:
        app.theme = theme
        bar = app.query_one(InspectBar)
        for alternatives in (ALTERNATIVES, None):
            bar.show_token(info(), alternatives, PIECES.__getitem__)
            await pilot.pause()
            for y in range(3):
                assert all(contrast(segment) >= 3 for segment in bar.render_line(y))


def test_a_tokens_text_is_quoted_escaped_and_short() -> None:
    assert token_text(b"a\xe2\x80\xae\x1b[0m") == "'a\\u202e\\x1b[0m'"
    assert token_text(b"") == "''"
    assert token_text(b"\xe6\x97") == "bytes E6 97"
    assert token_text(b"x" * 30) == "'" + "x" * 18 + "\u2026"
    assert cell_len(token_text("\u65e5".encode() * 30)) == 20
