"""Slash commands, their list above the prompt, and the palette: all of them from the one table."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from textual.widgets import Static

from edge_spec import SETTINGS, Loading, PairSpec, TraceReader, UsageError
from tests.gguf_maker import make_gguf
from tests.tui.conftest import Chat, Chatting
from tests.tui.fake_host import Gate, Script, plain, say
from tui.actions.all import Actions
from tui.commands import BY_NAME, BY_SLASH, COMMANDS, FOOTER, completions, message_of, parse, prompt_of

TWO = "To send a text that begins with a slash, type two."


def top(chat: Chat) -> str:
    return type(chat.app.screen).__name__


# -- the table


def test_every_command_has_an_action_and_every_action_is_a_command() -> None:
    methods = {
        name.replace("_", "-")
        for name, method in inspect.getmembers(Actions, inspect.isfunction)
        if not name.startswith("_")
        and list(inspect.signature(method).parameters) in (["self", "argument"], ["self", "_argument"])
    }
    assert methods == {command.name for command in COMMANDS if not command.setting}


def test_every_setting_command_is_a_setting_of_an_answer() -> None:
    for command in COMMANDS:
        assert not command.setting or SETTINGS[command.setting].field is not None


def test_names_and_slash_words_are_unique_and_every_command_has_a_key() -> None:
    words = [word for command in COMMANDS for word in command.slash]
    assert len(words) == len(set(words)) and len(BY_NAME) == len(COMMANDS)
    assert all(command.keys for command in COMMANDS)
    assert set(FOOTER) <= set(BY_NAME)


def test_the_slash_commands_of_the_manual_are_there() -> None:
    wanted = (
        "model draft system regen edit save export k temp stats trace clear quit help open rename settings "
        "speculation rejected rendered glyphs theme top-p"
    )
    assert set(wanted.split()) <= set(BY_SLASH)


# -- reading what was typed


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [("/k 5", "draft-max", "5"), ("/regen", "regenerate", ""), ("/SYSTEM  Be\nbrief ", "system", "Be\nbrief"),
     ("/clear ", "new-chat", ""), ("/system", "system", "")],
)  # fmt: skip
def test_a_slash_command_is_understood(text: str, name: str, argument: str) -> None:
    call = parse(text)
    assert call is not None and (call.command.name, call.argument) == (name, argument)


@pytest.mark.parametrize(
    "text", ["hello", "//help", "/usr/bin/python fails", "/* a comment */", "/", "a /k 3"]
)
def test_what_cannot_be_a_command_is_a_message(text: str) -> None:
    assert parse(text) is None


def test_of_two_slashes_the_model_gets_one() -> None:
    assert (message_of("//help"), message_of("/* x */"), message_of("x")) == ("/help", "/* x */", "x")


@pytest.mark.parametrize(
    "message", ["/quit", "//quit", "///", "/k 3", "/no command", "/usr/bin fails", "/* x */", "/", "x", ""]
)
def test_a_message_can_be_put_back_into_the_prompt_and_sent_again(message: str) -> None:
    assert parse(prompt_of(message)) is None and message_of(prompt_of(message)) == message


def test_only_a_message_that_would_be_a_command_gets_a_second_slash() -> None:
    assert [prompt_of(text) for text in ("/quit", "/usr/bin", "a /k")] == ["//quit", "/usr/bin", "a /k"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("/reegn", f"There is no command /reegn; did you mean /regen? {TWO}"),
     ("/xyzzy", f"There is no command /xyzzy. {TWO}"),
     ("/k", "/k needs a value: /k N."),
     ("/regen now", "/regen takes nothing behind it.")],
)  # fmt: skip
def test_a_mistyped_command_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value) == words


def test_a_word_is_completed_to_what_begins_with_it() -> None:
    assert [command.name for command in completions("/re")] == [
        "regenerate", "replay", "rename", "repeat-penalty", "rendered", "rejected",
    ]  # fmt: skip
    assert completions("/k 3") == [] and completions("//k") == [] and completions("k") == []
    assert completions("/save")[0].name == "rename"


# -- the list above the prompt


async def test_a_slash_opens_the_list_and_tab_completes(chatting: Chatting) -> None:
    async with chatting() as chat:
        offered = chat.screen.slash_list
        await chat.press("slash", "t", "e")
        assert offered.display and offered.marked is not None and offered.marked.name == "temp"
        await chat.press("tab")
        assert chat.screen.prompt.text == "/temp " and not offered.display


async def test_the_arrow_keys_mark_another_command_and_esc_closes_the_list(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.press("slash", "r", "e")
        names = []
        for key in ("down", "down", "up", "up", "up"):
            await chat.press(key)
            assert chat.screen.slash_list.marked is not None
            names.append(chat.screen.slash_list.marked.name)
        assert names == ["replay", "rename", "replay", "regenerate", "rejected"]
        await chat.press("escape")
        assert not chat.screen.slash_list.display and chat.screen.prompt.text == "/re"


async def test_enter_takes_what_is_marked_and_asks_for_what_it_needs(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.press("slash", "r", "e", "j", "enter")
        assert not chat.screen.tokens.show_rejected and chat.screen.prompt.text == ""
        await chat.press("slash", "t", "e", "enter")
        assert chat.screen.prompt.text == "/temp "
        await chat.press("0", "enter")
        assert chat.session.settings.sampling.temperature == 0


@pytest.mark.parametrize(("typed", "word"), [("e", "/edit "), ("re", "/regen ")])
async def test_what_takes_something_away_is_not_done_for_a_beginning_of_several_words(
    chatting: Chatting, script: Script, typed: str, word: str
) -> None:
    async with chatting() as chat:
        await chat.ask()
        await chat.press("slash", *typed, "enter")
        assert chat.texts == ["Hi", "Yes."] and chat.screen.prompt.text == word
        await chat.press("enter")
        await chat.until(lambda: not chat.session.state.busy and chat.screen.prompt.text in ("", "Hi"))
        assert len(script.requests) == 1 + (typed == "re") and chat.session.is_editing == (typed == "e")


async def test_what_takes_something_away_is_done_for_the_only_word_that_begins_so(
    chatting: Chatting,
) -> None:
    async with chatting() as chat:
        await chat.ask()
        await chat.press("slash", "e", "d", "enter")
        assert chat.screen.prompt.text == "Hi" and chat.session.is_editing


# -- what they do


async def test_an_unknown_command_keeps_the_prompt_and_says_the_nearest(
    chatting: Chatting, script: Script
) -> None:
    async with chatting() as chat:
        await chat.enter("/reegn")
        assert chat.screen.prompt.text == "/reegn" and not script.requests
        assert chat.told[-1].startswith("There is no command /reegn; did you mean /regen?")


async def test_two_slashes_send_a_text_with_one(chatting: Chatting, script: Script) -> None:
    async with chatting() as chat:
        await chat.ask("//help me")
        assert chat.texts[0] == "/help me"


async def test_sampling_and_k_change_for_the_next_answer(chatting: Chatting, script: Script) -> None:
    async with chatting() as chat:
        for text in ("/k 5", "/temp 0.2", "/top-k 7", "/top-p 0.5", "/min-p 0.1", "/repeat-penalty 1.1",
                     "/max-tokens 99", "/seed 42"):  # fmt: skip
            await chat.enter(text)
        assert chat.told[-1] == "seed is 42."
        await chat.ask()
        request = script.requests[0]
        s, d = request.sampling, request.decoding
        assert (s.temperature, s.top_k, s.top_p, s.min_p, s.repeat_penalty) == (0.2, 7, 0.5, 0.1, 1.1)
        assert (d.draft_max, d.max_tokens, d.seed, d.coupling_name) == (5, 99, 42, "shared")
        await chat.enter("/seed none")
        assert chat.session.settings.decoding.seed is None


@pytest.mark.parametrize(
    ("text", "words"),
    [("/k 65", "draft-max is 65, but it must be from 0 (plain decoding) to 64."),
     ("/k three", "draft-max is 'three', but it must be a whole number."),
     ("/temp -1", "temperature is -1.0, but it must be 0 or more."),
     ("/theme nowhere", "There is no theme \"nowhere\"; there are ")],
)  # fmt: skip
async def test_a_bad_value_gets_the_librarys_sentence_and_changes_nothing(
    chatting: Chatting, text: str, words: str
) -> None:
    async with chatting() as chat:
        before = chat.session.settings.plain()
        await chat.enter(text)
        assert chat.told[-1].startswith(words)
        assert chat.session.settings.plain() == before


@pytest.mark.parametrize("text", ["/temp abc", "/copy", "/regen", "/rename Too early", "/theme nowhere"])
async def test_a_command_that_fails_stays_in_the_prompt(chatting: Chatting, text: str) -> None:
    async with chatting() as chat:
        await chat.type(text)
        chat.screen.submit()
        await chat.settle()
        assert chat.screen.prompt.text == text and len(chat.told) == 1


async def test_a_message_that_begins_with_a_slash_is_still_one_when_it_comes_back(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    async with chatting() as chat:
        await chat.ask("//quit")
        await chat.press("ctrl+e")
        assert chat.screen.prompt.text == "//quit"
        script.answer(gate)
        await chat.press("enter")
        await chat.until(gate.reached.is_set)
        await chat.press("escape")
        await chat.state("ready")
        assert chat.screen.prompt.text == "//quit"
        again = Gate()
        script.answer(again)
        await chat.press("enter")
        await chat.until(again.reached.is_set)
        await chat.press("ctrl+r")
        await chat.until(lambda: chat.texts == ["/quit", "Yes."] and not chat.session.state.busy)
        assert chat.screen.prompt.text == ""


@pytest.mark.parametrize(
    ("text", "words"), [("/k auto", "draft-max is auto."), ("/k 0", "Speculation is off."),
                        ("/k 4", "draft-max is 4."), ("/seed none", "seed is none.")],
)  # fmt: skip
async def test_a_setting_that_was_changed_is_said_in_words(chatting: Chatting, text: str, words: str) -> None:
    async with chatting() as chat:
        await chat.enter(text)
        assert chat.told[-1] == words


async def test_k_0_is_plain_and_f4_brings_a_k_back(chatting: Chatting, script: Script) -> None:
    async with chatting() as chat:
        await chat.enter("/k 0")
        await chat.ask()
        await chat.enter("/speculation")
        await chat.ask()
        assert [request.decoding.draft_max for request in script.requests] == [0, 32]


async def test_the_toggles_toggle(chatting: Chatting) -> None:
    async with chatting() as chat:
        for text in ("/rejected", "/rendered", "/glyphs", "/theme textual-light", "/inspect"):
            await chat.enter(text)
        assert not chat.screen.tokens.show_rejected and chat.screen.tokens.glyphs
        assert chat.app.theme == "textual-light"
        assert chat.screen.is_inspecting and chat.screen.rendered is None  # tokens are walked over


async def test_clear_begins_a_new_chat_even_in_an_answer(chatting: Chatting, script: Script) -> None:
    gate = Gate()
    script.answer(plain("One"), gate)
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        await chat.enter("/clear")
        await chat.until(lambda: chat.texts == [])
        assert chat.session.transcript.blocks == [] and chat.session.state.name == "ready"
        await chat.ask("Again")
        assert script.requests[-1].messages == ({"role": "user", "content": "Again"},)


async def test_the_numbers_of_an_answer_that_goes_on_are_its_own(chatting: Chatting, script: Script) -> None:
    def told() -> dict[str, str]:
        box = chat.app.screen.query_one("#stats-box")
        rows = "\n".join(str(one.render()) for one in box.query(Static)).splitlines()
        return {"title": str(box.border_title), **{row[:26].strip(): row[26:] for row in rows}}

    gate = Gate()
    script.answer(say("One", " two", " three", " four"), gate, list(plain(" five")))
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(lambda: gate.reached.is_set() and chat.texts[-1] == "One two three four")
        await chat.press("alt+i")
        running = told()
        assert "last answer" not in running["title"] and running["drafted"] == "3"
        assert running["speculation"].startswith("on, K")
        assert "draft reads" not in running and "time to first token" not in running
        await chat.press("escape")
        gate.open()
        await chat.state("ready")
        await chat.press("alt+i")
        ended = told()
        assert ended["title"] == "The last answer in numbers" and "draft reads" in ended


async def test_stop_regen_edit_copy_stats_and_help_mirror_their_keys(
    chatting: Chatting, script: Script
) -> None:
    script.answer(plain("One"))
    script.answer(plain("Two"))
    async with chatting() as chat:
        await chat.ask()
        await chat.enter("/regen")
        await chat.until(lambda: chat.texts == ["Hi", "Two"])
        await chat.enter("/copy")
        assert chat.app.clipboard == "Two"
        for text, screen in (("/stats", "StatsScreen"), ("/help", "HelpScreen")):
            await chat.enter(text)
            assert top(chat) == screen
            await chat.press("escape")
        await chat.enter("/edit")
        assert chat.screen.prompt.text == "Hi"


async def test_a_trace_is_written_until_it_is_ended(chatting: Chatting, script: Script) -> None:
    script.answer(say("One", " two", " three"))
    async with chatting() as chat:
        await chat.enter("/trace mine.trace.jsonl")
        await chat.ask()
        await chat.enter("/trace")
        assert chat.told[-1] == "The trace is in mine.trace.jsonl."
        with TraceReader(Path("mine.trace.jsonl")) as reader:
            assert type(list(reader)[-1]).__name__ == "Finished"
        await chat.enter("/trace mine.trace.jsonl")
        assert chat.told[-1] == "mine.trace.jsonl is there already; give the trace another name."
        await chat.enter("/trace nowhere/x.jsonl")
        assert chat.told[-1].startswith("The trace nowhere/x.jsonl cannot be written: ")


async def test_model_and_draft_load_another_pair_and_the_conversation_goes_on(
    chatting: Chatting, script: Script
) -> None:
    make_gguf(Path("other.gguf"))
    async with chatting() as chat:
        await chat.ask()
        options = script.specs[0].options
        await chat.enter("/draft none")
        await chat.until(lambda: len(script.specs) == 2 and chat.session.state.name == "ready")
        await chat.enter("/model other.gguf")
        await chat.until(lambda: len(script.specs) == 3 and chat.session.state.name == "ready")
        assert script.specs[1:] == [
            PairSpec("target.gguf", None, options),
            PairSpec("other.gguf", None, options),
        ]
        assert script.num_closed == 2
        await chat.ask("More")
        assert [m["content"] for m in script.requests[-1].messages] == ["Hi", "Yes.", "More"]


@pytest.mark.parametrize(
    ("typed", "words"),
    [("/model typo", 'There is no model "typo": '), ("/draft typo", 'There is no model "typo": '),
     ("/model half.gguf", "half.gguf is not a usable GGUF"), ("/draft else.gguf", "cannot draft for")],
)  # fmt: skip
async def test_what_cannot_be_loaded_is_refused_and_the_pair_stays(
    chatting: Chatting, script: Script, typed: str, words: str
) -> None:
    whole = make_gguf(Path("target.gguf")).read_bytes()
    make_gguf(Path("else.gguf"), vocab_size=280, changed_token=70)
    Path("half.gguf").write_bytes(whole[: len(whole) // 2])
    gate = Gate()
    script.answer(plain("One"), gate)
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        await chat.enter(typed)
        await chat.until(lambda: chat.told)
        assert words in chat.told[-1]
        assert chat.session.state.busy and not script.num_closed
        gate.open()
        await chat.state("ready")
        await chat.press("up")
        assert chat.screen.prompt.text == typed


async def test_another_model_in_an_answer_stops_it_first(chatting: Chatting, script: Script) -> None:
    make_gguf(Path("other.gguf"))
    gate, loading = Gate(), Gate()
    script.answer(plain("One"), gate)
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        script.loads.append([Loading("target", 0.5), loading])
        await chat.enter("/model other.gguf")
        await chat.until(lambda: "loading the target" in chat.words)
        assert chat.texts == ["Hi", "One"]
        loading.open()
        await chat.state("ready")


async def test_quit_quits(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.enter("/quit")
        await chat.until(lambda: not chat.app.is_running)


# -- the palette


async def test_every_command_is_in_the_palette_with_its_key_and_slash_word(chatting: Chatting) -> None:
    async with chatting() as chat:
        entries = {entry.title: entry.help for entry in chat.app.get_system_commands(chat.screen)}
        assert set(entries) == {command.summary for command in COMMANDS}
        assert entries["K, tokens drafted a round, or auto"] == "Alt+K  /k N"


async def test_a_command_runs_from_the_palette(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.press("ctrl+p")
        await chat.press(*"speculation off".replace(" ", "_").replace("_", " ").split()[0])
        await chat.until(lambda: chat.app.screen.query("CommandList"))
        await chat.pilot.pause(0.3)
        await chat.press("enter")
        await chat.until(lambda: not chat.session.settings.speculating)


async def test_the_palette_quits_only_at_an_empty_prompt_where_it_says_so(chatting: Chatting) -> None:
    async with chatting() as chat:
        leave = {entry.title: entry for entry in chat.app.get_system_commands(chat.screen)}[
            "Quit, if the prompt is empty"
        ]
        await chat.type("half a thought")
        leave.callback()
        await chat.settle()
        assert chat.app.is_running and chat.screen.prompt.text == "half a thought"
        assert chat.told[-1] == "The prompt is not empty; Ctrl+Q quits all the same."
        await chat.type("")
        leave.callback()
        await chat.until(lambda: not chat.app.is_running)


async def test_enter_pressed_twice_in_the_palette_closes_only_the_palette(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.press("ctrl+t")
        palette = chat.app.screen
        palette.dismiss()
        palette.dismiss()
        await chat.until(lambda: top(chat) == "ChatScreen")
        await chat.ask()
