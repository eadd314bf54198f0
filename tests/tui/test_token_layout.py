"""Wrapping: every line fits, nothing is lost, nothing steers the terminal, appending equals wrapping anew."""

from __future__ import annotations

import unicodedata
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.chat.transcript import UNEMITTED, Block, Kind, Role, Span, TokenInfo, Transcript
from tui.widgets.token_layout import BlockLayout, LineStart, TranscriptLayout
from tui.widgets.token_lines import Line, Look
from tui.widgets.token_marks import ASCII_BRACKETS, ASCII_GLYPHS, BRACKETS, GLYPHS, NO_MARKS, Marks


def span(text: str, kind: Kind = "text", number: int = 1) -> Span:
    info = None if kind == "text" else TokenInfo(0, kind, number, 0, None, None, "draft", None)
    return Span(text, kind, info)


def lay(*spans: Span, width: int = 42, marks: Marks = NO_MARKS, rejected: bool = True) -> BlockLayout:
    return BlockLayout(Block("model", list(spans)), Look(width, rejected, marks), is_first=True)


def body(layout: BlockLayout) -> list[str]:
    """The lines under the header, without the indent that all of them have."""
    lines = [line.text for line in layout.lines[1:]]
    assert all(line.startswith("  ") for line in lines)
    return [line[2:] for line in lines]


def wrapped(text: str, width: int = 42) -> list[str]:
    return body(lay(span(text), width=width))


def copied(layout: BlockLayout) -> str:
    return "".join(line.copied(0, None) for line in layout.lines[layout.num_head :])


# -- lines


def test_lines_break_at_spaces_and_keep_as_much_of_them_as_fits() -> None:
    assert wrapped("one two three", width=11) == ["one two ", "three"]
    assert wrapped("one two    three", width=11) == ["one two  ", "three"]


def test_a_word_longer_than_a_line_is_cut() -> None:
    assert wrapped("a 1234567890123", width=10) == ["a ", "12345678", "90123"]


def test_a_word_may_come_in_several_tokens() -> None:
    assert body(lay(span("one t"), span("wo th"), span("ree"), width=11)) == ["one two ", "three"]


def test_code_keeps_its_indentation_and_the_rest_of_a_long_line_has_it_too() -> None:
    text = "if x:\n    return first or second"
    assert wrapped(text, width=22) == ["if x:", "    return first or ", "    second"]


def test_deep_indentation_leaves_half_of_a_line_to_its_rest() -> None:
    assert wrapped(" " * 18 + "word", width=22) == [" " * 18, " " * 10 + "word"]


def test_line_ends_of_both_kinds_begin_a_line_even_split_over_tokens() -> None:
    assert wrapped("a\nb\r\nc") == ["a", "b", "c"]
    assert body(lay(span("a\r"), span(""), span("\nb"))) == ["a", "b"]


def test_an_empty_line_and_a_line_end_at_the_end_are_lines() -> None:
    assert wrapped("a\n\nb\n") == ["a", "", "b", ""]


def test_a_tab_goes_to_the_next_multiple_of_four() -> None:
    assert wrapped("\ta\tb\tcdef\tg") == ["    a   b   cdef    g"]


def test_header_prefix_and_blank_line_tell_messages_apart() -> None:
    def lines(role: Role, *, is_first: bool) -> list[str]:
        layout = BlockLayout(Block.of_text(role, "hi"), Look(20), is_first=is_first)
        return [line.text for line in layout.lines]

    assert lines("you", is_first=True) == ["you", "  hi"]
    assert lines("model", is_first=False) == ["", "model", "  hi"]
    assert lines("system", is_first=False) == ["", "system", "  hi"]
    assert lines("note", is_first=False) == ["", "\u00b7 hi"]
    assert lines("error", is_first=False) == ["", "! hi"]


def test_an_answer_without_tokens_is_a_header() -> None:
    assert [line.text for line in lay().lines] == ["model"]


