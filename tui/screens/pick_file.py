"""Choose a GGUF file anywhere on this machine, by typing with completion or by walking folders."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from edge_spec import EdgeSpecError, harmless, size_text, user_path
from tui.screens.closing import ClosingModal
from tui.widgets.text_fields import SafeInput
from tui.widgets.words import Words

MOST_SHOWN: Final = 200
"""So many entries of a folder are listed; typing more of the name brings up the others."""

_KEYS = "Tab complete   ↑↓ move   Enter open or choose   Esc back"


@dataclass(frozen=True, slots=True)
class Entry:
    """A folder or file below the folder that is typed."""

    name: str
    is_folder: bool
    size: int


class PickFileScreen(ClosingModal[Path | None]):
    """Picks a file that `check` finds fit: it returns words about it, or raises EdgeSpecError."""

    CSS_PATH = "pick_file.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", show=False),
        Binding("tab", "complete", "Complete", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("pagedown", "move(10)", "Page down", show=False, priority=True),
        Binding("pageup", "move(-10)", "Page up", show=False, priority=True),
    ]

    @dataclass
    class Listed(Message):
        """What lies in a folder, or why that cannot be told."""

        folder: str
        entries: list[Entry]
        problem: str

    @dataclass
    class Checked(Message):
        """Whether a file is fit, and words about it."""

        path: Path
        fit: bool
        words: str

    def __init__(self, title: str, check: Callable[[Path], str], folder: Path | None = None) -> None:
        super().__init__()
        self._title = title
        self._check = check
        self._start = f"{str(folder or Path.home()).rstrip(os.sep)}{os.sep}"
        self._folder = ""
        self._entries: list[Entry] = []
        self._shown: list[Entry] = []
        self._verdicts: dict[Path, PickFileScreen.Checked] = {}
        self._chosen: Path | None = None  # to be taken once it was checked
        self._listing = False
        self._submitted_early = False

    def compose(self) -> ComposeResult:
        with Vertical(id="pick-box"):
            yield Static(self._title, id="pick-title", markup=False)
            yield SafeInput(self._start, select_on_focus=False, id="pick-path")
            yield OptionList(id="pick-list", markup=False)
            yield Words(id="pick-words")
            yield Static(_KEYS, id="pick-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False  # the keys stay with the path
        self.query_one(Input).focus()

    # -- typing and moving

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._chosen, self._submitted_early = None, False
        folder, _ = _parts(event.value)
        if folder != self._folder:
            self._folder = folder
            self._entries, self._listing = [], True
            self._narrow()
            self._list(folder)
        else:
            self._narrow()

    def action_complete(self) -> None:
        """Take the highlighted entry over into the path."""
        if (entry := self._highlighted()) is not None:
            self._take(entry)

    def action_move(self, lines: int) -> None:
        options = self.query_one(OptionList)
        if options.option_count:
            at = options.highlighted or 0
            options.highlighted = min(max(at + lines, 0), options.option_count - 1)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        entry = self._highlighted()
        if self._listing:
            self._submitted_early = True
        elif entry is None:
            self.app.bell()
        elif entry.is_folder:
            self._take(entry)
        else:
            self._choose(self._path_of(entry))

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self.query_one(Input).focus()
        self._submitted()

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        entry = self._highlighted()
        if entry is None or self._path_of(entry) != self._chosen:
            self._chosen = None
        self._tell()

    def _take(self, entry: Entry) -> None:
        field = self.query_one(Input)
        field.value = str(self._path_of(entry)) + (os.sep if entry.is_folder else "")
        field.action_end()

    def _choose(self, path: Path) -> None:
        """Choose a file, at once or as soon as it was checked."""
        verdict = self._verdicts.get(path)
        if verdict is None:
            self._chosen = path
        elif verdict.fit:
            self.dismiss(path)
        else:
            self.app.bell()

    # -- what is there

    @work(thread=True, exclusive=True, group="list")
    def _list(self, folder: str) -> None:
        entries, problem = [], ""
        try:
            with os.scandir(folder) as found:
                for item in found:
                    try:
                        is_folder = item.is_dir()
                        entries.append(Entry(item.name, is_folder, 0 if is_folder else item.stat().st_size))
                    except OSError:
                        continue  # a dangling link, or gone meanwhile
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no path"
            problem = f"{folder} cannot be read: {why}."
        entries.sort(key=lambda entry: (not entry.is_folder, entry.name.casefold()))
        if not get_current_worker().is_cancelled:
            self.post_message(self.Listed(folder, entries, problem))

    @on(Listed)
    def _listed(self, event: Listed) -> None:
        if event.folder == self._folder:
            self._entries, self._listing = event.entries, False
            self._narrow()
            if event.problem:
                self.query_one(Words).say(event.problem, bad=True)
            if self._submitted_early:
                self._submitted_early = False
                self._submitted()

    def _narrow(self) -> None:
        """Show the entries that go with what is typed, the best one highlighted."""
        _, name = _parts(self.query_one(Input).value)
        wanted = name.casefold()
        fitting = [entry for entry in self._entries if _is_offered(entry, name)]
        begin = [entry for entry in fitting if entry.name.casefold().startswith(wanted)]
        others = [entry for entry in fitting if entry.name.casefold().find(wanted) > 0]
        self._shown = (begin + others)[:MOST_SHOWN]
        options = self.query_one(OptionList)
        options.set_options(Option(_look(entry)) for entry in self._shown)
        exact = [index for index, entry in enumerate(self._shown) if entry.name == name]
        options.highlighted = (exact or [0])[0] if self._shown else None
        self._tell()

    def _highlighted(self) -> Entry | None:
        index = self.query_one(OptionList).highlighted
        return self._shown[index] if index is not None and index < len(self._shown) else None

    def _path_of(self, entry: Entry) -> Path:
        return Path(self._folder) / entry.name

    # -- words about it

    def _tell(self) -> None:
        entry, words = self._highlighted(), self.query_one(Words)
        if entry is None:
            called = " called that" if _parts(self.query_one(Input).value)[1] else ""
            words.say("" if self._listing else f"There is no folder and no GGUF file{called} here.")
        elif entry.is_folder:
            words.say("")
        elif (verdict := self._verdicts.get(self._path_of(entry))) is not None:
            words.say(verdict.words, bad=not verdict.fit)
        else:
            words.say("Looking at the file.")
            self._look_at(self._path_of(entry))

    @work(thread=True, exclusive=True, group="check")
    def _look_at(self, path: Path) -> None:
        try:
            fit, words = True, self._check(path)
        except EdgeSpecError as error:
            fit, words = False, str(error)
        if not get_current_worker().is_cancelled:
            self.post_message(self.Checked(path, fit, words))

    @on(Checked)
    def _checked(self, event: Checked) -> None:
        self._verdicts[event.path] = event
        self._tell()
        if self._chosen == event.path:
            self._choose(event.path)


def _parts(typed: str) -> tuple[str, str]:
    """The folder that is typed, and the beginning of a name in it."""
    text = typed.strip().strip("'\"")  # terminals quote what is dropped on them
    folder, slash, name = text.rpartition(os.sep)
    return str(user_path(folder + slash)), name


def _is_offered(entry: Entry, name: str) -> bool:
    """Folders and GGUF files; hidden ones when a dot is typed, any file by its whole name."""
    if entry.name == name:
        return True
    if entry.name.startswith(".") and not name.startswith("."):
        return False
    return entry.is_folder or entry.name.lower().endswith(".gguf")


def _look(entry: Entry) -> Content:
    name = harmless(entry.name).replace("\n", "␊")
    size = "" if entry.is_folder else f"  {size_text(entry.size)}"
    return Content.assemble(name, os.sep if entry.is_folder else "", (size, "dim"))
