"""The cache owner on real memory: what it says it holds is what the logits show."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edge_spec.cancel import Cancel
from edge_spec.config import GREEDY, ModelSettings
from edge_spec.drafters import ModelDrafter
from edge_spec.errors import Cancelled, EngineError
from edge_spec.llama.cache import Cache
from edge_spec.llama.context import Context
from edge_spec.llama.model import Model
from edge_spec.models.quantize import quantize
from edge_spec.sampling import SamplerChain
from edge_spec.target import ModelTarget
from edge_spec.types import NO_PROPOSAL, Budget, Fate, Rows, Slot, Timers, Verdict
from tests.gguf_maker import make_gguf

TINY_ROUNDS, PAIR_ROUNDS = (int(os.environ.get("EDGE_SPEC_ROUNDS", default)) for default in ("200", "60"))
"""Random rounds a test; set EDGE_SPEC_ROUNDS=1000 for the long version."""

NUM_CHECKS = 4

STEADY_TOKENS = 256
"""Behind more than so many cells llama.cpp's flash attention rounds a row on its own otherwise than one
beside others, so what was read in other widths differs there, whoever owns the cache."""


class Loaded:
    """A model with its cache and the flag that stops its decodes."""

    def __init__(self, path: Path, *, context_size: int = 1024, num_slots: int = 1) -> None:
        self.cancel = Cancel()
        self.settings = ModelSettings(path, context_size=context_size, num_slots=num_slots)
        self.model = Model(self.settings)
        self.cache = Cache(Context(self.model, self.settings, 17 * num_slots, self.cancel))

    def close(self) -> None:
        self.cache.close()
        self.model.close()


@pytest.fixture(scope="module")
def tiny(tiny_path: Path) -> Iterator[Loaded]:
    loaded = Loaded(tiny_path)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def starter(target_q4_0_path: Path, draft_q4_0_path: Path) -> Iterator[tuple[Loaded, Loaded]]:
    pair = Loaded(target_q4_0_path), Loaded(draft_q4_0_path)
    yield pair
    for loaded in pair:
        loaded.close()


@pytest.fixture(autouse=True)
def _cold(request: pytest.FixtureRequest) -> None:
    for name in ("tiny", "starter"):
        if name in request.fixturenames:
            value = request.getfixturevalue(name)
            for loaded in value if isinstance(value, tuple) else (value,):
                loaded.cache.clear()


def last_rows(cache: Cache, tokens: list[int], width: int) -> np.ndarray:
    """The logits of the last `width` tokens, decoded together behind what is cached."""
    cache.rollback(0, len(tokens) - width)
    assert cache.length(0) == len(tokens) - width
    return cache.append([Rows(0, tokens[-width:], 0)]).copy()


def fresh_rows(cache: Cache, tokens: list[int], width: int) -> np.ndarray:
    """The same after reading everything again from an empty cache, 16 rows at a time."""
    cache.clear()
    for start in range(0, len(tokens) - width, 16):
        part = tokens[start : min(start + 16, len(tokens) - width)]
        cache.append([Rows(0, part, len(part))])
    return cache.append([Rows(0, tokens[-width:], 0)]).copy()


def slot_of(tokens: list[int]) -> Slot:
    chain = SamplerChain(GREEDY)
    return Slot(0, tokens, len(tokens), 10_000, Argmax(), chain, chain, lambda _tokens: None)


class Argmax:
    """Draws the most likely token; verdicts are scripted by the tests."""

    name = "argmax"

    def draw(self, dist, _position):
        return int(dist.ids[dist.probs.argmax()])

    def verify(self, *_args):
        raise NotImplementedError


def scripted(proposal, accepted: int, token: int) -> Verdict:
    """A verdict that accepts the first `accepted` nodes and puts `token` behind them."""
    fates = [Fate.ACCEPTED] * accepted + [Fate.REJECTED] * (accepted < len(proposal))
    fates += [Fate.DISCARDED] * (len(proposal) - len(fates))
    tokens = (*proposal.tokens[:accepted], token)
    origin = "residual" if accepted < len(proposal) else "bonus" if len(proposal) else "plain"
    return Verdict(tokens, tuple(range(accepted)), tuple(fates), origin, (None,) * len(proposal))


def random_rounds(target: Loaded, draft: Loaded, num_rounds: int, seed: int) -> None:
    """Propose, accept, reject, cancel and edit at random through the real target and drafter,
    then compare both models' logits with a fresh read at the same width.

    Rounds that are cancelled are not counted.
    """
    rng, timers = random.Random(seed), Timers()
    vocab = min(target.model.num_vocab, draft.model.num_vocab)
    sides = ModelTarget(target.cache, timers), ModelDrafter(draft.cache, vocab, timers)
    slot = slot_of([rng.randrange(1000) for _ in range(12)])
    completed = num_cancelled = num_checks = 0
    while completed < num_rounds:
        act = rng.random()
        if len(slot.tokens) > STEADY_TOKENS - 8 or act < 0.03:
            # An edited conversation: keep a random prefix, go on differently.
            slot = slot_of([*slot.tokens[: rng.randrange(4, 60)], *(rng.randrange(1000) for _ in range(3))])
            for side in sides:
                side.begin(slot)
        budget = Budget(len(slot.tokens), rng.randrange(6))
        stop = rng.choice((target, draft)) if act > 0.9 else None
        if stop is not None:
            stop.cancel.set()
        try:
            proposal = sides[1].propose([slot], [budget])[0]
            sides[0].score([slot], [proposal], [budget])
        except Cancelled:
            assert stop is not None
            stop.cancel.clear()
            num_cancelled += 1
            continue
        if stop is not None:
            stop.cancel.clear()
        verdict = scripted(proposal, rng.randint(0, len(proposal)), rng.randrange(1000))
        for side in (sides[0].commit, sides[1].observe):
            side([slot], [verdict])
        slot.tokens.extend(verdict.tokens)
        for loaded in (target, draft):
            held = list(loaded.cache.tokens(0))
            assert held == slot.tokens[: len(held)]
        completed += 1
        if completed % (num_rounds // NUM_CHECKS) == 0:
            num_checks += 1
            for loaded in (target, draft):
                loaded.cache.sync(0, slot.tokens)
                missing = slot.tokens[loaded.cache.length(0) :]
                for start in range(0, len(missing), 16):
                    loaded.cache.append([Rows(0, missing[start : start + 16], 0)])
                walked = last_rows(loaded.cache, slot.tokens, 4)
                fresh = fresh_rows(loaded.cache, slot.tokens, 4)
                assert np.abs(walked - fresh).max() == 0.0, (
                    f"{loaded.model.path.name} after {completed} rounds"
                )
            for side in sides:
                side.begin(slot)
    assert num_checks >= NUM_CHECKS and num_cancelled > 0


@pytest.mark.gguf
def test_random_rounds_leave_the_logits_of_a_fresh_read_on_tiny(tiny, tiny_path):
    other = Loaded(tiny_path)
    try:
        random_rounds(tiny, other, TINY_ROUNDS, seed=1)
    finally:
        other.close()


@pytest.mark.pair
def test_random_rounds_leave_the_logits_of_a_fresh_read_on_the_pair(starter):
    random_rounds(*starter, PAIR_ROUNDS, seed=2)


@pytest.mark.pair
def test_prefix_10_draft_5_reject_at_3_leaves_prefix_and_2_drafts_on_both(starter):
    target, draft = starter
    timers = Timers()
    sides = ModelTarget(target.cache, timers), ModelDrafter(draft.cache, target.model.num_vocab, timers)
    prefix = target.model.tokenize(
        "def fibonacci(n): return the n-th", add_special=False, parse_special=False
    )
    slot = slot_of((prefix * 2)[:10])
    # The last token is always held back; here it is cached first so that the prefix is whole.
    slot.tokens.append(5)
    sides[0].score([slot], [NO_PROPOSAL], [Budget(10, 0)])
    sides[0].commit([slot], [None])
    assert target.cache.length(0) == 10
    budget = Budget(1, 5)
    proposal = sides[1].propose([slot], [budget])[0]
    assert len(proposal) == 5
    sides[0].score([slot], [proposal], [budget])
    assert target.cache.length(0) == 16
    verdict = scripted(proposal, 2, 77)
    sides[0].commit([slot], [verdict])
    sides[1].observe([slot], [verdict])
    slot.tokens.extend(verdict.tokens)
    expected = slot.tokens[:11] + list(proposal.tokens[:2])
    assert list(target.cache.tokens(0)) == expected
    assert list(draft.cache.tokens(0)) == expected
    assert slot.tokens[target.cache.length(0) :] == [77]


@pytest.mark.gguf
def test_attention_memory_is_trimmed(tiny):
    assert tiny.cache.strategy == "trim"


@pytest.mark.gguf
def test_memory_that_llama_cpp_lets_nobody_trim_is_restored_from_a_checkpoint(tiny, monkeypatch):
    """The self-test chooses by logits: a trim that lies or refuses is not used."""
    import edge_spec.llama.cache as module

    class Lying(module._Trim):
        def shorten(self, seq: int, length: int) -> int:
            return length

    monkeypatch.setattr(module, "_Trim", Lying)
    other = Loaded(tiny.settings.path)
    try:
        assert other.cache.strategy == "checkpoint"
        other.cache.append([Rows(0, [1, 2, 3], 3)])
        other.cache.mark(0)
        other.cache.append([Rows(0, [4, 5, 6], 3)])
        assert other.cache.rollback(0, 5) == 3
        assert list(other.cache.tokens(0)) == [1, 2, 3]
        again = other.cache.append([Rows(0, [7, 8], 0)]).copy()
        tiny.cache.append([Rows(0, [1, 2, 3], 3)])
        assert np.abs(again - tiny.cache.append([Rows(0, [7, 8], 0)])).max() == 0.0
    finally:
        other.close()


@pytest.mark.gguf
def test_what_other_slots_hold_does_not_touch_a_slots_logits(tiny_path):
    """Same widths, other neighbours: the logits are equal to the bit."""
    loaded = Loaded(tiny_path, context_size=128, num_slots=6)
    try:
        seen = []
        for neighbour in (100, 700):
            loaded.cache.clear()
            for step in range(3):
                parts = [Rows(0, [5 + step, 6, 7], 0)]
                parts += [Rows(seq, [neighbour + seq + step, neighbour, 9], 0) for seq in range(1, 6)]
                rows = loaded.cache.append(parts)
                for seq in range(6):
                    loaded.cache.rollback(seq, 3 * step + 2)
            seen.append(rows[:3].copy())
        assert np.abs(seen[0] - seen[1]).max() == 0.0
    finally:
        loaded.close()


@pytest.mark.gguf
@pytest.mark.parametrize("rows, wanted", [(513, 513), (100, 0)], ids=["batch", "outputs"])
def test_what_would_abort_the_process_is_refused_before_the_call(tiny, rows, wanted):
    with pytest.raises(EngineError, match=r"rows"):
        tiny.cache.append([Rows(0, [1] * rows, wanted)])
    assert tiny.cache.length(0) == 0


@pytest.mark.pair
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_cancel_in_a_long_prefill_acts_within_200_ms_and_leaves_the_cache_usable(starter, share):
    target, _ = starter
    prompt = [(7 * i) % 1000 for i in range(500)]
    asked: list[float] = []

    def stop() -> None:
        asked.append(time.perf_counter())
        target.cancel.set()

    target.cache.append([Rows(0, prompt[:5], 5)])
    started = time.perf_counter()
    target.cache.append([Rows(0, prompt[5:69], 64)])  # on no machine does all of it take less
    timer = threading.Timer(share * (time.perf_counter() - started), stop)
    target.cache.rollback(0, 5)
    timer.start()
    with pytest.raises(Cancelled):
        target.cache.append([Rows(0, prompt[5:], 495)])
    reaction = time.perf_counter() - asked[0]
    target.cancel.clear()
    assert list(target.cache.tokens(0)) == prompt[:5]
    if reaction >= 0.2:  # a busy machine, where all takes longer
        started = time.perf_counter()
        target.cache.append([Rows(0, prompt[5:], 495)])
        assert reaction < (time.perf_counter() - started) / 20
        target.cache.rollback(0, 5)
    again = target.cache.append([Rows(0, prompt[5:9], 0)]).copy()
    target.cache.clear()
    target.cache.append([Rows(0, prompt[:5], 5)])
    assert np.abs(again - target.cache.append([Rows(0, prompt[5:9], 0)])).max() == 0.0


def test_a_row_on_its_own_is_padded_to_what_it_is_beside_others(tmp_path: Path) -> None:
    """BF16 on CPUs: a single row goes through other kernels than several do."""
    loaded = Loaded(quantize(make_gguf(tmp_path / "f32.gguf", width=256), tmp_path / "bf16.gguf", "BF16"))
    cache, tokens = loaded.cache, list(range(20, 60))
    cache.append([Rows(0, tokens, len(tokens))])
    beside = cache.append([Rows(0, [70, 71], 0)])[0].copy()
    cache.rollback(0, len(tokens))
    alone = cache.append([Rows(0, [70], 0)])[0].copy()
    cache.rollback(0, len(tokens))
    padded = cache.append([Rows(0, [70], 0)], 2)[0].copy()
    assert cache.length(0) == len(tokens) + 1
    assert (padded == beside).all()
    assert cache.steady_rows == (1 if (alone == beside).all() else 2)
    after = cache.append([Rows(0, [71, 72], 0)]).copy()
    cache.rollback(0, len(tokens))
    cache.append([Rows(0, [70, 73, 74], 0)])
    cache.rollback(0, len(tokens) + 1)
    assert (cache.append([Rows(0, [71, 72], 0)]) == after).all(), "what was thrown away left no trace"
    loaded.close()


def test_the_last_cell_of_a_context_is_decoded_alone(tmp_path: Path) -> None:
    loaded = Loaded(make_gguf(tmp_path / "small.gguf"), context_size=256)
    cache = loaded.cache
    cache.append([Rows(0, [5] * 255, 255)])
    assert cache.append([Rows(0, [6], 0)], 2).shape == (1, 300)
    assert cache.length(0) == 256
    loaded.close()
