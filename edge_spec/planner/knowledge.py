"""What was measured and learned of one pair on this machine; outlives a text, and a process."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from edge_spec.planner.acceptance import AcceptanceRates
from edge_spec.planner.costs import RowCosts

MAX_DRAFT_STEPS = 16
"""The most tokens that a draft model drafts in a round."""

GAP_EDGES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Upper edges of the classes of confidence: the draft's best logit less its second best."""

MATCH_EDGES = (3, 4, 5, 6, 8, 10, 13, 17, 25, 33)
"""Upper edges of the classes of match length, in tokens."""

WINDOWS = (64, 256, 1024)
"""How many tokens at a text's end a draft may read where reading all of them does not pay."""

_GAP_PRIORS = (0.40, 0.45, 0.50, 0.58, 0.65, 0.74, 0.83, 0.90, 0.95, 0.98)
_MATCH_PRIORS = (0.50, 0.60, 0.66, 0.69, 0.75, 0.80, 0.85, 0.88, 0.92, 0.95, 0.96)
_CONTESTED_PRIORS = (0.25, 0.28, 0.34, 0.40, 0.46, 0.54, 0.62, 0.70, 0.78, 0.84, 0.90)
_COPY_PRIORS = _MATCH_PRIORS + _CONTESTED_PRIORS
_POSITION_PRIORS = (0.70,) * MAX_DRAFT_STEPS
_WINDOW_PRIORS = (0.70, 0.62, 0.66, 0.69)
"""After reading everything, and the windows in their order."""

_COPY_START = -0.7
"""Every match is judged, drafted from or not, so a text has to show that it copies."""

_TYPICAL_TOKENS = 192.0
_LENGTH_WEIGHT = 0.2
_REPLAY_WEIGHT = 0.2
_HALF_LIFE_S = 600.0
_RATES = ("positions", "gaps", "matches", "windows")
_NUMBERS = ("typical_tokens", "replayed", "decode_s", "probe_s")


def match_class(length: int, contested: bool = False) -> int:
    """The class of a match of so many tokens."""
    return bisect.bisect(MATCH_EDGES, length) + (len(_MATCH_PRIORS) if contested else 0)


@dataclass(slots=True)
class Knowledge:
    """Costs and acceptance of one pair.

    `verify` and `draft` are the costs of the target's and the draft's decodes, `draft` None
    without a draft model. `positions`, `gaps`, `matches` and `windows` are acceptance by place in
    a draft, by the draft's confidence, by the length of an n-gram match (see `match_class`), and
    of a draft's first token by how much of the text the draft had read. `typical_tokens` is the
    length of an answer, in tokens. `replayed` is how many tokens the target reads again after a
    round, as a share of those drafted in it: 0 where its memory can be trimmed. `decode_s` is the
    decoding time of late and `probe_s` what of it was lost by finding out whether drafting pays.
    """

    verify: RowCosts
    draft: RowCosts | None
    positions: AcceptanceRates = field(default_factory=partial(AcceptanceRates, _POSITION_PRIORS))
    gaps: AcceptanceRates = field(default_factory=partial(AcceptanceRates, _GAP_PRIORS))
    matches: AcceptanceRates = field(default_factory=partial(AcceptanceRates, _COPY_PRIORS, _COPY_START))
    windows: AcceptanceRates = field(default_factory=partial(AcceptanceRates, _WINDOW_PRIORS))
    typical_tokens: float = _TYPICAL_TOKENS
    replayed: float = 0.0
    decode_s: float = 0.0
    probe_s: float = 0.0

    def begin_text(self) -> None:
        """Another text begins: rates start from the average of all."""
        for name in _RATES:
            getattr(self, name).begin_text()

    def answered(self, num_tokens: int) -> None:
        """A text of so many tokens has ended."""
        self.typical_tokens += _LENGTH_WEIGHT * (num_tokens - self.typical_tokens)

    def decoded(self, seconds: float) -> None:
        """So many seconds went by decoding; what was long ago is forgotten, gains and probes alike."""
        kept = 0.5 ** (seconds / _HALF_LIFE_S)
        self.decode_s = kept * self.decode_s + seconds
        self.probe_s *= kept

    def read_again(self, num_tokens: int, num_drafted: int) -> None:
        """After a round with so many drafted tokens, so many were read again."""
        self.replayed += _REPLAY_WEIGHT * (num_tokens / num_drafted - self.replayed)

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON values; costs are kept apart."""
        rates = {name: getattr(self, name).state() for name in _RATES}
        return {**rates, **{name: getattr(self, name) for name in _NUMBERS}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what an earlier process learned. Raises KeyError, TypeError and ValueError."""
        for name in _RATES:
            getattr(self, name).restore(state[name])
        numbers = [float(state[name]) for name in _NUMBERS]
        if not all(number >= 0 for number in numbers):
            raise ValueError("times, lengths and shares are not below 0")
        for name, number in zip(_NUMBERS, numbers, strict=True):
            setattr(self, name, number)
