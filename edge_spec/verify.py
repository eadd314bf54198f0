"""The couplings: which drafted tokens are accepted, and what stands in their place.

Both leave the output with exactly the target's law p, whatever was drafted, from whatever q:

- `rejection` accepts with probability min(1, p/q) and draws the replacement from what q left
  of p (Leviathan et al. 2023, arXiv:2211.17192, algorithm 1; Chen et al. 2023,
  arXiv:2302.01318; several candidates in turn: Miao et al. 2023, arXiv:2305.09781);
- `shared` draws the target's token with Gumbel noise that the drafter used too, and accepts a
  drafted token iff it is that token, so that the text does not depend on what was drafted.

One tree walk serves both: a chain is a thin tree, plain decoding an empty one.
"""

from __future__ import annotations

import bisect
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edge_spec.config import CouplingName
from edge_spec.sampling import draw, draw_shared, noise, one_hot
from edge_spec.tree import children
from edge_spec.types import Coupling, Dist, Fate, FinishReason, Origin, Proposal, Verdict


@dataclass(frozen=True, slots=True)
class _Choice:
    """The token that stands at a position, and the drafted node that holds it, if one does."""

    token: int
    node: int | None


_Choose = Callable[[Dist, Sequence[int], int], _Choice]


def _walk(proposal: Proposal, target: Callable[[int], Dist], position: int, choose: _Choose) -> Verdict:
    """Follow the tree from the context for as long as `choose` picks a drafted child.

    `choose(p, siblings, position)` judges the siblings in index order and picks the token at
    `position`. Calls `target` once for each row on the way.
    """
    rows = children(proposal.parents)
    fates = [Fate.DISCARDED] * len(proposal)
    probs: list[float | None] = [None] * len(proposal)
    path: list[int] = []
    tokens: list[int] = []
    node: int | None = -1
    while node is not None:
        p = target(node)
        siblings = rows[node + 1]
        choice = choose(p, siblings, position + len(path))
        tokens.append(choice.token)
        for sibling in siblings:
            probs[sibling] = p.prob(proposal.tokens[sibling])
            if sibling == choice.node:
                fates[sibling] = Fate.ACCEPTED
                path.append(sibling)
                break
            fates[sibling] = Fate.REJECTED
        node = choice.node
    origin: Origin = "residual" if siblings else "bonus" if path else "plain"
    return Verdict(tuple(tokens), tuple(path), tuple(fates), origin, tuple(probs))


def _holding(proposal: Proposal, siblings: Sequence[int], token: int) -> _Choice:
    """`token`, in the first of the siblings that holds it, if one does."""
    return _Choice(token, next((s for s in siblings if proposal.tokens[s] == token), None))


class RejectionCoupling:
    """Accept x iff u q(x) < p(x), else go on with the residual normalise(max(p - q, 0)).

    Implements `types.Coupling`. A deterministic node has a one-hot q, so it is accepted with
    probability p(x), and its residual is p without x. u lies in [0, 1), and the inequality is
    strict, so a token with p(x) = 0 is never accepted and one with p(x) >= q(x) always is.
    """

    name = "rejection"

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def draw(self, dist: Dist, position: int) -> int:
        """Draw a token; the position does not matter here."""
        return draw(dist, self._rng)

    def agreement(self, p: Dist, q: Dist, position: int) -> float:
        """sum min(p, q): whatever is drawn. Leviathan et al. 2023, section 3.2."""
        return overlap(p, q)

    def acceptance(self, p: float, q: float, accepted: bool) -> float:
        """Its mean over what q may draw is sum min(p, q), of which acceptance itself is a noisier sample."""
        return min(1.0, p / q)

    def verify(self, proposal: Proposal, target: Callable[[int], Dist], position: int) -> Verdict:
        """Judge `proposal`; see `types.Coupling`."""

        def choose(p: Dist, siblings: Sequence[int], at: int) -> _Choice:
            if p.only is not None:  # p(x) is 1 or 0, and no residual changes that
                return _holding(proposal, siblings, p.only)
            for sibling in siblings:
                token, q = proposal.tokens[sibling], proposal.dists[sibling]
                mass = 1.0 if q is None else q.prob(token)
                if self._rng.random() * mass < p.prob(token):
                    return _Choice(token, sibling)
                rest = without(p, token) if q is None else residual(p, q)
                if rest is not None:  # else exact numbers would have accepted, and p stands
                    p = rest
            return _Choice(draw(p, self._rng), None)

        return _walk(proposal, target, position, choose)


