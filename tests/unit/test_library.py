"""What user interfaces ask about models: what is here, what can be had, whether it fits and pairs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edge_spec.errors import Cancelled, ModelFileError, SettingError
from edge_spec.host import PairSpec
from edge_spec.models import library, sources
from edge_spec.models.catalogue import catalogue
from edge_spec.models.header import Header, read_header
from edge_spec.models.memory import Machine
from edge_spec.models.memory.plan import PROGRAM_BYTES
from edge_spec.types import Device
from tests.gguf_maker import make_gguf

TINY = catalogue().models["smollm2-135m"]
STARTER = [catalogue().models[name] for name in ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def _hole(path: Path, size: int) -> None:
    """A file of that size with nothing in it."""
    with path.open("wb") as file:
        file.truncate(size)


def test_installed_models_have_the_facts_of_their_headers(folder: Path) -> None:
    make_gguf(folder / TINY.file)
    make_gguf(folder / "mine.gguf", vocab_size=280, context=77)
    (folder / "broken.gguf").write_bytes(b"GGUF")
    tiny, broken, mine = library.installed()
    assert (tiny.name, tiny.file, tiny.licence) == ("smollm2-135m", TINY.file, "Apache-2.0")
    assert (mine.name, mine.path, mine.licence) == ("mine", folder / "mine.gguf", None)
    assert (mine.architecture, mine.quantization, mine.num_vocab) == ("llama", "F32", 280)
    assert (mine.context_length, mine.size) == (77, (folder / "mine.gguf").stat().st_size)
    assert mine.parameters == read_header(mine.path).num_parameters > 0
    assert mine.problem is None
    assert broken.problem is not None and "is not a usable GGUF" in broken.problem
    assert (broken.architecture, broken.parameters, broken.context_length) == (None, None, None)


def test_pairs_know_what_is_still_to_be_downloaded(folder: Path) -> None:
    starter, tiny, *others = library.catalogue_pairs()
    assert others and not any(pair.sized or pair.installed for pair in others)
    total = sum(entry.size for entry in STARTER)
    assert (starter.name, starter.target, starter.draft) == ("starter", STARTER[0].name, STARTER[1].name)
    assert (starter.num_bytes, starter.total_bytes, starter.installed) == (total, total, False)
    assert (starter.licence, tiny.draft) == ("Apache-2.0", None)
    _hole(folder / STARTER[0].file, STARTER[0].size)
    _hole(folder / STARTER[1].file, STARTER[1].size - 1)  # a part of it
    starter = library.catalogue_pairs()[0]
    assert (starter.num_bytes, starter.installed) == (STARTER[1].size, False)
    _hole(folder / STARTER[1].file, STARTER[1].size)
    assert library.catalogue_pairs()[0].installed


def test_pulling_checks_all_names_before_it_fetches_any(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def pull(name: str, progress: Any, cancelled: Any) -> list[Path]:
        calls.append(name)
        progress(name, "a mirror", 1, 2)
        if cancelled():
            raise Cancelled
        return [Path(name)]

    monkeypatch.setattr(sources, "pull", pull)
    told: list[tuple[Any, ...]] = []
    with pytest.raises(SettingError, match="trousers"):
        library.pull_models(["tiny", "trousers"], lambda *step: told.append(step), lambda: False)
    assert not calls
    paths = library.pull_models(["tiny", "starter"], lambda *step: told.append(step), lambda: False)
    assert paths == [Path("tiny"), Path("starter")]
    assert told == [("tiny", "a mirror", 1, 2), ("starter", "a mirror", 1, 2)]
    with pytest.raises(Cancelled):
        library.pull_models(["tiny"], lambda *_: None, lambda: True)


def _machine(
    monkeypatch: pytest.MonkeyPatch, available: int, total: int, devices: tuple[Device, ...] = ()
) -> None:
    monkeypatch.setattr(library, "this_machine", lambda: Machine(total, available, devices))


def test_a_pair_is_weighed_by_its_headers_and_its_options(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_gguf(folder / "t.gguf")
    make_gguf(folder / "d.gguf")
    _machine(monkeypatch, 10**10, 10**10)
    alone = library.estimate_pair(PairSpec("t", None, {"context_size": 1024}))
    both = library.estimate_pair(PairSpec("t", "d", {"context_size": 1024}))
    assert alone.fits and both.fits
    assert both.mapped == 2 * alone.mapped
    assert both.private - PROGRAM_BYTES == 2 * (alone.private - PROGRAM_BYTES)
    header = read_header(folder / "t.gguf")
    assert alone.mapped == sum(tensor.num_bytes for tensor in header.tensors)
    assert alone.advice.startswith("The model needs ")
    assert alone.advice.endswith("10.0 GB of 10.0 GB are free.")
    longer = library.estimate_pair(PairSpec("t", None, {"context_size": 2048, "threads": 3}))
    mask = 2 * 512 * 1024
    assert longer.private - alone.private == 2 * 2 * 8 * 2 * 1024 * 2 + mask
    usual = library.estimate_pair(PairSpec("t", None, {}))
    assert usual.private - alone.private == 3 * (2 * 2 * 8 * 2 * 1024 * 2 + mask)
    _machine(monkeypatch, alone.private + alone.mapped, 10**10)
    assert library.estimate_pair(PairSpec("t", None, {"context_size": 1024})).fits
    tight = library.estimate_pair(PairSpec("t", "d", {"context_size": 1024}))
    assert not tight.fits and tight.plan is not None
    assert tight.plan.verdict == "tight"
    assert tight.advice.startswith("The target and the draft probably need ")
    _machine(monkeypatch, 10_000, 10**10)
    refused = library.estimate_pair(PairSpec("t", "d", {"context_size": 1024}))
    assert refused.advice.startswith("The target and the draft would need at least ")
    assert "lower the context to 512 tokens" in refused.advice


def test_of_a_model_that_is_not_here_its_download_is_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(monkeypatch, 10**9, 10**9)
    estimate = library.estimate_pair(PairSpec(STARTER[0].name, STARTER[1].name, {}))
    assert estimate.mapped == STARTER[0].size + STARTER[1].size
    assert not estimate.fits
    assert library.estimate_pair(PairSpec(TINY.name, None, {})).fits
    with pytest.raises(ModelFileError, match="There is no model"):
        library.estimate_pair(PairSpec("nonsense", None, {}))


def test_what_a_gpu_holds_is_not_counted_and_the_options_say_which_layers_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_gguf(folder / "t.gguf")
    header = read_header(folder / "t.gguf")
    size = sum(tensor.num_bytes for tensor in header.tensors)
    looked_up = next(tensor.num_bytes for tensor in header.tensors if tensor.name == "token_embd.weight")
    _machine(monkeypatch, 10**10, 10**10, (Device("CUDA0", "a GPU", "gpu", 10**9, 10**9),))
    assert library.estimate_pair(PairSpec("t", None, {})).mapped == looked_up
    assert library.estimate_pair(PairSpec("t", None, {"gpu_layers": 0})).mapped == size
    both = library.estimate_pair(PairSpec("t", "t", {"draft_gpu_layers": 0}))
    assert both.mapped == looked_up + size


def test_models_that_pair_have_no_reason_against_it(folder: Path) -> None:
    make_gguf(folder / "t.gguf", name="big")
    make_gguf(folder / "d.gguf", noise=0.3)
    make_gguf(folder / "x.gguf", name="odd one", tokenizer="spm")
    assert library.check_models("t", "d") is None
    reason = library.check_models("t", "x")
    assert reason is not None
    assert reason.startswith('"odd one" cannot draft for "big": the target\'s tokenizer is ')
    with pytest.raises(ModelFileError):
        library.check_models("t", "none")


def test_every_model_is_told_as_a_draft_for_a_target_the_best_first(folder: Path) -> None:
    make_gguf(folder / "t.gguf", name="big", layers=20)
    make_gguf(folder / "small.gguf", layers=1, seed=1)
    make_gguf(folder / "masked.gguf", layers=1, changed_token=9)
    make_gguf(folder / "large.gguf", layers=30)
    make_gguf(folder / "odd.gguf", tokenizer="spm")
    (folder / "broken.gguf").write_bytes(b"GGUF")
    drafts = library.drafts_for("t")
    assert [(draft.model.name, draft.verdict, draft.num_masked, draft.pays) for draft in drafts] == [
        ("small", "pairs", 0, True),
        ("masked", "pairs, with 1 token masked", 1, True),
        ("large", "use a draft-free drafter instead", 0, False),
        ("odd", "does not pair", 0, True),
    ]
    assert [draft.reason is None for draft in drafts] == [True, True, True, False]
    assert drafts[3].reason is not None and drafts[3].reason.startswith("The target's tokenizer is ")
    assert drafts[0].share == pytest.approx(0.2, abs=0.15)
    assert drafts[0].model.vocabulary == library.installed()[-1].vocabulary
    with pytest.raises(ModelFileError, match="not a usable GGUF"):
        library.drafts_for("broken")


def test_a_target_outside_the_store_has_drafts_too(folder: Path, tmp_path: Path) -> None:
    make_gguf(folder / "d.gguf")
    path = make_gguf(tmp_path / "outside.gguf", layers=9)
    assert [draft.model.name for draft in library.drafts_for(str(path))] == ["d"]


def test_asking_about_models_never_loads_llama_cpp(folder: Path) -> None:
    make_gguf(folder / "t.gguf")
    code = (
        "import sys, edge_spec as e; e.list_models(); e.catalogue(); e.check_models('t', 't');"
        "e.drafts_for('t'); e.found_models();"
        "e.estimate_pair(e.PairSpec('t', None, {})); e.EngineHost; print('llama_cpp' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r}); {code}"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "False\n"


NAMES = {
    "family and size": (
        {"basename": "Qwen2.5-Coder", "size_label": "1.5B", "name": "Models"},
        "Qwen2.5-Coder-1.5B",
    ),
    "a family that has its size": ({"basename": "gemma-3-270M", "size_label": "270m"}, "gemma-3-270M"),
    "a family alone": ({"basename": "phi"}, "phi"),
    "a name alone": ({"name": "Tiny Llama", "size_label": "1B"}, "Tiny Llama"),
    "a path for a name": ({"name": "/home/me/out"}, "file-Q4"),
    "a name that steers terminals": ({"name": "\x1b[31mred"}, "file-Q4"),
    "a name too long": ({"name": "x" * 41}, "file-Q4"),
    "no names": ({}, "file-Q4"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_model_is_called_by_family_and_size_else_by_its_name_else_by_its_file(case: str) -> None:
    fields, name = NAMES[case]
    metadata = {f"general.{key}": value for key, value in fields.items()}
    header = Header(Path("folder/file-Q4.gguf"), 0, 3, metadata, (), 0, None)  # type: ignore[arg-type]
    assert header.short_name == name
