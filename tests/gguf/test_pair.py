"""A loaded pair through the public API, on real models."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import edge_spec
from edge_spec.errors import IncompatiblePairError, PromptTooLongError, SettingError, UsageError
from edge_spec.events import Finished, Notice, Started, Verified
from edge_spec.sampling import SamplerChain

GREEDY = edge_spec.Sampling(temperature=0)
COPY = "Repeat this list exactly: alpha, beta, gamma, delta, epsilon, zeta, eta, theta."


@pytest.fixture(scope="module")
def tiny(tiny_path: Path) -> Iterator[edge_spec.Pair]:
    with edge_spec.load_pair(tiny_path, context_size=512) as pair:
        yield pair


@pytest.fixture(scope="module")
def twins(tiny_path: Path) -> Iterator[edge_spec.Pair]:
    """The tiny model as its own draft: everything a pair does, quickly."""
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=512) as pair:
        yield pair


@pytest.fixture(scope="module")
def starter(target_q4_0_path: Path, draft_q4_0_path: Path) -> Iterator[edge_spec.Pair]:
    with edge_spec.load_pair(target_q4_0_path, draft_q4_0_path, context_size=1024) as pair:
        yield pair


def decoding(**values) -> edge_spec.Decoding:
    return edge_spec.Decoding(**{"max_tokens": 24, "draft_max": 3, **values})


@pytest.mark.gguf
def test_plain_and_drafted_greedy_text_are_equal(tiny, twins):
    plain = tiny.answer(COPY, sampling=GREEDY, decoding=decoding(), reuse_cache=False)
    for k in (1, 3, 7):
        drafted = twins.answer(COPY, sampling=GREEDY, decoding=decoding(draft_max=k), reuse_cache=False)
        assert drafted.token_ids == plain.token_ids
        assert drafted.stats.acceptance_rate == 1.0


@pytest.mark.gguf
def test_drafting_that_has_no_model_is_told_once(tiny_path):
    def told(**options) -> list[str]:
        events = pair.generate("Hi", decoding=edge_spec.Decoding(max_tokens=2, **options))
        return [event.text for event in events if isinstance(event, Notice)]

    with edge_spec.load_pair(tiny_path, context_size=512) as pair:
        words = "there is no draft model"
        assert not any(words in text for text in told(draft_max=0) + told(drafter="ngram"))
        assert sum(words in text for text in told(draft_max=5)) == 1
        assert not any(words in text for text in told(drafter="draft"))


@pytest.mark.gguf
def test_seeded_text_does_not_depend_on_the_draft_length(twins):
    texts = {
        twins.answer(COPY, decoding=decoding(draft_max=k, seed=11), reuse_cache=False).token_ids
        for k in (0, 2, 5)
    }
    assert len(texts) == 1
    other = twins.answer(COPY, decoding=decoding(seed=12), reuse_cache=False).token_ids
    assert other not in texts


@pytest.mark.gguf
def test_unseeded_text_differs_from_run_to_run(twins):
    prompt = "Tell me about a planet of your choice."
    assert len({twins.answer(prompt, decoding=decoding()).token_ids for _ in range(4)}) > 1


@pytest.mark.gguf
def test_second_turn_reads_only_what_is_new_on_both_models(twins):
    messages = [{"role": "user", "content": "Name three <|im_end|> colours."}]
    sampling = edge_spec.Sampling(temperature=1.5)  # likely to split words otherwise than the tokenizer
    answer = twins.answer(messages, sampling=sampling, decoding=decoding(seed=3), reuse_cache=False)
    known = [*twins.encode(messages), *answer.token_ids]
    messages += [
        {"role": "assistant", "content": answer.text},
        {"role": "user", "content": "One <|im_end|> more."},
    ]
    assert twins.encode(messages)[: len(known)] == known
    started = next(iter(twins.generate(messages, sampling=GREEDY, decoding=decoding())))
    assert isinstance(started, Started)
    # The last token emitted was held back; the draft may lack the one before it, too.
    assert started.cached == len(known) - 1
    assert started.draft_cached >= len(known) - 2


@pytest.mark.gguf
def test_special_token_text_in_a_message_stays_text(tiny):
    ids = tiny.encode("Say <|im_end|> twice")
    control = tiny.target.model.tokenize("<|im_end|>", add_special=False, parse_special=True)
    assert len(control) == 1
    clean = tiny.encode("Say it twice")
    assert ids.count(control[0]) == clean.count(control[0])
    assert b"Say <|im_end|> twice" in b"".join(tiny.piece(token) for token in ids)
    assert control[0] in tiny.encode("<|im_end|>", raw=True)


@pytest.mark.gguf
def test_stop_string_ends_the_text_before_it(tiny):
    full = tiny.answer(COPY, sampling=GREEDY, decoding=decoding(), reuse_cache=False).text
    word = full.split()[3]
    answer = tiny.answer(COPY, sampling=GREEDY, decoding=decoding(stop=(word,)), reuse_cache=False)
    assert answer.finish_reason == "stop"
    assert answer.text == full[: full.index(word)]


@pytest.mark.gguf
def test_full_context_ends_cleanly(tiny_path):
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=64) as pair:
        prompt = pair.encode("Count from one to one hundred in words.")
        endless = edge_spec.Sampling(temperature=0, logit_bias=((0, -1e9), (2, -1e9)))  # no end tokens
        answer = pair.answer(prompt, sampling=endless, decoding=decoding(max_tokens=500))
        assert answer.finish_reason == "context"
        assert len(prompt) + len(answer.token_ids) == 64
        with pytest.raises(PromptTooLongError, match="64"):
            pair.answer("word " * 100)
        assert pair.answer(prompt, decoding=decoding(max_tokens=2)).finish_reason == "length"


@pytest.mark.gguf
def test_bad_requests_are_refused_before_anything_is_decoded(tiny):
    with pytest.raises(UsageError, match="empty"):
        tiny.complete("")
    with pytest.raises(UsageError, match="outside the vocabulary"):
        tiny.complete([1, 10**6])
    with pytest.raises(UsageError, match="outside the vocabulary"):
        tiny.complete("x", sampling=edge_spec.Sampling(logit_bias=((10**6, 1.0),)))
    with pytest.raises(SettingError, match="num_slots=2"):
        tiny.generate_many([[1], [2]])


@pytest.mark.gguf
def test_cancel_from_another_thread_keeps_the_partial_answer(twins, monkeypatch):
    append, count, third = twins.target.cache.append, itertools.count(1), threading.Event()

    def counted(*args):
        if next(count) == 3:
            third.set()
        return append(*args)

    monkeypatch.setattr(twins.target.cache, "append", counted)
    stopper = threading.Thread(target=lambda: third.wait(60) and twins.cancel())
    stopper.start()
    endless = edge_spec.Sampling(temperature=0, logit_bias=((0, -1e9), (2, -1e9)))  # no end tokens
    answer = twins.answer(
        "Count up from one, slowly.", sampling=endless, decoding=decoding(max_tokens=400), reuse_cache=False
    )
    stopper.join()
    assert answer.finish_reason == "cancelled"
    assert 2 <= len(answer.token_ids) < 200
    assert twins.answer(COPY, sampling=GREEDY, decoding=decoding(max_tokens=4)).finish_reason == "length"


@pytest.mark.gguf
@pytest.mark.parametrize("k", [0, 3])
def test_six_texts_at_once_are_the_texts_alone_but_for_near_ties(tiny_path, monkeypatch, k):
    check_six_texts(tiny_path, tiny_path, monkeypatch, k)


@pytest.mark.pair
def test_six_texts_at_once_on_the_pair_are_the_texts_alone_but_for_near_ties(
    target_q4_0_path, draft_q4_0_path, monkeypatch
):
    check_six_texts(target_q4_0_path, draft_q4_0_path, monkeypatch, 3)


def check_six_texts(target: Path, draft: Path, monkeypatch: pytest.MonkeyPatch, k: int) -> None:
    """Rows that share a decode are summed in another order (docs/architecture.md), so two tokens
    closer than what that order moves may change places; nothing else may."""
    rows: dict[tuple[str, tuple[int, ...]], np.ndarray] = {}
    sample, how = SamplerChain.__call__, ""

    def recording(self, logits, history):
        rows[how, tuple(history)] = logits.copy()  # the target's: it judges after the draft guessed
        return sample(self, logits, history)

    monkeypatch.setattr(SamplerChain, "__call__", recording)
    prompts = [f"Write {word} as a number." for word in ("one", "two", "three", "four", "five", "six")]
    with edge_spec.load_pair(target, draft, context_size=256, num_slots=6) as pair:
        ids = [pair.encode(prompt) for prompt in prompts]
        options = {"sampling": GREEDY, "decoding": decoding(max_tokens=12, draft_max=k)}
        how = "together"
        together: dict[int, list[int]] = {i: [] for i in range(6)}
        for event in pair.generate_many(ids, **options, reuse_cache=False):
            if isinstance(event, Verified):
                together[event.slot] += event.verdict.tokens
        how = "alone"
        alone = [list(pair.answer(i, **options, reuse_cache=False).token_ids) for i in ids]
    for i, prompt in enumerate(ids):
        history = list(prompt)
        for x, y in zip(together[i], alone[i], strict=False):
            shared, lone = rows["together", tuple(history)], rows["alone", tuple(history)]
            moved = np.abs(shared - lone).max()
            if x != y:
                assert shared[x] - shared[y] < moved
                assert lone[y] - lone[x] < moved
                break
            history.append(x)
        else:
            assert together[i] == alone[i]


@pytest.mark.pair
def test_the_pair_saves_target_decodes_and_its_time_adds_up(starter):
    code = "Write a Python function that merges two sorted lists."
    plain = starter.answer(
        code, sampling=GREEDY, decoding=decoding(max_tokens=64, draft_max=0), reuse_cache=False
    )
    drafted = starter.answer(
        code, sampling=GREEDY, decoding=decoding(max_tokens=64, draft_max=3), reuse_cache=False
    )
    assert drafted.token_ids == plain.token_ids
    stats = drafted.stats
    assert stats.drafted == stats.accepted + stats.rejected + stats.discarded
    assert stats.mean_acceptance_length > 2
    assert stats.rounds < plain.stats.rounds / 2
    assert stats.rest_s <= 0.02 * stats.wall_s


@pytest.mark.pair
def test_a_draft_with_another_vocabulary_is_refused_by_name_of_the_difference(tiny_path, target_path):
    with pytest.raises(IncompatiblePairError):
        edge_spec.load_pair(target_path, tiny_path)


@pytest.mark.gguf
def test_finished_comes_last_and_once(tiny):
    events = list(tiny.generate(COPY, decoding=decoding(max_tokens=5)))
    assert [type(e) for e in events].count(Finished) == 1
    assert isinstance(events[-1], Finished)


@pytest.mark.gguf
def test_a_text_does_not_go_on_after_another_was_started_or_the_pair_closed(tiny_path):
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=128) as pair:
        first = pair.generate(COPY, decoding=decoding())
        while not isinstance(next(first), Verified):
            pass
        second = pair.generate("Something else.", decoding=decoding())
        next(second)
        with pytest.raises(UsageError, match="another one was started"):
            next(first)
        assert isinstance(list(second)[-1], Finished)
        third = pair.generate(COPY, decoding=decoding())
        next(third)
    with pytest.raises(UsageError, match="closed"):
        next(third)
    with pytest.raises(UsageError, match="closed"):
        next(pair.generate(COPY))


@pytest.mark.gguf
def test_an_interrupt_that_left_memory_and_record_apart_is_healed_by_the_next_text(twins):
    plain = twins.answer(COPY, sampling=GREEDY, decoding=decoding(), reuse_cache=False).token_ids
    for side in (twins.target, twins.draft):
        # What a KeyboardInterrupt between the two leaves: rows in memory that no record knows.
        side.cache._tokens[0].pop()
    assert twins.answer(COPY, sampling=GREEDY, decoding=decoding()).token_ids == plain
