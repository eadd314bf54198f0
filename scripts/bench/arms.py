"""The arms by name: which there are, and how each is made for a pair.

    ours-plain        this checkout without drafting, as fast as that gets
    ours-steady       plain, with the second row that --reproducible decodes for some models
    ours-auto         --drafter auto
    ours-ngram        --drafter ngram
    ours-kK           the draft model, K tokens a round
    bench             llama-bench: plain decoding without sampling, at the prompt's depth
    simple-kK         llama-speculative-simple with the same draft and K
    ngram-simple, ngram-map-k [-N-M], ngram-mod [-N-MIN-MAX]
                      llama-speculative-simple without a draft model: N tokens to match, M to draft
    server [-kK]      llama-server with the draft, its own K or the one given
    lookup [-N-M]     llama-cpp-python's prompt lookup

`ours`, `simple` and `server-k` stand for one of each K, `ngrams` for the n-gram modes and the lookup
at default and tuned sizes, `all` for everything.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import build_peers

from bench.lookup import DEFAULT_SIZES, Lookup, LookupChild
from bench.ours import Ours
from bench.programs import NGRAM_MODES, LlamaBench, SpeculativeSimple, draft_options, ngram_options
from bench.samples import Arm, BenchError, Prompt, Setting
from bench.server import LlamaServer, Server
from edge_spec.config import DRAFT_MAX

if TYPE_CHECKING:
    from edge_spec import Pair

STANDARD = ("ours-plain", "ours-auto", "ours", "bench", "simple", "ngram-simple-3-7")

_TUNED = {"ngram-simple": "3-7", "ngram-map-k": "3-7", "ngram-mod": "4-2-7", "lookup": "3-3"}
"""Sizes that suit answers of some hundred tokens on few cores; the defaults suit long ones on a GPU."""

_GROUPS: dict[str, Callable[[Sequence[int]], list[str]]] = {
    "ours": lambda ks: [f"ours-k{k}" for k in ks],
    "simple": lambda ks: [f"simple-k{k}" for k in ks],
    "server-k": lambda ks: [f"server-k{k}" for k in ks],
    "ngrams": lambda ks: [arm for name, sizes in _TUNED.items() for arm in (name, f"{name}-{sizes}")],
}
_NEEDS_DRAFT = re.compile(r"(ours|simple)-k\d+|server(-k\d+)?")
_LOOKUP_SPARE = 64
"""Cells beyond prompt and answer, for drafts."""


def arm_names(wanted: Sequence[str], ks: Sequence[int], has_draft: bool) -> list[str]:
    """The arms that `wanted` names, groups unfolded, each once; those that need a draft only with one."""
    names: list[str] = []
    for name in wanted:
        if name == "all":
            singles = ["ours-plain", "ours-auto", "ours-ngram", "ours-steady", "bench", "server"]
            found = singles + [arm for group in ("ours", "simple", "ngrams") for arm in _GROUPS[group](ks)]
        else:
            found = _GROUPS[name](ks) if name in _GROUPS else [name]
        grouped = name == "all" or name in _GROUPS
        for arm in found:
            if not has_draft and _NEEDS_DRAFT.fullmatch(arm):
                if not grouped:
                    raise BenchError(f"The arm {arm} needs a draft: give one with --draft.")
            elif arm not in names:
                names.append(arm)
    return names


@dataclass(slots=True)
class Arms:
    """Makes the arms of one loaded pair; closing it ends the processes that they share."""

    pair: Pair
    peers: Path
    prompts: Sequence[Prompt]
    _ending: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _servers: dict[int | None, Server] = field(default_factory=dict)
    _lookup: LookupChild | None = None

    def make(self, name: str, setting: Setting) -> Arm:
        """The arm of that name at these settings. Raises BenchError when there is none."""
        for pattern, maker in _MAKERS.items():
            found = re.fullmatch(pattern, name)
            if found is not None:
                return maker(self, name, setting, [int(number) for number in re.findall(r"\d+", name)])
        raise BenchError(
            f"There is no arm {name!r}: choose from ours-plain, ours-steady, ours-auto, ours-ngram, ours-kK, "
            f"bench, simple-kK, {', '.join(NGRAM_MODES)}, server and lookup."
        )

    def close(self) -> None:
        self._ending.close()

    def program(self, name: str) -> Path:
        return build_peers.program(self.peers, name)

    def encode(self, prompt: Prompt) -> list[int]:
        return self.pair.encode(prompt.messages)

    def count(self, prompt: Prompt) -> int:
        return len(self.encode(prompt))

    def render(self, prompt: Prompt) -> str:
        return self.pair.render(prompt.messages)

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self.pair.piece(token) for token in ids).decode(errors="replace")

    def server(self, setting: Setting, k: int | None) -> Server:
        """The server with that K: one for all temperatures."""
        if k not in self._servers:
            self._servers[k] = Server(self.program("llama-server"), setting, k)
            self._ending.callback(self._servers[k].close)
        return self._servers[k]

    def lookup(self, setting: Setting) -> LookupChild:
        if self._lookup is None:
            longest = max(self.count(prompt) for prompt in self.prompts)
            self._lookup = LookupChild(setting, longest + setting.max_tokens + _LOOKUP_SPARE)
            self._ending.callback(self._lookup.close)
        return self._lookup


def _ours(arms: Arms, name: str, setting: Setting, numbers: list[int]) -> Arm:
    return Ours(name, arms.pair, setting, numbers[0], reproducible=setting.reproducible)


def _plain(arms: Arms, name: str, setting: Setting, numbers: list[int]) -> Arm:
    return Ours(name, arms.pair, setting, 0, reproducible=name == "ours-steady")


def _auto(arms: Arms, name: str, setting: Setting, numbers: list[int]) -> Arm:
    return Ours(name, arms.pair, setting, DRAFT_MAX["auto"], "auto", setting.reproducible)


def _copying(arms: Arms, name: str, setting: Setting, numbers: list[int]) -> Arm:
    return Ours(name, arms.pair, setting, DRAFT_MAX["ngram"], "ngram", setting.reproducible)


def _bench(arms: Arms, name: str, setting: Setting, numbers: list[int]) -> Arm:
    return LlamaBench(name, arms.program("llama-bench"), setting, arms.count)


def _simple(arms: Arms, name: str, setting: Setting, numbers: list[int]) -> Arm:
    program = arms.program("llama-speculative-simple")
    return SpeculativeSimple(name, program, setting, arms.render, draft_options(setting, numbers[0]))


def _ngrams(arms: Arms, name: str, setting: Setting, numbers: list[int]) -> Arm:
    mode = next(mode for mode in NGRAM_MODES if name.startswith(mode))
    program = arms.program("llama-speculative-simple")
    return SpeculativeSimple(name, program, setting, arms.render, ngram_options(mode, tuple(numbers)))


def _server(arms: Arms, name: str, setting: Setting, numbers: list[int]) -> Arm:
    return LlamaServer(name, arms.server(setting, numbers[0] if numbers else None), setting, arms.render)


def _lookup(arms: Arms, name: str, setting: Setting, numbers: list[int]) -> Arm:
    sizes = (numbers[0], numbers[1]) if numbers else DEFAULT_SIZES
    return Lookup(name, arms.lookup(setting), setting, arms.encode, arms.decode, sizes)


_MAKERS: dict[str, Callable[[Arms, str, Setting, list[int]], Arm]] = {
    r"ours-(plain|steady)": _plain,
    r"ours-auto": _auto,
    r"ours-ngram": _copying,
    r"ours-k\d+": _ours,
    r"bench": _bench,
    r"simple-k\d+": _simple,
    r"ngram-(simple|map-k|mod)(-\d+)*": _ngrams,
    r"server(-k\d+)?": _server,
    r"lookup(-\d+-\d+)?": _lookup,
}
