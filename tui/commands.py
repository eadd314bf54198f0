"""Everything that can be done in a chat: the one table behind keys, palette, slash commands and help.

A command's name is its id in the settings file's [keys] table. `/name argument` in the prompt
does the same as its key; `//text` sends a text that begins with a slash.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from edge_spec import UsageError


@dataclass(frozen=True, slots=True)
class Command:
    """One action.

    `keys` are the default ones, with commas between them. `argument` is what stands behind the
    slash command in the help: "N" must be given, "[N]" may be. `setting` is the setting that the
    argument is a value of.
    """

    name: str
    keys: str
    summary: str
    group: str
    slash: tuple[str, ...] = ()
    argument: str = ""
    setting: str = ""

    @property
    def needs_argument(self) -> bool:
        return bool(self.argument) and not self.argument.startswith("[")

    @property
    def usage(self) -> str:
        """The slash command as one types it, or "" if there is none."""
        return f"/{self.slash[0]} {self.argument}".rstrip() if self.slash else ""


def _table() -> tuple[Command, ...]:
    prompt, answer, chat, models = "The prompt", "The answer", "Conversations", "Models"
    drafting, view, program = "Speculation and sampling", "What is shown", "The program"
    c = Command
    return (
        c("send", "enter", "Send, or do what the slash command says", prompt),
        c("newline", "ctrl+j,shift+enter,alt+enter", "A new line, as Shift+Enter where it arrives", prompt),
        c("recall", "up", "Bring back what was sent before", prompt),
        c("recall-next", "down", "On again to what was sent after it", prompt),
        c("complete", "tab", "Complete a slash command", prompt),
        c("stop", "escape", "Stop the answer and keep what is there", answer, ("stop",)),
        c("regenerate", "ctrl+r", "Answer the last message again", answer, ("regen",)),
        c("edit", "ctrl+e", "Edit your last message and ask it anew", answer, ("edit",)),
        c("copy", "ctrl+y", "Copy the last answer", answer, ("copy",)),
        c("stats", "alt+i", "The last answer in numbers", answer, ("stats",)),
        c("trace", "alt+w", "Save the next answers as a trace, or end that", answer, ("trace",), "[FILE]"),
        c("replay", "alt+y", "Watch a trace again", answer, ("replay",), "FILE"),
        c("new-chat", "ctrl+n", "Begin a new chat", chat, ("clear", "new")),
        c("conversations", "ctrl+o", "Earlier conversations", chat, ("open",)),
        c("rename", "alt+r", "Give this conversation a title", chat, ("rename", "save"), "[TITLE]"),
        c("export", "ctrl+s", "Export this conversation as Markdown", chat, ("export",), "[FILE]"),
        c("delete", "alt+d", "Delete this conversation", chat, ("delete",)),
        c("system", "f7", "The system prompt", chat, ("system",), "[TEXT]"),
        c("models", "f5", "Choose models", models, ("model",), "[MODEL]"),
        c("pull", "alt+u", "Get a model, of the catalogue or the hub", models, ("pull",), "[NAME]"),
        c("forge", "alt+g", "Make a faster draft for the target", models, ("forge",)),
        c("draft", "alt+m", 'Draft with another model, or with "none"', models, ("draft",), "MODEL"),
        c("speculation", "f4", "Turn speculation off, or on again", drafting, ("speculation",)),
        c("draft-max", "alt+k", "K, tokens drafted a round, or auto", drafting, ("k",), "N", "draft-max"),
        c("temp", "alt+t", "Temperature; 0 takes the likeliest token", drafting, ("temp",), "T", "temp"),
        c("top-k", "alt+o", "Keep the K likeliest tokens; 0 is off", drafting, ("top-k",), "N", "top-k"),
        c("top-p", "alt+p", "Keep tokens up to this mass; 1 is off", drafting, ("top-p",), "P", "top-p"),
        c("min-p", "alt+n", "Keep tokens above this share of the best", drafting, ("min-p",), "P", "min-p"),
        c("repeat-penalty", "alt+e", "Penalty on repeated tokens; 1 is off", drafting,
          ("repeat-penalty",), "X", "repeat-penalty"),
        c("max-tokens", "alt+x", "End an answer after this many tokens", drafting, ("max-tokens",), "N",
          "max-tokens"),
        c("seed", "alt+s", 'Repeat the same draws; "none" for fresh ones', drafting, ("seed",), "N", "seed"),
        c("rendered", "f2", "Tokens, or the text as rendered Markdown", view, ("rendered",)),
        c("rejected", "f3", "Show or hide rejected tokens", view, ("rejected",)),
        c("inspect", "f6", "Walk over the tokens and look closer", view, ("inspect",)),
        c("glyphs", "f8", "Mark tokens with signs as well as colours", view, ("glyphs",)),
        c("theme", "ctrl+t", "Choose colours", view, ("theme",), "[NAME]"),
        c("page-up", "pageup", "Back by a page", view),
        c("page-down", "pagedown", "On by a page", view),
        c("top", "ctrl+home", "To the beginning", view),
        c("bottom", "ctrl+end", "To the end, and stay there", view),
        c("help", "f1", "Keys and commands", program, ("help",)),
        c("palette", "ctrl+p", "Find a command", program),
        c("settings", "f9", "Settings", program, ("settings",)),
        c("interrupt", "ctrl+c", "Copy the selection, or stop the answer", program),
        c("leave", "ctrl+d", "Quit, if the prompt is empty", program),
        c("quit", "ctrl+q", "Quit", program, ("quit", "exit")),
    )  # fmt: skip


COMMANDS: Final = _table()
FOOTER: Final = {
    "stop": "stop",
    "rendered": "rendered",
    "rejected": "rejected",
    "speculation": "speculation",
    "models": "models",
    "palette": "commands",
    "help": "help",
}
"""What the last line of the screen shows, in its order, and the words there."""

DESTRUCTIVE: Final = frozenset({"edit", "regenerate"})
"""What changes what was said: the list does it only for a word that can be nothing else."""

_SLASH: Final = re.compile(r"/(?P<word>[A-Za-z0-9-]+)(?P<argument>(\s.*)?)", re.DOTALL)

BY_NAME: Final[Mapping[str, Command]] = {command.name: command for command in COMMANDS}
BY_SLASH: Final[Mapping[str, Command]] = {word: command for command in COMMANDS for word in command.slash}


@dataclass(frozen=True, slots=True)
class Call:
    """A slash command that was typed."""

    command: Command
    argument: str


def parse(text: str) -> Call | None:
    """The slash command that `text` is, or None if it is a message for the model.

    Only a word of letters, digits and dashes can be a command: `/usr/bin` and `/* x */` are
    messages. Raises UsageError for a command that does not exist or lacks its argument.
    """
    found = _SLASH.fullmatch(text)
    if found is None:
        return None
    word, argument = found["word"].lower(), found["argument"].strip()
    command = BY_SLASH.get(word)
    if command is None:
        raise UsageError(
            f"There is no command /{shorten(word)}{_nearest(word)} "
            "To send a text that begins with a slash, type two."
        )
    if command.needs_argument and not argument:
        raise UsageError(f"/{word} needs a value: {command.usage}.")
    if argument and not command.argument:
        raise UsageError(f"/{word} takes nothing behind it.")
    return Call(command, argument)


def message_of(text: str) -> str:
    """The message that a prompt's text stands for: of two slashes in front, one."""
    return text[1:] if text.startswith("//") else text


def prompt_of(message: str) -> str:
    """The prompt's text that stands for a message; undoes `message_of`."""
    return f"/{message}" if message.startswith("//") or _SLASH.fullmatch(message) else message


def completions(text: str) -> list[Command]:
    """The commands whose slash word `text` may become; none once there is more than the word."""
    if not text.startswith("/") or text.startswith("//") or any(c.isspace() for c in text):
        return []
    prefix = text[1:]
    return [command for command in COMMANDS if any(word.startswith(prefix) for word in command.slash)]


def slash_word(command: Command, text: str) -> str:
    """The word of `command` that `text` is the beginning of."""
    return next((word for word in command.slash if word.startswith(text[1:])), command.slash[0])


def shorten(text: str, most: int = 40) -> str:
    """At most so many characters of a text that goes into a sentence."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _nearest(word: str) -> str:
    near = difflib.get_close_matches(word, BY_SLASH, 1, cutoff=0.6)
    return f"; did you mean /{near[0]}?" if near else "."
