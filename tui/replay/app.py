"""The program behind `edge-spec replay`: the replay screen and nothing else."""

from __future__ import annotations

from pathlib import Path

from edge_spec import Settings
from tui.program import Program, use_theme
from tui.screens.replay import ReplayScreen


class ReplayApp(Program):
    """Plays one trace; ends with its screen."""

    TITLE = "edge-spec"

    def __init__(self, path: Path, settings: Settings) -> None:
        super().__init__()
        self._path = path
        self._settings = settings

    def on_mount(self) -> None:
        use_theme(self, self._settings["theme"])
        shown, glyphs = self._settings["rejected"], self._settings["glyphs"]
        self.push_screen(
            ReplayScreen(self._path, show_rejected=shown, glyphs=glyphs), lambda _result: self.exit()
        )
