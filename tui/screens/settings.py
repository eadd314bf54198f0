"""Every setting with its value and where that came from; what is changed goes into the user's file."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from edge_spec import (
    SETTINGS,
    EdgeSpecError,
    Setting,
    SettingError,
    Settings,
    harmless,
    resolve_settings,
    save_settings,
)
from tui.screens.closing import ClosingModal
from tui.screens.edit import EditScreen
from tui.widgets.text_fields import SafeInput
from tui.widgets.words import Words

_KEYS: Final = "↑↓ move   Enter change   Space next choice   Del default   Esc close"
_EDIT_KEYS: Final = "Enter save   Esc cancel"
_KEYS_TABLE: Final = 'Other keys stand in the table [keys] of the file: stop = "ctrl+x"'
_FIRST: Final = "Chat"
_NAME: Final = 20
_VALUE: Final = 24


class SettingsScreen(ClosingModal[bool]):
    """Shows and changes settings; True when the file was changed.

    `resolve` decides all settings, those of the program's flags included.
    """

    CSS_PATH = "settings.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Close", show=False),
        Binding("space", "next_choice", "Next choice", show=False),
        Binding("delete,backspace", "remove", "Back to the default", show=False),
    ]

    def __init__(self, resolve: Callable[[], Settings] = resolve_settings) -> None:
        super().__init__()
        self._resolve = resolve
        self._settings: Settings | None = None
        self._edited: Setting | None = None
        self._saved = False

    def compose(self) -> ComposeResult:
        with Vertical(id="settings-box"):
            yield OptionList(id="settings-list", markup=False)
            with VerticalScroll(id="settings-about-box", can_focus=False):
                yield Words(id="settings-about")
            with Horizontal(id="settings-editor"):
                yield Label(id="settings-name", markup=False)
                yield SafeInput(id="settings-value", compact=True)
            yield Static(id="settings-file", markup=False)
            yield Static(_KEYS, id="settings-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#settings-box").border_title = Content("Settings")
        self._show()

    # -- showing

    def _show(self) -> None:
        """Decide all settings anew, and show them."""
        options = self.query_one(OptionList)
        try:
            self._settings = self._resolve()
        except EdgeSpecError as error:
            self.query_one(Words).say(str(error), bad=True)
            return
        highlighted = options.highlighted
        options.set_options(self._options(self._settings))
        options.highlighted = highlighted if highlighted is not None else 1
        self.query_one("#settings-file", Static).update(harmless(f"Saved in {self._settings.user_file}"))

    def _options(self, settings: Settings) -> Iterator[Option]:
        """The rows by group, what the chat alone has first."""
        groups = dict.fromkeys((_FIRST, *(row.group for row in SETTINGS.values())))
        for group in groups:
            yield Option(Content.styled(group, "bold"), disabled=True)
            for name, row in SETTINGS.items():
                if row.group == group:
                    yield Option(
                        _look(name, row.text(settings[name]), _place(settings, settings.origin(name))),
                        id=name,
                    )
            if group == _FIRST:
                for action, keys in settings.keys.items():
                    look = _look(f"key of {action}", " ".join(keys.value), _place(settings, keys.origin))
                    yield Option(look, disabled=True)
                yield Option(Content.styled(f"  {_KEYS_TABLE}", "dim"), disabled=True)

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        row, settings = self._row, self._settings
        if row is None or settings is None:
            return
        default = row.text(row.default)
        kind = "a theme's name; Space goes through them" if row.name == "theme" else row.kind.words
        words = f"{row.help}\nIt is {kind}" + (f"; {default} by default." if default else ".")
        if (held := _held_by(settings, row)) is not None:
            words += f"\n{held} decides it: a value that is saved here holds where that says nothing."
        self.query_one(Words).say(words)

    @property
    def _row(self) -> Setting | None:
        """The setting that is highlighted."""
        option = self.query_one(OptionList).highlighted_option
        return None if option is None or option.id is None else SETTINGS[option.id]

    # -- changing

    @on(OptionList.OptionSelected)
    def _edit(self) -> None:
        """Let the user write another value."""
        row, settings = self._row, self._settings
        if row is None or settings is None:
            return
        text = row.text(settings[row.name])
        if row.name == "system":
            self.app.push_screen(
                EditScreen("System prompt of new conversations", text, multiline=True), self._written
            )
            return
        self._edited = row
        field = self.query_one(Input)
        field.suggester = SuggestFromList(self._choices(row)) if self._choices(row) else None
        field.value = text
        self.query_one(Label).update(f"{row.name} ")
        self._show_editor(True)

    def _written(self, text: str | None) -> None:
        if text is not None:
            self._save("system", text or None)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        row = self._edited
        if row is not None and self._save(row.name, event.value.strip() or None):
            self._show_editor(False)

    def action_next_choice(self) -> None:
        """The next of a few choices, at once."""
        row, settings = self._row, self._settings
        if row is None or settings is None or not (choices := self._choices(row)):
            self.app.bell()
            return
        present = row.text(settings[row.name])
        index = choices.index(present) + 1 if present in choices else 0
        self._save(row.name, choices[index % len(choices)])

    def action_remove(self) -> None:
        """Take the setting out of the file."""
        if (row := self._row) is not None:
            self._save(row.name, None)

    def action_back(self) -> None:
        """Leave the value as it is; without an editor, leave the screen."""
        if self._edited is not None:
            self._show_editor(False)
            self._moved()
        else:
            self.dismiss(self._saved)

    def _save(self, name: str, value: str | None) -> bool:
        """Write a value into the file, or take it out; what is wrong with it is said."""
        settings = self._settings
        assert settings is not None, "there are rows only once the settings are known"
        try:
            if name == "theme" and value is not None:
                self._check_theme(value)
            save_settings({name: value}, settings.user_file)
        except EdgeSpecError as error:
            self.query_one(Words).say(str(error), bad=True)
            return False
        self._saved = True
        self._show()
        if name == "theme":
            self._use_theme()
        return True

    def _use_theme(self) -> None:
        """Show the colours at once."""
        theme = self._settings["theme"] if self._settings is not None else None
        if theme in self.app.available_themes:
            self.app.theme = theme

    def _check_theme(self, name: str) -> None:
        themes = self.app.available_themes
        if name not in themes:
            near = difflib.get_close_matches(name, themes, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(themes))}."
            raise SettingError(f"There is no theme {name!r}; {hint}")

    def _choices(self, row: Setting) -> tuple[str, ...]:
        return tuple(sorted(self.app.available_themes)) if row.name == "theme" else row.kind.choices

    def _show_editor(self, yes: bool) -> None:
        self.query_one("#settings-editor").display = yes
        self.query_one("#settings-keys", Static).update(_EDIT_KEYS if yes else _KEYS)
        if yes:
            self.query_one(Input).focus()
        else:
            self._edited = None
            self.query_one(OptionList).focus()


def _look(name: str, value: str, place: str) -> Content:
    """A row: a value that is not the default stands out."""
    shown = Content(harmless(value).replace("\n", "␊") or "-")
    if place:
        shown = shown.stylize("bold")
    shown = shown.truncate(_VALUE, ellipsis=True, pad=True)
    return Content.assemble(f"  {harmless(name):{_NAME}}", shown, "  ", (harmless(place), "dim"))


def _place(settings: Settings, origin: str) -> str:
    """Where a value came from, in few words; nothing for a default."""
    if origin == "default":
        return ""
    return "your file" if origin == str(settings.user_file) else origin


def _held_by(settings: Settings, row: Setting) -> str | None:
    """What beats the user's file in this setting, if anything does."""
    origin = settings.origin(row.name)
    if origin in ("default", str(settings.user_file)):
        return None
    if settings.is_flag(row.name):
        return f"The option {origin} of this run"
    return f"The variable {origin}" if origin == row.variable else f"The file {origin} in this folder"
