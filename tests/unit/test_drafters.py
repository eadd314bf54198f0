"""The table of drafters: which engine is made of what was loaded and what was asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import pytest

from edge_spec.config import GREEDY, Decoding, DrafterName
from edge_spec.drafters import Window
from edge_spec.drafters.table import MAKERS, Parts, Wanted, make_engine
from edge_spec.events import Drafted, Finished, Verified
from edge_spec.planner.costs import RowCosts
from edge_spec.planner.knowledge import Knowledge
from edge_spec.sampling import SamplerChain
from edge_spec.testing import TableCache, TableModel
from edge_spec.types import Slot
from edge_spec.verify import make_coupling

P = TableModel(12, seed=1)


def loaded() -> Any:
    return SimpleNamespace(cache=TableCache(P), model=P)


class Generated(NamedTuple):
    """A text, whether the draft model was decoded and anything drafted, and the planner's reason."""

    text: list[int]
    decoded: bool
    drafted: bool
    reason: str


def generated(draft: bool, knowledge: Knowledge | None = None, **options: Any) -> Generated:
    parts = Parts(loaded(), loaded() if draft else None, None)
    chain = SamplerChain(GREEDY)
    slot = Slot(
        0, [1, 2, 3] * 4, 12, 40, make_coupling("rejection", 7, 0), chain, chain, lambda _emitted: None
    )
    events = list(make_engine(parts, Wanted(Decoding(**options), knowledge, 1)).generate([slot]))
    text = [token for event in events if isinstance(event, Verified) for token in event.verdict.tokens]
    (finished,) = (event for event in events if isinstance(event, Finished))
    decoded = parts.draft is not None and bool(parts.draft.cache.decodes)
    return Generated(
        text, decoded, any(isinstance(event, Drafted) for event in events), finished.stats.reason
    )


def test_every_drafter_that_can_be_asked_for_is_in_the_table() -> None:
    assert tuple(MAKERS) == get_args(DrafterName)


@pytest.mark.parametrize(
    ("draft", "options", "decoded", "drafted", "reason"),
    [
        (True, {"drafter": "draft", "draft_max": 3}, True, True, "fixed draft length 3"),
        (False, {"drafter": "draft", "draft_max": 3}, False, False, "there is no draft model"),
        (False, {"drafter": "ngram", "draft_max": 4}, False, True, "fixed draft length 4"),
        (True, {"drafter": "auto"}, False, False, "what drafting costs here was not measured"),
        *(
            (True, {"drafter": name, "draft_max": 0}, False, False, "draft length 0 was asked for")
            for name in get_args(DrafterName)
        ),
    ],
)
def test_who_drafts_follows_what_was_asked_for_and_the_text_is_the_plain_one(
    draft: bool, options: dict[str, Any], decoded: bool, drafted: bool, reason: str
) -> None:
    plain = generated(False, draft_max=0).text
    assert generated(draft, **options) == (plain, decoded, drafted, reason)


COSTS = {1: 1.0, 4: 1.1, 8: 1.2, 32: 4.0}


def test_with_costs_known_auto_drafts_and_the_text_is_the_plain_one() -> None:
    found = generated(True, Knowledge(RowCosts(COSTS), RowCosts({1: 0.01, 32: 0.3})), drafter="auto")
    assert found.text == generated(False, draft_max=0).text
    assert found.drafted


@pytest.mark.parametrize(("drafter", "kept"), [("auto", {0: Window(9, 5)}), ("draft", {})])
def test_a_draft_of_fixed_length_forgets_that_only_a_windows_end_was_read(
    drafter: DrafterName, kept: dict[int, Window]
) -> None:
    parts = Parts(loaded(), loaded(), None, windows={0: Window(9, 5)})
    make_engine(parts, Wanted(Decoding(drafter=drafter), Knowledge(RowCosts(COSTS), RowCosts(COSTS)), 1))
    assert parts.windows == kept
