"""Finding the fastest way to decode a model, keeping it, and loading with it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import edge_spec
from edge_spec import tuning
from edge_spec.cli import root
from edge_spec.config import ModelSettings
from edge_spec.events import Notice
from edge_spec.models.header import read_header
from edge_spec.tuning.search import fastest

WAY = tuning.Tuned(1, 2, "off", "none")


def test_another_way_is_taken_only_where_it_is_surely_faster() -> None:
    usual = [1.0, 1.1, 0.9, 1.0, 1.0]
    assert fastest([usual, [0.8] * 5]) == 1
    assert fastest([usual, [0.99] * 5]) == 0, "within the noise"
    assert fastest([usual, [0.9, 0.9, 1.2, 1.2, 0.9]]) == 0, "not in enough rounds"
    assert fastest([usual, [0.9] * 5, [0.7] * 5]) == 2


def test_what_was_asked_for_is_not_overruled() -> None:
    path = Path("x.gguf")
    left_open = WAY.applied(ModelSettings(path))
    assert (left_open.threads, left_open.threads_batch) == (1, 2)
    assert (left_open.flash_attention, left_open.load_mode) == ("off", "none")
    asked = ModelSettings(path, threads=3, flash_attention="on", load_mode="mmap")
    assert WAY.applied(asked) == asked
    quantised = ModelSettings(path, kv_type_v="q8_0")
    assert WAY.applied(quantised).flash_attention == "auto", "such a cache needs it"


@pytest.mark.gguf
def test_a_model_is_tuned_shown_and_loaded_as_it_was_found_fastest(
    tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("edge_spec.tuning.search._ROUNDS", 2)
    result = CliRunner().invoke(root, ["doctor", "--tune", str(tiny_path), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    tried = report["tried"]
    assert {one["rows"] for one in tried} == {1, 8} and min(one["ms"] for one in tried) > 0
    assert {one["flash_attention"] for one in tried} == {"on", "off"}
    settings, header = ModelSettings(tiny_path), read_header(tiny_path)
    kept = tuning.recall(settings, header)
    assert kept is not None and kept.threads == report["kept"]["threads"]
    assert (tiny_path.stem, kept) in tuning.kept_models()

    tuning.keep(settings, header, WAY)
    with edge_spec.load_pair(tiny_path, context_size=256) as pair:
        assert pair.target.settings == replace(WAY.applied(settings), context_size=256)
        told = [event.text for event in pair.generate("Hi.") if isinstance(event, Notice)]
    assert [text for text in told if "flash attention off" in text]
    with edge_spec.load_pair(tiny_path, context_size=256, threads=2, flash_attention="on") as pair:
        assert (pair.target.settings.threads, pair.target.settings.flash_attention) == (2, "on")
    shown = CliRunner().invoke(root, ["doctor"])
    assert f"tuned: {tiny_path.stem}: {WAY}" in shown.output
    for broken in ("{", "[]", json.dumps({"format": 1, "threads": -1})):
        for file in (tmp_path / "edge-spec" / "tuned").glob("*.json"):
            file.write_text(broken)
        assert tuning.recall(settings, header) is None
        assert tuning.kept_models() == []
