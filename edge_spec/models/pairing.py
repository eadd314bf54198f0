"""Can this draft model draft for that target? Both headers tell, without loading anything.

Only the target's token ids are ever fed to either model, and the target judges every guess, so a
difference can cost guesses but never change a text. What counts is whether the draft reads and
writes the target's language:

* The tokenizers are of one kind, and a begin-of-text token that is added is the same: a draft that
  reads every text from a beginning it does not know guesses badly all along.
* Of the ids that both have, those whose texts differ are masked: they are never drafted. At most
  one in MASK_SHARE of them may be tokens of ordinary text; tokens that text never holds (control,
  unused, unknown) do not count.
* Ids that one side lacks are never drafted. Of ordinary tokens the draft may lack one in
  MASK_SHARE too, unless it was trimmed on purpose and says which it has.

llama.cpp's rule (common/speculative.cpp) is narrower: sizes within 128 of one another, equal texts
from id 5 on, and the same end-of-text rule, which matters to nobody who tokenises with the target.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_spec.errors import IncompatiblePairError
from edge_spec.models import facts_cache
from edge_spec.models.comparison import TokenDifference, VocabComparison, compare_vocabs
from edge_spec.models.facts import ModelFacts, VocabFacts, facts_of, target_ids_of
from edge_spec.models.header import Header, read_header
from edge_spec.models.kinds import HEADS, PUBLISHES_LAYER_INPUTS, WHAT_IT_IS

MASK_SHARE = 100
"""One in so many ordinary tokens may differ, and one may be missing."""

_ELSEWHERE = "choose a draft from the target's own family, or a draft-free drafter"


@dataclass(frozen=True, slots=True)
class PairReport:
    """Whether a draft can draft for a target, and why not.

    `reasons` are sentences, empty when they pair; `notes` are worth knowing either way.
    `masked` are the target's ids that must never be drafted, ascending. Of `num_differing` ids
    with two texts `differences` are the first few. `draft_free` says that they pair and a drafter
    without a model is the better choice, since the draft reads as many bytes a token as the target.
    """

    target_name: str
    draft_name: str
    target_vocab_size: int
    draft_vocab_size: int
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    masked: tuple[int, ...] = ()
    num_differing: int = 0
    differences: tuple[TokenDifference, ...] = ()
    draft_free: bool = False

    @property
    def pairs(self) -> bool:
        return not self.reasons

    @property
    def verdict(self) -> str:
        if self.draft_free:
            return "use a draft-free drafter instead"
        if self.reasons:
            return "does not pair"
        if self.masked:
            return f"pairs, with {_count(len(self.masked), 'token')} masked"
        return "pairs"


def check_pair(target: Header, draft: Header) -> PairReport:
    """Compare two headers of models that `check_loadable` accepts; never raises if they do not fit."""

    def compare() -> VocabComparison:
        return compare_vocabs(target.vocab, draft.vocab, target_ids_of(draft))

    return judge(facts_of(target, sound=True), facts_of(draft, sound=True), compare)


def check_files(target: Path, draft: Path) -> PairReport:
    """Compare two files by what is remembered of them; headers are read only where nothing is.

    Raises ModelFileError.
    """
    (t, t_header), (d, d_header) = (facts_cache.facts_and_header(path) for path in (target, draft))

    def headers() -> list[Header]:
        return [t_header or read_header(target), d_header or read_header(draft)]

    return judge(t, d, lambda: facts_cache.comparison(t.vocab, d.vocab, headers))


def judge(t: ModelFacts, d: ModelFacts, compare: Callable[[], VocabComparison]) -> PairReport:
    """The verdict on a target and a draft; `compare` is asked only if their texts decide it."""
    reasons = [*_unfit("target", t), *_unfit_draft(t, d)]
    found: VocabComparison | None = None
    if not reasons:
        reasons += _unlike(t.vocab, d.vocab)
    if not reasons or (t.vocab.title == d.vocab.title and _comparable(t, d)):
        same = t.vocab.fingerprint == d.vocab.fingerprint and d.vocab.target_ids is None
        found = None if same else compare()
    notes = _notes(t, d)
    masked: tuple[int, ...] = ()
    if found is not None:
        differing = _too_different(found, trimmed=d.vocab.target_ids is not None)
        reasons += differing
        notes = _vocabulary_notes(t.vocab, d.vocab, found) + notes
        masked = () if differing else found.differing
    costly = not reasons and 0 < t.bytes_per_token <= d.bytes_per_token
    return PairReport(
        target_name=t.name,
        draft_name=d.name,
        target_vocab_size=t.vocab.size,
        draft_vocab_size=d.vocab.size,
        reasons=tuple(reasons),
        notes=tuple(notes),
        masked=() if reasons else masked,
        num_differing=found.num_differing if found else 0,
        differences=found.shown if found else (),
        draft_free=costly,
    )


def raise_if_incompatible(report: PairReport) -> None:
    """Raise IncompatiblePairError, with the first reason and what to do, unless they pair."""
    if report.pairs:
        return
    more = len(report.reasons) - 1
    raise IncompatiblePairError(
        f'"{report.draft_name}" cannot draft for "{report.target_name}": {uncapital(report.reasons[0])} '
        + (f"({more} more in `edge-spec check`.) " if more else "")
        + f"{_ELSEWHERE[0].upper()}{_ELSEWHERE[1:]}."
    )


def uncapital(sentence: str) -> str:
    """A sentence as it stands after a colon or `because`."""
    return sentence[:1].lower() + sentence[1:]


def shown(text: str) -> str:
    """A token's text in quotes, control characters escaped."""
    return json.dumps(text, ensure_ascii=False)


