"""A conversation as a Markdown file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

from edge_spec import PairSpec
from tui.conversations.saved import INTERRUPTED, Conversation, SavedMessage

_SHOWN: Final = (
    "temp", "top-k", "top-p", "min-p", "repeat-penalty", "seed", "draft-max", "coupling", "max-tokens",
)  # fmt: skip
_ENDINGS: Final = {
    "length": "ended at the most tokens allowed",
    "context": "ended by a full context",
    "cancelled": "stopped",
    "crashed": "ended by a crash of the engine",
    "error": "ended by an error",
    INTERRUPTED: "interrupted",
}

# What could be more than a plain paragraph: a sign with a meaning anywhere, one at the beginning of
# a line, an indented line, a line end within a paragraph.
_MARKUP: Final = re.compile(
    r"[\\`*_\[\]<>&~|$]|^\s*(?:[#=+-]|\d+[.)])|^(?: {4}|\t)|[^\n]\n[^\n]", re.MULTILINE
)
_FENCE: Final = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")


def export_markdown(conversation: Conversation) -> str:
    """Title, models and settings, then what was said, the answers as the model wrote them."""
    summary = ", ".join((_models_text(conversation.models), *_settings_texts(conversation.settings)))
    parts = [f"# {_escaped(_clean(conversation.title))}", _escaped(_clean(summary))]
    if conversation.system:
        parts += ["## System prompt", _quoted(conversation.system)]
    for message in conversation.messages:
        parts += ["## You", _quoted(message.text)] if message.role == "user" else _answer(message)
    return "\n\n".join(part for part in parts if part) + "\n"


def _answer(message: SavedMessage) -> list[str]:
    text = _clean(message.text)
    parts = ["## Model", text + _missing_fence(text)]
    if message.reason in _ENDINGS:
        parts.append(f"*({_ENDINGS[message.reason]})*")
    return parts


def _models_text(models: PairSpec) -> str:
    """The models' names without their folders, which are nobody else's business."""
    names = [PurePath(name).name for name in (models.target, models.draft) if name is not None]
    return " drafted for by ".join(names)


def _settings_texts(settings: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name} {settings[name]}" for name in _SHOWN if settings.get(name) is not None)


def _quoted(text: str) -> str:
    """A text that is no Markdown: as it is where it cannot be taken for any, else in a fence."""
    text = _clean(text)
    if _MARKUP.search(text) is None:
        return text
    fence = "`" * (1 + max((2, *map(len, re.findall("`+", text)))))
    return f"{fence}text\n{text}\n{fence}"


def _missing_fence(text: str) -> str:
    """The end of a code block that `text` leaves open, which would swallow what follows."""
    opened = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found is None:
            continue
        fence, rest = found.groups()
        if not opened:
            opened = fence
        elif fence[0] == opened[0] and len(fence) >= len(opened) and not rest.strip():
            opened = ""
    return f"\n{opened}" if opened else ""


def _clean(text: str) -> str:
    """`text` without control characters other than line ends and tabs."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def _escaped(line: str) -> str:
    return re.sub(r"([\\`*_\[\]<>&~|$#])", r"\\\1", line)
