"""How targets and drafts look in the lists of the model screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from textual.content import Content

from edge_spec import PairSpec, harmless
from tui.models.choices import Choice, is_pair_of, is_target_of
from tui.widgets.filter_list import Row

FILE: Final = "file"
"""The key of the row that asks for a file elsewhere."""

NO_DRAFT: Final = "none"
"""The key of the row that stands for plain decoding."""


def _row(key: str, name: str, facts: str, *, in_use: bool = False) -> Row:
    name, facts = harmless(name), harmless(facts)
    look = Content.assemble((name, "bold"), "  ● in use" if in_use else "", "\n", (facts, "dim"))
    return Row(key, look, f"{name} {facts}")


NO_DRAFT_ROW: Final = _row(NO_DRAFT, "no draft", "plain decoding")
READING_ROW: Final = _row("reading", "reading the store", "the models in it come in a moment")
FILE_ROW: Final = _row(FILE, "another file", "a GGUF file anywhere on this machine")


def target_row(choice: Choice, current: PairSpec | None, models: Sequence[Choice]) -> Row:
    """A model or pair that can be the target; `current` is what is loaded."""
    facts = f"✗ cannot be used  {choice.facts}" if choice.problem is not None else choice.facts
    if choice.pair is not None:
        in_use = is_pair_of(choice.pair, current, models)
    else:
        in_use = is_target_of(choice, current)
    return _row(choice.key, choice.name, facts, in_use=in_use)


def draft_row(
    target: Choice, draft: Choice, reasons: Mapping[str, str | None], current: PairSpec | None
) -> Row:
    """A model as a draft for `target`; `reasons` tells of those that were checked why not, or None."""
    reason = draft.problem or reasons.get(draft.ref)
    if reason is not None:
        facts = f"✗ {_without_names(reason)}"
    elif draft.ref not in reasons:
        facts = f"… {draft.facts}  being checked"
    elif draft.size >= target.size:
        facts = f"✓ {draft.facts}  no smaller than the target"
    else:
        facts = f"✓ {draft.facts}"
    in_use = current is not None and current.draft in draft.names and is_target_of(target, current)
    return _row(draft.ref, draft.name, facts, in_use=in_use)


def own_draft_row(name: str) -> Row:
    """The draft of a pair that is pulled as a whole."""
    return _row(name, name, "comes with the pair")


def _without_names(reason: str) -> str:
    """A reason without which two models it is about, for that stands around it."""
    return reason.partition('": ')[2] or reason
