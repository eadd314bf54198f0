"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path


def user_path(text: str | os.PathLike[str]) -> Path:
    """`text` as a path, `~` and `~name` being folders of users; never raises.

    Where there is no such user, `~name` is a folder of that name, as in a shell.
    """
    try:
        return Path(os.path.expanduser(text))  # noqa: PTH111 - Path's raises where there is no such user
    except ValueError:  # the user's name has a NUL in it
        return Path(text)
