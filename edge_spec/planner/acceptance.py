"""How likely a drafted token is to be accepted: learned from every one that was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MEMORY = 0.98
"""What one more judgement leaves of the earlier ones' weight: the last 50 count."""

_PRIOR_WEIGHT = 3.0
"""How many judgements the prior counts as."""


class AcceptanceRates:
    """Acceptance by class of token, each a rate that follows the text.

    The classes are numbers from 0, ordered so that neighbours are alike: positions in a draft,
    lengths of a match, steps of confidence. `priors` has each class's rate before anything was
    judged.
    """

    def __init__(self, priors: Sequence[float]) -> None:
        self._priors = tuple(priors)
        self._accepted = [0.0] * len(priors)
        self._judged = [0.0] * len(priors)

    def __call__(self, kind: int) -> float:
        """The rate of a class, between 0 and 1; beyond the last class, the last one's."""
        kind = min(kind, len(self._priors) - 1)
        prior = self._priors[kind] * _PRIOR_WEIGHT
        return (self._accepted[kind] + prior) / (self._judged[kind] + _PRIOR_WEIGHT)

    def observe(self, kind: int, accepted: bool) -> None:
        """A token of the class was judged."""
        kind = min(kind, len(self._priors) - 1)
        self._accepted[kind] = _MEMORY * self._accepted[kind] + accepted
        self._judged[kind] = _MEMORY * self._judged[kind] + 1

    def state(self) -> dict[str, list[float]]:
        """What was learned, to be kept."""
        return {"accepted": list(self._accepted), "judged": list(self._judged)}

    def restore(self, state: Mapping[str, Sequence[float]]) -> None:
        """Take up what was learned earlier; counts for half, since texts differ."""
        accepted, judged = state["accepted"], state["judged"]
        if len(accepted) == len(judged) == len(self._priors):
            for kind, (a, j) in enumerate(zip(accepted, judged, strict=True)):
                if 0 <= a <= j:
                    self._accepted[kind], self._judged[kind] = a / 2, j / 2
