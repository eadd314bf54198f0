"""Which models a command means: -m, -md, -hf, -hfd and --pair, and what is fetched for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_spec.cli.prepare import ModelNames, chosen_models, fetch_missing
from edge_spec.errors import IncompatiblePairError, SettingError
from edge_spec.models.catalogue import PairEntry
from edge_spec.models.records import Record, RecordFile, keep_record
from edge_spec.settings import resolve
from tests.gguf_maker import make_gguf

PAIRS = {
    "starter": PairEntry("starter", "big", "small", "for tests"),
    "alone": PairEntry("alone", "small", None, "for tests"),
}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(tmp_path / "store"))
    return tmp_path / "store"


def _chosen(environ: dict[str, str] | None = None, **flags: str) -> ModelNames:
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    settings = resolve(given, environ=environ or {})
    return chosen_models(settings, settings.decoding(), PAIRS)


def test_hf_names_the_target_and_hfd_the_draft() -> None:
    assert _chosen() == ModelNames("big", "small")
    assert _chosen(hf_repo="a/b:Q8_0") == ModelNames("a/b:Q8_0", None)
    assert _chosen(hf_repo="hf.co/a/b", hf_repo_draft="c/d") == ModelNames("a/b", "c/d")
    assert _chosen(hf_repo_draft="c/d") == ModelNames("big", "c/d")
    assert _chosen(model="a/b:Q4_0", draft_model="x.gguf") == ModelNames("a/b:Q4_0", "x.gguf")


def test_a_flag_beats_a_variable_and_two_of_a_kind_are_refused() -> None:
    assert _chosen({"EDGE_SPEC_MODEL": "x.gguf"}, hf_repo="a/b").target == "a/b"
    assert _chosen({"EDGE_SPEC_HF_REPO": "a/b"}, model="x.gguf").target == "x.gguf"
    with pytest.raises(SettingError, match="--model and --hf-repo both name a model"):
        _chosen(model="x.gguf", hf_repo="a/b")


def _files(tmp_path: Path, user: str, project: str = "") -> None:
    (tmp_path / "config/edge-spec").mkdir(parents=True)
    (tmp_path / "config/edge-spec/config.toml").write_text(user)
    (tmp_path / "edge-spec.toml").write_text(project)


def test_the_projects_file_beats_the_users_in_what_names_a_model(tmp_path: Path) -> None:
    _files(tmp_path, 'hf-repo = "a/b"', 'model = "x.gguf"')
    assert _chosen() == ModelNames("x.gguf", None)


def test_two_names_in_one_file_are_refused_by_what_names_them(tmp_path: Path) -> None:
    _files(tmp_path, "", 'model = "x.gguf"\nhf-repo = "a/b"')
    with pytest.raises(SettingError, match=r"model and hf-repo in edge-spec\.toml both name a model"):
        _chosen()


def test_a_pair_named_in_a_higher_place_beats_models_named_in_a_lower_one(tmp_path: Path) -> None:
    _files(tmp_path, 'model = "x.gguf"\ndraft-model = "y.gguf"')
    assert _chosen() == ModelNames("x.gguf", "y.gguf")
    assert _chosen(pair="starter") == ModelNames("big", "small")
    assert _chosen(pair="alone") == ModelNames("small", None)
    assert _chosen({"EDGE_SPEC_PAIR": "starter"}) == ModelNames("big", "small")
    assert _chosen(pair="starter", draft_model="z.gguf") == ModelNames("big", "z.gguf")
    assert _chosen(pair="starter", model="z.gguf").target == "z.gguf"


def test_a_file_may_name_a_pair_and_another_draft_for_it(tmp_path: Path) -> None:
    _files(tmp_path, 'pair = "starter"\nhf-repo-draft = "c/d"')
    assert _chosen() == ModelNames("big", "c/d")


def test_a_target_named_in_a_higher_place_beats_a_draft_that_belongs_to_another(tmp_path: Path) -> None:
    _files(tmp_path, 'model = "x.gguf"\ndraft-model = "y.gguf"')
    assert _chosen(model="z.gguf") == ModelNames("z.gguf", None)
    assert _chosen(hf_repo="a/b") == ModelNames("a/b", None)
    assert _chosen({"EDGE_SPEC_MODEL": "z.gguf"}) == ModelNames("z.gguf", None)
    assert _chosen({"EDGE_SPEC_MODEL": "w.gguf"}, model="z.gguf") == ModelNames("z.gguf", None)
    assert _chosen(model="z.gguf", draft_model="q.gguf") == ModelNames("z.gguf", "q.gguf")
    assert _chosen(draft_model="q.gguf") == ModelNames("x.gguf", "q.gguf")


def test_a_draft_of_a_pair_s_place_belongs_to_that_pair(tmp_path: Path) -> None:
    _files(tmp_path, 'pair = "starter"\nhf-repo-draft = "c/d"')
    assert _chosen(model="z.gguf") == ModelNames("z.gguf", None)


def test_a_draft_whose_place_names_no_target_goes_with_any(tmp_path: Path) -> None:
    _files(tmp_path, 'draft-model = "y.gguf"')
    assert _chosen(model="z.gguf") == ModelNames("z.gguf", "y.gguf")
    assert _chosen({"EDGE_SPEC_DRAFT_MODEL": "q.gguf"}, model="z.gguf") == ModelNames("z.gguf", "q.gguf")


@pytest.mark.parametrize("name", ["b", "a/b/c", "../b", "a/b.gguf", "a/b:../x", ""])
def test_what_is_no_repository_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="it must name a repository"):
        _chosen(hf_repo=name)


def test_pairs_that_are_known_not_to_pair_are_refused_before_a_download() -> None:
    models = ModelNames("bartowski/gemma-2-27b-it-GGUF:Q4_K_M", "bartowski/gemma-2-2b-it-GGUF:Q4_K_M")
    with pytest.raises(IncompatiblePairError, match=r"Token 139 of .* Nothing was fetched"):
        fetch_missing(models, quiet=True)


def test_what_is_here_is_not_fetched(alone: Path, tmp_path: Path) -> None:
    alone.mkdir()
    make_gguf(alone / "q.gguf")
    make_gguf(tmp_path / "x.gguf")
    file = RecordFile("q.gguf", 10, "0" * 64)
    keep_record(alone, Record("a/b:Q8_0", (file,), "hub", "2026-11-30", "a/b", "c" * 40, "Q8_0"))
    fetch_missing(ModelNames("a/b:Q8_0", "x.gguf"), quiet=True)  # it would fail: no hub is here
