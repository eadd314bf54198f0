"""Names of models on the hub, quantisations, and names that would leave the store."""

from __future__ import annotations

import pytest
from huggingface_hub.utils import HFValidationError, validate_repo_id

from edge_spec.errors import SettingError
from edge_spec.models.catalogue import Catalogue
from edge_spec.models.names import HubRef, hub_ref, is_repo, is_safe, split_of
from edge_spec.models.quants import RepoFile, choose, label_of, models_in, name_among
from edge_spec.models.wanted import check_name


def _files(*paths: str) -> list[RepoFile]:
    return [RepoFile(path, 10**9, "0" * 64) for path in paths]


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("Qwen/Qwen3-8B-GGUF", HubRef("Qwen/Qwen3-8B-GGUF")),
        ("Qwen/Qwen3-8B-GGUF:Q4_K_M", HubRef("Qwen/Qwen3-8B-GGUF", "Q4_K_M")),
        ("hf.co/Qwen/Qwen3-8B-GGUF:latest", HubRef("Qwen/Qwen3-8B-GGUF")),
        ("https://huggingface.co/a/b/", HubRef("a/b")),
        ("a/b:sub/file.gguf", HubRef("a/b", "sub/file.gguf")),
        ("starter", None),
        ("a/b/c", None),
        ("models/file.gguf", None),
        ("../b", None),
        ("a/..", None),
        ("a/b..c", None),
        ("a/b:../../x.gguf", None),
        ("a/b:/etc/passwd", None),
        ("a/b:", None),
        ("-hf/b", None),
        ("a/b c", None),
        ("", None),
    ],
)
def test_a_hub_name_is_user_repo_and_perhaps_a_quantisation(text: str, ref: HubRef | None) -> None:
    assert hub_ref(text) == ref


ALLOWED = ("a/b", "Qwen/Qwen3-8B-GGUF", "a_/_b", "a.b/c.gitx", f"{'a' * 96}/{'b' * 96}")
FORBIDDEN = ("user/foo--bar", "user/repo.git", "us--er/x", "user/repo-", f"a/{'b' * 97}", f"{'a' * 97}/b")


@pytest.mark.parametrize("repo", ALLOWED + FORBIDDEN, ids=lambda repo: repo[:20])
def test_a_repository_is_called_as_the_hub_allows(repo: str) -> None:
    assert is_repo(repo) == (repo in ALLOWED)
    if repo in ALLOWED:
        validate_repo_id(repo)
        check_name(f"{repo}:Q8_0", Catalogue({}, {}))
        return
    with pytest.raises(HFValidationError):
        validate_repo_id(repo)
    with pytest.raises(SettingError, match=f'The hub has no repository "{repo}": it allows no "--"'):
        check_name(f"{repo}:Q8_0", Catalogue({}, {}))


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "../x", "a/../x", "/etc/passwd", "a//b", "a/", "~/../x/..", "C:x", "C:\\x", "a\\..\\b",
        "\\\\host\\share", ".partial/x", "a/.records/x", "nul.gguf", "aux", "x.gguf.", "x ", "x\0", "x\n",
        "x" * 300, "a/" * 300 + "x", "x\u202e.gguf", "a:b", "COM1.gguf",
    ],
)  # fmt: skip
def test_a_file_name_that_could_leave_its_folder_is_not_safe(name: str) -> None:
    assert not is_safe(name)


def test_ordinary_file_names_are_safe() -> None:
    for name in ("x.gguf", "Q4_K_M/x-00001-of-00002.gguf", "a b (1).gguf", "größe.gguf", "console.gguf"):
        assert is_safe(name)


def test_parts_are_known_by_their_names() -> None:
    split = split_of("Q8_0/m-00002-of-00003.gguf")
    assert split is not None and (split.part, split.parts) == (2, 3)
    assert split.names[0] == "Q8_0/m-00001-of-00003.gguf"
    for name in ("m.gguf", "m-00004-of-00003.gguf", "m-00000-of-00001.gguf", "m-00001-of-99999.gguf"):
        assert split_of(name) is None


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("Qwen3-8B-Q4_K_M.gguf", "Q4_K_M"),
        ("qwen2.5-coder-7b-instruct-q4_k_m-00001-of-00002.gguf", "Q4_K_M"),
        ("x.IQ2_XXS.gguf", "IQ2_XXS"),
        ("m-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("BF16/m-00001-of-00003.gguf", "BF16"),
        ("m-fp16.gguf", "F16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("Qwen3-F16-embed-Q4_K_M.gguf", "Q4_K_M"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("model.gguf", None),
        ("QwQ-32B.gguf", None),
    ],
)
def test_the_quantisation_is_read_from_the_name(path: str, label: str | None) -> None:
    assert label_of(path) == label


