"""The chat program: one screen to chat on, and what surrounds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from textual.app import SystemCommand
from textual.screen import Screen

import edge_spec
from edge_spec import EdgeSpecError, EngineHost, Notice, PairSpec, Settings
from tui.actions.all import Actions
from tui.chat.engine import Host
from tui.chat.start import first_pair
from tui.commands import BY_NAME, COMMANDS
from tui.conversations.database import ConversationError
from tui.conversations.store import ConversationStore
from tui.guard import guarded
from tui.keys import use_keys
from tui.program import Program
from tui.screens.chat import ChatScreen
from tui.themes import use_theme


class ChatApp(Program):
    """`edge-spec chat`.

    `resolve` decides the settings, and again after they were saved. `path` is the file of
    conversations, the user's unless another is given.
    """

    TITLE = "edge-spec"
    CSS_PATH = "app.tcss"

    def __init__(
        self,
        resolve: Callable[[], Settings],
        *,
        path: Path | None = None,
        make_host: Callable[[PairSpec], Host] = EngineHost,
    ) -> None:
        super().__init__()
        settings = resolve()
        self._store, problem = _opened(path)
        self._problems = [problem] if problem else []
        self.chat = ChatScreen(settings, resolve, self._store, make_host, Actions)
        use_keys(self, self.chat.key)

    def on_mount(self) -> None:
        self.push_screen(self.chat)
        use_theme(self, self.chat.settings["theme"])
        for words in (*self._problems, *self.chat.key.problems):
            self.chat.tell(Notice("warning", words))
        # The screen is up before anything is loaded.
        self.call_after_refresh(self._begin)

    def on_unmount(self) -> None:
        if self._store is not None:
            self._store.close()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: the table of commands on the chat screen, what holds anywhere elsewhere."""
        if not isinstance(screen, ChatScreen):
            yield SystemCommand("Choose colours", "", self.search_themes)
            yield SystemCommand("Quit", "", self.exit)
            return
        for command in COMMANDS:
            ways = [screen.key(command.name), command.usage]
            words = "  ".join(dict.fromkeys(way for way in ways if way))
            yield SystemCommand(command.summary, words, partial(screen.actions.run, command))

    # -- inside

    @guarded
    def _begin(self) -> None:
        """Load a pair, or let the user choose one."""
        last = None
        try:
            if self._store is not None:
                last = next((summary.models for summary in self._store.list(limit=1)), None)
            spec = first_pair(self.chat.settings, last)
            if spec is not None:
                self.chat.load(spec)
            elif edge_spec.list_models():
                self.chat.actions.run(BY_NAME["models"])
            else:
                self._welcome()
        except EdgeSpecError as error:
            self.chat.tell(Notice("warning", str(error)))

    def _welcome(self) -> None:
        from tui.screens.first_run import FirstRunScreen

        def chosen(spec: PairSpec | None) -> None:
            if spec is not None:
                self.chat.load(spec)

        self.push_screen(FirstRunScreen(self.chat.settings.load_options(), self.chat.key), chosen)


def _opened(path: Path | None) -> tuple[ConversationStore | None, str]:
    """The file of conversations, or what is wrong with it: the chat goes on without."""
    try:
        return ConversationStore(path), ""
    except ConversationError as error:
        return None, f"{error} The chat goes on without being saved."