# -- reasons


def _unfit(role: str, model: ModelFacts) -> list[str]:
    """Why a file is no language model that can be driven here."""
    if model.kind != "model" and not (role == "draft" and model.kind in HEADS):
        return [f"The {role} is {WHAT_IT_IS[model.kind]}."]
    if model.problem is not None:
        return [f"The {role} cannot be loaded: {model.problem}"]
    if not model.vocab.has_texts and model.kind not in HEADS:
        return [f"The {role} has no vocabulary in its file, so its tokens have no texts."]
    if role == "target" and model.vocab.target_ids is not None:
        return ["The target is a draft with a trimmed vocabulary, which cannot write every text."]
    return []


def _unfit_draft(t: ModelFacts, d: ModelFacts) -> list[str]:
    if d.kind not in HEADS:
        return _unfit("draft", d)
    reasons = [
        f"The draft is {WHAT_IT_IS[d.kind]}: edge-spec does not run these, llama-server of llama.cpp does; "
        "here choose a draft model, or a draft-free drafter."
    ]
    if d.kind in ("eagle3", "dflash"):
        made_for = d.target_hidden_size or (d.embedding_length if d.kind == "dflash" else 0)
        if made_for and t.embedding_length and made_for != t.embedding_length:
            reasons.append(
                f"It was made for a target with hidden states of {made_for:,} numbers, "
                f"and this target's have {t.embedding_length:,}."
            )
        if t.architecture not in PUBLISHES_LAYER_INPUTS:
            reasons.append(f'llama.cpp does not hand out the hidden states of "{t.architecture}" targets.')
    return reasons


def _unlike(t: VocabFacts, d: VocabFacts) -> list[str]:
    """Why two vocabularies cannot go together, whatever their texts."""
    if t.title != d.title:
        return [f"The target's tokenizer is {_tokenizer(t)} but the draft's is {_tokenizer(d)}."]
    if d.map_problem is not None:
        return [d.map_problem]
    if d.num_target > t.size:
        return [
            f"The draft was trimmed for a target with at least {d.num_target:,} tokens, "
            f"and this one has {t.size:,}."
        ]
    if t.add_bos != d.add_bos:
        adds, leaves = ("target", "draft") if t.add_bos else ("draft", "target")
        return [f"The {adds} adds its begin-of-text token to every text but the {leaves} does not."]
    if t.add_bos and t.bos_id != d.bos_target_id:
        return [f"The begin-of-text token is {_id(t.bos_id)} in the target but {_id(d.bos_id)} in the draft."]
    return []


def _comparable(t: ModelFacts, d: ModelFacts) -> bool:
    """Whether the texts tell more about two vocabularies that do not go together anyway."""
    whole = t.vocab.has_texts and d.vocab.has_texts and t.kind == d.kind == "model"
    return whole and d.vocab.map_problem is None and d.vocab.num_target <= t.vocab.size


