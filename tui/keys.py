"""Which keys do what: those of the table of commands, and the user's instead of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tui.commands import BY_NAME, COMMANDS

_NAMES: Final = {
    "escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "delete": "Del", "question_mark": "?",
    "up": "↑", "down": "↓", "left": "←", "right": "→",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of each command; `problems` are sentences about what of the user's cannot be."""

    by_command: Mapping[str, tuple[str, ...]]
    problems: tuple[str, ...] = ()

    def command_of(self, key: str) -> str | None:
        """The command that a key is for."""
        return next((name for name, keys in self.by_command.items() if key in keys), None)

    def __call__(self, command: str) -> str:
        """How a text names the way to a command: its first key, else its slash command."""
        keys = self.by_command[command]
        return key_name(keys[0]) if keys else BY_NAME[command].usage.partition(" ")[0]


def resolve_keys(given: Mapping[str, Sequence[str]]) -> Keys:
    """The table's keys with the user's: an action's own are replaced, and a key goes to who names it."""
    problems = []
    mine: dict[str, str] = {}
    for name, keys in given.items():
        if name not in BY_NAME:
            near = difflib.get_close_matches(name, BY_NAME, 1, cutoff=0.5)
            hint = f'; did you mean "{near[0]}"?' if near else "."
            problems.append(f'[keys] names "{name}", which is no action{hint}')
            continue
        for key in keys:
            other = mine.setdefault(key.lower(), name)
            if other != name:
                problems.append(f'[keys] gives {key} to both "{other}" and "{name}"; it is for "{other}".')
    by_command = {}
    for command in COMMANDS:
        keys = given.get(command.name, command.keys.split(","))
        by_command[command.name] = tuple(
            key.lower() for key in keys if mine.get(key.lower(), command.name) == command.name
        )
    return Keys(by_command, tuple(problems))


def key_name(key: str) -> str:
    """A key as people write it: Esc, F2, Ctrl+N."""
    return "+".join(_NAMES.get(part, part.capitalize()) for part in key.split("+"))
