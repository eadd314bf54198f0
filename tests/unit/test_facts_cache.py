"""What is remembered of files: told again at once, forgotten when a file changes, and never trusted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

from edge_spec.errors import ModelFileError
from edge_spec.models import facts_cache, inventory, pairing
from edge_spec.models.comparison import compare_vocabs
from edge_spec.models.facts import facts_of
from edge_spec.models.header import read_header
from tests.gguf_maker import NORMAL, make_gguf

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(facts_cache, "cache_folder", lambda: folder)
    return folder


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The headers read from now on."""
    read: list[Path] = []

    def note(path: Path) -> object:
        read.append(path)
        return read_header(path)

    for module in (facts_cache, pairing, inventory):
        monkeypatch.setattr(module, "read_header", note)
    return read


def test_facts_are_those_of_the_header_and_are_read_once(tmp_path: Path, no_reading: list[Path]) -> None:
    path = make_gguf(tmp_path / "m.gguf", chat_template="x", add_bos=True)
    for _ in range(3):
        assert facts_cache.facts(path) == facts_of(read_header(path))
    assert no_reading == [path]
    os.utime(path, ns=(1, 1))
    facts_cache.facts(path)
    make_gguf(path, layers=3)
    assert facts_cache.facts(path).size == path.stat().st_size
    assert no_reading == [path] * 3


def test_a_change_of_any_part_is_seen(tmp_path: Path, no_reading: list[Path]) -> None:
    first = make_gguf(tmp_path / "m.gguf", split_tensors=8)
    assert facts_cache.facts(first).num_files == 3
    facts_cache.facts(first)
    assert no_reading == [first]
    last = tmp_path / "m-00003-of-00003.gguf"
    os.utime(last, ns=(1, 1))
    facts_cache.facts(first)
    last.unlink()
    with pytest.raises(ModelFileError, match="is one of 3 parts, and m-00003-of"):
        facts_cache.facts(first)


def test_a_verdict_on_known_files_reads_no_header(tmp_path: Path, no_reading: list[Path]) -> None:
    target, draft = make_gguf(tmp_path / "t.gguf", layers=3), make_gguf(tmp_path / "d.gguf", changed_token=9)
    first = pairing.check_files(target, draft)
    assert first.verdict == "pairs, with 1 token masked"
    assert len(no_reading) == 2
    assert pairing.check_files(target, draft) == first
    assert pairing.check_pair(read_header(target), read_header(draft)) == first
    assert len(no_reading) == 2


def test_many_files_with_one_vocabulary_are_compared_once(tmp_path: Path, no_reading: list[Path]) -> None:
    target = make_gguf(tmp_path / "t.gguf", layers=9)
    for number in range(4):
        make_gguf(tmp_path / f"d{number}.gguf", changed_token=9, seed=number)
    files = [inventory.FoundFile(path, "store", (path.stem,)) for path in sorted(tmp_path.glob("*.gguf"))]
    models = [inventory._found(file) for file in files]
    assert len(no_reading) == 5
    drafts = inventory.drafts_for(target, models)
    assert [pair.report.verdict for pair in drafts] == ["pairs, with 1 token masked"] * 4
    assert len(no_reading) == 7  # each vocabulary once more, for their texts
    assert inventory.drafts_for(target, models) == drafts
    assert len(no_reading) == 7


def test_texts_that_count_as_ordinary_in_one_file_only_are_compared_anew(tmp_path: Path) -> None:
    """Two targets with one list of texts: what the draft lacks is unused in one and ordinary in the other."""

    def make_ordinary(writer: gguf.GGUFWriter) -> None:
        writer.kv_data[0]["tokenizer.ggml.token_type"].value[-7:] = [NORMAL] * 7

    draft = make_gguf(tmp_path / "d.gguf", layers=1)
    targets = [
        make_gguf(tmp_path / "unused.gguf", padded_ids=7),
        make_gguf(tmp_path / "ordinary.gguf", padded_ids=7, edit=make_ordinary),
    ]
    texts = {facts_cache.facts(path).vocab.fingerprint for path in targets}
    assert len(texts) == 1
    reports = [pairing.check_files(path, draft) for path in targets]
    assert reports == [pairing.check_pair(read_header(path), read_header(draft)) for path in targets]
    assert [report.pairs for report in reports] == [True, False]
    paths = [*targets, draft]
    models = [inventory._found(inventory.FoundFile(path, "store", (path.stem,))) for path in paths]
    assert [pair.report for pair in inventory.found_pairs(models) if pair.draft.path == draft] == reports


