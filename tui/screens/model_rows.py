"""How targets, drafts and what can be had look in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content

from edge_spec import PairSpec, harmless
from tui.models.choices import Choice, Draft, is_pair_of, is_target_of
from tui.widgets.filter_list import Row

FILE: Final = "file"
"""The key of the row that asks for a file elsewhere."""

PULL: Final = "pull"
"""The key of the row that asks for a model to pull."""

FORGE: Final = "forge"
"""The key of the row that makes a draft."""

NO_DRAFT: Final = "none"
"""The key of the row that stands for plain decoding."""


def _row(key: str, name: str, facts: str, *, in_use: bool = False, dimmed: bool = False) -> Row:
    name, facts = harmless(name), harmless(facts)
    look = Content.assemble(
        (name, "dim" if dimmed else "bold"), "  ● in use" if in_use else "", "\n", (facts, "dim")
    )
    return Row(key, look, f"{name} {facts}")


NO_DRAFT_ROW: Final = _row(NO_DRAFT, "no draft", "plain decoding")
READING_ROW: Final = _row("reading", "looking for models", "those on this machine come in a moment")
JUDGING_ROW: Final = _row("judging", "looking for drafts", "which models can draft for it comes in a moment")
FILE_ROW: Final = _row(FILE, "another file…", "a GGUF file anywhere on this machine")
PULL_ROW: Final = _row(PULL, "get another model…", "of the catalogue, or USER/REPO from the hub")
FORGE_ROW: Final = _row(FORGE, "make a faster draft…", "out of a model that is here, measured here")


def target_row(choice: Choice, current: PairSpec | None, models: Sequence[Choice]) -> Row:
    """A model or pair that can be the target; `current` is what is loaded."""
    facts = f"✗ cannot be used  {choice.facts}" if choice.problem is not None else choice.facts
    if choice.pair is not None:
        in_use = is_pair_of(choice.pair, current, models)
    else:
        in_use = is_target_of(choice, current)
    return _row(choice.key, choice.name, facts, in_use=in_use, dimmed=choice.problem is not None)


def draft_row(target: Choice, draft: Draft, current: PairSpec | None) -> Row:
    """A model as a draft for `target`, or why it cannot be one."""
    choice = draft.choice
    if draft.reason is not None:
        return _row(choice.ref, choice.name, f"✗ {draft.reason}", dimmed=True)
    share = "" if draft.share is None else f"{draft.share:.0%} of its bytes  "
    masked = f"{draft.verdict.partition('with ')[2]}  " if "masked" in draft.verdict else ""
    sign = "✓" if draft.pays else "! hardly pays:"
    in_use = current is not None and current.draft in choice.names and is_target_of(target, current)
    return _row(choice.ref, choice.name, f"{sign} {share}{masked}{choice.facts}", in_use=in_use)


def own_draft_row(name: str) -> Row:
    """The draft of a pair that is pulled as a whole."""
    return _row(name, name, "comes with the pair")


def offer_look(name: str, size: str, words: str) -> Content:
    """Something to begin with or to get: what it costs beside its name, and words below."""
    return Content.assemble((harmless(name), "bold"), f"   {size}\n", (harmless(words), "dim"))
