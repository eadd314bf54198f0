"""Every key of the table does what the table says, and can be another key."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from edge_spec import EngineCrashedError
from tests.tui.conftest import Chat, Chatting
from tests.tui.fake_host import Gate, Script, plain, say
from tui.commands import COMMANDS
from tui.keys import key_code, key_name, resolve_keys


def top(chat: Chat) -> str:
    """The name of the screen that is in front."""
    return type(chat.app.screen).__name__


def kept(chat: Chat) -> list[str]:
    """What the store has of the conversation."""
    record = chat.session.record
    assert record.store is not None and record.conversation is not None
    return [message.text for message in record.store.load(record.conversation).messages]


async def send_an_edit(chat: Chat, script: Script) -> None:
    """The message "wrong" is answered, edited, and sent as "right", which is read and never answered."""
    gate = Gate()
    await chat.ask("wrong")
    await chat.press("ctrl+e")
    script.answer(gate)
    await chat.enter("right")
    await chat.until(gate.reached.is_set)


# -- the prompt


async def test_enter_sends_and_clears_the_prompt(chatting: Chatting, script: Script) -> None:
    async with chatting() as chat:
        await chat.press("H", "i", "enter")
        await chat.until(lambda: chat.texts == ["Hi", "Yes."])
        assert chat.screen.prompt.text == ""


async def test_an_empty_prompt_is_not_sent(chatting: Chatting, script: Script) -> None:
    async with chatting() as chat:
        await chat.press("space", "enter")
        assert not script.requests and chat.screen.prompt.text == " "


@pytest.mark.parametrize("key", ["shift+enter", "ctrl+j", "alt+enter"])
async def test_a_new_line_does_not_send(chatting: Chatting, script: Script, key: str) -> None:
    async with chatting() as chat:
        await chat.press("a", key, "b")
        assert chat.screen.prompt.text == "a\nb" and not script.requests


async def test_the_prompt_grows_with_its_lines_up_to_a_limit(chatting: Chatting) -> None:
    async with chatting() as chat:
        heights = [chat.screen.prompt.size.height]
        await chat.type("1\n2\n3")
        heights.append(chat.screen.prompt.size.height)
        await chat.type("\n".join(map(str, range(100))))
        heights.append(chat.screen.prompt.size.height)
        assert heights == [1, 3, 8]


async def test_up_recalls_what_was_sent_and_down_comes_back_to_what_was_typed(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.ask("one")
        await chat.ask("two")
        seen = []
        await chat.type("unsent")
        for key in ("up", "up", "up", "down", "down", "down"):
            await chat.press(key)
            seen.append(chat.screen.prompt.text)
        assert seen == ["two", "one", "one", "two", "unsent", "unsent"]


async def test_a_recalled_text_that_was_changed_is_found_again(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.ask("one")
        await chat.ask("two")
        await chat.type("unsent")
        await chat.press("up", "!", "up", "?", "down")
        assert chat.screen.prompt.text == "two!"
        await chat.press("down")
        assert chat.screen.prompt.text == "unsent"
        await chat.press("up", "up")
        assert chat.screen.prompt.text == "one?"
        await chat.press("enter")
        await chat.until(lambda: len(chat.texts) == 6)
        seen = []
        for _ in range(3):
            await chat.press("up")
            seen.append(chat.screen.prompt.text)
        assert seen == ["one?", "two", "one"]  # what was sent is kept as it was sent


async def test_up_passes_over_a_slash_command_that_was_sent(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.ask("one")
        await chat.enter("/glyphs")
        await chat.enter("/rejected")
        seen = []
        for key in ("up", "up", "up", "down"):
            await chat.press(key)
            seen.append(chat.screen.prompt.text)
            assert not chat.screen.slash_list.is_open
        assert seen == ["/rejected", "/glyphs", "one", "/glyphs"]
        await chat.press("backspace")  # now somebody writes it
        assert chat.screen.slash_list.is_open and chat.screen.slash_list.word == "glyphs"


async def test_up_in_a_text_of_many_lines_first_goes_to_its_first_row(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.ask("sent")
        await chat.type("a\nb")
        await chat.press("up")
        assert chat.screen.prompt.text == "a\nb"
        await chat.press("up")
        assert chat.screen.prompt.text == "sent"


async def test_ctrl_d_deletes_in_a_text_and_quits_at_an_empty_prompt(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.type("ab")
        await chat.press("home", "ctrl+d")
        assert chat.screen.prompt.text == "b" and chat.app.is_running
        await chat.type("")
        await chat.press("ctrl+d")
        await chat.until(lambda: not chat.app.is_running)


async def test_a_paste_keeps_every_line_and_control_character_and_shows_none(chatting: Chatting) -> None:
    async with chatting() as chat:
        text = "\x1b[31mred\x1b[0m [b]x[/b]\r\n" + "line\r" * 3
        chat.app.post_message(events.Paste(text))
        await chat.pilot.pause()
        assert chat.screen.prompt.text == "\x1b[31mred\x1b[0m [b]x[/b]\n" + "line\n" * 3
        assert chat.screen.prompt.get_line(0).plain == "␛[31mred␛[0m [b]x[/b]"


async def test_keys_that_come_in_a_burst_are_done_in_their_order(chatting: Chatting, script: Script) -> None:
    """A fast terminal, or a program that types, sends them all at once."""

    def burst(chat: Chat, *keys: str) -> None:
        for key in keys:
            character = key if len(key) == 1 else None
            chat.app.post_message(events.Key(key, character))

    async with chatting() as chat:
        burst(chat, *"ax", "backspace", *"b", "enter", *"next", "home", "delete", *"N")
        await chat.until(lambda: chat.texts == ["ab", "Yes."])
        assert chat.screen.prompt.text == "Next"
        burst(chat, "ctrl+u", "ctrl+k", *"/k 7", "enter", *"more")
        await chat.until(lambda: chat.screen.prompt.text == "more")
        assert chat.session.settings.decoding.draft_max == 7


# -- the answer


async def test_ctrl_r_answers_the_last_message_again(chatting: Chatting, script: Script) -> None:
    script.answer(plain("One"))
    script.answer(plain("Two"))
    async with chatting() as chat:
        await chat.ask()
        await chat.press("ctrl+r")
        await chat.until(lambda: chat.texts == ["Hi", "Two"])


async def test_ctrl_r_in_an_answer_stops_it_first(chatting: Chatting, script: Script) -> None:
    gate = Gate()
    script.answer(plain("One"), gate)
    script.answer(plain("Two"))
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        await chat.press("ctrl+r")
        await chat.until(lambda: chat.texts == ["Hi", "Two"] and not chat.session.state.busy)


@pytest.mark.parametrize("typed", ["", "half a thought"])
async def test_ctrl_e_while_a_message_is_read_takes_back_that_message_alone(
    chatting: Chatting, script: Script, typed: str
) -> None:
    gate = Gate()
    script.answer(plain("One"))
    script.answer(gate)
    async with chatting() as chat:
        await chat.ask("First")
        await chat.enter("Second")
        await chat.until(gate.reached.is_set)
        await chat.type(typed)
        await chat.press("ctrl+e")
        await chat.state("ready")
        assert chat.texts == kept(chat) == ["First", "One"]
        assert chat.screen.prompt.text == "Second"
        await chat.press("up")
        assert chat.screen.prompt.text == (typed or "Second")


async def test_ctrl_r_while_a_message_is_read_asks_that_message_again(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    script.answer(plain("One"))
    script.answer(gate)
    script.answer(plain("Two"))
    async with chatting() as chat:
        await chat.ask("First")
        await chat.enter("Second")
        await chat.until(gate.reached.is_set)
        await chat.press("ctrl+r")
        await chat.until(lambda: len(chat.texts) == 4 and not chat.session.state.busy)
        assert chat.texts == kept(chat) == ["First", "One", "Second", "Two"]
        assert chat.screen.prompt.text == ""


@pytest.mark.parametrize("key", ["ctrl+e", "ctrl+r"])
async def test_a_crash_before_the_first_token_leaves_the_turn_before_alone(
    chatting: Chatting, script: Script, key: str
) -> None:
    gate = Gate(EngineCrashedError("The engine ended.", None))
    script.answer(plain("One"))
    script.answer(gate)
    async with chatting() as chat:
        await chat.ask("First")
        await chat.enter("Second")
        await chat.until(gate.reached.is_set)
        await chat.press(key)
        if key == "ctrl+e":
            await chat.state("restarted")
            assert chat.texts == kept(chat) == ["First", "One"] and chat.screen.prompt.text == "Second"
        else:
            await chat.until(lambda: len(chat.texts) == 4 and not chat.session.state.busy)
            assert chat.texts == ["First", "One", "Second", "Yes."]
            assert kept(chat) == chat.texts and chat.screen.prompt.text == ""


@pytest.mark.parametrize("opened", [False, True])
async def test_ctrl_r_while_the_engine_restarts_answers_once_it_is_there(
    chatting: Chatting, script: Script, opened: bool
) -> None:
    gate = Gate()
    script.answer(plain("One"), EngineCrashedError("The engine ended.", None))
    script.answer(plain("Two"))
    async with chatting() as chat:
        script.loads.append([gate])
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        await chat.press("ctrl+r")
        assert chat.told[-1] == "It is answered again as soon as the models are loaded."
        assert chat.texts == ["Hi", "One"] and not script.loads
        if opened:
            await chat.press("ctrl+n")
        gate.open()
        if opened:
            await chat.state("restarted")
            assert chat.texts == [] and len(script.requests) == 1
        else:
            await chat.until(lambda: chat.texts == ["Hi", "Two"] and not chat.session.state.busy)


async def test_ctrl_e_puts_the_last_message_into_the_prompt_and_keeps_what_stood_there(
    chatting: Chatting,
) -> None:
    async with chatting() as chat:
        await chat.ask("wrong")
        await chat.type("half a thought")
        await chat.press("ctrl+e")
        assert chat.screen.prompt.text == "wrong" and chat.texts == kept(chat) == ["wrong", "Yes."]
        await chat.press("up")
        assert chat.screen.prompt.text == "half a thought"


@pytest.mark.parametrize("keys", [["escape"], ["ctrl+n"], ["ctrl+e", "escape"]])
async def test_an_edit_that_is_given_up_loses_nothing(chatting: Chatting, keys: list[str]) -> None:
    async with chatting() as chat:
        await chat.ask("wrong")
        saved = kept(chat)
        await chat.type("half a thought")
        assert not chat.screen.actions.allows("stop")
        await chat.press("ctrl+e")
        words = chat.screen.prompt.border_subtitle
        assert words == "editing your last message · Esc leaves it as it was"
        assert chat.screen.actions.allows("stop")
        await chat.type("")
        await chat.press(*keys)
        assert chat.screen.prompt.text == "half a thought" and not chat.screen.prompt.border_subtitle
        store = chat.session.record.store
        assert store is not None and [m.text for m in store.load(store.list()[0].id).messages] == saved
        assert chat.texts == ([] if "ctrl+n" in keys else saved)
        await chat.ask("next")
        assert chat.texts == [*([] if "ctrl+n" in keys else saved), "next", "Yes."]


async def test_an_edited_message_is_sent_in_the_place_of_the_last(chatting: Chatting, script: Script) -> None:
    async with chatting() as chat:
        await send_an_edit(chat, script)
        assert not chat.screen.prompt.border_subtitle  # Esc stops now
        await chat.press("escape")
        await chat.state("ready")
        assert chat.texts == kept(chat) == ["wrong", "Yes."] and chat.screen.prompt.text == "right"
        assert chat.screen.prompt.border_subtitle
        await chat.press("enter")
        await chat.until(lambda: chat.texts == ["right", "Yes."] and not chat.session.state.busy)
        assert kept(chat) == chat.texts and not chat.screen.prompt.border_subtitle


async def test_what_is_typed_while_an_edited_message_is_read_is_no_edit(
    chatting: Chatting, script: Script
) -> None:
    async with chatting() as chat:
        await send_an_edit(chat, script)
        await chat.type("and more")
        await chat.press("escape")
        await chat.state("ready")
        await chat.ask("and more")
        assert chat.texts == kept(chat) == ["wrong", "Yes.", "and more", "Yes."]


@pytest.mark.parametrize("key", ["ctrl+r", "ctrl+e"])
async def test_an_edit_that_is_asked_or_edited_again_stays_one(
    chatting: Chatting, script: Script, key: str
) -> None:
    async with chatting() as chat:
        await send_an_edit(chat, script)
        await chat.type("and more")
        await chat.press(key)
        if key == "ctrl+e":
            await chat.until(lambda: chat.screen.prompt.text == "right")
            assert chat.texts == kept(chat) == ["wrong", "Yes."] and chat.session.is_editing
            await chat.press("enter")
        await chat.until(lambda: chat.texts == ["right", "Yes."] and not chat.session.state.busy)
        assert kept(chat) == ["right", "Yes."] and not chat.session.is_editing
        assert chat.screen.prompt.text == ("and more" if key == "ctrl+r" else "")


async def test_ctrl_y_copies_the_answer_without_rejected_text(chatting: Chatting, script: Script) -> None:
    script.answer(say("One", " [b]two", "\x1b[31m three"))
    async with chatting() as chat:
        await chat.press("ctrl+y")
        assert chat.told[-1] == "There is no answer yet that could be copied."
        await chat.ask()
        await chat.press("ctrl+y")
        assert chat.app.clipboard == "One [b]two\x1b[31m three"


async def test_ctrl_c_copies_a_selection_else_stops_else_says_how_to_quit(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    async with chatting() as chat:
        await chat.press("ctrl+c")
        assert chat.told[-1] == "Ctrl+Q quits."
        await chat.type("copy me")
        chat.screen.prompt.select_all()
        await chat.press("ctrl+c")
        assert chat.app.clipboard == "copy me"
        script.answer(plain("One"), gate)
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        await chat.press("ctrl+c")
        await chat.state("stopped")


async def test_alt_i_shows_the_answer_in_numbers(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.press("alt+i")
        assert top(chat) == "StatsScreen"
        await chat.press("escape")
        assert top(chat) == "ChatScreen"


# -- speculation and sampling


async def test_f4_turns_speculation_off_and_on_for_the_next_answer(
    chatting: Chatting, script: Script
) -> None:
    async with chatting() as chat:
        await chat.press("f4")
        await chat.ask()
        await chat.press("f4")
        await chat.ask()
        assert [request.decoding.draft_max for request in script.requests] == [0, 32]
        assert chat.told[-2:] == ["Speculation is off.", "Speculation is on."]


async def test_f4_in_an_answer_says_that_it_holds_from_the_next_one_on(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    script.answer(plain("One"), gate)
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        await chat.press("f4")
        assert chat.told[-1] == "Speculation is off. It holds from the next answer on."
        gate.open()
        await chat.state("ready")


# -- what is shown


async def test_f2_shows_rendered_markdown_without_rejected_text_and_back(
    chatting: Chatting, script: Script
) -> None:
    script.answer(say("# Title\n\n", "Some ", "**bold** ", "text."))
    async with chatting() as chat:
        await chat.ask()
        await chat.press("f2")
        view = chat.screen.rendered
        assert view is not None and not chat.screen.tokens.display
        await chat.until(lambda: view.query("MarkdownH1"))
        shown = "\n".join(str(block.render()) for block in view.query("MarkdownBlock, Static"))
        assert "Some bold text." in shown and " no" not in shown
        await chat.press("f2")
        assert chat.screen.tokens.display and not view.display
        await chat.press("f2")
        assert chat.screen.rendered is view and view.display


async def test_the_rendered_view_follows_an_answer(chatting: Chatting, script: Script) -> None:
    gate = Gate()
    script.answer(plain("One"), gate, plain(" two"))
    async with chatting(rendered="on") as chat:
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        gate.open()
        await chat.state("ready")
        await chat.until(
            lambda: "One two" in "".join(str(b.render()) for b in chat.screen.query("MarkdownBlock"))
        )


async def test_f3_hides_rejected_tokens_and_shows_them_again(chatting: Chatting) -> None:
    async with chatting() as chat:
        seen = [chat.screen.tokens.show_rejected]
        for _ in range(2):
            await chat.press("f3")
            seen.append(chat.screen.tokens.show_rejected)
        assert seen == [True, False, True]


async def test_f6_walks_over_tokens_and_esc_leaves(chatting: Chatting, script: Script) -> None:
    script.answer(say("One", " two", " three"))
    async with chatting() as chat:
        await chat.ask()
        await chat.press("f6")
        tokens = chat.screen.tokens
        assert chat.screen.is_inspecting and tokens.has_focus
        first = tokens.cursor
        await chat.press("left")
        assert first is not None and tokens.cursor is not None and tokens.cursor < first
        assert chat.screen.query_one("#inspect").display
        await chat.press("escape")
        assert not chat.screen.is_inspecting and chat.screen.prompt.has_focus and tokens.cursor is None


@pytest.mark.parametrize("key", ["ctrl+r", "ctrl+n"])
async def test_a_token_that_is_gone_is_not_told_of_and_the_arrows_walk_on(
    chatting: Chatting, script: Script, key: str
) -> None:
    script.answer(say("One", " two", " three"))
    script.answer(say("Four", " five", " six"))
    async with chatting() as chat:
        await chat.ask()
        await chat.press("f6")
        bar, tokens = chat.screen.query_one("#inspect"), chat.screen.tokens
        assert "three" in str(bar.render())
        await chat.press(key)
        if key == "ctrl+n":
            await chat.ask()
            tokens.focus()
        await chat.until(lambda: chat.texts == ["Hi", "Four five six"] and not chat.session.state.busy)
        assert str(bar.render()) == "Choose a token with the arrow keys or the mouse."
        for arrow in ("left", "up", "home"):
            tokens.cursor = None
            await chat.press(arrow)
            assert tokens.cursor is not None and "round" in str(bar.render()), arrow


async def test_a_cursor_that_moved_before_esc_does_not_go_on_with_inspecting(
    chatting: Chatting, script: Script
) -> None:
    script.answer(say("One", " two", " three"))
    async with chatting() as chat:
        await chat.ask()
        await chat.press("f6")
        chat.screen.tokens.move_cursor(-1)  # which is told only after
        chat.screen.inspect(False)
        await chat.settle()
        assert not chat.screen.is_inspecting and chat.screen.prompt.has_focus


async def test_while_inspecting_answers_come_with_alternatives(chatting: Chatting, script: Script) -> None:
    async with chatting() as chat:
        chat.session.num_alternatives = 0  # the setting that keeps none otherwise
        await chat.ask()
        await chat.press("f6")
        chat.screen.prompt.focus()
        await chat.ask()
        assert [request.inspect for request in script.requests] == [0, 5]


async def test_f8_marks_tokens_with_signs(chatting: Chatting) -> None:
    async with chatting() as chat:
        await chat.press("f8")
        assert chat.screen.tokens.glyphs


async def test_the_page_keys_scroll_the_conversation_from_the_prompt(
    chatting: Chatting, script: Script
) -> None:
    script.answer(plain(*(f"line {i}\n" for i in range(200))))
    async with chatting() as chat:
        await chat.ask()
        tokens = chat.screen.tokens
        await chat.until(lambda: tokens.scroll_offset.y > 100)
        end = tokens.scroll_offset.y
        await chat.press("pageup")
        assert tokens.scroll_offset.y < end and not tokens.at_end
        await chat.press("ctrl+home")
        assert tokens.scroll_offset.y == 0
        await chat.press("pagedown")
        assert tokens.scroll_offset.y > 0
        await chat.press("ctrl+end")
        assert tokens.scroll_offset.y == end and tokens.at_end
        assert chat.screen.prompt.has_focus


# -- the program


@pytest.mark.parametrize(
    ("key", "screen"), [("f1", "HelpScreen"), ("ctrl+p", "Palette"), ("ctrl+t", "Palette")]
)
async def test_these_keys_open_a_screen_that_esc_closes(chatting: Chatting, key: str, screen: str) -> None:
    async with chatting() as chat:
        await chat.press(key)
        assert top(chat) == screen
        await chat.press("escape")
        await chat.until(lambda: top(chat) == "ChatScreen")


async def test_ctrl_q_quits_whatever_is_going_on(chatting: Chatting, script: Script) -> None:
    gate = Gate()
    script.answer(plain("One"), gate)
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        await chat.press("ctrl+q")
        await chat.until(lambda: not chat.app.is_running)
    assert script.num_closed >= 1 and chat.app.bug is None


# -- other keys


async def test_an_action_can_have_another_key(chatting: Chatting, tmp_path: Path) -> None:
    Path("edge-spec.toml").write_text('[keys]\nspeculation = "ctrl+x"\ncopy = []\n')
    async with chatting() as chat:
        await chat.press("f4")
        assert chat.session.settings.speculating
        await chat.press("ctrl+x")
        assert not chat.session.settings.speculating
        assert chat.screen.key("speculation") == "Ctrl+X" and chat.screen.key("copy") == "/copy"


@pytest.mark.parametrize("over", ["", "f1"])
async def test_the_keys_to_quit_can_be_others_and_quit_from_any_screen(chatting: Chatting, over: str) -> None:
    Path("edge-spec.toml").write_text('[keys]\nquit = "ctrl+x"\n')
    async with chatting() as chat:
        if over:
            await chat.press(over)
            assert top(chat) == "HelpScreen"
        await chat.press("ctrl+q")
        assert chat.app.is_running
        await chat.press("ctrl+x")
        await chat.until(lambda: not chat.app.is_running)


async def test_quitting_can_have_no_key_and_its_key_another_action(chatting: Chatting) -> None:
    Path("edge-spec.toml").write_text('[keys]\nspeculation = "ctrl+q"\n')
    async with chatting() as chat:
        await chat.press("ctrl+q")
        assert chat.app.is_running and not chat.session.settings.speculating
        Path("edge-spec.toml").write_text("[keys]\nquit = []\n")
        chat.screen.settings_saved()
        await chat.press("ctrl+q")
        assert chat.app.is_running and not chat.session.settings.speculating
        Path("edge-spec.toml").write_text("")
        chat.screen.settings_saved()
        await chat.press("ctrl+q")
        await chat.until(lambda: not chat.app.is_running)


@pytest.mark.parametrize(
    ("written", "code"),
    [("Esc", "escape"), ("PgUp", "pageup"), ("Del", "delete"), ("^P", "ctrl+p"), ("?", "question_mark"),
     ("↑", "up"), ("F5", "f5"), ("+", "plus"), ("Ctrl++", "ctrl+plus"), ("^^", "ctrl+circumflex_accent"),
     ("shift+ctrl+Home", "ctrl+shift+home"), ("equals_sign", "equals_sign"), ("Return", "enter"),
     ("x", "x")],
)  # fmt: skip
def test_a_key_may_be_written_as_it_is_shown(written: str, code: str) -> None:
    assert resolve_keys({"stop": [written]}).by_command["stop"] == (code,)
    assert key_code(key_name(code)) == code


def test_every_key_of_the_table_can_be_written_as_it_is_shown() -> None:
    for key in (key for command in COMMANDS for key in command.keys.split(",")):
        assert key_code(key) == key_code(key_name(key)) == key


def test_a_key_that_does_not_exist_is_said_and_takes_none_away() -> None:
    keys = resolve_keys({"stop": ["esk"], "help": ["strg+h", "f11"], "copy": []})
    assert keys.problems == (
        '[keys] gives "stop" the key "esk", which does not exist.',
        '[keys] gives "help" the key "strg+h", which does not exist.',
    )
    assert [keys.by_command[name] for name in ("stop", "help", "copy")] == [("escape",), ("f11",), ()]


def test_a_key_goes_to_who_names_it() -> None:
    keys = resolve_keys({"stop": ["f5"]})
    assert keys.by_command["stop"] == ("f5",) and keys.by_command["models"] == ()
    assert keys.problems == ()


def test_what_cannot_be_of_the_users_keys_is_said() -> None:
    keys = resolve_keys({"stopp": ["f5"], "stop": ["f7"], "help": ["f7"]})
    assert keys.problems == (
        '[keys] names "stopp", which is no action; did you mean "stop"?',
        '[keys] gives f7 to both "stop" and "help"; it is for "stop".',
    )
    assert keys.by_command["help"] == ()


def test_no_key_is_given_twice() -> None:
    keys = [key for command in COMMANDS for key in command.keys.split(",")]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("key", "name"), [("escape", "Esc"), ("f2", "F2"), ("ctrl+n", "Ctrl+N"), ("alt+k", "Alt+K"), ("up", "↑")]
)
def test_keys_have_the_names_that_people_use(key: str, name: str) -> None:
    assert key_name(key) == name


async def test_the_last_line_shows_keys_and_esc_only_when_it_does_something(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    script.answer(gate, plain("x"))

    def footer(chat: Chat) -> list[str]:
        return [f"{key.key_display} {key.description}" for key in chat.screen.query("FooterKey")]  # type: ignore[attr-defined]

    async with chatting() as chat:
        usual = ["F2 rendered", "F3 rejected", "F4 speculation", "F5 models", "^P commands", "F1 help"]
        await chat.until(lambda: footer(chat) == usual)
        await chat.enter("Hi")
        await chat.until(lambda: footer(chat) == ["Esc stop", *usual])
        gate.open()
        await chat.until(lambda: footer(chat) == usual)


@pytest.mark.parametrize(
    ("keys", "screen"),
    [(("f5", "ctrl+o"), "ModelScreen"), (("f5", "f5", "f5"), "ModelScreen"), (("f1", "alt+i"), "HelpScreen"),
     (("alt+i", "f9", "ctrl+s"), "StatsScreen")],
)  # fmt: skip
async def test_keys_in_one_burst_open_one_screen(
    chatting: Chatting, keys: tuple[str, ...], screen: str
) -> None:
    async with chatting() as chat:
        await chat.ask()
        for key in keys:
            chat.app.post_message(events.Key(key, None))
        await chat.until(lambda: len(chat.app.screen_stack) > 2)
        await chat.settle()
        names = [type(one).__name__ for one in chat.app.screen_stack]
        assert names[-1] == screen and len(names) == 3


async def test_escape_in_one_burst_with_the_key_of_a_screen_stops_no_answer(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    script.answer(list(plain("One")), gate)
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        for key in ("f1", "escape"):
            chat.app.post_message(events.Key(key, None))
        await chat.until(lambda: len(chat.app.screen_stack) > 2)
        assert chat.session.state.name == "streaming"
        await chat.press("escape", "escape")
        await chat.state("stopped")
