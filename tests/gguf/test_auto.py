"""Drafters that choose for themselves, on a real model: the text stays the plain one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import edge_spec
from edge_spec.config import Decoding, Sampling
from edge_spec.events import Drafted, Notice
from edge_spec.planner import calibration

pytestmark = pytest.mark.gguf

PROMPT = "Write the numbers from one to twelve in words, then write them once more, in the same order."


@pytest.fixture(scope="module")
def pair(tiny_path: Path) -> Iterator[edge_spec.Pair]:
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=512) as pair:
        yield pair


@pytest.mark.parametrize("seed", [None, 3], ids=["greedy", "seeded"])
@pytest.mark.parametrize("drafter", ["ngram", "auto"])
def test_the_text_is_the_plain_one(pair: edge_spec.Pair, drafter: str, seed: int | None) -> None:
    sampling = Sampling(temperature=0 if seed is None else 0.8)

    def ids(**options: object) -> tuple[int, ...]:
        decoding = Decoding(max_tokens=60, seed=seed, **options)
        return pair.answer(PROMPT, sampling=sampling, decoding=decoding).token_ids

    assert ids(drafter=drafter, draft_max=16) == ids(draft_max=0)


def test_what_was_measured_is_kept_and_measured_once(pair: edge_spec.Pair) -> None:
    decoding = Decoding(max_tokens=8, drafter="auto", draft_max=16)
    events = list(pair.generate("Say hello.", decoding=decoding))
    kept = calibration.recall(pair.target, pair.draft)
    assert kept is not None and kept.draft is not None
    assert set(kept.verify.measured) >= {1, 2, 4, 8, 16, 32}
    assert all(seconds > 0 for seconds in kept.verify.measured.values())
    with edge_spec.load_pair(pair.target.path, pair.draft and pair.draft.path, context_size=512) as again:
        told = [e.text for e in again.generate("Say hello.", decoding=decoding) if isinstance(e, Notice)]
    assert not [text for text in told if text.startswith("Measuring")]
    assert events


def test_a_text_that_repeats_its_prompt_is_copied(pair: edge_spec.Pair) -> None:
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa. " * 4
    decoding = Decoding(max_tokens=40, drafter="ngram", draft_max=8)
    events = list(pair.generate(words, raw=True, sampling=Sampling(temperature=0), decoding=decoding))
    assert {e.proposal.source for e in events if isinstance(e, Drafted)} == {"ngram"}
    finished = events[-1]
    assert isinstance(finished, edge_spec.Finished)
    assert finished.stats.accepted > 20
