#!/usr/bin/env python3
"""Make docs/chat-recording.svg: the real chat, in a terminal, answering a question.

    scripts/record_chat.py --target T.gguf --draft D.gguf [--prompt TEXT] [--cast OUT.cast] [--out OUT.svg]

What the program sends to its terminal is kept with its times (`--cast` writes that too, in
asciinema's format, version 2), fed to a terminal emulator, and drawn as an animated picture that
plays wherever an image does. Needs pyte (`pip install pyte`). The question is typed, answered, and
then looked at token by token. Before the recording begins a short answer without speculation tells
the panel how fast plain decoding is here.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import codecs
import contextlib
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from _chat_terminal import Terminal, chat
from _terminal_picture import Output, animated_svg, frames_of

from edge_spec.models.store import store_path

SIZE = (104, 28)
_F4, _F6, _LEFT = b"\x1b[14~", b"\x1b[17~", b"\x1b[D"
PATIENCE_S = 300
HOLD_S = 3.0
"""So long the last frame stands before the recording begins anew."""


def record(arguments: Sequence[str], prompt: str) -> list[Output]:
    """What the program sent, in seconds from the moment at which its models were loaded."""
    heard: list[Output] = []
    with (
        tempfile.TemporaryDirectory() as name,
        chat(
            arguments,
            Path(name),
            store_path(),
            size=SIZE,
            hear=lambda data: heard.append(Output(time.monotonic(), data)),
        ) as terminal,
    ):
        _wait_until(lambda: _ready(heard), "load its models")
        terminal.type(_F4)
        terminal.paste("Count from one to twenty in words.")
        terminal.type(b"\r")
        _wait_until(lambda: _answered(terminal), "answer plainly")
        terminal.type(_F4)
        time.sleep(0.5)
        terminal.paste("/clear")
        terminal.type(b"\r")
        time.sleep(6)  # until what was told about that has gone
        begun = time.monotonic()
        for letter in prompt:
            terminal.type(letter.encode())
            time.sleep(0.045)
        time.sleep(0.4)
        terminal.type(b"\r")
        _wait_until(lambda: _answered(terminal, 2), "answer")
        time.sleep(1)
        terminal.type(_F6)
        for _ in range(4):
            time.sleep(0.6)
            terminal.type(_LEFT)
        time.sleep(0.6)
        ended = time.monotonic()
    # What was drawn before is the first frame.
    return [Output(max(one.at - begun, 0.0), one.data) for one in heard if one.at <= ended]


def _ready(heard: Sequence[Output]) -> bool:
    return "ready" in "\n".join(frames_of(heard, SIZE, last_only=True)[-1].text)


def _answered(terminal: Terminal, num_answers: int = 1) -> bool:
    if not terminal.conversations.exists():
        return False
    ended = "SELECT 1 FROM messages WHERE role = 'assistant' AND stats NOT NULL"
    with contextlib.closing(sqlite3.connect(f"{terminal.conversations.as_uri()}?mode=ro", uri=True)) as db:
        return len(db.execute(ended).fetchall()) >= num_answers


def _wait_until(ready: Callable[[], bool], doing: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not ready():
        if time.monotonic() > deadline:
            sys.exit(f"record_chat: the chat did not {doing} within {PATIENCE_S} seconds.")
        time.sleep(0.2)


def write_cast(path: Path, recorded: Sequence[Output]) -> None:
    """The recording as asciinema's player reads it."""
    lines: list[object] = [{"version": 2, "width": SIZE[0], "height": SIZE[1]}]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # what is read may end within a character
    lines += [[round(one.at, 3), "o", decoder.decode(one.data)] for one in recorded]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--prompt", default="Write a Python function that merges two sorted lists.")
    parser.add_argument("--max-tokens", default="90")
    parser.add_argument("--cast", type=Path)
    parser.add_argument("--out", type=Path, default=_bootstrap.ROOT / "docs" / "chat-recording.svg")
    options = parser.parse_args()
    arguments = ["-m", options.target, "-md", options.draft, "-n", options.max_tokens]
    arguments += ["-k", "3", "--temp", "0.7", "--inspect", "5"]
    recorded = record(arguments, options.prompt)
    if options.cast:
        write_cast(options.cast, recorded)
    frames = frames_of(recorded, SIZE)
    options.out.write_text(
        animated_svg(frames, SIZE, HOLD_S, "The chat answering a question"), encoding="utf-8"
    )
    print(
        f"{len(frames)} frames, {recorded[-1].at:.0f} s, {options.out.stat().st_size / 1e6:.2f} MB",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
