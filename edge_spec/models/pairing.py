"""Can this draft model draft for that target? Both headers tell, without loading anything.

The rule is llama.cpp's common_speculative_are_compatible (common/speculative.cpp): the same kind
of tokenizer, the same begin and end tokens where they are added, vocabularies that differ by at
most 128 ids, and the same text at every id from 5 up to the smaller size.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from edge_spec.errors import IncompatiblePairError
from edge_spec.models.header import Header
from edge_spec.models.vocab import Vocab

MAX_SIZE_DIFFERENCE = 128
FIRST_COMPARED_ID = 5


@dataclass(frozen=True, slots=True)
class TokenDifference:
    """Where two vocabularies part: the first id, its two texts, and how many ids differ."""

    token: int
    target_text: str
    draft_text: str
    count: int


@dataclass(frozen=True, slots=True)
class PairReport:
    """Whether a draft can draft for a target, and why not.

    `reasons` are sentences, empty when they pair; `notes` are worth knowing either way.
    `difference` is about ids that the rule compares, or None.
    """

    target_name: str
    draft_name: str
    target_vocab_size: int
    draft_vocab_size: int
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    difference: TokenDifference | None

    @property
    def pairs(self) -> bool:
        return not self.reasons

    @property
    def verdict(self) -> str:
        return "pairs" if self.pairs else "does not pair"


def check_pair(target: Header, draft: Header) -> PairReport:
    """Compare two headers; never raises for models that do not fit."""
    t, d = target.vocab, draft.vocab
    difference = None
    reasons = [
        f'The {role} has the architecture "{header.architecture}", which does not generate text.'
        for role, header in (("target", target), ("draft", draft))
        if header.architecture in _NO_TEXT
    ]
    if t.title != d.title:
        reasons.append(f"The target's tokenizer is {_tokenizer(t)} but the draft's is {_tokenizer(d)}.")
    elif not t.size or not d.size:
        missing = "target" if not t.size else "draft"
        reasons.append(f"The {missing} has no vocabulary in its file.")
    else:
        reasons += _special("begin-of-text", t.add_bos, d.add_bos, t.bos_id, d.bos_id)
        reasons += _special("end-of-text", t.add_eos, d.add_eos, t.eos_id, d.eos_id)
        if abs(t.size - d.size) > MAX_SIZE_DIFFERENCE:
            reasons.append(
                f"The target has {t.size:,} tokens but the draft has {d.size:,}; "
                f"they may differ by {MAX_SIZE_DIFFERENCE} at most."
            )
        difference = _first_difference(t, d)
        if difference is not None:
            others = difference.count - 1
            reasons.append(
                f"Token {difference.token} is {_shown(difference.target_text)} in the target but "
                f"{_shown(difference.draft_text)} in the draft"
                + (
                    f", and {others:,} more {'tokens differ' if others > 1 else 'token differs'}."
                    if others
                    else "."
                )
            )
    return PairReport(
        target.name, draft.name, t.size, d.size, tuple(reasons), tuple(_notes(target, draft)), difference
    )  # fmt: skip


def raise_if_incompatible(report: PairReport) -> None:
    """Raise IncompatiblePairError, with the first reason and what to do, unless they pair."""
    if report.pairs:
        return
    more = len(report.reasons) - 1
    raise IncompatiblePairError(
        f'"{report.draft_name}" cannot draft for "{report.target_name}": {_uncapital(report.reasons[0])} '
        + (f"({more} more in `edge-spec check`.) " if more else "")
        + "Choose a draft from the target's own family, or run without one."
    )


_NO_TEXT = frozenset(
    (
        "clip",
        "bert",
        "nomic-bert",
        "nomic-bert-moe",
        "jina-bert-v2",
        "jina-bert-v3",
        "neo-bert",
        "modern-bert",
    )
)


def _tokenizer(vocab: Vocab) -> str:
    return f"{vocab.title} ({vocab.model})" if vocab.model else vocab.title


def _special(
    what: str, target_adds: bool, draft_adds: bool, target_id: int | None, draft_id: int | None
) -> list[str]:
    if target_adds != draft_adds:
        adds, leaves = ("target", "draft") if target_adds else ("draft", "target")
        return [f"The {adds} adds its {what} token to every text but the {leaves} does not."]
    if target_adds and target_id != draft_id:
        return [f"The {what} token is {_id(target_id)} in the target but {_id(draft_id)} in the draft."]
    return []


def _id(token: int | None) -> str:
    return "missing" if token is None else f"token {token}"


def _first_difference(target: Vocab, draft: Vocab) -> TokenDifference | None:
    """Ids that differ, from FIRST_COMPARED_ID to the smaller size."""
    differing = [
        token
        for token in _suspects(target, draft)
        if token >= FIRST_COMPARED_ID and target.raw(token) != draft.raw(token)
    ]
    if not differing:
        return None
    first = differing[0]
    return TokenDifference(first, target.text(first), draft.text(first), len(differing))


def _suspects(target: Vocab, draft: Vocab) -> list[int]:
    """Ids whose stored bytes differ; cheap when one vocabulary is the head of the other."""
    size = min(len(target.tokens), len(draft.tokens))
    if size == 0:
        return []
    ends_t, ends_d = target.tokens.ends[:size], draft.tokens.ends[:size]
    end = int(ends_t[-1])
    if np.array_equal(ends_t, ends_d) and target.tokens.blob[:end] == draft.tokens.blob[:end]:
        return []
    pairs = zip(target.tokens, draft.tokens, strict=False)
    return [token for token, (t, d) in enumerate(pairs) if t != d]


def _notes(target: Header, draft: Header) -> list[str]:
    t, d = target.vocab, draft.vocab
    notes = []
    if t.size != d.size and abs(t.size - d.size) <= MAX_SIZE_DIFFERENCE:
        larger = "target" if t.size > d.size else "draft"
        notes.append(f"The {larger} has {abs(t.size - d.size)} more token ids; those are never drafted.")
    if t.title == d.title:
        low = sum(1 for token in _suspects(t, d)[:FIRST_COMPARED_ID] if token < FIRST_COMPARED_ID)
        if low:
            notes.append(f"{low} of the first {FIRST_COMPARED_ID} tokens differ, which the rule allows.")
    if t.pre != d.pre:
        notes.append(
            f'The pre-tokenizers differ ("{t.pre}" and "{d.pre}"); only the target\'s is used, '
            "so the draft may guess less well."
        )
    if t.eos_id != d.eos_id:
        notes.append("The end-of-text tokens differ, so the draft may miss the end of an answer.")
    if target.chat_template != draft.chat_template:
        notes.append("The chat templates differ; only the target's is used.")
    if 0 < draft.context_length < target.context_length:
        notes.append(
            f"The draft was trained for {draft.context_length:,} tokens of context and the target for "
            f"{target.context_length:,}; beyond the draft's, its guesses get worse."
        )
    if draft.num_parameters >= target.num_parameters > 0:
        notes.append("The draft is no smaller than the target, so drafting will hardly pay.")
    return notes


def _shown(text: str) -> str:
    """A token's text in quotes, control characters escaped."""
    return json.dumps(text, ensure_ascii=False)


def _uncapital(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
