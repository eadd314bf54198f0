"""Earlier conversations: look through them, search them, go on with one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from edge_spec import PairSpec, harmless
from tui.conversations.database import ConversationError
from tui.conversations.saved import Summary
from tui.conversations.store import ConversationStore
from tui.screens.closing import ClosingModal
from tui.screens.confirm import ConfirmScreen
from tui.screens.edit import EditScreen
from tui.widgets.text_fields import SafeInput
from tui.widgets.words import Words

SETTLE_S: Final = 0.05
"""A search begins when nothing was typed for so long."""
PAGE: Final = 100
"""So many conversations are listed at a time; the next ones follow when one comes near the end."""
MOST_FOUND: Final = 100

_KEYS: Final = "↑↓ move   Enter open   F2 rename   Del delete   Esc close"
_NONE: Final = "No conversations yet. What is said in a chat is kept here."
_NOT_FOUND: Final = "No conversation has all of these words in its title or in one message."
_NEAR_END: Final = 20


class Results(OptionList):
    """A list that says when it has another place, which is nowhere before it has something to show."""

    class Placed(Message):
        """It has another size."""

    def on_resize(self) -> None:
        self.post_message(self.Placed())


class ConversationsScreen(ClosingModal[int | None]):
    """The conversation to go on with, or None; `current` is the one that is open in the chat."""

    CSS_PATH = "conversations.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close", show=False),
        Binding("down", "move('cursor_down')", "Down", show=False, priority=True),
        Binding("up", "move('cursor_up')", "Up", show=False, priority=True),
        Binding("pagedown", "move('page_down')", "Page down", show=False, priority=True),
        Binding("pageup", "move('page_up')", "Page up", show=False, priority=True),
        Binding("f2,r", "rename", "Rename", show=False),
        # Before the search field gets it, which has nothing to delete behind its last character.
        Binding("delete", "delete", "Delete", show=False, priority=True),
    ]

    @dataclass
    class Found(Message):
        """Conversations for a query, from the one numbered `offset` on, or why there are none."""

        query: str
        offset: int
        summaries: Sequence[Summary]
        problem: str

    def __init__(self, store: ConversationStore, current: int | None = None) -> None:
        super().__init__()
        self._store = store
        self._current = current
        self._summaries: dict[str, Summary] = {}
        self._query = ""
        self._more = False
        self._settling: Timer | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="conversations-box"):
            yield SafeInput(placeholder="Search titles and messages", id="conversations-query")
            yield Results(id="conversations-list", markup=False)
            yield Words(id="conversations-words")
            yield Static(_KEYS, id="conversations-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#conversations-box").border_title = Content("Conversations")
        self._look_up("", 0)

    @on(Results.Placed)
    def _placed(self) -> None:
        self._fill()  # dates stand at the right edge

    # -- searching

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(SETTLE_S, lambda: self._look_up(event.value, 0))

    @on(OptionList.OptionHighlighted)
    def _moved(self, event: OptionList.OptionHighlighted) -> None:
        if self._more and event.option_index >= len(self._summaries) - _NEAR_END:
            self._more = False  # until it is known again
            self._look_up(self._query, len(self._summaries))

    @work(thread=True, exclusive=True, group="look-up")
    def _look_up(self, query: str, offset: int) -> None:
        summaries: Sequence[Summary] = ()
        problem = ""
        try:
            if query.strip():
                summaries = self._store.search(query, MOST_FOUND)
            else:
                summaries = self._store.list(PAGE, offset)
        except ConversationError as error:
            problem = str(error)
        if not get_current_worker().is_cancelled:
            self.post_message(self.Found(query, offset, summaries, problem))

    @on(Found)
    def _found(self, event: Found) -> None:
        before = self._summaries if event.offset else {}
        self._summaries = {**before, **{str(summary.id): summary for summary in event.summaries}}
        self._query = event.query
        self._more = not event.query.strip() and len(event.summaries) == PAGE
        self._fill()
        self._say(event.problem or self._words(), bad=bool(event.problem))

    def _words(self) -> str:
        if not self._summaries:
            return _NOT_FOUND if self._query.strip() else _NONE
        if len(self._summaries) == MOST_FOUND and self._query.strip():
            return f"The last used {MOST_FOUND} that have all of these words."
        return ""

    def _fill(self) -> None:
        """Show what was found, with the same conversation highlighted as before if it is among it."""
        options = self.query_one(OptionList)
        options.display = bool(self._summaries)
        key = self._key
        width = options.scrollable_content_region.width - 2  # an option's padding
        now = datetime.now().astimezone()
        options.set_options(
            Option(_look(summary, width, now, open=summary.id == self._current), id=key)
            for key, summary in self._summaries.items()
        )
        if self._summaries:
            options.highlighted = list(self._summaries).index(key) if key in self._summaries else 0

    def _say(self, words: str, *, bad: bool = False) -> None:
        shown = self.query_one(Words)
        shown.say(words, bad=bad)
        shown.display = bool(words)

    # -- moving and choosing

    @property
    def _key(self) -> str | None:
        option = self.query_one(OptionList).highlighted_option
        return None if option is None else option.id

    @property
    def _highlighted(self) -> Summary | None:
        return self._summaries.get(self._key or "")

    def action_move(self, how: str) -> None:
        """Move the highlight, wherever the focus is."""
        getattr(self.query_one(OptionList), f"action_{how}")()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _choose(self) -> None:
        summary = self._highlighted
        if summary is None:
            self.app.bell()
        else:
            self.dismiss(summary.id)

    # -- changing

    def action_rename(self) -> None:
        """Let the user write another title for the highlighted conversation."""
        summary = self._highlighted
        if summary is None:
            return

        def written(title: str | None) -> None:
            if title is not None:
                self._change(lambda: self._store.rename(summary.id, title))

        self.app.push_screen(EditScreen("Title of this conversation", summary.title), written)

    def action_delete(self) -> None:
        """Delete the highlighted conversation, once the user means it."""
        summary = self._highlighted
        if summary is None:
            return
        if summary.id == self._current:
            self._say("This conversation is open in the chat; delete it there.", bad=True)
            return

        def answered(meant: bool | None) -> None:
            if meant:
                self._change(lambda: self._store.delete(summary.id))

        question = f"Delete “{summary.title}” with {_count_text(summary.num_messages)} for good?"
        self.app.push_screen(ConfirmScreen(question, "Delete"), answered)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The search field has the Delete key as long as there is something behind its cursor."""
        field = self.query_one(Input)
        return action != "delete" or not field.has_focus or field.cursor_position == len(field.value)

    def _change(self, change: Callable[[], None]) -> None:
        try:
            change()
        except ConversationError as error:
            self._say(str(error), bad=True)
        else:
            self._look_up(self._query, 0)


