"""Forging with models that llama.cpp really runs: what comes out loads, drafts, and changes no text."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
import pytest

import edge_spec
from edge_spec import cli
from edge_spec.api import LoadedModel
from edge_spec.cancel import Cancel
from edge_spec.config import ModelSettings
from edge_spec.errors import Cancelled, ModelFileError, OutputError
from edge_spec.forge import bench, job, scratch
from edge_spec.forge.report import ForgeSettings, Stage
from edge_spec.forge.rewrite import Edit, rewrite
from edge_spec.forge.samples import Sample
from edge_spec.forge.scratch import clear_orphans
from edge_spec.forge.vocabulary import Vocabulary, trim
from edge_spec.llama.skip import LayerSkip
from edge_spec.locks import try_lock
from edge_spec.models.header import read_header
from edge_spec.types import Dist, Rows
from tests.gguf_maker import CHAT_TEMPLATE, make_gguf

ROOT = Path(__file__).resolve().parents[2]
PROMPTS = [
    [{"role": "user", "content": text}] for text in ("tell me of bees", "abc", "why so", "go on and on")
]
SIZES: dict[str, Any] = {"vocab_size": 700, "layers": 4, "width": 64, "context": 2048}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times mean nothing for models this small."""
    for name, value in (("_CONTEXT", 256), ("_STEPS", 4), ("_ROUNDS", 1), ("_SLOTS", 4)):
        monkeypatch.setattr(bench, name, value)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A target and a draft that often agrees with it."""
    target = make_gguf(tmp_path / "target.gguf", chat_template=CHAT_TEMPLATE, **SIZES)
    return target, make_gguf(tmp_path / "draft.gguf", noise=0.2, chat_template=CHAT_TEMPLATE, **SIZES)


def load(path: Path, skip: LayerSkip | None = None) -> LoadedModel:
    settings = ModelSettings(path, context_size=256, threads=1)
    return LoadedModel(settings, read_header(path), Cancel(), lambda _fraction: None, skip)


def trimmed(source: Path, target: Path, tokens: list[int], num_tokens: int) -> Path:
    header = read_header(source)
    dists = tuple(Dist(np.array([t]), np.ones(1), t) for t in tokens)
    words = Vocabulary(
        read_header(target), header, [Sample((), tuple(tokens), dists, np.zeros(700, np.float32))]
    )
    kept = words.choose(num_tokens, words.samples)
    return rewrite(header, source.with_name("trimmed.gguf"), trim(header, kept, words.target_ids))


@pytest.mark.parametrize("tokenizer", ["bpe", "spm"])
def test_a_trimmed_model_gives_its_tokens_the_logits_that_the_whole_one_gives(
    tmp_path: Path, tokenizer: str
) -> None:
    path = make_gguf(tmp_path / "model.gguf", tokenizer=tokenizer, **SIZES)
    small = trimmed(path, path, [600, 650, 699], 400)
    ids = read_header(small).metadata["edge_spec.target_ids"]
    assert isinstance(ids, np.ndarray)
    whole, part = load(path), load(small)
    try:
        text = [5, 40, 399, 7, 100]
        rows = whole.cache.append([Rows(0, ids[text].tolist(), 4)]).copy()
        assert np.allclose(part.cache.append([Rows(0, text, 4)]), rows[:, ids], atol=1e-4)
        assert [part.model.piece(i) for i in range(400)] == [whole.model.piece(int(t)) for t in ids]
        words = "some words, and more"
        spelled = part.model.tokenize(words, add_special=False, parse_special=False)
        assert b"".join(part.model.piece(token) for token in spelled).strip() == words.encode()
    finally:
        whole.close()
        part.close()


@pytest.mark.parametrize(
    "sampling", [edge_spec.Sampling(temperature=0), edge_spec.Sampling()], ids=["greedy", "warm"]
)
def test_text_with_a_trimmed_draft_is_the_plain_text(
    pair: tuple[Path, Path], sampling: edge_spec.Sampling
) -> None:
    target, draft = pair
    small = trimmed(draft, target, list(range(300, 500)), 450)
    texts = set()
    with edge_spec.load_pair(target, small, context_size=256, threads=1) as loaded:
        for k in (0, 1, 5):
            decoding = edge_spec.Decoding(max_tokens=30, draft_max=k, seed=5)
            answer = loaded.answer(PROMPTS[0], sampling=sampling, decoding=decoding, reuse_cache=False)
            texts.add(answer.token_ids)
            assert not k or answer.stats.accepted > 0
    assert len(texts) == 1


def test_an_inspected_draft_s_alternatives_have_the_target_s_ids(pair: tuple[Path, Path]) -> None:
    target, draft = pair
    small = trimmed(draft, target, list(range(500, 600)), 400)
    ids = set(read_header(small).metadata["edge_spec.target_ids"].tolist())  # type: ignore[union-attr]
    seen = set()
    with edge_spec.load_pair(target, small, context_size=256, threads=1) as loaded:
        for event in loaded.generate(
            PROMPTS[0], decoding=edge_spec.Decoding(max_tokens=40, draft_max=3), inspect=3
        ):
            if isinstance(event, edge_spec.Inspected):
                seen |= {one.token for row in event.rows for one in row.draft}
    assert seen
    assert seen <= ids
    assert max(seen) >= 400


def test_skipped_layers_give_the_logits_of_a_file_without_them(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "model.gguf", **SIZES)
    shorter = rewrite(read_header(path), tmp_path / "shorter.gguf", Edit(dropped_layers=(1, 2)))
    skip = LayerSkip()
    whole, part = load(path, skip), load(shorter)
    try:
        text = [Rows(0, [5, 40, 399, 7], 0)]
        full = whole.cache.append(text).copy()
        whole.cache.clear()
        skip.skip(1, 3)
        skipped = whole.cache.append(text).copy()
        skip.require_skipped()
        assert np.allclose(part.cache.append(text), skipped, atol=1e-4)
        assert not np.allclose(full, skipped, atol=0.1)
        whole.cache.clear()
        skip.skip(1, 1)
        assert np.allclose(whole.cache.append(text), full, atol=1e-6)
    finally:
        whole.close()
        part.close()


class Silent:
    """Counts what it is told; `at_status` is called each time."""

    def __init__(self, at_status: Any = lambda: None) -> None:
        self.stages: list[str] = []
        self._at_status = at_status

    def status(self, _text: str) -> None:
        self._at_status()

    def stage(self, stage: Stage) -> None:
        self.stages.append(stage.name)

    def note(self, text: str) -> None:
        self.stages.append(text)


def settings(pair: tuple[Path, Path], **values: Any) -> ForgeSettings:
    target, draft = pair
    plain = {"output": draft.with_name("out.gguf"), "prompts": PROMPTS, "sample_tokens": 16, "threads": 1}
    return ForgeSettings(target, draft, **{**plain, **values})


def test_every_step_that_is_asked_for_is_taken_measured_and_written_down(pair: tuple[Path, Path]) -> None:
    reporter = Silent()
    wanted = settings(pair, type_name="Q8_0", num_tokens=400, num_dropped=1)
    report = job.Forge(wanted, Cancel(), reporter).run()
    assert report.path is not None
    made = read_header(report.path)
    assert (made.vocab.size, made.num_layers, made.quantization) == (400, 3, "Q8_0")
    assert len(report.taken) == len(reporter.stages) == 4
    assert report.recipe is not None
    assert (report.recipe.source, report.recipe.num_tokens, len(report.recipe.layers)) == ("draft", 400, 1)
    assert 4 < report.num_positions <= 4 * 16
    for stage in report.stages:
        assert 0 < stage.acceptance.sampled <= 1
        assert stage.step_s > 0
    assert report.best.coverage is not None
    assert sorted(path.name for path in report.path.parent.iterdir()) == [
        "draft.gguf",
        "out.gguf",
        "target.gguf",
    ]
    with edge_spec.load_pair(pair[0], report.path, context_size=256, threads=1) as loaded:
        assert loaded.complete(PROMPTS[1], decoding=edge_spec.Decoding(max_tokens=20, draft_max=3))


def test_a_draft_as_good_as_its_target_is_accepted_always(pair: tuple[Path, Path]) -> None:
    target, _draft = pair
    wanted = settings((target, target), output=target.with_name("out.gguf"), type_name="keep", num_tokens=0)
    report = job.Forge(wanted, Cancel(), Silent()).run()
    assert report.stages[0].acceptance.sampled == pytest.approx(1.0, abs=0.01)
    assert report.stages[0].acceptance.greedy == 1.0
    assert report.path is None


def test_what_is_chosen_by_measuring_is_never_worse_than_the_draft_as_given(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "CANDIDATES", (("Q4_0", None), ("Q4_0", "Q4_0")))
    monkeypatch.setattr(job, "SIZES", (300, 500))
    report = job.Forge(settings(pair, num_dropped=None), Cancel(), Silent()).run()
    assert report.best in report.taken
    assert report.best.gain.speedup == max(stage.gain.speedup for stage in report.taken)
    assert report.stages[0].taken
    assert (report.path is None) == (report.best is report.stages[0])


def test_cancel_at_any_moment_leaves_nothing_behind(pair: tuple[Path, Path]) -> None:
    for when in (1, 4, 8):
        cancel, count = Cancel(), itertools.count(1)

        def at_status(when: int = when, cancel: Cancel = cancel, count: Any = count) -> None:
            if next(count) == when:
                cancel.set()

        wanted = settings(pair, type_name="Q8_0", num_tokens=400)
        with pytest.raises(Cancelled):
            job.Forge(wanted, cancel, Silent(at_status)).run()
        assert sorted(path.name for path in pair[0].parent.iterdir()) == ["draft.gguf", "target.gguf"]


HOLD = """
import sys
from pathlib import Path
from edge_spec.forge.scratch import Scratch
from edge_spec.models.header import read_header
with Scratch(Path(sys.argv[1]), read_header(Path(sys.argv[2])), create=False) as made:
    (made / "part.gguf").touch()
    print(made, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_forging_left_is_cleared_away_and_a_living_one_s_is_not(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pair[0].parent
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD, folder, pair[1]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for _ in range(2)
    ]
    try:
        paths = [Path(holder.stdout.readline().rstrip()) for holder in holders if holder.stdout]
        holders[0].kill()
        holders[0].wait()
        # In another container or on another computer these process ids are nobody's.
        monkeypatch.setattr("psutil.pid_exists", lambda _pid: False)
        clear_orphans(folder)
        assert [path.exists() for path in paths] == [False, True]
        assert (paths[1] / "part.gguf").exists()
        holders[1].communicate("")
        assert not paths[1].exists()
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def test_a_folder_that_was_cleared_away_before_it_was_locked_is_made_again(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, times = pair[0].parent, itertools.count()

    def meddle(file: BinaryIO) -> bool:
        if next(times) == 0:  # it was opened, and is not locked yet
            clear_orphans(folder)
        return try_lock(file)

    monkeypatch.setattr(scratch, "try_lock", meddle)
    with scratch.Scratch(folder, read_header(pair[1]), create=False) as made:
        assert [path for path in folder.iterdir() if path.is_dir()] == [made]
        assert next(times) == 3  # that of the first, that which cleared it away, that of the second
    assert not made.exists()


def test_what_cannot_work_is_said_before_anything_is_loaded(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there.gguf").write_bytes(b"kept")
    with pytest.raises(OutputError, match="exists already; --force"):
        job.Forge(settings(pair, output=tmp_path / "there.gguf"), Cancel(), Silent())
    with pytest.raises(edge_spec.SettingError, match="has 4 layers, of which the first and the last stay"):
        job.Forge(settings(pair, num_dropped=3), Cancel(), Silent())
    with pytest.raises(ModelFileError, match="no file"):
        job.Forge(settings((pair[0], tmp_path / "none.gguf")), Cancel(), Silent())
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=1000))
    with pytest.raises(OutputError, match="make room"):
        job.Forge(settings(pair), Cancel(), Silent()).run()


def test_the_command_forges_into_the_store_and_prints_what_it_did(
    pair: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(tmp_path / "store"))
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"messages": prompt}) + "\n" for prompt in PROMPTS))
    target, draft = map(str, pair)
    common = [
        "models",
        "forge",
        "--for",
        target,
        "--prompts",
        str(prompts),
        "--sample-tokens",
        "8",
        "-t",
        "1",
    ]

    def run(*args: str) -> int:
        with pytest.raises(SystemExit) as caught:
            cli.main([*common, *args])
        assert isinstance(caught.value.code, int)
        return caught.value.code

    assert run(draft, "--type", "q8_0", "--keep-tokens", "1000", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    made = Path(record["file"])
    assert made.parent == tmp_path / "store"
    assert made.name == "draft-forged-q8_0-1k.gguf"
    assert [stage["taken"] for stage in record["stages"]] == [True, True, True]
    again = (draft, "--type", "q8_0", "--keep-tokens", "1000", "--json")
    assert run(*again) == 0  # what was made before is neither replaced nor a reason to refuse
    assert Path(json.loads(capsys.readouterr().out)["file"]).name == "draft-forged-q8_0-1k-2.gguf"
    assert run(*again, "--force") == 0
    assert json.loads(capsys.readouterr().out)["file"] == record["file"]
    assert len(list(made.parent.glob("*.gguf"))) == 2
    assert run("--self", "--type", "keep", "--no-trim", "--drop-layers", "2") == 0
    assert "without layers 1 to 2" in capsys.readouterr().out
    nothing = (draft, "--type", "keep", "--no-trim")
    assert run(*nothing) == 0
    assert "so no file was written" in capsys.readouterr().out
    assert run(*nothing, "-o", str(tmp_path / "asked.gguf")) == 3
    assert "asked.gguf was not written: nothing that was tried is better" in capsys.readouterr().err
    assert run(draft, "--self") == 2
    assert run() == 2
    assert run(draft, "--type", "Q9") == 2
    assert run(draft, "--drop-layers", "some") == 2
    assert "neither a number of layers nor auto" in capsys.readouterr().err
