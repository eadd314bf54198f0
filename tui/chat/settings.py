"""How the next answer is made: the settings that can be changed while chatting."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from edge_spec import SETTINGS, Decoding, Sampling, Setting, SettingError, Settings

_UNSET: Final = ("none", "default", "auto")


_TOGETHER: Final = {"drafter": "drafter", "draft-min": "draft_min", "coupling": "coupling"}
"""Settings of an answer that are judged only with the others, with their fields of Decoding."""


_DRAFTING: Final = ("drafter", "draft-max", "speculating")
"""Settings that choose one another."""


def _rows() -> dict[str, Setting]:
    """The settings of one answer by name: those that Sampling and Decoding check."""
    return {
        name: row
        for name, row in SETTINGS.items()
        if name in _TOGETHER or (row.field is not None and row.field[0] in (Sampling, Decoding))
    }


def _field(row: Setting) -> tuple[type, str]:
    """The class and the field that a setting fills."""
    return row.field or (Decoding, _TOGETHER[row.name])


@dataclass(slots=True, eq=False)
class ChatSettings:
    """Sampling, decoding and system prompt of the next answer, and whether it is drafted for.

    K is kept while `speculating` is False, so that turning it on again brings it back.

    A conversation that is opened again brings its own settings, save what the command line `given`
    said: a flag beats what is saved. (Its system prompt is its own in any case.) What is changed by
    hand, or in the settings file, holds from then on, here and in new chats. A new chat has nothing of
    the conversation opened before it.
    """

    sampling: Sampling
    decoding: Decoding
    system: str = ""
    speculating: bool = True
    given: Collection[str] = ()
    _of_new: ChatSettings | None = field(default=None, init=False)
    """Those of a new chat, while a conversation's own are in force."""

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
        value: Any
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
        if self._of_new is not None:
            with suppress(SettingError):
                self._of_new._put(row, value)

    def speculate(self, on: bool) -> None:
        """Draft, or leave it for a while."""
        self.speculating = on
        if self._of_new is not None:
            self._of_new.speculating = on

    def shown(self, name: str) -> str:
        """The present value of a setting as one would type it."""
        value = self._get(_rows()[name])
        if value is None:
            return "auto" if name == "draft-max" else "none"
        return str(value)

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
        """A conversation is opened that has what `plain()` gave; the rest is as in a new chat.

        A value that is no longer understood is left alone, and so is what the command line gave:
        drafter, K and whether it drafts at all together, for each follows from the others.
        """
        self.begin()
        of_new = replace(self)
        kept = set(self.given)
        if not kept.isdisjoint(_DRAFTING):
            kept.update(_DRAFTING)
        for name, row in _rows().items():  # in this order: the drafter comes before its K
            if name in plain and name not in kept:
                with suppress(SettingError, TypeError):
                    self._put(row, _frozen(plain[name]))
        if plain.get("speculating") is False and "speculating" not in kept:
            self.speculating = False
        self._of_new = of_new

    def begin(self) -> None:
        """A new chat begins: what a conversation brought no longer holds."""
        if self._of_new is not None:
            of_new, self._of_new = self._of_new, None
            self.sampling, self.decoding = of_new.sampling, of_new.decoding
            self.speculating = of_new.speculating

    def take_changes(self, before: Settings, after: Settings) -> None:
        """The settings file was changed: what is new in it holds here, the rest stays as it is.

        The system prompt belongs to a conversation, and is not taken. Raises SettingError for what
        does not go with the rest; all before it holds then.
        """
        if self._of_new is not None:
            with suppress(SettingError):
                self._of_new.take_changes(before, after)
        changed = {name: row for name, row in _rows().items() if after[name] != before[name]}
        if changed.pop("drafter", None) or changed.pop("draft-max", None):
            changed.pop("draft-max", None)
            self._draft_as(after.decoding())  # each is chosen by the other where it is not given
        last = changed.pop("draft-min", None)
        for name, row in changed.items():
            self._put(row, after[name])
        if last is not None:
            self._put(last, after[last.name])

    def _get(self, row: Setting) -> Any:
        cls, field = _field(row)
        if row.name == "draft-max" and self.decoding.drafter == "auto":
            return None
        return getattr(self.sampling if cls is Sampling else self.decoding, field)

    def _put(self, row: Setting, value: Any) -> None:
        cls, field = _field(row)
        if cls is Sampling:
            self.sampling = replace(self.sampling, **{field: value})
        elif row.name == "drafter":
            self._draft_as(Decoding(draft_max=0) if value == "none" else Decoding(drafter=value))
        elif row.name == "draft-max":
            self.decoding = self.decoding.with_length(value)
            self.speculating = True
            if value == 0:
                self._stop_drafting()
        else:
            self.decoding = replace(self.decoding, **{field: value})

    def _draft_as(self, decoding: Decoding) -> None:
        """Take drafter and K from another, and as much of the own least length as goes with them."""
        k, least = decoding.draft_max, min(self.decoding.draft_min, decoding.draft_max)
        self.decoding = replace(self.decoding, drafter=decoding.drafter, draft_max=k, draft_min=least)
        self.speculating = True
        if k == 0:
            self._stop_drafting()

    def _stop_drafting(self) -> None:
        self.speculating = False
        self.decoding = self.decoding.with_length(None)


def _frozen(value: Any) -> Any:
    """JSON knows no tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
