"""What is closed leaves nothing in memory: half an hour of screens may not make the chat larger."""

from __future__ import annotations

import gc
from collections import Counter

import pytest
from textual.strip import Strip
from textual.widget import Widget

from tests.tui.conftest import Chatting


def _alive() -> Counter[str]:
    gc.collect()
    return Counter(type(item).__name__ for item in gc.get_objects() if isinstance(item, Widget | Strip))


@pytest.mark.parametrize("key", ["f9", "ctrl+o", "f1"])
async def test_screens_that_were_closed_are_gone(chatting: Chatting, key: str) -> None:
    async with chatting() as chat:

        async def look(times: int) -> Counter[str]:
            for _ in range(times):
                await chat.press(key)
                assert chat.app.screen is not chat.screen
                await chat.press("escape")
                await chat.until(lambda: chat.app.screen is chat.screen)
            return _alive()

        before = await look(2)
        after = await look(4)
        assert after["FooterKey"] == before["FooterKey"]
        assert after.total() < before.total() + 40, after - before
