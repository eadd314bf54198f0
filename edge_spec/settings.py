"""Settings by name, and where each one's value came from.

A flag beats the environment (`EDGE_SPEC_TEMP`), which beats the project's file
(`./edge-spec.toml`), which beats the user's file, which beats the default. In a file the keys
are the long option names without their dashes in front. What concerns the chat's screen alone
stands in the table `[chat]`, and the table `[keys]` gives the chat's actions other keys::

    temp = 0.2
    ctx-size = 8192
    stop = ["\\n\\n", "###"]

    [chat]
    theme = "nord"       # colours, by a name that the chat lists
    glyphs = true        # marks tokens with signs beside the colours
    rejected = false     # hides rejected and discarded tokens
    rendered = true      # shows answers as rendered Markdown
    inspect = 5          # likeliest tokens kept for each position; 0: only while inspecting

    [keys]
    stop = "ctrl+x"      # one key instead of the action's own
    models = ["f5", "ctrl+o"]
    copy = []            # no key at all

Unknown keys, wrong types and values out of range raise SettingError with the place they are in.
Only the names of actions are left to the chat, which alone knows them. Variables have no tables
in their names: EDGE_SPEC_GLYPHS=on. `settings_file.save_settings` writes a file by the same rules.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, get_args

import platformdirs

from edge_spec.config import Decoding, FlashAttention, KVType, LoadMode, ModelSettings, Sampling
from edge_spec.errors import SettingError

PROJECT_FILE: Final = Path("edge-spec.toml")
PREFIX: Final = "EDGE_SPEC_"
CHAT: Final = "Chat"
"""The group of settings that only the chat's screen has; in a file, the table `[chat]`."""
KEYS: Final = "keys"
"""The table of a file that gives the chat's actions other keys."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of value: its words for people, how to read it from text, how to check it in TOML.

    `parse` raises ValueError, and `show` gives a text that it reads; `many` says that the
    setting holds a tuple of such values. `choices` are all texts that there are, if they are few.
    """

    words: str
    parse: Callable[[Any], Any]
    toml: tuple[type, ...]
    many: bool = False
    show: Callable[[Any], str] = str
    choices: tuple[str, ...] = ()


def _choice(*names: str) -> Kind:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    return Kind("one of " + ", ".join(names), parse, (str,), choices=names)


def _parse_bias(text: str) -> tuple[int, float]:
    """llama.cpp's TOKEN(+/-)BIAS: 15043+1, 15043-inf."""
    match = re.fullmatch(r"(\d+)([+-].+)", text)
    if match is None:
        raise ValueError
    return int(match[1]), float(match[2])


def _show_bias(bias: tuple[int, float]) -> str:
    return f"{bias[0]}{bias[1]:+}"


_SWITCH: Final = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}


def _parse_switch(raw: str | bool) -> bool:
    word = str(raw).lower()
    if word not in _SWITCH:
        raise ValueError
    return _SWITCH[word]


def _show_switch(value: bool) -> str:
    return "on" if value else "off"


def _count(most: int) -> Kind:
    def parse(raw: str | int) -> int:
        value = int(raw)
        if not 0 <= value <= most:
            raise ValueError
        return value

    return Kind(f"a whole number from 0 to {most}", parse, (int,))


WHOLE = Kind("a whole number", int, (int,))
NUMBER = Kind("a number", float, (int, float))
TEXT = Kind("text", str, (str,))
TEXTS = Kind("text, or a list of texts", str, (str,), many=True)
BIASES = Kind(
    "a token id and a bias, like 15043+1 or 15043-inf", _parse_bias, (str,), many=True, show=_show_bias
)
SWITCH = Kind("on or off", _parse_switch, (bool, str), show=_show_switch, choices=("on", "off"))


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


def _table() -> dict[str, Setting]:
    models, drafting, sampling, text = "Models", "Drafting", "Sampling", "Text"
    theme = "Colours, by a name that the chat lists (default: chosen)."
    kept = "Likeliest tokens kept for each position; 0 is only while inspecting."
    kv_types, flash = _choice(*get_args(KVType)), _choice(*get_args(FlashAttention))
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
        s("load-mode", _choice(*get_args(LoadMode)), "auto",
          "How weights are loaded: auto (by free memory), mmap or none.", models, ("-lm",), "MODE"),
        s("drafter", _choice("auto", "draft", "ngram", "none"), None,
          "auto (what pays here), draft (a model), ngram or none.", drafting, (), "NAME"),
        s("draft-max", WHOLE, None, "K, tokens drafted a round at most; 0 is plain.", drafting, ("-k",), "N",
          (Decoding, "draft_max")),
        s("draft-min", WHOLE, 0, "Draft nothing where fewer than N tokens would be drafted.", drafting),
        s("draft-temp", NUMBER, None, "Temperature of the draft (default: --temp).", drafting, (), "T",
          (Decoding, "draft_temperature")),
        s("coupling", _choice("rejection", "shared"), None,
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
        s("inspect", _count(20), 0, kept, CHAT),
    ]  # fmt: skip
    return {row.name: row for row in rows}


