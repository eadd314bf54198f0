"""What a handler does when it fails: the traceback goes to the log, the chat goes on."""

from __future__ import annotations

import functools
import logging
import logging.handlers
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import platformdirs
from textual.app import App
from textual.dom import DOMNode

_log: Final = logging.getLogger(__name__)
_MOST_BYTES: Final = 1_000_000

Self = TypeVar("Self", bound=DOMNode)
Params = ParamSpec("Params")


def guarded(
    handler: Callable[Concatenate[Self, Params], None],
) -> Callable[Concatenate[Self, Params], None]:
    """`handler`, whose bugs end neither the widget nor the program."""

    @functools.wraps(handler)
    def guard(self: Self, /, *args: Params.args, **kwargs: Params.kwargs) -> None:
        try:
            handler(self, *args, **kwargs)
        except Exception as error:
            report(self.app, error)

    return guard


def report(app: App[Any], error: Exception) -> None:
    """A bug of ours: one sentence on the screen, the traceback in the log."""
    _log.error("a handler failed", exc_info=error)
    words = f"This is a bug in edge-spec: {type(error).__name__}: {error}".rstrip(".")
    app.notify(f"{words}. Its traceback is in {log_file()}.", severity="error", markup=False)


def log_file() -> Path:
    """Where tracebacks go, never to the screen."""
    return platformdirs.user_log_path("edge-spec") / "chat.log"


def start_log() -> None:
    """Write what the interface logs into `log_file`, which is made when there is something."""
    logger = logging.getLogger("tui")
    logger.propagate = False
    try:
        log_file().parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            log_file(), maxBytes=_MOST_BYTES, backupCount=1, encoding="utf-8", delay=True
        )
    except OSError:  # a home that cannot be written to is no reason not to chat
        logger.addHandler(logging.NullHandler())
        return
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
