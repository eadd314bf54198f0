"""The versions of what a result depends on."""

from __future__ import annotations

import importlib.metadata
import platform


def installed_version(distribution: str) -> str | None:
    """A distribution's version without importing it; None when it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """The versions that a result depends on."""
    names = ("edge-spec", "llama-cpp-python", "numpy")
    return {"python": platform.python_version(), **{name: installed_version(name) for name in names}}
