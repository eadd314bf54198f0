"""Who may look at the chat in a browser: a real server on a free port, asked as browsers ask."""

from __future__ import annotations

import gc
import re
import socket
import sys
from collections.abc import AsyncIterator

import pytest

aiohttp = pytest.importorskip("aiohttp", reason="of the extra web")
pytest.importorskip("textual_serve", reason="of the extra web")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Where a server serves a program that ends at once."""
    from aiohttp import web

    from tui.web import LocalServer

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    server = LocalServer(f"{sys.executable} -c pass", number, "edge-spec")
    runner = web.AppRunner(await server._make_app())
    await runner.setup()
    await web.TCPSite(runner, server.host, number).start()
    yield number
    await runner.cleanup()
    gc.collect()  # textual-serve leaves the pipes of programs that have ended to whoever clears up


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        (None, None, 200),
        ("http://localhost:{port}", None, 200),
        ("http://127.0.0.1:{port}", "127.0.0.1:{port}", 200),
        ("http://elsewhere.example", None, 403),
        ("null", None, 403),
        ("http://elsewhere.example:{port}", "elsewhere.example:{port}", 403),
        (None, "elsewhere.example:{port}", 403),
    ],
)
async def test_only_pages_of_this_machine_are_answered(
    port: int, origin: str | None, host: str | None, status: int
) -> None:
    given = {"Origin": origin, "Host": host}
    headers = {name: value.format(port=port) for name, value in given.items() if value is not None}
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://localhost:{port}/", headers=headers) as answer:
            assert answer.status == status
        opening = session.ws_connect(f"http://localhost:{port}/ws", headers=headers)
        if status == 200:
            async with opening as typed:
                assert not typed.closed
        else:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await opening
            assert refused.value.status == status


async def test_the_page_asks_nothing_of_other_machines(port: int) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"http://localhost:{port}/") as page:
        text = await page.text()
    fetched = re.findall(r'(?:href=|src=|url\()"([^"]+)"', text)
    assert any(address.endswith("textual.js") for address in fetched)
    assert all(address.startswith(f"http://localhost:{port}/") for address in fetched), fetched
