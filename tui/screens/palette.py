"""Textual's palette, which closes itself and no other screen."""

from __future__ import annotations

from textual.command import CommandPalette

from tui.screens.closing import ClosingScreen


class Palette(CommandPalette, ClosingScreen[None]):
    """Enter pressed twice would otherwise take away the screen below, and the chat with it."""
