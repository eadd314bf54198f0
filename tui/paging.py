"""A list that has no room to show anything is not paged through.

Textual's OptionList looks up the line of its highlighted option even where the terminal left it no
lines at all, and fails (Textual 8.2, `_option_list.py`, `_move_page`). The palette's list is one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from textual.widgets import OptionList


def guard_paging() -> None:
    """Let no list of this process be paged through while it has no lines; safe to call again."""
    original: Callable[..., None] | None = getattr(OptionList, "_move_page", None)
    if original is None or hasattr(original, "__wrapped__"):
        return  # a Textual that is built otherwise, or guarded already

    @functools.wraps(original)
    def move_page(self: OptionList, *args: Any, **options: Any) -> None:
        if self.scrollable_content_region.area:
            original(self, *args, **options)

    OptionList._move_page = move_page  # type: ignore[method-assign]
