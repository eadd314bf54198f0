"""Recurrent memory, which cannot be trimmed: drafts are undone by checkpoint and replay."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import edge_spec
from edge_spec.errors import UsageError
from edge_spec.events import Started, Verified
from edge_spec.llama import cache
from tests.gguf_maker import make_gguf

PROMPT = [1, 17, 30, 42, 5, 60, 61, 62]
GREEDY = edge_spec.Sampling(temperature=0, logit_bias=((1, -1e9),))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recurrent")
    return {
        kind: make_gguf(folder / f"{kind}.gguf", architecture=kind, seed=3, noise=noise)
        for kind, noise in (("mamba", 0.0), ("llama", 0.3))
    }


@pytest.fixture(scope="module", params=list(itertools.product(("mamba", "llama"), repeat=2)), ids="-".join)
def pair(request: pytest.FixtureRequest, paths: dict[str, Path]) -> Iterator[edge_spec.Pair]:
    target, draft = request.param
    with edge_spec.load_pair(paths[target], paths[draft], context_size=256) as loaded:
        yield loaded


def text(pair: edge_spec.Pair, prompt: list[int], **values) -> list[int]:
    decoding = edge_spec.Decoding(**{"max_tokens": 40, "draft_max": 3, **values})
    return list(pair.answer(prompt, sampling=GREEDY, decoding=decoding, reuse_cache=False).token_ids)


def test_the_self_test_finds_how_each_memory_can_be_rolled_back(pair):
    for side in (pair.target, pair.draft):
        expected = "trim" if side.header.architecture == "llama" else "checkpoint"
        assert side.cache.strategy == expected


@pytest.mark.parametrize("k", [1, 3, 7])
def test_drafted_text_is_plain_text_on_every_mix_of_memories(pair, k):
    plain = text(pair, PROMPT, draft_max=0)
    assert len(plain) == 40
    assert text(pair, PROMPT, draft_max=k) == plain


def test_what_checkpoints_take_is_decoding_time(pair):
    target = pair.target.cache
    before = target.busy_s - target.context.busy_s
    stats = pair.answer(
        PROMPT, sampling=GREEDY, decoding=edge_spec.Decoding(max_tokens=40, draft_max=3), reuse_cache=False
    ).stats
    in_llama_cpp = target.busy_s - target.context.busy_s - before
    assert 0 < in_llama_cpp < stats.timers.verify_s


def test_seeded_text_is_plain_text_on_every_mix_of_memories(pair):
    options = {"sampling": edge_spec.Sampling(logit_bias=((1, -1e9),)), "reuse_cache": False}
    texts = {
        pair.answer(
            PROMPT, decoding=edge_spec.Decoding(max_tokens=40, draft_max=k, seed=5), **options
        ).token_ids
        for k in (0, 2, 5)
    }
    assert len(texts) == 1


def test_rejections_do_not_stop_progress(pair):
    events = list(
        pair.generate(PROMPT, sampling=GREEDY, decoding=edge_spec.Decoding(max_tokens=60, draft_max=5))
    )
    rounds = [event.verdict for event in events if isinstance(event, Verified)]
    assert all(len(verdict.tokens) >= 1 for verdict in rounds)
    finished = events[-1]
    assert isinstance(finished, edge_spec.Finished)
    if pair.target.header.architecture != pair.draft.header.architecture:
        assert finished.stats.rejected > 0
    assert sum(len(verdict.tokens) for verdict in rounds) == 60


def test_a_second_turn_goes_on_with_the_right_text(pair):
    first = text(pair, PROMPT, max_tokens=10)
    longer = [*PROMPT, *first, 33, 34]
    decoding = edge_spec.Decoding(max_tokens=20, draft_max=3)
    events = list(pair.generate(longer, sampling=GREEDY, decoding=decoding))
    warm = [token for e in events if isinstance(e, Verified) for token in e.verdict.tokens]
    assert isinstance(events[0], Started)
    assert warm == text(pair, longer, max_tokens=20)


def test_ids_and_prompts_that_cannot_be_read_are_refused(pair):
    for prompts, match in (([[]], "no tokens"), ([[1, 2**32 + 5]], "outside"), ([], "no prompt")):
        with pytest.raises(UsageError, match=match):
            pair.generate_many(prompts)
    for prompt, match in (([1, "x"], "not a token id"), ([{"role": "user"}], "content"), ([], "empty")):
        with pytest.raises(UsageError, match=match):
            pair.generate(prompt)
    with pytest.raises(UsageError, match="system"):
        pair.generate([1, 2], system="Be brief.")
    with pytest.raises(UsageError, match="raw"):
        pair.generate([{"role": "user", "content": "x"}], raw=True)
    assert pair.encode(np.array([1, 2, 3])) == [1, 2, 3]


def test_memory_that_neither_trims_nor_restores_is_read_again(paths, monkeypatch):
    """Such memory is slow, and its text is still plain text."""

    class Lying(cache._Trim):
        def shorten(self, seq: int, length: int) -> int:
            return length

    with edge_spec.load_pair(paths["llama"], context_size=256) as plain:
        expected = text(plain, PROMPT)
    monkeypatch.setattr(cache, "_Trim", Lying)
    monkeypatch.setattr(cache, "_Checkpoint", Lying)
    with edge_spec.load_pair(paths["llama"], paths["mamba"], context_size=256) as slow:
        assert (slow.target.cache.strategy, slow.draft.cache.strategy) == ("reread", "reread")
        assert text(slow, PROMPT) == expected


def test_a_draft_with_fewer_ids_drafts_until_the_text_holds_one_that_it_lacks(tmp_path):
    target = make_gguf(tmp_path / "target.gguf", vocab_size=300, padded_ids=40, seed=3)
    draft = make_gguf(tmp_path / "draft.gguf", vocab_size=300, seed=3)
    with edge_spec.load_pair(target, draft, context_size=128) as pair:
        wanted = edge_spec.Sampling(temperature=0, logit_bias=((1, -1e9), (310, -1e9)))
        drafted = pair.answer(
            PROMPT, sampling=wanted, decoding=edge_spec.Decoding(max_tokens=20, draft_max=3)
        )
        assert drafted.stats.drafted > 0
        silent = pair.answer(
            [*PROMPT, 310], sampling=wanted, decoding=edge_spec.Decoding(max_tokens=20, draft_max=3)
        )
        assert silent.stats.drafted == 0
        assert silent.stats.completion_tokens == 20
