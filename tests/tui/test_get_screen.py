"""Getting a model by its name: what it is and how large first, then the pull."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

import edge_spec
from edge_spec import Cancelled, CataloguePair, PullPreview
from edge_spec.errors import FetchError
from tests.gguf_maker import make_gguf
from tests.tui.alone import Alone, alone, until
from tests.tui.conftest import Chatting
from tui.screens.get import GetScreen
from tui.screens.pull import PullScreen

PAIRS = [
    CataloguePair("starter", "Two Qwens", "qwen-big", "qwen-small", 0, 1_600_000_000, "Apache-2.0"),
    CataloguePair("tiny", "A small one", "smol", None, 98_000_000, 98_000_000, "Apache-2.0"),
    CataloguePair("huge", "Two [red] giants", "giant", "dwarf", 0, 0, "MIT", sized=False),
]
NOTES = ("Of [red] me/some-GGUF, Q4_K_M is taken.",)
PREVIEW = PullPreview(("me/some-GGUF:Q4_K_M",), 1_100_000_000, 1_100_000_000, "MIT", NOTES)


@pytest.fixture(autouse=True)
def pulled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A hub that has one model; returns the list of what was pulled."""
    names: list[tuple[str, ...]] = []

    def pull(wanted: Sequence[str], *_: Any) -> list[Path]:
        names.append(tuple(wanted))
        return []

    def preview(name: str, _cancelled: Callable[[], bool]) -> PullPreview:
        if name != "me/some-GGUF":
            raise FetchError(f"{name} cannot be had from the hub: it has no [red] such thing.")
        return PREVIEW

    monkeypatch.setattr(edge_spec, "catalogue", lambda: PAIRS)
    monkeypatch.setattr(edge_spec, "preview_pull", preview)
    monkeypatch.setattr(edge_spec, "pull_models", pull)
    return names


def name_in(app: Alone) -> str:
    return app.screen.query_one(Input).value


async def test_a_name_is_looked_up_and_its_size_shown_before_it_is_pulled(
    pulled: list[tuple[str, ...]],
) -> None:
    async with alone(GetScreen()) as (app, pilot):
        await pilot.press(*"me/some-GGUF", "enter")
        await until(pilot, lambda: "1.1 GB into" in app.text("#get-words"))
        words = app.text("#get-words")
        assert "Of [red] me/some-GGUF" in words and "are free" in words and "Licence: MIT." in words
        assert not pulled
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [("me/some-GGUF:Q4_K_M",)] and pulled == [("me/some-GGUF",)]


async def test_what_cannot_be_had_says_why_and_the_name_can_be_mended(pulled: list[tuple[str, ...]]) -> None:
    async with alone(GetScreen()) as (app, pilot):
        await pilot.press(*"me/some", "enter")
        await until(pilot, lambda: "no [red] such thing" in app.text("#get-words"))
        await pilot.press("-", "G")
        assert "no [red] such thing" not in app.text("#get-words")
        await pilot.press(*"GUF", "enter")
        await until(pilot, lambda: "Enter pull" in app.text("#get-keys"))


async def test_arrows_take_names_of_the_catalogue_that_is_not_here_yet(pulled: list[tuple[str, ...]]) -> None:
    async with alone(GetScreen()) as (app, pilot):
        await until(pilot, lambda: "tiny" in app.text("#get-list"))
        shown = app.text("#get-list")
        assert "starter" not in shown and "98 MB to download" in shown
        assert "size by looking it up" in shown and "Two [red] giants" in shown
        names = []
        for key in ("down", "down", "down", "up"):
            await pilot.press(key)
            names.append(name_in(app))
        assert names == ["tiny", "huge", "tiny", "huge"]


async def test_looking_up_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def preview(_name: str, cancelled: Callable[[], bool]) -> PullPreview:
        while not cancelled():
            threading.Event().wait(0.01)
        ended.set()
        raise Cancelled

    monkeypatch.setattr(edge_spec, "preview_pull", preview)
    async with alone(GetScreen("me/some-GGUF")) as (app, pilot):
        await until(pilot, lambda: "Looking up" in app.text("#get-words"))
        await pilot.press("escape")
        await until(pilot, ended.is_set)
        assert not app.results and "Esc back" in app.text("#get-keys")
        await pilot.press("escape")
        await until(pilot, lambda: app.results)
        assert app.results == [None]


async def test_a_pull_that_does_not_happen_leads_back_to_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(*_: Any) -> list[Path]:
        raise FetchError("The network is down.")

    monkeypatch.setattr(edge_spec, "pull_models", pull)
    async with alone(GetScreen("me/some-GGUF")) as (app, pilot):
        await until(pilot, lambda: "Enter pull" in app.text("#get-keys"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, PullScreen) and "down" in app.text("#pull-words"))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, GetScreen))
        assert name_in(app) == "me/some-GGUF" and not app.results


async def test_a_file_is_taken_into_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own functions, without a network."""
    monkeypatch.undo()
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(tmp_path / "store"))
    file = make_gguf(tmp_path / "mine.gguf")
    async with alone(GetScreen(f"file:{file}")) as (app, pilot):
        await until(pilot, lambda: "enough" in app.text("#get-words"))
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [("mine",)]
        assert [model.name for model in edge_spec.list_models()] == ["mine"]


async def test_the_slash_command_looks_its_name_up_and_says_what_came(
    chatting: Chatting, pulled: list[tuple[str, ...]]
) -> None:
    async with chatting() as chat:
        await chat.enter("/pull me/some-GGUF")
        await chat.until(lambda: "Enter pull" in str(chat.app.screen.query_one("#get-keys").render()))
        await chat.press("enter")
        await chat.until(lambda: chat.told)
        assert chat.told == ["me/some-GGUF:Q4_K_M is here; F5 chooses models."]
        assert pulled == [("me/some-GGUF",)]
