"""No model yet: from an empty store to a pair, with the keyboard alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import edge_spec
from edge_spec import CataloguePair, DraftChoice, InstalledModel, PairEstimate, PairSpec
from edge_spec.errors import ModelFileError
from tests.tui.alone import alone, until
from tui.keys import resolve_keys
from tui.screens.first_run import FirstRunScreen
from tui.screens.pick_file import PickFileScreen
from tui.screens.pull import PullScreen

STARTER = CataloguePair(
    "starter", "Two Qwens", "qwen-big", "qwen-small", 1_600_000_000, 1_600_000_000, "Apache-2.0"
)
TINY = CataloguePair("tiny", "A small one", "smol", None, 98_000_000, 98_000_000, "Apache-2.0")
FITS = PairEstimate(1_600_000_000, 400_000_000, 6_000_000_000, 16_000_000_000, True, "")
TOO_LARGE = PairEstimate(9_000_000_000, 0, 1_000_000_000, 8_000_000_000, False, "Choose a smaller one.")


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    """A store without a model; returns the list of what was pulled."""
    pulled: list[tuple[str, ...]] = []

    def pull(names: Sequence[str], *_: Any) -> list[Path]:
        pulled.append(tuple(names))
        return []

    def estimate(spec: PairSpec) -> PairEstimate:
        if "bad" in spec.target:
            raise ModelFileError(f"{spec.target} is truncated: get it again.")
        return TOO_LARGE if "big" in spec.target else FITS

    monkeypatch.setattr(edge_spec, "catalogue", lambda: [STARTER, TINY])
    monkeypatch.setattr(edge_spec, "found_models", list)
    monkeypatch.setattr(edge_spec, "store_path", lambda: tmp_path / "not" / "made yet")
    monkeypatch.setattr(edge_spec, "estimate_pair", estimate)
    monkeypatch.setattr(edge_spec, "pull_models", pull)
    return pulled


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home with models: one that is sound, one that is not, and what is none."""
    folder = tmp_path / "home"
    (folder / "models").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for name in ("models/good [red].gguf", "models/bad.gguf", "models/notes.txt", "models/blob"):
        (folder / name).write_bytes(b"x" * 2000)
    monkeypatch.setattr(Path, "home", lambda: folder)
    monkeypatch.setenv("HOME", str(folder))
    return folder


async def test_choices_show_their_downloads_and_the_recommended_one_is_highlighted() -> None:
    async with alone(FirstRunScreen()) as (app, pilot):
        shown = app.text("#first-list")
        assert "98 MB to download" in shown and "1.6 GB to download   recommended" in shown
        await until(pilot, lambda: "Memory" in app.text("#first-plan"))
        plan = app.text("#first-plan").replace("\n", " ")
        assert "Download: 1.6 GB" in plan and "it does not fit. Choose a smaller one." in plan
        await pilot.press("up")
        await until(pilot, lambda: "it fits" in app.text("#first-plan"))
        assert "6.0 GB of 16.0 GB free" in app.text("#first-plan").replace("\n", " ")


@pytest.mark.parametrize(
    ("keys", "pulled", "spec"),
    [
        (["enter"], "starter", PairSpec("qwen-big", "qwen-small", {"context_size": 512})),
        (["up", "enter"], "tiny", PairSpec("smol", None, {"context_size": 512})),
    ],
)
async def test_choosing_a_pair_pulls_it_and_gives_it_with_the_options(
    library: list[tuple[str, ...]], keys: list[str], pulled: str, spec: PairSpec
) -> None:
    async with alone(FirstRunScreen({"context_size": 512})) as (app, pilot):
        await pilot.press(*keys)
        await until(pilot, lambda: app.results)
        assert app.results == [spec]
        assert library == [(pulled,)]


async def test_a_pull_that_does_not_happen_leads_back_to_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(_names: Sequence[str], _progress: Any, cancelled: Any) -> list[Path]:
        while not cancelled():
            threading.Event().wait(0.01)
        raise edge_spec.Cancelled

    monkeypatch.setattr(edge_spec, "pull_models", pull)
    async with alone(FirstRunScreen()) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, PullScreen))
        await pilot.press("escape")
        await until(pilot, lambda: "Stopped" in app.text("#pull-words"))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, FirstRunScreen))
        assert not app.results


def _theirs(name: str, place: str, problem: str | None = None, **facts: Any) -> InstalledModel:
    path = Path("/theirs") / name
    given = {"kind": "model", **facts}
    return InstalledModel(
        name, name, path, 4_700_000_000, "qwen2", "Q4_K_M", 152_064, 32_768, 7_600_000_000, None, problem,
        place, **given,
    )  # fmt: skip


