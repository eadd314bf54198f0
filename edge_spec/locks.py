"""File locks that the system drops when their holder dies, however it dies, so that none is ever stale."""

from __future__ import annotations

import sys
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt

    def try_lock(file: BinaryIO) -> bool:
        """Take the lock of an open file, unless it is held: then False. Closing the file lets it go."""
        # Far beyond what the file may hold, which others must still be able to read.
        file.seek(1 << 20)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(file: BinaryIO) -> bool:
        """Take the lock of an open file, unless it is held: then False. Closing the file lets it go.

        Raises OSError where the file system has no locks.
        """
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
