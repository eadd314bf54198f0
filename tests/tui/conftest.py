"""Fixtures of the interface's tests: folders of their own, a scripted engine, a log that must stay empty."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.content import Content
from textual.pilot import Pilot

from edge_spec import resolve_settings
from tests.tui.fake_host import SPEC, Script
from tui.app import ChatApp

PATIENCE_S = 10.0


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of the person who runs the tests is read or written, and no setting of theirs counts."""
    for name in [name for name in os.environ if name.startswith("EDGE_SPEC_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("NO_COLOR", "COLORTERM", "TEXTUAL_ANIMATIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def script() -> Script:
    return Script()


class _Bugs(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(autouse=True)
def no_bugs() -> Iterator[list[logging.LogRecord]]:
    """A handler that fails is caught and logged, so that the chat goes on; here that fails the test.

    A test that means it to happen empties the list.
    """
    handler = _Bugs()
    logging.getLogger("tui").addHandler(handler)
    yield handler.records
    logging.getLogger("tui").removeHandler(handler)
    assert [record.getMessage() + str(record.exc_info) for record in handler.records] == []


class Chat:
    """A chat in a terminal that a test drives."""

    def __init__(self, app: ChatApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.screen = app.chat
        self.session = app.chat.session

    async def until(self, what: Callable[[], object]) -> None:
        """Let the program run until `what()` is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < deadline, "it did not come to that"
            await asyncio.sleep(0.002)
        await self.settle()

    async def settle(self) -> None:
        """Let everything be done that was asked of the widgets, and what they asked of others.

        Pilot waits until the process uses no CPU; on a busy machine that takes much longer.
        """
        for _ in range(3):
            await self.pilot._wait_for_screen()
        self.app.screen._on_timer_update()

    async def state(self, name: str) -> None:
        await self.until(lambda: self.session.state.name == name)

    async def type(self, text: str) -> None:
        """Put a text into the prompt, as a paste would."""
        self.screen.prompt.put(text)
        await self.settle()

    async def enter(self, text: str) -> None:
        """Type a text and press Enter."""
        await self.type(text)
        await self.press("enter")

    async def ask(self, text: str = "Hi") -> None:
        """A whole turn."""
        count = len(self.session.turns)
        await self.enter(text)
        await self.until(lambda: not self.session.state.busy and len(self.session.turns) == count + 2)

    async def press(self, *keys: str) -> None:
        for key in keys:
            character = {"space": " ", "slash": "/"}.get(key, key if len(key) == 1 else None)
            self.app.post_message(events.Key(key, character))
            await self.settle()

    @property
    def texts(self) -> list[str]:
        """What was said, without notes."""
        return [turn.block.text for turn in self.session.turns]

    @property
    def told(self) -> list[str]:
        """The notices, oldest first."""
        return [notification.message for notification in self.app._notifications]

    @property
    def words(self) -> str:
        """What the prompt's frame says."""
        return Content.from_markup(self.screen.prompt.border_title or "").plain


Chatting = Callable[..., AbstractAsyncContextManager[Chat]]


@pytest.fixture
def chatting(script: Script, tmp_path: Path) -> Chatting:
    """Opens a chat over the script's hosts; flags are as on the command line."""

    @asynccontextmanager
    async def chat(
        *, size: tuple[int, int] = (120, 36), loaded: bool = True, toasts: bool = False, **flags: str
    ) -> AsyncIterator[Chat]:
        given = {"model": SPEC.target, "draft-model": SPEC.draft}
        given.update({name.replace("_", "-"): value for name, value in flags.items()})
        app = ChatApp(lambda: resolve_settings(given), path=tmp_path / "chats.sqlite3", make_host=script.host)
        async with app.run_test(size=size, notifications=toasts) as pilot:
            await pilot.pause()
            one = Chat(app, pilot)
            if loaded:
                await one.state("ready")
            yield one

    return chat
