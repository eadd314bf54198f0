"""What the chat looks like, at both sizes, dark and light. `pytest --snapshot-update` renews the pictures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from edge_spec import EngineCrashedError, Loading, resolve_settings
from tests.gguf_maker import make_gguf
from tests.tui.conftest import Chat
from tests.tui.fake_host import SPEC, End, Gate, Measuring, Reading, Round, Script, plain
from tui.app import ChatApp

WIDE, NARROW = (120, 36), (80, 24)
QUESTION = "Write a function that merges two sorted lists."
ANSWER = [
    *plain("def"),
    Round((" merge", "(", "left"), 3, ", right"),
    Round(("):", "\n    ", "result"), 2, '"""'),
    Round(("Merge", " two", " already"), 2, " sorted"),
    Round((" lists", ".", '"""'), 3, "\n"),
    Round(("    result", " =", " []"), 3, "\n"),
    Round(("    i", " =", " 0"), 2, " j"),
    Round((" =", " 0", "\n"), 3, "    while"),
    Round((" i", " <", " n"), 2, " len"),
    Round(("(left", ")", ":"), 2, " and"),
    Round((" j", " <", " len"), 3, "(right):"),
]

Run = Callable[[Chat, Script], Awaitable[object]]


async def answered(chat: Chat, script: Script) -> None:
    script.answer(list(plain(*"abcde", wall_s=0.04)))
    await chat.press("f4")
    await chat.ask("Count.")
    await chat.press("f4")
    script.answer(list(ANSWER))
    await chat.ask(QUESTION)


async def loading(chat: Chat, script: Script) -> None:
    gate = Gate()
    script.loads.append([Loading("draft", 0.4), gate])
    make_gguf(Path("other.gguf"))
    await chat.enter("/model other.gguf")
    await chat.until(lambda: "draft" in chat.words)


async def calibrating(chat: Chat, script: Script) -> None:
    script.answer([Measuring(0.4, Gate())])
    await chat.enter(QUESTION)
    await chat.until(lambda: "40%" in chat.words)


async def reading(chat: Chat, script: Script) -> None:
    script.prompt_tokens = 3000
    script.answer([Reading(1200, 3000), Gate()])
    await chat.enter(QUESTION)
    await chat.until(lambda: "40%" in chat.words)


async def streaming(chat: Chat, script: Script) -> None:
    script.answer([*ANSWER, Round((" +", " 1", "\n"), 3, "x", hold=Gate())])
    await chat.enter(QUESTION)
    await chat.until(
        lambda: (
            chat.session.fold is not None
            and chat.session.fold.stats.rounds == len(ANSWER)
            and chat.session.fold.block.spans[-1].kind == "drafted"
        )
    )


async def stopped(chat: Chat, script: Script) -> None:
    await streaming(chat, script)
    await chat.press("escape")
    await chat.state("stopped")


async def full(chat: Chat, script: Script) -> None:
    script.answer([*ANSWER, End("context")])
    await chat.ask(QUESTION)


async def crashed(chat: Chat, script: Script) -> None:
    words = "The engine was killed (SIGKILL). The conversation is kept, and the engine is started again."
    script.answer([*ANSWER[:4], EngineCrashedError(words, "SIGKILL")])
    script.loads.append([Loading("target", 0.6), Gate()])
    await chat.enter(QUESTION)
    await chat.until(lambda: "60%" in chat.words)


async def speculation_off(chat: Chat, script: Script) -> None:
    await chat.enter("/draft none")
    await chat.state("ready")
    script.answer(list(plain("Plain", " text", ".")))
    await chat.ask(QUESTION)


async def rendered(chat: Chat, script: Script) -> None:
    script.answer(
        list(plain("Here it is:\n\n", "```python\n", "def merge(left, right):\n    return 1\n", "```\n"))
    )
    await chat.ask(QUESTION)
    await chat.press("f2")
    await chat.pilot.pause(0.3)


async def inspecting(chat: Chat, script: Script) -> None:
    chat.session.num_alternatives = 5
    script.answer(list(ANSWER))
    await chat.ask(QUESTION)
    await chat.press("f6", "left", "left")


async def glyphs(chat: Chat, script: Script) -> None:
    await chat.press("f8")
    await streaming(chat, script)


async def commands(chat: Chat, script: Script) -> None:
    await chat.press("slash", "r", "e", "down")


async def help_screen(chat: Chat, script: Script) -> None:
    await chat.press("f1")


LOOKS: list[tuple[Run, tuple[int, int], str]] = [
    *((answered, size, theme) for size in (WIDE, NARROW) for theme in ("textual-dark", "textual-light")),
    *((look, WIDE, "textual-dark") for look in (loading, reading, stopped, full, speculation_off, rendered)),
    *((calibrating, size, "textual-dark") for size in (WIDE, NARROW)),
    *(
        (look, size, "textual-dark")
        for look in (streaming, crashed, inspecting, commands)
        for size in (WIDE, NARROW)
    ),
    (streaming, NARROW, "textual-light"),
    (glyphs, WIDE, "textual-dark"),
    (help_screen, WIDE, "textual-light"),
    (help_screen, NARROW, "textual-dark"),
]


def name(look: tuple[Run, tuple[int, int], str]) -> str:
    run, size, theme = look
    return f"{run.__name__}-{'wide' if size == WIDE else 'narrow'}-{theme.removeprefix('textual-')}"


@pytest.mark.parametrize("look", LOOKS, ids=name)
def test_the_chat_looks_like_its_picture(snap_compare, script: Script, tmp_path: Path, look) -> None:  # type: ignore[no-untyped-def]
    run, size, theme = look
    given = {"model": SPEC.target, "draft-model": SPEC.draft, "theme": theme}
    app = ChatApp(lambda: resolve_settings(given), path=tmp_path / "chats.sqlite3", make_host=script.host)

    async def before(pilot: Pilot[None]) -> None:
        await pilot.pause()
        chat = Chat(app, pilot)
        await chat.state("ready")
        await run(chat, script)
        app.clear_notifications()
        chat.screen.show_gauges()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=before)
