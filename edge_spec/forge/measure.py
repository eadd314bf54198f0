"""Measure drafts: how long a step takes here, and how often the target would accept its tokens."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_spec.drafters.token_map import TokenMap, Translation
from edge_spec.forge.samples import SAMPLING, Sample
from edge_spec.sampling import SamplerChain, likeliest
from edge_spec.types import Dist, KVCache, Logits, Rows
from edge_spec.verify import overlap

_CONTEXT = 64
"""Tokens in the cache while steps are timed."""

_WANTED = 32
"""Rows of logits asked for at once while a text is read."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How often the target accepts a draft's next token, over all positions of the samples.

    `sampled` is the mean of sum min(p, q), what `rejection` accepts with the usual settings;
    `greedy` how often both have the same likeliest token.
    """

    sampled: float
    greedy: float


@dataclass(frozen=True, slots=True)
class Drafting:
    """A loaded draft: its cache, and how its tokens map to the target's (None: by their ids)."""

    cache: KVCache
    token_map: TokenMap | None
    num_target: int


def acceptance(draft: Drafting, samples: Sequence[Sample]) -> Acceptance:
    """Read each sample with the draft and compare its law with the target's at every token."""
    (found,) = acceptances(draft, [(sample, [None]) for sample in samples])
    return found


def acceptances(
    draft: Drafting, cases: Sequence[tuple[Sample, Sequence[NDArray[np.int64] | None]]]
) -> list[Acceptance]:
    """The same for a draft that could write some tokens only, for several such sets at once.

    Each sample comes with its sets of target ids (None: all of them), which may differ from
    sample to sample; the result has one entry for each place in that list.
    """
    sampler = SamplerChain(SAMPLING)
    tallies = [_Tally() for _ in cases[0][1]]
    masked = np.empty(draft.num_target, np.float32)
    for sample, sets in cases:
        for p, row in zip(sample.dists, _rows(draft, sample), strict=True):
            for tally, ids in zip(tallies, sets, strict=True):
                if ids is not None:
                    masked.fill(-np.inf)
                    masked[ids] = row[ids]
                tally.add(p, sampler(row if ids is None else masked[: len(row)], ()))
    return [tally.result for tally in tallies]


class _Tally:
    """Sums for one acceptance."""

    def __init__(self) -> None:
        self._shared: list[float] = []
        self._same: list[bool] = []

    def add(self, p: Dist, q: Dist) -> None:
        self._shared.append(overlap(p, q))
        self._same.append(likeliest(p) == likeliest(q))

    @property
    def result(self) -> Acceptance:
        return Acceptance(statistics.fmean(self._shared), statistics.fmean(self._same))


def _rows(draft: Drafting, sample: Sample) -> Iterator[Logits]:
    """The draft's logits, by target id, at each token of the answer; each valid until the next."""
    tokens = [*sample.prompt_ids, *sample.token_ids]
    ids: Sequence[int] = tokens
    # wanted[i]: the index of the draft token whose row judges answer token i.
    wanted = [len(sample.prompt_ids) - 1 + i for i in range(len(sample.token_ids))]
    if draft.token_map is not None:
        translation = Translation(draft.token_map)
        ids = translation.follow(tokens)
        wanted = [translation.end(index) - 1 for index in wanted]
    cache = draft.cache
    cache.rollback(0, 0)
    at = done = 0
    row: Logits | None = None
    while done < len(wanted):
        first = max(0, wanted[done])
        if row is not None and first < at:  # after a token that no draft token spells: as before it
            yield row
            done += 1
            continue
        while at < first:
            step = min(cache.batch_size, first - at)
            cache.append([Rows(0, ids[at : at + step], step)])
            at += step
        chunk = [index for index in wanted[done : done + _WANTED] if index < first + _WANTED]
        at = chunk[-1] + 1
        rows = cache.append([Rows(0, ids[first:at], 0)])
        for index in chunk:
            row = rows[index - first]
            row = row[: draft.num_target] if draft.token_map is None else draft.token_map.row(row)
            yield row
        done += len(chunk)


def step_times(caches: Sequence[KVCache], repeats: int) -> list[float]:
    """Seconds of a one-row decode of each model, the median; they take turns, so drift hits all alike."""
    times: list[list[float]] = [[] for _ in caches]
    for cache in caches:
        _fill(cache)
    for repeat in range(repeats):
        order = range(len(caches)) if repeat % 2 == 0 else reversed(range(len(caches)))
        for index in order:
            times[index].append(_time(caches[index], 1))
    return [statistics.median(one) for one in times]


def row_times(cache: KVCache, most: int, repeats: int) -> list[float]:
    """Seconds of one decode of 1 .. `most` rows with their logits, the medians."""
    _fill(cache)
    times: list[list[float]] = [[] for _ in range(most)]
    for _ in range(repeats):
        for num in range(1, most + 1):
            times[num - 1].append(_time(cache, num))
    return [statistics.median(one) for one in times]


def _fill(cache: KVCache) -> None:
    cache.rollback(0, 0)
    cache.append([Rows(0, _tokens(cache, _CONTEXT), _CONTEXT)])
    for num in (1, 2):
        _time(cache, num)


def _tokens(cache: KVCache, num: int) -> list[int]:
    return [(37 * i + 11) % min(cache.num_vocab, 10_000) for i in range(num)]


def _time(cache: KVCache, num: int) -> float:
    busy_s = cache.busy_s
    cache.append([Rows(0, _tokens(cache, num), 0)])
    spent = cache.busy_s - busy_s
    cache.rollback(0, _CONTEXT)
    return spent
