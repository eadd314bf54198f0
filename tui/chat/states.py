"""What the chat is doing, and the words for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Name = Literal[
    "empty", "loading", "ready", "calibrating", "reading", "streaming", "stopping", "stopped", "length",
    "full", "crashed", "restarted", "load-crashed", "error",
]  # fmt: skip
"""Each has its own look in app.tcss, as the class `-NAME` of the prompt."""

BUSY: frozenset[Name] = frozenset({"calibrating", "reading", "streaming", "stopping"})
"""An answer is being given."""

NUM_CELLS = 12
_LONG_PROMPT = 256


@dataclass(frozen=True, slots=True)
class State:
    """One state; `detail` is the model that loads, the crash or the error, `part` how much is done."""

    name: Name
    detail: str = ""
    part: tuple[int, int] | None = None

    @property
    def busy(self) -> bool:
        return self.name in BUSY


def words(state: State, key: Callable[[str], str]) -> str:
    """The state in a few words; `key` names the key of a command, which a user may have changed."""
    match state.name:
        case "empty":
            return f"no model is loaded · {key('models')} chooses one"
        case "loading":
            return f"loading the {state.detail} {_bar(state.part)}".rstrip()
        case "ready":
            return "ready"
        case "calibrating":
            return f"measuring what decodes cost here {_bar(state.part)} · {key('stop')} skips it"
        case "reading":
            return f"reading the prompt {_long(state.part)}· {key('stop')} stops"
        case "streaming":
            return f"answering · {key('stop')} stops"
        case "stopping":
            return "stopping"
        case "stopped":
            return f"stopped, the partial answer is kept · {key('regenerate')} asks again"
        case "length":
            return f"cut off after {state.detail} tokens · {key('max-tokens')} allows more"
        case "full":
            return (
                f"the context is full · {key('new-chat')} new chat · {key('edit')} edit · "
                f"or start with a larger --ctx-size"
            )
        case "crashed":
            return f"the engine crashed{state.detail} and is being restarted {_bar(state.part)}".rstrip()
        case "restarted":
            return "the engine crashed and was restarted · the conversation was kept"
        case "load-crashed":
            return f"the engine crashed while loading, see above · {key('send')} tries once more"
        case "error":
            return f"{state.detail}"


def _bar(part: tuple[int, int] | None) -> str:
    if part is None:
        return ""
    done, total = part
    share = min(max(done / total, 0.0), 1.0) if total else 1.0
    full = round(share * NUM_CELLS)
    return f"{'█' * full}{'░' * (NUM_CELLS - full)} {share:.0%}"


def _long(part: tuple[int, int] | None) -> str:
    """Progress for a prompt that takes a while, nothing for a short one."""
    if part is None or part[1] < _LONG_PROMPT:
        return ""
    return f"{_bar(part)} of {part[1]} tokens "
