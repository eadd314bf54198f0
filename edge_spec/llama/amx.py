"""Keep AMX out of a llama.cpp that is built here, because it may crash.

GCC's `_tile_loadconfig` (seen with GCC 12) tells the optimiser that it reads 8 bytes of the
64-byte tile configuration, so the stores of the rest are dropped and `ldtilecfg` loads what the
stack held: a llama.cpp built with `-march=native` on a CPU with AMX then dies of SIGSEGV in its
first matrix product (llama.cpp issue 20824; pull request 26954, open, moves the configuration
off the stack). Standard library only, so that the installer can ask before anything is built.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

BUILD_FLAGS = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
"""Compiler flags that keep AMX out of a native build."""

CMAKE_ARGS = f'-DCMAKE_C_FLAGS="{BUILD_FLAGS}" -DCMAKE_CXX_FLAGS="{BUILD_FLAGS}"'
"""The same as llama-cpp-python's build takes them from the environment."""


def amx_is_advertised() -> bool:
    """Whether this CPU says that it has AMX tiles (Linux on x86-64 only)."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        return " amx_tile" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(amx_is_advertised())
