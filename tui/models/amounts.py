"""Times in words."""

from __future__ import annotations


def duration_text(seconds: float) -> str:
    """A waiting time, as exactly as such a guess deserves: 8 s, 2 min 10 s, 1 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def clock_text(seconds: float) -> str:
    """A place in something that plays: 0:07.3, 12:40.0."""
    tenths = round(seconds * 10)
    return f"{tenths // 600}:{tenths % 600 / 10:04.1f}"
