"""Make a faster draft: what to try, how it goes, and before against after."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

import edge_spec
from edge_spec import (
    Cancelled,
    EdgeSpecError,
    ForgeRequest,
    ForgeResult,
    ForgeStatus,
    ForgeStep,
    harmless,
)
from tui.models.amounts import duration_text
from tui.models.choices import Choice
from tui.models.engine_use import EngineUse
from tui.models.recipes import RecipeForm, outcome, steps_table
from tui.screens.closing import ClosingModal

State = Literal[
    "choosing", "waiting", "unloading", "forging", "stopping", "stopped", "failed", "done", "none"
]

TICK_S: Final = 0.2
"""How often the engine is looked at, and the time shown."""

_KEYS: Final[dict[State, str]] = {
    "choosing": "Enter begin   ↑↓ move   ←→ change   Esc back",
    "waiting": "Esc do not wait",
    "unloading": "",
    "forging": "Esc stop, nothing is kept",
    "stopping": "",
    "stopped": "Enter choose again   Esc back",
    "failed": "Enter choose again   Esc back",
    "done": "Enter use this draft   Esc back, it stays in the store",
    "none": "Enter choose again   Esc back",
}
_ABOUT: Final = (
    "The target answers sample prompts, then drafts are made and measured against each other; that takes "
    "some minutes and every core. Text stays exactly the target's own, whatever the draft."
)
_FREES: Final = "The models of the chat are unloaded first, for both would slow each other down."
_WAITS: Final = "It begins when the answer under way is done; the models of the chat are unloaded then."
_WAITING: Final = "Waiting until the answer is done."
_STOPPED: Final = "Stopped. Nothing was kept."


class ForgeScreen(ClosingModal[Path | None]):
    """Makes a draft for `target` out of `draft`, or of the target itself; the new file, to be used.

    While it works the engine of the chat is unloaded, if there is one: whoever opened this screen
    loads it again. Forging runs in a process of its own; `options` are what the pair will be loaded
    with, as far as they decide how fast it runs.
    """

    CSS_PATH = "forge.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", show=False),
        Binding("enter", "go_on", "Go on", show=False),
        Binding("left", "change(-1)", "The value before", show=False, priority=True),
        Binding("right", "change(1)", "The next value", show=False, priority=True),
    ]

    @dataclass
    class Told(Message):
        """What the forging said."""

        what: ForgeStatus | ForgeStep

    @dataclass
    class Ended(Message):
        """The forging is over: with a result, a problem, or neither if it was stopped."""

        result: ForgeResult | None
        problem: str = ""

    def __init__(
        self,
        target: Choice,
        draft: Choice | None,
        engine: EngineUse | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._options = dict(options or {})
        self._target = target
        self._draft = draft
        self._engine = engine
        self._form = RecipeForm.default(itself=draft is None)
        self._state: State = "choosing"
        self._stop = threading.Event()
        self._steps: list[ForgeStep] = []
        self._notes: list[str] = []
        self._result: ForgeResult | None = None
        self._status = ""
        self._began = 0.0

    def compose(self) -> ComposeResult:
        draft = self._draft
        out_of = f"{draft.name}  {draft.facts}" if draft else "the target itself, with fewer layers"
        with Vertical(id="forge-box"):
            yield Static("Make a faster draft", id="forge-title", markup=False)
            yield Static(
                harmless(f"for     {self._target.name}  {self._target.facts}\nout of  {out_of}"),
                id="forge-what",
                markup=False,
            )
            yield OptionList(id="forge-form", markup=False)
            yield Static(id="forge-steps", markup=False)
            yield Static(id="forge-words", markup=False)
            yield Static(id="forge-keys", markup=False)

    def on_mount(self) -> None:
        self._show_form()
        self._show("choosing")
        self.query_one(OptionList).focus()
        self.set_interval(TICK_S, self._tick)

    # -- choosing

    def _show_form(self) -> None:
        form = self.query_one(OptionList)
        at = form.highlighted or 0
        form.set_options(
            Option(Content.assemble((name.ljust(12), "bold"), f"◂ {words} ▸"))
            for name, words in self._form.rows
        )
        form.highlighted = at

    def action_change(self, step: int) -> None:
        if self._state == "choosing":
            self._form.change(self.query_one(OptionList).highlighted or 0, step)
            self._show_form()

    @on(OptionList.OptionSelected)
    def action_go_on(self) -> None:
        """Enter: begin, use the result, or choose again."""
        match self._state:
            case "choosing":
                self._begin()
            case "done" if self._result is not None:
                self.dismiss(self._result.path)
            case "stopped" | "failed" | "none":
                self._show("choosing")
                self.query_one(OptionList).focus()

    def action_stop(self) -> None:
        """Esc: leave, or stop what is under way."""
        match self._state:
            case "waiting":
                self._show("choosing")
            case "forging":
                self._stop.set()
                self._show("stopping")
            case "choosing" | "stopped" | "failed" | "done" | "none":
                self.dismiss(None)

    # -- forging

    def _begin(self) -> None:
        """Forge, as soon as the machine is free for it."""
        if self._engine is not None and self._engine.is_answering:
            self._show("waiting")
        elif self._engine is not None and self._engine.is_loaded:
            self._show("unloading")
            self._engine.unload()
        else:
            self._stop = threading.Event()
            self._steps, self._notes, self._status = [], [], "starting"
            self._began = time.monotonic()
            self._show("forging")
            draft = self._draft.ref if self._draft is not None else None
            self._forge(self._form.request(self._target.ref, draft, self._options), self._stop)

    def _tick(self) -> None:
        engine = self._engine
        waits_for = engine is not None and {
            "waiting": engine.is_answering, "unloading": engine.is_loaded
        }.get(self._state, True)  # fmt: skip
        if waits_for is False and engine is not None:
            self._begin()
        elif self._state in ("forging", "stopping"):
            self._show_words()

    @work(thread=True, exclusive=True, group="forge")
    def _forge(self, request: ForgeRequest, stop: threading.Event) -> None:
        worker = get_current_worker()
        try:
            result = edge_spec.forge_draft(
                request,
                self._tell,
                lambda: stop.is_set() or worker.is_cancelled,
            )
        except Cancelled:
            self.post_message(self.Ended(None))
        except EdgeSpecError as error:
            self.post_message(self.Ended(None, str(error)))
        else:
            self.post_message(self.Ended(result))

    def _tell(self, what: ForgeStatus | ForgeStep) -> None:
        self.post_message(self.Told(what))

    @on(Told)
    def _told(self, event: Told) -> None:
        match event.what:
            case ForgeStep():
                self._steps.append(event.what)
                self._show_steps()
            case ForgeStatus(text, note):
                if note:
                    self._notes.append(text)
                else:
                    self._status = text
                self._show_words()

    @on(Ended)
    def _ended(self, event: Ended) -> None:
        if event.result is not None:
            self._result = event.result
            self._steps = list(event.result.steps)
            self._show("none" if event.result.path is None else "done")
        elif event.problem:
            self._status = event.problem
            self._show("failed")
        else:
            self._show("stopped")

    # -- what is seen

    def _show(self, state: State) -> None:
        self._state = state
        box = self.query_one("#forge-box")
        for name in _KEYS:
            box.set_class(name == state, f"-{name}")
        self.query_one(OptionList).disabled = state != "choosing"
        self.query_one("#forge-keys", Static).update(_KEYS[state])
        self._show_steps()
        self._show_words()

    def _show_steps(self) -> None:
        over = self._state in ("done", "none")
        rows = [] if self._state == "choosing" else steps_table(self._steps, over=over)
        lines = [Content.styled(harmless(line), "" if counts else "dim") for line, counts in rows]
        self.query_one("#forge-steps", Static).update(Content("\n").join(lines))

    def _show_words(self) -> None:
        words = self._words()
        shown = self.query_one("#forge-words", Static)
        shown.update(harmless(words))

    def _words(self) -> str:
        engine = self._engine
        match self._state:
            case "choosing" if engine is not None and engine.is_answering:
                return f"{_ABOUT}\n{_WAITS}"
            case "choosing" if engine is not None and engine.is_loaded:
                return f"{_ABOUT}\n{_FREES}"
            case "choosing":
                return _ABOUT
            case "waiting":
                return _WAITING
            case "unloading":
                return "Unloading the models of the chat."
            case "forging":
                since = duration_text(time.monotonic() - self._began)
                return "\n".join([*self._notes, f"{since}: {self._status}"])
            case "stopping":
                return "Stopping."
            case "stopped":
                return _STOPPED
            case "failed":
                return self._status
            case _:
                assert self._result is not None
                return "\n".join([*self._notes, outcome(self._result)])
