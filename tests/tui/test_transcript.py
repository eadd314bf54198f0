"""Folding an answer's events: what was emitted is exact, what was guessed is told apart from it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_spec import (
    Alternative,
    Alternatives,
    Drafted,
    Event,
    Fate,
    Finished,
    FinishReason,
    Inspected,
    Notice,
    Prefilled,
    Proposal,
    RoundTimings,
    Started,
    Stats,
    TextStream,
    Verdict,
    Verified,
)
from edge_spec.types import Dist, Origin
from tui.chat.transcript import UNEMITTED, AnswerFold, Block

TIMINGS = RoundTimings(draft_s=0.25, verify_s=0.5, sample_s=0.125, wall_s=1.0)
ACCEPTED, REJECTED, DISCARDED = Fate.ACCEPTED, Fate.REJECTED, Fate.DISCARDED

Shown = list[tuple[str, str]]


def q_of(token: int, prob: float) -> Dist:
    return Dist(np.array([token]), np.array([prob]))


def plain(token: int) -> Verified:
    return Verified(0, Proposal(), Verdict((token,), (), (), "plain", ()), TIMINGS)


def chain(drafted: Sequence[int], num_accepted: int, own: int | None) -> tuple[Drafted, Verified]:
    """A round that accepts so many of the drafted tokens; without an own token it was cut there."""
    proposal = Proposal.chain(drafted, [q_of(token, 0.5) for token in drafted], "draft")
    rest = len(drafted) - num_accepted
    is_rejected = rest > 0 and own is not None
    fates = [ACCEPTED] * num_accepted + [REJECTED] * is_rejected + [DISCARDED] * (rest - is_rejected)
    origin: Origin = "accepted" if own is None else "residual" if rest else "bonus"
    probs = [None if fate is DISCARDED else 0.75 for fate in fates]
    tokens = (*drafted[:num_accepted], *(() if own is None else (own,)))
    verdict = Verdict(tokens, tuple(range(num_accepted)), tuple(fates), origin, tuple(probs))
    return Drafted(0, proposal), Verified(0, proposal, verdict, TIMINGS)


def fold_of(pieces: Sequence[bytes], stop: Sequence[str] = ()) -> AnswerFold:
    return AnswerFold(Block("model"), pieces.__getitem__, stop)


def shown(fold: AnswerFold) -> Shown:
    return [(span.kind, span.text) for span in fold.block.spans]


def finished(reason: FinishReason = "eog") -> Finished:
    return Finished(0, reason, Stats(rounds=99))


def see(fold: AnswerFold, events: Sequence[Event]) -> list[int | None]:
    return [fold.see(event) for event in events]


def test_a_round_shows_accepted_rejected_discarded_and_then_the_targets_own() -> None:
    fold = fold_of([b"a", b"b", b"c", b"d", b"X"])
    see(fold, chain([0, 1, 2, 3], 1, 4))
    assert shown(fold) == [
        ("accepted", "a"),
        ("rejected", "b"),
        ("discarded", "c"),
        ("discarded", "d"),
        ("residual", "X"),
    ]
    assert fold.block.text == "aX"
    assert fold.block.token_ids == [0, 4]


def test_drafted_tokens_wait_where_they_would_stand_and_the_verdict_takes_their_place() -> None:
    fold = fold_of([b"a", b"b", b"c"])
    drafted, verified = chain([1, 2], 1, 0)
    assert see(fold, [plain(0), drafted]) == [0, 1]
    assert shown(fold) == [("plain", "a"), ("drafted", "b"), ("drafted", "c")]
    assert fold.block.text == "a"
    assert fold.see(verified) == 1
    assert shown(fold) == [("plain", "a"), ("accepted", "b"), ("rejected", "c"), ("residual", "a")]


def test_what_waits_for_a_verdict_is_dropped_when_the_answer_ends() -> None:
    fold = fold_of([b"a", b"b"])
    drafted, _ = chain([1], 1, 0)
    see(fold, [plain(0), drafted])
    assert fold.see(finished("cancelled")) == 1
    assert shown(fold) == [("plain", "a")]


def test_an_answer_whose_engine_died_is_ended_without_a_finished_event() -> None:
    fold = fold_of([b"a", b"\xf0\x9f"])
    drafted, _ = chain([0], 1, 0)
    see(fold, [plain(0), plain(1), drafted])
    assert fold.end() == 1
    assert fold.block.text == "a\ufffd"
    assert fold.end() is None


def test_a_token_knows_its_round_depth_and_probabilities() -> None:
    fold = fold_of([b"a", b"b", b"c", b"X"])
    see(fold, [plain(0), *chain([1, 2], 1, 3)])
    told = [(i.round, i.depth, i.p, i.q, i.source) for s in fold.block.spans if (i := s.info)]
    assert told == [
        (1, 0, None, None, "target"),
        (2, 0, 0.75, 0.5, "draft"),
        (2, 1, 0.75, 0.5, "draft"),
        (2, 1, None, None, "target"),
    ]
    assert all(span.info is not None and span.info.timings is TIMINGS for span in fold.block.spans)


def test_a_waiting_token_belongs_to_the_round_to_come() -> None:
    fold = fold_of([b"a", b"b"])
    drafted, _ = chain([1], 1, 0)
    see(fold, [plain(0), drafted])
    info = fold.block.spans[1].info
    assert info is not None
    assert (info.round, info.p, info.q, info.timings) == (2, None, 0.5, None)


def test_a_tree_shows_each_nodes_level_as_its_depth() -> None:
    fold = fold_of([b"a", b"b", b"c", b"X"])
    proposal = Proposal((0, 1, 2), (-1, -1, 1), (None, None, None), "tree")
    verdict = Verdict((1, 3), (1,), (REJECTED, ACCEPTED, REJECTED), "residual", (0.1, 0.2, 0.3))
    fold.see(Verified(0, proposal, verdict, TIMINGS))
    told = [(span.kind, span.text, i.depth, i.p, i.q) for span in fold.block.spans if (i := span.info)]
    assert told == [
        ("accepted", "b", 0, 0.2, None),
        ("rejected", "a", 0, 0.1, None),
        ("rejected", "c", 1, 0.3, None),
        ("residual", "X", 1, None, None),
    ]


def test_the_token_that_completes_a_character_gets_it() -> None:
    smile = "\U0001f600".encode()
    fold = fold_of([smile[:2], smile[2:], b"!"])
    see(fold, [plain(0), *chain([1], 1, 2)])
    assert shown(fold) == [("plain", ""), ("accepted", "\U0001f600"), ("bonus", "!")]


def test_a_guess_is_decoded_on_its_own_even_inside_a_character() -> None:
    smile = "\U0001f600".encode()
    fold = fold_of([smile[:2], smile[2:], b"no"])
    see(fold, [plain(0), *chain([1], 0, 2)])
    assert shown(fold)[1] == ("rejected", "\ufffd\ufffd")
    assert fold.block.text == "\ufffdno"


def test_bytes_left_over_at_the_end_belong_to_the_token_that_brought_them() -> None:
    fold = fold_of([b"a", b"\xf0\x9f", b""])
    see(fold, [plain(0), plain(1), plain(2)])
    assert fold.see(finished()) == 1
    assert shown(fold) == [("plain", "a"), ("plain", "\ufffd"), ("plain", "")]


def test_text_that_may_begin_a_stop_string_is_held_back_and_given_to_its_tokens_when_it_does_not() -> None:
    fold = fold_of([b"a#", b"#", b"b"], ["###"])
    assert fold.see(plain(0)) == 0
    assert shown(fold) == [("plain", "a")]
    fold.see(plain(1))
    assert fold.block.text == "a"
    assert fold.see(plain(2)) == 0
    assert shown(fold) == [("plain", "a#"), ("plain", "#"), ("plain", "b")]


def test_a_stop_string_is_never_part_of_the_text() -> None:
    fold = fold_of([b"a#", b"#", b"#z"], ["###"])
    see(fold, [plain(0), plain(1), plain(2), finished("stop")])
    assert shown(fold) == [("plain", "a"), ("plain", ""), ("plain", "")]
    assert fold.block.token_ids == [0, 1, 2]


def test_reading_tells_how_far_the_prompt_is_read_until_the_first_token() -> None:
    fold = fold_of([b"a"])
    assert see(fold, [Started(0, (7, 8, 9), 1, 0)]) == [None]
    assert fold.reading == (1, 3)
    assert see(fold, [Prefilled(0, "target", 2, 3, 1)]) == [None]
    assert fold.reading == (2, 3)
    fold.see(plain(0))
    assert fold.reading is None
    assert fold.prompt_ids == (7, 8, 9)


def test_an_answer_that_ends_while_the_prompt_is_read_reads_no_more() -> None:
    fold = fold_of([b"a"])
    see(fold, [Started(0, (7, 8, 9), 1, 0), finished("cancelled")])
    assert fold.reading is None


def test_a_notice_changes_nothing() -> None:
    fold = fold_of([b"a"])
    assert fold.see(Notice("info", "hello")) is None
    assert fold.block.spans == []


def test_live_counts_are_those_of_the_end() -> None:
    fold = fold_of([b"a"] * 9)
    events = [Started(0, (1,) * 5, 2, 1), plain(0), *chain([1, 2], 1, 3), *chain([4, 5], 2, 6)]
    see(fold, events)
    expected = Stats(prompt_tokens=5, cached_tokens=2, draft_cached_tokens=1)
    for event in events:
        if isinstance(event, Verified):
            expected.add(event.proposal, event.verdict)
    stats = fold.stats
    for name in ("prompt_tokens", "cached_tokens", "draft_cached_tokens", "completion_tokens", "rounds"):
        assert getattr(stats, name) == getattr(expected, name)
    assert (stats.accepted, stats.rejected, stats.discarded) == (3, 1, 0)
    assert stats.accepted_by_position == [2, 1]
    assert [(r.num_drafted, r.num_accepted, r.num_tokens) for r in fold.rounds] == [
        (0, 0, 1),
        (2, 1, 2),
        (2, 2, 3),
    ]


def test_live_speed_counts_the_rounds_after_the_first_without_the_drafts_reading() -> None:
    fold = fold_of([b"a"] * 9)
    see(fold, [plain(0), Prefilled(0, "draft", 5, 5, 0), plain(1), plain(2)])
    assert fold.stats.decode_s == pytest.approx(2.0 - 0.25)
    assert fold.stats.tokens_per_second == pytest.approx(2 / 1.75)
    assert fold.stats.timers.draft_s == 0.5
    assert (fold.stats.timers.prefill_s, fold.stats.timers.verify_s) == (0.5, 1.0)


def test_the_end_brings_the_exact_stats() -> None:
    fold = fold_of([b"a"])
    end = finished()
    see(fold, [plain(0), end])
    assert fold.finished is end
    assert fold.stats is end.stats


def alternatives(depth: int) -> Alternatives:
    return Alternatives(depth, (Alternative(depth, 0.5),), ())


def test_alternatives_belong_to_the_emitted_tokens_and_a_rejected_one_shares_its_replacements() -> None:
    fold = fold_of([b"a", b"b", b"c", b"d", b"X"])
    rows = (alternatives(0), alternatives(1))
    see(fold, [plain(0), *chain([1, 2, 3], 1, 4), Inspected(0, rows)])
    assert fold.block.alternatives == {1: rows[0], 2: rows[1]}
    kinds = [span.kind for span in fold.block.spans]
    assert kinds == ["plain", "accepted", "rejected", "discarded", "residual"]
    assert [fold.block.alternatives_at(index) for index in range(5)] == [
        None,
        rows[0],
        rows[1],
        None,
        rows[1],
    ]


def test_a_stored_message_is_its_text_and_ids() -> None:
    block = Block.of_text("model", "hello", (1, 2))
    assert (block.text, block.token_ids) == ("hello", [1, 2])
    assert Block.of_text("you", "").spans == []
    assert Block.of_text("you", "x").alternatives_at(0) is None


# -- whatever comes

Answer = tuple[list[bytes], list[Event], list[int]]


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Pieces that cut bytes anywhere, rounds over them, and the ids that are emitted."""
    alphabet = st.text("ab#\u00e9\u6f22\U0001f600", max_size=30).map(str.encode)
    data = draw(st.one_of(st.binary(max_size=40), alphabet))
    edges = sorted({0, len(data), *draw(st.lists(st.integers(0, len(data)), max_size=20))})
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)] or [b""]
    pieces += [b"", b"\xff", "\u20ac".encode()[:2], b"##"]  # ends, and what only guesses are
    num = len(pieces) - 3
    emitted, events = 0, list[Event]()
    while emitted < num:
        accepted = draw(st.integers(0, min(3, num - emitted)))
        lost = draw(st.lists(st.integers(0, len(pieces) - 1), max_size=3))
        path = list(range(emitted, emitted + accepted))
        emitted += accepted
        own = emitted if emitted < num else None
        emitted += own is not None
        if own is None and not accepted:
            break
        events += (
            [plain(own)] if own is not None and not path + lost else chain([*path, *lost], accepted, own)
        )
    return pieces, events, list(range(emitted))