REPO = _files(
    "README.md", "m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf",
    "mmproj-m-F16.gguf", "imatrix.gguf", "m-F16-00001-of-00002.gguf",
)  # fmt: skip


def test_projectors_matrices_and_incomplete_models_are_no_choice() -> None:
    assert [(model.label, len(model.files)) for model in models_in(REPO)] == [("Q4_K_M", 1), ("Q8_0", 2)]


def test_a_quantisation_means_exactly_that() -> None:
    assert choose(HubRef("a/b", "q8_0"), REPO).model.path == "m-Q8_0-00001-of-00002.gguf"
    assert choose(HubRef("a/b", "m-Q4_K_M.gguf"), REPO).model.label == "Q4_K_M"
    with pytest.raises(SettingError) as caught:
        choose(HubRef("a/b", "Q4_0"), REPO)
    assert str(caught.value) == "a/b has no Q4_0; it has Q4_K_M (1.0 GB), Q8_0 (2.0 GB)."
    with pytest.raises(SettingError, match="has no Q4;"):
        choose(HubRef("a/b", "Q4"), REPO)


def test_without_a_quantisation_the_rule_is_told_or_the_user_is_asked() -> None:
    choice = choose(HubRef("a/b"), REPO)
    assert (choice.model.label, choice.reason) == ("Q4_K_M", "Q4_K_M, one of 2, since none was named")
    only = choose(HubRef("a/b"), _files("x-Q8_0.gguf"))
    assert (only.model.path, only.reason) == ("x-Q8_0.gguf", "Q8_0, the only one")
    with pytest.raises(SettingError, match=r"say which: Q5_0 \(1.0 GB\), Q8_0 \(1.0 GB\)"):
        choose(HubRef("a/b"), _files("x-Q8_0.gguf", "x-Q5_0.gguf"))
    two = _files("x-128k-Q4_K_M.gguf", "x-Q4_K_M.gguf")
    with pytest.raises(SettingError, match=r"2 models of Q4_K_M: name one by its file, a/b:x-128k-Q4_K_M"):
        choose(HubRef("a/b"), two)
    assert choose(HubRef("a/b", "x-Q4_K_M"), two).model.path == "x-Q4_K_M.gguf"
    with pytest.raises(SettingError, match="holds no GGUF"):
        choose(HubRef("a/b"), _files("model.safetensors"))
    with pytest.raises(SettingError, match="might leave the store"):
        choose(HubRef("a/b"), _files("../../evil-Q4_K_M.gguf"))


def test_a_model_that_is_there_whole_and_split_is_taken_whole() -> None:
    """As in Qwen/Qwen2.5-Coder-7B-Instruct-GGUF, which has both forms of several quantisations."""
    files = _files(
        "x-q4_k_m.gguf", "x-q4_k_m-00001-of-00002.gguf", "x-q4_k_m-00002-of-00002.gguf",
        "x-q8_0-00001-of-00002.gguf", "x-q8_0-00002-of-00002.gguf",
    )  # fmt: skip
    for quant in (None, "Q4_K_M", "x-q4_k_m", "x-q4_k_m.gguf"):
        assert choose(HubRef("a/b", quant), files).model.path == "x-q4_k_m.gguf"
    part = "x-q4_k_m-00001-of-00002.gguf"
    assert choose(HubRef("a/b", part), files).model.path == part
    assert choose(HubRef("a/b", "x-q8_0.gguf"), files).model.path == "x-q8_0-00001-of-00002.gguf"
    assert {model.path: name_among(model, models_in(files)) for model in models_in(files)} == {
        "x-q4_k_m.gguf": "Q4_K_M", part: part, "x-q8_0-00001-of-00002.gguf": "Q8_0",
    }  # fmt: skip
    with pytest.raises(SettingError) as caught:
        choose(HubRef("a/b", "Q4_0"), files)
    assert str(caught.value) == "a/b has no Q4_0; it has Q4_K_M (1.0 GB), Q8_0 (2.0 GB)."


def test_the_file_that_an_ambiguous_name_says_to_name_is_found_by_its_path() -> None:
    files = _files("x-Q4_K_M.gguf", "old/x-Q4_K_M.gguf")
    with pytest.raises(
        SettingError, match=r"name one by its file, a/b:old/x-Q4_K_M.gguf or a/b:x-Q4_K_M.gguf"
    ):
        choose(HubRef("a/b", "Q4_K_M"), files)
    for path in ("x-Q4_K_M.gguf", "old/x-Q4_K_M.gguf"):
        assert choose(HubRef("a/b", path), files).model.path == path
