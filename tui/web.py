"""The chat in a browser on this machine, through textual-serve."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.server import Server

_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
_FOREIGN_FONT: Final = re.compile(r'<link\b[^>]*"https?://fonts\.[^>]*>')


class LocalServer(Server):  # type: ignore[misc,unused-ignore]  # Any without the extra
    """Runs `command` for each browser window that this machine itself opens.

    textual-serve answers whoever reaches the port. A page of a stranger, open in the same browser,
    reaches it too, and could then type into the chat; so both the address that was asked for and
    the page that asks must be ours. Nothing is fetched from elsewhere.
    """

    def __init__(self, command: str, port: int, title: str) -> None:
        super().__init__(command, host="localhost", port=port, title=title)
        names = [*(f"{host}:{port}" for host in _HOSTS), *(_HOSTS if port == 80 else ())]
        self._hosts: Final = frozenset(names)
        self._origins: Final = frozenset(f"http://{name}" for name in names)

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()

        @web.middleware  # type: ignore[untyped-decorator,unused-ignore]  # Any without the extra
        async def only_ours(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not self._is_ours(request):
                raise web.HTTPForbidden(text="This chat is for pages of this machine only.")
            return await handler(request)

        app.middlewares.append(only_ours)
        return app

    def _is_ours(self, request: web.Request) -> bool:
        origin = request.headers.get("Origin")  # browsers name the page that asks, other programs do not
        return request.headers.get("Host") in self._hosts and (origin is None or origin in self._origins)

    async def handle_index(self, request: web.Request) -> web.StreamResponse:
        """The page, without the font that it would fetch from another machine."""
        page = await super().handle_index(request)
        assert isinstance(page, web.Response), "textual-serve gives whole pages"
        page.text = _FOREIGN_FONT.sub("", page.text or "")
        return page


def serve(command: Sequence[str], port: int) -> None:
    """Serve `command`, a program and its arguments, until Ctrl+C."""
    LocalServer(shlex.join(command), port, "edge-spec").serve()
