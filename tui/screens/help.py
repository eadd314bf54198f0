"""Keys and commands, read from the table of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Static

from tui.commands import COMMANDS, Command
from tui.screens.closing import ClosingModal

_TOKENS: Final = (
    ("accepted", "drafted, and accepted by the target"),
    ("own", "the target's own: for a rejected token, or on top"),
    ("rejected", "drafted and rejected; no part of the text"),
    ("discarded", "drafted behind a rejected one; no part of the text"),
    ("drafted", "waits for its verdict"),
)


class HelpScreen(ClosingModal[None]):
    """What can be done and how; `key` names the key of a command."""

    BINDINGS: ClassVar = [Binding("escape,f1,q", "dismiss(None)", "Close", show=False)]

    def __init__(self, key: Callable[[str], str]) -> None:
        super().__init__()
        self._key = key

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help-box") as box:
            box.border_title = "Keys and commands"
            box.border_subtitle = "Esc closes"
            yield Static("What tokens look like", classes="help-group", markup=False)
            for kind, words in _TOKENS:
                yield Static(f"{kind:<11}{words}", classes=f"help-token -{kind}", markup=False)
            for group, commands in itertools.groupby(COMMANDS, lambda command: command.group):
                yield Static(group, classes="help-group", markup=False)
                yield Static(self._rows(commands))
            yield Static("A text that begins with a slash", classes="help-group", markup=False)
            yield Static("is typed with two of them: //etc/hosts has what in it?", markup=False)

    def on_mount(self) -> None:
        self.query_one("#help-box").focus()

    def _rows(self, commands: Iterable[Command]) -> Table:
        rows = Table.grid(padding=(0, 1), expand=True)
        rows.add_column(width=10, no_wrap=True)
        rows.add_column(width=17, no_wrap=True)
        rows.add_column(ratio=1)
        for command in commands:
            rows.add_row(*map(Text, (self._key(command.name), command.usage, command.summary)))
        return rows
