"""A flag beats the environment, which beats the project, which beats the user, which beats the default."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_spec.config import Decoding, Sampling
from edge_spec.errors import SettingError
from edge_spec.settings import SETTINGS, resolve


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project folder as working directory, and a user file of our own."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setattr("platformdirs.user_config_path", lambda _name: tmp_path)
    return tmp_path


def test_each_place_beats_the_ones_below_it(places: Path) -> None:
    def temp(flags: dict[str, str], environ: dict[str, str]) -> tuple[float, str]:
        found = resolve(flags, environ=environ)
        return found["temp"], found.origin("temp")

    assert temp({}, {}) == (0.8, "default")
    (places / "config.toml").write_text("temp = 0.1")
    assert temp({}, {}) == (0.1, str(places / "config.toml"))
    Path("edge-spec.toml").write_text("temp = 1")
    assert temp({}, {}) == (1.0, "edge-spec.toml")
    assert temp({}, {"EDGE_SPEC_TEMP": "0.3"}) == (0.3, "EDGE_SPEC_TEMP")
    assert temp({"temp": "0.4"}, {"EDGE_SPEC_TEMP": "0.3"}) == (0.4, "--temp")


def test_places_have_ranks(places: Path) -> None:
    def rank(flags: dict[str, str], environ: dict[str, str]) -> int:
        return resolve(flags, environ=environ).rank("temp")

    ranks = [rank({}, {})]
    (places / "config.toml").write_text("temp = 0.1")
    ranks.append(rank({}, {}))
    Path("edge-spec.toml").write_text("temp = 1")
    ranks += [rank({}, {}), rank({}, {"EDGE_SPEC_TEMP": "0.3"}), rank({"temp": "0.4"}, {})]
    assert ranks == [0, 1, 2, 3, 4]


def test_config_replaces_the_users_file(places: Path) -> None:
    (places / "config.toml").write_text("temp = 0.1\ntop-k = 5")
    other = places / "other.toml"
    other.write_text("temp = 0.2")
    found = resolve(config=other, environ={})
    assert (found["temp"], found["top-k"], found.files) == (0.2, 40, (other,))
    with pytest.raises(SettingError, match=r"nowhere\.toml does not exist"):
        resolve(config=places / "nowhere.toml")


def test_the_defaults_are_those_of_the_settings_classes() -> None:
    found = resolve(environ={})
    assert found.sampling() == Sampling()
    assert found.decoding() == Decoding()


def test_every_value_reaches_its_field() -> None:
    flags = {"temp": "0", "top-k": "7", "logit-bias": ("3+1.5", "4-inf"), "repeat-last-n": "-1"}
    assert resolve(flags, environ={}).sampling() == Sampling(
        temperature=0.0, top_k=7, logit_bias=((3, 1.5), (4, float("-inf"))), penalty_last_n=-1
    )
    flags = {"draft-max": "5", "draft-min": "4", "seed": "9", "stop": ("a", "b"), "coupling": "rejection"}
    assert resolve(flags, environ={}).decoding() == Decoding(
        draft_max=5, draft_min=4, seed=9, stop=("a", "b"), coupling="rejection"
    )


def test_no_drafter_is_plain_decoding() -> None:
    assert resolve({"drafter": "none", "draft-min": "2"}, environ={}).decoding() == Decoding(draft_max=0)


FILE_AND_FLAGS: list[tuple[str, dict[str, str], Decoding]] = [
    ('drafter = "none"', {"draft-max": "5"}, Decoding(draft_max=5)),
    ('drafter = "auto"', {"draft-max": "5"}, Decoding(draft_max=5)),
    ('drafter = "ngram"', {"draft-max": "5"}, Decoding(draft_max=5, drafter="ngram")),
    ('drafter = "auto"', {"draft-max": "0"}, Decoding(draft_max=0)),
    ("draft-max = 5", {"drafter": "none"}, Decoding(draft_max=0)),
    ("draft-max = 5", {"drafter": "auto"}, Decoding(draft_max=5, drafter="auto")),
    ("draft-max = 0", {"drafter": "ngram"}, Decoding(drafter="ngram")),
    ("draft-max = 0", {"drafter": "auto"}, Decoding()),
    ('drafter = "none"\ndraft-max = 5', {}, Decoding(draft_max=0)),
    ('drafter = "auto"\ndraft-max = 5', {}, Decoding(draft_max=5, drafter="auto")),
    ("", {"drafter": "auto", "draft-max": "5"}, Decoding(draft_max=5, drafter="auto")),
    ("", {"drafter": "draft", "draft-max": "0"}, Decoding(draft_max=0)),
    ("draft-min = 4", {"draft-max": "2"}, Decoding(draft_max=2, draft_min=2)),
]


@pytest.mark.parametrize(("toml", "flags", "decoding"), FILE_AND_FLAGS)
def test_of_settings_that_meet_the_one_said_in_the_higher_place_decides(
    toml: str, flags: dict[str, str], decoding: Decoding
) -> None:
    Path("edge-spec.toml").write_text(toml)
    assert resolve(flags, environ={}).decoding() == decoding


def test_lists_come_from_files_and_the_environment() -> None:
    Path("edge-spec.toml").write_text('stop = ["x", "[y]"]\nlogit-bias = "5+1"')
    found = resolve(environ={})
    assert (found["stop"], found["logit-bias"]) == (("x", "[y]"), ((5, 1.0),))
    assert resolve(environ={"EDGE_SPEC_STOP": "###"})["stop"] == ("###",)
    assert resolve(environ={"EDGE_SPEC_STOP": '["a", "b"]'})["stop"] == ("a", "b")


def test_an_empty_variable_counts_as_unset() -> None:
    assert resolve(environ={"EDGE_SPEC_TEMP": ""}).origin("temp") == "default"


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("tmep = 1", "edge-spec.toml has the unknown key 'tmep'; did you mean 'temp'?"),
        ("top_k = 1", "edge-spec.toml has the unknown key 'top_k'; did you mean 'top-k'?"),
        ("[sampling]\ntemp = 1", "edge-spec.toml has the unknown key 'sampling'."),
        ("temp = 'hot'", "temp in edge-spec.toml is 'hot', but it must be a number."),
        ("top-k = true", "top-k in edge-spec.toml is True, but it must be a whole number."),
        ("top-k = 1.5", "top-k in edge-spec.toml is 1.5, but it must be a whole number."),
        ("stop = [1]", "stop in edge-spec.toml is 1, but it must be text, or a list of texts."),
        (
            "coupling = 'best'",
            "coupling in edge-spec.toml is 'best', but it must be one of rejection, shared.",
        ),
        ("temp = -1", "temperature is -1.0, but it must be 0 or more (temp in edge-spec.toml)."),
        ("temp =", "The settings file edge-spec.toml is not TOML: Invalid value (at end of document)."),
    ],
)
def test_a_bad_file_is_refused_with_file_and_key(toml: str, message: str) -> None:
    Path("edge-spec.toml").write_text(toml)
    with pytest.raises(SettingError) as caught:
        resolve(environ={})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"EDGE_SPEC_TOP_K": "x"}, "EDGE_SPEC_TOP_K is 'x', but it must be a whole number."),
        ({"EDGE_SPEC_STOP": "[1]"}, "EDGE_SPEC_STOP is 1, but it must be text, or a list of texts."),
        (
            {"EDGE_SPEC_TOP_P": "2"},
            "top-p is 2.0, but it must be above 0 and at most 1 (1 is off) (EDGE_SPEC_TOP_P).",
        ),
    ],
)
def test_a_bad_variable_is_refused_by_name(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        resolve(environ=environ)
    assert str(caught.value) == message


def test_names_and_flags_are_unique() -> None:
    flags = [flag for row in SETTINGS.values() for flag in row.flags]
    assert len(flags) == len(set(flags))
