"""Drafters that choose for themselves, on a real model: the text stays the plain one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import edge_spec
from edge_spec.config import Decoding, Sampling
from edge_spec.drafters import ModelDrafter
from edge_spec.drafters.draft_model import SINK_TOKENS
from edge_spec.engine import Engine
from edge_spec.events import Drafted, Verified
from edge_spec.planner import FixedPlanner, calibration
from edge_spec.target import ModelTarget
from edge_spec.types import Timers

pytestmark = pytest.mark.gguf

PROMPT = "Write the numbers from one to twelve in words, then write them once more, in the same order."


@pytest.fixture(scope="module")
def pair(tiny_path: Path) -> Iterator[edge_spec.Pair]:
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=512) as pair:
        yield pair


@pytest.fixture
def never_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept of any pair; each width is measured as few times as it can be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "_BUDGET_S", 0.0)


@pytest.mark.parametrize("seed", [None, 3], ids=["greedy", "seeded"])
@pytest.mark.parametrize("drafter", ["ngram", "auto"])
def test_the_text_is_the_plain_one(pair: edge_spec.Pair, drafter: str, seed: int | None) -> None:
    sampling = Sampling(temperature=0 if seed is None else 0.8)

    def ids(**options: object) -> tuple[int, ...]:
        decoding = Decoding(max_tokens=60, seed=seed, **options)
        return pair.answer(PROMPT, sampling=sampling, decoding=decoding).token_ids

    assert ids(drafter=drafter, draft_max=16) == ids(draft_max=0)


@pytest.mark.usefixtures("never_measured")
def test_what_was_measured_is_kept_and_measured_once(tiny_path: Path) -> None:
    decoding = Decoding(max_tokens=8, drafter="auto", draft_max=16)

    def shares(pair: edge_spec.Pair) -> list[float]:
        events = pair.generate("Say hello.", decoding=decoding)
        return [event.fraction for event in events if isinstance(event, edge_spec.Calibrating)]

    with edge_spec.load_pair(tiny_path, tiny_path, context_size=512) as first:
        told = shares(first)
        assert told == sorted(told) and told[0] == 0 and told[-1] > 0.9
        kept, drifted = calibration.recall(first.target, first.draft) or (None, True)
    assert kept is not None and kept.draft is not None and not drifted
    assert [one.verify_s for one in calibration.kept_pairs()] == [kept.verify.measured]
    assert set(kept.verify.measured) >= {1, 2, 4, 8, 16, 32}
    assert all(seconds > 0 for seconds in kept.verify.measured.values())
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=512) as again:
        assert shares(again) == []


def test_what_an_answer_taught_is_kept_and_so_is_what_one_taught_that_nobody_heard_out(
    pair: edge_spec.Pair,
) -> None:
    decoding = Decoding(max_tokens=8)

    def learned() -> float:
        kept, _ = calibration.recall(pair.target, pair.draft) or (None, False)
        return 0.0 if kept is None else kept.decode_s

    list(pair.generate("Say hello.", decoding=decoding))
    after = learned()
    events = pair.generate("Say hello again.", decoding=decoding)
    for _ in zip(range(4), (event for event in events if isinstance(event, Verified)), strict=False):
        pass
    events.close()
    broken_off = learned()
    assert broken_off > after
    pair.complete("Say hello.", decoding=decoding)
    assert learned() > broken_off


def test_a_window_of_the_prompt_is_read_and_the_text_stays(tiny_path: Path) -> None:
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa. " * 12
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=512) as pair:
        assert pair.draft is not None
        greedy, decoding = Sampling(temperature=0), Decoding(max_tokens=12, draft_max=3)
        plain = pair.answer(words, sampling=greedy, decoding=Decoding(max_tokens=12, draft_max=0))
        slot = pair._slot(0, pair.encode(words), greedy, decoding)
        timers = Timers()
        drafter = ModelDrafter(pair.draft.cache, pair.target.model.num_vocab, timers)
        planner = _Windowed(3)
        engine = Engine(ModelTarget(pair.target.cache, timers), drafter, planner, timers)
        emitted = [t for e in engine.generate([slot]) if isinstance(e, Verified) for t in e.verdict.tokens]
        assert tuple(emitted) == plain.token_ids
        assert drafter.num_skipped(0) == slot.num_prompt + 1 - 32 - SINK_TOKENS
        held = pair.draft.cache.length(0)
        assert held < 32 + SINK_TOKENS + 12 + 1
        # Another text begins anew, and this one goes on where it was.
        slot.tokens.append(1)
        assert drafter.begin(slot) == drafter.num_skipped(0) + pair.draft.cache.length(0)
        other = pair._slot(0, pair.encode("Say hello to everybody in the room, please."), greedy, decoding)
        drafter.begin(other)
        assert drafter.num_skipped(0) == 0


class _Windowed(FixedPlanner):
    """Drafts 3 tokens, the first time after reading the last 32."""

    def plan(self, slots, num_pending, num_allowed, num_rows, outlook):  # type: ignore[no-untyped-def]
        budgets = super().plan(slots, num_pending, num_allowed, num_rows, outlook)
        first = slots[0].num_emitted == 1
        return [replace(budget, window=32) if first and budget.drafted else budget for budget in budgets]


@pytest.mark.usefixtures("never_measured")
def test_a_stop_while_costs_are_measured_ends_the_text_at_once(tiny_path: Path) -> None:
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=256) as pair:
        told = []
        for event in pair.generate("Say hello.", decoding=Decoding(max_tokens=100)):
            told.append(event)
            if isinstance(event, edge_spec.Calibrating):
                pair.cancel()
        assert any(isinstance(event, edge_spec.Calibrating) for event in told)
        assert isinstance(told[-1], edge_spec.Finished) and told[-1].reason == "cancelled"
        assert told[-1].stats.completion_tokens == 0
        assert pair.answer("Say hello.", decoding=Decoding(max_tokens=3)).token_ids, (
            "and the next is answered"
        )


@pytest.mark.usefixtures("never_measured")
def test_measuring_can_be_skipped_and_the_answer_is_plain(tiny_path: Path) -> None:
    decoding = Decoding(max_tokens=12, drafter="auto", draft_max=16)
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=260) as pair:
        shares = []
        for event in pair.generate("Say hello.", decoding=decoding):
            if isinstance(event, edge_spec.Calibrating):
                shares.append(event.fraction)
                if len(shares) == 3:
                    pair.skip_calibration()
        assert isinstance(event, edge_spec.Finished) and event.reason in ("length", "eog")
        assert (len(shares), event.stats.drafted) == (3, 0) and event.stats.completion_tokens > 0
        pair.skip_calibration()  # nothing is measured now, so nothing happens
        again = list(pair.generate("Say hello again.", decoding=decoding))
        shares = [event.fraction for event in again if isinstance(event, edge_spec.Calibrating)]
        assert shares == sorted(shares) and shares[0] == 0 and shares[-1] > 0.9
        assert again[-1].reason in ("length", "eog") and calibration.recall(pair.target, pair.draft)


def test_a_text_that_repeats_its_prompt_is_copied(pair: edge_spec.Pair) -> None:
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa. " * 4
    decoding = Decoding(max_tokens=40, drafter="ngram", draft_max=8)
    events = list(pair.generate(words, raw=True, sampling=Sampling(temperature=0), decoding=decoding))
    assert {e.proposal.source for e in events if isinstance(e, Drafted)} == {"ngram"}
    finished = events[-1]
    assert isinstance(finished, edge_spec.Finished)
    assert finished.stats.accepted > 20
