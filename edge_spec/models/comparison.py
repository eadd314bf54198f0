"""Where two vocabularies part, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from edge_spec.models.vocab import Vocab

MAX_SHOWN = 20
"""How many differing tokens a comparison keeps with their texts."""

MAX_LISTED = 1 << 14
"""Up to how many differing ids it keeps them; where more differ, none are ever masked."""

TargetIds = NDArray[np.int32]
"""Of a trimmed draft: the target's id of each of its tokens, ascending; shape (its vocabulary,)."""


@dataclass(frozen=True, slots=True)
class TokenDifference:
    """An id of the target whose text is another one in the draft."""

    token: int
    target_text: str
    draft_text: str


@dataclass(frozen=True, slots=True)
class VocabComparison:
    """What a draft's vocabulary has of a target's.

    Of `num_compared` ids `num_differing` have another text in the draft, `num_ordinary` of which
    can stand in ordinary text; `differing` are they, or none where they are more than MAX_LISTED,
    and `shown` the first MAX_SHOWN with their texts. The draft lacks `num_missing` of the target's ids,
    `num_missing_ordinary` of which can stand in ordinary text, and has `num_extra` that the target
    lacks.
    """

    num_compared: int
    num_differing: int
    num_ordinary: int
    num_missing: int
    num_missing_ordinary: int
    num_extra: int
    differing: tuple[int, ...]
    shown: tuple[TokenDifference, ...]


def compare_vocabs(target: Vocab, draft: Vocab, target_ids: TargetIds | None = None) -> VocabComparison:
    """Compare texts id by id, or at the ids that a trimmed draft names (which must be sound)."""
    differing = _differing(target, draft, target_ids)
    ordinary = target.ordinary()
    if target_ids is None:
        num_compared = min(len(target.tokens), len(draft.tokens))
        missing = ordinary[num_compared:]
        num_missing, num_missing_ordinary = len(missing), int(missing.sum())
        num_extra = max(0, draft.size - target.size)
    else:
        num_compared = len(target_ids)
        num_missing = len(ordinary) - num_compared
        num_missing_ordinary = int(ordinary.sum() - ordinary[target_ids].sum())
        num_extra = 0
    ids = [token for token, _own in differing]
    return VocabComparison(
        num_compared=num_compared,
        num_differing=len(ids),
        num_ordinary=int(ordinary[ids].sum()) if ids else 0,
        num_missing=num_missing,
        num_missing_ordinary=num_missing_ordinary,
        num_extra=num_extra,
        differing=tuple(ids) if len(ids) <= MAX_LISTED else (),
        shown=tuple(
            TokenDifference(token, target.text(token), draft.text(own))
            for token, own in islice(differing, MAX_SHOWN)
        ),
    )


def token_differences(
    target: Vocab, draft: Vocab, target_ids: TargetIds | None = None
) -> Iterator[TokenDifference]:
    """Every id whose text differs, with both texts."""
    for token, own in _differing(target, draft, target_ids):
        yield TokenDifference(token, target.text(token), draft.text(own))


def list_problem(target_ids: TargetIds, draft: Vocab) -> str | None:
    """Why a list is none of a draft's target ids, whatever the target."""
    if len(target_ids) != len(draft.tokens):
        return f"The draft names {len(target_ids):,} target ids for its {len(draft.tokens):,} tokens."
    if len(target_ids) and (target_ids[0] < 0 or bool((np.diff(target_ids) <= 0).any())):
        return "The draft's list of target ids does not ascend."
    return None


def _differing(target: Vocab, draft: Vocab, target_ids: TargetIds | None) -> list[tuple[int, int]]:
    """Pairs of ids, the target's and the draft's own, whose texts differ."""
    if target_ids is not None:
        texts, own_texts = target.texts(), draft.texts()
        pairs = zip(target_ids.tolist(), own_texts, strict=True)
        return [(token, own) for own, (token, text) in enumerate(pairs) if texts[token] != text]
    if _starts_alike(target, draft):
        return []
    pairs_of_texts = zip(target.texts(), draft.texts(), strict=False)
    return [(token, token) for token, (text, own) in enumerate(pairs_of_texts) if text != own]


def _starts_alike(target: Vocab, draft: Vocab) -> bool:
    """Whether one list of tokens is the beginning of the other: the most common case, and cheap."""
    size = min(len(target.tokens), len(draft.tokens))
    if size == 0:
        return True
    end = int(target.tokens.ends[size - 1])
    return (
        end == int(draft.tokens.ends[size - 1])
        and target.tokens.blob[:end] == draft.tokens.blob[:end]  # lengths are part of it
    )
