"""Choosing models: what is shown of each, what pairs, and that looking at files never holds anything up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

import edge_spec
from edge_spec import CataloguePair, DraftChoice, InstalledModel, PairEstimate, PairSpec, PullPreview
from edge_spec.errors import ModelFileError
from tests.gguf_maker import make_gguf
from tests.tui.alone import Alone, alone, until
from tui.screens.confirm import ConfirmScreen
from tui.screens.get import GetScreen
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
    """The model functions; those that read headers wait until it is `open`."""

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
    judged: list[str] = field(default_factory=list)
    pulled: list[tuple[str, ...]] = field(default_factory=list)
    estimate: PairEstimate = FITS

    def installed(self) -> list[InstalledModel]:
        if self.is_slow:
            self.open.wait(5)
        return self.models

    def drafts_for(self, target: str) -> list[DraftChoice]:
        self.open.wait(5)
        self.judged.append(target)
        own = next((model for model in self.models if target in (model.name, str(model.path))), None)
        drafts = [_judged(own, model) for model in self.models if model is not own and not model.problem]
        return sorted(drafts, key=lambda draft: (draft.reason is not None, not draft.pays, draft.share))

    def check(self, target: str, draft: str) -> str | None:
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


def _judged(target: InstalledModel | None, draft: InstalledModel) -> DraftChoice:
    unlike = target is not None and ("smol" in target.name) != ("smol" in draft.name)
    share = draft.size / target.size if target is not None else 0.5
    if unlike:
        return DraftChoice(draft, "does not pair", "The [red]vocabularies differ.", (), 0, share, True)
    masked = 3 if draft.name == "qwen-0.5b" else 0
    verdict = "pairs, with 3 tokens masked" if masked else "pairs"
    return DraftChoice(draft, verdict, None, ("The chat templates differ.",), masked, share, share < 1)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    library.open.set()
    monkeypatch.setattr(edge_spec, "found_models", library.installed)
    monkeypatch.setattr(edge_spec, "drafts_for", library.drafts_for)
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


def _is_judged(app: Alone) -> bool:
    return "file" in _keys(app, "drafts")


@pytest.mark.parametrize(
    ("screen", "words"), [(lambda: ModelScreen(None, {}), "#models-plan"), (GetScreen, "#get-words")]
)
async def test_a_catalogue_that_cannot_be_read_is_said(
    own_folders: Path, screen: Callable[[], Screen[Any]], words: str
) -> None:
    mine = own_folders / "XDG_CONFIG_HOME" / "edge-spec" / "catalogue.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text("[models.one\n")
    async with alone(screen()) as (app, pilot):
        await until(pilot, lambda: "catalogue.toml" in app.text(words))
        await pilot.press("escape")
        await until(pilot, lambda: app.results == [None])


async def test_the_pair_in_use_is_highlighted_and_marked(library: Library) -> None:
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app) and _is_judged(app))
        assert _list(app, "targets").key == f"model {_ref('qwen-1.5b')}"
        assert _list(app, "drafts").key == _ref("qwen-0.5b")
        marked = [key for key in _keys(app, "targets") if "in use" in _row(app, "targets", key)]
        assert marked == ["pair qwens", f"model {_ref('qwen-1.5b')}"]
        assert "in use" in _row(app, "drafts", _ref("qwen-0.5b"))


def _keys(app: Alone, role: str) -> list[str]:
    return [str(option.id) for option in _list(app, role).options]


async def test_drafts_come_best_first_and_the_others_say_why_not(library: Library) -> None:
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_judged(app))
        names = [Path(key).stem for key in _keys(app, "drafts")]
        assert names == ["qwen-0.5b", "qwen-7b", "none", "forge", "file", "smol", "broken [red]"]
        assert "✓ 45% of its bytes  3 tokens masked  Q4_0" in _row(app, "drafts", _ref("qwen-0.5b"))
        assert "! hardly pays: 364% of its bytes" in _row(app, "drafts", _ref("qwen-7b"))
        assert _row(app, "drafts", _ref("smol")).endswith("✗ The [red]vocabularies differ.")
        assert "✗ /store/broken [red].gguf is truncated" in _row(app, "drafts", _ref("broken [red]"))
        prompt = _list(app, "drafts").get_option(_ref("smol")).prompt
        assert isinstance(prompt, Content)
        assert {str(span.style) for span in prompt.spans} == {"dim"}


async def test_the_words_about_a_pair_are_its_verdict_its_notes_and_the_memory(library: Library) -> None:
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: "it fits" in app.text("#models-plan"))
        words = app.text("#models-plan")
        assert "✓ pairs, with 3 tokens masked: qwen-0.5b drafts for qwen-1.5b" in words
        assert "The chat templates differ." in words


async def test_enter_takes_the_selection_with_the_options_in_use(library: Library) -> None:
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await until(pilot, lambda: _is_judged(app))
        await pilot.press("down")  # qwen-7b
        await until(pilot, lambda: _ref("qwen-1.5b") in _keys(app, "drafts"))
        await pilot.press("tab", "home", "enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(_ref("qwen-7b"), _ref("qwen-0.5b"), {"context_size": 2048})]


async def test_without_a_draft(library: Library) -> None:
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_judged(app))
        await pilot.press("tab", "down", "down", "enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(_ref("qwen-1.5b"), None, {"context_size": 2048})]


async def test_an_installed_pair_is_its_target_with_its_draft(library: Library) -> None:
    async with alone(ModelScreen(None, {})) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        assert _list(app, "targets").key == "pair qwens"
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec("qwen-1.5b", _ref("qwen-0.5b"), {})]


async def test_a_pair_that_is_not_here_shows_its_size_and_is_pulled(library: Library) -> None:
    async with alone(ModelScreen(None, {})) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        assert "3.0 GB to download" in _row(app, "targets", "pair gemmas")
        await pilot.press("down")
        await until(pilot, lambda: "Download: 3.0 GB" in app.text("#models-plan"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        assert "Get gemmas? Download: 3.0 GB" in app.text("#confirm-box Static")
        await pilot.press("enter")  # the other answer has the focus
        await until(pilot, lambda: isinstance(app.screen, ModelScreen))
        assert not library.pulled and not app.results
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec("gemma-4b", "gemma-1b", {})]
        assert library.pulled == [("gemmas",)]


async def test_a_damaged_file_says_what_is_wrong_and_is_not_chosen(library: Library) -> None:
    async with alone(ModelScreen(None, {})) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press(*"broken")
        await until(pilot, lambda: "broken [red].gguf is truncated" in app.text("#models-plan"))
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert not app.results


async def test_a_draft_that_does_not_pair_is_not_chosen_and_says_why(library: Library) -> None:
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_judged(app))
        await pilot.press("tab", *"smol", "enter")
        await until(pilot, lambda: "cannot draft for" in app.text("#models-plan"))
        assert "The [red]vocabularies differ." in app.text("#models-plan")
        await pilot.press("enter")
        await pilot.pause()
        assert not app.results


async def test_memory_that_does_not_suffice_is_said_with_advice_and_does_not_forbid(library: Library) -> None:
    library.estimate = TIGHT
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: "is freed first." in app.text("#models-plan").replace("\n", " "))
        words = app.text("#models-plan").replace("\n", " ")
        assert "it does not fit. Choose a smaller one. What is loaded now is freed first." in words
        assert "it fits" not in words
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results[0] is not None


async def test_a_filter_that_nothing_matches_says_so(library: Library) -> None:
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_judged(app))
        await pilot.press(*"xyz")
        assert "Nothing here has “xyz”" in app.text("#targets") and _list(app, "targets").key is None
        await pilot.press("enter", *["backspace"] * 3)
        assert "Nothing here" not in app.text("#targets") and not app.results


async def test_letters_filter_and_escape_first_takes_them_back(library: Library) -> None:
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
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
    async with alone(ModelScreen(None, {})) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.pause(0.3)
        await pilot.press("end", "up", "up")
        assert _list(app, "targets").key == f"model {_ref('model-199')}"
        assert "Looking at the files" in app.text("#models-plan")
        await pilot.press("enter")  # counts as soon as it is known whether that can be used
        assert not app.results
        library.open.set()
        await until(pilot, lambda: app.results)
        (spec,) = app.results  # with the draft that goes with it
        assert (spec.target, spec.draft) == (_ref("model-199"), _ref("model-000"))


async def test_what_was_found_out_late_is_of_the_target_that_is_highlighted(library: Library) -> None:
    library.open.clear()
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press("end", "up", "up", "up")
        assert _list(app, "targets").key == f"model {_ref('smol')}"
        screen = app.screen
        assert isinstance(screen, ModelScreen)
        screen.post_message(ModelScreen.Judged(_ref("qwen-1.5b"), []))
        await pilot.pause()
        assert _keys(app, "drafts") == ["judging"]
        library.open.set()
        await until(pilot, lambda: _is_judged(app))
        assert "✗" in _row(app, "drafts", _ref("qwen-7b"))


async def test_enter_counts_while_drafts_are_still_looked_for(library: Library) -> None:
    library.open.clear()
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert not app.results
        library.open.set()
        await until(pilot, lambda: app.results)
        assert app.results == [PairSpec(_ref("qwen-1.5b"), _ref("qwen-0.5b"), {"context_size": 2048})]


async def test_pairs_can_be_chosen_while_the_store_is_still_read(library: Library) -> None:
    library.is_slow = True
    library.open.clear()
    async with alone(ModelScreen(None, {})) as (app, pilot):
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
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
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
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: "reading" in _keys(app, "targets"))
        await pilot.press("down")
        library.open.set()
        await until(pilot, lambda: _is_listed(app))
        assert _list(app, "targets").key == "pair gemmas"


async def test_a_file_from_elsewhere_can_be_the_target(library: Library, tmp_path: Path) -> None:
    (tmp_path / "own.gguf").write_bytes(b"x")
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.press("end", "enter")
        await _type_path(app, pilot, tmp_path / "own.gguf")
        await until(pilot, lambda: _list(app, "targets").key == f"model {tmp_path}/own.gguf")
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        # with the best draft for it
        assert app.results == [PairSpec(f"{tmp_path}/own.gguf", _ref("qwen-0.5b"), {"context_size": 2048})]


async def test_a_file_from_elsewhere_can_be_the_draft_if_it_pairs(library: Library, tmp_path: Path) -> None:
    for name in ("own.gguf", "smol-own.gguf"):
        (tmp_path / name).write_bytes(b"x")
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_judged(app))
        await pilot.press("tab", *"another", "enter")
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
    async with alone(ModelScreen(PairSpec("/elsewhere/own.gguf", None, {}), {})) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        assert _list(app, "targets").key == "model /elsewhere/own.gguf"
        assert "in use" in _row(app, "targets", "model /elsewhere/own.gguf")


async def test_a_click_moves_and_a_second_click_chooses(library: Library) -> None:
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_listed(app))
        await pilot.click("#targets", offset=(5, 2))  # the second row, "gemmas", has two lines
        await pilot.pause()
        key = _list(app, "targets").key
        assert key != f"model {_ref('qwen-1.5b')}" and not app.results and not library.pulled
        await pilot.pause(0.6)  # not a double click
        await pilot.click("#targets", offset=(5, 2))
        await until(pilot, lambda: app.results)


# -- getting and making models


async def test_a_model_got_by_its_name_is_highlighted_then(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    preview = PullPreview(("me/new-GGUF:Q4_0",), 7, 7, None, ())
    monkeypatch.setattr(edge_spec, "preview_pull", lambda _name, _cancelled: preview)
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_judged(app))
        await pilot.press("alt+u")
        await until(pilot, lambda: isinstance(app.screen, GetScreen))
        library.models.append(_model("me/new-GGUF:Q4_0", 900_000_000))
        await pilot.press(*"me/new-GGUF", "enter")
        await until(pilot, lambda: "Enter pull" in app.text("#get-keys"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ModelScreen))
        await until(pilot, lambda: _list(app, "targets").key == f"model {_ref('me/new-GGUF:Q4_0')}")
        assert library.pulled == [("me/new-GGUF",)]


async def test_the_row_for_getting_a_model_does_what_its_key_does(library: Library) -> None:
    async with alone(ModelScreen(CURRENT, CURRENT.options)) as (app, pilot):
        await until(pilot, lambda: _is_judged(app))
        await pilot.press("end", "up", "enter")
        await until(pilot, lambda: isinstance(app.screen, GetScreen))


# -- with real files


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a target, a draft, one with a token of another text, a stranger and a damaged
    file; LM Studio has a model too."""
    store = tmp_path / "store"
    store.mkdir()
    make_gguf(store / "target.gguf", layers=4, width=64)
    make_gguf(store / "draft.gguf")
    make_gguf(store / "masked.gguf", layers=1, changed_token=270)
    make_gguf(store / "stranger.gguf", tokenizer="spm")
    (store / "damaged.gguf").write_bytes(b"GGUF")
    home = Path.home()
    theirs = home / ".lmstudio" / "models" / "someone" / "theirs-GGUF"
    theirs.mkdir(parents=True)
    make_gguf(theirs / "theirs-F32.gguf", layers=1)
    monkeypatch.setattr(edge_spec, "catalogue", lambda: [AWAY])
    return store


