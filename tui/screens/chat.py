"""The chat: the conversation, the panel beside it, and the prompt below.

The screen shows and passes on. What was said is `ChatSession`'s, what a key or slash command
does is `tui.actions`', and waiting for the engine is `EngineThread`'s.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingsMap
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import TextArea

from edge_spec import (
    SETTINGS,
    ChatRequest,
    EdgeSpecError,
    Notice,
    PairSpec,
    PromptTooLongError,
    SettingError,
    Settings,
    harmless,
)
from tui.chat.engine import EngineThread, Host, Mailbox
from tui.chat.messages import Crashed, EngineEvents, Failed, Loaded, LoadingProgress, Unloaded
from tui.chat.session import ChatSession
from tui.chat.settings import ChatSettings
from tui.chat.start import missing_models
from tui.chat.states import State, words
from tui.chat.transcript import Transcript
from tui.chat.turns import Turn
from tui.commands import BY_NAME, COMMANDS, FOOTER, Command, message_of, parse, prompt_of
from tui.conversations.record import Record
from tui.conversations.store import ConversationStore
from tui.guard import guarded
from tui.keys import Keys, keys_of, use_keys
from tui.themes import use_theme
from tui.widgets.inspect_bar import InspectBar
from tui.widgets.key_footer import KeyFooter
from tui.widgets.panel import FoldedPanel, SpeculationPanel, context_text
from tui.widgets.prompt import PromptInput
from tui.widgets.slash_list import SlashList
from tui.widgets.status import WIDE, TitleBar, model_names
from tui.widgets.token_view import TokenView

if TYPE_CHECKING:
    from tui.widgets.rendered_view import RenderedView

GAUGE_SECONDS: Final = 0.4
"""The shortest time between two looks at the gauges; tokens are never held up."""


class CommandActions(Protocol):
    """What the commands of the table do on a chat screen; they may open any other screen."""

    def run(self, command: Command, argument: str = "") -> bool:
        """Do it, and say whether that could be done. What is wrong with it, the user is told."""
        ...

    def allows(self, name: str) -> bool:
        """Whether a command's key is the command's now; otherwise it is the focused widget's own."""
        ...

    def now_idle(self) -> None:
        """The answer has ended: do what waited for that."""
        ...


