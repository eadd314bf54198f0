"""The conversation, token by token: what each guess was, and what became of it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.geometry import Offset, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from tui.chat.transcript import Transcript
from tui.widgets.token_layout import Cell, Place, TranscriptLayout
from tui.widgets.token_lines import Look
from tui.widgets.token_marks import Marks, marks_in_use
from tui.widgets.token_painter import TokenPainter


class TokenView(ScrollView, can_focus=True):
    """Shows a transcript; keeps to the end of it until someone scrolls up.

    With a `cursor` the arrow keys walk over tokens, and where it `walks` they begin to; else they
    scroll. `show_rejected` False hides every guess that is no part of the text. `glyphs` marks kinds
    with characters; where there is no colour, losing guesses always are.
    """

    ALLOW_SELECT = True
    FOCUS_ON_CLICK = False  # whoever clicks and goes on typing means the prompt
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "token-view--accepted",
        "token-view--cursor",
        "token-view--discarded",
        "token-view--drafted",
        "token-view--error",
        "token-view--mark",
        "token-view--note",
        "token-view--own",
        "token-view--plain",
        "token-view--rejected",
        "token-view--role",
        "token-view--symbol",
        "token-view--system",
        "token-view--you",
    }
    DEFAULT_CSS = """
    TokenView {
        background: $surface;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        & > .token-view--accepted { color: $text-primary; text-style: underline; }
        & > .token-view--own { color: $foreground; text-style: bold; }
        & > .token-view--plain { color: $foreground; }
        & > .token-view--rejected { color: $text-warning; text-style: strike dim; }
        & > .token-view--discarded { color: $foreground; text-style: strike dim; }
        & > .token-view--drafted { color: $foreground; text-style: dim; }
        & > .token-view--you { color: $foreground; }
        & > .token-view--system { color: $text-muted; }
        & > .token-view--role { color: $text-secondary; text-style: bold; }
        & > .token-view--note { color: $text-muted; text-style: italic; }
        & > .token-view--error { color: $text-error; text-style: bold; }
        & > .token-view--mark { text-style: dim; }
        & > .token-view--symbol { color: $text-accent; }
        & > .token-view--cursor { text-style: bold reverse; }
        &:light > .token-view--rejected { text-style: strike; }
    }
    """

    show_rejected: reactive[bool] = reactive(True, repaint=False, init=False)
    glyphs: reactive[bool] = reactive(False, repaint=False, init=False)
    cursor: reactive[Place | None] = reactive(None, repaint=False, init=False)
    at_end: reactive[bool] = reactive(True, repaint=False, init=False)

    @dataclass
    class CursorMoved(Message):
        """The cursor stands on another token, or its token is another one now."""

        view: TokenView
        block: int
        span: int

        @property
        def control(self) -> TokenView:
            return self.view

        @property
        def holds(self) -> bool:
            """Whether the cursor still stands there; since this was said it may have gone, or the token."""
            blocks = self.view.transcript.blocks
            is_there = self.block < len(blocks) and self.span < len(blocks[self.block].spans)
            return is_there and self.view.cursor == (self.block, self.span)

    @dataclass
    class ScrolledAway(Message):
        """The view no longer follows the end."""

        view: TokenView

        @property
        def control(self) -> TokenView:
            return self.view

    @dataclass
    class BackAtEnd(Message):
        """The view follows the end again."""

        view: TokenView

        @property
        def control(self) -> TokenView:
            return self.view

    def __init__(
        self, transcript: Transcript | None = None, *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.transcript = transcript or Transcript()
        self.walks = False
        self._layout = TranscriptLayout(Transcript(), Look(0))
        self._width = 0  # nothing is wrapped before it is known
        self._painter = TokenPainter(self)
        self._scrolls_itself = False
        self._mouse_down_at: Offset | None = None

    # -- content

    def load(self, transcript: Transcript) -> None:
        """Show another transcript, from its end."""
        self.transcript = transcript
        self.cursor = None
        self.at_end = True
        self._wrap_all()

    def changed(self, block: int, span: int) -> None:
        """The spans from `span` of `block` on are new, and so are the blocks behind it."""
        if self._width:
            num_before = self._layout.num_lines
            first = self._layout.changed(block, span)
            self._resize_content()
            self._follow()
            self.refresh_lines(first, max(num_before, self._layout.num_lines) - first)
            self._check_cursor((block, span))

    def _wrap_all(self) -> None:
        """Wrap everything anew, keeping the end or the line at the top where it is."""
        self._width = self.scrollable_content_region.width
        if not self._width:
            return
        top = None if self.at_end else self._layout.start_of(self.scroll_offset.y)
        # One cell stays free for a cursor on the line's end.
        look = Look(self._width - 1, self.show_rejected, self.marks)
        self._layout = TranscriptLayout(self.transcript, look)
        self._painter.forget()
        self._resize_content()
        self._follow()
        if top is not None and top.block < len(self.transcript.blocks):
            self._scroll_itself(self._layout.line_at(top))
        if self.text_selection is not None:
            self.screen.clear_selection()  # it is told in lines and columns
        self.refresh()

    def _resize_content(self) -> None:
        size = Size(self._width, self._layout.num_lines)
        if size == self.virtual_size:
            return
        with self._own_scrolling():
            # Setting it as usual lays out the whole screen, for every new line of an answer; that is
            # needed only where the scroll bar comes or goes, and then it asks for it by itself.
            self.set_reactive(TokenView.virtual_size, size)
            self._scroll_update(size)

    @property
    def marks(self) -> Marks:
        """What tells the kinds apart besides colour, now."""
        app = self.app
        return marks_in_use(glyphs=self.glyphs, color=not app.no_color, encoding=app.console.encoding)

    def watch_show_rejected(self) -> None:
        self._wrap_all()
        self._check_cursor((0, 0))

    def watch_glyphs(self) -> None:
        self._wrap_all()

    def on_resize(self) -> None:
        if self.scrollable_content_region.width != self._width:
            self._wrap_all()
        else:
            self._follow()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painter.forget(styles=True)

    # -- scrolling

    @contextlib.contextmanager
    def _own_scrolling(self) -> Iterator[None]:
        """What scrolls in here is no wish of the user's."""
        self._scrolls_itself = True
        try:
            yield
        finally:
            self._scrolls_itself = False

    def _scroll_itself(self, y: int) -> None:
        with self._own_scrolling():
            self.scroll_to(y=y, animate=False, force=True)

    def _follow(self) -> None:
        if self.at_end:
            self._scroll_itself(self.max_scroll_y)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.watch_scroll_target_y()

    def watch_scroll_target_y(self) -> None:
        """Scrolling away counts from the key on, not when its animation is over; so does coming back."""
        if not self._scrolls_itself:
            self.at_end = self.scroll_target_y >= self.max_scroll_y

    def watch_at_end(self, at_end: bool) -> None:
        self._follow()
        self.post_message(self.BackAtEnd(self) if at_end else self.ScrolledAway(self))

    @property
    def _is_walking(self) -> bool:
        return self.walks or self.cursor is not None

    def action_scroll_up(self) -> None:
        if self._is_walking:
            self.move_cursor_lines(-1)
        else:
            super().action_scroll_up()

    def action_scroll_down(self) -> None:
        if self._is_walking:
            self.move_cursor_lines(1)
        else:
            super().action_scroll_down()

    def action_scroll_left(self) -> None:
        if self._is_walking:
            self.move_cursor(-1)
        else:
            super().action_scroll_left()

    def action_scroll_right(self) -> None:
        if self._is_walking:
            self.move_cursor(1)
        else:
            super().action_scroll_right()

    def action_scroll_home(self) -> None:
        if self._is_walking:
            self.move_cursor_to_edge(-1)
        else:
            super().action_scroll_home()

    def action_scroll_end(self) -> None:
        if self._is_walking:
            self.move_cursor_to_edge(1)
        else:
            self.at_end = True

    # -- the cursor

    def move_cursor(self, delta: int) -> None:
        """Walk over `delta` tokens that are shown; without a cursor, begin at the last one on screen."""
        if self.cursor is None:
            self.cursor = self._last_on_screen()
            return
        way = self._layout.tokens_from(self.cursor, 1 if delta > 0 else -1)
        for place in itertools.islice(way, abs(delta)):
            self.cursor = place

    def move_cursor_lines(self, step: int) -> None:
        """Walk to the token that stands nearest on the next line, down (1) or up (-1), that has one."""
        if self.cursor is None:
            self.cursor = self._last_on_screen()
        elif (cell := self._layout.cell_of(self.cursor)) is not None:
            self._walk_lines(cell, step)

    def _walk_lines(self, cell: Cell, step: int) -> None:
        y = cell.y + step
        while 0 <= y < self._layout.num_lines:
            if (place := self._layout.token_at(Cell(cell.x, y))) is not None:
                self.cursor = place
                return
            y += step

    def move_cursor_to_edge(self, step: int) -> None:
        """Walk to the first (-1) or the last (1) token of all."""
        place = self._layout.first_token() if step < 0 else self._layout.last_token()
        if place is not None:
            self.cursor = place

    def _last_on_screen(self) -> Place | None:
        first = self.scroll_offset.y
        for y in range(first + self.size.height - 1, first - 1, -1):
            if (place := self._layout.token_at(Cell(self._width, y))) is not None:
                return place
        return self._layout.last_token()

    def _check_cursor(self, first: Place) -> None:
        """What stands from `first` on is new: keep the cursor on a token, and say so if it is there."""
        if self.cursor is None or self.cursor < first:
            return
        if self._layout.is_token(self.cursor):
            self.post_message(self.CursorMoved(self, *self.cursor))
        else:
            self.cursor = next(self._layout.tokens_from(self.cursor, -1), None)

    def watch_cursor(self, cursor: Place | None) -> None:
        self.refresh()
        if cursor is None:
            self.watch_scroll_target_y()
            return
        # Who looks closer wants it to stand still, unless that is the end.
        self.at_end = cursor == self._layout.last_token()
        if (cell := self._layout.cell_of(cursor)) is not None:
            top, height = self.scroll_offset.y, self.size.height
            if not top <= cell.y < top + height:
                self._scroll_itself(cell.y if cell.y < top else cell.y - height + 1)
        self.post_message(self.CursorMoved(self, *cursor))

    # -- the mouse

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._mouse_down_at = event.screen_offset

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on a token; twice: select its message."""
        offset = event.get_content_offset(self)
        if offset is None or event.screen_offset != self._mouse_down_at:
            return  # on the scroll bar, or the end of a selection
        cell = Cell(offset.x, offset.y + self.scroll_offset.y)
        if event.chain == 1:
            if (place := self._layout.token_at(cell)) is not None:
                self.cursor = place
        elif event.chain == 2 and (block := self._layout.block_of(cell.y)) is not None:
            event.prevent_default()  # Textual would select the whole conversation
            start, end = self._layout.text_of(block)
            self.screen.selections = {self: Selection(Offset(*start), Offset(*end))}

    # -- drawing and copying

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        block, line = self._layout.block_of(y), self._layout.line(y)
        if block is None or line is None or block >= len(self.transcript.blocks):
            return Strip.blank(self.size.width, self._painter.ground)
        selected = None if self.text_selection is None else self.text_selection.get_span(y)
        cursor = self.cursor[1] if self.cursor is not None and self.cursor[0] == block else None
        return self._painter.paint(line, self.transcript.blocks[block], y, cursor=cursor, selected=selected)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text: what was emitted, raw and unwrapped, without what would steer a terminal."""
        start = Cell(0, 0) if selection.start is None else Cell(*selection.start)
        end = None if selection.end is None else Cell(*selection.end)
        return self._layout.copied(start, end), "\n"