# -- characters


def test_wide_characters_take_two_cells_and_lines_may_break_between_them() -> None:
    assert wrapped("\u65e5\u672c\u8a9e\u306e\u6587", width=11) == [
        "\u65e5\u672c\u8a9e\u306e",
        "\u6587",
    ]


def test_a_closing_mark_stays_with_the_wide_character_before_it() -> None:
    assert wrapped("\u65e5\u672c\u8a9e\u306e\u3002", width=11) == [
        "\u65e5\u672c\u8a9e",
        "\u306e\u3002",
    ]


@pytest.mark.parametrize(
    "character",
    [
        "e\u0301",
        "\U0001f469\u200d\U0001f4bb",
        "\U0001f44d\U0001f3fd",
        "\U0001f1e9\U0001f1ea",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
        "\U0001f3f4\U000e0067\U000e0062\U000e007f",
        "\u1112\u1161\u11ab",
        "\u0e01\u0e47",
    ],
)
def test_code_points_drawn_as_one_character_are_one_piece_even_split_over_tokens(character: str) -> None:
    layout = lay(*(span(part) for part in ("a", *character, "b")))
    pieces = [piece for line in layout.lines[1:] for piece in line.pieces if piece.text]
    assert [piece.text for piece in pieces[1:]] == ["a", character, "b"]
    assert pieces[2].cells == cell_len(character)
    assert copied(layout) == f"a{character}b"
    for index in range(len(character) + 2):
        assert layout.find(index) == 1


def test_an_emoji_request_that_would_widen_a_character_is_not_drawn_but_copied() -> None:
    for layout in (lay(span("\u2764\ufe0f!")), lay(span("\u2764"), span("\ufe0f!"))):
        assert body(layout) == ["\u2764!"]
        assert copied(layout) == "\u2764\ufe0f!"


def test_a_joiner_swallows_an_emoji_only() -> None:
    layout = lay(span("\u0915\u094d\u200d\u0937"))
    assert [piece.text for piece in layout.lines[1].pieces][1:] == ["\u0915\u094d\u200d", "\u0937"]
    assert layout.lines[1].cells == 4


def test_a_rejected_joiner_does_not_change_the_character_before_it() -> None:
    layout = lay(span("\U0001f469", "accepted"), span("\u200d\U0001f4bb", "rejected"))
    assert body(layout) == ["\U0001f469\u2039200D\u203a\U0001f4bb"]
    assert copied(layout) == "\U0001f469"


def test_a_mark_without_a_character_gets_a_circle() -> None:
    layout = lay(span("\u0301a"))
    assert body(layout) == ["\u25cc\u0301a"]
    assert copied(layout) == "\u0301a"


@pytest.mark.parametrize(
    ("character", "symbol", "copy"),
    [
        ("\x1b", "\u241b", ""),
        ("\x00", "\u2400", ""),
        ("\x07", "\u2407", ""),
        ("\x7f", "\u2421", ""),
        ("\x9b", "\u20399B\u203a", ""),
        ("\r", "\u240d", ""),
        ("\u202e", "\u2039202E\u203a", "\u202e"),
        ("\u2067", "\u20392067\u203a", "\u2067"),
        ("\u200b", "\u2039200B\u203a", "\u200b"),
        ("\u00ad", "\u2039AD\u203a", "\u00ad"),
        ("\u2028", "\u20392028\u203a", "\u2028"),
        ("\ufeff", "\u2039FEFF\u203a", "\ufeff"),
        ("\U000e0041", "\u2039E0041\u203a", "\U000e0041"),
    ],
)
def test_what_steers_a_terminal_or_hides_is_a_symbol(character: str, symbol: str, copy: str) -> None:
    layout = lay(span(f"a{character}b"))
    assert body(layout) == [f"a{symbol}b"]
    assert copied(layout) == f"a{copy}b"


