"""What a speed depends on besides the program: the computer, the versions, the files."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import _bootstrap
import build_peers
import psutil

from edge_spec.models.hashes import sha256_of


def machine() -> dict[str, Any]:
    """Which computer this is, as far as a speed depends on it."""
    return {
        "cpu": _cpu_name(),
        "cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_average_at_start": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def _cpu_name() -> str:
    if sys.platform == "darwin":
        asked = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        return asked.stdout.strip()
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor()


def commit() -> dict[str, Any]:
    """Which edge-spec this is."""
    git = ["git", "-C", str(_bootstrap.ROOT)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=False)
    return {"commit": head.stdout.strip() or None, "uncommitted_changes": bool(changed.stdout.strip())}


def engine_versions() -> dict[str, Any]:
    """What edge-spec runs on."""
    return {
        "llama-cpp-python": importlib.metadata.version("llama-cpp-python"),
        "numpy": importlib.metadata.version("numpy"),
        "python": platform.python_version(),
    }


def versions(peers: Path) -> dict[str, Any]:
    """What edge-spec runs on, and what the peers were built from."""
    return {**engine_versions(), "peers": build_peers.read_record(peers) or None}


def file_record(path: Path | None) -> dict[str, Any] | None:
    """A model's name, size and hash."""
    if path is None:
        return None
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
