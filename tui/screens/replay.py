"""A trace, watched again: the same tokens and gauges as in the chat, without any model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Static
from textual.worker import get_current_worker

from edge_spec import Cancelled, TraceHeader, UsageError, harmless
from tui.chat.gauges import PlainReference, read_gauges
from tui.chat.speculation import Speculation
from tui.chat.transcript import Block, Transcript
from tui.commands import BY_NAME
from tui.keys import Keys, key_code, key_name, resolve_keys
from tui.replay.player import Player
from tui.replay.tape import Tape, read_tape
from tui.screens.closing import ClosingScreen
from tui.widgets.inspect_bar import InspectBar
from tui.widgets.panel import FoldedPanel, SpeculationPanel, context_text
from tui.widgets.position_line import Position, PositionLine
from tui.widgets.status import WIDE, TitleBar
from tui.widgets.token_view import TokenView
from tui.widgets.words import Words

FRAME_S: Final = 1 / 20

_AS_IN_THE_CHAT: Final = ("rejected", "inspect", "glyphs", "help")
"""What has the chat's keys, the user's own among them."""


class ReplayScreen(ClosingScreen[None]):
    """Plays a trace file; `show_rejected` and `glyphs` are how the tokens are shown at first.

    `keys` are the chat's, which count here for what both have.
    """

    CSS_PATH = "replay.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "play", "Play or pause", priority=True),
        Binding("left", "go(-1)", "A round or token back", priority=True),
        Binding("right", "go(1)", "A round or token on", priority=True),
        Binding("home", "edge(-1)", "To the beginning", priority=True),
        Binding("end", "edge(1)", "To the end", priority=True),
        Binding("plus,equals_sign", "faster", "Faster", priority=True),
        Binding("minus", "slower", "Slower", priority=True),
        Binding("right_square_bracket", "text(1)", "The next text", priority=True),
        Binding("left_square_bracket", "text(-1)", "The text before", priority=True),
        Binding("escape", "close", "Close", priority=True),
        Binding("q", "dismiss(None)", "Close", priority=True),
        Binding("question_mark", "help", "Keys", priority=True),
    ]

    @dataclass
    class Read(Message):
        """The trace was read."""

        tape: Tape

    @dataclass
    class Unreadable(Message):
        """The file is no trace; `words` say why."""

        words: str

    def __init__(
        self, path: Path, *, show_rejected: bool = True, glyphs: bool = False, keys: Keys | None = None
    ) -> None:
        super().__init__()
        self._keys = keys if keys is not None else resolve_keys({})
        for name in _AS_IN_THE_CHAT:
            for key in self._keys.by_command[name]:
                self._bindings.bind(key, name, BY_NAME[name].summary, priority=True)
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]
        self._path = path
        self._show_rejected, self._glyphs = show_rejected, glyphs
        self._tape: Tape | None = None
        self._player: Player | None = None
        self._index = 0  # of the text that plays
        self._transcript = Transcript()
        self._plain_speed: float | None = None
        self._inspecting = False
        self._words = ""
        self._frame_at = time.monotonic()

    def compose(self) -> ComposeResult:
        yield TitleBar(id="title")
        yield Words(id="replay-words")
        with Horizontal(id="replay-middle"):
            yield TokenView(id="tokens")
            yield SpeculationPanel(id="panel")
        yield InspectBar(id="inspect")
        yield FoldedPanel(id="folded")
        yield PositionLine(id="position")
        yield Static(id="replay-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(InspectBar).display = False
        self._tokens.show_rejected, self._tokens.glyphs = self._show_rejected, self._glyphs
        self._tokens.focus()
        self._tokens.border_title = Content(harmless(self._path.name))
        self._say(f"Reading {self._path}.")
        self._show_keys()
        self._read()
        self.set_interval(FRAME_S, self._next_frame)

    @property
    def _tokens(self) -> TokenView:
        return self.query_one("#tokens", TokenView)

    # -- the trace

    @work(thread=True)
    def _read(self) -> None:
        worker = get_current_worker()
        try:
            tape = read_tape(self._path, lambda: worker.is_cancelled)
        except Cancelled:
            return
        except UsageError as error:
            self.post_message(self.Unreadable(str(error)))
        else:
            self.post_message(self.Read(tape))

    @on(Unreadable)
    def _unreadable(self, event: Unreadable) -> None:
        self._fail(event.words)

    def _fail(self, words: str) -> None:
        """There is nothing to play."""
        self.add_class("-nothing")
        self._say(words, bad=True)
        self.query_one("#replay-keys", Static).update("Esc close")

    @on(Read)
    def _was_read(self, event: Read) -> None:
        self._tape = event.tape
        self.query_one(TitleBar).show_models(*_model_names(event.tape.header))
        if event.tape.recordings:
            self._open(0)
        else:
            self._fail(event.tape.problem or f"There is no answer in the trace {self._path}.")

    def _open(self, index: int) -> None:
        """Show a text of the trace, from its beginning."""
        assert self._tape is not None
        self._index = index
        recording = self._tape.recordings[index]
        player = self._player = Player(recording)
        reference = PlainReference()
        player.seek_end()
        reference.see(player.fold)
        self._plain_speed = reference.speed
        player.seek(0)
        prompt = recording.prompt.strip("\n")
        blocks = [Block.of_text("prompt", prompt)] if prompt else []
        self._transcript = Transcript([*blocks, player.fold.block])
        self._inspect(False)
        self._tokens.load(self._transcript)
        self._show(None)

    # -- time

    def _next_frame(self) -> None:
        now = time.monotonic()
        passed, self._frame_at = now - self._frame_at, now
        if self._player is not None and self._player.playing:
            self._show(self._player.advance(passed))

    def action_play(self) -> None:
        if self._player is not None:
            self._inspect(False)
            self._show(self._player.toggle())

    def action_faster(self) -> None:
        if self._player is not None:
            self._player.faster()
            self._show(None)

    def action_slower(self) -> None:
        if self._player is not None:
            self._player.slower()
            self._show(None)

    # -- places

    def action_go(self, delta: int) -> None:
        """A round on or back; a token while inspecting."""
        if self._inspecting:
            self._tokens.move_cursor(delta)
        elif self._player is not None:
            self._show(self._player.step(delta))

    def action_edge(self, step: int) -> None:
        """To one end of the recording, or to the first or last token while inspecting."""
        if self._inspecting:
            self._tokens.move_cursor_to_edge(step)
        elif self._player is not None:
            self._show(self._player.seek(0) if step < 0 else self._player.seek_end())

    def action_text(self, delta: int) -> None:
        if self._tape is not None and self._tape.recordings:
            self._open((self._index + delta) % len(self._tape.recordings))

    # -- looking closer

    def action_rejected(self) -> None:
        self._tokens.show_rejected = not self._tokens.show_rejected

    def action_glyphs(self) -> None:
        self._tokens.glyphs = not self._tokens.glyphs

    def action_inspect(self) -> None:
        if self._player is not None:
            self._inspect(not self._inspecting)

    def action_help(self) -> None:
        """Say what tokens look like, and which key does what."""
        from tui.screens.help import HelpScreen

        rows = [
            (key_name(binding.key), binding.description)
            for key in ("space", "left", "right", "home", "end", "plus", "minus", "[", "]", "escape", "q")
            for binding in self._bindings.get_bindings_for_key(key_code(key) or key)[:1]
        ]
        rows += [
            (self._keys(name), BY_NAME[name].summary)
            for name in _AS_IN_THE_CHAT
            if self._keys.by_command[name]
        ]
        self.app.push_screen(HelpScreen([("While a trace is played", rows)], self._tokens.marks))

    def action_close(self) -> None:
        if self._inspecting:
            self._inspect(False)
        else:
            self.dismiss()

    def _inspect(self, on: bool) -> None:
        """Walk over tokens with the cursor, the recording paused; or go back to rounds."""
        self._inspecting = on
        bar = self.query_one(InspectBar)
        bar.display = on
        if on and self._player is not None:
            self._player.playing = False
            if self._tokens.cursor is None:
                bar.clear()
                self.call_after_refresh(self._place_cursor)  # the bar takes lines from the tokens
            self._show(None)
        elif not on:
            self._tokens.cursor = None
        self._show_keys()

    def _place_cursor(self) -> None:
        if self._inspecting and self._tokens.cursor is None:
            self._tokens.move_cursor(0)

    @on(TokenView.CursorMoved)
    def _cursor_moved(self, event: TokenView.CursorMoved) -> None:
        """A key or a click chose a token."""
        if self._tape is None or not event.holds:
            return
        if not self._inspecting:
            self._inspect(True)
        block = self._transcript.blocks[event.block]
        info = block.spans[event.span].info
        if info is not None:
            self.query_one(InspectBar).show_token(info, block.alternatives_at(event.span), self._tape.piece)

    # -- what is seen

    def _show(self, first: int | None) -> None:
        """Show the player's place; `first` is the first span that changed."""
        player, tape = self._player, self._tape
        assert player is not None and tape is not None
        if first is not None:
            self._tokens.changed(len(self._transcript.blocks) - 1, first)
        gauges = read_gauges(
            player.fold,
            _speculation(tape.header.settings, player),
            plain_speed=self._plain_speed,
            context_used=player.fold.stats.prompt_tokens + player.fold.stats.completion_tokens,
            context_size=_context_size(tape.header.settings),
        )
        self.query_one(SpeculationPanel).show(gauges)
        self.query_one(FoldedPanel).show(gauges)
        self.query_one(TitleBar).show_context(context_text(gauges))
        self.query_one(PositionLine).position = Position(
            "playing" if player.playing else "ended" if player.at_end else "paused",
            player.fold.reading,
            player.num_rounds,
            len(player.recording.rounds),
            player.clock,
            player.recording.duration,
            player.speed,
            self._index + 1,
            len(tape.recordings),
        )
        self._show_words(player, tape)

    def _show_words(self, player: Player, tape: Tape) -> None:
        """Why the trace ends early, else the last notice."""
        if tape.problem is not None:
            self._say(tape.problem, bad=True)
        else:
            self._say(player.notice.text if player.notice is not None else "")

    def _say(self, words: str, *, bad: bool = False) -> None:
        if words == self._words:
            return  # an update lays the whole screen out anew, which is too much for every frame
        self._words = words
        shown = self.query_one(Words)
        shown.say(words, bad=bad)
        shown.display = bool(words)

    def _show_keys(self) -> None:
        keys, has = self._keys, self._keys.by_command
        rejected = f"{keys('rejected')} rejected  " if has["rejected"] else ""
        if self._inspecting:
            back = f"{keys('inspect')} or Esc" if has["inspect"] else "Esc"
            words = f"←→ token  ↑↓ line  {rejected}{back} back to the rounds"
        else:
            inspect = f"{keys('inspect')} inspect  " if has["inspect"] else ""
            words = f"Space play  ←→ round  Home End  + - speed  {rejected}{inspect}Esc close"
        self.query_one("#replay-keys", Static).update(words)


def _model_names(header: TraceHeader) -> tuple[str, str]:
    """Target and draft by their files, as the trace's header has them."""
    names = []
    for role in ("target", "draft"):
        model = header.files.get(role)
        file = model.get("file") if isinstance(model, Mapping) else None
        names.append(harmless(Path(str(file)).stem) if file else "")
    return names[0] or "a trace", names[1]


def _speculation(settings: Mapping[str, Any], player: Player) -> Speculation:
    """Whether this text is drafted for, as far as it has come."""
    drafted = any(one.num_drafted for one in player.recording.rounds)
    draft_max = settings.get("draft_max")
    longest = max((one.num_drafted for one in player.recording.rounds), default=0)
    stats = player.recording.steps[-1].stats
    return Speculation(drafted, draft_max if isinstance(draft_max, int) else longest, stats.reason)


def _context_size(settings: Mapping[str, Any]) -> int | None:
    size = settings.get("ctx_size", settings.get("context_size"))
    return size if isinstance(size, int) else None
