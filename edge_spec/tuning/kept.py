"""What was found to be fastest for a model on this machine, kept between starts."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, get_args

from edge_spec.config import FlashAttention, LoadMode, ModelSettings
from edge_spec.models.header import Header
from edge_spec.remembered import Remembered, file_facts

FORMAT = 1
_TUNED = Remembered("tuned")


@dataclass(frozen=True, slots=True)
class Tuned:
    """A way to decode one model: threads for one row and for several, flash attention, load mode."""

    threads: int
    threads_batch: int
    flash_attention: FlashAttention
    load_mode: LoadMode

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads != 1 else ''}"
        wide = "" if self.threads_batch == self.threads else f" ({self.threads_batch} for several rows)"
        return f"{threads}{wide}, flash attention {self.flash_attention}, load mode {self.load_mode}"

    def applied(self, settings: ModelSettings) -> ModelSettings:
        """`settings` with everything from here that they leave open."""
        open_threads = settings.threads is None
        return replace(
            settings,
            threads=self.threads if open_threads else settings.threads,
            threads_batch=settings.threads_batch
            or (self.threads_batch if open_threads else settings.threads_batch),
            flash_attention=self.flash_attention
            if settings.flash_attention == "auto" and settings.kv_type_v in ("f16", "bf16")
            else settings.flash_attention,
            load_mode=self.load_mode if settings.load_mode == "auto" else settings.load_mode,
        )


def keep(settings: ModelSettings, header: Header, tuned: Tuned) -> None:
    """Remember it for the next loads of this model. Quietly does nothing where that is not possible."""
    state = {"format": FORMAT, "model": header.path.stem, **asdict(tuned)}
    _TUNED.keep(partial(_facts, settings, header), state)


def recall(settings: ModelSettings, header: Header) -> Tuned | None:
    """What was found for this model on this machine, or None."""
    return _TUNED.recall(partial(_facts, settings, header), _tuned)


def kept_models() -> list[tuple[str, Tuned]]:
    """Every model that was tuned on this machine, by name."""
    found = _TUNED.everything(lambda raw, _when: (str(raw["model"]), _tuned(raw)))
    return sorted(found, key=lambda pair: pair[0])


def _tuned(raw: dict[str, Any]) -> Tuned:
    tuned = Tuned(int(raw["threads"]), int(raw["threads_batch"]), raw["flash_attention"], raw["load_mode"])
    known = tuned.flash_attention in get_args(FlashAttention) and tuned.load_mode in get_args(LoadMode)
    if raw["format"] != FORMAT or min(tuned.threads, tuned.threads_batch) < 1 or not known:
        raise ValueError
    return tuned


def _facts(settings: ModelSettings, header: Header) -> list[Any]:
    """The model, where its layers are, the machine and llama.cpp's build."""
    from edge_spec.llama import abi
    from edge_spec.llama.model import default_threads

    where = [settings.gpu_layers, settings.device]
    return [file_facts(header), *where, abi.build(), platform.node(), default_threads()]