class SharedCoupling:
    """The token at a position is argmax(log p + G); accept a drafted one iff it is that token.

    Implements `types.Coupling`. G is Gumbel noise hashed from (seed, key, position, token id),
    so the text is a function of seed, key and the target alone. `key` tells slots apart.
    """

    name = "shared"

    def __init__(self, seed: int, key: int) -> None:
        self._seed = seed
        self._key = key

    def draw(self, dist: Dist, position: int) -> int:
        """Draw the token at `position` with the noise that will judge it."""
        if dist.only is not None:
            return dist.only
        return draw_shared(dist, noise(self._seed, self._key, position, dist.ids))

    def agreement(self, p: Dist, q: Dist, position: int) -> float:
        """1 or 0: the noise decides."""
        return float(self.draw(p, position) == self.draw(q, position))

    def acceptance(self, p: float, q: float, accepted: bool) -> float:
        """1 or 0. How often it is 1 has no short formula; less often than with `rejection`."""
        return float(accepted)

    def verify(self, proposal: Proposal, target: Callable[[int], Dist], position: int) -> Verdict:
        """Judge `proposal`; see `types.Coupling`."""

        def choose(p: Dist, siblings: Sequence[int], at: int) -> _Choice:
            return _holding(proposal, siblings, self.draw(p, at))

        return _walk(proposal, target, position, choose)


def _rejection(seed: int | None, key: int) -> Coupling:
    return RejectionCoupling(np.random.default_rng(None if seed is None else [seed, key]))


def _shared(seed: int | None, key: int) -> Coupling:
    return SharedCoupling(secrets.randbits(64) if seed is None else seed, key)


COUPLINGS: dict[CouplingName, Callable[[int | None, int], Coupling]] = {
    "rejection": _rejection,
    "shared": _shared,
}
"""Makes a coupling from a seed (None: fresh randomness) and a slot's key, by name."""


def make_coupling(name: CouplingName, seed: int | None, key: int) -> Coupling:
    """The coupling called `name` for the slot `key`; a seed of None is fresh randomness."""
    return COUPLINGS[name](seed, key)


def overlap(p: Dist, q: Dist) -> float:
    """sum over tokens of min(p, q), aligned by token id: 1 less their total variation."""
    if p.ids is q.ids:
        return float(np.minimum(p.probs, q.probs).sum())
    small, large = (p, q) if len(p.ids) <= len(q.ids) else (q, p)
    places = large.ids.searchsorted(small.ids)
    places[places == len(large.ids)] = 0
    same = large.ids[places] == small.ids
    return float(np.minimum(small.probs, large.probs[places])[same].sum())


def residual(p: Dist, q: Dist) -> Dist | None:
    """normalise(max(p - q, 0)), aligned by token id; None when rounding leaves no mass.

    The support lies within p's, so only p's ids are kept. Leviathan et al. 2023, section 2.3.
    """
    probs = p.probs.copy()
    if _is_dense(p) and _is_dense(q):
        num = min(len(probs), len(q.probs))
        probs[:num] -= q.probs[:num]
    elif len(q.ids) < len(p.ids):
        index = p.ids.searchsorted(q.ids)
        np.minimum(index, len(p.ids) - 1, out=index)
        found = p.ids[index] == q.ids
        probs[index[found]] -= q.probs[found]
    else:
        index = q.ids.searchsorted(p.ids)
        np.minimum(index, len(q.ids) - 1, out=index)
        probs -= np.where(q.ids[index] == p.ids, q.probs[index], 0.0)
    np.maximum(probs, 0.0, out=probs)
    return _normalised(p.ids, probs)


def without(p: Dist, token: int) -> Dist | None:
    """p with `token` removed and the rest normalised; None when nothing is left.

    The residual of a deterministic candidate, and the q of the next sibling when siblings are
    drawn without replacement.
    """
    index = int(p.ids.searchsorted(token))
    if index == len(p.ids) or p.ids[index] != token:
        return p
    probs = p.probs.copy()
    probs[index] = 0.0
    return _normalised(p.ids, probs)


def _is_dense(dist: Dist) -> bool:
    return int(dist.ids[-1]) == len(dist.ids) - 1


def _normalised(ids: NDArray[np.int64], probs: NDArray[np.float64]) -> Dist | None:
    """Takes `probs` over. Zeros go when the ids are sparse; dense ids are shared, so they stay."""
    total = probs.sum()
    if total <= 0.0:
        return None
    probs /= total
    if int(ids[-1]) == len(ids) - 1:
        return Dist(ids, probs)
    kept = probs > 0.0
    ids = ids[kept]
    return Dist(ids, probs[kept]) if len(ids) > 1 else one_hot(int(ids[0]))


def cut(verdict: Verdict, num_tokens: int, reason: FinishReason) -> Verdict:
    """The verdict when the text ends after the first `num_tokens` of its tokens, for `reason`.

    A node keeps its fate iff it was judged for one of the kept tokens; deeper ones become
    DISCARDED and lose their p. Raises ValueError unless 1 <= num_tokens <= len(tokens).
    """
    if not 1 <= num_tokens <= len(verdict.tokens):
        raise ValueError(f"cannot keep {num_tokens} of {len(verdict.tokens)} tokens")
    fates, probs = list(verdict.fates), list(verdict.target_probs)
    for node in range(len(fates)):
        # A judged node is a child of the path's last node before it, so this is its level.
        if bisect.bisect_left(verdict.path, node) >= num_tokens:
            fates[node], probs[node] = Fate.DISCARDED, None
    return replace(
        verdict,
        tokens=verdict.tokens[:num_tokens],
        path=verdict.path[:num_tokens],
        fates=tuple(fates),
        origin=verdict.origin if num_tokens > verdict.num_accepted else "accepted",
        target_probs=tuple(probs),
        finish=reason,
    )
