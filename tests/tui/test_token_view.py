"""The token view: what is seen, followed, walked over and copied."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from rich.style import Style
from textual import events, on
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.scrollbar import ScrollTo

from tests.tui.contrast import contrast
from tui.chat.transcript import Block, Kind, Role, Span, TokenInfo, Transcript
from tui.widgets.token_view import TokenView

SIZE = (40, 12)


def span(text: str, kind: Kind, number: int = 1) -> Span:
    info = None if kind == "text" else TokenInfo(0, kind, number, 0, None, None, "draft", None)
    return Span(text, kind, info)


ROUND = (
    span("def", "plain", 1),
    span(" merge", "accepted", 2),
    span(" with", "rejected", 2),
    span(" two", "discarded", 2),
    span("(a", "residual", 2),
    span(", b", "accepted", 3),
    span(")", "bonus", 3),
    span(" ->", "drafted", 4),
)


class ViewApp(App[None]):
    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        super().__init__()
        self.view = TokenView(Transcript(list(blocks)))
        self.seen: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()

    @on(TokenView.CursorMoved)
    @on(TokenView.ScrolledAway)
    @on(TokenView.BackAtEnd)
    def note(self, message: Message) -> None:
        self.seen.append(message)

    def append(self, *spans: Span) -> None:
        block = self.view.transcript.blocks[-1]
        block.spans.extend(spans)
        self.view.changed(len(self.view.transcript.blocks) - 1, len(block.spans) - len(spans))


def answer(*spans: Span) -> ViewApp:
    return ViewApp([Block("model", list(spans))])


def long_answer(num_lines: int = 50) -> ViewApp:
    return answer(*(span(f"line {number}\n", "plain", number) for number in range(num_lines)))


def shown(view: TokenView) -> list[str]:
    """The lines on screen, without what is empty at their ends."""
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def styles(view: TokenView, y: int) -> dict[str, Style]:
    """The style of each word of a line."""
    found: dict[str, Style] = {}
    for segment in view.render_line(y):
        for word in segment.text.split():
            assert segment.style is not None
            found[word] = segment.style
    return found


async def test_each_kind_has_its_look() -> None:
    app = answer(*ROUND)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert shown(app.view)[:2] == ["model", "  def merge with two(a, b) ->"]
        look = styles(app.view, 1)
        text = look["def"].color
        for word, is_bold, is_underlined, is_struck, is_dim in (
            ("def", False, False, False, False),
            ("merge", False, True, False, False),
            ("with", False, False, True, True),
            ("two", False, False, True, True),
            ("(a", True, False, False, False),
            ("b", False, True, False, False),
            (")", True, False, False, False),
            ("->", False, False, False, True),
        ):
            style = look[word]
            attributes = (style.bold, style.underline, style.strike, style.dim)
            assert tuple(map(bool, attributes)) == (is_bold, is_underlined, is_struck, is_dim), word
        blue, orange = look["merge"].color, look["with"].color
        assert len({str(color) for color in (text, blue, orange)}) == 3
        assert look["two"].color == text


async def test_indentation_is_not_underlined_nor_is_the_space_before_a_run() -> None:
    app = answer(span("\n    x", "accepted", 1), span(" y", "plain", 2), span(" z", "accepted", 3))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        spaces = [s for s in app.view.render_line(2) if s.text.isspace() and s.style is not None]
        assert not [segment for segment in spaces if segment.style and segment.style.underline]


async def test_white_space_that_is_a_whole_lost_guess_is_seen() -> None:
    app = answer(span("a", "plain", 1), span("  ", "rejected", 2), span("b", "residual", 2))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        struck = [s.text for s in app.view.render_line(1) if s.style is not None and s.style.strike]
        assert struck == ["  "]


async def test_another_theme_brings_other_colours() -> None:
    app = answer(*ROUND)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        dark = styles(app.view, 1)
        app.theme = "textual-light"
        await pilot.pause()
        light = styles(app.view, 1)
        assert all(dark[word].color != light[word].color for word in ("def", "merge", "with"))
        assert all(dark[word].bgcolor != light[word].bgcolor for word in ("def", "merge", "with"))


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "nord", "gruvbox", "rose-pine-dawn"])
async def test_every_kind_and_role_can_be_read(theme: str) -> None:
    roles: tuple[Role, ...] = ("you", "system", "note", "error")
    app = ViewApp(
        [Block("model", [*ROUND, span("\x1b", "plain")]), *(Block.of_text(r, "text") for r in roles)]
    )
    async with app.run_test(size=(60, 20)) as pilot:
        app.theme = theme
        await pilot.pause()
        segments = [segment for y in range(16) for segment in app.view.render_line(y)]
        words = {s.text.strip(): contrast(s) for s in segments if s.text.strip()}
        assert len(words) == 15
        assert {word: ratio for word, ratio in words.items() if ratio < 2.9} == {}


async def test_model_text_is_no_markup_and_steers_nothing() -> None:
    app = answer(span("[bold]a[/] \x1b[31mb", "plain"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert shown(app.view)[1] == "  [bold]a[/] \u241b[31mb"


async def test_hiding_guesses_and_showing_glyphs_take_effect_at_once() -> None:
    app = answer(*ROUND)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.show_rejected = False
        assert shown(app.view)[1] == "  def merge(a, b)"
        app.view.glyphs = True
        assert shown(app.view)[1] == "  def \u00bbmerge\u21b3(a\u00bb, b+)"
        app.view.show_rejected = True
        assert shown(app.view)[1:3] == [
            "  def \u00bbmerge\u27e8\u2717 with\u27e9\u27e8\u00b7 two\u27e9\u21b3(a\u00bb,",
            "  b+)\u27e8? ->\u27e9",
        ]


async def test_a_terminal_without_these_characters_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "linux")
    app = answer(*ROUND)
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.pause()
        app.view.glyphs = True
        assert shown(app.view)[1] == "  def >merge{x with}{. two}=(a>, b+){? ->}"


async def test_without_colour_every_kind_is_told_by_attributes_or_brackets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    kinds: tuple[Kind, ...] = ("plain", "accepted", "residual", "rejected", "discarded", "drafted")
    app = answer(*(part for kind in kinds for part in (span(kind, kind), span("\n", "plain"))))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        looks: list[tuple[str, bool, bool]] = []
        for y, kind in enumerate(kinds, 1):
            style = styles(app.view, y)[kind]
            # Brackets, for strike and dim are not to be had everywhere.
            looks.append((shown(app.view)[y].replace(kind, ""), bool(style.bold), bool(style.underline)))
        assert looks == [
            ("  ", False, False),
            ("  ", False, True),
            ("  ", True, False),
            ("  \u27e8\u2717\u27e9", False, False),
            ("  \u27e8\u00b7\u27e9", False, False),
            ("  \u27e8?\u27e9", False, False),
        ]


# -- following the end


async def test_the_end_stays_in_view_as_text_comes() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert shown(app.view)[-2:] == ["  line 49", ""]
        app.append(span("more\n", "plain"), span("and more", "plain"))
        assert shown(app.view)[-2:] == ["  more", "  and more"]
        await pilot.pause()
        assert shown(app.view)[-2:] == ["  more", "  and more"]


async def test_what_a_verdict_takes_away_leaves_the_end_in_view() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.append(span("guess\nguess\nguess", "drafted"))
        await pilot.pause()
        block = app.view.transcript.blocks[0]
        block.spans[50:] = [span("own", "plain")]
        app.view.changed(0, 50)
        await pilot.pause()
        assert shown(app.view)[-2:] == ["  line 49", "  own"]
        assert app.view.at_end


@pytest.mark.parametrize("key", ["up", "pageup", "home"])
async def test_who_scrolled_up_stays_there_while_text_comes_and_end_follows_again(key: str) -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press(key)
        await pilot.wait_for_animation()
        assert not app.view.at_end
        before = shown(app.view)
        assert before[-1] != ""
        for number in range(5):
            app.append(span(f"new {number}\n", "plain"))
            await pilot.pause()
        assert shown(app.view) == before
        await pilot.press("end")
        await pilot.pause()
        assert shown(app.view)[-2] == "  new 4"
        app.append(span("last", "plain"))
        assert shown(app.view)[-1] == "  last"
        assert [type(message) for message in app.seen] == [TokenView.ScrolledAway, TokenView.BackAtEnd]


async def test_a_round_that_comes_before_a_key_has_scrolled_does_not_undo_the_key() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.action_page_up()
        app.append(span("new\n", "plain"))
        await pilot.wait_for_animation()
        assert not app.view.at_end
        assert "  new" not in shown(app.view)


async def test_scrolling_down_to_the_end_follows_again_even_when_text_came_on_the_way() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("pageup")
        await pilot.wait_for_animation()
        app.view.action_page_down()
        app.append(span("new\n", "plain"))
        await pilot.wait_for_animation()
        assert app.view.at_end
        assert shown(app.view)[-2] == "  new"


async def test_the_mouse_wheel_scrolls_away_and_back() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot._post_mouse_events([events.MouseScrollUp], widget=app.view, button=0)
        await pilot.wait_for_animation()
        assert not app.view.at_end
        for _ in range(3):
            await pilot._post_mouse_events([events.MouseScrollDown], widget=app.view, button=0)
        await pilot.wait_for_animation()
        assert app.view.at_end


async def test_dragging_the_scroll_bar_scrolls_away_and_back() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.post_message(ScrollTo(y=3, animate=False))
        await pilot.pause()
        assert (app.view.at_end, shown(app.view)[0]) == (False, "  line 2")
        app.view.post_message(ScrollTo(y=1000, animate=False))
        await pilot.pause()
        assert app.view.at_end


async def test_what_happened_while_the_view_was_hidden_is_there_when_it_is_shown() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.display = False
        await pilot.pause()
        app.view.glyphs = True
        app.append(span("guess", "rejected", 99))
        await pilot.pause()
        app.view.display = True
        await pilot.pause()
        assert shown(app.view)[-2:] == ["  line 49", "  \u27e8\u2717guess\u27e9"]


async def test_a_resize_while_text_comes_wraps_all_of_it_and_keeps_the_end() -> None:
    text = "some words that have to be wrapped at any width, "
    app = answer(*(span(text, "accepted", number) for number in range(20)))
    async with app.run_test(size=(60, 12)) as pilot:
        for width in (30, 41, 17, 60):
            await pilot.resize_terminal(width, 12)
            app.append(span(f"width {width}, ", "plain"))
            await pilot.pause()
            assert f"width {width}," in " ".join(line.strip() for line in shown(app.view)[-2:])
        fresh = ViewApp([Block("model", list(app.view.transcript.blocks[0].spans))])
        seen = shown(app.view)
    async with fresh.run_test(size=(60, 12)) as pilot:
        await pilot.pause()
        assert shown(fresh.view) == seen


async def test_a_resize_keeps_the_place_of_who_scrolled_up() -> None:
    app = answer(*(span(f"paragraph {n} " + "word " * 30 + "\n", "plain", n) for n in range(20)))
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.pause()
        app.view.scroll_to(y=31, animate=False)
        await pilot.pause()
        assert shown(app.view)[0].startswith("  paragraph 10")
        for width in (33, 80, 21):
            await pilot.resize_terminal(width, 12)
            await pilot.pause()
            assert shown(app.view)[0].startswith("  paragraph 10")
        assert not app.view.at_end


async def test_another_height_keeps_the_end_in_view() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        for height in (6, 20):
            await pilot.resize_terminal(40, height)
            await pilot.pause()
            assert shown(app.view)[-2:] == ["  line 49", ""]


async def test_a_screen_that_has_grown_to_the_end_follows_it_again() -> None:
    app = long_answer(20)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("up")
        await pilot.wait_for_animation()
        assert not app.view.at_end
        await pilot.resize_terminal(40, 30)
        await pilot.pause()
        assert app.view.at_end


async def test_a_new_message_and_a_new_conversation_are_shown_from_their_end() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.transcript.blocks.append(Block.of_text("you", "next"))
        app.view.changed(1, 0)
        assert shown(app.view)[-3:] == ["", "you", "  next"]
        await pilot.press("home")
        await pilot.wait_for_animation()
        app.view.load(Transcript([Block.of_text("you", "other"), Block("model")]))
        await pilot.pause()
        assert shown(app.view)[:4] == ["you", "  other", "", "model"]
        assert app.view.at_end


async def test_messages_that_are_gone_are_shown_no_more() -> None:
    app = ViewApp([Block.of_text("you", "one"), Block("model", list(ROUND)), Block.of_text("note", "two")])
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.cursor = (1, 3)
        del app.view.transcript.blocks[1:]
        app.view.changed(1, 0)
        await pilot.pause()
        assert [line for line in shown(app.view) if line] == ["you", "  one"]
        assert app.view.cursor is None


async def test_drawing_does_not_mind_what_is_gone_before_it_is_told() -> None:
    app = ViewApp([Block("model", list(ROUND)), Block.of_text("you", "two\n" * 20)])
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.scroll_to(y=4, animate=False)
        del app.view.transcript.blocks[0].spans[3:]
        del app.view.transcript.blocks[1:]
        app.view.refresh()
        await pilot.pause()
        await pilot.resize_terminal(30, 12)
        await pilot.pause()
        assert shown(app.view)[:3] == ["model", "  def merge with", ""]


# -- the cursor


def lit(view: TokenView) -> list[str]:
    """What the cursor covers on each line that has some of it."""
    lines = ["".join(s.text for s in view.render_line(y) if s.style and s.style.reverse) for y in range(12)]
    return [line for line in lines if line]


async def test_the_cursor_walks_over_tokens_the_rejected_too() -> None:
    app = answer(*ROUND)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.move_cursor(1)
        walked = [lit(app.view)]
        for _ in range(8):
            await pilot.press("left")
            walked.append(lit(app.view))
        assert walked == [[" ->"], [")"], [", b"], ["(a"], [" two"], [" with"], [" merge"], ["def"], ["def"]]
        await pilot.press("right", "right", "right")
        assert app.view.cursor == (0, 3)
        moves = [(m.block, m.span) for m in app.seen if isinstance(m, TokenView.CursorMoved)]
        assert moves == [(0, n) for n in (7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3)]


async def test_the_cursor_passes_over_what_is_hidden_and_over_text_that_is_no_token() -> None:
    app = ViewApp(
        [Block("model", list(ROUND[:5])), Block.of_text("you", "hello"), Block("model", [ROUND[0]])]
    )
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.move_cursor(1)
        app.view.show_rejected = False
        assert app.view.cursor == (2, 0)
        for expected in ((0, 4), (0, 1), (0, 0), (0, 0)):
            app.view.move_cursor(-1)
            assert app.view.cursor == expected


async def test_hiding_guesses_moves_the_cursor_off_one() -> None:
    app = answer(*ROUND)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.cursor = (0, 3)
        app.view.show_rejected = False
        assert app.view.cursor == (0, 1)


async def test_the_cursor_moves_by_lines_and_to_both_ends() -> None:
    app = answer(
        span("one two", "plain", 1),
        span(" three\n", "plain", 2),
        span("\n", "plain", 3),
        span("four", "plain", 4),
    )
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.cursor = (0, 1)
        await pilot.press("down")
        assert app.view.cursor == (0, 2)
        await pilot.press("down")
        assert app.view.cursor == (0, 3)
        await pilot.press("up", "up")
        assert app.view.cursor == (0, 0)
        await pilot.press("end")
        assert app.view.cursor == (0, 3)
        await pilot.press("home")
        assert app.view.cursor == (0, 0)


async def test_a_token_without_cells_lights_the_cell_behind_it() -> None:
    app = answer(
        span("ab", "plain", 1), span("", "plain", 2), span("cd\n", "plain", 3), span("\n", "plain", 4)
    )
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.cursor = (0, 1)
        assert lit(app.view) == ["c"]
        app.view.cursor = (0, 3)
        assert lit(app.view) == [" "]


async def test_the_cursor_is_scrolled_into_view_and_stops_the_following() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.cursor = (0, 20)
        await pilot.pause()
        assert shown(app.view)[0] == "  line 20"
        app.view.cursor = (0, 40)
        await pilot.pause()
        assert shown(app.view)[-1] == "  line 40"
        app.view.cursor = (0, 39)
        app.append(span("new", "plain"))
        await pilot.pause()
        assert shown(app.view)[-1] == "  line 40"


async def test_a_view_at_its_end_follows_it_again_without_the_cursor() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.cursor = (0, 45)
        assert not app.view.at_end
        app.view.cursor = None
        assert app.view.at_end


async def test_without_a_cursor_walking_begins_at_the_last_token_on_screen() -> None:
    app = long_answer()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.scroll_to(y=0, animate=False)
        await pilot.pause()
        app.view.move_cursor(-1)
        assert app.view.cursor == (0, 10)


async def test_a_verdict_on_the_token_under_the_cursor_is_told() -> None:
    app = answer(*ROUND)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.cursor = (0, 7)
        await pilot.pause()
        app.seen.clear()
        spans = app.view.transcript.blocks[0].spans
        spans[7:] = [span(" ->", "accepted", 4)]
        app.view.changed(0, 7)
        await pilot.pause()
        del spans[7:]
        app.view.changed(0, 7)
        await pilot.pause()
        assert [(m.block, m.span) for m in app.seen if isinstance(m, TokenView.CursorMoved)] == [
            (0, 7),
            (0, 6),
        ]


async def test_a_click_puts_the_cursor_on_the_token_and_behind_a_line_on_its_last() -> None:
    app = answer(*ROUND, span("\n", "plain", 5))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.click(app.view, offset=(6, 1))
        assert app.view.cursor == (0, 1)
        await pilot.click(app.view, offset=(35, 1))
        assert app.view.cursor == (0, 8)
        app.view.cursor = None
        await pilot.click(app.view, offset=(2, 0))
        assert app.view.cursor is None


# -- copying


async def drag(
    pilot: Pilot[None], view: TokenView, start: tuple[int, int], end: tuple[int, int]
) -> str | None:
    """Press, move and let go, as a terminal tells it: the app makes a click of that where it is one."""
    for kind, (x, y) in ((events.MouseDown, start), (events.MouseMove, end), (events.MouseUp, end)):
        view.app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
        await pilot.pause()
    return view.screen.get_selected_text()


async def test_dragging_copies_what_was_emitted_raw_and_unwrapped() -> None:
    app = answer(
        span("\tif x:\x1b\n", "plain", 1),
        span("wrong", "rejected", 2),
        span("a long line that wraps at", "residual", 2),
        span(" forty cells", "accepted", 3),
        span(" guess", "drafted", 4),
    )
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.view.glyphs = True
        await pilot.pause()
        assert len([line for line in shown(app.view) if line]) == 4
        text = await drag(pilot, app.view, (2, 1), (39, 3))
        assert text == "\tif x:\na long line that wraps at forty cells"
        assert app.view.cursor is None


async def test_a_press_and_release_in_place_is_a_click() -> None:
    app = answer(*ROUND)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert await drag(pilot, app.view, (6, 1), (6, 1)) is None
        assert app.view.cursor == (0, 1)


async def test_a_selection_is_lit_and_part_of_a_line_can_be_copied() -> None:
    app = answer(span("one two three", "plain"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        before = app.view.render_line(1)
        assert await drag(pilot, app.view, (6, 1), (8, 1)) == "two"
        plain = styles(app.view, 1)["one"]
        assert styles(app.view, 1)["two"].bgcolor != plain.bgcolor
        app.screen.clear_selection()
        assert app.view.render_line(1) == before


async def test_messages_are_copied_with_an_empty_line_between() -> None:
    app = ViewApp([Block.of_text("you", "hi"), Block("model", list(ROUND))])
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert await drag(pilot, app.view, (0, 0), (39, 4)) == "you\nhi\n\nmodel\ndef merge(a, b)"


async def test_two_clicks_select_a_message() -> None:
    app = ViewApp([Block.of_text("you", "hi"), Block("model", list(ROUND))])
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.click(app.view, offset=(5, 4), times=2)
        assert app.screen.get_selected_text() == "def merge(a, b)"


async def test_wide_characters_are_selected_where_they_stand() -> None:
    app = answer(
        span("\u65e5\u672c\u8a9e ", "plain"), span("\U0001f469\u200d\U0001f4bb", "plain"), span("x", "plain")
    )
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert await drag(pilot, app.view, (4, 1), (6, 1)) == "\u672c\u8a9e"
        assert await drag(pilot, app.view, (8, 1), (10, 1)) == " \U0001f469\u200d\U0001f4bb"


async def test_wrapping_anew_drops_a_selection() -> None:
    app = answer(span("one two three", "plain"))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert await drag(pilot, app.view, (6, 1), (8, 1)) == "two"
        await pilot.resize_terminal(30, 12)
        await pilot.pause()
        assert app.screen.get_selected_text() is None
