"""A cancel that strikes inside one decode, of the draft or of the target, in the middle of its graph."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Iterator
from pathlib import Path

import llama_cpp
import pytest

import edge_spec
from edge_spec.events import Drafted, Event, Finished, Prefilled, Started, Verified
from edge_spec.llama.context import Context

pytestmark = pytest.mark.gguf

SEA = {"role": "user", "content": "Tell me about the sea."}
LONG = {"role": "user", "content": "The sea is wide and the sky is high. " * 100}
GREEDY = edge_spec.Sampling(temperature=0)
DECODING = edge_spec.Decoding(max_tokens=30, draft_max=4)
NUM_POLLS = 200
"""llama.cpp asks after each node of the graph; here it is told to stop when so many are computed."""


@pytest.fixture(scope="module")
def pair(tiny_path: Path) -> Iterator[edge_spec.Pair]:
    with edge_spec.load_pair(tiny_path, tiny_path, context_size=1536) as pair:
        yield pair


class Strike:
    """Cancels inside decode number `number` of `context`, counted from `arm` on."""

    def __init__(self, context: Context, number: int) -> None:
        self._context, self._number = context, number
        self._decode = context.decode
        self._polls = 0
        self._callback = llama_cpp.ggml_abort_callback(self._poll)
        self.struck = False

    def arm(self) -> None:
        self._context.decode = self._counted  # type: ignore[method-assign]

    def disarm(self) -> None:
        context = self._context
        context.decode = self._decode  # type: ignore[method-assign]
        llama_cpp.llama_set_abort_callback(
            context.pointer, context._abort, ctypes.c_void_p(context.cancel.address)
        )

    def _counted(self, num_rows: int, num_wanted: int):
        self._number -= 1
        if self._number == 0:
            llama_cpp.llama_set_abort_callback(self._context.pointer, self._callback, None)
        return self._decode(num_rows, num_wanted)

    def _poll(self, _data: object) -> bool:
        self._polls += 1
        if self._polls < NUM_POLLS:
            return False
        self.struck = True
        self._context.cancel.set()
        return True


def generate(pair: edge_spec.Pair, *messages) -> Generator[Event]:
    return pair.generate(list(messages), sampling=GREEDY, decoding=DECODING)


def emitted(events: list[Event]) -> list[int]:
    return [token for event in events if isinstance(event, Verified) for token in event.verdict.tokens]


def started(events: Iterator[Event] | list[Event]) -> Started:
    return next(event for event in events if isinstance(event, Started))


def cancelled(pair: edge_spec.Pair, strike: Strike, message, *, after_rounds: int) -> list[Event]:
    """The events of an answer that is struck once it has so many verdicts."""
    assert pair.draft is not None
    pair.target.cache.clear()
    pair.draft.cache.clear()
    events: list[Event] = []
    num_rounds = 0
    try:
        if after_rounds == 0:
            strike.arm()
        for event in generate(pair, message):
            events.append(event)
            num_rounds += isinstance(event, Verified)
            if num_rounds == after_rounds and isinstance(event, Verified):
                strike.arm()
    finally:
        strike.disarm()
    assert strike.struck
    assert isinstance(events[-1], Finished) and events[-1].reason == "cancelled"
    return events


@pytest.mark.parametrize(
    ("side", "number", "last", "draft_lag"),
    [
        # With all accepted, the draft lacks its own last guess and the bonus token.
        pytest.param("draft", 1, Verified, 2, id="drafting-the-first"),
        pytest.param("draft", 3, Verified, 0, id="drafting-the-third"),
        pytest.param("target", 1, Drafted, 0, id="verifying"),
    ],
)
def test_the_partial_answer_is_kept_and_the_next_turn_reads_only_what_is_new(
    pair, side, number, last, draft_lag
):
    whole = emitted(list(generate(pair, SEA)))
    strike = Strike(getattr(pair, side).cache.context, number)
    events = cancelled(pair, strike, SEA, after_rounds=3)
    assert type(events[-2]) is last  # it was in this phase that the cancel struck
    kept = emitted(events)
    assert 0 < len(kept) < len(whole) and kept == whole[: len(kept)]
    said = (*started(events).prompt_ids, *kept)
    answer = {"role": "assistant", "content": b"".join(map(pair.piece, kept)).decode()}
    following = list(generate(pair, SEA, answer, {"role": "user", "content": "Go on."}))
    start = started(following)
    assert start.prompt_ids[: len(said)] == said
    assert start.cached == len(said) - 1
    assert start.draft_cached == len(said) - draft_lag
    fresh = pair.generate(start.prompt_ids, sampling=GREEDY, decoding=DECODING, reuse_cache=False)
    assert emitted(following) == emitted(list(fresh))


@pytest.mark.parametrize(("side", "after_rounds"), [("target", 0), ("draft", 1)])
def test_what_either_model_has_read_of_a_prompt_is_kept(pair, side, after_rounds):
    strike = Strike(getattr(pair, side).cache.context, 2)  # a batch is read by then, the next one is not
    events = cancelled(pair, strike, LONG, after_rounds=after_rounds)
    read = [event.done for event in events if isinstance(event, Prefilled) and event.model == side]
    total = len(started(events).prompt_ids)
    assert 0 < read[-1] < total
    assert bool(emitted(events)) is (side == "draft")
    again = generate(pair, LONG)
    start = started(again)
    again.close()
    assert (start.cached, start.draft_cached) == (
        (read[-1], 0) if side == "target" else (total - 1, read[-1])
    )
