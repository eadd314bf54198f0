"""What was decided: each setting's value and the place it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from edge_spec.config import Decoding, Sampling
from edge_spec.settings.table import SETTINGS

PROJECT_FILE: Final = Path("edge-spec.toml")
_FLAG: Final = 4


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
        """See `Setting.place`."""
        return SETTINGS[name].place(self.origin(name))

    def is_flag(self, name: str) -> bool:
        """Whether the command line said it."""
        return self.rank(name) == _FLAG

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
            return _FLAG
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


def defaults() -> dict[str, Value]:
    return {name: Value(row.default, "default") for name, row in SETTINGS.items()}
