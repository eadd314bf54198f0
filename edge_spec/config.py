"""Frozen, validated settings: how to sample, how to decode, how to load a model.

Every constructor raises SettingError with the value, the reason and the range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

from edge_spec.errors import SettingError

CouplingName = Literal["rejection", "shared"]
DrafterName = Literal["auto", "draft", "ngram"]
KVType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]
FlashAttention = Literal["auto", "on", "off"]
LoadMode = Literal["auto", "mmap", "none"]

MAX_DRAFT: Final = 64
"""The most tokens drafted a round with one slot; several slots share them."""

DRAFT_MAX: Final[Mapping[DrafterName, int]] = {"auto": 32, "draft": 3, "ngram": 8}
"""The most tokens drafted a round by each drafter, unless something else is asked for."""


def _require(ok: bool, name: str, value: object, must: str) -> None:
    if not ok:
        raise SettingError(f"{name} is {value}, but it must be {must}.")


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampler settings with llama.cpp's names, order and semantics.

    Order: logit bias, penalties, top-k, top-p, min-p, temperature. top_k 0, top_p 1, min_p 0
    and penalties of 1 / 0 / 0 switch a step off. Temperature 0 is argmax after bias and
    penalties. `penalty_last_n` tokens are looked back on; -1 is the whole text.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    logit_bias: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        t = self.temperature
        _require(math.isfinite(t) and t >= 0, "temperature", t, "0 or more")
        _require(self.top_k >= 0, "top-k", self.top_k, "0 (off) or more")
        _require(0 < self.top_p <= 1, "top-p", self.top_p, "above 0 and at most 1 (1 is off)")
        _require(0 <= self.min_p <= 1, "min-p", self.min_p, "from 0 (off) to 1")
        r = self.repeat_penalty
        _require(math.isfinite(r) and r > 0, "repeat-penalty", r, "above 0 (1 is off)")
        for name in ("frequency_penalty", "presence_penalty"):
            value = getattr(self, name)
            _require(math.isfinite(value), name.replace("_", "-"), value, "a finite number")
        n = self.penalty_last_n
        _require(n >= -1, "penalty-last-n", n, "-1 (the whole text), 0 (off) or more")
        for token, bias in self.logit_bias:
            _require(
                token >= 0 and not math.isnan(bias), "logit bias", (token, bias), "a token id and a number"
            )


GREEDY = Sampling(temperature=0.0)


@dataclass(frozen=True, slots=True)
class Decoding:
    """How one text is generated.

    `draft_max` is K, the most tokens drafted a round; 0 is plain decoding. `drafter` is what
    guesses: the draft model, an n-gram match in the text, or auto: whichever pays by what was
    measured here, and as much of it as pays, which may be nothing. With neither given it is auto;
    with K alone it is the draft model, K tokens a round. `seed` None is
    fresh randomness. `coupling` None means shared when a seed is given, else rejection.
    `draft_temperature` None means the target's, and the draft's argmax wherever that turns out to
    be accepted more often; 0 always drafts the argmax. With `reproducible`, text
    that a seed or temperature 0 decides gets its logits from decodes of two rows at least, where
    the model computes a single row in another way than several (BF16 on CPUs does).
    """

    max_tokens: int = 512
    draft_max: int = None  # type: ignore[assignment]  # chosen below, and so is the drafter
    draft_min: int = 0
    draft_temperature: float | None = None
    seed: int | None = None
    coupling: CouplingName | None = None
    stop: tuple[str, ...] = ()
    reproducible: bool = True
    drafter: DrafterName = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.drafter is None:
            object.__setattr__(self, "drafter", "auto" if self.draft_max is None else "draft")
        _require(not isinstance(self.stop, str), "stop", repr(self.stop), "a tuple of strings")
        _require(self.max_tokens >= 1, "max-tokens", self.max_tokens, "1 or more")
        _require(self.drafter in get_args(DrafterName), "drafter", self.drafter, "auto, draft or ngram")
        if self.draft_max is None:
            object.__setattr__(self, "draft_max", DRAFT_MAX[self.drafter])
        _require(
            0 <= self.draft_max <= MAX_DRAFT,
            "draft-max",
            self.draft_max,
            f"from 0 (plain decoding) to {MAX_DRAFT}",
        )
        _require(
            0 <= self.draft_min <= self.draft_max,
            "draft-min", self.draft_min, f"from 0 to draft-max ({self.draft_max})",
        )  # fmt: skip
        t = self.draft_temperature
        _require(t is None or (math.isfinite(t) and t >= 0), "draft temperature", t, "0 or more")
        _require(self.seed is None or 0 <= self.seed < 2**64, "seed", self.seed, "from 0 to 2^64 - 1")
        _require(
            self.coupling in (None, "rejection", "shared"), "coupling", self.coupling, "rejection or shared"
        )
        _require(all(self.stop), "stop string", '""', "at least one character")

    def with_length(self, draft_max: int | None) -> Decoding:
        """The same with another K, None being the drafter's own.

        The drafter is chosen as for a new one, with one exception: n-grams, which are never chosen
        unless somebody asked for them, stay.
        """
        drafter: DrafterName = "auto" if draft_max is None else "draft"
        if self.drafter == "ngram":
            drafter = "ngram"
        length = DRAFT_MAX[drafter] if draft_max is None else draft_max
        return replace(self, draft_max=length, draft_min=min(self.draft_min, length), drafter=drafter)

    @property
    def coupling_name(self) -> CouplingName:
        return self.coupling or ("rejection" if self.seed is None else "shared")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How one GGUF is loaded.

    `threads` None is chosen from the machine; `gpu_layers` -1 is all. `device` None lets
    llama.cpp choose, else a name that `edge-spec doctor` lists. `load_mode` says whether weights
    are used where the file is mapped (mmap) or read into memory of our own (none).
    """

    path: Path
    context_size: int = 4096
    threads: int | None = None
    threads_batch: int | None = None
    gpu_layers: int = -1
    device: str | None = None
    kv_type_k: KVType = "f16"
    kv_type_v: KVType = "f16"
    flash_attention: FlashAttention = "auto"
    batch_size: int = 512
    num_slots: int = 1
    load_mode: LoadMode = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        cells = self.context_size * self.num_slots
        _require(
            self.context_size >= 8 and cells < 2**31,
            "context size", self.context_size, "8 or more, and with all slots below 2^31 tokens",
        )  # fmt: skip
        for name in ("threads", "threads_batch"):
            value = getattr(self, name)
            _require(value is None or 1 <= value <= 512, name.replace("_", "-"), value, "from 1 to 512")
        _require(1 <= self.num_slots <= 256, "slots", self.num_slots, "from 1 to 256")
        least = max(32, 8 * self.num_slots)
        _require(
            least <= self.batch_size <= 2**16,
            "batch size", self.batch_size, f"from {least} (8 rows a slot) to {2**16}",
        )  # fmt: skip
        _require(-1 <= self.gpu_layers < 2**31, "gpu-layers", self.gpu_layers, "-1 (all), 0 (none) or more")
        for name in ("kv_type_k", "kv_type_v"):
            value = getattr(self, name)
            _require(
                value in get_args(KVType),
                name.replace("_", "-"),
                value,
                "one of " + ", ".join(get_args(KVType)),
            )
        _require(
            self.flash_attention in get_args(FlashAttention),
            "flash attention", self.flash_attention, "auto, on or off",
        )  # fmt: skip
        _require(self.load_mode in get_args(LoadMode), "load mode", self.load_mode, "auto, mmap or none")
        _require(
            self.flash_attention != "off" or self.kv_type_v in ("f32", "f16", "bf16"),
            "kv-type-v", self.kv_type_v, "f32, f16 or bf16 without flash attention",
        )  # fmt: skip
