"""Paths as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_spec import cli, user_path
from edge_spec.errors import ModelFileError
from edge_spec.models import store
from edge_spec.models.resolve import resolve_model
from edge_spec.models.wanted import local_path


def test_a_tilde_is_the_users_folder_and_an_unknown_user_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_path("~/x") == user_path(Path("~/x")) == tmp_path / "x"
    for name in ("~nosuchuser/x", "~a\0b/x", "plain/x", "~\udcff"):
        assert user_path(name) == Path(name)


UNKNOWN = "~nosuchuser/x"
COMMANDS = {
    ("run", "-f", UNKNOWN): 2,
    ("run", "hi", "--trace", UNKNOWN): 2,
    ("run", "hi", "--config", UNKNOWN): 2,
    ("check", UNKNOWN, UNKNOWN): 3,
    ("models", "quantize", UNKNOWN, "y.gguf", "Q8_0"): 3,
    ("models", "forge", UNKNOWN, "--for", UNKNOWN): 3,
    ("models", "rm", UNKNOWN): 3,
    ("models", "pull", f"file:{UNKNOWN}"): 3,
}


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_a_folder_of_nobody_is_a_path_that_is_not_there(
    args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with pytest.raises(SystemExit) as caught:
        cli.main(args)
    assert caught.value.code == COMMANDS[args]
    assert capsys.readouterr().err.count("\n") == 1


def test_a_store_and_a_model_of_nobody_are_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGE_SPEC_MODELS", "~nosuchuser/store")
    assert store.store_path() == Path("~nosuchuser/store").absolute()
    assert local_path("file:~nosuchuser/x") == Path("~nosuchuser/x")
    with pytest.raises(ModelFileError, match=r'There is no model "~nosuchuser/x\.gguf"'):
        resolve_model("~nosuchuser/x.gguf")
