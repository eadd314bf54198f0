"""What a draft is worth: expected tokens a round against what the round costs.

Leviathan et al. 2023 (arXiv:2211.17192), section 3.3, with the target's measured time for
several rows in the place of "as many as one".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge_spec.models.header import Header


@dataclass(frozen=True, slots=True)
class Gain:
    """The best that a draft promises: `speedup` over plain decoding, drafting `length` tokens a round.

    A draft that loses at every length has a speed-up below 1 at length 1.
    """

    speedup: float
    length: int


def expected_tokens(acceptance: float, length: int) -> float:
    """Tokens a round when each of `length` drafted ones is accepted with the same probability."""
    return sum(acceptance**count for count in range(length + 1))


def best_gain(acceptance: float, draft_s: float, target_s: Sequence[float]) -> Gain:
    """The draft length with the largest speed-up.

    `draft_s` is a draft step's time; `target_s[n - 1]` the target's time for n rows, so lengths up
    to len(target_s) - 1 are considered.
    """
    gains = (
        Gain(expected_tokens(acceptance, k) * target_s[0] / (k * draft_s + target_s[k]), k)
        for k in range(1, len(target_s))
    )
    return max(gains, key=lambda gain: gain.speedup)


def layers_share(header: Header) -> float:
    """The layers' share of the bytes that a step reads; the rest is the output matrix.

    Of the embeddings a step reads one row, unless they are the output matrix too.
    """
    sizes = {tensor.name: tensor.num_bytes for tensor in header.tensors}
    layers = sum(size for name, size in sizes.items() if name.startswith("blk."))
    output = sizes.get("output.weight", sizes.get("token_embd.weight", 0))
    return layers / (layers + output) if layers else 0.0