SETTINGS: Final = _table()


@dataclass(frozen=True, slots=True)
class Value:
    """A setting's value and where it came from: a flag, a variable, a file, or "default".

    `below` is what the next lower place says of the setting.
    """

    value: Any
    origin: str
    below: Value | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting's value with its origin, and the files that were read.

    `keys` has the actions of the `[keys]` tables, each with the tuple of its keys; nobody has
    checked yet whether there are such actions. `user_file` is the user's file, or the one in its
    place, whether or not it is there.
    """

    values: Mapping[str, Value]
    files: tuple[Path, ...]
    keys: Mapping[str, Value]
    user_file: Path

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value

    def origin(self, name: str) -> str:
        return self.values[name].origin

    def where(self, name: str) -> str:
        """The place of `origin` in words that also tell the setting: --temp, or "temp in config.toml"."""
        return _where(SETTINGS[name], self.origin(name))

    def rank(self, name: str) -> int:
        """How high the place of `origin` stands: a flag 4, a variable 3, the project's file 2, the
        user's 1, a default 0.
        """
        return self._rank(name, self.origin(name))

    def ranks(self, name: str) -> set[int]:
        """The ranks of all places that say something of a setting; the highest is that of `rank`."""
        found = set[int]()
        value: Value | None = self.values[name]
        while value is not None:
            found.add(self._rank(name, value.origin))
            value = value.below
        return found

    def _rank(self, name: str, origin: str) -> int:
        if origin.startswith("--"):
            return 4
        places = {"default": 0, str(self.user_file): 1, str(PROJECT_FILE): 2, SETTINGS[name].variable: 3}
        return places[origin]

    def sampling(self) -> Sampling:
        return Sampling(**self._fields(Sampling))

    def decoding(self) -> Decoding:
        """How to decode; the drafter "none" means K = 0.

        "none" and "auto" say how many tokens are drafted, as K does: said in a lower place than K, they
        give way to it, and so does K = 0 to a drafter said above it. Any other K and drafter go together.
        Nor does a least number of tokens stand above a K that was said above it.
        """
        fields, drafter = self._fields(Decoding), self["drafter"]
        above = self.rank("draft-max") - self.rank("drafter")
        if above > 0 and drafter in ("none", "auto"):
            drafter = None
        elif above < 0 and fields["draft_max"] == 0:
            fields["draft_max"] = None
        if drafter == "none":
            fields["draft_max"] = 0
        else:
            fields["drafter"] = drafter
        draft_min, most = self["draft-min"], fields["draft_max"]
        if most is not None and (most == 0 or self.rank("draft-min") < self.rank("draft-max")):
            draft_min = min(draft_min, most)
        return Decoding(**fields, draft_min=draft_min, coupling=self["coupling"])

    def plain(self) -> dict[str, Any]:
        """Name to value, for a record of how a text came to be; not how a screen showed it."""
        return {name: value.value for name, value in self.values.items() if not SETTINGS[name].chat_only}

    def load_options(self) -> dict[str, Any]:
        """What `load_pair` takes besides the two models."""
        return {
            "context_size": self["ctx-size"],
            "threads": self["threads"],
            "threads_batch": self["threads-batch"],
            "gpu_layers": self["gpu-layers"],
            "draft_gpu_layers": self["gpu-layers-draft"],
            "device": self["device"],
            "draft_device": self["device-draft"],
            "kv_type_k": self["cache-type-k"],
            "kv_type_v": self["cache-type-v"],
            "flash_attention": self["flash-attn"],
            "load_mode": self["load-mode"],
        }

    def _fields(self, cls: type) -> dict[str, Any]:
        rows = (row for row in SETTINGS.values() if row.field is not None and row.field[0] is cls)
        return {row.field[1]: self[row.name] for row in rows if row.field is not None}


def user_file() -> Path:
    """The user's own settings file, in the platform's folder for them."""
    return platformdirs.user_config_path("edge-spec") / "config.toml"


def resolve(
    flags: Mapping[str, Any] | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Decide every setting. `flags` holds texts as typed; `config` replaces the user's file."""
    values, keys = defaults(), dict[str, Value]()
    files = []

    def put(name: str, value: Value) -> None:
        values[name] = replace(value, below=values[name])

    if config is not None and not os.path.exists(config):
        raise SettingError(f"The settings file {config} does not exist.")
    for path in (config or user_file(), PROJECT_FILE):
        if os.path.exists(path):
            files.append(path)
            read = parse_file(read_text(path), path)
            for name, value in read.values.items():
                put(name, value)
            keys.update(read.keys)
    for name, row in SETTINGS.items():
        if text := environ.get(row.variable):
            put(name, Value(parse_text(row, text, row.variable), row.variable))
    for name, given in (flags or {}).items():
        if given is not None and given != ():
            flag = f"--{name}"
            put(name, Value(parse_value(SETTINGS[name], given, (str,), flag), flag))
    for name, value in values.items():
        check_range(SETTINGS[name], value)
    return Settings(values, tuple(files), keys, config or user_file())


