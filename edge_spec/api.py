"""The simple way in: load a pair, generate from it, in this process.

with edge_spec.load_pair("target.gguf", "draft.gguf") as pair:
    print(pair.complete("Write a haiku about compilers."))
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edge_spec import tuning
from edge_spec.cancel import Cancel
from edge_spec.config import MAX_DRAFT, LoadMode, ModelSettings
from edge_spec.drafters import TokenMap
from edge_spec.events import Notice
from edge_spec.llama import abi
from edge_spec.llama.cache import Cache
from edge_spec.llama.context import Context
from edge_spec.llama.model import Model
from edge_spec.llama.skip import LayerSkip
from edge_spec.models.facts import target_ids_of
from edge_spec.models.hashes import sha256_of
from edge_spec.models.header import Header, read_loadable
from edge_spec.models.memory import Machine, Request, advice, check_memory, make_machine, plan_memory
from edge_spec.models.memory.buffers import num_outputs
from edge_spec.models.pairing import PairReport, check_pair, raise_if_incompatible
from edge_spec.models.resolve import resolve_model
from edge_spec.pair import Pair

LoadProgress = Callable[[Literal["target", "draft"], float], None]
"""Called with the model that is loading and the fraction done, 0 to 1."""


class LoadedModel:
    """One model of a pair: its file, its header, and its cache in llama.cpp."""

    def __init__(
        self,
        settings: ModelSettings,
        header: Header,
        cancel: Cancel,
        on_progress: Callable[[float], None],
        skip: LayerSkip | None = None,
    ):
        self.path = settings.path
        self.header = header
        self.settings = settings
        self.model: Model = Model(settings, on_progress)
        try:
            context = Context(self.model, settings, num_outputs(settings, MAX_DRAFT), cancel, skip)
            try:
                self.cache: Cache = Cache(context)
            except BaseException:
                context.close()
                raise
        except BaseException:
            self.model.close()
            raise
        self._free = weakref.finalize(self, _free, self.cache, self.model)

    @property
    def quantization(self) -> str:
        """The file's quantisation by llama.cpp's name, such as Q4_K_M."""
        return self.header.quantization

    @property
    def load_mode(self) -> LoadMode:
        """How its weights were loaded, as the memory plan chose; auto was left to llama.cpp."""
        return self.settings.load_mode

    @cached_property
    def sha256(self) -> str:
        """The file's hash; remembered by path, size and time, else seconds for a gigabyte."""
        return sha256_of(self.path)

    def close(self) -> None:
        """Free cache and weights; happens by itself when the pair is dropped."""
        self._free()


def _free(cache: Cache, model: Model) -> None:
    cache.close()
    model.close()


def load_pair(
    target: str | Path,
    draft: str | Path | None = None,
    *,
    context_size: int = 4096,
    threads: int | None = None,
    threads_batch: int | None = None,
    gpu_layers: int = -1,
    draft_gpu_layers: int = -1,
    device: str | None = None,
    draft_device: str | None = None,
    kv_type_k: str = "f16",
    kv_type_v: str = "f16",
    flash_attention: str = "auto",
    batch_size: int = 512,
    num_slots: int = 1,
    load_mode: str = "auto",
    on_progress: LoadProgress | None = None,
) -> Pair:
    """Load a target and perhaps a draft model, each a path or a name that `models list` shows.

    Everything that can be known from the headers is checked before llama.cpp sees a file:
    that both are sound, that they pair, and that they fit in memory. Raises ModelError and
    SettingError.
    """
    tell = on_progress or (lambda _model, _fraction: None)
    common: dict[str, Any] = {
        "context_size": context_size,
        "threads": threads,
        "threads_batch": threads_batch,
        "kv_type_k": kv_type_k,
        "kv_type_v": kv_type_v,
        "flash_attention": flash_attention,
        "batch_size": batch_size,
        "num_slots": num_slots,
        "load_mode": load_mode,
    }
    settings = ModelSettings(resolve_model(target), gpu_layers=gpu_layers, device=device, **common)
    draft_settings = None
    if draft is not None:
        draft_settings = ModelSettings(
            resolve_model(draft), gpu_layers=draft_gpu_layers, device=draft_device, **common
        )
    header = read_loadable(settings.path)
    draft_header = None if draft_settings is None else read_loadable(draft_settings.path)
    report = None
    if draft_header is not None:
        report = check_pair(header, draft_header)
        raise_if_incompatible(report)
    settings = replace(settings, path=header.path)  # of a split model the first part
    requests = [Request(settings, header)]
    if draft_settings is not None and draft_header is not None:
        draft_settings = replace(draft_settings, path=draft_header.path)
        requests.append(Request(draft_settings, draft_header))
    machine = make_machine(abi.devices(), abi.cpu_features())
    requests, notices = _tuned(requests, machine)
    plan = check_memory(requests, machine)
    settings = replace(requests[0].settings, load_mode=plan.models[0].load_mode)
    if draft_settings is not None:
        draft_settings = replace(requests[1].settings, load_mode=plan.models[1].load_mode)
    if plan.verdict == "tight":
        notices.append(Notice("warning", advice(requests, plan)))
    if 0 < header.context_length < context_size:
        notices.append(
            Notice(
                "warning",
                f"The target was trained on {header.context_length} tokens; beyond them its text gets worse.",
            )
        )
    if abi.has_amx():
        notices.append(
            Notice(
                "warning",
                "This llama.cpp was built with AMX kernels, which may crash: its fast CPU kernels are off; "
                "the README says how to rebuild it without AMX.",
            )
        )
    cancel = Cancel()
    loaded = LoadedModel(settings, header, cancel, lambda fraction: tell("target", fraction))
    if draft_settings is None or draft_header is None or report is None:
        return Pair(loaded, None, cancel, notices)
    try:
        drafting = LoadedModel(draft_settings, draft_header, cancel, lambda fraction: tell("draft", fraction))
    except BaseException:
        loaded.close()
        raise
    return Pair(
        loaded, drafting, cancel, notices, token_map(report, loaded.model, draft_header, drafting.model)
    )


def _tuned(requests: Sequence[Request], machine: Machine) -> tuple[list[Request], list[Notice]]:
    """The same with what `doctor --tune` found for each model, where the settings leave it open."""
    applied: list[Request] = []
    notices: list[Notice] = []
    for request in requests:
        found = None if request.header is None else tuning.recall(request.settings, request.header)
        settings = request.settings if found is None else found.applied(request.settings)
        applied.append(replace(request, settings=settings))
        if request.header is not None and settings != request.settings:
            told = f"{settings.path.stem} is decoded as doctor --tune found it fastest: {found}."
            notices.append(Notice("info", told))
    if (
        notices and plan_memory(applied, machine).verdict != "fits"
    ):  # then memory decides how weights are loaded
        for index, request in enumerate(requests):
            settings = replace(applied[index].settings, load_mode=request.settings.load_mode)
            applied[index] = replace(request, settings=settings)
    return applied, notices


def token_map(report: PairReport, target: Model, draft_header: Header, draft: Model) -> TokenMap | None:
    """How the two vocabularies map; None when a token's id is the same in both."""
    target_ids = target_ids_of(draft_header)
    if target_ids is None and not report.masked:
        return None
    ids = np.arange(min(target.num_vocab, draft.num_vocab)) if target_ids is None else target_ids

    def pieces() -> list[bytes]:
        return [draft.piece(token) for token in range(draft.num_vocab)]

    return TokenMap(target.num_vocab, ids, target.piece, pieces, report.masked)
