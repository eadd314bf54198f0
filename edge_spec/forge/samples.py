"""Sample text: answers that the target itself writes to a set of prompts, with its own law at each token."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_spec.api import LoadedModel
from edge_spec.config import Sampling
from edge_spec.drafters import NoDrafter
from edge_spec.engine import Engine
from edge_spec.errors import Cancelled, SettingError
from edge_spec.events import Finished
from edge_spec.planner import FixedPlanner
from edge_spec.sampling import SamplerChain
from edge_spec.target import ModelTarget
from edge_spec.types import Dist, FinishReason, Logits, Message, Slot, Timers
from edge_spec.verify import make_coupling

SEED = 1
SAMPLING = Sampling()
"""The usual settings: what is accepted with them is what counts."""

WIDE = 2.0
"""The temperature at which tokens are counted that were likely: it lets rare ones be seen."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer: the prompt's ids, the answer's, and the target's distribution at each of those.

    `mass[t]` is what the target's logits give token t over all positions, untruncated and at
    `WIDE`, shape (n_vocab,): which tokens were likely, though none of them was written.
    """

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    dists: tuple[Dist, ...]
    mass: NDArray[np.float32]


def built_in_prompts() -> list[list[Message]]:
    """The prompts that come with edge-spec."""
    text = resources.files("edge_spec.forge").joinpath("prompts.jsonl").read_text("utf-8")
    return _parse(text, "the built-in prompts")


def read_prompts(path: Path) -> list[list[Message]]:
    """Prompts of a JSONL file: each line an object with a "prompt" or with "messages".

    Raises SettingError with the line.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingError(f"The prompts in {path} cannot be read: {reason}.") from None
    prompts = _parse(text, str(path))
    if not prompts:
        raise SettingError(f"{path} has no prompts: write one JSON object a line.")
    return prompts


def _parse(text: str, where: str) -> list[list[Message]]:
    prompts: list[list[Message]] = []
    for number, line in enumerate(text.split("\n"), 1):  # splitlines would cut texts at U+2028
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        messages = entry.get("messages") if isinstance(entry, dict) else None
        if isinstance(entry, dict) and isinstance(entry.get("prompt"), str):
            messages = [{"role": "user", "content": entry["prompt"]}]
        if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
            raise SettingError(f'Line {number} of {where} has neither a "prompt" nor "messages".')
        prompts.append(messages)
    return prompts


def _is_message(item: object) -> bool:
    return isinstance(item, dict) and all(isinstance(item.get(key), str) for key in ("role", "content"))


class _Recorder:
    """A sampler that keeps the distributions it gave, and sums up what else was likely."""

    def __init__(self) -> None:
        self._sampler = SamplerChain(SAMPLING)
        self.dists: list[Dist] = []
        self.mass: NDArray[np.float32] = np.zeros(0, np.float32)

    def __call__(self, logits: Logits, history: Sequence[int]) -> Dist:
        dist = self._sampler(logits, history)
        self.dists.append(dist)
        weights = np.exp((logits - logits.max()) / np.float32(WIDE))
        weights /= weights.sum()
        self.mass = weights if not len(self.mass) else self.mass + weights
        return dist


def generate_samples(
    target: LoadedModel,
    prompts: Sequence[Sequence[Message]],
    max_tokens: int,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[Sample]:
    """Answers of at most `max_tokens` tokens, several at once; the same for the same target.

    `progress(done, all)` counts answers. Prompts that leave no room in the context are left out.
    Raises Cancelled.
    """
    room = target.settings.context_size - max_tokens
    encoded = [target.model.encode_chat(prompt) for prompt in prompts]
    fitting = [(key, ids) for key, ids in enumerate(encoded) if 0 < len(ids) <= room]
    if not fitting:
        raise SettingError(f"Every prompt is longer than {room} tokens: give shorter ones.")
    samples: list[Sample] = []
    size = target.settings.num_slots
    for start in range(0, len(fitting), size):
        for sample in _answer(target, fitting[start : start + size], max_tokens):
            samples.append(sample)
            progress(len(samples), len(fitting))
    return [sample for sample in samples if sample.token_ids]


def _answer(
    target: LoadedModel, prompts: Sequence[tuple[int, list[int]]], max_tokens: int
) -> Iterator[Sample]:
    """The answers to as many prompts as the target has slots, as each ends."""
    is_eog = target.model.is_eog

    def cut(tokens: Sequence[int]) -> tuple[int, FinishReason] | None:
        return next(((count, "eog") for count, token in enumerate(tokens, 1) if is_eog(token)), None)

    recorders = [_Recorder() for _ in prompts]
    slots = [
        Slot(
            seq, list(ids), len(ids), max_tokens, make_coupling("shared", SEED, key), recorder, recorder, cut
        )
        for seq, ((key, ids), recorder) in enumerate(zip(prompts, recorders, strict=True))
    ]
    timers = Timers()
    engine = Engine(ModelTarget(target.cache, timers), NoDrafter(), FixedPlanner(0), timers)
    for event in engine.generate(slots):
        if isinstance(event, Finished):
            if event.reason == "cancelled":
                raise Cancelled
            slot = slots[event.slot]
            emitted = tuple(slot.tokens[slot.num_prompt :])
            recorder = recorders[event.slot]
            prompt = tuple(slot.tokens[: slot.num_prompt])
            yield Sample(prompt, emitted, tuple(recorder.dists), recorder.mass)


def shortest(samples: Sequence[Sample], num: int, num_tokens: int) -> list[Sample]:
    """At most `num` samples, the beginnings of their answers, from the half with the shorter prompts.

    They are spread over that half, so that they are of several kinds.
    """
    by_prompt = sorted(samples, key=lambda sample: len(sample.prompt_ids))
    half = by_prompt[: max(num, len(by_prompt) // 2)]
    picked = half[:: max(1, len(half) // num)][:num]
    return [
        replace(sample, token_ids=sample.token_ids[:num_tokens], dists=sample.dists[:num_tokens])
        for sample in picked
    ]
