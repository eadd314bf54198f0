"""Replay, without a screen: every place of a recording is what a live fold would have shown there."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from edge_spec import Cancelled, Drafted, Event, Finished, Inspected, Notice, Started, UsageError, Verified
from tests.tui import traces
from tui.chat.transcript import AnswerFold, Block, Span
from tui.replay.player import SPEEDS, Player
from tui.replay.tape import Tape, read_tape


def _live(events: Sequence[Event], stop: Sequence[str] = ()) -> AnswerFold:
    """What a chat would have folded of these events."""
    fold = AnswerFold(Block("model"), traces.piece, stop)
    for event in events:
        fold.see(event)
    return fold


def _seen(fold: AnswerFold) -> tuple[object, ...]:
    """All that is shown of a fold."""
    return (
        fold.block.spans, fold.block.alternatives, fold.stats, fold.rounds, fold.reading, fold.finished,
        fold.prompt_ids,
    )  # fmt: skip


def _after_rounds(events: Sequence[Event], count: int) -> Sequence[Event]:
    """The events up to where `count` rounds are over."""
    ends = [index for index, event in enumerate(events) if isinstance(event, Verified | Inspected)]
    ends = [i for i in ends if not isinstance(events[i + 1], Inspected)]
    if count == len(ends):
        return events
    return events[: ends[count - 1] + 1] if count else events[:1]


@pytest.fixture
def tape(tmp_path: Path) -> Callable[..., Tape]:
    def read(events: Sequence[Event], stop: Sequence[str] = ()) -> Tape:
        return read_tape(traces.write_trace(tmp_path / "a.jsonl", events, stop))

    return read


def test_every_stop_shows_what_a_live_fold_showed_there(tape: Callable[..., Tape]) -> None:
    events = traces.answer(12, inspected=True)
    player = Player(tape(events).recordings[0])
    places = [*range(13), *range(12, -1, -1), *random.Random(1).choices(range(13), k=30)]
    for count in places:
        player.seek(count)
        assert player.num_rounds == count
        assert _seen(player.fold) == _seen(_live(_after_rounds(events, count)))


def test_a_live_answer_replays_to_the_same_block(tape: Callable[..., Tape]) -> None:
    for seed in range(5):
        events = traces.answer(40, seed)
        player = Player(tape(events, ["STOP"]).recordings[0])
        player.playing = True
        while player.playing:
            player.advance(0.033)
        assert _seen(player.fold) == _seen(_live(events, ["STOP"]))


def test_the_first_span_that_changed_is_told(tape: Callable[..., Tape]) -> None:
    player = Player(tape(traces.answer(30, 3)).recordings[0])
    rng = random.Random(2)
    shown: list[Span] = list(player.fold.block.spans)
    for _ in range(60):
        first = player.seek(rng.randrange(31))
        spans = player.fold.block.spans
        if first is None:
            assert spans == shown
        else:
            assert spans[:first] == shown[:first]
        shown = list(spans)


def test_steps_go_round_by_round_and_stop_at_the_ends(tape: Callable[..., Tape]) -> None:
    player = Player(tape(traces.answer(3)).recordings[0])
    assert player.step(-1) is None
    counts = []
    for _ in range(4):
        player.step(1)
        counts.append(player.num_rounds)
    assert counts == [1, 2, 3, 3]
    assert player.at_end and player.fold.finished is not None
    player.step(-1)
    assert player.num_rounds == 2 and player.fold.finished is None
    player.step(-5)
    assert player.num_rounds == 0 and player.clock == 0.0


def test_a_step_back_from_inside_a_round_goes_to_its_beginning(tape: Callable[..., Tape]) -> None:
    player = Player(tape(traces.answer(3)).recordings[0])
    player.seek(1)
    player.toggle()
    player.advance(0.05)  # the guess of round 2 is out, its verdict is not
    assert [span.kind for span in player.fold.block.spans[-3:]] == ["drafted"] * 3
    player.step(-1)
    assert player.num_rounds == 1
    assert all(span.kind != "drafted" for span in player.fold.block.spans)


def test_rounds_take_their_measured_time_and_the_prompt_its_own(tape: Callable[..., Tape]) -> None:
    # The first token came after 0.5 s, its round took 0.1 s of that; each further round 0.1 s.
    recording = tape(traces.answer(3)).recordings[0]
    assert [round(step.at, 6) for step in recording.steps] == [0, 0.2, 0.4, 0.5, 0.54, 0.6, 0.64, 0.7, 0.7]
    assert recording.stops == (1, 4, 6, 9)


def test_speed_says_how_much_recorded_time_passes(tape: Callable[..., Tape]) -> None:
    player = Player(tape(traces.answer(3)).recordings[0])
    player.toggle()
    for _ in range(2):
        player.faster()
    assert player.speed == 4
    player.advance(0.125)
    assert player.clock == 0.5 and player.num_rounds == 1
    for _ in range(20):
        player.slower()
    assert player.speed == SPEEDS[0] == 0.25
    for _ in range(20):
        player.faster()
    assert player.speed == SPEEDS[-1] == 16
    player.advance(60)
    assert player.clock == pytest.approx(0.7) and not player.playing


def test_time_stands_still_while_paused(tape: Callable[..., Tape]) -> None:
    player = Player(tape(traces.answer(3)).recordings[0])
    assert player.advance(10) is None and player.clock == 0


def test_what_was_played_out_plays_again_from_the_beginning(tape: Callable[..., Tape]) -> None:
    player = Player(tape(traces.answer(3)).recordings[0])
    player.seek_end()
    player.toggle()
    assert player.playing and player.num_rounds == 0


def test_walking_over_5000_rounds_takes_less_than_a_tenth_of_a_second(tape: Callable[..., Tape]) -> None:
    player = Player(tape(traces.answer(5000, inspected=True)).recordings[0])
    moves = (player.seek_end, lambda: player.step(-1), lambda: player.step(-4000), lambda: player.seek(0))
    for move in moves:
        started = time.perf_counter()
        move()
        assert time.perf_counter() - started < 0.1


def test_a_trace_that_is_cut_off_plays_up_to_there(tmp_path: Path) -> None:
    path = traces.write_trace(tmp_path / "a.jsonl", traces.answer(5))
    text = path.read_text()
    path.write_text(text[: text.index('"verified"', len(text) // 2) + 20])
    tape = read_tape(path)
    assert tape.problem is not None and "it is cut off" in tape.problem
    player = Player(tape.recordings[0])
    player.seek_end()
    assert 0 < player.num_rounds < 5 and player.fold.finished is None
    assert all(span.kind != "drafted" for span in player.fold.block.spans)


def test_what_was_held_back_is_shown_where_a_trace_ends(tape: Callable[..., Tape]) -> None:
    rounds = [*traces.one_round(0, [], 0, 2), *traces.one_round(0, [], 0, 11)]
    events = [Started(0, traces.PROMPT, 0, 0), *rounds]
    player = Player(tape(events, ["STOP"]).recordings[0])
    player.seek_end()
    assert player.fold.block.text == "HiST"


def test_a_token_without_text_ends_the_replay_there_with_words(tmp_path: Path) -> None:
    path = traces.write_trace(tmp_path / "a.jsonl", traces.answer(5))
    lines = path.read_text().splitlines(keepends=True)
    last = max(index for index, line in enumerate(lines) if line.startswith('{"pieces"'))
    path.write_text("".join(lines[:last] + lines[last + 1 :]))
    tape = read_tape(path)
    assert tape.problem is not None and "without its text" in tape.problem
    player = Player(tape.recordings[0])
    player.seek_end()
    assert player.fold.finished is None


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('"path":[0', '"path":[99,0'),
        ('"path":[0', '"path":[-1'),
        ('"target_probs":[0.5', '"target_probs":[7.5'),
        ('"drawn":[0.25', '"drawn":["nan"'),
        ('"prob":0.75', '"prob":"inf"'),
        ('"wall_s":0.1}', '"wall_s":"inf"}'),
        ('"wall_s":0.1}', '"wall_s":-3}'),
        ('"wall_s":0.1}', f'"wall_s":{10**400}}}'),
        ('"done":2,', f'"done":{10**400},'),
        ('"fates":["', '"fates":["accepted","'),
        ('"judged_by_position":[', '"judged_by_position":[0,'),
        ('"completion_tokens":', f'"completion_tokens":{10**300}'),
        ('"tokens":[', f'"tokens":[{10**30},'),
    ],
)
def test_what_cannot_have_happened_ends_the_replay_there_with_words(
    tmp_path: Path, was: str, becomes: str
) -> None:
    path = traces.write_trace(tmp_path / "a.jsonl", traces.answer(9, inspected=True))
    assert was in path.read_text()
    path.write_text(path.read_text().replace(was, becomes))
    tape = read_tape(path)
    assert tape.problem is not None and str(path) in tape.problem
    player = Player(tape.recordings[0])
    player.seek_end()
    assert player.fold.finished is None
    player.seek(0)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("hello\n")
    with pytest.raises(UsageError, match="not an edge-spec trace"):
        read_tape(tmp_path / "a.jsonl")


def test_reading_can_be_cancelled(tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        read_tape(traces.write_trace(tmp_path / "a.jsonl", traces.answer(3)), lambda: True)


def test_slots_and_answers_of_a_trace_are_texts_of_their_own(tape: Callable[..., Tape]) -> None:
    one, two, later = traces.answer(4, 1), traces.answer(6, 2, slot=1), traces.answer(2, 3)
    mixed = [event for both in zip(one, two, strict=False) for event in both] + two[len(one) :]
    recordings = tape([*mixed, *later]).recordings
    assert [recording.slot for recording in recordings] == [0, 1, 0]
    for recording, events in zip(recordings, (one, two, later), strict=True):
        player = Player(recording)
        player.seek_end()
        assert _seen(player.fold) == _seen(_live(events))


def test_the_prompt_is_its_tokens_text_without_special_tokens(tape: Callable[..., Tape]) -> None:
    assert tape(traces.answer(1)).recordings[0].prompt == "user\nHi"


def test_notices_are_known_from_where_they_were_given(tape: Callable[..., Tape]) -> None:
    early, late = Notice("warning", "early"), Notice("info", "late")
    events = traces.answer(3)
    middle = next(index for index, event in enumerate(events) if isinstance(event, Drafted))
    player = Player(tape([early, *events[:middle], late, *events[middle:]]).recordings[0])
    assert player.notice == early
    player.seek(3)
    assert player.notice == late
    player.seek(0)
    assert player.notice == early


def test_an_answer_without_a_round_has_a_beginning_and_an_end(tape: Callable[..., Tape]) -> None:
    events = traces.answer(0)
    player = Player(tape(events).recordings[0])
    assert not player.at_end and player.fold.finished is None
    player.step(1)
    assert player.at_end and isinstance(player.fold.finished, Finished)