def test_right_to_left_text_passes_with_its_own_marks() -> None:
    text = "\u05e9\u05dc\u05d5\u05dd\u200f! \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert wrapped(text) == [text]


def test_brackets_are_no_markup() -> None:
    assert wrapped("[bold]a[/bold] [link=x]") == ["[bold]a[/bold] [link=x]"]


# -- kinds

ROUND = (
    span("def", "plain", 1),
    span(" merge", "accepted", 2),
    span("(a", "accepted", 2),
    span(" with", "rejected", 2),
    span(" two", "discarded", 2),
    span(" lists", "discarded", 2),
    span(",", "residual", 2),
    span(" b", "accepted", 3),
    span(")", "bonus", 3),
)


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        (NO_MARKS, "def merge(a with two lists, b)"),
        (BRACKETS, "def merge(a\u27e8\u2717 with\u27e9\u27e8\u00b7 two lists\u27e9, b)"),
        (ASCII_BRACKETS, "def merge(a{x with}{. two lists}, b)"),
        (
            GLYPHS,
            "def \u00bbmerge(a\u27e8\u2717 with\u27e9\u27e8\u00b7 two lists\u27e9\u21b3, \u00bbb+)",
        ),
        (ASCII_GLYPHS, "def >merge(a{x with}{. two lists}=, >b+)"),
    ],
)
def test_marks_stand_around_lost_runs_and_before_the_first_word_of_others(
    marks: Marks, expected: str
) -> None:
    layout = lay(*ROUND, marks=marks, width=80)
    assert body(layout) == [expected]
    assert copied(layout) == "def merge(a, b)"


def test_glyphs_tell_every_kind_apart_without_any_style() -> None:
    for marks in (GLYPHS, ASCII_GLYPHS):
        kinds = [kind for kind in get_args(Kind) if kind != "text"]
        shown = {kind: body(lay(span("x", kind), marks=marks))[0] for kind in kinds}
        assert len(set(shown.values())) == len(kinds)
        assert shown["plain"] == "x"


def test_brackets_tell_lost_kinds_apart_without_any_style() -> None:
    for marks in (BRACKETS, ASCII_BRACKETS):
        assert len({body(lay(span("x", kind), marks=marks))[0] for kind in UNEMITTED}) == len(UNEMITTED)


def test_hidden_guesses_leave_no_trace() -> None:
    for marks in (NO_MARKS, GLYPHS):
        with_guesses = lay(*ROUND, span("x", "drafted", 4), marks=marks, rejected=False)
        without = lay(*(span for span in ROUND if span.kind not in UNEMITTED), marks=marks)
        assert body(with_guesses) == body(without)
        assert with_guesses.find(3) is None


def test_a_lost_line_end_is_told_in_place_and_a_waiting_one_breaks_the_line() -> None:
    assert body(lay(span("a"), span("\nb", "rejected"), span("\r\nc", "discarded"))) == ["a\u21b5b\u21b5c"]
    assert body(lay(span("a"), span("\nb", "drafted"))) == ["a", "b"]


def test_a_guess_without_text_is_seen() -> None:
    assert body(lay(span("a"), span("", "rejected"), span("", "residual"))) == ["a\u2205"]


def test_a_token_without_cells_has_a_place() -> None:
    layout = lay(span("ab"), span("", "plain"), span("\n", "plain"), span("c", "plain"))
    assert [layout.find(index) for index in range(4)] == [1, 1, 1, 2]
    assert [layout.lines[1].cell_of(index) for index in range(3)] == [2, 4, 4]


def test_a_mark_does_not_stand_alone_at_the_end_of_a_line() -> None:
    assert body(lay(span("one two "), span("three", "residual"), marks=ASCII_GLYPHS, width=11)) == [
        "one two ",
        "=three",
    ]
    assert body(lay(span("one two"), span(" three", "rejected"), marks=ASCII_GLYPHS, width=12))[0] == "one "


