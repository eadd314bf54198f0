"""The replay screen: keys, what is shown, and that it ends as the live answer did."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from edge_spec import Event, Notice
from tests.tui import traces
from tests.tui.alone import Alone, alone, until
from tui.chat.transcript import AnswerFold, Block, Transcript
from tui.keys import resolve_keys
from tui.screens.help import HelpScreen
from tui.screens.replay import ReplayScreen
from tui.widgets.inspect_bar import InspectBar
from tui.widgets.panel import FoldedPanel, SpeculationPanel
from tui.widgets.position_line import PositionLine
from tui.widgets.token_view import TokenView


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return traces.write_trace(tmp_path / "a [red].jsonl", traces.answer(12, 5, inspected=True))


def _tokens(app: Alone) -> TokenView:
    return app.screen.query_one(TokenView)


def _answer(app: Alone) -> Block:
    return _tokens(app).transcript.blocks[-1]


def _place(app: Alone) -> str:
    return app.text("PositionLine").splitlines()[-1].strip()


def _is_read(app: Alone) -> bool:
    return bool(_tokens(app).transcript.blocks)


def _live(events: Sequence[Event]) -> Block:
    fold = AnswerFold(Block("model"), traces.piece)
    for event in events:
        fold.see(event)
    return fold.block


async def test_it_begins_paused_with_the_prompt_and_plays_to_the_live_answers_end(path: Path) -> None:
    async with alone(ReplayScreen(path)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        assert [block.role for block in _tokens(app).transcript.blocks] == ["prompt", "model"]
        assert _tokens(app).transcript.blocks[0].text == "user\nHi"
        await until(pilot, lambda: _place(app).startswith("‖ paused  reading the prompt, 0 of 4 tokens"))
        await pilot.press(*["plus"] * 4, "space")
        await until(pilot, lambda: _place(app) == "■ at the end  round 12 of 12  0:01.6 of 0:01.6  16x")
        live = _live(traces.answer(12, 5, inspected=True))
        assert _answer(app).spans == live.spans and _answer(app).alternatives == live.alternatives


async def test_space_pauses_and_goes_on(path: Path) -> None:
    async with alone(ReplayScreen(path)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        await pilot.press("minus", "minus", "space")
        await until(pilot, lambda: _place(app).startswith("▶ playing"))
        assert _place(app).endswith("0.25x")
        await pilot.press("space")
        await until(pilot, lambda: _place(app).startswith("‖ paused"))
        clock = app.screen.query_one(PositionLine).position.clock
        await pilot.pause(0.2)
        assert app.screen.query_one(PositionLine).position.clock == clock


async def test_arrows_step_by_round_and_home_and_end_jump(path: Path) -> None:
    events = traces.answer(12, 5, inspected=True)
    async with alone(ReplayScreen(path)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        await pilot.press("right", "right", "right", "left")
        assert "round 2 of 12" in _place(app)
        await pilot.press("end")
        assert "round 12 of 12" in _place(app) and _answer(app).spans == _live(events).spans
        await pilot.press("home")
        assert _answer(app).spans == []


async def test_what_is_drawn_after_any_walk_is_what_a_fresh_view_draws(tmp_path: Path) -> None:
    path = traces.write_trace(tmp_path / "a.jsonl", traces.answer(40, 7))
    rng = random.Random(3)
    async with alone(ReplayScreen(path), (60, 20)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        for _ in range(15):
            await pilot.press(*rng.choices(["left", "right", "home", "end"], [4, 8, 1, 1], k=4))
            walked = app.text("#tokens")
            _tokens(app).load(Transcript(_tokens(app).transcript.blocks))
            await pilot.pause()
            assert app.text("#tokens") == walked


async def test_a_step_back_over_5000_rounds_shows_at_once(tmp_path: Path) -> None:
    path = traces.write_trace(tmp_path / "a.jsonl", traces.answer(5000))
    async with alone(ReplayScreen(path)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        screen = app.screen
        assert isinstance(screen, ReplayScreen)
        screen.action_edge(1)
        started = time.perf_counter()
        screen.action_go(-1)
        assert time.perf_counter() - started < 0.1
        assert len(_answer(app).token_ids) > 5000


async def test_f3_hides_rejected_tokens_and_f8_marks_kinds(path: Path) -> None:
    async with alone(ReplayScreen(path)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        await pilot.press("end", "f3")
        assert not _tokens(app).show_rejected
        await pilot.press("f8")
        assert _tokens(app).glyphs


async def test_f6_walks_over_tokens_and_shows_what_was_recorded_of_them(path: Path) -> None:
    async with alone(ReplayScreen(path), (120, 36)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        bar = app.screen.query_one(InspectBar)
        assert not bar.display
        await pilot.press("end", "f6")
        await until(pilot, lambda: bar.display and "' one' 75%" in app.text("#inspect"))
        place = _tokens(app).cursor
        assert place is not None
        await pilot.press("left")
        moved = _tokens(app).cursor
        assert moved is not None and moved < place
        assert "round 12 of 12" in _place(app)  # the recording stands still
        await pilot.press("escape")
        assert not bar.display and _tokens(app).cursor is None and not app.results
        await pilot.press("escape")
        await until(pilot, lambda: app.results)


async def test_playing_goes_on_only_after_looking_closer(path: Path) -> None:
    async with alone(ReplayScreen(path)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        await pilot.press("right", "right", "space", "f6")
        assert _place(app).startswith("‖ paused")
        await pilot.press("space")
        assert _place(app).startswith("▶ playing")
        assert not app.screen.query_one(InspectBar).display


async def test_the_users_keys_count_here_too_and_are_the_ones_that_are_told(path: Path) -> None:
    keys = resolve_keys({"rejected": ["f11"], "inspect": ["ctrl+x"], "glyphs": [], "speculation": ["f3"]})
    async with alone(ReplayScreen(path, keys=keys), (120, 36)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        assert app.text("#replay-keys").strip().endswith("F11 rejected  Ctrl+X inspect  Esc close")
        await pilot.press("end", "f3", "f6", "f8")
        assert _tokens(app).show_rejected and not _tokens(app).glyphs and _tokens(app).cursor is None
        await pilot.press("f11", "ctrl+x")
        assert not _tokens(app).show_rejected
        await until(pilot, lambda: _tokens(app).cursor is not None)
        assert app.text("#replay-keys").strip().endswith("F11 rejected  Ctrl+X or Esc back to the rounds")
    async with alone(ReplayScreen(path, keys=resolve_keys({"rejected": [], "inspect": []}))) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        assert app.text("#replay-keys").strip() == "Space play  ←→ round  Home End  + - speed  Esc close"


async def test_the_cursor_on_a_guess_that_is_taken_away_goes_back_to_the_last_token(tmp_path: Path) -> None:
    rounds = [*traces.one_round(0, [], 0, 3), *traces.one_round(0, [4, 5, 6], 0, None)]
    whole = traces.answer(1)
    path = traces.write_trace(tmp_path / "a.jsonl", [*whole[:3], *rounds, whole[-1]])
    async with alone(ReplayScreen(path)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        block = len(_tokens(app).transcript.blocks) - 1
        await pilot.press("end")
        tokens = _tokens(app)
        last = len(_answer(app).spans) - 1
        tokens.cursor = (block, last)  # which is told only after
        app.screen._show(app.screen._player.step(-1))  # type: ignore[attr-defined]
        await pilot.pause()
        assert len(_answer(app).spans) < last and tokens.cursor == (block, 0)
        assert "plain" in app.text("InspectBar")


async def test_the_gauges_follow_the_place(path: Path) -> None:
    async with alone(ReplayScreen(path), (120, 36)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        assert "K 3" in app.text("#panel")
        await pilot.press("end")
        await until(pilot, lambda: "tok/s" in app.text("#panel") and "- tok/s" not in app.text("#panel"))
        assert "%" in app.text("#panel").split("ACCEPTED")[1].splitlines()[0]
        await pilot.press("home")
        await until(pilot, lambda: "- tok/s" in app.text("#panel"))


@pytest.mark.parametrize(("size", "wide"), [((120, 36), True), ((80, 24), False)])
async def test_a_narrow_terminal_has_the_panel_in_one_line(
    path: Path, size: tuple[int, int], wide: bool
) -> None:
    async with alone(ReplayScreen(path), size) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        assert (app.screen.query_one(SpeculationPanel).region.area == 0) != wide
        assert app.screen.query_one(FoldedPanel).region.height == (0 if wide else 1)


async def test_several_texts_of_a_trace_can_be_switched(tmp_path: Path) -> None:
    one, two = traces.answer(3, 1), traces.answer(5, 2, slot=1)
    path = traces.write_trace(tmp_path / "a.jsonl", [*one, *two])
    async with alone(ReplayScreen(path)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        await pilot.press("end")
        assert "round 3 of 3" in _place(app) and "text 1 of 2" in _place(app)
        await pilot.press("right_square_bracket", "end")
        assert "round 5 of 5" in _place(app) and "text 2 of 2" in _place(app)
        assert _answer(app).spans == _live(two).spans
        await pilot.press("left_square_bracket", "end")
        assert _answer(app).spans == _live(one).spans


async def test_a_trace_that_is_cut_off_plays_to_there_and_says_so(tmp_path: Path) -> None:
    path = traces.write_trace(tmp_path / "a[b].jsonl", traces.answer(9))
    text = path.read_text()
    path.write_text(text[: len(text) * 2 // 3])
    async with alone(ReplayScreen(path)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        await until(pilot, lambda: "cut off" in app.text("#replay-words").replace("\n", " "))
        assert "a[b].jsonl" in app.text("#replay-words").replace("\n", "")
        await pilot.press("end")
        assert _answer(app).text


async def test_what_is_no_trace_is_told_and_can_be_closed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("hello")
    async with alone(ReplayScreen(tmp_path / "a.jsonl")) as (app, pilot):
        await until(pilot, lambda: "not an edge-spec trace" in app.text("#replay-words").replace("\n", " "))
        for key in (
            "space",
            "left",
            "right",
            "home",
            "end",
            "plus",
            "f3",
            "f6",
            "f6",
            "right_square_bracket",
        ):
            await pilot.press(key)
        assert app.text("#replay-keys").strip() == "Esc close"
        await pilot.press("escape")
        await until(pilot, lambda: app.results)


async def test_a_trace_without_an_answer_says_so(tmp_path: Path) -> None:
    path = traces.write_trace(tmp_path / "a.jsonl", [Notice("info", "hello")])
    async with alone(ReplayScreen(path)) as (app, pilot):
        await until(pilot, lambda: "There is no answer" in app.text("#replay-words").replace("\n", " "))


async def test_at_60_columns_time_speed_and_text_are_told(tmp_path: Path) -> None:
    path = traces.write_trace(tmp_path / "a.jsonl", [*traces.answer(12, 5), *traces.answer(12, 6, slot=1)])
    async with alone(ReplayScreen(path), (60, 15)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        await until(pilot, lambda: _place(app) == "‖  reading 0/4  0:00.0/0:01.6  1x  text 1/2 [ ]")


@pytest.mark.parametrize("key", ["f1", "question_mark"])
async def test_help_tells_the_keys_of_a_replay_and_q_ends_both(path: Path, key: str) -> None:
    async with alone(ReplayScreen(path), (80, 40)) as (app, pilot):
        await until(pilot, lambda: _is_read(app))
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.pause()
        lines = [strip.text for strip in app.screen._compositor.render_strips()]
        told = [
            words
            for words in ("Space", "Play or pause", "Faster", "The next text")
            if words in "".join(lines)
        ]
        assert len(told) == 4 and "/save" not in "".join(lines)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, ReplayScreen))
        await pilot.press("q")
        await until(pilot, lambda: app.results)
