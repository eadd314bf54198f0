"""The memory plan against llama.cpp itself: what it says of its buffers as it makes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import edge_spec
from edge_spec.config import ModelSettings
from edge_spec.host import PairSpec
from edge_spec.llama import abi
from edge_spec.models.header import read_header
from edge_spec.models.library import estimate_pair
from edge_spec.models.memory import MemoryPlan, this_machine
from edge_spec.models.memory.buffers import work_bytes
from edge_spec.models.quantize import quantize
from tests.gguf_maker import make_gguf

pytestmark = pytest.mark.gguf

Said = Callable[[str], float]
"""Bytes of all buffers of a kind, by a pattern that finds their MiB."""


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[MemoryPlan, Said]]:
    """Plan and load a model on the CPU; give the plan and a way to ask llama.cpp's log."""

    def loaded(path: Path, **options: Any) -> tuple[MemoryPlan, Said]:
        lines: list[str] = []
        options = {"gpu_layers": 0, **options}
        plan = estimate_pair(PairSpec(str(path), None, options)).plan
        assert plan is not None
        with monkeypatch.context() as patch:
            patch.setattr(abi.log, "write", lambda _level, text: lines.append(text))
            with edge_spec.load_pair(path, **options) as pair:
                assert pair.target.load_mode == plan.models[0].load_mode
        text = "".join(lines)
        return plan, lambda pattern: sum(float(mib) for mib in re.findall(pattern, text)) * 2**20

    return loaded


@pytest.mark.parametrize(
    "options",
    [
        {"context_size": 4096},
        {"context_size": 1000, "kv_type_k": "q8_0", "kv_type_v": "q8_0"},
        {"context_size": 512, "num_slots": 6},
        {"context_size": 2048, "flash_attention": "off"},
        {"context_size": 4096, "load_mode": "none"},
    ],
    ids=str,
)
def test_cache_compute_and_weights_are_as_llama_cpp_says(
    load: Callable[..., tuple[MemoryPlan, Said]], tiny_path: Path, options: dict[str, Any]
) -> None:
    plan, said = load(tiny_path, **options)
    model = plan.models[0]
    assert model.total("KV cache") == pytest.approx(said(r"CPU KV buffer size = +([\d.]+)"), abs=10_000)
    settings = ModelSettings(tiny_path, **options)
    compute = model.total("compute") - work_bytes(settings, read_header(tiny_path))
    assert compute == pytest.approx(said(r"CPU compute buffer size = +([\d.]+)"), rel=0.12)
    weights = plan.mapped + model.total("weights")
    assert weights == pytest.approx(said(r"model buffer size = +([\d.]+)"), rel=0.01)


def test_repacked_copies_are_as_llama_cpp_says(
    load: Callable[..., tuple[MemoryPlan, Said]], tmp_path: Path
) -> None:
    wide = make_gguf(tmp_path / "f32.gguf", width=256, vocab_size=304, layers=4)
    path = quantize(wide, tmp_path / "q4_0.gguf", "Q4_0")
    plan, said = load(path, context_size=256)
    copies = said(r"CPU_REPACK model buffer size = +([\d.]+)")
    assert plan.models[0].total("repacked") == pytest.approx(copies, abs=20_000)
    repacks = "AVX2" in this_machine().features or "NEON" in this_machine().features
    assert (copies > 0) == repacks
    assert plan.models[0].load_mode == ("none" if repacks else "mmap")


def test_recurrent_state_is_as_llama_cpp_says(
    load: Callable[..., tuple[MemoryPlan, Said]], tmp_path: Path
) -> None:
    path = make_gguf(tmp_path / "mamba.gguf", architecture="mamba", width=256, layers=4)
    plan, said = load(path, context_size=256, num_slots=2)
    assert plan.models[0].total("state") == pytest.approx(said(r"RS buffer size = +([\d.]+)"), abs=6_000)
    assert plan.models[0].total("KV cache") == 0


def test_a_context_that_cannot_fit_is_refused_before_anything_is_loaded(tiny_path: Path) -> None:
    with pytest.raises(
        edge_spec.EdgeSpecError, match=r"would need at least .* lower the context to \d+ tokens"
    ):
        edge_spec.load_pair(tiny_path, context_size=50_000_000)