def test_the_mark_of_a_run_that_begins_with_white_space_stands_before_its_first_word() -> None:
    begins = lay(span("a"), span("\n", "accepted"), span("    b", "accepted"), marks=ASCII_GLYPHS)
    assert body(begins) == ["a", "    >b"]
    is_all = lay(span("a"), span("\n  ", "bonus", 1), span("b", "accepted", 2), marks=ASCII_GLYPHS)
    assert body(is_all) == ["a", "  +>b"]


def test_wrapping_does_not_go_on_from_between_a_mark_and_its_text() -> None:
    layout = lay(span("abcdef"), span("guess", "rejected"), marks=ASCII_BRACKETS, width=10)
    assert body(layout) == ["abcdef{x", "guess}"]
    assert layout.lines[2].start is None


# -- copying


def test_copying_part_of_a_line_takes_whole_what_is_drawn_otherwise_than_written() -> None:
    line = lay(span("a\tb"), span("\U0001f469\u200d\U0001f4bb")).lines[1]
    assert line.text == "  a   b\U0001f469\u200d\U0001f4bb"
    assert line.copied(0, 3) == "a"
    assert line.copied(4, 5) == "\t"
    assert line.copied(6, 8) == "b\U0001f469\u200d\U0001f4bb"
    assert line.whole(7, 8) == (7, 10)
    assert line.whole(8, 10) == (7, 10)


def test_a_copied_line_end_belongs_to_the_end_of_its_line() -> None:
    first, second = lay(span("one\ntwo")).lines[1:]
    assert (first.copied(3, None), first.copied(3, 5), second.copied(0, 3)) == ("ne\n", "ne", "t")


def test_a_line_is_found_again_at_another_width() -> None:
    transcript = Transcript(
        [Block.of_text("you", "hi"), Block.of_text("model", "one two three four\nfive six")]
    )
    narrow, wide = (TranscriptLayout(transcript, Look(width)) for width in (10, 40))
    shown = ["you", "  hi", "", "model", "  one two ", "  three ", "  four", "  five six"]
    assert [line.text for y in range(8) if (line := narrow.line(y))] == shown
    start = narrow.start_of(6)
    assert start == LineStart(1, 0, 14)
    assert (wide.line_at(start), narrow.line_at(start)) == (4, 6)
    for y in range(8):
        start = narrow.start_of(y)
        assert start is not None
        assert narrow.line_at(start) == (2 if y == 3 else y)  # a header goes with the line above it
    assert narrow.start_of(8) is None


# -- whatever comes

PARTS = (
    "a b\n\t\r\x1b\x9b\u0301\u200d\ufe0f\u200b\u202e\u05d0\u65e5\u3002,\u2764"
    "\U0001f469\U0001f4bb\U0001f3fd\U0001f1e9\U0001f3f4\U000e0067\u1161\u0915"
)
words = st.sampled_from(["word", " word", " ", "    ", "\n", "\n    ", "\r\n", "longlongword", "", ", ", "x"])
texts = st.one_of(words, st.text(PARTS, max_size=6), st.text(max_size=4))
kinds: st.SearchStrategy[Kind] = st.sampled_from(get_args(Kind))
spans = st.builds(span, texts, kinds, st.integers(1, 3))
looks = st.builds(
    Look, st.integers(0, 30), st.booleans(), st.sampled_from([NO_MARKS, BRACKETS, GLYPHS, ASCII_GLYPHS])
)


def seen(lines: list[Line]) -> list[tuple[object, ...]]:
    return [(tuple(line.pieces), line.start) for line in lines]


@settings(max_examples=500)
@given(st.lists(spans, max_size=12), st.lists(spans, max_size=8), st.integers(0, 12), looks)
def test_going_on_from_a_change_is_wrapping_anew(
    before: list[Span], after: list[Span], first: int, look: Look
) -> None:
    block = Block("model", list(before))
    layout = BlockLayout(block, look, is_first=False)
    old = seen(layout.lines)
    block.spans[first:] = after
    line = layout.changed(min(first, len(before)))
    assert seen(layout.lines) == seen(BlockLayout(block, look, is_first=False).lines)
    assert seen(layout.lines)[:line] == old[:line]


