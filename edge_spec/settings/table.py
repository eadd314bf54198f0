"""Every setting: its name, type, default and help, and the field that it fills."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, get_args

from edge_spec.config import Decoding, DrafterName, FlashAttention, KVType, LoadMode, ModelSettings, Sampling
from edge_spec.errors import SettingError
from edge_spec.settings.kinds import BIASES, NUMBER, SWITCH, TEXT, TEXTS, WHOLE, Kind, choice, count

PREFIX: Final = "EDGE_SPEC_"
CHAT: Final = "Chat"
"""The group of settings that only the chat's screen has; in a file, the table `[chat]`."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its long option name, its other flags, its help and its default.

    `field` names the field that it fills, of the class that checks its range.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    group: str
    flags: tuple[str, ...] = ()
    metavar: str = "N"
    field: tuple[type, str] | None = None

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return PREFIX + self.name.upper().replace("-", "_")

    @property
    def chat_only(self) -> bool:
        """Whether it concerns the chat's screen alone: no other command takes it."""
        return self.group == CHAT

    @property
    def table(self) -> str | None:
        """The table of a file that it stands in; None is the top level."""
        return CHAT.lower() if self.chat_only else None

    @property
    def key(self) -> str:
        """Its name in a file with the table: temp, chat.theme."""
        return f"{self.table}.{self.name}" if self.table else self.name

    def text(self, value: Any) -> str:
        """`value` as its variable would hold it, several as a JSON list; "" is none at all."""
        if value is None or value == ():
            return ""
        if self.kind.many:
            return json.dumps([self.kind.show(item) for item in value], ensure_ascii=False)
        return self.kind.show(value)

    def place(self, origin: str) -> str:
        """`origin` in words that also tell the setting: --temp, or "temp in config.toml"."""
        return origin if origin.startswith("--") or origin == self.variable else f"{self.name} in {origin}"


