"""Small files that others read: who may read them, and what a failure leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edge_spec.whole_file import write_whole


@pytest.mark.skipif(os.name == "nt", reason="needs a umask")
def test_a_new_file_is_readable_as_the_umask_says_and_an_old_one_as_before(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_whole(tmp_path / "made" / "new", b"1")
    finally:
        os.umask(old)
    assert (tmp_path / "made" / "new").stat().st_mode & 0o777 == 0o640
    (tmp_path / "private").touch(0o600)
    write_whole(tmp_path / "private", b"2", durable=True)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "private").read_bytes() == b"2"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "folder", b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
