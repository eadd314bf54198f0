"""The settings of the next answer: what a file, a command and a conversation make of them."""

from __future__ import annotations

from typing import Any

import pytest

from edge_spec import Decoding, Sampling, SettingError, resolve_settings
from tui.chat.settings import ChatSettings


def new(**flags: str) -> ChatSettings:
    """As a chat begins with these flags."""
    settings = resolve_settings({name.replace("_", "-"): value for name, value in flags.items()})
    return ChatSettings(settings.sampling(), settings.decoding())


def changed(chat: ChatSettings, before: dict[str, str], after: dict[str, str]) -> Decoding:
    chat.take_changes(resolve_settings(before), resolve_settings(after))
    return chat.effective


@pytest.mark.parametrize(
    "flags",
    [{"drafter": "ngram"}, {"drafter": "draft"}, {"drafter": "none"}, {"coupling": "shared"},
     {"draft-min": "2"}, {"draft-max": "5"}, {"drafter": "ngram", "draft-max": "4"},
     {"drafter": "auto", "draft-max": "4"}, {"draft-max": "6", "draft-min": "3"}],
)  # fmt: skip
def test_what_the_settings_file_says_of_drafting_holds_as_if_the_chat_began_with_it(
    flags: dict[str, str],
) -> None:
    there = changed(new(), {}, flags)
    assert there == new(**{name.replace("-", "_"): value for name, value in flags.items()}).effective
    back = new(**{name.replace("-", "_"): value for name, value in flags.items()})
    assert changed(back, flags, {}) == new().effective


def test_what_was_chosen_in_the_chat_stays_when_the_file_changes_something_else() -> None:
    chat = new()
    chat.set("draft-max", "5")
    decoding = changed(chat, {}, {"coupling": "shared", "draft-min": "2"})
    assert (decoding.drafter, decoding.draft_max, decoding.draft_min, decoding.coupling) == (
        "draft", 5, 2, "shared",
    )  # fmt: skip


def test_a_value_that_does_not_go_with_the_rest_is_refused_and_the_rest_holds() -> None:
    chat = new()
    chat.set("draft-max", "2")
    with pytest.raises(SettingError, match="draft-min is 3"):
        changed(chat, {}, {"draft-min": "3", "temp": "0.1"})
    assert chat.sampling.temperature == 0.1 and chat.decoding.draft_min == 0


def test_the_system_prompt_of_the_file_is_not_that_of_the_open_conversation() -> None:
    chat = new()
    changed(chat, {}, {"system": "Be brief."})
    assert chat.system == ""


@pytest.mark.parametrize(("typed", "k"), [("4", 4), ("auto", Decoding(drafter="ngram").draft_max), ("0", 0)])
def test_another_k_keeps_n_grams(typed: str, k: int) -> None:
    chat = new(drafter="ngram")
    chat.set("draft-max", typed)
    assert (chat.decoding.drafter, chat.effective.draft_max) == ("ngram", k)
    chat.speculating = True
    assert chat.effective.draft_max > 0


@pytest.mark.parametrize(("typed", "drafter"), [("4", "draft"), ("auto", "auto")])
def test_another_k_chooses_between_the_model_and_what_pays(typed: str, drafter: str) -> None:
    for chat in (new(), new(drafter="draft")):
        chat.set("draft-max", typed)
        assert chat.decoding.drafter == drafter


@pytest.mark.parametrize(
    "flags",
    [{"drafter": "ngram"}, {"drafter": "ngram", "draft_max": "4"}, {"draft_max": "5", "draft_min": "2"},
     {"coupling": "shared"}, {}],
)  # fmt: skip
@pytest.mark.parametrize("other", [{}, {"drafter": "ngram"}, {"draft_max": "7"}])
def test_a_conversation_that_is_opened_again_drafts_as_it_did(
    flags: dict[str, str], other: dict[str, str]
) -> None:
    saved: dict[str, Any] = new(**flags).plain()
    chat = new(**other)
    chat.restore(dict(reversed(saved.items())))
    assert chat.effective == new(**flags).effective


def test_what_a_conversation_does_not_say_stays() -> None:
    """One of an earlier version has no drafter."""
    chat = ChatSettings(Sampling(), Decoding(drafter="ngram"))
    chat.restore({"draft-max": 4, "temp": 0.5})
    assert (chat.decoding.drafter, chat.decoding.draft_max, chat.sampling.temperature) == ("ngram", 4, 0.5)


OLD = {"temp": 0.3, "top-k": 7, "drafter": "ngram", "draft-max": 4, "speculating": False}


@pytest.mark.parametrize(
    "flag", [{"drafter": "draft"}, {"draft_max": "2"}, {"drafter": "draft", "temp": "0.9"}]
)
def test_a_flag_beats_what_a_conversation_has_and_the_rest_is_its_own(flag: dict[str, str]) -> None:
    chat = new(**flag)
    chat.given = {name.replace("_", "-") for name in flag}
    before = chat.effective
    chat.restore(OLD)
    assert chat.effective == before and chat.sampling.top_k == 7
    assert chat.sampling.temperature == (0.9 if "temp" in flag else 0.3)


def test_a_new_chat_has_nothing_of_the_conversation_opened_before_but_what_was_changed_by_hand() -> None:
    chat = new(temp="0.5")
    chat.set("min-p", "0.2")
    before = chat.plain()
    chat.restore(OLD)
    assert (chat.sampling.temperature, chat.sampling.min_p, chat.speculating) == (0.3, 0.2, False)
    chat.restore({"temp": 0.1})
    assert (chat.sampling.temperature, chat.sampling.top_k) == (0.1, before["top-k"])
    chat.restore(OLD)
    chat.set("top-p", "0.6")
    chat.take_changes(resolve_settings({}), resolve_settings({"seed": "7"}))
    assert (chat.sampling.top_p, chat.decoding.seed) == (0.6, 7)
    chat.begin()
    assert chat.plain() == {**before, "top-p": 0.6, "seed": 7}
    chat.restore({})
    chat.speculate(False)
    chat.begin()
    assert chat.plain() == {**before, "top-p": 0.6, "seed": 7, "speculating": False}
