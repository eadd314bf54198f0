"""The line of keys at the bottom."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Footer


class KeyFooter(Footer):
    """Textual's footer, which makes its keys anew whenever others count, and kept all earlier ones.

    Each key watches the footer's `compact`, and Textual (8.2, `reactive.py`) forgets watchers that are
    gone only when what they watch changes.
    """

    def compose(self) -> ComposeResult:
        for watchers in getattr(self, "__watchers", {}).values():
            watchers[:] = [(widget, callback) for widget, callback in watchers if not widget._closing]
        yield from super().compose()
