"""Every state of the chat has its own look and words, and what it says can be done is so."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from textual import events
from textual.widgets._toast import Toast

from edge_spec import EngineCrashedError, Loading, Notice, PairSpec, PromptTooLongError, SettingError
from edge_spec.errors import EngineError, ModelFileError
from tests.tui.conftest import Chatting
from tests.tui.fake_host import End, Gate, Measuring, Reading, Round, Script, pair_info, plain
from tui.chat.states import Name, State, words


def looks(chat) -> set[str]:  # type: ignore[no-untyped-def]
    return {name for name in chat.screen.prompt.classes if name.startswith("-")}


async def test_loading_shows_each_model_and_how_far_it_is(chatting: Chatting, script: Script) -> None:
    target, draft = Gate(), Gate()
    script.loads.append([Loading("target", 0.5), target, Loading("draft", 0.25), draft])
    async with chatting(loaded=False) as chat:
        await chat.until(lambda: chat.words == "loading the target ██████░░░░░░ 50%")
        assert "-loading" in looks(chat)
        target.open()
        await chat.until(lambda: chat.words == "loading the draft ███░░░░░░░░░ 25%")
        draft.open()
        await chat.state("ready")
        assert chat.words == "ready" and "-loading" not in looks(chat)


async def test_one_can_type_and_send_while_it_loads(chatting: Chatting, script: Script) -> None:
    gate = Gate()
    script.loads.append([gate])
    script.answer(plain("Hello"))
    async with chatting(loaded=False) as chat:
        await chat.state("loading")
        await chat.press("H", "i", "enter")
        assert chat.screen.prompt.text == "Hi" and not script.requests
        assert chat.told[-1] == "This is sent as soon as the models are loaded."
        gate.open()
        await chat.until(lambda: chat.texts == ["Hi", "Hello"])
        assert chat.screen.prompt.text == ""


@pytest.mark.parametrize("pasted", [False, True])
async def test_what_arrives_together_with_enter_is_sent_once_loaded(
    chatting: Chatting, script: Script, pasted: bool
) -> None:
    gate = Gate()
    script.loads.append([gate])
    async with chatting(loaded=False) as chat:
        await chat.state("loading")
        text = [events.Paste("Hi")] if pasted else [events.Key("H", "H"), events.Key("i", "i")]
        for event in (*text, events.Key("enter", None)):
            chat.app.post_message(event)
        await chat.until(lambda: chat.told)
        await chat.settle()
        gate.open()
        await chat.until(lambda: chat.texts == ["Hi", "Yes."])
        assert chat.screen.prompt.text == ""


async def test_a_message_typed_ahead_is_for_the_pair_that_was_chosen_last(
    chatting: Chatting, script: Script
) -> None:
    gate, other = Gate(), Gate()
    script.loads += [[gate], [other]]
    script.answer(plain("Hello"))
    async with chatting(loaded=False) as chat:
        await chat.until(gate.reached.is_set)
        await chat.enter("Hi")
        assert chat.session.spec is not None
        chat.screen.load(PairSpec("other.gguf", None, {}))
        gate.open()
        await chat.until(other.reached.is_set)
        assert chat.session.info is None and not script.requests
        other.open()
        await chat.until(lambda: chat.texts == ["Hi", "Hello"])
        assert chat.session.info is not None and chat.session.info.target_file == "other.gguf"


async def test_what_is_changed_after_enter_waits_for_another_enter(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    script.loads.append([gate])
    async with chatting(loaded=False) as chat:
        await chat.press("H", "i", "enter", "!")
        gate.open()
        await chat.state("ready")
        assert chat.screen.prompt.text == "Hi!" and not script.requests


async def test_a_long_prompt_shows_how_much_of_it_is_read(chatting: Chatting, script: Script) -> None:
    gate, script.prompt_tokens = Gate(), 1000
    script.answer(Reading(250, 1000), gate, plain("x"))
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(lambda: chat.session.state == State("reading", part=(250, 1000)))
        assert chat.words == "reading the prompt ███░░░░░░░░░ 25% of 1000 tokens · Esc stops"
        assert "-reading" in looks(chat)
        gate.open()
        await chat.state("ready")


async def test_measuring_is_told_of_and_skipped_by_the_key_that_stops(
    chatting: Chatting, script: Script
) -> None:
    measured, gate = Gate(), Gate()
    script.answer([Measuring(0.5, measured), Reading(5, 20), gate, *plain("x")])
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(lambda: chat.session.state == State("calibrating", part=(50, 100)))
        assert chat.words == "measuring what decodes cost here ██████░░░░░░ 50% · Esc skips it"
        assert "-calibrating" in looks(chat)
        await chat.press("escape")
        await chat.until(lambda: chat.session.state.name == "reading")
        assert script.num_skipped == 1
        gate.open()
        await chat.state("ready")
        assert chat.texts == ["Hi", "x"]


async def test_what_ends_an_answer_ends_it_while_costs_are_measured(
    chatting: Chatting, script: Script
) -> None:
    script.answer([Measuring(0.5, Gate()), *plain("x")])
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(lambda: chat.session.state.name == "calibrating")
        await chat.press("ctrl+n")
        await chat.until(lambda: not chat.session.state.busy)
        assert chat.texts == [] and script.num_skipped == 0


async def test_a_short_prompt_is_read_without_a_bar(chatting: Chatting, script: Script) -> None:
    gate = Gate()
    script.answer(Reading(5, 20), gate, plain("x"))
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        assert chat.words == "reading the prompt · Esc stops"
        gate.open()
        await chat.state("ready")


async def test_streaming_shows_a_guess_before_its_verdict(chatting: Chatting, script: Script) -> None:
    gate = Gate()
    script.answer(plain("One"), Round((" two", " no"), 1, " three", hold=gate))
    async with chatting() as chat:
        await chat.enter("Hi")
        blocks = chat.session.transcript.blocks
        await chat.until(lambda: len(blocks) == 2 and len(blocks[1].spans) == 3)
        assert [span.kind for span in blocks[1].spans] == ["plain", "drafted", "drafted"]
        assert chat.words == "answering · Esc stops" and "-streaming" in looks(chat)
        gate.open()
        await chat.state("ready")
        assert chat.texts[-1] == "One two three"


@pytest.mark.parametrize("where", ["reading", "drafted", "streaming"])
async def test_esc_stops_wherever_the_answer_is(chatting: Chatting, script: Script, where: str) -> None:
    gate = Gate()
    parts = {
        "reading": [Reading(5, 20), gate, *plain("x")],
        "drafted": [*plain("One"), Round((" two",), 1, " three", hold=gate)],
        "streaming": [*plain("One"), gate, *plain("x")],
    }
    script.answer(parts[where])
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        await chat.press("escape")
        await chat.until(lambda: not chat.session.state.busy)
        if where == "reading":
            assert chat.texts == [] and chat.screen.prompt.text == "Hi"
            assert chat.told[-1] == "There was no answer yet; your message is back in the prompt."
        else:
            assert chat.texts == ["Hi", "One"]
            assert chat.words == "stopped, the partial answer is kept · Ctrl+R asks again"
            assert "-stopped" in looks(chat)
        assert all(span.kind != "drafted" for b in chat.session.transcript.blocks for span in b.spans)


async def test_a_question_given_back_does_not_overwrite_what_is_being_typed(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    script.answer(gate)
    async with chatting() as chat:
        await chat.enter("First")
        await chat.until(gate.reached.is_set)
        await chat.press("N", "e", "w", "escape")
        await chat.state("ready")
        assert chat.screen.prompt.text == "New"
        assert chat.told[-1] == "There was no answer yet; ↑ brings your message back."
        await chat.press("up")
        assert chat.screen.prompt.text == "First"


async def test_the_end_of_the_tokens_allowed_says_how_to_allow_more(
    chatting: Chatting, script: Script
) -> None:
    script.answer(plain("x"), End("length"))
    async with chatting(max_tokens="7") as chat:
        await chat.ask()
        assert chat.words == "cut off after 7 tokens · Alt+X allows more"


async def test_a_full_context_says_what_can_be_done(chatting: Chatting, script: Script) -> None:
    script.answer(plain("x"), End("context"))
    async with chatting() as chat:
        await chat.ask()
        assert chat.words == (
            "the context is full · Ctrl+N new chat · Ctrl+E edit · or start with a larger --ctx-size"
        )
        assert "-full" in looks(chat)


async def test_a_prompt_that_does_not_fit_is_a_full_context_and_stays_in_the_prompt(
    chatting: Chatting, script: Script
) -> None:
    script.answer(PromptTooLongError("The prompt has 5000 tokens, but the context holds 4096."))
    async with chatting() as chat:
        await chat.enter("Long text")
        await chat.state("full")
        assert chat.screen.prompt.text == "Long text"
        assert chat.session.transcript.blocks[-1].text.startswith("The prompt has 5000 tokens")


async def test_an_engine_error_is_shown_and_the_prompt_keeps_its_text(
    chatting: Chatting, script: Script
) -> None:
    script.answer(EngineError("llama_decode failed with [red]code 1[/red]."))
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.state("error")
        assert chat.screen.prompt.text == "Hi" and "-error" in looks(chat)
        assert chat.session.transcript.blocks[-1].text == "llama_decode failed with [red]code 1[/red]."
        await chat.ask("Hi")
        assert chat.texts == ["Hi", "Yes."]


async def test_a_crash_is_said_the_engine_restarted_and_the_next_prompt_answered(
    chatting: Chatting, script: Script
) -> None:
    script.answer(plain("One", " two"), EngineCrashedError("The engine was killed (SIGKILL).", "SIGKILL"))
    gate = Gate()
    async with chatting() as chat:
        script.loads.append([Loading("target", 0.5), gate])
        await chat.enter("Hi")
        await chat.until(lambda: "50%" in chat.words)
        assert chat.words == "the engine crashed (SIGKILL) and is being restarted ██████░░░░░░ 50%"
        assert "-crashed" in looks(chat)
        gate.open()
        await chat.state("restarted")
        assert chat.words == "the engine crashed and was restarted · the conversation was kept"
        assert chat.texts == ["Hi", "One two"] and script.num_loads == 2
        assert [b.role for b in chat.session.transcript.blocks] == ["you", "model", "error"]
        await chat.ask("Go on")
        assert chat.texts == ["Hi", "One two", "Go on", "Yes."]
        history = script.requests[-1].history
        assert history is not None and history.num_messages == 2


async def test_a_crash_before_the_first_token_gives_the_message_back(
    chatting: Chatting, script: Script
) -> None:
    script.answer(EngineCrashedError("The engine ended.", None))
    async with chatting() as chat:
        await chat.enter("Hi")
        await chat.state("restarted")
        assert chat.screen.prompt.text == "Hi" and chat.texts == []


async def test_a_crash_while_loading_is_not_tried_again_by_itself(chatting: Chatting, script: Script) -> None:
    script.loads.append([EngineCrashedError("It died while loading.", "SIGABRT")])
    async with chatting(loaded=False) as chat:
        await chat.state("load-crashed")
        assert chat.words == "the engine crashed while loading, see above · Enter tries once more"
        assert script.num_loads == 1 and "-load-crashed" in looks(chat)


@pytest.mark.parametrize("how", ["new", "edited", "answered again"])
async def test_what_is_asked_of_an_engine_that_was_killed_is_asked_again_once_it_is_back(
    chatting: Chatting, script: Script, how: str
) -> None:
    async with chatting() as chat:
        await chat.ask("First")
        script.killed = 1
        if how == "edited":
            await chat.press("ctrl+e")
        if how == "answered again":
            await chat.press("ctrl+r")
        else:
            await chat.enter("Second")
        await chat.until(lambda: len(script.requests) == 3 and not chat.session.state.busy)
        expected = {"new": ["First", "Yes.", "Second"], "edited": ["Second"], "answered again": ["First"]}
        assert chat.texts == [*expected[how], "Yes."] and chat.screen.prompt.text == ""
        assert script.num_loads == 2


async def test_an_engine_that_is_killed_again_gives_the_message_back(
    chatting: Chatting, script: Script
) -> None:
    async with chatting() as chat:
        script.killed = 3
        await chat.enter("Hi")
        await chat.until(lambda: script.num_loads == 3 and chat.session.state.name == "restarted")
        assert chat.screen.prompt.text == "Hi" and chat.texts == [] and len(script.requests) == 2
        script.killed = 0
        await chat.ask("Hi")
        script.killed = 1
        await chat.enter("Ho")
        await chat.until(lambda: chat.texts == ["Hi", "Yes.", "Ho", "Yes."])


async def test_what_is_changed_while_the_engine_comes_back_is_not_sent_by_itself(
    chatting: Chatting, script: Script
) -> None:
    gate = Gate()
    async with chatting() as chat:
        script.killed = 1
        script.loads.append([gate])
        await chat.enter("Hi")
        await chat.until(gate.reached.is_set)
        await chat.press("!")
        gate.open()
        await chat.state("restarted")
        assert chat.screen.prompt.text == "Hi!" and len(script.requests) == 1


@pytest.mark.parametrize("times", [1, 2])
async def test_enter_tries_once_more_to_load_what_crashed_and_sends_then(
    chatting: Chatting, script: Script, times: int
) -> None:
    crash = EngineCrashedError("It died while loading.", "SIGABRT")
    gate = Gate()
    script.loads += [[gate, crash], *[[crash]] * (times - 1)]
    async with chatting(loaded=False) as chat:
        await chat.state("loading")
        await chat.enter("Hi")
        gate.open()
        for loads in range(1, times + 1):
            await chat.until(lambda: chat.session.state.name == "load-crashed")
            assert chat.screen.prompt.text == "Hi" and script.num_loads == loads
            await chat.press("enter")
            assert chat.told[-1] == "The models are loaded once more; this is sent as soon as they are."
            await chat.until(lambda loads=loads: script.num_loads > loads)  # type: ignore[misc]
        await chat.until(lambda: chat.texts == ["Hi", "Yes."])
        assert chat.screen.prompt.text == "" and len(script.requests) == 1
        assert {spec.target for spec in script.specs} == {"target.gguf"}


async def test_enter_with_nothing_to_send_tries_once_more_too(chatting: Chatting, script: Script) -> None:
    script.loads.append([EngineCrashedError("It died while loading.", "SIGABRT")])
    async with chatting(loaded=False) as chat:
        await chat.state("load-crashed")
        await chat.enter("/temp 0")
        assert chat.told[-1] == "temp is 0.0." and script.num_loads == 1
        await chat.press("enter")
        assert chat.told[-1] == "The models are loaded once more."
        await chat.state("ready")
        assert not script.requests


@pytest.mark.parametrize("key", ["escape", "ctrl+n"])
async def test_what_waits_to_be_sent_can_be_taken_back(chatting: Chatting, script: Script, key: str) -> None:
    gate = Gate()
    script.loads.append([gate])
    async with chatting(loaded=False) as chat:
        await chat.state("loading")
        await chat.enter("Hi")
        await chat.until(lambda: chat.screen.is_waiting)
        await chat.press(key)
        gate.open()
        await chat.state("ready")
        await chat.settle()
        assert not script.requests and chat.screen.prompt.text == "Hi"


async def test_a_load_that_fails_ends_what_waited_for_it(chatting: Chatting, script: Script) -> None:
    gate = Gate()
    script.loads.append([gate, ModelFileError("target.gguf is truncated.")])
    async with chatting(loaded=False) as chat:
        await chat.state("loading")
        await chat.enter("Hi")
        await chat.until(lambda: chat.screen.is_waiting)
        gate.open()
        await chat.state("error")
        chat.screen.load(PairSpec("other.gguf", None, {}))
        await chat.state("ready")
        await chat.settle()
        assert not script.requests and chat.screen.prompt.text == "Hi"


async def test_a_model_that_cannot_be_loaded_says_why(chatting: Chatting, script: Script) -> None:
    script.loads.append([ModelFileError("target.gguf is truncated.")])
    async with chatting(loaded=False) as chat:
        await chat.state("error")
        assert chat.session.transcript.blocks[-1].text == "target.gguf is truncated."
        assert chat.words == "no model is loaded, see above"


async def test_without_a_draft_model_what_the_text_repeats_is_drafted(
    chatting: Chatting, script: Script
) -> None:
    async with chatting(draft_max="0") as chat:
        assert script.specs == [PairSpec("target.gguf", None, script.specs[0].options)]
        assert chat.session.speculation.reason == "you turned it off"
        await chat.press("f4")
        assert chat.session.speculation.reason == "without a draft model: what the text repeats"


async def test_a_k_without_a_draft_model_drafts_nothing_and_says_so(
    chatting: Chatting, script: Script
) -> None:
    async with chatting(draft_max="0") as chat:
        await chat.enter("/k 3")
        assert not chat.session.speculation.on
        assert chat.session.speculation.reason == "there is no draft model"
        await chat.press("f4")
        assert chat.told[-1] == "There is no draft model; Alt+M chooses one."
        await chat.enter("/k auto")
        assert chat.session.speculation.on and chat.session.speculation.draft_max is None


async def test_n_grams_can_be_turned_off_and_on_again(chatting: Chatting) -> None:
    async with chatting(drafter="ngram") as chat:
        assert chat.session.spec is not None and chat.session.spec.draft is None
        assert chat.session.speculation.on
        for words in ("Speculation is off.", "Speculation is on."):
            await chat.press("f4")
            assert chat.told[-1] == words


async def test_the_notices_of_loading_and_of_answers_are_told(chatting: Chatting, script: Script) -> None:
    script.info = lambda spec: pair_info(spec, Notice("warning", "Trained on [b]2048[/b] tokens."))
    script.answer(Notice("info", "Drafting stops: it does not pay."), plain("x"))
    async with chatting() as chat:
        assert chat.told[-1] == "Trained on [b]2048[/b] tokens."
        await chat.ask()
        assert chat.told[-1] == "Drafting stops: it does not pay."


def test_every_state_has_words() -> None:
    said = [words(State(name, "detail"), str.upper) for name in get_args(Name)]
    assert all(said) and len(set(said)) == len(said) >= 13


def test_every_state_has_a_look() -> None:
    sheet = (Path(__file__).parents[2] / "tui" / "app.tcss").read_text(encoding="utf-8")
    without = [name for name in get_args(Name) if f"#prompt.-{name} " not in sheet]
    assert without == ["ready"], "which looks as the prompt does"


async def test_a_bug_in_a_handler_ends_nothing_and_is_logged(
    chatting: Chatting, script: Script, no_bugs
) -> None:  # type: ignore[no-untyped-def]
    async with chatting() as chat:

        def broken(_events: object) -> None:
            raise RuntimeError("no such luck")

        good, chat.session.see = chat.session.see, broken  # type: ignore[method-assign]
        await chat.enter("Hi")
        await chat.until(lambda: no_bugs)
        assert any("This is a bug in edge-spec: RuntimeError: no such luck" in words for words in chat.told)
        chat.session.see = good  # type: ignore[method-assign]
        chat.session.failed("given up", loading=False)
        await chat.ask("Again")
        no_bugs.clear()


async def test_settings_that_cannot_be_read_refuse_before_the_screen(tmp_path: Path) -> None:
    from tui.app import ChatApp

    def unreadable() -> None:
        raise SettingError("temp is 'hot', but it must be a number.")

    with pytest.raises(SettingError):
        ChatApp(unreadable)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_toasts_cover_no_state(chatting: Chatting, size: tuple[int, int]) -> None:
    async with chatting(size=size, toasts=True) as chat:
        for number in range(3):
            chat.screen.tell(Notice("info", f"Measuring what decodes cost here, number {number}."))
        await chat.until(lambda: len(chat.screen.query(Toast)) == 3)
        toasts = [toast.region for toast in chat.screen.query(Toast)]
        assert all(toast.area for toast in toasts)
        names = ("#title", "#panel", "#folded", "#prompt", "KeyFooter")
        said = [chat.screen.query_one(name) for name in names]
        covered = [
            one.id for one in said if one.display and any(one.region.overlaps(toast) for toast in toasts)
        ]
        assert covered == []
