"""The command line on the starter pair, as a newcomer first meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.pair


def edge_spec(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "EDGE_SPEC_MODELS" or "EDGE_SPEC" not in name
    }
    return subprocess.run(
        [sys.executable, "-m", "edge_spec.cli", *args],
        capture_output=True, text=True, timeout=300, cwd=tmp_path,
        env={**kept, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path)},
    )  # fmt: skip


def test_a_bare_run_answers_with_the_default_pair(
    tmp_path: Path, target_path: Path, draft_path: Path
) -> None:
    result = edge_spec(
        tmp_path, "run", "What is 2 + 2? Answer with one number.", "--json", "--temp", "0", "-n", "12"
    )
    assert result.returncode == 0
    found = json.loads(result.stdout)
    assert "4" in found["text"]
    assert (found["target"]["file"], found["draft"]["file"]) == (str(target_path), str(draft_path))
    assert found["target"]["quantization"] == "Q4_K_M"
    assert found["settings"]["drafter"] == "auto" and found["stats"]["predicted_tokens_per_second"] > 0


def test_check_knows_the_starter_pair_and_a_stranger(
    tmp_path: Path, target_path: Path, draft_path: Path, tiny_path: Path
) -> None:
    good = edge_spec(tmp_path, "check", "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b")
    assert (good.returncode, good.stderr) == (0, "") and "verdict: pairs" in good.stdout
    bad = edge_spec(tmp_path, "check", "qwen2.5-coder-1.5b", "smollm2-135m")
    assert (bad.returncode, bad.stderr) == (3, "") and "verdict: does not pair" in bad.stdout
