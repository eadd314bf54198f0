"""A program that writes a GGUF again with weights of another type: one llama_model_quantize.

`python -m edge_spec.llama.quantize SRC DST FTYPE OUTPUT_TYPE THREADS`, the types as llama.cpp numbers
them, -1 for an output type that llama.cpp chooses. `models.quantize` runs it, with a DST in a folder
of its own. Once its parent has ended it deletes DST, with that folder if nothing else is in it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Final, NoReturn

LOG_NAME: Final = "quantize.log"
"""Where the caller lets this program write what it says, beside DST."""


def _end_with_parent(parent: int, part: Path) -> None:
    """Wait for the parent's end, then end as an orphan."""
    while os.getppid() == parent:
        time.sleep(0.5)
    _end_orphaned(part)


def _end_orphaned(part: Path) -> NoReturn:
    """Nobody is left to wait for the file, or to clear it and its log away: do both."""
    with contextlib.suppress(OSError):
        part.unlink(missing_ok=True)
        (part.parent / LOG_NAME).unlink(missing_ok=True)
        part.parent.rmdir()
    os._exit(1)


def _child() -> int:
    """The child's side: one file, then an exit status; stdout and stderr are the log."""
    source, part, ftype, output, threads = sys.argv[1:]
    parent = os.getppid()
    if sys.platform != "win32":
        watch = (parent, Path(part))
        threading.Thread(target=_end_with_parent, args=watch, daemon=True).start()
    with contextlib.suppress(OSError, AttributeError):
        os.nice(5)
    import llama_cpp

    def to_log(_level: int, text: bytes, _data: object) -> None:
        os.write(2, text)

    callback = llama_cpp.llama_log_callback(to_log)
    llama_cpp.llama_log_set(callback, None)
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = int(ftype)
    params.nthread = int(threads)
    if int(output) >= 0:
        params.output_tensor_type = int(output)
    params.allow_requantize = True
    status = int(llama_cpp.llama_model_quantize(source.encode(), part.encode(), params))
    if sys.platform != "win32" and os.getppid() != parent:  # it ended since the watch last looked
        _end_orphaned(Path(part))
    return status


if __name__ == "__main__":
    sys.exit(_child())
