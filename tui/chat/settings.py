"""How the next answer is made: the settings that can be changed while chatting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from edge_spec import SETTINGS, Decoding, Sampling, Setting, SettingError, Settings

_UNSET: Final = ("none", "default", "auto")


def _rows() -> dict[str, Setting]:
    """The settings of one answer by name: those that Sampling and Decoding check."""
    classes = (Sampling, Decoding)
    return {name: row for name, row in SETTINGS.items() if row.field is not None and row.field[0] in classes}


@dataclass(slots=True, eq=False)
class ChatSettings:
    """Sampling, decoding and system prompt of the next answer, and whether it is drafted for.

    K is kept while `speculating` is False, so that turning it on again brings it back.
    """

    sampling: Sampling
    decoding: Decoding
    system: str = ""
    speculating: bool = True

    def __post_init__(self) -> None:
        if self.decoding.draft_max == 0:
            self._stop_drafting()

    @property
    def effective(self) -> Decoding:
        """How the next answer is decoded; without speculation K is 0."""
        return self.decoding if self.speculating else replace(self.decoding, draft_max=0, draft_min=0)

    def set(self, name: str, text: str) -> None:
        """Give the setting `name` the value that `text` says. Raises SettingError, and changes nothing."""
        row = _rows()[name]
        if text.lower() in _UNSET:
            value = row.default
        else:
            try:
                value = row.kind.parse(text)
            except ValueError as error:
                raise SettingError(f"{name} is {text!r}, but it must be {row.kind.words}.") from error
            if row.kind.many:
                value = (value,)
        self._put(row, value)

    def shown(self, name: str) -> str:
        """The present value of a setting as one would type it."""
        value = self._get(_rows()[name])
        return "none" if value is None else str(value)

    def plain(self) -> dict[str, Any]:
        """Every setting of an answer by name, for a record of the conversation."""
        values = {name: self._get(row) for name, row in _rows().items()}
        return {**values, "speculating": self.speculating}

    def used(self) -> dict[str, Any]:
        """Every setting of the next answer as a trace's header has it, K and the coupling those in force."""
        values = {name.replace("-", "_"): self._get(row) for name, row in _rows().items()}
        decoding = self.effective
        drafter = decoding.drafter if decoding.draft_max else "none"
        return {
            **values,
            "draft_max": decoding.draft_max,
            "drafter": drafter,
            "coupling": decoding.coupling_name,
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Take over what `plain()` gave; a value that is no longer understood is left alone."""
        rows = _rows()
        for name, value in plain.items():
            if name in rows:
                try:
                    self._put(rows[name], _frozen(value))
                except (SettingError, TypeError):
                    continue
        if plain.get("speculating") is False:
            self.speculating = False

    def take_changes(self, before: Settings, after: Settings) -> None:
        """The settings file was changed: what is new in it holds here, the rest stays as it is."""
        rows = _rows()
        changed = {name: after[name] for name in rows if after[name] != before[name]}
        self.restore(changed)
        if after["system"] != before["system"]:
            self.system = after["system"] or ""

    def _get(self, row: Setting) -> Any:
        assert row.field is not None
        cls, field = row.field
        if row.name == "draft-max" and self.decoding.drafter == "auto":
            return None
        return getattr(self.sampling if cls is Sampling else self.decoding, field)

    def _put(self, row: Setting, value: Any) -> None:
        assert row.field is not None
        cls, field = row.field
        if cls is Sampling:
            self.sampling = replace(self.sampling, **{field: value})
        elif row.name == "draft-max":
            self.decoding = self.decoding.with_length(value)
            self.speculating = True
            if value == 0:
                self._stop_drafting()
        else:
            self.decoding = replace(self.decoding, **{field: value})

    def _stop_drafting(self) -> None:
        self.speculating = False
        self.decoding = self.decoding.with_length(None)


def _frozen(value: Any) -> Any:
    """JSON knows no tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
