"""Commands on what is shown, and how."""

from __future__ import annotations

from edge_spec import UsageError
from tui.actions.group import ActionGroup
from tui.commands import shorten


class ViewActions(ActionGroup):
    """Marks, views and colours, and moving in the conversation."""

    def rendered(self, _argument: str) -> None:
        self._screen.show_rendered(self._screen.rendered is None)

    def rejected(self, _argument: str) -> None:
        tokens = self._screen.tokens
        tokens.show_rejected = not tokens.show_rejected
        self._say(f"Rejected tokens are {'shown' if tokens.show_rejected else 'hidden'}.")

    def glyphs(self, _argument: str) -> None:
        self._screen.tokens.glyphs = not self._screen.tokens.glyphs

    def inspect(self, _argument: str) -> None:
        self._screen.inspect(not self._screen.is_inspecting)

    def theme(self, argument: str) -> None:
        app = self._screen.app
        if not argument:
            app.search_themes()
        elif argument in app.available_themes:
            app.theme = argument
        else:
            names = ", ".join(sorted(app.available_themes))
            raise UsageError(f'There is no theme "{shorten(argument)}"; there are {names}.')

    def page_up(self, _argument: str) -> None:
        self._screen.view.scroll_page_up(animate=False)

    def page_down(self, _argument: str) -> None:
        self._screen.view.scroll_page_down(animate=False)

    def top(self, _argument: str) -> None:
        self._screen.view.scroll_home(animate=False)

    def bottom(self, _argument: str) -> None:
        self._screen.view.scroll_end(animate=False)
