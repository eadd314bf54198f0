"""Which keys do what: those of the table of commands, and the user's instead of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.keys import REPLACED_KEYS, _character_to_key, format_key, key_to_character
from textual.keys import Keys as TextualKeys

from edge_spec import Settings
from tui.commands import BY_NAME, COMMANDS

_NAMES: Final = {
    "escape": "Esc", "enter": "Enter", "backspace": "Backspace", "delete": "Del",
    "pageup": "PgUp", "pagedown": "PgDn", "up": "↑", "down": "↓", "left": "←", "right": "→",
}  # fmt: skip
_CODES: Final = {"return": "enter", **{name.lower(): code for code, name in _NAMES.items()}}
_MODIFIERS: Final = frozenset(("alt", "ctrl", "hyper", "meta", "shift", "super"))
_UNTYPED: Final = frozenset(key.value for key in TextualKeys if re.fullmatch(r"\w+", key.value))
"""What Textual calls the keys that are not named for a character."""
_ANYWHERE: Final = {"quit": "quit", "interrupt": "help_quit", "palette": "command_palette"}
"""The commands that no screen is needed for, and Textual's actions that do them."""


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


def keys_of(settings: Settings) -> Keys:
    """The keys as these settings have them."""
    return resolve_keys({name: value.value for name, value in settings.keys.items()})


def resolve_keys(given: Mapping[str, Sequence[str]]) -> Keys:
    """The table's keys with the user's: an action's own are replaced, and a key goes to who names it.

    A key may be written as Textual calls it or as it is shown. An action with no key that exists keeps
    its own.
    """
    problems = []
    theirs: dict[str, list[str]] = {}  # the keys of an action
    mine: dict[str, str] = {}  # the action of a key
    for name, keys in given.items():
        if name not in BY_NAME:
            near = difflib.get_close_matches(name, BY_NAME, 1, cutoff=0.5)
            hint = f'; did you mean "{near[0]}"?' if near else "."
            problems.append(f'[keys] names "{name}", which is no action{hint}')
            continue
        codes = []
        for key in keys:
            code = key_code(key)
            if code is None:
                problems.append(f'[keys] gives "{name}" the key "{key}", which does not exist.')
                continue
            codes.append(code)
            other = mine.setdefault(code, name)
            if other != name:
                problems.append(f'[keys] gives {key} to both "{other}" and "{name}"; it is for "{other}".')
        if codes or not keys:
            theirs[name] = codes
    by_command = {}
    for command in COMMANDS:
        all_codes = theirs.get(command.name, command.keys.split(","))
        by_command[command.name] = tuple(
            code for code in all_codes if mine.get(code, command.name) == command.name
        )
    return Keys(by_command, tuple(problems))


def key_name(code: str) -> str:
    """A key as people write it: Esc, F2, Ctrl+N, ?."""
    return "+".join(_NAMES.get(part) or format_key(part).capitalize() for part in code.split("+"))


def key_code(text: str) -> str | None:
    """What Textual calls a key that is written so or as it is shown: pageup, PgUp, ^P, ?; None: no key."""
    text = text.lower()
    if text.startswith("^") and len(text) > 1:
        text = f"ctrl+{text[1:]}"
    *modifiers, last = re.split(r"\+(?=.)", text)
    last = _CODES.get(last, last)
    if last not in _UNTYPED:
        name = REPLACED_KEYS.get(last, last)
        character = last if len(last) == 1 else key_to_character(name)
        if character is None or not character.isprintable():
            return None
        last = _character_to_key(character)
    return "+".join((*sorted(modifiers), last)) if _MODIFIERS.issuperset(modifiers) else None


def use_keys(app: App[Any], keys: Keys) -> None:
    """Take these keys for what every screen has; the ones to quit come before any screen's own."""
    app._bindings = BindingsMap(
        Binding(
            ",".join(keys.by_command[name]),
            action,
            BY_NAME[name].summary,
            show=False,
            priority=name == "quit",
        )
        for name, action in _ANYWHERE.items()
        if keys.by_command[name]
    )
