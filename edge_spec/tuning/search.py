"""Try the ways to decode one model, in turn, so that a machine that drifts slows all of them alike.

One thing is tried after the other, each with the best of those before: threads and flash
attention by the time of one row, threads for wider decodes by that of a verification, then
whether weights are mapped or read into memory. What is chosen without trying stays unless
another is faster by more than noise. Batch size is not tried: the text may depend on it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from edge_spec.cancel import Cancel
from edge_spec.config import FlashAttention, LoadMode, ModelSettings
from edge_spec.errors import EdgeSpecError
from edge_spec.llama import abi
from edge_spec.llama.cache import Cache
from edge_spec.llama.context import Context
from edge_spec.llama.model import Model, default_threads
from edge_spec.models.header import read_loadable
from edge_spec.models.memory import Request, check_memory, make_machine
from edge_spec.tuning.kept import Tuned
from edge_spec.types import Rows

_CELLS = 64
_WIDE = 8
"""Rows of a verification."""

_ROUNDS = 5
_DECODES = 3
_NOISE = 0.02
"""How much faster than what would be chosen anyway another way must be."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One way that was tried: seconds of a decode of `num_rows` rows, and whether it was chosen."""

    way: Tuned
    num_rows: int
    seconds: float
    chosen: bool


def tune(settings: ModelSettings, tell: Callable[[str], None] = lambda _text: None) -> Iterator[list[Tried]]:
    """Try ways to decode a model, loaded as `settings` say; yields the tries of each step.

    The last chosen way of the last step is the one to keep. `settings` has threads, flash attention
    and load mode left open. Takes half a minute or more. Raises ModelError and SettingError.
    """
    header = read_loadable(settings.path)
    machine = make_machine(abi.devices(), abi.cpu_features())
    plan = check_memory([Request(settings, header)], machine)
    settings = replace(settings, path=header.path, load_mode=plan.models[0].load_mode)
    with ExitStack() as loaded:
        bench = _Bench(settings, loaded)
        tell("loading the model")
        best = Tuned(default_threads(), default_threads(), "on", settings.load_mode)
        flash: Sequence[FlashAttention] = ("on", "off") if settings.kv_type_v in ("f16", "bf16") else ("on",)
        ways = [
            replace(best, threads=threads, flash_attention=how) for how in flash for threads in _threads()
        ]
        tell("trying threads and flash attention")
        yield (tried := bench.compare(ways, 1))
        best = _chosen(tried)
        tell("trying threads for several rows")
        yield (tried := bench.compare([replace(best, threads_batch=n) for n in _threads()], _WIDE))
        best = _chosen(tried)
        other: LoadMode = "mmap" if best.load_mode == "none" else "none"
        try:
            twice = [Request(replace(settings, load_mode=mode), header) for mode in (best.load_mode, other)]
            fits = check_memory(twice, machine).verdict == "fits"
        except EdgeSpecError:
            fits = False
        if fits:
            tell("trying another load mode")
            yield bench.compare([best, replace(best, load_mode=other)], 1)


def fastest(times: Sequence[Sequence[float]]) -> int:
    """Which of several ways was fastest, each timed once in every round; 0 unless another surely was.

    That is, by more than noise in the median, and in all rounds but one at most.
    """
    medians = [statistics.median(one) for one in times]
    best = min(range(len(times)), key=medians.__getitem__)
    num_won = sum(mine < usual for mine, usual in zip(times[best], times[0], strict=True))
    surely = medians[best] < (1 - _NOISE) * medians[0] and num_won >= len(times[0]) - 1
    return best if surely else 0


def _threads() -> list[int]:
    """Numbers of threads worth trying; the one that is chosen without trying comes first."""
    usual = default_threads()
    return list(dict.fromkeys([usual, *sorted({max(1, usual - 1), max(1, usual // 2), 3 * usual // 4 or 1})]))


def _chosen(tried: Sequence[Tried]) -> Tuned:
    return next(one.way for one in tried if one.chosen)


class _Bench:
    """Contexts of one model, made as they are needed."""

    def __init__(self, settings: ModelSettings, loaded: ExitStack) -> None:
        self._settings = settings
        self._loaded = loaded
        self._models: dict[LoadMode, Model] = {}
        self._caches: dict[tuple[LoadMode, FlashAttention], Cache] = {}

    def compare(self, ways: Sequence[Tuned], num_rows: int) -> list[Tried]:
        """Time them in turn; the first is what others must beat."""
        times: list[list[float]] = [[] for _ in ways]
        for repeat in range(_ROUNDS):
            order = range(len(ways))
            for index in order if repeat % 2 == 0 else reversed(order):
                times[index].append(self._time(ways[index], num_rows))
        best = fastest(times)
        return [
            Tried(way, num_rows, statistics.median(spent), index == best)
            for index, (way, spent) in enumerate(zip(ways, times, strict=True))
        ]

    def _time(self, way: Tuned, num_rows: int) -> float:
        """Seconds of a decode, the best of a few, after one to warm up."""
        cache = self._cache(way)
        cache.context.set_threads(way.threads, way.threads_batch)
        spent = []
        for _ in range(1 + _DECODES):
            busy_s = cache.busy_s
            cache.append([Rows(0, self._tokens(num_rows), 0)])
            spent.append(cache.busy_s - busy_s)
            cache.rollback(0, _CELLS)
        return min(spent[1:])

    def _cache(self, way: Tuned) -> Cache:
        key = (way.load_mode, way.flash_attention)
        if key not in self._caches:
            settings = replace(
                self._settings, load_mode=way.load_mode, flash_attention=way.flash_attention,
                context_size=max(256, min(1024, self._settings.context_size)),
            )  # fmt: skip
            if way.load_mode not in self._models:
                model = self._models[way.load_mode] = Model(settings)
                self._loaded.callback(model.close)
            context = Context(self._models[way.load_mode], settings, _WIDE, Cancel())
            self._loaded.callback(context.close)
            cache = self._caches[key] = Cache(context)
            cache.append([Rows(0, self._tokens(_CELLS), _CELLS)])
        return self._caches[key]

    def _tokens(self, num: int) -> list[int]:
        num_vocab = next(iter(self._models.values())).num_vocab
        return [(37 * i + 11) % min(num_vocab, 10_000) for i in range(num)]
