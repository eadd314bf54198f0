"""Fixtures that more than one kind of test shares: the real models, each found or made once.

A test that asks for a model carries the marker `gguf` (the tiny one) or `pair` (the starter
pair). Without the model it is skipped; `scripts/test` fetches the models first and sets
EDGE_SPEC_REQUIRE_MODELS, which turns that skip into a failure, so that a gate cannot pass
because nothing ran.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_spec.errors import EdgeSpecError

TINY = "smollm2-135m"
TARGET = "qwen2.5-coder-1.5b"
DRAFT = "qwen2.5-coder-0.5b"


@pytest.fixture(scope="session", autouse=True)
def nothing_of_the_user_s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither see the models of other programs nor remember anything in the user's cache."""
    folder = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE", "XDG_CACHE_HOME"):
            patch.setenv(name, str(folder / name))
        yield


def _stored(name: str) -> Path:
    """The file of a catalogue entry; skips or fails the test when it is not in the store."""
    from edge_spec.models.resolve import resolve_model

    try:
        return resolve_model(name)
    except EdgeSpecError as error:
        if os.environ.get("EDGE_SPEC_REQUIRE_MODELS"):
            pytest.fail(f"The model {name} is needed here, and it is not in the store: {error}")
        pytest.skip(f"needs the model {name} (edge-spec models pull {name})")


def _variant(source: Path, kind: str) -> Path:
    """`source` requantised to `kind`, in the store; made on first use, then kept."""
    from edge_spec.models import store
    from edge_spec.models.quantize import quantize

    stem = source.name.removesuffix(".gguf").removesuffix("-q4_k_m")
    wanted = store.store_path() / f"{stem}-{kind.lower()}.gguf"
    return wanted if wanted.exists() else quantize(source, wanted, kind)


@pytest.fixture(scope="session")
def tiny_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, 98 MB."""
    return _stored(TINY)


@pytest.fixture(scope="session")
def target_path() -> Path:
    """Qwen2.5-Coder 1.5B Instruct, Q4_K_M as published."""
    return _stored(TARGET)


@pytest.fixture(scope="session")
def draft_path() -> Path:
    """Qwen2.5-Coder 0.5B Instruct, Q4_K_M as published (mostly Q5_0)."""
    return _stored(DRAFT)


@pytest.fixture(scope="session")
def target_q4_0_path(target_path: Path) -> Path:
    """The target requantised to Q4_0, whose rows are cheap four at a time."""
    return _variant(target_path, "Q4_0")


@pytest.fixture(scope="session")
def target_bf16_path(target_path: Path) -> Path:
    """The target widened to BF16, whose rows cost nearly the same one by one or together."""
    return _variant(target_path, "BF16")


@pytest.fixture(scope="session")
def draft_q4_0_path(draft_path: Path) -> Path:
    """The draft requantised to Q4_0, 1.5 to 2 times as fast as published on CPUs."""
    return _variant(draft_path, "Q4_0")
