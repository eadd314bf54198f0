"""The one door to llama_cpp: its log goes to a file, its structs are checked before use.

llama-cpp-python's raw bindings accept a misspelt field silently and trust that the library
has the layout they were written for; here both are ruled out before the first call.
"""

from __future__ import annotations

import collections
import ctypes
import importlib.metadata
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

import platformdirs

from edge_spec.errors import EngineError, SettingError
from edge_spec.types import Device

SUPPORTED = "0.3.36"
"""The llama-cpp-python release whose C structs this code was written and tested for."""

_ERROR_LEVEL = 4  # GGML_LOG_LEVEL_ERROR
_INFO_LEVEL = 2

try:
    import llama_cpp
except (ImportError, OSError, RuntimeError) as error:
    raise EngineError(
        f"llama-cpp-python cannot be loaded ({error}); reinstall it with "
        f"'pip install --force-reinstall --no-cache-dir llama-cpp-python=={SUPPORTED}'."
    ) from error


class Log:
    """llama.cpp's log: appended to a file, its last errors kept for error messages."""

    def __init__(self) -> None:
        self.path = Path(
            os.environ.get("EDGE_SPEC_LOG") or platformdirs.user_log_path("edge-spec") / "llama.log"
        )
        self._errors: collections.deque[str] = collections.deque(maxlen=20)
        self._file: TextIO | None = None
        self._level = _INFO_LEVEL

    def write(self, level: int, text: str) -> None:
        if level != 5:  # GGML_LOG_LEVEL_CONT carries the level of the line that it continues
            self._level = level
        if self._level == _ERROR_LEVEL and (line := text.strip()):
            self._errors.append(line)
        if self._file is None:
            self._file = self._open()
        self._file.write(text)
        if self._level >= _ERROR_LEVEL:
            self._file.flush()

    def _open(self) -> TextIO:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            too_long = self.path.exists() and self.path.stat().st_size > 4_000_000
            file = self.path.open("w" if too_long else "a", encoding="utf-8", errors="replace")
        except OSError:
            # A log that cannot be written must not keep anyone from their answer.
            self.path = Path(os.devnull)
            file = self.path.open("w", encoding="utf-8")
        file.write(f"\n--- {time.strftime('%Y-%m-%d %H:%M:%S')} pid {os.getpid()}\n")
        return file

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def last_error(self) -> str:
        """llama.cpp's last error line, without its function name; empty when there is none."""
        return re.sub(r"^[\w:]+: ", "", self._errors[-1]) if self._errors else ""

    def forget_errors(self) -> None:
        self._errors.clear()


log = Log()


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]  # a ctypes CFUNCTYPE
def _log_callback(level: int, text: bytes, _user_data: object) -> None:
    log.write(level, text.decode("utf-8", "replace"))


# Before any other call: importing llama_cpp installed a logger that prints to stderr.
llama_cpp.llama_log_set(_log_callback, ctypes.c_void_p(0))

_Struct = TypeVar("_Struct", bound=ctypes.Structure)


def fill(struct: _Struct, **values: Any) -> _Struct:
    """Set fields of a llama.cpp parameter struct, refusing names that it does not have.

    ctypes would store a misspelt or renamed field as a plain attribute that C never sees.
    """
    known = {name for name, *_ in struct._fields_}
    for name, value in values.items():
        if name not in known:
            raise EngineError(
                f"llama-cpp-python {version()} has no {type(struct).__name__}.{name}; "
                f"edge-spec needs llama-cpp-python {SUPPORTED}."
            )
        setattr(struct, name, value)
        if isinstance(value, int) and getattr(struct, name) != value:  # C integers wrap silently
            raise EngineError(f"{value} does not fit into {type(struct).__name__}.{name}.")
    return struct


def version() -> str:
    """The installed llama-cpp-python's version."""
    return importlib.metadata.version("llama-cpp-python")


_started = False


