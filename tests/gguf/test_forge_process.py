"""Forging in a process of its own: its words arrive, it can be stopped, and nothing is left of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import edge_spec
from edge_spec import Cancelled, EngineCrashedError, ForgeRequest, ForgeStatus, ForgeStep
from edge_spec.errors import IncompatiblePairError, SettingError
from tests.gguf_maker import CHAT_TEMPLATE, make_gguf


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a target, a draft that often agrees with it, and a stranger."""
    folder = tmp_path / "store"
    folder.mkdir()
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(folder))
    make_gguf(folder / "target.gguf", layers=2, context=2048, chat_template=CHAT_TEMPLATE)
    make_gguf(folder / "draft.gguf", layers=2, context=2048, noise=0.2, chat_template=CHAT_TEMPLATE)
    make_gguf(folder / "stranger.gguf", tokenizer="spm")
    return folder


def names(store: Path) -> set[str]:
    """What lies in the store, hidden folders too; what is remembered of files does not count."""
    return {path.name for path in store.iterdir()} - {".cache"}


GIVEN = {"target.gguf", "draft.gguf", "stranger.gguf"}


def ignore(_what: ForgeStatus | ForgeStep) -> None:
    pass


def test_a_draft_is_made_its_steps_are_told_and_it_can_be_chosen(store: Path) -> None:
    told: list[ForgeStatus | ForgeStep] = []
    request = ForgeRequest("target", "draft", "Q8_0", num_tokens=0, sample_tokens=8)
    result = edge_spec.forge_draft(request, told.append, lambda: False)
    assert result.path == store / "draft-forged-q8_0.gguf"
    assert [step.name for step in result.steps] == ["as given", "as Q8_0"]
    assert result.best is result.steps[1] and result.best.taken
    assert result.best.size < result.given.size
    assert [what.name for what in told if isinstance(what, ForgeStep)] == ["as given", "as Q8_0"]
    assert any(isinstance(what, ForgeStatus) and "samples" in what.text for what in told)
    choices = {choice.model.name: choice for choice in edge_spec.drafts_for("target")}
    assert choices["draft-forged-q8_0"].reason is None
    assert choices["draft-forged-q8_0"].model.forged is not None
    assert names(store) == GIVEN | {"draft-forged-q8_0.gguf"}


def test_a_draft_that_was_made_earlier_is_not_replaced(store: Path) -> None:
    earlier = store / "draft-forged-q8_0.gguf"
    earlier.write_bytes((store / "draft.gguf").read_bytes())
    request = ForgeRequest("target", "draft", "Q8_0", num_tokens=0, sample_tokens=8, threads=1, gpu_layers=0)
    result = edge_spec.forge_draft(request, ignore, lambda: False)
    assert result.path == store / "draft-forged-q8_0-2.gguf"
    assert earlier.read_bytes() == (store / "draft.gguf").read_bytes()


@pytest.mark.parametrize(
    ("request_", "error"),
    [(ForgeRequest("target", "stranger"), IncompatiblePairError),
     (ForgeRequest("target", "draft", "Q99"), SettingError),
     (ForgeRequest("target", "draft", threads=0), SettingError),
     (ForgeRequest("target", "draft", threads_batch=0), SettingError),
     (ForgeRequest("target", "draft", gpu_layers=-2), SettingError),
     (ForgeRequest("target", "draft", draft_gpu_layers=-2), SettingError),
     (ForgeRequest("target", "draft", device="nowhere"), SettingError),
     (ForgeRequest("target", "draft", draft_device="nowhere"), SettingError)],
)  # fmt: skip
def test_an_error_arrives_as_what_it_is(store: Path, request_: ForgeRequest, error: type[Exception]) -> None:
    with pytest.raises(error):
        edge_spec.forge_draft(request_, ignore, lambda: False)
    assert names(store) == GIVEN


def test_a_forging_that_is_stopped_leaves_nothing(store: Path) -> None:
    stop = threading.Event()

    def tell(what: ForgeStatus | ForgeStep) -> None:
        if isinstance(what, ForgeStep):
            assert any(name.startswith(".forge-") for name in names(store))
            stop.set()

    with pytest.raises(Cancelled):
        edge_spec.forge_draft(ForgeRequest("target", "draft", sample_tokens=8), tell, stop.is_set)
    assert names(store) == GIVEN
    assert not psutil.Process().children()


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_a_crash_is_told_and_leaves_nothing(store: Path) -> None:
    def tell(what: ForgeStatus | ForgeStep) -> None:
        if isinstance(what, ForgeStep):
            for child in psutil.Process().children():
                child.send_signal(signal.SIGABRT)

    with pytest.raises(EngineCrashedError, match=r"SIGABRT while forging.*nothing was written"):
        edge_spec.forge_draft(ForgeRequest("target", "draft", sample_tokens=8), tell, lambda: False)
    assert names(store) == GIVEN


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
def test_nothing_is_left_when_the_parent_is_killed(store: Path) -> None:
    parent = os.fork()
    if not parent:
        try:
            edge_spec.forge_draft(ForgeRequest("target", "draft", sample_tokens=8), ignore, lambda: False)
        finally:
            os._exit(0)
    try:
        _until(lambda: any(name.startswith(".forge-") for name in names(store)))
        children = psutil.Process(parent).children()
    finally:
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
    psutil.wait_procs(children, 20)
    assert not any(child.is_running() for child in children)
    assert names(store) == GIVEN


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.01)
