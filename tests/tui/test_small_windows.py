"""In a small window lists keep rows, and the line of keys stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import OptionList

import edge_spec
from edge_spec import CataloguePair, PairSpec
from tests.tui.alone import alone, until
from tui.screens.first_run import FirstRunScreen
from tui.screens.get import GetScreen
from tui.screens.models import ModelScreen

PAIRS = [
    CataloguePair(name, f"{name}, some", f"{name}-4b", f"{name}-1b", 3 * 10**9, 4 * 10**9, "Apache-2.0")
    for name in ("gemmas", "qwens", "llamas", "phis")
]


@pytest.mark.parametrize("size", [(60, 15), (40, 12)])
@pytest.mark.parametrize(
    ("kind", "lists", "keys"),
    [(ModelScreen, "#targets", "#models-keys"), (GetScreen, "#get-list", "#get-keys"),
     (FirstRunScreen, "#first-list", "#first-keys")],
)  # fmt: skip
async def test_a_small_window_shows_rows_and_keys(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kind: type[Screen[Any]],
    lists: str,
    keys: str,
    size: tuple[int, int],
) -> None:
    monkeypatch.setattr(edge_spec, "catalogue", lambda: PAIRS)
    monkeypatch.setattr(edge_spec, "found_models", lambda: [])
    monkeypatch.setattr(edge_spec, "store_path", lambda: tmp_path)
    screen = ModelScreen(PairSpec("x", None, {}), {}) if kind is ModelScreen else kind()
    async with alone(screen, size) as (app, pilot):
        await until(pilot, lambda: app.screen.query_one(lists, OptionList).option_count >= len(PAIRS))
        await pilot.pause()
        shown = app.screen.region
        for name, rows in ((lists, 3), (keys, 1)):
            widget = app.screen.query_one(name)
            seen = app.screen.find_widget(widget).visible_region.intersection(shown)
            borders = widget.size.height - widget.scrollable_content_region.height
            assert seen.height - borders >= rows, name
            assert "Esc" in app.text(keys)
