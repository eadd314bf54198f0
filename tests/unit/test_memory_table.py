"""The printed memory plan: every byte of it, within 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_spec.cli.memory_table import show_plan
from edge_spec.config import ModelSettings
from edge_spec.models.header import read_header
from edge_spec.models.memory import Machine, Request, plan_memory, savings
from edge_spec.types import Device
from tests.gguf_maker import make_gguf

GB = 1_000_000_000


def test_the_table_names_places_modes_and_savings_within_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = read_header(make_gguf(tmp_path / "m.gguf"))
    gpu = Device("CUDA0", "a GPU", "gpu", 100_000_000, 24 * GB)
    machine = Machine(16 * GB, GB, (gpu,), frozenset({"AVX2", "REPACK"}))
    settings = ModelSettings(header.path, context_size=2_000_000)
    requests = [Request(settings, header), Request(ModelSettings(header.path, gpu_layers=0), header)]
    plan = plan_memory(requests, machine)
    show_plan(plan, savings(requests, machine))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert lines[0].split() == ["memory", "target", "draft", "place"]
    assert "KV cache 256 MB - CUDA0" in text
    assert "CUDA0: " in text and "100 MB of 24.0 GB free." in text
    assert "It probably does not fit." in text
    assert "Load mode of the target: auto (layers are on a GPU, whose driver decides)." in text
    assert "To lower it:" in text and "(-ngl " in text