OLLAMAS = _theirs("qwen2.5:7b [red]", "Ollama")
SMALL = _theirs("qwen2.5:0.5b", "Ollama")
UNUSABLE = [
    _theirs("bad", "LM Studio", "It is truncated."),
    _theirs("eyes", "LM Studio", kind="mmproj"),
    _theirs("trimmed", "hub cache", trimmed=True),
]


async def test_models_of_other_programs_are_offered_with_the_best_draft_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drafts = [DraftChoice(SMALL, "pairs", None, (), 0, 0.1, True)]
    monkeypatch.setattr(edge_spec, "found_models", lambda: [OLLAMAS, *UNUSABLE])
    monkeypatch.setattr(edge_spec, "drafts_for", lambda _target: drafts)
    async with alone(FirstRunScreen({"context_size": 512})) as (app, pilot):
        await until(pilot, lambda: "of Ollama, already here" in app.text("#first-list"))
        assert "There is 1 model of other programs here" in app.text("#first-intro").replace("\n", " ")
        assert not any(name in app.text("#first-list") for name in ("bad", "eyes", "trimmed"))
        # What is recommended stays highlighted, and its plan shown.
        await until(pilot, lambda: "Download: 1.6 GB" in app.text("#first-plan"))
        await pilot.press("home")
        await until(pilot, lambda: "Draft: qwen2.5:0.5b, which is here too." in app.text("#first-plan"))
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(str(OLLAMAS.path), str(SMALL.path), {"context_size": 512})]


async def test_a_found_model_that_nothing_here_drafts_for_can_be_used_alone_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edge_spec, "found_models", lambda: [OLLAMAS])
    monkeypatch.setattr(edge_spec, "drafts_for", lambda _target: [])
    async with alone(FirstRunScreen()) as (app, pilot):
        await until(pilot, lambda: "Ollama" in app.text("#first-list"))
        await pilot.press("home", "enter")  # counts as soon as it is known what drafts for it
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(str(OLLAMAS.path), None, {})]


async def test_the_key_that_gets_a_draft_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_spec, "found_models", lambda: [OLLAMAS])
    monkeypatch.setattr(edge_spec, "drafts_for", lambda _target: [])
    async with alone(FirstRunScreen(keys=resolve_keys({"models": ["f11"]}))) as (app, pilot):
        await until(pilot, lambda: "Ollama" in app.text("#first-list"))
        await pilot.press("home")
        words = "so it decodes plainly at first; F11 gets or makes one."
        await until(pilot, lambda: words in app.text("#first-plan").replace("\n", " "))


async def test_escape_means_not_now() -> None:
    async with alone(FirstRunScreen()) as (app, pilot):
        await pilot.press("escape")
        await until(pilot, lambda: app.results)
        assert app.results == [None]


async def test_a_file_is_found_by_completion_and_chosen(home: Path) -> None:
    async with alone(FirstRunScreen()) as (app, pilot):
        await pilot.press("end", "enter")
        await until(
            pilot, lambda: isinstance(app.screen, PickFileScreen) and "models/" in app.text("#pick-list")
        )
        assert ".hidden" not in app.text("#pick-list")
        await pilot.press("m", "tab")
        await until(pilot, lambda: "good [red].gguf  2 kB" in app.text("#pick-list"))
        assert "notes" not in app.text("#pick-list")
        await pilot.press("g", "enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(str(home / "models" / "good [red].gguf"), None, {})]


async def test_an_unfit_file_is_refused_with_the_reason(home: Path) -> None:
    async with alone(PickFileScreen("Which?", _check)) as (app, pilot):
        await pilot.press(*"models/bad", "enter")
        await until(pilot, lambda: "truncated" in app.text("#pick-words"))
        await pilot.press("enter")
        await pilot.pause()
        assert not app.results


async def test_a_pasted_path_and_enter_at_once_choose_the_file(home: Path) -> None:
    async with alone(PickFileScreen("Which?", _check)) as (app, pilot):
        app.screen.query_one("#pick-path").value = f"'{home}/models/blob'"  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [home / "models" / "blob"]  # any file, by its whole name


async def test_a_folder_opens_at_enter_and_one_that_is_not_there_is_told(home: Path) -> None:
    async with alone(PickFileScreen("Which?", _check)) as (app, pilot):
        await until(pilot, lambda: "models/" in app.text("#pick-list"))
        await pilot.press("enter")
        await until(pilot, lambda: "bad.gguf" in app.text("#pick-list"))
        await pilot.press("down", "up", *"x/")
        await until(
            pilot, lambda: "cannot be read: No such file" in app.text("#pick-words").replace("\n", " ")
        )
        await pilot.press("escape")
        await until(pilot, lambda: app.results)
        assert app.results == [None]


def _check(path: Path) -> str:
    if "bad" in path.name:
        raise ModelFileError(f"{path.name} is truncated: get it again.")
    return "fit"
