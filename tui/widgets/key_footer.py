"""The line of keys at the bottom."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from tui.widgets.inspect_bar import InspectBar


class KeyFooter(Footer):
    """Textual's footer, which makes its keys anew whenever others count, and kept all earlier ones.

    Each key watches the footer's `compact`, and Textual (8.2, `reactive.py`) forgets watchers that are
    gone only when what they watch changes. The key that stops an answer closes the line about a token
    while that is open, and is called so.
    """

    def compose(self) -> ComposeResult:
        for watchers in getattr(self, "__watchers", {}).values():
            watchers[:] = [(widget, callback) for widget, callback in watchers if not widget._closing]
        closes = any(bar.display for bar in self.screen.query(InspectBar))
        for key in super().compose():
            if closes and isinstance(key, FooterKey) and key.action == "command('stop')":
                key.description = "close"
            yield key
