"""A screen on its own, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

Condition = Callable[[], object]


class Alone(App[None]):
    """Shows one screen; `results` are what it was dismissed with."""

    def __init__(self, screen: Screen[Any]) -> None:
        super().__init__()
        self._first = screen
        self.results: list[Any] = []

    def on_mount(self) -> None:
        self.push_screen(self._first, self.results.append)

    def text(self, selector: str) -> str:
        """What a widget of the screen on top shows, its lines joined."""
        widget = self.screen.query_one(selector)
        lines = (widget.render_line(y).text.rstrip() for y in range(widget.size.height))
        return "\n".join(lines)


@contextlib.asynccontextmanager
async def alone(
    screen: Screen[Any], size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Alone, Pilot[None]]]:
    app = Alone(screen)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


async def until(pilot: Pilot[None], condition: Condition) -> None:
    """Wait until something holds; a test that waits in vain fails."""
    for _ in range(200):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError("what was waited for did not happen")
