"""`edge-spec check` on ten pairs of files: the verdict, its reason and the exit code, from headers alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from edge_spec import cli
from edge_spec.models import facts_cache
from tests.gguf_maker import make_gguf

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(facts_cache, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _model(name: str, **options: Any) -> str:
    return str(make_gguf(Path(name), **options))


def _head(name: str, architecture: str, *, kind: str | None = None, **keys: int) -> str:
    """A file that is no model: keys under its architecture, one small tensor, no vocabulary."""
    writer = gguf.GGUFWriter(name, architecture)
    if kind is not None:
        writer.add_type(kind)
    for key, value in keys.items():
        writer.add_uint32(f"{architecture}.{key}", value)
    writer.add_array(f"{architecture}.target_layers", [1, 2, 3])
    writer.add_tensor("fc.weight", np.zeros((32, 96), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return name


def _cut(name: str) -> str:
    path = Path(_model(name))
    path.write_bytes(path.read_bytes()[:-100])
    return name


DRAFTS: dict[str, tuple[Callable[[], str], int, str]] = {
    "the same vocabulary": (lambda: _model("d.gguf"), 0, "verdict: pairs\n"),
    "128 padded ids": (
        lambda: _model("d.gguf", padded_ids=128),
        0,
        "verdict: pairs\n- The draft has 128 more token ids; those are never drafted.\n",
    ),
    "one differing token": (
        lambda: _model("d.gguf", changed_token=139),
        0,
        "verdict: pairs, with 1 token masked\n"
        'differing tokens:\n  token  target  draft\n    139  "\u012b"     "changed139"\n',
    ),
    "another begin token": (
        lambda: _model("d.gguf", add_bos=True),
        3,
        "verdict: does not pair, because the draft adds its begin-of-text token to every\n"
        "         text but the target does not.\n",
    ),
    "another tokenizer": (
        lambda: _model("d.gguf", tokenizer="spm"),
        3,
        "verdict: does not pair, because the target's tokenizer is byte-level BPE (gpt2)\n"
        "         but the draft's is SentencePiece (llama).\n",
    ),
    "in three files": (lambda: _model("d.gguf", split_tensors=8), 0, "3 files"),
    "mmproj": (
        lambda: _head("d.gguf", "clip", kind="mmproj"),
        3,
        "verdict: does not pair, because the draft is a multimodal projector (mmproj),\n"
        "         which turns images or sound into embeddings.\n",
    ),
    "recurrent": (
        lambda: _model("d.gguf", architecture="mamba", layers=1, width=8),
        0,
        "verdict: pairs\n- The draft's memory is recurrent, which cannot be trimmed",
    ),
    "EAGLE-3": (
        lambda: _head("d.gguf", "eagle3", target_hidden_size=4096, embedding_length=32),
        3,
        "- It was made for a target with hidden states of 4,096 numbers, and this\n  target's have 32.\n",
    ),
}


def _run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["check", *args])
    assert isinstance(ended.value.code, int)
    return (ended.value.code, *capsys.readouterr())


@pytest.mark.parametrize("case", DRAFTS)
def test_a_draft_gets_its_verdict_and_the_reason(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    make, code, words = DRAFTS[case]
    target = _model("t.gguf", layers=3)
    found = _run(capsys, target, make())
    assert (found[0], found[2]) == (code, "")
    assert words in found[1]
    assert all(len(line) <= 80 for line in found[1].splitlines())


def test_two_that_are_not_here_and_known_not_to_pair_are_refused_without_fetching(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pair = "unsloth/gemma-2-27b-it-GGUF", "unsloth/gemma-2-2b-it-GGUF"
    code, _, err = _run(capsys, *pair)
    assert code == 3 and "models pull" not in err
    assert f"{pair[1]} cannot draft for {pair[0]}: Token 139" in " ".join(err.split())
    code, _, err = _run(capsys, pair[0], "unsloth/gemma-2-9b-it-GGUF")
    assert code == 3 and "models pull" in err


def test_a_truncated_file_is_exit_3_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _run(capsys, _model("t.gguf"), _cut("d.gguf"))
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("edge-spec: d.gguf is not a usable GGUF: it is truncated: it has ")


def test_an_eagle_head_is_told_what_runs_it_and_which_targets_it_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    draft = _head("d.gguf", "eagle3", target_hidden_size=32)
    target = _model("t.gguf")
    found = json.loads(_run(capsys, target, draft, "--json")[1])
    assert found["draft"]["facts"]["kind"] == "eagle3"
    (reason,) = found["reasons"]
    assert "is an EAGLE-3 head" in reason and "llama-server" in reason


def test_json_has_every_differing_token(capsys: pytest.CaptureFixture[str]) -> None:
    target = _model("t.gguf", layers=3, vocab_size=258, padded_ids=60)
    draft = _model("d.gguf", vocab_size=258, padded_ids=60, pad_name="other")
    code, out, err = _run(capsys, target, draft)
    assert (code, err) == (0, "")
    assert "  and 52 more; --json lists them all\n" in out
    code, out, err = _run(capsys, target, draft, "--json")
    found = json.loads(out)
    assert (code, err, found["pairs"], found["verdict"]) == (0, "", True, "pairs, with 60 tokens masked")
    assert found["masked"] == [one["token"] for one in found["differing"]] == list(range(258, 318))
    assert found["differing"][59] == {"token": 317, "target_text": "<pad59>", "draft_text": "<other59>"}
    assert found["target"]["file"] == "t.gguf" and found["target"]["rollback"] == "trim"
    assert found["draft"]["facts"]["vocab"]["size"] == 318


def test_the_command_itself_reads_headers_only(folder: Path) -> None:
    target, draft = _model("t.gguf", layers=3), _model("d.gguf", changed_token=139)
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from edge_spec import cli\n"
        "try: cli.main()\n"
        "finally: print({'llama_cpp', 'huggingface_hub', 'rich'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "check", target, draft], capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "set()\n")
    assert "verdict: pairs, with 1 token masked\n" in done.stdout
