"""Making a faster draft: the choices, the way there, the outcome, and the engine making room."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import edge_spec
from edge_spec import (
    Cancelled,
    ForgeRequest,
    ForgeResult,
    ForgeStatus,
    ForgeStep,
    Loading,
    PairEstimate,
    PairSpec,
    save_settings,
)
from edge_spec.errors import ModelFileError
from tests.tui.alone import Alone, alone, until
from tests.tui.conftest import Chat, Chatting
from tests.tui.fake_host import SPEC, Gate, Script, plain
from tui.models.choices import Choice
from tui.models.recipes import outcome
from tui.screens.forge import ForgeScreen
from tui.screens.models import ModelScreen
from tui.widgets.filter_list import FilterList

TARGET = Choice("/store/big.gguf", "big [red]", "Q4_0  1.5B")
DRAFT = Choice("/store/small.gguf", "small [red]", "Q8_0  0.5B")
GIVEN = ForgeStep("as given", 500_000_000, 0.020, 0.80, 1.10, 3)
WORSE = ForgeStep("as Q4_K_S [red]", 300_000_000, 0.018, 0.60, 0.90, 2, taken=False)
BETTER = ForgeStep("as Q4_0", 280_000_000, 0.010, 0.78, 1.42, 4)
MADE = ForgeResult(Path("/store/small-forged-q4_0.gguf"), (GIVEN, WORSE, BETTER))


@dataclass
class Smith:
    """Forges as a test says: says `steps`, waits until it may `finish`, then has `outcome`."""

    outcome: ForgeResult | Exception = MADE
    finish: threading.Event = field(default_factory=threading.Event)
    requests: list[ForgeRequest] = field(default_factory=list)

    def __call__(
        self,
        request: ForgeRequest,
        tell: Callable[[ForgeStatus | ForgeStep], None],
        cancelled: Callable[[], bool],
    ) -> ForgeResult:
        self.requests.append(request)
        tell(ForgeStatus("the target writes [red] samples: 3 of 40"))
        tell(GIVEN)
        tell(ForgeStatus("A smaller vocabulary would not pay.", note=True))
        while not self.finish.wait(0.01):
            if cancelled():
                raise Cancelled
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def smith(monkeypatch: pytest.MonkeyPatch) -> Smith:
    smith = Smith()
    monkeypatch.setattr(edge_spec, "forge_draft", smith)
    return smith


def is_forging(app: Alone) -> bool:
    return "Esc stop" in app.text("#forge-keys")


async def test_enter_begins_with_the_quick_default(smith: Smith) -> None:
    async with alone(ForgeScreen(TARGET, DRAFT)) as (app, pilot):
        assert "big [red]" in app.text("#forge-what") and "small [red]" in app.text("#forge-what")
        assert "Enter begin" in app.text("#forge-keys") and "some minutes" in app.text("#forge-words")
        await pilot.press("enter")
        await until(pilot, lambda: is_forging(app))
        assert smith.requests == [ForgeRequest("/store/big.gguf", "/store/small.gguf", "auto", None, 0)]


async def test_type_vocabulary_and_layers_can_be_chosen(smith: Smith) -> None:
    async with alone(ForgeScreen(TARGET, DRAFT)) as (_, pilot):
        await pilot.press("right", "right", "down", "right", "down", "right", "left", "left", "enter")
        await until(pilot, lambda: smith.requests)
        assert smith.requests == [ForgeRequest("/store/big.gguf", "/store/small.gguf", "Q4_0", 0, 8)]


async def test_without_a_draft_it_is_made_of_the_target_with_fewer_layers(smith: Smith) -> None:
    async with alone(ForgeScreen(TARGET, None)) as (app, pilot):
        assert "the target itself" in app.text("#forge-what")
        await pilot.press("enter")
        await until(pilot, lambda: smith.requests)
        assert smith.requests == [ForgeRequest("/store/big.gguf", None, "auto", None, None)]


async def test_progress_then_before_and_after_then_the_draft(smith: Smith) -> None:
    async with alone(ForgeScreen(TARGET, DRAFT)) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "writes [red] samples: 3 of 40" in app.text("#forge-words"))
        await until(pilot, lambda: "as given" in app.text("#forge-steps"))
        assert "A smaller vocabulary would not pay." in app.text("#forge-words")
        smith.finish.set()
        await until(pilot, lambda: "Enter use this draft" in app.text("#forge-keys"))
        await until(pilot, lambda: len(app.text("#forge-steps").splitlines()) == 4)
        lines = app.text("#forge-steps").splitlines()
        assert lines[0].split() == ["draft", "size", "ms", "a", "step", "accepted", "expected"]
        assert lines[1].split() == ["·", "as", "given", "500", "MB", "20.0", "80%", "1.10x"]
        assert lines[2].startswith("✗ as Q4_K_S [red]") and lines[3].startswith("✓ as Q4_0")
        words = app.text("#forge-words").replace("\n", " ")
        assert "280 MB instead of 500 MB" in words and "10.0 ms instead of 20.0" in words
        assert "1.42x plain decoding with K = 4, instead of 1.10x." in words
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [MADE.path]


async def test_nothing_better_is_said_and_no_file_given(smith: Smith) -> None:
    smith.outcome = ForgeResult(None, (GIVEN, WORSE))
    smith.finish.set()
    async with alone(ForgeScreen(TARGET, DRAFT)) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "no file was written" in app.text("#forge-words").replace("\n", " "))
        await pilot.press("enter")
        await until(pilot, lambda: "Enter begin" in app.text("#forge-keys"))
        await pilot.press("escape")
        await until(pilot, lambda: app.results)
        assert app.results == [None]


def test_a_draft_that_still_loses_is_called_that() -> None:
    loser = ForgeStep("as Q4_0", 280_000_000, 0.010, 0.78, 0.91, 1)
    assert "hardly pay" in outcome(ForgeResult(MADE.path, (GIVEN, loser)))
    assert "hardly pay" not in outcome(MADE)


async def test_escape_stops_and_says_that_nothing_was_kept(smith: Smith) -> None:
    async with alone(ForgeScreen(TARGET, DRAFT)) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: is_forging(app))
        await pilot.press("escape")
        await until(pilot, lambda: "Stopped. Nothing was kept." in app.text("#forge-words"))
        await pilot.press("enter")
        await until(pilot, lambda: "Enter begin" in app.text("#forge-keys"))
        await pilot.press("enter")
        await until(pilot, lambda: len(smith.requests) == 2)


async def test_a_problem_is_told(smith: Smith) -> None:
    smith.outcome = ModelFileError("The [red] file is truncated: get it again.")
    smith.finish.set()
    async with alone(ForgeScreen(TARGET, DRAFT)) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "The [red] file is truncated" in app.text("#forge-words"))
        assert "Enter choose again" in app.text("#forge-keys")


# -- beside a chat


PAIR = (SPEC.target, SPEC.draft)


def pairs(script: Script) -> list[tuple[str, str | None]]:
    """What was loaded, one after the other."""
    return [(spec.target, spec.draft) for spec in script.specs]


async def to_forge_screen(chat: Chat) -> None:
    await chat.press("alt+g")
    await chat.until(lambda: isinstance(chat.app.screen, ForgeScreen))


def words_of(chat: Chat) -> str:
    return str(chat.app.screen.query_one("#forge-words").render())


async def test_the_chat_s_models_are_unloaded_first_and_loaded_again(
    chatting: Chatting, script: Script, smith: Smith
) -> None:
    async with chatting() as chat:
        await chat.ask()
        await to_forge_screen(chat)
        assert "unloaded first" in words_of(chat)
        await chat.press("enter")
        await chat.until(lambda: smith.requests)
        assert script.num_closed and chat.session.info is None
        await chat.press("escape")
        await chat.until(lambda: "Stopped" in words_of(chat))
        await chat.press("escape")
        await chat.state("ready")
        assert pairs(script) == [PAIR, PAIR] and chat.texts == ["Hi", "Yes."]
        await chat.ask("And now?")  # the conversation goes on


async def test_it_is_measured_as_the_pair_runs(chatting: Chatting, smith: Smith) -> None:
    async with chatting(threads="2", gpu_layers="3", device_draft="CPU") as chat:
        await to_forge_screen(chat)
        await chat.press("enter")
        await chat.until(lambda: smith.requests)
        request = smith.requests[0]
        assert (request.threads, request.gpu_layers, request.draft_device) == (2, 3, "CPU")


async def test_the_model_screen_plans_with_the_settings_of_now(
    chatting: Chatting, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[PairSpec] = []

    def estimate(spec: PairSpec) -> PairEstimate:
        planned.append(spec)
        return PairEstimate(1, 0, 2, 3, True, "")

    monkeypatch.setattr(edge_spec, "catalogue", list)
    monkeypatch.setattr(edge_spec, "found_models", list)
    monkeypatch.setattr(edge_spec, "drafts_for", lambda _target: [])
    monkeypatch.setattr(edge_spec, "estimate_pair", estimate)
    async with chatting() as chat:
        save_settings({"ctx-size": "2048"})
        chat.screen.settings_saved()
        await chat.press("f5")
        await chat.until(lambda: planned)
        assert planned[0].options["context_size"] == 2048
        await chat.press("enter")
        await chat.state("ready")
        assert chat.session.spec is not None and chat.session.spec.options == planned[0].options


async def test_a_load_under_way_is_broken_off_for_it(
    chatting: Chatting, script: Script, smith: Smith
) -> None:
    gate = Gate()
    script.loads.append([Loading("target", 0.2), gate])
    async with chatting(loaded=False) as chat:
        await chat.until(gate.reached.is_set)
        await to_forge_screen(chat)
        assert "unloaded first" in words_of(chat)
        await chat.press("enter")
        await chat.until(lambda: smith.requests)
        assert not chat.told and chat.texts == []
        await chat.press("escape")
        await chat.until(lambda: "Stopped" in words_of(chat))
        await chat.press("escape")
        await chat.state("ready")
        assert pairs(script) == [PAIR, PAIR]


async def test_a_new_draft_is_loaded_with_the_target(
    chatting: Chatting, script: Script, smith: Smith
) -> None:
    async with chatting() as chat:
        await to_forge_screen(chat)
        smith.finish.set()
        await chat.press("enter")
        await chat.until(lambda: "instead of" in words_of(chat))
        await chat.press("enter")
        await chat.state("ready")
        assert pairs(script) == [PAIR, (SPEC.target, str(MADE.path))]


async def test_forging_waits_for_the_answer_under_way(
    chatting: Chatting, script: Script, smith: Smith
) -> None:
    gate = Gate()
    script.answer(plain("One"), gate, plain(" two."))
    async with chatting() as chat:
        await chat.enter("Count")
        await chat.until(gate.reached.is_set)
        await to_forge_screen(chat)
        assert "when the answer under way is done" in words_of(chat)
        await chat.press("enter")
        await chat.until(lambda: "Waiting until the answer is done." in words_of(chat))
        await chat.press("escape")  # does not wait
        assert "when the answer under way is done" in words_of(chat)
        await chat.press("enter")
        assert not smith.requests and script.num_closed == 0
        gate.open()
        await chat.until(lambda: smith.requests)
        assert script.num_closed and chat.texts == ["Count", "One two."]


async def test_leaving_the_model_screen_after_a_forging_loads_the_pair_again(
    chatting: Chatting, script: Script, smith: Smith, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_spec, "catalogue", list)
    monkeypatch.setattr(edge_spec, "found_models", list)
    monkeypatch.setattr(edge_spec, "drafts_for", lambda _target: [])
    async with chatting() as chat:
        await chat.press("f5")
        await chat.until(lambda: isinstance(chat.app.screen, ModelScreen))
        await chat.until(lambda: chat.app.screen.query_one("#drafts", FilterList).key == SPEC.draft)
        await to_forge_screen(chat)
        await chat.press("enter")
        await chat.until(lambda: smith.requests)
        await chat.press("escape")
        await chat.until(lambda: "Stopped" in words_of(chat))
        await chat.press("escape")
        await chat.until(lambda: isinstance(chat.app.screen, ModelScreen))
        assert chat.session.info is None
        await chat.press("escape")
        await chat.state("ready")
        assert pairs(script) == [PAIR, PAIR]


async def test_forging_needs_a_target(chatting: Chatting, smith: Smith) -> None:
    async with chatting() as chat:
        chat.session.spec = None
        await chat.enter("/forge")
        assert any("A draft is made for a target" in words for words in chat.told)