def defaults() -> dict[str, Value]:
    return {name: Value(row.default, "default") for name, row in SETTINGS.items()}


def read_text(path: Path) -> str:
    try:
        # Line ends as they are: who writes the file again keeps them.
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise SettingError(f"The settings file {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise SettingError(f"The settings file {path} is not TOML: {error}.") from error


@dataclass(frozen=True, slots=True)
class FileContents:
    values: dict[str, Value]
    keys: dict[str, Value]


def parse_file(text: str, path: Path) -> FileContents:
    """What a file says, types checked. Raises SettingError with the place."""
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise SettingError(f"The settings file {path} is not TOML: {error}.") from error
    contents = FileContents({}, {})
    for key, raw in document.items():
        if key == KEYS:
            contents.keys.update(_parse_keys(raw, path))
        elif key == CHAT.lower() and isinstance(raw, dict):
            for name, value in raw.items():
                contents.values[name] = _file_value(name, value, path, key)
        else:
            contents.values[key] = _file_value(key, raw, path, None)
    return contents


def _file_value(name: str, raw: Any, path: Path, table: str | None) -> Value:
    row = row_of(name, f"{path} has the unknown key")
    if row.table != table:
        place = f"in the table [{row.table}]" if row.table else "above the first table"
        raise SettingError(f"{name} belongs {place} of {path}.")
    return Value(parse_value(row, raw, row.kind.toml, f"{row.key} in {path}"), str(path))


_KEY: Final = re.compile(r"[^\s,]+")


def _parse_keys(raw: Any, path: Path) -> dict[str, Value]:
    """The `[keys]` table: action to a key or a list of keys; none switches the action's key off."""
    if not isinstance(raw, dict):
        raise SettingError(
            f'{KEYS} in {path} is {raw!r}, but it must be a table of actions, like stop = "f8".'
        )
    found = {}
    for action, given in raw.items():
        keys = given if isinstance(given, list) else [given]
        if not all(isinstance(key, str) and _KEY.fullmatch(key) for key in keys):
            must = 'a key like "ctrl+r", or a list of them'
            raise SettingError(f"{KEYS}.{action} in {path} is {given!r}, but it must be {must}.")
        found[action] = Value(tuple(keys), str(path))
    return found


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


def parse_value(row: Setting, raw: Any, types: tuple[type, ...], where: str) -> Any:
    """A value, or the several values of a setting that holds many, from a flag, variable or file."""
    items = raw if row.kind.many and isinstance(raw, list | tuple) else [raw]
    parsed = []
    for item in items:
        try:
            if type(item) not in types:
                raise ValueError
            parsed.append(row.kind.parse(item))
        except ValueError as error:
            raise SettingError(f"{where} is {item!r}, but it must be {row.kind.words}.") from error
    return tuple(parsed) if row.kind.many else parsed[0]


def parse_text(row: Setting, text: str, where: str) -> Any:
    """A variable holds one text; for a setting that holds many, it may be a JSON list."""
    raw: Any = text
    if row.kind.many and text.startswith("["):
        try:
            raw = json.loads(text)
        except ValueError as error:
            raise SettingError(f"{where} is {text!r}, which is no JSON list.") from error
    return parse_value(row, raw, (str,), where)


def check_range(row: Setting, value: Value) -> None:
    """Let the class that owns the field judge it, and say where a bad value stands."""
    if row.field is None or value.origin == "default" or value.value is None:
        return
    cls, field = row.field
    fields = {field: value.value}
    if cls is ModelSettings:
        fields["path"] = Path()
    try:
        cls(**fields)
    except SettingError as error:
        place = _where(row, value.origin)
        raise SettingError(f"{str(error).removesuffix('.')} ({place}).") from error


def _where(row: Setting, origin: str) -> str:
    return origin if origin.startswith("--") or origin == row.variable else f"{row.name} in {origin}"
