"""`run --isolate`: the engine in a child process, behind what `run` uses of a pair."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from edge_spec.config import Decoding, LoadMode, Sampling
from edge_spec.events import Event
from edge_spec.host import ChatRequest, EngineHost, PairSpec, TextRequest
from edge_spec.models.hashes import sha256_of


@dataclass(frozen=True)
class IsolatedModel:
    """A model that another process has loaded."""

    path: Path
    quantization: str
    load_mode: LoadMode

    @cached_property
    def sha256(self) -> str:
        return sha256_of(self.path)


class IsolatedPair:
    """A pair in a child process. Raises what `load_pair` raises, and EngineCrashedError."""

    def __init__(
        self,
        target: str,
        draft: str | None,
        *,
        on_progress: Callable[[Literal["target", "draft"], float], None],
        **options: Any,
    ) -> None:
        self._host = EngineHost(PairSpec(target, draft, options))
        try:
            for loading in self._host.load():
                on_progress(loading.model, loading.fraction)
        except BaseException:
            self._host.close()
            raise
        info = self._host.info
        assert info is not None, "load ends with it"
        self.target = IsolatedModel(Path(info.target_file), info.target_quantization, info.target_load_mode)
        self.draft: IsolatedModel | None = None
        if info.draft_file and info.draft_quantization and info.draft_load_mode:
            self.draft = IsolatedModel(Path(info.draft_file), info.draft_quantization, info.draft_load_mode)

    def generate(
        self, prompt: str, *, system: str | None, sampling: Sampling, decoding: Decoding, raw: bool
    ) -> Generator[Event]:
        """As `Pair.generate`: what is wrong with the request is raised before there are events."""
        request: ChatRequest | TextRequest
        if raw:
            request = TextRequest(prompt, sampling, decoding)
        else:
            messages = [] if system is None else [{"role": "system", "content": system}]
            messages.append({"role": "user", "content": prompt})
            request = ChatRequest(tuple(messages), sampling, decoding)
        events = self._host.generate(request)
        return _resumed(next(events), events)

    def piece(self, token: int) -> bytes:
        return self._host.piece(token)

    def cancel(self) -> None:
        self._host.cancel()

    def __enter__(self) -> IsolatedPair:
        return self

    def __exit__(self, *_: object) -> None:
        self._host.close()


def _resumed(first: Event, events: Generator[Event]) -> Generator[Event]:
    with contextlib.closing(events):
        yield first
        yield from events
