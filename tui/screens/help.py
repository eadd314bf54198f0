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
from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from tui.chat.transcript import Kind
from tui.commands import COMMANDS, Command
from tui.screens.closing import ClosingModal
from tui.widgets.token_marks import NO_MARKS, Marks

_TOKENS: Final[tuple[tuple[str, tuple[Kind, ...], str], ...]] = (
    ("accepted", ("accepted",), "drafted, and accepted by the target"),
    ("own", ("residual", "bonus"), "the target's own: for a rejected token, or on top"),
    ("rejected", ("rejected",), "drafted and rejected; no part of the text"),
    ("discarded", ("discarded",), "drafted behind a rejected one; no part of the text"),
    ("drafted", ("drafted",), "waits for its verdict"),
)


class HelpScreen(ClosingModal[None]):
    """What can be done and how; `key` names the key of a command, `marks` are those of the tokens now."""

    BINDINGS: ClassVar = [Binding("escape,f1,q", "dismiss(None)", "Close", show=False)]

    def __init__(self, key: Callable[[str], str], marks: Marks = NO_MARKS) -> None:
        super().__init__()
        self._key = key
        self._marks = marks

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help-box") as box:
            box.border_title = "Keys and commands"
            box.border_subtitle = "Esc closes"
            yield Static("What tokens look like", classes="help-group", markup=False)
            for name, kinds, words in _TOKENS:
                marked = "  ".join("".join(self._marks.get(kind, ())) for kind in kinds).strip()
                look = Content.assemble(
                    (f"{marked:<6}" if self._marks else "", Style(underline=False, strike=False)),
                    f"{name:<11}{words}",
                )
                yield Static(look, classes=f"help-token -{name}")
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
