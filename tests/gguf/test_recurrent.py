"""Recurrent memory, which cannot be trimmed: drafts are undone by checkpoint and replay."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import edge_spec
from edge_spec.events import Started, Verified
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
    decoding = edge_spec.Decoding(**{"max_tokens": 40, **values})
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
    assert sum(len(verdict.tokens) for verdict in rounds) == 60


def test_a_second_turn_goes_on_with_the_right_text(pair):
    first = text(pair, PROMPT, max_tokens=10)
    longer = [*PROMPT, *first, 33, 34]
    decoding = edge_spec.Decoding(max_tokens=20)
    events = list(pair.generate(longer, sampling=GREEDY, decoding=decoding))
    warm = [token for e in events if isinstance(e, Verified) for token in e.verdict.tokens]
    assert isinstance(events[0], Started)
    assert warm == text(pair, longer, max_tokens=20)