def _too_different(found: VocabComparison, *, trimmed: bool) -> list[str]:
    reasons = []
    limit = found.num_compared // MASK_SHARE
    listed = found.num_differing == len(found.differing)
    if found.num_ordinary > limit or not listed:
        first, others = found.shown[0], found.num_differing - 1
        more = "." if not others else f", and {_count(others, 'more token')} {_verb(others, 'differ')}."
        reasons.append(
            f"Token {first.token} is {shown(first.target_text)} in the target but "
            f"{shown(first.draft_text)} in the draft{more}"
        )
    if found.num_missing_ordinary > limit and not trimmed:
        reasons.append(
            f"The draft lacks {found.num_missing_ordinary:,} of the target's tokens; it has the first "
            f"{found.num_compared:,}, and one in {MASK_SHARE} may be missing."
        )
    return reasons


# -- notes


def _vocabulary_notes(t: VocabFacts, d: VocabFacts, found: VocabComparison) -> list[str]:
    notes = []
    if d.target_ids is not None:
        notes.append(
            f"The draft's vocabulary is trimmed to {found.num_compared:,} of the target's {t.size:,} tokens; "
            "the others are never drafted."
        )
    elif found.num_missing:
        notes.append(f"The target has {found.num_missing:,} more token ids; those are never drafted.")
    if found.num_extra:
        notes.append(f"The draft has {found.num_extra:,} more token ids; those are never drafted.")
    special = found.num_differing - found.num_ordinary
    if special and found.num_differing == len(found.differing):
        notes.append(
            f"{_count(special, 'special token')} {_verb(special, 'differ')}, which ordinary text never holds."
        )
    return notes


def _notes(t: ModelFacts, d: ModelFacts) -> list[str]:
    if t.kind != "model" or d.kind != "model":
        return []
    notes = []
    if t.vocab.pre != d.vocab.pre:
        notes.append(
            f'The pre-tokenizers differ ("{t.vocab.pre}" and "{d.vocab.pre}"); only the target\'s is used, '
            "so the draft may guess less well."
        )
    if d.vocab.target_ids is None and t.vocab.ends != d.vocab.ends:
        notes.append(_ends_note(t.vocab, d.vocab))
    if (t.vocab.add_eos, d.vocab.add_eos) != (False, False) and t.vocab.add_eos != d.vocab.add_eos:
        notes.append("Only one of them adds an end-of-text token to prompts; the target's rule is used.")
    if t.chat_template != d.chat_template:
        notes.append("The chat templates differ; only the target's is used.")
    if 0 < d.context_length < t.context_length:
        notes.append(
            f"The draft was trained for {d.context_length:,} tokens of context and the target for "
            f"{t.context_length:,}; beyond the draft's, its guesses get worse."
        )
    for role, model in (("target", t), ("draft", d)):
        if model.rollback != "trim":
            notes.append(
                f"The {role}'s memory is {model.memory}, which cannot be trimmed: its state is saved before "
                "each guess and accepted tokens are read again, so rejections cost more."
            )
    if t.has_mtp:
        notes.append("The target's file has MTP layers, which edge-spec does not use.")
    if 0 < t.bytes_per_token <= d.bytes_per_token:
        notes.append("The draft reads no fewer bytes a token than the target, so drafting will hardly pay.")
    return notes


def _ends_note(t: VocabFacts, d: VocabFacts) -> str:
    """Which tokens end a generation in one model only."""

    def only(one: VocabFacts, other: VocabFacts) -> str:
        theirs = {end.token for end in other.ends}
        return ", ".join(shown(end.text) for end in one.ends if end.token not in theirs)

    parts = [f"{only(t, d)} only in the target" * bool(only(t, d))]
    parts.append(f"{only(d, t)} only in the draft" * bool(only(d, t)))
    where = "; ".join(part for part in parts if part) or "they have other texts"
    return f"The tokens that end an answer differ ({where}), so the draft may miss its end."


def _tokenizer(vocab: VocabFacts) -> str:
    return f"{vocab.title} ({vocab.model})" if vocab.model else vocab.title


def _id(token: int | None) -> str:
    return "missing" if token is None else f"token {token}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _verb(number: int, verb: str) -> str:
    return f"{verb}s" if number == 1 else verb
