"""Sizes and counts in words."""

from __future__ import annotations


def size_text(num_bytes: float) -> str:
    """Bytes for people, in powers of 1000 as disks and downloads are sold."""
    if num_bytes < 1_000_000:
        return f"{num_bytes / 1000:.0f} kB"
    if num_bytes < 1_000_000_000:
        return f"{num_bytes / 1_000_000:.0f} MB"
    return f"{num_bytes / 1_000_000_000:.1f} GB"


def count_text(number: int) -> str:
    """A number of parameters for people: 1.5B, 494M, 98K."""
    if number >= 1e9:
        return f"{number / 1e9:.1f}B"
    return f"{number / 1e6:.0f}M" if number >= 1e6 else f"{number / 1e3:.0f}K"
