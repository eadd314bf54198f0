"""Words below a list or field: what is highlighted there, or what is wrong."""

from __future__ import annotations

from textual.widgets import Static

from edge_spec import harmless


class Words(Static):
    """A text that may hold anything; one about something wrong has the class `-bad`, and its colour."""

    DEFAULT_CSS = """
    Words.-bad { color: $text-error; }
    """

    def __init__(self, words: str = "", *, id: str) -> None:
        super().__init__(words, id=id, markup=False)

    def say(self, words: str, *, bad: bool = False) -> None:
        self.update(harmless(words))
        self.set_class(bad, "-bad")
