"""Whether the next answer is drafted for, and the words for why not."""

from __future__ import annotations

from dataclasses import dataclass

from edge_spec import Decoding, PairInfo, PairSpec
from tui.chat.settings import ChatSettings
from tui.chat.transcript import AnswerFold


@dataclass(frozen=True, slots=True)
class Speculation:
    """Whether the next answer is drafted for, with which K (None: as many as pay), and why or why not."""

    on: bool
    draft_max: int | None
    reason: str = ""


def lacks_draft(spec: PairSpec | None, info: PairInfo | None, decoding: Decoding) -> bool:
    """Whether a draft model is to draft, and there is none; n-grams need none."""
    return _is_alone(spec, info) and decoding.drafter == "draft"


def speculation_of(
    settings: ChatSettings,
    spec: PairSpec | None,
    info: PairInfo | None,
    fold: AnswerFold | None,
    *,
    asked_to_draft: bool,
) -> Speculation:
    """What can be said after the answer in `fold`, for which drafting was asked or not.

    `spec` is the pair that is loaded or being loaded, `info` what is known of it once it is.
    """
    decoding, stats = settings.decoding, fold.stats if fold else None
    draft_max = None if decoding.drafter == "auto" else decoding.draft_max
    if spec is None:
        return Speculation(False, draft_max, "no model is loaded")
    if lacks_draft(spec, info, decoding):
        return Speculation(False, draft_max, "there is no draft model")
    if not settings.speculating:
        return Speculation(False, draft_max, "you turned it off")
    # An answer that was to be drafted for may be plain as a whole, such as where costs were not measured.
    has_ended = fold is not None and fold.finished is not None
    off = ("auto-off", "off") if has_ended and asked_to_draft else ("auto-off",)
    if stats is not None and stats.state in off:
        return Speculation(False, draft_max, stats.reason.removeprefix("off: "))
    if fold is not None and fold.draft_reading is not None:
        done, total = fold.draft_reading
        return Speculation(True, draft_max, f"the draft has read {done} of {total} tokens")
    if _is_alone(spec, info):
        return Speculation(True, draft_max, "without a draft model: what the text repeats")
    reason = stats.reason.removeprefix("on: ") if stats is not None and stats.state == "on" else ""
    return Speculation(True, draft_max, reason)


def _is_alone(spec: PairSpec | None, info: PairInfo | None) -> bool:
    """Whether the target has no draft model beside it."""
    if spec is None:
        return False
    return (spec.draft if info is None else info.draft_name) is None
