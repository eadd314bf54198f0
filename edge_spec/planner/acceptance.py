"""How likely a drafted token is to be accepted: learned from every one that was judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_MEMORY = 0.998
"""What one more judgement leaves of the weight of earlier ones: the last 500 of a class count."""

_PRIOR_WEIGHT = 8.0
"""How many judgements the prior counts as."""


_TEXT_RATE = 0.1
"""How far one judgement moves what is thought of the present text, in log odds."""

_TEXT_MEMORY = 0.99
_LEAST = 0.002


class AcceptanceRates:
    """Acceptance by class of token: what all texts taught, moved by the present one.

    The classes are numbers from 0: positions in a draft, lengths of a match, steps of confidence.
    `priors` has each class's rate before anything was judged. Each class's average over texts is
    kept; a text is easier or harder than the average in all classes alike, so it has one number,
    added to every class's log odds and learned by gradient (logistic regression with one free
    weight). Each text begins with `start`: below 0 where judgements cost nothing, and a guess does.
    """

    def __init__(self, priors: Sequence[float], start: float = 0.0) -> None:
        self._priors = tuple(priors)
        self._start = start
        self._accepted = [0.0] * len(priors)
        self._judged = [0.0] * len(priors)
        self._text = start

    def begin_text(self) -> None:
        """Another text begins."""
        self._text = self._start

    def __call__(self, kind: int) -> float:
        """The rate of a class, between 0 and 1; beyond the last class, the last one's."""
        kind = min(kind, len(self._priors) - 1)
        weight = self._judged[kind] + _PRIOR_WEIGHT
        known = (self._accepted[kind] + _PRIOR_WEIGHT * self._priors[kind]) / weight
        if self._text == 0.0:
            return known
        known = min(max(known, _LEAST), 1 - _LEAST)
        odds = known / (1 - known) * math.exp(self._text)
        return odds / (1 + odds)

    def observe(self, kind: int, accepted: float) -> None:
        """A token of the class was judged: 1 accepted, 0 rejected, between them how likely it was."""
        kind = min(kind, len(self._priors) - 1)
        self._text = _TEXT_MEMORY * self._text + _TEXT_RATE * (accepted - self(kind))
        self._accepted[kind] = _MEMORY * self._accepted[kind] + accepted
        self._judged[kind] = _MEMORY * self._judged[kind] + 1

    def state(self) -> dict[str, list[float]]:
        """What was learned, to be kept."""
        return {"accepted": list(self._accepted), "judged": list(self._judged)}

    def restore(self, state: Mapping[str, Sequence[float]]) -> None:
        """Take up what was learned earlier. Raises KeyError, TypeError and ValueError."""
        accepted, judged = state["accepted"], state["judged"]
        if len(accepted) == len(judged) == len(self._priors):
            for kind, (a, j) in enumerate(zip(accepted, judged, strict=True)):
                if 0 <= a <= j:
                    self._accepted[kind], self._judged[kind] = float(a), float(j)
