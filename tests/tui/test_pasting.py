"""Pastes with escape sequences in them, as tmux hands them on, through Textual's own parser."""

from __future__ import annotations

import pytest
from textual import events
from textual._xterm_parser import XTermParser

from tui.pasting import guard_pastes

EVIL = "one \x1b[31mred\x1b[0m \x1b\x11 \x1b[17~ \x1b\r\x1b]0;title\x07 שלום 日本 \x1b[20 two"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_paste_arrives_as_it_is_however_it_is_cut(size: int) -> None:
    guard_pastes()
    parser = XTermParser()
    sent = f"a\x1b[200~{EVIL}\x1b[201~b\x1b[200~\x1b\x1b[201~\x1b[A"
    heard = [message for at in range(0, len(sent), size) for message in parser.feed(sent[at : at + size])]
    told = [message.text if isinstance(message, events.Paste) else message.key for message in heard]
    assert told == ["a", EVIL, "b", "\x1b", "up"]
