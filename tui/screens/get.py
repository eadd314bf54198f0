"""Get a model by its name: of the catalogue, or USER/REPO[:QUANT] of the hub; its size first."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

import edge_spec
from edge_spec import Cancelled, CataloguePair, EdgeSpecError, PullPreview, size_text
from tui.models.memory_plan import disk_words
from tui.screens.closing import ClosingModal
from tui.screens.model_rows import offer_look
from tui.screens.pull import PullScreen
from tui.widgets.text_fields import SafeInput
from tui.widgets.words import Words

_HINT: Final = (
    "Choose a pair of the catalogue, or type a name of the hub: USER/REPO, or USER/REPO:QUANT for one of "
    "its quantisations."
)
_LOOKING: Final = "Looking up what that is and how large. Esc stops."
_KEYS: Final = {
    "typing": "↑↓ catalogue   Enter look it up   Esc back",
    "looking": "Esc stop",
    "found": "Enter pull   Esc back",
}


class GetScreen(ClosingModal[tuple[str, ...] | None]):
    """Pulls a model or pair; the names of the models that are here then. A given `name` is looked up."""

    CSS_PATH = "get.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("ctrl+down", "scroll_words(1)", "More words", show=False, priority=True),
        Binding("ctrl+up", "scroll_words(-1)", "Words before", show=False, priority=True),
    ]

    @dataclass
    class Listed(Message):
        """The pairs of the catalogue, or why it cannot be read."""

        pairs: list[CataloguePair]
        problem: str = ""

    @dataclass
    class Looked(Message):
        """What a name stands for, or why it cannot be had; neither if the look-up was stopped."""

        name: str
        preview: PullPreview | None
        problem: str = ""

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.VERTICAL_BREAKPOINTS = [(0, "-tiny"), (20, "-tall")]
        self._name = name
        self._pairs: list[CataloguePair] = []
        self._stop: threading.Event | None = None  # of the look-up that is under way, of `_name`
        self._found: GetScreen.Looked | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="get-box"):
            yield Static("Get a model", id="get-title", markup=False)
            yield SafeInput(self._name, placeholder="name", select_on_focus=False, id="get-name")
            yield OptionList(id="get-list", markup=False)
            with VerticalScroll(id="get-words-box", can_focus=False):
                yield Words(_HINT, id="get-words")
            yield Static(_KEYS["typing"], id="get-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False  # the keys stay with the name
        self.query_one(Input).focus()
        self._list()
        if self._name:
            self._look_up()

    # -- typing and moving

    @work(thread=True, group="list")
    def _list(self) -> None:
        try:
            listed = self.Listed([pair for pair in edge_spec.catalogue() if not pair.installed])
        except EdgeSpecError as error:
            listed = self.Listed([], str(error))
        self.post_message(listed)

    @on(Listed)
    def _listed(self, event: Listed) -> None:
        self._pairs = event.pairs
        if event.problem and self._stop is None and self._found is None:
            self._show("typing", event.problem, bad=True)
        options = self.query_one(OptionList)
        options.set_options([Option(_look_of(pair), id=pair.name) for pair in self._pairs])

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        name = event.value.strip()
        looks = self._stop is not None or self._found is not None
        if looks and name == self._name:
            return
        self._end_look_up()
        self._found = None
        self._show("typing", _HINT)
        options = self.query_one(OptionList)
        names = [pair.name for pair in self._pairs]
        options.highlighted = names.index(name) if name in names else None

    def action_move(self, step: int) -> None:
        """Take the next name of the catalogue into the field."""
        options = self.query_one(OptionList)
        if options.option_count:
            at = options.highlighted
            first = 0 if step > 0 else options.option_count - 1
            self._take(first if at is None else (at + step) % options.option_count)

    def action_scroll_words(self, lines: int) -> None:
        self.query_one("#get-words-box").scroll_relative(y=lines, animate=False, immediate=True)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._take(event.option_index)
        self.query_one(Input).focus()

    def _take(self, index: int) -> None:
        self.query_one(OptionList).highlighted = index
        field = self.query_one(Input)
        field.value = self._pairs[index].name
        field.action_end()

    # -- looking up

    @on(Input.Submitted)
    def _submitted(self) -> None:
        if self._found is not None and self._found.preview is not None:
            self.open(PullScreen([self._found.name]), self._pulled)
        elif self._stop is None:
            self._look_up()

    def _look_up(self) -> None:
        name = self.query_one(Input).value.strip()
        if not name:
            self.app.bell()
            return
        self._name = name
        self._stop = threading.Event()
        self._show("looking", _LOOKING)
        self._preview(name, self._stop)

    @work(thread=True, exclusive=True, group="look-up")
    def _preview(self, name: str, stop: threading.Event) -> None:
        worker = get_current_worker()
        try:
            preview = edge_spec.preview_pull(name, lambda: stop.is_set() or worker.is_cancelled)
        except Cancelled:
            return
        except EdgeSpecError as error:
            looked = self.Looked(name, None, str(error))
        else:
            looked = self.Looked(name, preview)
        if not stop.is_set():
            self.post_message(looked)

    @on(Looked)
    def _looked(self, event: Looked) -> None:
        if self._stop is None or event.name != self._name:
            return  # it was stopped
        self._stop = None
        if event.preview is None:
            self._show("typing", event.problem, bad=True)
        else:
            self._found = event
            self._show("found", _words_about(event.preview))

    def _end_look_up(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def action_back(self) -> None:
        """Stop looking up; or leave."""
        if self._stop is not None:
            self._end_look_up()
            self._show("typing", _HINT)
        else:
            self.dismiss(None)

    def _pulled(self, there: bool | None) -> None:
        if there and self._found is not None and self._found.preview is not None:
            self.dismiss(self._found.preview.models)

    def _show(self, state: str, words: str, *, bad: bool = False) -> None:
        self.query_one(Words).say(words, bad=bad)
        self.query_one("#get-keys", Static).update(_KEYS[state])


def _words_about(preview: PullPreview) -> str:
    lines = [
        f"{' and '.join(preview.models)}: {size_text(preview.total_bytes)}.",
        *preview.notes,
        disk_words(preview.num_bytes, edge_spec.store_path()),
    ]
    if preview.licence:
        lines.append(f"Licence: {preview.licence}.")
    return "\n".join(lines)


def _look_of(pair: CataloguePair) -> Content:
    size = f"{size_text(pair.num_bytes)} to download" if pair.sized else "size by looking it up"
    return offer_look(pair.name, size, f"{pair.description}.")
