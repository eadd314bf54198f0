"""How well a segment can be read."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.constants import DIM_FACTOR


def contrast(segment: Segment) -> float:
    """Contrast of text with its background, from 1 to 21; dim text as Textual draws it. WCAG 2, 1.4.3."""
    style = segment.style
    assert style is not None
    assert style.color is not None
    assert style.bgcolor is not None
    text, background = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
    if style.dim:
        text = background.blend(text, DIM_FACTOR, 1)
    lighter, darker = sorted((_luminance(text), _luminance(background)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: Color) -> float:
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