def start() -> None:
    """Probe the ABI and start llama.cpp's backends; cheap when already done.

    The probe reads back defaults that stand at the far ends of each struct: a library with
    another layout yields other numbers there. Raises EngineError.
    """
    global _started
    if _started:
        return
    context = llama_cpp.llama_context_default_params()
    model = llama_cpp.llama_model_default_params()
    found = {
        "n_batch": (context.n_batch, 2048),
        "n_ubatch": (context.n_ubatch, 512),
        "n_seq_max": (context.n_seq_max, 1),
        "type_k": (context.type_k, llama_cpp.GGML_TYPE_F16),
        "type_v": (context.type_v, llama_cpp.GGML_TYPE_F16),
        "yarn_beta_fast": (context.yarn_beta_fast, -1.0),
        "offload_kqv": (context.offload_kqv, True),
        "swa_full": (context.swa_full, True),
        "n_samplers": (context.n_samplers, 0),
        "use_extra_bufts": (model.use_extra_bufts, True),
        "vocab_only": (model.vocab_only, False),
    }
    wrong = [f"{name} is {is_} (not {must})" for name, (is_, must) in found.items() if is_ != must]
    if wrong:
        raise EngineError(
            f"llama-cpp-python {version()} does not match its llama.cpp library: {', '.join(wrong)}; "
            f"reinstall it with 'pip install --force-reinstall llama-cpp-python=={SUPPORTED}'."
        )
    llama_cpp.llama_backend_init()
    _started = True


def _logits_address() -> Callable[[Any], int]:
    """llama_get_logits that gives a plain number: the binding makes three objects a call."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    address = ctypes.cast(llama_cpp.llama_get_logits, ctypes.c_void_p).value
    assert address is not None
    return prototype(address)


logits_address = _logits_address()

_libc = ctypes.CDLL(None) if os.name == "posix" else ctypes.CDLL("msvcrt")


def abort_callback() -> Any:
    """libc's strlen as llama.cpp's abort callback: true once the flag's buffer is not empty.

    In C because a Python callback would take the GIL about a thousand times a decode.
    """
    strlen = ctypes.cast(_libc.strlen, ctypes.c_void_p).value
    assert strlen is not None
    return llama_cpp.ggml_abort_callback(strlen)


_KINDS = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accelerator"}


def _ggml() -> ctypes.CDLL:
    from llama_cpp._ggml import libggml

    library: ctypes.CDLL = libggml
    return library


def device_handle(name: str) -> int:
    """The handle of the device called `name`; SettingError lists the names there are."""
    ggml = _ggml()
    ggml.ggml_backend_dev_by_name.restype = ctypes.c_void_p
    ggml.ggml_backend_dev_by_name.argtypes = [ctypes.c_char_p]
    handle = ggml.ggml_backend_dev_by_name(name.encode())
    if not handle:
        names = ", ".join(device.name for device in devices())
        raise SettingError(f"There is no device called {name!r}; llama.cpp sees {names}.")
    return int(handle)


def devices() -> list[Device]:
    """Every device of the loaded llama.cpp, the CPU included."""
    start()
    ggml = _ggml()
    handle, text = ctypes.c_void_p, ctypes.c_char_p
    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    ggml.ggml_backend_dev_get.restype = handle
    ggml.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    for function in (ggml.ggml_backend_dev_name, ggml.ggml_backend_dev_description):
        function.restype, function.argtypes = text, [handle]
    ggml.ggml_backend_dev_type.argtypes = [handle]
    size = ctypes.POINTER(ctypes.c_size_t)
    ggml.ggml_backend_dev_memory.argtypes = [handle, size, size]
    ggml.ggml_backend_dev_memory.restype = None
    found = []
    for index in range(ggml.ggml_backend_dev_count()):
        device = ggml.ggml_backend_dev_get(index)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        found.append(
            Device(
                ggml.ggml_backend_dev_name(device).decode(),
                ggml.ggml_backend_dev_description(device).decode(),
                _KINDS.get(ggml.ggml_backend_dev_type(device), "other"),
                free.value,
                total.value,
            )
        )
    return found


def cpu_features() -> list[str]:
    """What this llama.cpp build uses of the CPU (AVX512, AMX_INT8, NEON, ...)."""
    start()
    text = llama_cpp.llama_print_system_info().decode()
    return re.findall(r"(\w+) = 1", text)


def has_amx() -> bool:
    """Whether this llama.cpp was compiled with AMX, whose kernels may crash; see `amx`."""
    return "AMX_INT8" in cpu_features()


def ggml_version() -> str:
    """The version and commit of the ggml that this llama.cpp was built with."""
    ggml = _ggml()
    ggml.ggml_version.restype = ggml.ggml_commit.restype = ctypes.c_char_p
    return f"{ggml.ggml_version().decode()} ({ggml.ggml_commit().decode()})"


def build() -> list[str]:
    """What tells this build of llama.cpp, on this machine, from another one that is as fast or not."""
    return [ggml_version(), *cpu_features(), *(f"{found.name}: {found.description}" for found in devices())]


def supports_gpu_offload() -> bool:
    """Whether this build can put layers on a GPU."""
    start()
    return bool(llama_cpp.llama_supports_gpu_offload())
