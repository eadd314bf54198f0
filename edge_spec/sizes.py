"""Sizes in words."""

from __future__ import annotations


def size_text(num_bytes: float) -> str:
    """Bytes for people, in powers of 1000 as disks and downloads are sold."""
    if num_bytes < 1_000_000:
        return f"{num_bytes / 1000:.0f} kB"
    if num_bytes < 1_000_000_000:
        return f"{num_bytes / 1_000_000:.0f} MB"
    return f"{num_bytes / 1_000_000_000:.1f} GB"