def _look(summary: Summary, width: int, now: datetime, *, open: bool) -> Content:
    """Title and date, then what it is; of a search, what was found."""
    when = _when_text(summary.updated, now)
    title = Content.styled(harmless(summary.title), "bold")
    title = title.truncate(max(width - len(when) - 2, 1), ellipsis=True, pad=True)
    facts = [_count_text(summary.num_messages), _models_text(summary.models)]
    if open:
        facts.insert(0, "● open")
    lines = [Content.assemble(title, f"  {when}"), Content.styled("   ".join(facts), "dim")]
    if summary.snippet is not None:
        found = Content(harmless(summary.snippet.text))
        for start, end in summary.snippet.marks:
            found = found.stylize("bold underline", start, end)
        lines.append(found)
    return Content("\n").join(lines)


def _when_text(when: datetime, now: datetime) -> str:
    """The time of today, the day of this year, the date of earlier years."""
    local = when.astimezone(now.tzinfo)
    if local.date() == now.date():
        return f"{local:%H:%M}"
    day = f"{local.day} {local:%b}"
    return f"{day} {local:%H:%M}" if local.year == now.year else f"{day} {local.year}"


def _count_text(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def _models_text(models: PairSpec) -> str:
    """The models' names without folders."""
    names = (PurePath(name).name.removesuffix(".gguf") for name in (models.target, models.draft) if name)
    return harmless(" ← ".join(names))
