#!/usr/bin/env python3
"""Make docs/chat.svg: the chat with a real pair, a real question and its real answer.

    scripts/picture_chat.py --target T.gguf --draft D.gguf [--prompt TEXT] [--out docs/chat.svg]

The program runs without a terminal, at 120 columns and 30 lines, with conversations of its own.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from edge_spec import resolve_settings
from tui.app import ChatApp

PATIENCE_S = 300


async def picture(given: dict[str, str], prompt: str) -> str:
    """The SVG of the chat after it has answered `prompt`."""
    with tempfile.TemporaryDirectory() as folder:
        app = ChatApp(lambda: resolve_settings(given), path=Path(folder) / "chats.sqlite3")
        async with app.run_test(size=(120, 30)) as pilot:
            await pilot.pause()
            deadline = time.monotonic() + PATIENCE_S
            for text in ("", prompt):
                if text:
                    app.chat.prompt.put(text)
                    await pilot.press("enter")
                    await pilot.pause(0.5)
                while app.chat.session.info is None or app.chat.session.state.busy:
                    if time.monotonic() > deadline:
                        raise SystemExit(f"The chat did not answer within {PATIENCE_S} seconds.")
                    await pilot.pause(0.1)
            app.clear_notifications()
            app.chat.show_gauges()
            await pilot.pause()
            return app.export_screenshot()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--prompt", default="Write a Python function that merges two sorted lists.")
    parser.add_argument("--max-tokens", default="120")
    parser.add_argument("--out", type=Path, default=_bootstrap.ROOT / "docs" / "chat.svg")
    options = parser.parse_args()
    given = {"model": options.target, "draft-model": options.draft, "max-tokens": options.max_tokens}
    options.out.write_text(asyncio.run(picture(given, options.prompt)), encoding="utf-8")


if __name__ == "__main__":
    main()
