"""The program around the chat: with which models it begins, conversations, files, settings, themes, ends."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path

import pytest
from textual.css.query import NoMatches

import edge_spec
from edge_spec import CataloguePair, InstalledModel, PairSpec, SettingError, resolve_settings
from tests.tui.conftest import Chat, Chatting
from tests.tui.fake_host import SPEC, Gate, Reading, Script, plain, say
from tui.app import ChatApp
from tui.chat.speculation import Speculation
from tui.chat.start import chosen_pair, first_pair, missing_models
from tui.conversations.store import ConversationStore
from tui.widgets.panel import FoldedPanel, SpeculationPanel, sparkline
from tui.widgets.status import TitleBar


def top(chat: Chat) -> str:
    return type(chat.app.screen).__name__


def screen_text(chat: Chat) -> str:
    """What stands on the screen, line by line."""
    lines = chat.app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in lines)


def flat(chat: Chat) -> str:
    """What stands in the panel, as one line."""
    lines = chat.screen.query_one(SpeculationPanel)._laid_out()
    return " ".join(" ".join(line.plain for line in lines).split())


# -- with which models it begins


PAIRS = [
    CataloguePair("starter", "", "big", "small", 0, 9, "Apache-2.0"),
    CataloguePair("tiny", "", "tiny-model", None, 9, 9, "Apache-2.0"),
]


def model(name: str) -> InstalledModel:
    return InstalledModel(
        name, f"{name}.gguf", Path(f"/store/{name}.gguf"), 1, None, None, None, None, None, None, None
    )


@pytest.fixture
def store_has(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Says what is in the store; the catalogue has the pairs starter (big, small) and tiny."""

    def say_it(*names: str) -> None:
        pairs = [
            CataloguePair(
                pair.name, "", pair.target, pair.draft,
                0 if {pair.target, pair.draft} - {None} <= set(names) else 9, 9, "",
            )
            for pair in PAIRS
        ]  # fmt: skip
        monkeypatch.setattr(edge_spec, "catalogue", lambda: pairs, raising=False)
        monkeypatch.setattr(edge_spec, "list_models", lambda: [model(name) for name in names], raising=False)

    return say_it


def test_a_target_of_ones_own_has_no_draft_unless_one_is_named() -> None:
    assert (chosen_pair(resolve_settings({"model": "a"})).draft) is None
    spec = chosen_pair(resolve_settings({"model": "a", "draft-model": "b", "ctx-size": "99"}))
    assert (spec.target, spec.draft, spec.options["context_size"]) == ("a", "b", 99)


def test_the_default_pair_is_taken_when_it_is_here(store_has) -> None:  # type: ignore[no-untyped-def]
    store_has("big", "small")
    found = first_pair(resolve_settings(), PairSpec("last", None, {}))
    assert found is not None and (found.target, found.draft) == ("big", "small")


def test_else_the_pair_used_last_is_if_it_is_still_here(store_has) -> None:  # type: ignore[no-untyped-def]
    store_has("tiny-model")
    found = first_pair(
        resolve_settings({"ctx-size": "99"}), PairSpec("tiny-model", None, {"context_size": 1})
    )
    assert found is not None and (found.target, found.options["context_size"]) == ("tiny-model", 99)
    assert first_pair(resolve_settings(), PairSpec("gone.gguf", None, {})) is None
    assert first_pair(resolve_settings(), PairSpec("g" * 300, None, {})) is None
    assert first_pair(resolve_settings(), None) is None


def test_what_the_user_named_is_taken_whatever_is_here(store_has) -> None:  # type: ignore[no-untyped-def]
    store_has("big", "small")
    found = first_pair(resolve_settings({"pair": "tiny"}), None)
    assert found is not None and found.target == "tiny-model"
    assert missing_models(found) == ["tiny-model"]
    with pytest.raises(SettingError, match='There is no pair called "nix"; `edge-spec models list`'):
        first_pair(resolve_settings({"pair": "nix"}), None)


async def run(script: Script, tmp_path: Path, **flags: str):  # type: ignore[no-untyped-def]
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    return ChatApp(lambda: resolve_settings(given), path=tmp_path / "c.sqlite3", make_host=script.host)