@pytest.mark.parametrize("junk", [b"", b"{}", b"\0" * 100, b"edge-spec 1 00\n{}", None, "cut", "other"])
def test_junk_in_the_cache_is_read_over(
    tmp_path: Path, cache: Path, no_reading: list[Path], junk: bytes | str | None
) -> None:
    path = make_gguf(tmp_path / "m.gguf")
    facts = facts_cache.facts(path)
    (entry,) = (cache / "facts").iterdir()
    data = entry.read_bytes()
    if junk is None:
        entry.unlink()
        entry.mkdir()
    elif junk == "cut":
        entry.write_bytes(data[:-1])
    elif junk == "other":
        entry.write_bytes(data.replace(b'"llama"', b'"LLAMA"'))
    else:
        assert isinstance(junk, bytes)
        entry.write_bytes(junk)
    assert facts_cache.facts(path) == facts
    assert no_reading == [path, path]


@pytest.mark.parametrize(
    "change", [('"size": ', '"size": "x'), ('"kind": "model"', '"kind": "sofa"'), ('"facts"', '"acts"')]
)
def test_facts_of_another_shape_are_not_believed(
    tmp_path: Path, cache: Path, no_reading: list[Path], change: tuple[str, str]
) -> None:
    path = make_gguf(tmp_path / "m.gguf")
    facts = facts_cache.facts(path)
    (entry,) = (cache / "facts").iterdir()
    body = entry.read_bytes().partition(b"\n")[2].decode()
    assert change[0] in body
    changed = body.replace(*change, 1)
    if changed.count('"') % 2:
        changed = changed.replace('"x', '"x",', 1).replace(",,", ",")
    entry.write_bytes(facts_cache._seal(changed.encode()) + b"\n" + changed.encode())
    assert facts_cache.facts(path) == facts
    assert no_reading == [path, path]


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    path = make_gguf(tmp_path / "m.gguf")
    assert facts_cache.facts(path) == facts_cache.facts(path)


def test_writers_at_the_same_time_leave_whole_entries(tmp_path: Path) -> None:
    paths = [make_gguf(tmp_path / f"{i}.gguf", seed=i, vocab_size=64, layers=1) for i in range(3)]
    code = (
        "import sys, pathlib, shutil; from edge_spec.models import facts_cache as c;"
        f"c.cache_folder = lambda: pathlib.Path({str(tmp_path / 'shared')!r});"
        f"paths = [pathlib.Path(p) for p in {[str(p) for p in paths]!r}];"
        "facts = [c.facts_of(c.read_header(p)) for p in paths];\n"
        "for n in range(21):\n"
        "    assert [c.facts(p) for p in paths] == facts\n"
        "    if n % 3 == 0:\n"
        "        for e in (c.cache_folder() / 'facts').glob('*.json'): e.unlink(missing_ok=True)\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for writer in writers:
        _, err = writer.communicate(timeout=120)
        assert (writer.returncode, err) == (0, "")
    assert not list((tmp_path / "shared" / "facts").glob(".new-*"))


def test_what_is_too_much_is_forgotten_by_age(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts_cache, "MAX_ENTRIES", 4)
    for number in range(9):
        facts_cache.facts(make_gguf(tmp_path / f"{number}.gguf", vocab_size=64, layers=1))
    assert 2 <= len(list((cache / "facts").iterdir())) <= 4


def test_a_comparison_counts_what_each_side_has(tmp_path: Path) -> None:
    target = read_header(make_gguf(tmp_path / "t.gguf", vocab_size=300, padded_ids=7)).vocab
    draft = read_header(make_gguf(tmp_path / "d.gguf", vocab_size=290, changed_token=5)).vocab
    found = compare_vocabs(target, draft)
    assert (found.num_compared, found.num_differing, found.num_ordinary) == (290, 1, 1)
    assert (found.num_missing, found.num_missing_ordinary, found.num_extra) == (17, 10, 0)
    assert compare_vocabs(draft, target).num_extra == 17
