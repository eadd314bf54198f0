"""Write a small file in one step: another process sees the old one or the new one, never a part."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Put `content` at `path`, its folder made if need be; who may read a file that is there stays.

    What is `durable` is on the disk before the old file goes, for what nobody could make again after
    a power cut. Raises OSError, and then leaves nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if os.path.exists(path):
            shutil.copymode(path, temporary)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
