"""The program behind `edge-spec replay`: the replay screen and nothing else."""

from __future__ import annotations

from pathlib import Path

from edge_spec import Settings
from tui.keys import keys_of, use_keys
from tui.program import Program
from tui.screens.replay import ReplayScreen
from tui.themes import use_theme


class ReplayApp(Program):
    """Plays one trace; ends with its screen."""

    TITLE = "edge-spec"

    def __init__(self, path: Path, settings: Settings) -> None:
        super().__init__()
        self._path = path
        self._settings = settings
        self._keys = keys_of(settings)
        use_keys(self, self._keys)

    def on_mount(self) -> None:
        use_theme(self, self._settings["theme"])
        shown, glyphs = self._settings["rejected"], self._settings["glyphs"]
        for problem in self._keys.problems:
            self.notify(problem, severity="warning", markup=False)
        replay = ReplayScreen(self._path, show_rejected=shown, glyphs=glyphs, keys=self._keys)
        self.push_screen(replay, lambda _result: self.exit())
