"""Write a GGUF again with weights of another type, through llama_model_quantize.

llama.cpp ends the whole process when one of its assertions fails, so the work is done in a
child process, the program `llama.quantize`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from edge_spec.errors import Cancelled, EngineError, ModelError, OutputError, SettingError
from edge_spec.llama.quantize import LOG_NAME
from edge_spec.models.child import run_child, tail
from edge_spec.models.ggml_types import FILE_TYPES, TENSOR_TYPES
from edge_spec.models.header import Header, read_header, read_loadable

Progress = Callable[[int, int], None]
"""Called with (tensors done, tensors in all)."""

_FULL_BYTES = 1 << 20
"""With less free than this, a file that could not be written met a full disk."""

_BITS = {
    "F32": 32.0, "F16": 16.0, "BF16": 16.0, "Q8_0": 8.5, "Q6_K": 6.6, "Q5_K_M": 5.7, "Q5_K_S": 5.6,
    "Q5_1": 6.0, "Q5_0": 5.6, "Q4_K_M": 4.9, "Q4_K_S": 4.7, "Q4_1": 5.1, "Q4_0": 4.7,
    "IQ4_NL": 4.7, "IQ4_XS": 4.5, "Q3_K_L": 4.4, "Q3_K_M": 4.0, "Q3_K_S": 3.7,
    "IQ3_M": 3.8, "IQ3_S": 3.6, "Q2_K": 3.2, "TQ2_0": 2.4, "TQ1_0": 2.0,
}  # fmt: skip
"""Types that can be written, and about how many bits a weight takes in such a file."""

_WHY_NOT = {
    **dict.fromkeys(
        ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS", "Q2_K_S"),
        "it needs an importance matrix, which edge-spec does not make",
    ),
    "MXFP4_MOE": "it is for mixture-of-experts models that were trained in it",
    "NVFP4": "llama.cpp reads it but does not write it",
    "Q1_0": "it is for models that were trained in it",
    "Q2_0": "it is for models that were trained in it",
}


def quantize(
    source: str | Path,
    destination: str | Path,
    type_name: str,
    *,
    output_type: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Path:
    """Write `source` to `destination` with weights of `type_name` (any case), replacing it.

    A model in several parts, of which `source` may be any, becomes one file.

    llama.cpp gives the output matrix more bits than the rest; `output_type` is a tensor type for it.
    `threads` 0 is all cores. `cancelled()` is asked ten times a second. The destination appears
    only when it is complete. Raises SettingError (type, or both paths the same), ModelFileError
    (source), OutputError (destination, a full disk too), Cancelled, or EngineError with
    llama.cpp's last words.
    """
    source, destination = Path(source), Path(destination)
    name = checked_type(type_name)
    header = read_loadable(source)
    if os.path.exists(destination) and any(destination.samefile(file) for file in header.files):
        raise SettingError(f"{destination} is the source itself: name another file.")
    if os.path.isdir(destination):
        raise OutputError(f"{destination} is a folder: name a file in it.")
    _check_space(header, name, destination.parent)
    try:
        scratch = tempfile.mkdtemp(prefix=".quantize-", dir=destination.parent)
    except OSError as error:
        raise OutputError(f"{destination} cannot be written: {error.strerror or error}.") from None
    try:
        part, log = Path(scratch) / "part.gguf", Path(scratch) / LOG_NAME
        _run(header.path, part, name, output_type, threads, log, progress, cancelled)
        read_header(part)  # a full disk can leave a short file behind a status of success
        part.replace(destination)
    except ModelError:
        if shutil.disk_usage(scratch).free < _FULL_BYTES:  # llama.cpp only says that a write failed
            raise OutputError(
                f"The disk of {destination.parent} is full: make room, or write to another disk."
            ) from None
        raise
    except OSError as error:
        raise OutputError(f"{destination} cannot be written: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return destination


def checked_type(type_name: str) -> str:
    """The type's name as llama.cpp writes it. Raises SettingError with the reason."""
    name = type_name.upper()
    if name in _WHY_NOT:
        raise SettingError(f"{name} cannot be written: {_WHY_NOT[name]}. Choose one of {', '.join(_BITS)}.")
    if name not in _BITS:
        raise SettingError(f'There is no type "{type_name}": choose one of {", ".join(_BITS)}.')
    return name


def _check_space(header: Header, name: str, folder: Path) -> None:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise OutputError(f"{folder} cannot be written to: {error.strerror or error}.") from None
    needed = header.data_offset + int(header.num_parameters * _BITS[name] / 8 * 1.05)
    if free < needed:
        raise OutputError(
            f"{name} needs about {needed / 1e6:.0f} MB in {folder}, which has {free / 1e6:.0f} MB free: "
            "make room, or write to another disk."
        )


def _run(
    source: Path,
    part: Path,
    name: str,
    output_type: str | None,
    threads: int,
    log: Path,
    progress: Progress | None,
    cancelled: Callable[[], bool] | None,
) -> None:
    ftype = next(number for number, known in FILE_TYPES.items() if known == name)
    output = -1
    if output_type is not None:
        output = next(number for number, known in TENSOR_TYPES.items() if known.name == output_type)
    # The child must find the same edge_spec, wherever this one was imported from.
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", "edge_spec.llama.quantize"]
    command += [str(source.absolute()), str(part.absolute()), str(ftype), str(output), str(threads)]

    def poll() -> None:
        if cancelled is not None and cancelled():
            raise Cancelled()
        counts = re.findall(r"\[ *(\d+)/ *(\d+)\]", tail(log, lambda line: line.startswith("[")))
        if progress is not None and counts:
            progress(int(counts[0][0]), int(counts[0][1]))

    status = run_child(command, log, poll, os.environ | {"PYTHONPATH": path})
    if status == 0:
        return
    end = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    said = tail(log, _tells_why) or tail(log) or "nothing"
    raise EngineError(f'{source} could not be written as {name} ({end}); llama.cpp said "{said}".')


def _tells_why(line: str) -> bool:
    """Whether a line of the log is the failure itself, and not part of a stack trace."""
    return any(word in line.lower() for word in ("error", "failed", "assert", "abort"))
