"""The numbers of the panel, by hand-computed values."""

from __future__ import annotations

import pytest

from edge_spec import RoundTimings
from tests.tui.fake_host import SPEC, FakeHost, Part, Round, Script, plain
from tests.tui.test_engine_thread import REQUEST
from tui.chat.gauges import PlainReference, read_gauges, recent_speeds
from tui.chat.speculation import Speculation
from tui.chat.transcript import AnswerFold, Block

ON = Speculation(True, 3)


def fold_of(*parts: Part, whole: bool = True) -> AnswerFold:
    script = Script()
    script.answer(list(parts))
    host = FakeHost(SPEC, script)
    fold = AnswerFold(Block("model"), host.piece)
    events = list(host.generate(REQUEST))
    for event in events if whole else events[:-1]:
        fold.see(event)
    return fold


def drafted(accepted: int, wall_s: float = 0.1) -> Round:
    return Round((" a", " b", " c"), accepted, " d", RoundTimings(0.03, 0.06, 0.001, wall_s))


@pytest.mark.parametrize("whole", [True, False], ids=["ended", "streaming"])
def test_the_gauges_of_an_answer(whole: bool) -> None:
    fold = fold_of(*plain("x", wall_s=5.0), drafted(3), drafted(1), whole=whole)
    gauges = read_gauges(fold, ON, plain_speed=20.0, context_used=27, context_size=99)
    assert gauges.speed == pytest.approx((1 + 4 + 2 - 1) / 0.2)  # the first round read the prompt
    assert gauges.speed_up == pytest.approx(30 / 20)
    assert gauges.acceptance == pytest.approx(4 / 5)
    assert gauges.by_position == (1.0, 0.5, 1.0)
    assert gauges.tokens_a_round == pytest.approx(7 / 3)
    assert (gauges.round_ms, gauges.draft_ms, gauges.verify_ms) == pytest.approx((100, 30, 60))
    assert gauges.rest_ms == pytest.approx(10)
    assert (gauges.context_used, gauges.context_size) == (27, 99)


def test_nothing_is_known_before_the_first_answer() -> None:
    gauges = read_gauges(None, ON, context_size=99)
    assert gauges.speed is gauges.acceptance is gauges.round_ms is gauges.speed_up is gauges.rest_ms is None


def test_a_plain_answer_has_no_speed_up() -> None:
    assert read_gauges(fold_of(*plain(*"abcd")), ON, plain_speed=20.0).speed_up is None


def test_the_plain_speed_is_the_median_of_plain_rounds_from_the_third_on() -> None:
    plain_speed = PlainReference()
    plain_speed.see(fold_of(*plain("a", "b", "c", wall_s=0.05)))
    assert plain_speed.speed is None  # the first of them read the prompt
    plain_speed.see(fold_of(*plain("a", wall_s=9.0), *plain("b", wall_s=0.04)))
    assert plain_speed.speed == pytest.approx(1 / 0.05)


def test_an_answers_own_plain_rounds_count_before_those_of_other_answers() -> None:
    plain_speed = PlainReference()
    plain_speed.see(fold_of(*plain(*"abcdefgh", wall_s=0.2)))
    answer = [*plain(*"abc", wall_s=0.05), drafted(2)]
    plain_speed.see(fold_of(*answer))
    assert plain_speed.speed == pytest.approx(1 / 0.2)  # two of its own are too few
    plain_speed.see(fold_of(*answer, *plain("d", wall_s=0.05)))
    assert plain_speed.speed == pytest.approx(1 / 0.05)


def test_of_earlier_answers_the_last_rounds_count() -> None:
    plain_speed = PlainReference()
    plain_speed.see(fold_of(*plain(*"abcdefghijklmnopqrstuvwxyz", wall_s=0.2)))
    plain_speed.see(fold_of(*plain(*"abcdefghijklmnopqrstuvwxyz", wall_s=0.05)))
    plain_speed.see(fold_of(*plain("a")))
    assert plain_speed.speed == pytest.approx(1 / 0.05)


def test_drafted_rounds_tell_nothing_of_the_plain_speed() -> None:
    plain_speed = PlainReference()
    plain_speed.see(fold_of(*plain("a"), *(drafted(2) for _ in range(9))))
    assert plain_speed.speed is None


def test_the_time_in_which_the_draft_read_its_prompt_is_not_the_targets() -> None:
    plain_speed = PlainReference()
    reading = RoundTimings(draft_s=0.5, verify_s=0.049, sample_s=0.001, wall_s=0.55)
    plain_speed.see(fold_of(*plain("a"), *(Round(own="b", timings=reading) for _ in range(3))))
    assert plain_speed.speed == pytest.approx(1 / 0.05)


def test_a_growing_answer_is_counted_once() -> None:
    plain_speed = PlainReference()
    fold = fold_of(*plain("a", "b", "c", wall_s=0.05))
    for _ in range(5):
        plain_speed.see(fold)
    assert plain_speed.speed is None


def test_recent_speeds_are_of_half_a_second_each_and_stay_as_they_are() -> None:
    rounds = fold_of(*plain("x"), *(drafted(3, 0.1) for _ in range(12))).rounds
    assert recent_speeds(rounds) == pytest.approx((40.0, 40.0))
    assert recent_speeds(rounds[:-3]) == pytest.approx((40.0,))
    slow = fold_of(*plain("x"), *(drafted(0, 2.0) for _ in range(20))).rounds
    assert recent_speeds(slow) == pytest.approx((0.5,) * 12)
