"""Write a small file in one step: another process sees the old one or the new one, never a part."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Put `content` at `path`, its folder made if need be; who may read a file that is there stays.

    Who may read a new one is for the umask to say, since a store or a cache may be shared.
    What is `durable` is on the disk before the old file goes, for what nobody could make again after
    a power cut. Raises OSError, and then leaves nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".new-{secrets.token_hex(8)}")
    file = temporary.open("xb")
    try:
        with file:
            if path.exists():
                shutil.copymode(path, temporary)
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
