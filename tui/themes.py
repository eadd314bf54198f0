"""The colours of a program, by name."""

from __future__ import annotations

import difflib
from typing import Any, Final

from textual.app import App

DEFAULT_THEME: Final = "textual-dark"


def use_theme(app: App[Any], name: str | None) -> None:
    """Take the theme of a setting; one that does not exist is told, and the default taken."""
    if name is not None and name not in app.available_themes:
        near = difflib.get_close_matches(name, app.available_themes, 1)
        hint = f'; did you mean "{near[0]}"?' if near else "."
        app.notify(f'There is no theme "{name}"{hint}', severity="warning", markup=False)
        name = None
    app.theme = name or DEFAULT_THEME
