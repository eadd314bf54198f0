"""A small part of scripts/fuzz_headers.py on every run: damage never ends, stops or fills the process."""

from __future__ import annotations

from pathlib import Path

import fuzz_headers
import pytest

pytest.importorskip("resource")  # not on Windows


def test_damaged_headers_never_crash_hang_or_hoard(tmp_path: Path) -> None:
    told = fuzz_headers.fuzz(300, 7, [], tmp_path, timeout_s=120)
    assert told["files"] == 300
    assert told["read"] > 0 and told["refused"] > 100
    assert told["peak_bytes"] < fuzz_headers.MEMORY_BYTES


def test_a_child_that_dies_is_told_with_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_headers, "make_seeds", lambda folder, models: (folder.mkdir(), [])[1])
    with pytest.raises(RuntimeError, match="exit 1"):
        fuzz_headers.fuzz(1, 7, [], tmp_path, timeout_s=120)
