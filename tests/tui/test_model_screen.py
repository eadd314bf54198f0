"""Choosing models: what is shown of each, what pairs, and that looking at files never holds anything up."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

import edge_spec
from edge_spec import CataloguePair, InstalledModel, PairEstimate, PairSpec
from edge_spec.errors import ModelFileError
from tests.tui.alone import Alone, alone, until
from tui.screens.models import ModelScreen
from tui.screens.pick_file import PickFileScreen
from tui.widgets.filter_list import FilterList

STORE = Path("/store")
HERE = CataloguePair("qwens", "Two Qwens", "qwen-1.5b", "qwen-0.5b", 0, 1_600_000_000, "Apache-2.0")
AWAY = CataloguePair("gemmas", "Two Gemmas", "gemma-4b", "gemma-1b", 3_000_000_000, 3_000_000_000, "Gemma")
FITS = PairEstimate(1_600_000_000, 400_000_000, 6_000_000_000, 16_000_000_000, True, "")
TIGHT = PairEstimate(9_000_000_000, 0, 1_000_000_000, 8_000_000_000, False, "Choose a smaller one.")


def _model(name: str, size: int, vocab: int = 151_936, problem: str | None = None) -> InstalledModel:
    sound = problem is None
    return InstalledModel(
        name=name, file=f"{name}.gguf", path=STORE / f"{name}.gguf", size=size,
        architecture="qwen2" if sound else None, quantization="Q4_0" if sound else None,
        num_vocab=vocab if sound else None, context_length=32_768 if sound else None,
        parameters=size * 2 if sound else None, licence=None, problem=problem,
    )  # fmt: skip


def _ref(name: str) -> str:
    return str(STORE / f"{name}.gguf")


@dataclass
class Library:
    """The model functions; those that read headers wait while `closed`."""

    models: list[InstalledModel] = field(
        default_factory=lambda: [
            _model(
                "broken [red]", 50_000_000, problem="/store/broken [red].gguf is truncated: get it again."
            ),
            _model("qwen-0.5b", 500_000_000),
            _model("qwen-1.5b", 1_100_000_000),
            _model("qwen-7b", 4_000_000_000),
            _model("smol", 98_000_000, vocab=49_152),
        ]
    )
    is_slow: bool = False
    open: threading.Event = field(default_factory=threading.Event)
    checked: list[tuple[str, str]] = field(default_factory=list)
    pulled: list[tuple[str, ...]] = field(default_factory=list)
    estimate: PairEstimate = FITS

    def installed(self) -> list[InstalledModel]:
        if self.is_slow:
            self.open.wait(5)
        return self.models

    def check(self, target: str, draft: str) -> str | None:
        self.open.wait(5)
        self.checked.append((target, draft))
        if ("smol" in target) != ("smol" in draft):
            return f'"{Path(draft).stem}" cannot draft for "{Path(target).stem}": the vocabularies differ.'
        return None

    def estimate_pair(self, spec: PairSpec) -> PairEstimate:
        self.open.wait(5)
        if "gone" in spec.target:
            raise ModelFileError('There is no model "gone".')
        return self.estimate

    def pull(self, names: Sequence[str], *_: Any) -> list[Path]:
        self.pulled.append(tuple(names))
        return []


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    library.open.set()
    monkeypatch.setattr(edge_spec, "list_models", library.installed)
    monkeypatch.setattr(edge_spec, "catalogue", lambda: [HERE, AWAY])
    monkeypatch.setattr(edge_spec, "check_models", library.check)
    monkeypatch.setattr(edge_spec, "estimate_pair", library.estimate_pair)
    monkeypatch.setattr(edge_spec, "pull_models", library.pull)
    monkeypatch.setattr(edge_spec, "store_path", lambda: STORE)
    return library


CURRENT = PairSpec("qwen-1.5b", _ref("qwen-0.5b"), {"context_size": 2048})


def _list(app: Alone, role: str) -> FilterList:
    return app.screen.query_one(f"#{role}", FilterList)


def _row(app: Alone, role: str, key: str) -> str:
    return str(_list(app, role).get_option(key).prompt)


def _is_listed(app: Alone) -> bool:
    return "file" in _keys(app, "targets")


async def test_the_pair_in_use_is_highlighted_and_marked(library: Library) -> None:
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.pause()
        assert _list(app, "targets").key == f"model {_ref('qwen-1.5b')}"
        assert _list(app, "drafts").key == _ref("qwen-0.5b")
        marked = [key for key in _keys(app, "targets") if "in use" in _row(app, "targets", key)]
        assert marked == ["pair qwens", f"model {_ref('qwen-1.5b')}"]
        assert "in use" in _row(app, "drafts", _ref("qwen-0.5b"))


def _keys(app: Alone, role: str) -> list[str]:
    return [str(option.id) for option in _list(app, role).options]


async def test_drafts_are_sorted_and_each_says_why_not(library: Library) -> None:
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app) and len(library.checked) >= 5)
        await until(pilot, lambda: "differ" in _row(app, "drafts", _ref("smol")))
        names = [Path(key).stem for key in _keys(app, "drafts")]
        # usable by size, those no smaller than the target last; then what cannot draft
        assert names == ["none", "qwen-0.5b", "qwen-1.5b", "qwen-7b", "broken [red]", "smol", "file"]
        assert _row(app, "drafts", _ref("smol")).endswith("✗ the vocabularies differ.")
        assert "no smaller than the target" in _row(app, "drafts", _ref("qwen-7b"))
        assert "truncated" in _row(app, "drafts", _ref("broken [red]"))


async def test_enter_takes_the_selection_with_the_options_in_use(library: Library) -> None:
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press("down")  # qwen-7b
        await until(pilot, lambda: _list(app, "targets").key == f"model {_ref('qwen-7b')}")
        await pilot.press("tab", "home", "down", "enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(_ref("qwen-7b"), _ref("qwen-0.5b"), {"context_size": 2048})]


async def test_without_a_draft(library: Library) -> None:
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press("tab", "home", "enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(_ref("qwen-1.5b"), None, {"context_size": 2048})]


async def test_an_installed_pair_is_its_target_with_its_draft(library: Library) -> None:
    async with alone(ModelScreen(None)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        assert _list(app, "targets").key == "pair qwens"
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec("qwen-1.5b", _ref("qwen-0.5b"), {})]


async def test_a_pair_that_is_not_here_shows_its_size_and_is_pulled(library: Library) -> None:
    async with alone(ModelScreen(None)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        assert "3.0 GB to download" in _row(app, "targets", "pair gemmas")
        await pilot.press("down")
        await until(pilot, lambda: "Download: 3.0 GB" in app.text("#models-plan"))
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec("gemma-4b", "gemma-1b", {})]
        assert library.pulled == [("gemmas",)]


async def test_a_damaged_file_says_what_is_wrong_and_is_not_chosen(library: Library) -> None:
    async with alone(ModelScreen(None)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press(*"broken")
        await until(pilot, lambda: "broken [red].gguf is truncated" in app.text("#models-plan"))
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert not app.results


async def test_a_draft_that_does_not_pair_is_not_chosen_and_says_why(library: Library) -> None:
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press("tab", *"smol", "enter")
        await until(pilot, lambda: "cannot draft for" in app.text("#models-plan"))
        await pilot.press("enter")
        await pilot.pause()
        assert not app.results


async def test_memory_that_does_not_suffice_is_said_with_advice_and_does_not_forbid(library: Library) -> None:
    library.estimate = TIGHT
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: "is freed first." in app.text("#models-plan").replace("\n", " "))
        words = app.text("#models-plan").replace("\n", " ")
        assert "it does not fit. Choose a smaller one. What is loaded now is freed first." in words
        assert "it fits" not in words
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results[0] is not None


async def test_letters_filter_and_escape_first_takes_them_back(library: Library) -> None:
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        everything = _keys(app, "targets")
        await pilot.press(*"7b")
        assert _keys(app, "targets") == [f"model {_ref('qwen-7b')}"]
        await pilot.press("backspace", "backspace", "s", "escape")
        assert _keys(app, "targets") == everything
        assert not app.results
        await pilot.press("escape")
        await until(pilot, lambda: app.results)
        assert app.results == [None]


async def test_keys_work_while_files_are_looked_at(library: Library) -> None:
    library.models = [_model(f"model-{number:03}", 10**9 + number) for number in range(200)]
    library.open.clear()  # whoever reads a header now waits
    async with alone(ModelScreen(None)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.pause(0.3)
        await pilot.press("end", "up")
        assert _list(app, "targets").key == f"model {_ref('model-199')}"
        assert "Looking at the files" in app.text("#models-plan")
        await pilot.press("enter")  # counts as soon as it is known whether that can be used
        assert not app.results
        library.open.set()
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(_ref("model-199"), None, {})]


async def test_moving_on_ends_the_checks_of_the_target_before(library: Library) -> None:
    library.models = [_model(f"model-{number:03}", 10**9 + number) for number in range(200)]
    library.open.clear()
    async with alone(ModelScreen(None)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press("end", "up")
        await pilot.pause(0.3)
        await pilot.press("up")
        await pilot.pause(0.3)
        library.open.set()
        await until(pilot, lambda: len(library.checked) >= 200)
        of_first = [draft for target, draft in library.checked if target == _ref("model-199")]
        assert len(of_first) <= 1


async def test_results_keep_the_highlight_where_it_is(library: Library) -> None:
    library.open.clear()
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press("tab", *"smol")
        await pilot.press("escape")
        await pilot.pause(0.3)
        assert _list(app, "drafts").key == _ref("smol")
        library.open.set()
        await until(pilot, lambda: "differ" in _row(app, "drafts", _ref("smol")))
        assert _list(app, "drafts").key == _ref("smol")


async def test_enter_counts_even_if_other_drafts_become_known_first(library: Library) -> None:
    library.open.clear()
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        screen = app.screen
        assert isinstance(screen, ModelScreen)
        await pilot.press("enter")
        screen.post_message(ModelScreen.Checked(_ref("qwen-1.5b"), {_ref("smol"): "they differ."}))
        await until(pilot, lambda: "differ" in _row(app, "drafts", _ref("smol")))
        assert not app.results
        library.open.set()
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(_ref("qwen-1.5b"), _ref("qwen-0.5b"), {"context_size": 2048})]


async def test_pairs_can_be_chosen_while_the_store_is_still_read(library: Library) -> None:
    library.is_slow = True
    library.open.clear()
    async with alone(ModelScreen(None)) as (app, pilot):
        await until(pilot, lambda: _keys(app, "targets") == ["pair qwens", "pair gemmas", "reading"])
        assert _keys(app, "drafts") == ["qwen-0.5b"]
        await pilot.press("enter")
        library.open.set()
        await until(pilot, lambda: app.results)
        (spec,) = app.results
        assert spec.target == "qwen-1.5b" and spec.draft in ("qwen-0.5b", _ref("qwen-0.5b"))


async def test_enter_counts_when_the_store_has_been_read_in_between(library: Library) -> None:
    library.is_slow = True
    library.open.clear()
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: "reading" in _keys(app, "targets"))
        await pilot.press("enter")
        app.screen.post_message(ModelScreen.Listed([HERE, AWAY], library.models))
        await until(pilot, lambda: _is_listed(app))
        library.open.set()
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec("qwen-1.5b", _ref("qwen-0.5b"), {"context_size": 2048})]


async def test_what_was_highlighted_stays_so_when_the_store_has_been_read(library: Library) -> None:
    library.is_slow = True
    library.open.clear()
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: "reading" in _keys(app, "targets"))
        await pilot.press("down")
        library.open.set()
        await until(pilot, lambda: _is_listed(app))
        assert _list(app, "targets").key == "pair gemmas"


async def test_a_file_from_elsewhere_can_be_the_target(library: Library, tmp_path: Path) -> None:
    (tmp_path / "own.gguf").write_bytes(b"x")
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press("end", "enter")
        await _type_path(app, pilot, tmp_path / "own.gguf")
        await until(pilot, lambda: _list(app, "targets").key == f"model {tmp_path}/own.gguf")
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(f"{tmp_path}/own.gguf", None, {"context_size": 2048})]


async def test_a_file_from_elsewhere_can_be_the_draft_if_it_pairs(library: Library, tmp_path: Path) -> None:
    for name in ("own.gguf", "smol-own.gguf"):
        (tmp_path / name).write_bytes(b"x")
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press("tab", "end", "enter")
        await _type_path(app, pilot, tmp_path / "smol-own.gguf")
        await until(pilot, lambda: "cannot draft for" in app.text("#pick-words"))
        await _type_path(app, pilot, tmp_path / "own.gguf")
        await until(pilot, lambda: isinstance(app.screen, ModelScreen))
        assert _list(app, "drafts").key == f"{tmp_path}/own.gguf"
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(_ref("qwen-1.5b"), f"{tmp_path}/own.gguf", {"context_size": 2048})]


async def _type_path(app: Alone, pilot: Pilot[None], path: Path) -> None:
    await until(pilot, lambda: isinstance(app.screen, PickFileScreen))
    app.screen.query_one(Input).value = str(path)
    await pilot.press("enter")


async def test_a_current_model_outside_the_store_is_listed(library: Library) -> None:
    async with alone(ModelScreen(PairSpec("/elsewhere/own.gguf", None, {}))) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        assert _list(app, "targets").key == "model /elsewhere/own.gguf"
        assert "in use" in _row(app, "targets", "model /elsewhere/own.gguf")


async def test_a_click_moves_and_a_second_click_chooses(library: Library) -> None:
    async with alone(ModelScreen(CURRENT)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.click("#targets", offset=(5, 2))  # the second row, "gemmas", has two lines
        await pilot.pause()
        key = _list(app, "targets").key
        assert key != f"model {_ref('qwen-1.5b')}" and not app.results and not library.pulled
        await pilot.pause(0.6)  # not a double click
        await pilot.click("#targets", offset=(5, 2))
        await until(pilot, lambda: app.results)
