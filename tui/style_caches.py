"""Closed screens are not kept in memory by their colours.

Textual remembers the last 1,024 pairs of colours of a border with the cache object of the widget that
asked (`StylesCache.get_inner_outer` is a cached method), and so the lines of up to 1,024 widgets that are
long gone: some 60 MB after fifty screens. The colours do not depend on who asks.
"""

from __future__ import annotations

import functools
from typing import Any

from textual._styles_cache import StylesCache


def guard_style_caches() -> None:
    """Remember the colours alone; does nothing where Textual no longer keeps more, or twice."""
    method: Any = StylesCache.__dict__.get("get_inner_outer")
    if hasattr(method, "cache_info"):
        of_colours = functools.partial(method.__wrapped__, None)
        StylesCache.get_inner_outer = staticmethod(functools.lru_cache(1024)(of_colours))  # type: ignore
