"""Keys and commands, read from the table of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from tui.commands import COMMANDS
from tui.screens.closing import ClosingModal
from tui.widgets.token_marks import NO_MARKS, Marks

_TOKENS: Final[tuple[tuple[str, tuple[Kind, ...], str], ...]] = (
    ("accepted", ("accepted",), "drafted, and accepted by the target"),
    ("own", ("residual", "bonus"), "the target's own: for a rejected token, or on top"),
    ("rejected", ("rejected",), "drafted and rejected; no part of the text"),
    ("discarded", ("discarded",), "drafted behind a rejected one; no part of the text"),
    ("drafted", ("drafted",), "waits for its verdict"),
)
_INSPECTED: Final = (
    "Of an inspected token p and q are the probabilities that were sampled from, of target and draft; "
    "raw are those before temperature, top-k and the like."
)

Group = tuple[str, Sequence[tuple[str, ...]]]
"""A title and rows: a key, perhaps a slash command, and what it does."""


class HelpScreen(ClosingModal[None]):
    """What can be done and how; `marks` are those of the tokens now, `slash` tells of slash commands."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar = [Binding("escape,f1,q,question_mark", "dismiss(None)", "Close", show=False)]

    def __init__(self, groups: Iterable[Group], marks: Marks = NO_MARKS, *, slash: bool = False) -> None:
        super().__init__()
        self._groups = groups
        self._marks = marks
        self._slash = slash

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
            yield Static(_INSPECTED, markup=False)
            for title, rows in self._groups:
                yield Static(title, classes="help-group", markup=False)
                yield Static(_table(rows))
            if self._slash:
                yield Static("A text that begins with a slash", classes="help-group", markup=False)
                yield Static("is typed with two of them: //etc/hosts has what in it?", markup=False)

    def on_mount(self) -> None:
        self.query_one("#help-box").focus()


def groups_of_chat(key: Callable[[str], str]) -> Iterator[Group]:
    """The commands of the table; `key` names the key of one."""
    for title, commands in itertools.groupby(COMMANDS, lambda command: command.group):
        yield title, [(key(command.name), command.usage, command.summary) for command in commands]


def _table(rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=10, no_wrap=True)
    if len(rows[0]) > 2:
        table.add_column(width=17, no_wrap=True)
    table.add_column(ratio=1)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