async def test_without_any_model_the_first_run_screen_offers_some(
    store_has, script: Script, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    store_has()
    app = await run(script, tmp_path)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        chat = Chat(app, pilot)
        await chat.until(lambda: top(chat) == "FirstRunScreen")
        assert chat.words == "no model is loaded · F5 chooses one"
        store_has("tiny-model")
        app.screen.dismiss(PairSpec("tiny-model", None, {}))
        await chat.state("ready")
        assert script.specs[0].target == "tiny-model"


async def test_with_models_but_no_usual_pair_one_chooses(store_has, script: Script, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store_has("other")
    app = await run(script, tmp_path)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        chat = Chat(app, pilot)
        await chat.until(lambda: top(chat) == "ModelScreen")
        app.screen.dismiss(None)
        await chat.until(lambda: top(chat) == "ChatScreen")
        assert chat.session.state.name == "empty"
        await chat.enter("Hi")
        assert chat.told[-1] == "No model is loaded; F5 chooses one." and chat.screen.prompt.text == "Hi"


async def test_what_the_catalogue_has_and_the_store_has_not_is_pulled_first(
    store_has, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    store_has()
    pulled = Gate()
    monkeypatch.setattr(edge_spec, "pull_models", lambda names, *_: pulled.wait(), raising=False)
    app = await run(script, tmp_path, pair="starter")
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        chat = Chat(app, pilot)
        await chat.until(lambda: top(chat) == "PullScreen")
        assert not script.specs
        store_has("big", "small")
        pulled.open()
        await chat.state("ready")
        assert (script.specs[0].target, script.specs[0].draft) == ("big", "small")


async def test_f5_chooses_models_and_the_conversation_goes_on(chatting: Chatting, script: Script) -> None:
    async with chatting() as chat:
        await chat.ask()
        await chat.press("f5")
        assert top(chat) == "ModelScreen"
        chat.app.screen.dismiss(PairSpec("other.gguf", None, {}))
        await chat.until(lambda: len(script.specs) == 2 and chat.session.state.name == "ready")
        await chat.ask("More")
        assert len(script.requests[-1].messages) == 3


async def test_the_first_screen_is_there_before_anything_is_loaded(script: Script, tmp_path: Path) -> None:
    gate = Gate()
    script.loads.append([gate])
    app = await run(script, tmp_path, model="target.gguf")
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        chat = Chat(app, pilot)
        assert "Ask something" in screen_text(chat) and not script.requests
        gate.open()
        await chat.state("ready")


# -- conversations


async def test_an_earlier_conversation_is_gone_on_with(chatting: Chatting, script: Script) -> None:
    async with chatting() as chat:
        await chat.ask("First question")
        await chat.press("ctrl+n")
        await chat.ask("Second question")
        await chat.press("ctrl+o")
        await chat.until(lambda: len(chat.app.screen.query_one("#conversations-list").options) == 2)  # type: ignore[attr-defined]
        await chat.press("down", "enter")
        await chat.until(lambda: chat.texts == ["First question", "Yes."])
        assert chat.session.record.title == "First question"
        await chat.ask("More")
        history = script.requests[-1].history
        assert history is not None and history.num_messages == 2


async def test_the_flags_of_the_command_line_hold_in_an_old_conversation_and_in_new_ones(
    chatting: Chatting,
) -> None:
    async with chatting(drafter="ngram", temp="0.3") as chat:
        await chat.ask("First")
        number = chat.session.record.conversation
        assert number is not None
    async with chatting(draft_max="2", drafter="draft") as chat:
        started = chat.session.settings.plain()
        chat.session.open(number)
        settings = chat.session.settings
        assert (settings.decoding.drafter, settings.decoding.draft_max) == ("draft", 2)
        assert settings.sampling.temperature == 0.3
        await chat.press("ctrl+n")
        assert settings.plain() == started


async def test_a_conversation_survives_the_program(chatting: Chatting, script: Script) -> None:
    script.answer(say("One", " two", " three"))
    async with chatting() as chat:
        await chat.ask()
        number = chat.session.record.conversation
    async with chatting() as chat:
        assert number is not None
        chat.session.open(number)
        assert chat.texts == ["Hi", "One two three"]


async def test_a_title_is_given_and_shown(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.enter("/rename Too early")
        assert chat.told[-1].startswith("Nothing of this conversation is saved yet")
        await chat.ask()
        await chat.enter("/rename [b]Mine[/b]")
        assert "─ [b]Mine[/b] ─" in screen_text(chat)
        await chat.press("alt+r")
        assert top(chat) == "EditScreen"
        await chat.press("end", "2", "enter")
        assert chat.session.record.title == "[b]Mine[/b]2"


async def test_a_conversation_is_deleted_once_the_user_means_it(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.ask()
        record = chat.session.record
        await chat.press("alt+d")
        assert top(chat) == "ConfirmScreen"
        await chat.press("enter")  # the other answer has the focus
        assert record.conversation is not None and chat.texts
        await chat.press("alt+d", "y")
        assert record.conversation is None and chat.texts == []
        assert record.store is not None and record.store.list() == []


async def test_the_system_prompt_is_edited_and_may_be_taken_out(chatting: Chatting, script: Script) -> None:
    async with chatting(system="Be brief.") as chat:
        await chat.press("f7")
        assert top(chat) == "EditScreen"
        await chat.press("!", "ctrl+s")
        await chat.ask()
        assert script.requests[-1].messages[0] == {"role": "system", "content": "Be brief.!"}
        await chat.enter("/system none")
        await chat.ask("More")
        assert script.requests[-1].messages[0]["role"] == "user"


async def test_an_export_has_no_rejected_text_and_overwrites_nothing(
    chatting: Chatting, script: Script
) -> None:
    script.answer(say("One", " two", " three"))
    async with chatting() as chat:
        await chat.enter("/export early.md")
        assert chat.told[-1] == "There is nothing to export yet; write a message first."
        await chat.ask("What is it?")
        Path("there.md").write_text("precious")
        await chat.enter("/export there.md")
        assert top(chat) == "EditScreen" and Path("there.md").read_text() == "precious"
        assert "Enter replaces it" in screen_text(chat) and "Enter replace" in screen_text(chat)
        Path("other.md").write_text("precious, too")
        chat.app.screen.query_one("#edit-text").value = "other.md"  # type: ignore[attr-defined]
        await chat.press("enter")  # there too: asked about again
        assert top(chat) == "EditScreen" and Path("other.md").read_text() == "precious, too"
        await chat.press("enter")
        assert "One two three" in Path("other.md").read_text() and Path("there.md").read_text() == "precious"
        assert f"written into {Path('other.md').absolute()}" in chat.told[-1]
        await chat.press("ctrl+s")
        assert chat.app.screen.query_one("#edit-text").value == "what-is-it.md"  # type: ignore[attr-defined]
        await chat.press("enter")
        text = Path("what-is-it.md").read_text(encoding="utf-8")
        assert "One two three" in text and " no" not in text
        for command in ("export", "trace"):
            await chat.enter(f"/{command} {'e' * 300}.md")
            assert "File name too long" in chat.told[-1]
        await chat.enter("/export nowhere/x.md")
        path = Path("nowhere/x.md").absolute()
        assert chat.told[-1] == f"{path} cannot be written: No such file or directory."


async def test_a_store_that_cannot_be_opened_is_told_and_the_chat_works(
    script: Script, tmp_path: Path
) -> None:
    (tmp_path / "c.sqlite3").write_text("this is no database" * 100)
    app = await run(script, tmp_path, model="target.gguf")
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        chat = Chat(app, pilot)
        await chat.state("ready")
        assert chat.told[0].endswith("The chat goes on without being saved.")
        await chat.ask()
        await chat.press("ctrl+o")
        assert chat.told[-1] == "Conversations are not being saved, so there is no list of them."
        await chat.press("ctrl+s", "enter")
        assert Path("hi.md").read_text(encoding="utf-8").endswith("## You\n\nHi\n\n## Model\n\nYes.\n")


async def test_a_conversation_whose_last_message_has_no_answer_says_what_answers_it(
    chatting: Chatting, script: Script
) -> None:
    async with chatting() as chat:
        settings = chat.session.settings
        chat.session.record.say("Unanswered", settings.system, SPEC, settings.plain())
        await chat.press("ctrl+n", "ctrl+o")
        await chat.until(lambda: len(chat.app.screen.query_one("#conversations-list").options) == 1)  # type: ignore[attr-defined]
        await chat.press("enter")
        await chat.until(lambda: chat.texts == ["Unanswered"])
        assert chat.told[-1] == "Its last message has no answer yet; Ctrl+R answers it."
        await chat.press("ctrl+r")
        await chat.until(lambda: chat.texts == ["Unanswered", "Yes."])


async def test_the_title_of_a_message_that_was_edited_is_not_shown(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.ask("Wrong")
        assert "─ Wrong ─" in screen_text(chat)
        await chat.press("ctrl+e")
        assert "─ Wrong ─" in screen_text(chat)
        await chat.enter("Right")
        await chat.until(lambda: chat.texts[0] == "Right" and not chat.session.state.busy)
        assert "─ Wrong ─" not in screen_text(chat)
        await chat.press("alt+d")
        assert "“Right”" in screen_text(chat)


async def test_what_could_not_be_saved_is_when_the_program_ends(chatting: Chatting, tmp_path: Path) -> None:
    async with chatting() as chat:
        store = chat.session.record.store
        assert store is not None
        store._database._writer.execute("PRAGMA query_only = ON")
        await chat.ask()
        store._database._writer.execute("PRAGMA query_only = OFF")
    with contextlib.closing(ConversationStore(tmp_path / "chats.sqlite3")) as store:
        assert [(s.title, s.num_messages) for s in store.list()] == [("Hi", 2)]


# -- what is shown


async def test_the_panel_stands_beside_the_tokens_and_folds_on_a_narrow_screen(
    chatting: Chatting, script: Script
) -> None:
    script.answer(say("One", *(" w",) * 9))
    async with chatting() as chat:
        await chat.ask()
        panel, folded = chat.screen.query_one(SpeculationPanel), chat.screen.query_one(FoldedPanel)
        assert panel.display and not folded.display
        text = screen_text(chat)
        for words in ("SPEED", "33.3 tok/s", "plain unknown", "F4 off measures it", "ACCEPTED        67%",
                      "ROUND      2.5 tok 90 ms", "draft 30 verify 50 +10", "SPECULATION on",
                      "fixed draft length 3", "context 30 / 4096"):  # fmt: skip
            assert " ".join(words.split()) in " ".join(text.split()), words
        await chat.pilot.resize_terminal(80, 24)
        await chat.until(lambda: folded.display and not panel.display)
        assert "33.3 t/s  67%  K auto on" in screen_text(chat) and "30/4096" in screen_text(chat)
        assert "30 / 4096" not in screen_text(chat)
        await chat.pilot.resize_terminal(100, 30)
        await chat.until(lambda: panel.display and not folded.display)


async def test_a_long_reason_leaves_room_for_the_context(chatting: Chatting) -> None:
    why = "the draft model was turned off, for it has cost more time than it has saved in this conversation"
    async with chatting(size=(80, 24)) as chat:
        folded = chat.screen.query_one(FoldedPanel)
        off = Speculation(on=False, draft_max=3, reason=why)
        folded.show(replace(chat.session.gauges(), speculation=off))
        line = str(folded.render())
        assert line.startswith("off: the draft model was turned off") and line.endswith("… 0/4096")
        assert len(line) == folded.content_size.width


async def test_plain_rounds_of_the_session_give_the_reference(chatting: Chatting, script: Script) -> None:
    script.answer(plain("a", "b", "c", "d", "e", wall_s=0.05))
    script.answer(say("One", *(" w",) * 9))
    async with chatting() as chat:
        await chat.press("f4")
        await chat.ask()
        assert "all plain" in screen_text(chat) and "measures it" not in screen_text(chat)
        await chat.press("f4")
        await chat.ask("Again")
        text = screen_text(chat)
        assert "plain 20.0" in text and "x1.67" in text


async def test_a_click_on_the_conversation_leaves_the_focus_to_the_prompt(
    chatting: Chatting, script: Script
) -> None:
    async with chatting() as chat:
        await chat.ask()
        await chat.pilot.click("#tokens", offset=(40, 20))
        await chat.press("H", "i")
        assert chat.screen.prompt.text == "Hi" and not chat.screen.is_inspecting
        await chat.pilot.click("#tokens", offset=(5, 5))  # on a token
        await chat.until(lambda: chat.screen.is_inspecting)
        assert chat.screen.tokens.has_focus and chat.screen.prompt.text == "Hi"


async def test_the_panel_says_what_is_true_before_the_first_answer(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    script.loads.append([gate])
    script.answer(plain("One", " two", " three"))
    async with chatting(loaded=False, drafter="none") as chat:
        await chat.until(gate.reached.is_set)
        text = screen_text(chat)
        assert "plain" not in text and "SPECULATION off" in text and "you turned it off" in text
        gate.open()
        await chat.state("ready")
        await chat.ask()
        assert "all plain" in screen_text(chat)


async def test_while_the_draft_reads_the_panel_says_so_and_the_target_goes_on(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    script.answer(plain("One"), Reading(512, 3000, "draft"), plain(" two", " three"), gate,
                  Reading(3000, 3000, "draft"), say(" four", *(" w",) * 9))  # fmt: skip
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(lambda: gate.reached.is_set() and len(chat.texts) == 2 and "three" in chat.texts[-1])
        chat.screen.show_gauges()
        await chat.settle()
        assert "all plain" in screen_text(chat) and "the draft has read 512 of 3000" in flat(chat)
        gate.open()
        await chat.state("ready")
        assert "the draft has read" not in flat(chat)
        assert "plain 33.3" in flat(chat)  # the rounds in which it read were the target's alone


async def test_with_speculation_turned_off_the_next_answer_measures_plain_decoding(
    chatting: Chatting, script: Script
) -> None:
    script.answer(say("One", *(" w",) * 9))
    async with chatting() as chat:
        await chat.ask()
        await chat.press("f4")
        assert "plain unknown" in screen_text(chat) and "the next answer measures it" in screen_text(chat)


async def test_a_resize_while_streaming_loses_nothing(chatting: Chatting, script: Script) -> None:
    gates = [Gate(), Gate()]
    script.answer(plain("One"), gates[0], plain(" two"), gates[1], plain(" three"))
    async with chatting() as chat:
        await chat.enter("Hi")
        for gate, size in zip(gates, ((60, 20), (140, 40)), strict=True):
            await chat.until(gate.reached.is_set)
            await chat.pilot.resize_terminal(*size)
            gate.open()
        await chat.state("ready")
        assert "One two three" in screen_text(chat)


async def test_hostile_text_is_never_markup_and_never_steers_the_terminal(
    chatting: Chatting, script: Script
) -> None:
    evil = "[red]\x1b[31m\x07[/b]\x9b2J"
    script.answer(plain("One ", evil))
    async with chatting() as chat:
        await chat.ask(evil)
        for key in (None, "f2"):
            if key:
                await chat.press(key)
                await chat.pilot.pause(0.3)
            text = screen_text(chat)
            assert "[red]␛[31m␇[/b]" in text
            assert not any(c in text for c in "\x1b\x07\x9b")
        assert chat.texts == [evil, f"One {evil}"]


async def test_the_title_says_the_draft_without_what_it_shares(chatting: Chatting) -> None:
    async with chatting() as chat:
        assert "Qwen2.5-Coder-1.5B Q4_0  ←  0.5B Q4_0" in screen_text(chat)
        assert chat.screen.query_one(TitleBar).size.height == 1


def test_a_sparkline_is_relative_to_its_largest_value() -> None:
    assert sparkline((1.0, 4.0, 8.0), 10) == "▂▅█"
    assert sparkline((1.0, 4.0, 8.0), 2) == "▅█"
    assert sparkline((), 10) == sparkline((1.0,), 0) == ""


# -- settings and themes


async def test_the_settings_of_the_screen_are_taken(chatting: Chatting) -> None:
    async with chatting(theme="nord", glyphs="on", rejected="off", rendered="on", inspect="7") as chat:
        assert chat.app.theme == "nord"
        assert chat.screen.tokens.glyphs and not chat.screen.tokens.show_rejected
        assert chat.screen.rendered is not None and chat.session.num_alternatives == 7


async def test_an_unknown_theme_is_told_and_the_default_taken(chatting: Chatting) -> None:
    async with chatting(theme="nrod") as chat:
        assert chat.app.theme == "textual-dark"
        assert 'There is no theme "nrod"; did you mean "nord"?' in chat.told


async def test_saved_settings_hold_at_once_and_leave_the_others_alone(chatting: Chatting) -> None:
    Path("edge-spec.toml").write_text("temp = 0.5")
    async with chatting() as chat:
        await chat.enter("/top-k 3")
        Path("edge-spec.toml").write_text(
            'temp = 0.1\nctx-size = 99\n[chat]\nglyphs = true\n[keys]\nstop = "f12"\n'
        )
        chat.screen.settings_saved()
        await chat.pilot.pause()
        sampling = chat.session.settings.sampling
        assert (sampling.temperature, sampling.top_k) == (0.1, 3)
        assert chat.screen.tokens.glyphs and chat.screen.key("stop") == "F12"
        assert chat.told[-1] == "The models' new settings hold when they are loaded again (F5)."


async def test_saved_settings_leave_what_was_chosen_by_key(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.press("f3", "f8")
        await chat.enter("/theme nord")
        Path("edge-spec.toml").write_text('[keys]\nhelp = "f12"\n')
        chat.screen.settings_saved()
        await chat.settle()
        tokens = chat.screen.tokens
        assert (tokens.show_rejected, tokens.glyphs, chat.app.theme) == (False, True, "nord")
        assert chat.screen.prompt.placeholder == "Ask something, or type / for commands, F12 for help"
        Path("edge-spec.toml").write_text('[chat]\nrejected = false\ntheme = "gruvbox"\n')
        chat.screen.settings_saved()
        Path("edge-spec.toml").write_text("")
        chat.screen.settings_saved()
        await chat.settle()
        assert (tokens.show_rejected, tokens.glyphs, chat.app.theme) == (True, True, "textual-dark")


async def test_no_color_keeps_the_meaning(
    chatting: Chatting, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    script.answer(say("One", " two", " three"))
    async with chatting() as chat:
        assert chat.app.no_color
        await chat.ask()
        assert "⟨✗ no⟩" in screen_text(chat)
        legend = screen_text(chat)
        assert "⟨✗rejected⟩" in legend and "⟨·discarded⟩" in legend and "↳" not in legend


@pytest.mark.parametrize("term", ["xterm", "linux"])
async def test_panel_and_help_say_which_mark_is_what(
    chatting: Chatting, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    is_ascii = term == "linux"
    async with chatting() as chat:
        assert chat.screen.tokens.marks == {}
        assert " accepted" in screen_text(chat) and "not judged yet" not in screen_text(chat)
        await chat.press("f8")
        panel = [">accepted", "=for a", "+on top", "{xrejected}", "{.discarded}", "{?not judged yet}"]
        if not is_ascii:
            panel = ["»accepted", "↳for a", "+on top", "⟨✗rejected⟩", "⟨·discarded⟩", "⟨?not judged yet⟩"]
        assert [words for words in panel if words not in screen_text(chat)] == []
        await chat.press("f1")
        helped = [" ".join(line.split()) for line in screen_text(chat).splitlines()]
        marks = (
            ["> accepted", "= + own", "{x} rejected"]
            if is_ascii
            else ["» accepted", "↳ + own", "⟨✗⟩ rejected"]
        )
        assert [words for words in marks if not any(words in line for line in helped)] == []
        await chat.press("escape", "f8")
        assert "not judged yet" not in screen_text(chat) and "accepted" in screen_text(chat)


async def test_the_footer_says_what_escape_does_to_the_inspect_line(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.ask()
        await chat.press("f6")
        await chat.until(lambda: "Esc close" in screen_text(chat).splitlines()[-1])
        await chat.press("escape")
        await chat.until(lambda: "Esc" not in screen_text(chat).splitlines()[-1])


# -- how it ends


async def test_a_bug_that_ends_the_program_is_kept_and_not_printed(
    chatting: Chatting, no_bugs, capsys: pytest.CaptureFixture[str]
) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RuntimeError, match="no such luck"):
        async with chatting() as chat:
            app = chat.app

            def broken() -> None:
                raise RuntimeError("no such luck")

            app.call_later(broken)
            await chat.until(lambda: app.bug is not None)
    assert isinstance(app.bug, RuntimeError) and len(no_bugs) == 1
    assert "no such luck" not in "".join(capsys.readouterr())
    no_bugs.clear()


async def test_closing_ends_the_engine(chatting: Chatting, script: Script) -> None:
    async with chatting() as chat:
        await chat.ask()
    deadline = time.monotonic() + 5
    while not script.num_closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert script.num_closed


async def test_a_palette_that_is_closed_while_it_searches_does_not_end_the_chat(chatting: Chatting) -> None:
    async def search() -> None:
        raise NoMatches("No nodes match 'CommandList'")

    async with chatting() as chat:
        await chat.press("ctrl+p")
        palette = chat.app.screen
        worker = palette.run_worker(search())
        await chat.until(lambda: worker.is_finished)
        await chat.press("escape")
        await chat.ask()
        assert chat.app.bug is None and chat.app.is_running
