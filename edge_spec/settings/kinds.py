"""Types of values: their words for people, and how they are read from text and from TOML."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


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


def choice(*names: str) -> Kind:
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


def count(most: int) -> Kind:
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
