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
from edge_spec import (
    CataloguePair,
    DraftChoice,
    ForgeResult,
    ForgeStep,
    InstalledModel,
    PairEstimate,
    PairSpec,
)
from edge_spec.errors import FetchError
from edge_spec.models.memory import Machine, MemoryPlan, Saving
from edge_spec.models.memory.plan import ModelMemory, Part
from tests.tui import traces
from tests.tui.alone import Alone, until
from tui.models.choices import of_model
from tui.screens.first_run import FirstRunScreen
from tui.screens.forge import ForgeScreen
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
    InstalledModel("qwen2.5:7b", "sha256-0a", Path("/ollama/blobs/sha256-0a"), int(4.7e9), "qwen2", "Q4_K_M",
                   152_064, 32_768, int(7.6e9), None, None, "Ollama", "model"),
    InstalledModel("gemma-3-4b", "gemma.gguf", Path("/lms/gemma.gguf"), int(2.5e9), "gemma3", "Q4_K_M",
                   262_144, 131_072, int(3.9e9), None, None, "LM Studio", "model"),
]  # fmt: skip
DRAFTS = [
    DraftChoice(MODELS[0], "pairs, with 3 tokens masked", None,
                ("The chat templates differ; only the target's is used.",), 3, 0.36, True),
    DraftChoice(MODELS[3], "use a draft-free drafter instead", None, (), 0, 3.9, False),
    DraftChoice(MODELS[4], "does not pair",
                "The target's tokenizer is BPE (gpt2) but the draft's is SentencePiece (llama).", (), 0, 2.1,
                True),
]  # fmt: skip
G = 10**9
PLAN = MemoryPlan(
    tuple(
        ModelMemory(role, role, "mmap", "", weights, 0, 0,
                    (Part("KV cache", "RAM", cache, cache), Part("compute", "RAM", work, work)))
        for role, weights, cache, work in (("target", 1_100_000_000, 112_000_000, 210_000_000),
                                           ("draft", 352_000_000, 50_000_000, 150_000_000))
    ),
    Machine(total=4 * G, available=int(1.5 * G)), 4096,
)  # fmt: skip
SAVINGS = (
    Saving("lower the context to 1024 tokens (-c 1024)", 121_000_000, False),
    Saving("leave the draft out (--drafter none)", 552_000_000, True),
)
FORGED = ForgeResult(
    Path("/models/qwen-0.5b-forged-q4_0-33k.gguf"),
    (ForgeStep("as given", 491_000_000, 0.0213, 0.81, 1.08, 2),
     ForgeStep("as Q4_K_S", 385_000_000, 0.0198, 0.80, 1.11, 2, taken=False),
     ForgeStep("as Q4_0 with output Q4_0", 352_000_000, 0.0142, 0.79, 1.29, 3),
     ForgeStep("with 32,768 tokens", 288_000_000, 0.0109, 0.78, 1.42, 4)),
)  # fmt: skip


class Disk(NamedTuple):
    total: int = 256_000_000_000
    used: int = 192_000_000_000
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
    estimate = PairEstimate(PLAN.mapped, PLAN.private, PLAN.machine.available, PLAN.machine.total, False,
                            "Choose a smaller one.", PLAN, SAVINGS)  # fmt: skip
    monkeypatch.setattr(edge_spec, "catalogue", lambda: PAIRS)
    monkeypatch.setattr(edge_spec, "found_models", lambda: MODELS)
    monkeypatch.setattr(edge_spec, "drafts_for", lambda _target: DRAFTS)
    monkeypatch.setattr(edge_spec, "forge_draft", lambda _request, _tell, _cancelled: FORGED)
    monkeypatch.setattr(edge_spec, "estimate_pair", lambda _spec: estimate)
    monkeypatch.setattr(edge_spec, "pull_models", _pull)
    monkeypatch.setattr(edge_spec, "store_path", lambda: STORE)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Disk())


Ready = Callable[[Alone, Pilot[None]], Awaitable[None]]


async def first_run(app: Alone, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "Licence" in app.text("#first-plan") and "Ollama" in app.text("#first-list"))


async def pull_failed(app: Alone, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "yourself" in app.text("#pull-words"))


async def models(app: Alone, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "needed with the program" in app.text("#models-plan"))


async def forged(app: Alone, pilot: Pilot[None]) -> None:
    await pilot.press("enter")
    await until(pilot, lambda: "instead of" in app.text("#forge-words"))


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
    models: lambda _path: ModelScreen(PairSpec("qwen-1.5b", "qwen-0.5b", {}), {}),
    forged: lambda _path: ForgeScreen(of_model(MODELS[1]), of_model(MODELS[0])),
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
