"""The slash commands that what was typed may become, shown above the prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from textual.content import Content
from textual.widget import Widget

from tui.commands import Command, completions, slash_word

MOST_ROWS: Final = 8


class SlashList(Widget):
    """A list without focus: the prompt keeps it, and the keys move what is marked here."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"list--usage", "list--summary", "list--key", "list--marked"}

    DEFAULT_CSS = """
    SlashList {
        height: auto;
        padding: 0 2;
        display: none;
        &.-open { display: block; }
        .list--usage { color: $text-primary; text-style: bold; }
        .list--summary { color: $foreground; }
        .list--key { color: $text-muted; }
        .list--marked { background: $block-cursor-background; color: $block-cursor-foreground; }
    }
    """

    def __init__(self, key: Callable[[str], str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._key = key
        self._commands: list[Command] = []
        self._marked = 0
        self._text = ""

    @property
    def is_open(self) -> bool:
        return bool(self._commands)

    @property
    def marked(self) -> Command | None:
        return self._commands[self._marked] if self._commands else None

    @property
    def word(self) -> str:
        """The slash word of the marked command that was begun."""
        return slash_word(self._commands[self._marked], self._text) if self._commands else ""

    def offer(self, text: str) -> None:
        """Show what `text` may become, the first one marked; nothing closes the list."""
        self._text, commands = text, completions(text)
        if commands != self._commands:
            self._commands, self._marked = commands, 0
            self.set_class(self.is_open, "-open")
            self.refresh(layout=True)

    def move(self, step: int) -> None:
        """Mark another one, around the ends."""
        self._marked = (self._marked + step) % len(self._commands)
        self.refresh()

    def render(self) -> Content:
        first = min(max(self._marked - MOST_ROWS // 2, 0), max(len(self._commands) - MOST_ROWS, 0))
        rows = self._commands[first : first + MOST_ROWS]
        return Content("\n").join(self._row(command) for command in rows)

    def _row(self, command: Command) -> Content:
        width = self.content_size.width
        usage = Content.styled(f"{command.usage:<22}", self.get_visual_style("list--usage"))
        key = Content.styled(f" {self._key(command.name)}", self.get_visual_style("list--key"))
        room = max(width - usage.cell_length - key.cell_length, 0)
        summary = Content.styled(command.summary, self.get_visual_style("list--summary"))
        row = Content.assemble(usage, summary.truncate(room, ellipsis=True, pad=True), key)
        return row.stylize(self.get_visual_style("list--marked")) if command is self.marked else row
