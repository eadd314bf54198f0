"""Commands of other packages, found through entry points: the library knows no interface by name."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import click

from edge_spec.errors import UsageError

GROUP: Final = "edge_spec.commands"

INTERFACE: Final = ("chat", "replay")
"""The commands that the terminal interface brings, known here only to say what is missing."""


def plugin_names() -> list[str]:
    """The commands that installed packages add, the chat first."""
    return sorted(_found(), key=lambda name: (name != "chat", name))


def load_plugin(name: str) -> click.Command | None:
    """The command `name` of another package, or None. Raises UsageError if it is there but broken."""
    found = _found().get(name)
    if found is None:
        if name in INTERFACE:
            raise UsageError(
                f"The terminal interface, which has the command {name}, is not installed; "
                "installing edge-spec again brings it."
            )
        return None
    try:
        command = found.load()
    except ImportError as error:
        raise UsageError(f"The command {name} ({found.value}) cannot be loaded: {error}.") from error
    if not isinstance(command, click.Command):
        raise UsageError(f"The command {name} ({found.value}) is not a click command.")
    return command


def plugin_summary(name: str) -> str:
    """One line about a command, for the overview."""
    try:
        command = load_plugin(name)
    except UsageError as error:
        return str(error)
    assert command is not None, "it was listed"
    return command.get_short_help_str(60)


@functools.cache
def _found() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
