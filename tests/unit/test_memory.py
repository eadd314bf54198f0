"""The memory estimate: its formula, and that it refuses only what surely does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_spec.config import ModelSettings
from edge_spec.errors import MemoryForeseenError
from edge_spec.models.header import Header, read_header
from edge_spec.models.memory import MachineMemory, check_memory, estimate_memory
from tests.gguf_maker import make_gguf


@pytest.fixture
def header(tmp_path: Path) -> Header:
    return read_header(make_gguf(tmp_path / "m.gguf"))


def _settings(header: Header, **changes: object) -> ModelSettings:
    return ModelSettings(header.path, **{"context_size": 1000, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # 2 layers x 2 kv heads x 8 wide x (key + value) x 1000 tokens x 2 bytes
        ({}, 2 * 2 * 8 * 2 * 1000 * 2),
        ({"num_slots": 3}, 3 * 2 * 2 * 8 * 2 * 1000 * 2),
        ({"kv_type_k": "f32"}, 2 * 2 * 8 * 1000 * (4 + 2)),
        ({"kv_type_k": "q8_0", "kv_type_v": "q8_0"}, 2 * 2 * 8 * 2 * 1000 * 34 // 32),
    ],
)
def test_the_cache_is_layers_heads_context_and_type(
    header: Header, changes: dict[str, object], expected: int
) -> None:
    estimate = estimate_memory(_settings(header, **changes), header)
    assert estimate.kv_cache == expected
    assert estimate.mapped == header.size
    assert estimate.repacked == 0  # F32 is used as it lies in the file


def test_recurrent_models_have_no_cache(tmp_path: Path) -> None:
    header = read_header(make_gguf(tmp_path / "m.gguf", architecture="mamba"))
    assert estimate_memory(_settings(header), header).kv_cache == 0


def test_layers_on_a_gpu_take_none_of_the_machine_s_memory(header: Header) -> None:
    estimate = estimate_memory(_settings(header), header, gpu=True)
    assert (estimate.mapped, estimate.repacked, estimate.kv_cache) == (0, 0, 0)
    kept_here = estimate_memory(_settings(header, gpu_layers=0), header, gpu=True)
    assert kept_here.mapped == header.size


def test_mapped_weights_may_push_others_out_but_private_memory_may_not(header: Header) -> None:
    settings = _settings(header)
    estimate = estimate_memory(settings, header)
    both = 2 * (estimate.private + estimate.mapped)

    def check(total: int, available: int) -> None:
        machine = MachineMemory(total, available)
        check_memory(settings, header, settings, header, machine=lambda: machine)

    check(total=both, available=2 * estimate.private)
    with pytest.raises(MemoryForeseenError):
        check(total=both, available=2 * estimate.private - 1)
    with pytest.raises(MemoryForeseenError):
        check(total=both - 1, available=both - 1)


def test_the_error_names_needed_free_and_what_to_lower(header: Header) -> None:
    with pytest.raises(MemoryForeseenError) as caught:
        check_memory(
            _settings(header, context_size=10_000_000),
            header,
            machine=lambda: MachineMemory(8_000_000_000, 1_000_000_000),
        )
    assert str(caught.value) == (
        "The model would need at least 1.3 GB of memory (0.0 GB weights, 1.3 GB KV cache, 0.0 GB other), "
        "but 1.0 GB of 8.0 GB are free: choose a context below 10000000 tokens (-c) "
        "or a smaller quantisation or a smaller model."
    )


@pytest.mark.gguf
def test_this_machine_is_not_refused_the_tiny_model(tiny_path: Path) -> None:
    header = read_header(tiny_path)
    check_memory(ModelSettings(tiny_path), header, ModelSettings(tiny_path), header)
