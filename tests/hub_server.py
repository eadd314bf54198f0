"""A local server that speaks as much of the Hugging Face hub's protocol as a pull uses.

Two ports, as in the real thing: the hub answers about repositories and redirects, and the place
that it redirects to has the bytes, takes ranges, and must never see a token.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789" * 4


@dataclass
class FakeHub:
    """What there is, how it is served, and what was asked for."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Repository to path to content."""
    commit: str = COMMIT
    tags: set[str] = field(default_factory=set)
    licence: str = "apache-2.0"
    gated: set[str] = field(default_factory=set)
    token: str | None = None
    """The one token that the hub knows; another one is refused."""
    slice_seconds: float = 0.0
    """Between slices of 64 kB of a file."""
    takes_ranges: bool = True
    break_after: int | None = None
    """Break the next transfer after so many bytes, once."""
    asked: list[str] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    tokens_seen_by_store: list[str] = field(default_factory=list)
    address: str = ""
    store_address: str = ""

    def add(self, repo: str, **files: bytes) -> None:
        self.files.setdefault(repo, {}).update(files)


@contextlib.contextmanager
def serve() -> Iterator[FakeHub]:
    hub = FakeHub()
    hub_type = type("Hub", (_Hub,), {"state": hub})
    store_type = type("Store", (_Store,), {"state": hub})
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), hub_type) as front,
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), store_type) as store,
    ):
        front.daemon_threads = store.daemon_threads = True
        hub.address = f"http://127.0.0.1:{front.server_port}"
        hub.store_address = f"http://127.0.0.1:{store.server_port}"
        for server in (front, store):
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield hub
        front.shutdown()
        store.shutdown()


class _Handler(http.server.BaseHTTPRequestHandler):
    state: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


class _Hub(_Handler):
    """huggingface.co: the API, and a redirect for every file."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.state.asked.append(f"{self.command} {path}")
        given = self.headers.get("Authorization")
        if given is not None and given != f"Bearer {self.state.token}":
            self.send_response(401)
            self.send_header("X-Error-Message", "Invalid credentials in Authorization header")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path.startswith("/api/models/"):
            repo, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            self._describe(repo, revision)
        else:
            repo, _, rest = path.removeprefix("/").partition("/resolve/")
            self._redirect(repo, *rest.partition("/")[::2])

    def _known(self, repo: str, revision: str) -> bool:
        if repo not in self.state.files:
            self.refuse(401, "RepoNotFound")
        elif revision not in ("main", self.state.commit, *self.state.tags):
            self.refuse(404, "RevisionNotFound")
        else:
            return True
        return False

    def _describe(self, repo: str, revision: str) -> None:
        if not self._known(repo, revision):
            return
        siblings = [
            {
                "rfilename": path,
                "size": len(content),
                "blobId": "0" * 40,
                "lfs": {
                    "sha256": hashlib.sha256(content).hexdigest(),
                    "size": len(content),
                    "pointerSize": 134,
                },
            }
            for path, content in self.state.files[repo].items()
        ]
        body = json.dumps(
            {
                "_id": "1", "id": repo, "modelId": repo, "sha": self.state.commit, "private": False,
                "gated": "auto" if repo in self.state.gated else False, "tags": [], "downloads": 0,
                "likes": 0, "cardData": {"license": self.state.licence}, "siblings": siblings,
            }
        ).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _redirect(self, repo: str, revision: str, path: str) -> None:
        if not self._known(repo, revision):
            return
        if repo in self.state.gated:
            self.refuse(403, "GatedRepo")
            return
        content = self.state.files[repo].get(path)
        if content is None:
            self.refuse(404, "EntryNotFound")
            return
        self.send_response(302)
        self.send_header("Location", f"{self.state.store_address}/{repo}/{path}?signed=yes")
        self.send_header("X-Repo-Commit", self.state.commit)
        self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("X-Linked-ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("Content-Length", "0")
        self.end_headers()


class _Store(_Handler):
    """Where the bytes are: a signed address, ranges, no tokens."""

    def do_GET(self) -> None:
        if (token := self.headers.get("Authorization")) is not None:
            self.state.tokens_seen_by_store.append(token)
        user, repo, path = unquote(urlsplit(self.path).path).removeprefix("/").split("/", 2)
        content = self.state.files[f"{user}/{repo}"][path]
        wanted = self.headers.get("Range")
        self.state.ranges.append(wanted)
        start, end = 0, len(content)
        if wanted is not None and self.state.takes_ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), int(last) + 1 if last else end
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        self._send(content[start:end])

    def _send(self, content: bytes) -> None:
        sent = 0
        for begin in range(0, len(content), 1 << 16):
            if self.state.break_after is not None and sent >= self.state.break_after:
                self.state.break_after = None
                self.close_connection = True
                return
            try:
                self.wfile.write(content[begin : begin + (1 << 16)])
            except OSError:
                return  # whoever asked is gone
            sent += 1 << 16
            time.sleep(self.state.slice_seconds)