class ChatScreen(Screen[None]):
    """One chat window. `resolve` decides the settings again, after they were saved."""

    def __init__(
        self,
        settings: Settings,
        resolve: Callable[[], Settings],
        store: ConversationStore | None,
        make_host: Callable[[PairSpec], Host],
        make_actions: Callable[[ChatScreen], CommandActions],
    ) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]
        self.resolve = resolve
        self.settings = settings
        self._use_keys(keys_of(settings))
        flags = {name for name in SETTINGS if settings.is_flag(name)}
        system = settings["system"] or ""
        chat = ChatSettings(settings.sampling(), settings.decoding(), system, given=flags)
        self.session = ChatSession(chat, Record(store, self.tell), self)
        self.session.num_alternatives = settings["inspect"]
        self.actions = make_actions(self)
        self._make_host = make_host
        self._rendered: list[RenderedView] = []  # made when it is first wanted
        self._send_when_loaded: str | None = None
        self._answer_when_loaded: Turn | None = None
        self._sent_again = False  # since the engine was last heard in an answer
        self._before_edit = ""  # what stood in the prompt
        self._shown_state: State | None = None
        self._names: tuple[PairSpec | None, tuple[str, str]] = (None, ("edge-spec", ""))
        self._gauges_at = 0.0

    def compose(self) -> ComposeResult:
        yield TitleBar(id="title")
        with Horizontal(id="middle"):
            yield TokenView(id="tokens")
            yield SpeculationPanel(id="panel")
        yield InspectBar(id="inspect")
        yield FoldedPanel(id="folded")
        yield SlashList(lambda name: self.key(name), id="commands")
        yield PromptInput(self.run_key, id="prompt")
        yield KeyFooter(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()

        def schedule(delay: float, call: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(loop.call_later, delay, call)

        self.engine = EngineThread(Mailbox(self.post_message, schedule), self._make_host)
        self.engine.start()
        self.show_transcript(self.session.transcript)
        self.tokens.show_rejected = self.settings["rejected"]
        self.tokens.glyphs = self.settings["glyphs"]
        self.show_rendered(self.settings["rendered"])
        self._show_hint()
        self.prompt.focus()
        self.show_all()

    def on_unmount(self) -> None:
        self.engine.close()
        self.session.tracing.end()
        self.session.record.drain()

    # -- parts

    @property
    def tokens(self) -> TokenView:
        return self.query_one("#tokens", TokenView)

    @property
    def rendered(self) -> RenderedView | None:
        """The rendered view while it is shown."""
        return next((view for view in self._rendered if view.display), None)

    @property
    def prompt(self) -> PromptInput:
        return self.query_one("#prompt", PromptInput)

    @property
    def slash_list(self) -> SlashList:
        return self.query_one("#commands", SlashList)

    @property
    def view(self) -> TokenView | RenderedView:
        """What shows the conversation now."""
        return self.rendered or self.tokens

    # -- keys

    def _use_keys(self, keys: Keys) -> None:
        """The prompt asks the table by itself; the bindings are for other focuses and the last line."""
        self.key = keys
        order = [*FOOTER, *(command.name for command in COMMANDS if command.name not in FOOTER)]
        self._bindings = BindingsMap(
            Binding(
                ",".join(keys.by_command[name]),
                f"command('{name}')",
                FOOTER.get(name, BY_NAME[name].summary),
                key_display=keys(name).replace("Ctrl+", "^"),
                show=name in FOOTER,
            )
            for name in order
            if keys.by_command[name]
        )

    def run_key(self, key: str) -> bool:
        """Do what the table says of a key; False if that is nothing, or nothing now."""
        name = self.key.command_of(key)
        if name is None or not self.actions.allows(name):
            return False
        self.actions.run(BY_NAME[name])
        return True

    def action_command(self, name: str) -> None:
        self.actions.run(BY_NAME[name])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "command":
            return self.actions.allows(str(parameters[0]))
        return super().check_action(action, parameters)

    # -- looking closer

    @property
    def is_inspecting(self) -> bool:
        return self.session.inspecting

    def inspect(self, on: bool) -> None:
        """Walk over the tokens, or go back to the prompt."""
        if on == self.is_inspecting:
            return
        self.session.inspecting = self.tokens.walks = on
        bar = self.query_one("#inspect", InspectBar)
        bar.clear()
        bar.display = on
        if on:
            self.show_rendered(False)
            self.tokens.focus()
            if self.tokens.cursor is None:
                self.tokens.move_cursor(0)
        else:
            self.tokens.cursor = None
            self.prompt.focus()
        self.refresh_bindings()

    @on(TokenView.CursorMoved)
    @guarded
    def _cursor_moved(self, event: TokenView.CursorMoved) -> None:
        if not event.holds:
            return
        self.inspect(True)
        block, turn = self.session.transcript.blocks[event.block], self.session.turn_of(event.block)
        info = block.spans[event.span].info
        if info is not None and turn is not None and turn.piece is not None:
            self.query_one("#inspect", InspectBar).show_token(
                info, block.alternatives_at(event.span), turn.piece
            )

    @on(TokenView.ScrolledAway)
    @on(TokenView.BackAtEnd)
    def _show_what_is_below(self) -> None:
        tokens = self.tokens
        is_below = not tokens.at_end and tokens.scroll_offset.y < tokens.max_scroll_y
        subtitle = f"more below, {self.key('bottom')}" if is_below else ""
        if subtitle != (tokens.border_subtitle or ""):
            tokens.border_subtitle = Content(subtitle)

    # -- the prompt

    @on(TextArea.Changed, "#prompt")
    @guarded
    def _typed(self, _event: TextArea.Changed) -> None:
        # Up and Down go on recalling, where the list would take them.
        self.slash_list.offer("" if self.prompt.is_as_recalled else self.prompt.text)
        # A change may be told of after the Enter that came with it.
        if self.prompt.text != self._send_when_loaded:
            self._send_when_loaded = None

    def submit(self) -> None:
        """Do what the prompt says. Its text stays there until that has begun."""
        text = self.prompt.text
        crashed = self.session.state.name == "load-crashed"
        if not text.strip() and not crashed:
            return
        try:
            call = parse(text)
            if crashed and call is None:
                self._load_once_more(text)
            elif call is not None:
                self.clear_prompt()
                if not self.actions.run(call.command, call.argument):
                    self.prompt.put(text)
            elif self.session.is_loading:
                self._send_when_loaded, self._answer_when_loaded = text, None
                self.tell(Notice("info", "This is sent as soon as the models are loaded."))
            elif self.session.info is None:
                self.tell(Notice("warning", f"No model is loaded; {self.key('models')} chooses one."))
            else:
                request = self.session.ask(message_of(text))
                self._before_edit = ""
                self.clear_prompt()
                self.send(request)
        except EdgeSpecError as error:
            self.tell(Notice("warning", str(error)))

    @property
    def is_waiting(self) -> bool:
        """Whether something is sent as soon as the models are loaded."""
        return self._send_when_loaded is not None or self._answer_when_loaded is not None

    def wait_no_longer(self) -> None:
        """Nothing is sent by itself once the models are loaded."""
        self._send_when_loaded = self._answer_when_loaded = None

    def answer_again(self) -> None:
        """Answer the last message again, once the models are loaded. Raises UsageError."""
        message = self.session.last_message
        if message is not None and self.session.is_loading:
            self._send_when_loaded, self._answer_when_loaded = None, message
            self.tell(Notice("info", "It is answered again as soon as the models are loaded."))
        else:
            self.send(self.session.regenerate())

    def ask_again(self, text: str) -> None:
        """Ask a message that was taken back into the prompt, or beside it. Raises UsageError."""
        in_prompt = self.prompt.text == prompt_of(text)
        if in_prompt and self.session.is_loading:
            self.submit()
            return
        request = self.session.ask(text)
        if in_prompt:
            self.clear_prompt()
        self.send(request)
        self.tell(Notice("info", "Your message is asked again."))

    def _load_once_more(self, text: str) -> None:
        """The engine crashed while it loaded: try that again, and send `text` then, if there is any."""
        assert self.session.spec is not None, "it was being loaded"
        self._send_when_loaded = text if text.strip() else None
        then = "; this is sent as soon as they are" if text.strip() else ""
        self.tell(Notice("info", f"The models are loaded once more{then}."))
        self.load(self.session.spec)

    def send(self, request: ChatRequest) -> None:
        """Let the engine answer."""
        self.engine.generate(request)
        self.show_all()

    def clear_prompt(self) -> None:
        self.prompt.remember(self.prompt.text)
        self.prompt.put("")

    def put_into_prompt(self, text: str) -> None:
        """Replace what stands in the prompt; Up brings that back."""
        self.prompt.remember(self.prompt.text)
        self.prompt.put(text)
        self.prompt.focus()

    def edit(self, text: str | None = None) -> None:
        """Let the user write the last message anew, from `text` or from what it is. Raises UsageError."""
        before = self._before_edit if self.session.is_editing else self.prompt.text
        there = self.session.edit()
        self.put_into_prompt(prompt_of(there if text is None else text))
        self._before_edit = before
        self.show_all()

    def leave_edit(self) -> None:
        """End that, if it is going on: the prompt is as it was before, and Up brings the text back."""
        if self.session.is_editing:
            self.session.leave_edit()
            self.clear_prompt()
            self.prompt.put(self._before_edit)
            self.show_all()

    # -- settings

    def settings_saved(self) -> None:
        """The settings file was changed; what concerns loading holds from the next load on.

        Raises SettingError.
        """
        before, after = self.settings, self.resolve()
        self.settings = after
        if after["theme"] != before["theme"]:
            use_theme(self.app, after["theme"])
        self._use_keys(keys_of(after))
        use_keys(self.app, self.key)
        try:
            self.session.settings.take_changes(before, after)
        except SettingError as error:
            self.tell(Notice("warning", str(error)))
        if after["system"] != before["system"]:
            self.session.system_of_new(after["system"] or "")
        self.session.num_alternatives = after["inspect"]
        if after["rejected"] != before["rejected"]:
            self.tokens.show_rejected = after["rejected"]
        if after["glyphs"] != before["glyphs"]:
            self.tokens.glyphs = after["glyphs"]
        if after["rendered"] != before["rendered"]:
            self.show_rendered(after["rendered"])
        if after.load_options() != before.load_options():
            words = f"The models' new settings hold when they are loaded again ({self.key('models')})."
            self.tell(Notice("info", words))
        for problem in self.key.problems:
            self.tell(Notice("warning", problem))
        self._show_hint()
        self.refresh_bindings()
        self.show_all()

    # -- models

    def load(self, spec: PairSpec) -> None:
        """Load a pair, after fetching what the catalogue has of it and the store has not."""
        missing = missing_models(spec)
        if not missing:
            self.session.loading(spec)
            self.engine.load(spec)
            self.show_all()
            return

        def pulled(there: bool | None) -> None:
            if there:
                self.load(spec)

        from tui.screens.pull import PullScreen

        self.app.push_screen(PullScreen(missing), pulled)

    @property
    def is_answering(self) -> bool:
        return self.session.state.busy

    @property
    def is_loaded(self) -> bool:
        return self.session.info is not None or self.session.is_loading

    def unload(self) -> None:
        """Free the models, for who needs the machine; `load` brings them back."""
        self.engine.unload()

    # -- what the engine says

    @on(Unloaded)
    @guarded
    def _unloaded(self, _event: Unloaded) -> None:
        self.session.unloaded()
        self.show_all()

    @on(LoadingProgress)
    @guarded
    def _loading(self, event: LoadingProgress) -> None:
        if event.load != self.engine.newest_load:
            return
        assert self.session.spec is not None
        self.session.loading(self.session.spec, event.model, (round(100 * event.fraction), 100))
        self.show_state()

    @on(Loaded)
    @guarded
    def _loaded(self, event: Loaded) -> None:
        if event.load != self.engine.newest_load:
            return
        self.session.loaded(event.info, event.piece)
        self.show_all()
        text, message = self._send_when_loaded, self._answer_when_loaded
        self.wait_no_longer()
        if text is not None and text == self.prompt.text:
            self.submit()
        elif message is not None and message is self.session.last_message:
            self.answer_again()

    @on(EngineEvents)
    @guarded
    def _engine_events(self, event: EngineEvents) -> None:
        was_busy = self.session.state.busy
        self.session.see(event.events)
        if not self.session.is_unheard:
            self._sent_again = False
        if was_busy and not self.session.state.busy:
            self.show_all()
            self.actions.now_idle()
        else:
            self.show_state()
            self._show_what_is_below()
            # With the tokens, so that the screen is drawn once; at the answer's end in any case.
            if time.monotonic() - self._gauges_at >= GAUGE_SECONDS:
                self.show_gauges()

    @on(Failed)
    @guarded
    def _failed(self, event: Failed) -> None:
        if event.load not in (None, self.engine.newest_load):
            return
        if event.load is not None:
            self.wait_no_longer()
        full = isinstance(event.error, PromptTooLongError)
        self.session.failed(event.words, loading=event.load is not None, full=full)
        self.show_all()
        self.actions.now_idle()

    @on(Crashed)
    @guarded
    def _crashed(self, event: Crashed) -> None:
        if event.load not in (None, self.engine.newest_load):
            return
        spec, message = self.session.spec, self.session.last_message
        is_unheard = self.session.is_unheard
        if event.load is not None:
            self.wait_no_longer()
        self.session.crashed(event.error, loading=event.load is not None)
        if event.load is None and spec is not None:
            self.engine.load(spec)
            if is_unheard and not self._sent_again and message is not None:
                self._sent_again = True
                self._send_again(message)
        self.show_all()
        self.actions.now_idle()

    def _send_again(self, message: Turn) -> None:
        """The engine was gone before it was asked: do that once it is back, if the user lets it stand."""
        if message in self.session.turns:
            self.answer_again()
        elif self.prompt.text == prompt_of(message.block.text):
            self.submit()

    # -- what the session says (SessionView)

    def show_transcript(self, transcript: Transcript) -> None:
        self.tokens.load(transcript)
        self.query_one("#inspect", InspectBar).clear()  # its token may be gone
        if self.rendered is not None:
            self.rendered.load(transcript)

    def show_change(self, block: int, span: int) -> None:
        self.tokens.changed(block, span)
        if self.rendered is not None:
            self.rendered.changed(block, span)

    def take_back(self, text: str) -> None:
        text = prompt_of(text)
        if self.prompt.text.strip():
            self.prompt.remember(text)
            self.session.leave_edit()  # what stands there is another message
            where = f"{self.key('recall')} brings your message back"
        else:
            self.prompt.put(text)
            where = "your message is back in the prompt"
        self.tell(Notice("info", f"There was no answer yet; {where}."))

    def tell(self, notice: Notice) -> None:
        severity: Any = "warning" if notice.level == "warning" else "information"
        self.app.notify(harmless(notice.text), severity=severity, markup=False)

    # -- what is shown

    def show_rendered(self, rendered: bool) -> None:
        """Rendered Markdown, or tokens."""
        self.tokens.display = not rendered
        for view in self._rendered:
            view.display = rendered
            if rendered:
                view.load(self.session.transcript)
        if rendered and not self._rendered:
            from tui.widgets.rendered_view import RenderedView  # slow to import, and rarely wanted at once

            self._rendered.append(RenderedView(self.session.transcript, id="rendered"))
            self.query_one("#middle").mount(*self._rendered, after="#tokens")
            self.show_title()

    def show_all(self) -> None:
        self.show_title()
        self.show_state()
        self.show_gauges()

    def _show_hint(self) -> None:
        self.prompt.placeholder = f"Ask something, or type / for commands, {self.key('help')} for help"

    def show_title(self) -> None:
        session = self.session
        if session.info is not None:
            self._names = (session.spec, model_names(session.info))
        elif session.spec is not None and session.spec != self._names[0]:
            self._names = (session.spec, (session.spec.target, session.spec.draft or ""))
        self.query_one("#title", TitleBar).show_models(*map(harmless, self._names[1]))
        for view in (self.tokens, *self._rendered):
            view.border_title = Content(harmless(session.record.title))

    def show_state(self) -> None:
        state = self.session.state
        edits = self.session.is_editing and not state.busy
        leave = f"editing your last message · {self.key('stop')} leaves it as it was" if edits else ""
        if leave != (self.prompt.border_subtitle or ""):
            self.prompt.border_subtitle = Content(leave)
            self.refresh_bindings()
        if state == self._shown_state:
            return
        was = self._shown_state
        self._shown_state = state
        self.prompt.border_title = Content(harmless(words(state, self.key)))
        if was is None or was.name != state.name:
            if was is not None:
                self.prompt.remove_class(f"-{was.name}")
            self.prompt.add_class(f"-{state.name}")
            self.refresh_bindings()

    def show_gauges(self) -> None:
        self._gauges_at = time.monotonic()
        gauges = self.session.gauges()
        is_on = gauges.speculation.on
        hint = f"{self.key('speculation')} off measures it" if is_on else "the next answer measures it"
        self.query_one("#panel", SpeculationPanel).show(gauges, hint)
        self.query_one("#folded", FoldedPanel).show(gauges)
        self.query_one("#title", TitleBar).show_context(context_text(gauges))