roles: st.SearchStrategy[Role] = st.sampled_from(get_args(Role))
blocks = st.builds(Block, roles, st.lists(spans, max_size=4))


def all_seen(layout: TranscriptLayout) -> list[tuple[object, ...]]:
    lines = [layout.line(y) for y in range(layout.num_lines)]
    assert layout.line(layout.num_lines) is None
    return seen([line for line in lines if line is not None])


@given(
    st.lists(blocks, max_size=4), st.lists(blocks, max_size=3), st.integers(0, 4), st.integers(0, 4), looks
)
def test_a_transcript_that_changed_has_the_lines_of_a_new_one(
    before: list[Block], more: list[Block], block: int, first: int, look: Look
) -> None:
    transcript = Transcript(before)
    layout = TranscriptLayout(transcript, look)
    block = min(block, len(before))
    if block < len(before):
        first = min(first, len(before[block].spans))
        before[block].spans[first:] = [span("new ", "plain"), span("text\n", "rejected")]
    transcript.blocks = [*before[: block + 1], *more]
    old = all_seen(TranscriptLayout(transcript, look))
    line = layout.changed(block, first)
    assert all_seen(layout) == old
    assert 0 <= line <= layout.num_lines


@given(st.lists(blocks, max_size=4), looks)
def test_walking_over_a_transcript_meets_every_token_that_is_shown_once(
    blocks: list[Block], look: Look
) -> None:
    layout = TranscriptLayout(Transcript(blocks), look)
    expected = [
        (b, s)
        for b, block in enumerate(blocks)
        for s, one in enumerate(block.spans)
        if one.info is not None and look.shows(one)
    ]
    assert list(layout.tokens_from((-1, 0), 1)) == expected
    assert list(layout.tokens_from((len(blocks), 0), -1)) == expected[::-1]
    for place in expected:
        cell = layout.cell_of(place)
        assert cell is not None
        line = layout.line(cell.y)
        assert line is not None
        assert line.cell_of(place[1]) == cell.x


@given(st.lists(spans, max_size=12), looks)
def test_every_line_fits_and_is_measured_as_it_is_drawn(spans: list[Span], look: Look) -> None:
    layout = BlockLayout(Block("model", spans), look, is_first=True)
    for line in layout.lines[1:]:
        assert [piece.cells for piece in line.pieces] == [cell_len(piece.text) for piece in line.pieces]
        assert line.cells <= max(look.width, 10)


@given(st.lists(spans, max_size=12), looks)
def test_copying_everything_gives_what_was_emitted_less_what_would_steer_a_terminal(
    spans: list[Span], look: Look
) -> None:
    block = Block("model", spans)
    expected = "".join(
        c for c in block.text.replace("\r\n", "\n") if c in "\n\t" or unicodedata.category(c) != "Cc"
    )
    assert copied(BlockLayout(block, look, is_first=True)) == expected


@given(st.lists(spans, max_size=12), looks)
def test_no_line_holds_a_character_that_steers_or_hides(spans: list[Span], look: Look) -> None:
    layout = BlockLayout(Block("model", spans), look, is_first=True)
    shown = "".join(line.text for line in layout.lines)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Zl", "Zp")]
    assert not set(shown) & set("\u200b\u2060\ufeff\u00ad\u202a\u202b\u202d\u202e\u2066\u2067\u2068")


@given(st.lists(spans, max_size=12), looks)
def test_every_token_that_is_shown_has_a_place(spans: list[Span], look: Look) -> None:
    layout = BlockLayout(Block("model", spans), look, is_first=True)
    for index, one in enumerate(spans):
        assert (layout.find(index) is not None) is look.shows(one)