async def test_real_files_are_judged_and_planned(real: Path) -> None:
    async with alone(ModelScreen(PairSpec("target", "draft", {}), {}), (120, 36)) as (app, pilot):
        await until(pilot, lambda: _is_judged(app))
        assert _list(app, "targets").key == f"model {real / 'target.gguf'}"
        names = [Path(key).stem for key in _keys(app, "drafts")]
        assert names[0].startswith("theirs") and names[1:3] == ["draft", "masked"]
        assert names[3:6] == ["none", "forge", "file"] and set(names[6:]) == {"stranger", "damaged"}
        assert "in LM Studio" in _row(app, "drafts", _keys(app, "drafts")[0])
        assert "1 token masked" in _row(app, "drafts", str(real / "masked.gguf"))
        assert "✗ The target's tokenizer is" in _row(app, "drafts", str(real / "stranger.gguf"))
        await until(pilot, lambda: "needed with the program" in app.text("#models-plan"))
        words = app.text("#models-plan")
        assert "✓ pairs: draft drafts for target" in words
        lines = [line.split() for line in words.splitlines()]
        assert ["memory", "weights", "KV", "cache", "work", "in", "all"] in lines
        assert [line[0] for line in lines if line][-3:-1] == ["target", "draft"]


async def test_a_tight_plan_says_what_to_lower_and_what_that_saves(
    real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edge_spec.models import library
    from edge_spec.models.memory import Machine

    machine = Machine(available=60 << 20, total=8 << 30)
    monkeypatch.setattr(library, "this_machine", lambda: machine)
    spec = PairSpec("target", "draft", {"context_size": 131_072})
    async with alone(ModelScreen(spec, spec.options), (120, 36)) as (app, pilot):
        await until(pilot, lambda: "What is loaded now is freed first." in app.text("#models-plan"))
        words = app.text("#models-plan")
        assert "saves" in words and "(-c " in words and "leave the draft out" in words
        await pilot.resize_terminal(80, 24)
        box = app.screen.query_one("#models-plan-box")
        await until(pilot, lambda: box.max_scroll_y > 0)
        await pilot.press("ctrl+down")
        assert box.scroll_offset.y == 1
        await pilot.press("ctrl+up")
        assert box.scroll_offset.y == 0
        await pilot.press("enter")
        await until(pilot, lambda: app.results)


async def test_a_loaded_pair_without_a_name_in_the_store_is_kept(real: Path, tmp_path: Path) -> None:
    outside = make_gguf(tmp_path / "outside.gguf", layers=1)
    spec = PairSpec(str(real / "target.gguf"), str(outside), {})
    async with alone(ModelScreen(spec, spec.options)) as (app, pilot):
        await until(pilot, lambda: _is_judged(app))
        assert _list(app, "drafts").key == str(outside)
        assert "in use" in _row(app, "drafts", str(outside))
