"""Logits to a distribution, and a distribution to a token.

`SamplerChain` follows llama.cpp's samplers: logit bias, penalties, top-k, top-p, min-p,
temperature, in that order. It stays sparse wherever a step truncates, because a vocabulary
has 150,000 tokens and a nucleus forty.

Randomness enters in two ways only: a `numpy.random.Generator` given to `draw`, and Gumbel
noise hashed from (seed, key, position, token id) by `noise`, which keeps no state at all.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edge_spec.config import Sampling
from edge_spec.errors import EngineError, NoMassError, SettingError
from edge_spec.types import Dist, Logits

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

# float32 logits differ by at most 6.8e38, so that their differences divided by this stay
# finite; any temperature below it gives the same probabilities.
_LEAST_TEMPERATURE = 1e-260

# Columns of the block maxima: measured fastest for rows of 49,152 and of 151,936.
_NUM_BLOCKS = 4096

# The tokens with at least this share of the mass are few, and nearly always hold the nucleus.
_FIRST_SHARE = 1.0 / 4096

_CERTAIN = np.ones(1)
_CERTAIN.setflags(write=False)


def _first_ids(token: int) -> Ids:
    """The ids 0 .. token, a slice of one shared table.

    After a decode the processor's caches hold the model's weights, and any numpy function used
    for the first time then costs 50 us; slicing the logits has already paid for slicing.
    """
    size = 1 << max(18, token.bit_length())
    return all_ids(size)[: token + 1]


@functools.cache
def all_ids(num_vocab: int) -> Ids:
    """The ids 0 .. num_vocab - 1, read-only and shared by all dense distributions."""
    ids = np.arange(num_vocab, dtype=np.int64)
    ids.setflags(write=False)
    return ids


def one_hot(token: int) -> Dist:
    """The distribution that is certain of `token`."""
    return Dist(_first_ids(token)[token:], _CERTAIN, token)


class SamplerChain:
    """Turns one row of logits into the distribution that the settings ask for.

    Implements `types.Sampler`; the steps have the meaning of llama.cpp's `llama-sampler.cpp`:

    - bias: added to the logits of the named tokens; a token named twice gets the sum;
    - penalties: for tokens among the last `penalty_last_n` of the history, a positive logit is
      divided by `repeat_penalty` and any other multiplied by it, then
      count * `frequency_penalty` + `presence_penalty` is taken off;
    - top-k: the k largest logits;
    - top-p: the shortest prefix, by falling probability, whose mass reaches p;
    - min-p: the tokens with at least min_p times the largest probability;
    - temperature: divides the logits that are left; 0 is argmax.

    Ties go to the lowest ids. A logit of -inf never gets mass, so rows may be padded with it.
    """

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        bias: dict[int, float] = {}
        for token, value in sampling.logit_bias:
            bias[token] = bias.get(token, 0.0) + value
        self._bias_ids = np.array(list(bias), np.int64)
        self._bias = np.array(list(bias.values()), np.float32)
        self._penalises = sampling.penalty_last_n != 0 and (
            sampling.repeat_penalty != 1.0
            or sampling.frequency_penalty != 0.0
            or sampling.presence_penalty != 0.0
        )
        self._truncates = sampling.top_k > 0 or sampling.top_p < 1.0 or sampling.min_p > 0.0

    def __call__(self, logits: Logits, history: Sequence[int]) -> Dist:
        """The distribution of the token that follows `history`.

        `logits` has shape (n_vocab,) and is not changed. Raises EngineError when the logits
        hold NaN or +inf, or nothing above -inf; SettingError when a biased token is not in the
        vocabulary.
        """
        adjusts = self._penalises or len(self._bias_ids) > 0
        row = self._adjusted(logits, history) if adjusts else logits
        if self.sampling.temperature == 0.0:
            token = int(row.argmax())
            _check_maximum(row[token])
            return one_hot(token)
        top = row.max(initial=-np.inf)
        _check_maximum(top)
        if not self._truncates:
            return Dist(all_ids(len(row)), _softmax(row, top, self.sampling.temperature))
        ids, values = self._truncated(row, top)
        probs = _softmax(values, top, self.sampling.temperature)
        if probs.min() == 0.0:  # a low temperature can underflow what the other steps kept
            ids, probs = ids[probs > 0.0], probs[probs > 0.0]
        return Dist(ids, probs) if len(ids) > 1 else one_hot(int(ids[0]))

    def _adjusted(self, logits: Logits, history: Sequence[int]) -> Logits:
        """A copy of the row with the bias and the penalties in it."""
        row = logits.copy()
        if len(self._bias_ids):
            if int(self._bias_ids.max()) >= len(row):
                raise SettingError(
                    f"logit bias names token {int(self._bias_ids.max())}, "
                    f"but the vocabulary's last token is {len(row) - 1}."
                )
            row[self._bias_ids] += self._bias
        if self._penalises:
            self._penalise(row, history)
        return row

    def _penalise(self, row: Logits, history: Sequence[int]) -> None:
        sampling = self.sampling
        last_n = sampling.penalty_last_n
        window = history if last_n < 0 or last_n >= len(history) else history[-last_n:]
        counts = Counter(window)
        ids = np.fromiter(counts, np.int64, len(counts))
        times = np.fromiter(counts.values(), np.float32, len(counts))
        # The two vocabularies of a pair may differ by a few tokens that this row has no logit of.
        known = ids < len(row)
        ids, times = ids[known], times[known]
        values = row[ids]
        # A penalty near 0 can overflow to inf, which the check of the maximum then reports.
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.where(
                values > 0.0, values / sampling.repeat_penalty, values * sampling.repeat_penalty
            )
            row[ids] = scaled - (times * sampling.frequency_penalty + sampling.presence_penalty)

    def _truncated(self, row: Logits, top: np.float32) -> tuple[Ids, Logits]:
        """The ids that survive top-k, top-p and min-p, ascending, and their logits.

        Each of the three keeps a prefix of the same order, so min-p may go before top-p as
        long as top-p's mass is that of everything which top-k kept.
        """
        sampling = self.sampling
        ids: Ids | None = None
        values = row
        if sampling.top_k > 0:
            ids = top_k(row, sampling.top_k)
            values = row[ids]
        weights: NDArray[np.float32] | None = None
        mass = 0.0
        if sampling.top_p < 1.0:
            weights = np.exp(values - top)
            # In float64, because the tail that p leaves out can be lighter than float32 rounding.
            mass = float(weights.sum(dtype=np.float64))
        kept: Ids | None = None
        if sampling.min_p > 0.0:
            kept = np.flatnonzero(values >= top + np.float32(math.log(sampling.min_p)))
        elif weights is not None and ids is None:
            kept = _nucleus_candidates(weights, mass, sampling.top_p)
        if kept is not None:
            ids = kept if ids is None else ids[kept]
            values = values[kept]
            weights = None if weights is None else weights[kept]
        assert ids is not None, "called only when a step truncates"
        if weights is not None:
            kept = _nucleus(weights, sampling.top_p * mass)
            ids, values = ids[kept], values[kept]
        return ids, values


def _check_maximum(top: np.float32) -> None:
    if not math.isfinite(top):
        what = "hold NaN" if math.isnan(top) else "hold +inf" if top > 0 else "give no token any mass"
        kind = NoMassError if top == -math.inf else EngineError
        raise kind(f"The logits {what}; the model file, the biases or the backend is at fault.")


def _softmax(values: Logits, top: np.float32, temperature: float) -> Floats:
    """exp((values - top) / temperature), normalised, in float64."""
    probs = values.astype(np.float64)
    probs -= top
    probs /= max(temperature, _LEAST_TEMPERATURE)
    np.exp(probs, out=probs)
    probs /= probs.sum()
    return probs


def likeliest(dist: Dist) -> int:
    """The token with the most mass, the lowest id of equals."""
    if dist.only is not None:
        return dist.only
    return int(dist.ids[dist.probs.argmax()])


def top_gap(row: Logits) -> float:
    """The largest logit less the second largest; infinite when there is no second."""
    values = np.sort(row[top_k(row, 2)])
    return float(values[-1] - values[-2]) if len(values) > 1 else math.inf


def top_k(row: Logits, k: int) -> Ids:
    """The ids of the k largest logits, ascending; fewer when fewer are above -inf.

    The row is dealt over columns, card by card. The k largest column maxima are k logits of the
    row, so the least of them is a lower bound of the k-th largest logit, and whatever reaches
    it lies in the few columns whose maximum does. That reads the row once, where a partition
    of it costs five times as much.
    """
    num = len(row)
    height = num // _NUM_BLOCKS
    if k >= num:
        return np.flatnonzero(row > -np.inf)
    if height < 2 or k > _NUM_BLOCKS // 4:
        found = _reaching(row, np.partition(row, num - k)[num - k])
    else:
        body = row[: height * _NUM_BLOCKS].reshape(height, _NUM_BLOCKS)
        rest = row[height * _NUM_BLOCKS :]
        maxima = body.max(axis=0)
        np.maximum(maxima[: len(rest)], rest, out=maxima[: len(rest)])
        bound = np.partition(maxima, _NUM_BLOCKS - k)[_NUM_BLOCKS - k]
        columns = np.flatnonzero(maxima >= bound)
        found = _reaching(body.take(columns, axis=1).ravel(), bound)
        line, column = np.divmod(found, len(columns))
        found = np.concatenate(
            (line * _NUM_BLOCKS + columns[column], height * _NUM_BLOCKS + _reaching(rest, bound))
        )
    if len(found) > k:
        values = row[found]
        found = found[_largest(values, np.partition(values, len(found) - k)[len(found) - k], k)]
    return found


def _reaching(values: Logits, bound: np.float32) -> Ids:
    """Where `values` reach `bound`, never counting -inf."""
    return np.flatnonzero(values >= bound if bound > -np.inf else values > -np.inf)


def _nucleus_candidates(weights: NDArray[np.float32], mass: float, p: float) -> Ids:
    """A small superset of the shortest prefix whose weight reaches p * mass, ascending.

    At most 4096 tokens have a 4096th of the mass. If those do not reach p, take every token
    with (1 - p) / n of it: the others together weigh less than 1 - p.
    """
    found = np.flatnonzero(weights >= mass * _FIRST_SHARE)
    if weights[found].sum(dtype=np.float64) < p * mass:
        found = np.flatnonzero(weights >= mass * (1.0 - p) / len(weights))
    return found


def _nucleus(weights: NDArray[np.float32], goal: float) -> Ids:
    """Where the shortest prefix by falling weight lies that reaches `goal`, ascending."""
    falling = np.sort(weights)[::-1]
    num = int(falling.cumsum(dtype=np.float64).searchsorted(goal)) + 1
    # Rounding can leave the goal just out of reach; then everything is kept.
    num = min(num, len(weights))
    return _largest(weights, falling[num - 1], num)


def _largest(values: NDArray[np.float32], least: np.float32, num: int) -> Ids:
    """Where the `num` largest values lie, ascending, given the least of them; first ones on ties.

    Sorting values and comparing takes a tenth of what sorting indices does.
    """
    chosen = values > least
    ties = np.flatnonzero(values == least)
    chosen[ties[: num - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def draw(dist: Dist, rng: np.random.Generator) -> int:
    """Draw a token by inverse CDF with one uniform number in [0, 1).

    The number is scaled by the probabilities' own sum, so rounding in it costs nothing, and a
    token of probability zero cannot come out: the first cumulative sum *above* the scaled
    number is always one that its own token raised. A certain token takes no number.
    """
    if dist.only is not None:
        return dist.only
    cumulative = dist.probs.cumsum()
    index = cumulative.searchsorted(rng.random() * cumulative[-1], side="right")
    return int(dist.ids[index])


_WORD = 2**64 - 1
# The golden ratio's stride and the two multipliers of splitmix64 (Steele, Lea and Flood 2014,
# "Fast splittable pseudorandom number generators").
_STRIDE, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_STRIDE_U, _MIX_1_U, _MIX_2_U = np.uint64(_STRIDE), np.uint64(_MIX_1), np.uint64(_MIX_2)
_SHIFT_30, _SHIFT_27, _SHIFT_31, _SHIFT_11 = (np.uint64(shift) for shift in (30, 27, 31, 11))
_LEAST = np.uint64(1)


def _scramble(word: int) -> int:
    word = (word + _STRIDE) & _WORD
    word = ((word ^ (word >> 30)) * _MIX_1) & _WORD
    word = ((word ^ (word >> 27)) * _MIX_2) & _WORD
    return word ^ (word >> 31)


def uniforms(seed: int, key: int, position: int, ids: Ids) -> Floats:
    """Uniform numbers in (0, 1), one an id, hashed from (seed, key, position, id).

    Multiples of 2^-53 with both ends left out. A number depends on its own four words only,
    not on which other ids are asked for. `ids` is int64 of shape (n,); so is the result's
    shape. The words before the id are folded into two 64-bit ones, of which the second enters
    between the multiplications: streams of two positions then share no numbers even where
    their counters overlap.
    """
    first = _scramble(_scramble(_scramble(seed & _WORD) ^ (key & _WORD)) ^ (position & _WORD))
    second = _scramble(first)
    words = ids.view(np.uint64) * _STRIDE_U
    words += np.uint64(first)
    words ^= words >> _SHIFT_30
    words *= _MIX_1_U
    words ^= words >> _SHIFT_27
    words += np.uint64(second)
    words *= _MIX_2_U
    words ^= words >> _SHIFT_31
    words >>= _SHIFT_11
    np.maximum(words, _LEAST, out=words)
    return words.astype(np.float64) * 2.0**-53


def noise(seed: int, key: int, position: int, ids: Ids) -> Floats:
    """Standard Gumbel noise -log(-log u), one an id, with u from `uniforms`.

    argmax(log p + noise) is an exact draw from p (Gumbel 1954; Maddison, Tarlow and Minka 2014,
    arXiv:1411.0030), and two distributions that use the same noise tend to draw the same token.
    """
    gumbels = uniforms(seed, key, position, ids)
    np.log(gumbels, out=gumbels)
    np.negative(gumbels, out=gumbels)
    np.log(gumbels, out=gumbels)
    return np.negative(gumbels, out=gumbels)


def draw_shared(dist: Dist, gumbels: Floats) -> int:
    """The token with the largest log p + G, the lowest id on ties.

    `gumbels` is aligned with `dist.ids`. A token of probability zero cannot come out.
    """
    if dist.only is not None:
        return dist.only
    with np.errstate(divide="ignore"):  # log 0 is -inf, which never wins
        scores = np.log(dist.probs)
    scores += gumbels
    return int(dist.ids[scores.argmax()])