def _table() -> dict[str, Setting]:
    models, drafting, sampling, text = "Models", "Drafting", "Sampling", "Text"
    theme = "Colours, by a name that the chat lists (default: chosen)."
    kept = "Likeliest tokens kept for each position; 0 is only while inspecting."
    kv_types, flash = choice(*get_args(KVType)), choice(*get_args(FlashAttention))
    s = Setting
    rows = [
        s("model", TEXT, None, "Target: a GGUF file, a catalogue name or user/repo[:QUANT].", models, ("-m",),
          "MODEL"),
        s("draft-model", TEXT, None, "Draft: likewise.", models, ("-md",), "MODEL"),
        s("hf-repo", TEXT, None, "Target on the hub: user/repo[:QUANT].", models, ("-hf",), "REPO"),
        s("hf-repo-draft", TEXT, None, "Draft on the hub: likewise.", models, ("-hfd",), "REPO"),
        s("pair", TEXT, "starter", "Catalogue pair that -m, -md, -hf and -hfd override.", models, (), "NAME"),
        s("ctx-size", WHOLE, 4096, "Context, in tokens.", models, ("-c",), "N",
          (ModelSettings, "context_size")),
        s("threads", WHOLE, None, "Threads for decoding (default: chosen).", models, ("-t",), "N",
          (ModelSettings, "threads")),
        s("threads-batch", WHOLE, None,
          "Threads for reading prompts and checking drafts (default: chosen).", models, ("-tb",), "N",
          (ModelSettings, "threads_batch")),
        s("gpu-layers", WHOLE, -1, "Target layers on the GPU; -1 is all.", models, ("-ngl",), "N",
          (ModelSettings, "gpu_layers")),
        s("gpu-layers-draft", WHOLE, -1, "Draft layers on the GPU; -1 is all.", models, ("-ngld",), "N",
          (ModelSettings, "gpu_layers")),
        s("device", TEXT, None, "Device of the target, as doctor lists it.", models, ("-dev",), "NAME"),
        s("device-draft", TEXT, None, "Device of the draft.", models, ("-devd",), "NAME"),
        s("cache-type-k", kv_types, "f16", "Type of cached keys: f16, q8_0, ...", models, ("-ctk",), "TYPE"),
        s("cache-type-v", kv_types, "f16", "Type of cached values.", models, ("-ctv",), "TYPE"),
        s("flash-attn", flash, "auto", "Flash attention: auto, on or off.", models, ("-fa",), "WHEN"),
        s("load-mode", choice(*get_args(LoadMode)), "auto",
          "How weights are loaded: auto (by free memory), mmap or none.", models, ("-lm",), "MODE"),
        s("drafter", choice(*get_args(DrafterName), "none"), None,
          "auto (what pays here), draft (a model), ngram or none.", drafting, (), "NAME"),
        s("draft-max", WHOLE, None, "K, tokens drafted a round at most; 0 is plain.", drafting, ("-k",), "N",
          (Decoding, "draft_max")),
        s("draft-min", WHOLE, 0, "Draft nothing where fewer than N tokens would be drafted.", drafting),
        s("draft-temp", NUMBER, None, "Temperature of the draft (default: --temp).", drafting, (), "T",
          (Decoding, "draft_temperature")),
        s("coupling", choice("rejection", "shared"), None,
          "rejection, or shared: text depends on the seed alone.", drafting, (), "NAME"),
        s("reproducible", SWITCH, True, "Seeded and greedy text must not depend on K.", drafting, (),
          "on|off", (Decoding, "reproducible")),
        s("max-tokens", WHOLE, 512, "End the answer after this many tokens.", text, ("-n",), "N",
          (Decoding, "max_tokens")),
        s("stop", TEXTS, (), "End the answer before TEXT; repeatable.", text, ("-r",), "TEXT",
          (Decoding, "stop")),
        s("system", TEXT, None, "System message.", text, (), "TEXT"),
        s("seed", WHOLE, None, "Repeat the same draws (default: fresh ones).", sampling, ("-s",), "N",
          (Decoding, "seed")),
        s("temp", NUMBER, 0.8, "Temperature; 0 takes the likeliest token.", sampling, (), "T",
          (Sampling, "temperature")),
        s("top-k", WHOLE, 40, "Keep the K likeliest tokens; 0 is off.", sampling, (), "N",
          (Sampling, "top_k")),
        s("top-p", NUMBER, 0.95, "Keep tokens up to this mass; 1 is off.", sampling, (), "P",
          (Sampling, "top_p")),
        s("min-p", NUMBER, 0.05, "Keep tokens above this share of the best; 0 is off.", sampling, (), "P",
          (Sampling, "min_p")),
        s("repeat-penalty", NUMBER, 1.0, "Penalty on repeated tokens; 1 is off.", sampling, (), "X",
          (Sampling, "repeat_penalty")),
        s("frequency-penalty", NUMBER, 0.0, "Penalty for each repetition; 0 is off.", sampling, (), "X",
          (Sampling, "frequency_penalty")),
        s("presence-penalty", NUMBER, 0.0, "Penalty for having occurred; 0 is off.", sampling, (), "X",
          (Sampling, "presence_penalty")),
        s("repeat-last-n", WHOLE, 64, "Tokens that penalties look back on; -1 is all.", sampling, (), "N",
          (Sampling, "penalty_last_n")),
        s("logit-bias", BIASES, (), "Add BIAS to TOKEN's logit; repeatable.", sampling, (), "TOKEN+BIAS",
          (Sampling, "logit_bias")),
        s("theme", TEXT, None, theme, CHAT, (), "NAME"),
        s("glyphs", SWITCH, False, "Mark tokens with signs beside the colours.", CHAT, (), "on|off"),
        s("rejected", SWITCH, True, "Show rejected and discarded tokens.", CHAT, (), "on|off"),
        s("rendered", SWITCH, False, "Show answers as rendered Markdown.", CHAT, (), "on|off"),
        s("inspect", count(20), 0, kept, CHAT),
    ]  # fmt: skip
    return {row.name: row for row in rows}


SETTINGS: Final = _table()


def row_of(name: str, complaint: str) -> Setting:
    """The setting called `name`; a SettingError that begins with `complaint` has the nearest name."""
    row = SETTINGS.get(name)
    if row is None:
        raise SettingError(f"{complaint} {name!r}{_nearest(name)}")
    return row


def _nearest(key: str) -> str:
    import difflib  # slow to import, and only an error needs it

    near = difflib.get_close_matches(key.replace("_", "-"), SETTINGS, 1, cutoff=0.7)
    return f"; did you mean {near[0]!r}?" if near else "."
