"""What the screens beside the chat look like. `pytest --snapshot-update` renews the pictures."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

import edge_spec
from edge_spec import CataloguePair, InstalledModel, PairEstimate, PairSpec
from edge_spec.errors import FetchError
from tests.tui import traces
from tests.tui.alone import Alone, until
from tui.screens.first_run import FirstRunScreen
from tui.screens.models import ModelScreen
from tui.screens.pull import PullScreen
from tui.screens.replay import ReplayScreen

WIDE, NARROW = (120, 36), (80, 24)
STORE = Path("/models")
PAIRS = [
    CataloguePair(
        "starter", "Two Qwens, the default", "qwen-1.5b", "qwen-0.5b", 0, 1_600_000_000, "Apache-2.0"
    ),
    CataloguePair(
        "tiny", "A small one, for first contact", "smol", None, 98_000_000, 98_000_000, "Apache-2.0"
    ),
]
MODELS = [
    InstalledModel(f"qwen-{size}b", f"qwen-{size}b.gguf", STORE / f"qwen-{size}b.gguf", int(size * 8e8),
                   "qwen2", "Q4_0", 151_936, 32_768, int(size * 1e9), "Apache-2.0", None)
    for size in (0.5, 1.5)
] + [
    InstalledModel("broken", "broken.gguf", STORE / "broken.gguf", 50_000_000, None, None, None, None, None,
                   None, "/models/broken.gguf is truncated: get it again."),
]  # fmt: skip


class Disk(NamedTuple):
    free: int = 64_000_000_000


def _pull(
    _names: Sequence[str], on_progress: Callable[[str, str, int, int], None], _cancelled: Any
) -> list[Path]:
    on_progress("qwen-1.5b", "the store", 10**9, 10**9)
    on_progress("qwen-0.5b", "the Hugging Face hub", 180_000_000, 500_000_000)
    raise FetchError(
        "qwen-0.5b could not be brought to /models/qwen-0.5b.gguf (the Hugging Face hub: the download stood "
        "still for 120 s): check the network, or copy the file there yourself."
    )


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate = PairEstimate(1_600_000_000, 400_000_000, 6_000_000_000, 16_000_000_000, True, "")
    monkeypatch.setattr(edge_spec, "catalogue", lambda: PAIRS)
    monkeypatch.setattr(edge_spec, "list_models", lambda: MODELS)
    monkeypatch.setattr(edge_spec, "check_models", lambda _target, _draft: None)
    monkeypatch.setattr(edge_spec, "estimate_pair", lambda _spec: estimate)
    monkeypatch.setattr(edge_spec, "pull_models", _pull)
    monkeypatch.setattr(edge_spec, "store_path", lambda: STORE)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Disk())


Ready = Callable[[Alone, Pilot[None]], Awaitable[None]]


async def first_run(app: Alone, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "Licence" in app.text("#first-plan"))


async def pull_failed(app: Alone, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "yourself" in app.text("#pull-words"))


async def models(app: Alone, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "it fits" in app.text("#models-plan"))
    await until(pilot, lambda: "being checked" not in app.text("#drafts"))


async def replay(app: Alone, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "round" in app.text("PositionLine") or "reading" in app.text("PositionLine"))
    await pilot.press(*["right"] * 6)


async def replay_inspecting(app: Alone, pilot: Pilot[None]) -> None:
    await replay(app, pilot)
    await pilot.press("f6")
    await until(pilot, lambda: "target" in app.text("#inspect"))


SCREENS: dict[Ready, Callable[[Path], Screen[Any]]] = {
    first_run: lambda _path: FirstRunScreen(),
    pull_failed: lambda _path: PullScreen(["starter"]),
    models: lambda _path: ModelScreen(PairSpec("qwen-1.5b", "qwen-0.5b", {})),
    replay: ReplayScreen,
    replay_inspecting: ReplayScreen,
}


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("ready", SCREENS, ids=lambda ready: ready.__name__)
def test_screens_beside_the_chat_look_like_their_pictures(
    snap_compare: Any, tmp_path: Path, ready: Ready, size: tuple[int, int], theme: str
) -> None:
    trace = traces.write_trace(tmp_path / "answer.jsonl", traces.answer(12, 5, inspected=True))
    app = Alone(SCREENS[ready](trace))
    app.theme = f"textual-{theme}"

    async def before(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await ready(app, pilot)
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=before)