stops = st.lists(st.text("ab#\u00e9\U0001f600\ufffd", min_size=1, max_size=4), max_size=3)


@given(answers(), stops)
def test_the_text_is_what_a_text_stream_makes_of_the_emitted_ids(answer: Answer, stop: list[str]) -> None:
    pieces, events, ids = answer
    fold = fold_of(pieces, stop)
    stream = TextStream(pieces.__getitem__, stop)
    expected = ""
    for event in events:
        fold.see(event)
        if isinstance(event, Verified):
            expected += "".join(map(stream.push, event.verdict.tokens))
            assert fold.block.text == expected
    fold.see(finished())
    assert fold.block.text == expected + stream.flush()
    assert fold.block.token_ids == ids


@given(answers(), stops)
def test_nothing_before_the_span_that_is_told_changes(answer: Answer, stop: list[str]) -> None:
    pieces, events, _ = answer
    fold = fold_of(pieces, stop)
    before = list(fold.block.spans)
    for event in [*events, finished()]:
        first = fold.see(event)
        after = list(fold.block.spans)
        if first is None:
            assert after == before
        else:
            assert after[:first] == before[:first]
        before = after


@given(answers(), stops)
def test_every_guess_is_told_whole_and_in_its_round(answer: Answer, stop: list[str]) -> None:
    pieces, events, _ = answer
    fold = fold_of(pieces, stop)
    see(fold, events)
    lost = [
        (token, fate.value)
        for event in events
        if isinstance(event, Verified)
        for token, fate in zip(event.proposal.tokens, event.verdict.fates, strict=True)
        if fate is not ACCEPTED
    ]
    guesses = [span for span in fold.block.spans if span.kind in UNEMITTED]
    assert [(span.info and span.info.token, span.kind) for span in guesses] == lost
    assert [span.text for span in guesses] == [pieces[token].decode(errors="replace") for token, _ in lost]
