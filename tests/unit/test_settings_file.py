"""The settings file: the tables of the chat, and writing it without harm to what a person wrote."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from edge_spec.errors import OutputError, SettingError
from edge_spec.settings import SETTINGS, Value, resolve
from edge_spec.settings.writing import save_settings

OWN = """\
# Mine.
temp = 0.2  # cool
stop = ["a"]

# How it looks.
[chat]
theme = "nord" # blue

[keys]
stop = "f8"
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, which does not exist yet; the project has none."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    own = tmp_path / "config" / "config.toml"
    monkeypatch.setattr("platformdirs.user_config_path", lambda _name: own.parent)
    return own


def write(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- reading


def test_the_chats_settings_stand_in_their_table_and_have_variables_without_it(file: Path) -> None:
    write(file, '[chat]\ntheme = "nord"\nglyphs = true\nrejected = "off"\ninspect = 20')
    found = resolve(environ={"EDGE_SPEC_RENDERED": "Yes", "EDGE_SPEC_INSPECT": "3"})
    values = {name: found[name] for name in ("theme", "glyphs", "rejected", "rendered", "inspect")}
    assert values == {"theme": "nord", "glyphs": True, "rejected": False, "rendered": True, "inspect": 3}
    assert (found.origin("glyphs"), found.origin("rendered")) == (str(file), "EDGE_SPEC_RENDERED")
    assert resolve({"glyphs": "off"}, environ={})["glyphs"] is False


def test_a_record_of_an_answer_has_nothing_that_only_a_screen_shows() -> None:
    plain = resolve(environ={}).plain()
    assert "temp" in plain and not {"theme", "glyphs", "rejected", "rendered", "inspect"} & plain.keys()


def test_keys_of_the_project_are_added_to_the_users_action_by_action(file: Path) -> None:
    write(file, '[keys]\nstop = "f8"\ncopy = ["ctrl+y", "f9"]\nhelp = []')
    Path("edge-spec.toml").write_text('[keys]\nstop = "ctrl+x"')
    assert resolve(environ={}).keys == {
        "stop": Value(("ctrl+x",), "edge-spec.toml"),
        "copy": Value(("ctrl+y", "f9"), str(file)),
        "help": Value((), str(file)),
    }


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("theme = 'nord'", "theme belongs in the table [chat] of edge-spec.toml."),
        ("[chat]\ntemp = 1", "temp belongs above the first table of edge-spec.toml."),
        ("[chat]\nglyhps = true", "edge-spec.toml has the unknown key 'glyhps'; did you mean 'glyphs'?"),
        ("[chat]\nglyphs = 1", "chat.glyphs in edge-spec.toml is 1, but it must be on or off."),
        ("[chat]\nglyphs = 'maybe'", "chat.glyphs in edge-spec.toml is 'maybe', but it must be on or off."),
        (
            "[chat]\ninspect = 21",
            "chat.inspect in edge-spec.toml is 21, but it must be a whole number from 0 to 20.",
        ),
        (
            "[chat]\ninspect = true",
            "chat.inspect in edge-spec.toml is True, but it must be a whole number from 0 to 20.",
        ),
        ("chat = 1", "edge-spec.toml has the unknown key 'chat'."),
        ("keys = 1", 'keys in edge-spec.toml is 1, but it must be a table of actions, like stop = "f8".'),
        *(
            (
                f"[keys]\nstop = {bad}",
                f"keys.stop in edge-spec.toml is {shown}, "
                'but it must be a key like "ctrl+r", or a list of them.',
            )
            for bad, shown in (("1", "1"), ("''", "''"), ("'a, b'", "'a, b'"), ("['a', 2]", "['a', 2]"))
        ),
    ],
)
def test_a_bad_table_is_refused_with_file_and_key(toml: str, message: str) -> None:
    Path("edge-spec.toml").write_text(toml)
    with pytest.raises(SettingError) as caught:
        resolve(environ={})
    assert str(caught.value) == message


@pytest.mark.parametrize("name", SETTINGS)
def test_the_text_of_a_value_is_read_back_as_that_value(name: str) -> None:
    row = SETTINGS[name]
    examples: dict[str, Any] = {
        "stop": ("[a]", '"\n'), "logit-bias": ((3, 1.5), (4, float("-inf"))),
        "system": "a\nb", "glyphs": True,
    }  # fmt: skip
    value = examples.get(name, row.default)
    text = row.text(value)
    if not text:
        assert value in (None, ())
    else:
        assert resolve(environ={row.variable: text})[name] == value


# -- writing


def test_saving_keeps_comments_and_order_and_what_was_not_asked_for(file: Path) -> None:
    write(file, OWN)
    save_settings({"temp": 0.5, "top-k": 7, "glyphs": True, "keys": {"copy": ["f9", "f10"]}})
    assert (
        file.read_text()
        == """\
# Mine.
temp = 0.5  # cool
stop = ["a"]
top-k = 7

# How it looks.
[chat]
theme = "nord" # blue
glyphs = true

[keys]
stop = "f8"
copy = ["f9", "f10"]
"""
    )


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ("", {"temp": 1}, "temp = 1.0\n"),
        ("temp = 1", {"top-k": 2}, "temp = 1\ntop-k = 2\n"),
        ("# My file.\n\n[chat]\n", {"temp": 1}, "# My file.\n\ntemp = 1.0\n\n[chat]\n"),
        ("# The chat.\n[chat]\n", {"temp": 1}, "temp = 1.0\n\n# The chat.\n[chat]\n"),
        ("# My file.\n", {"temp": 1}, "# My file.\ntemp = 1.0\n"),
        ("temp = 1\n", {"glyphs": True}, "temp = 1\n\n[chat]\nglyphs = true\n"),
        ("[chat]\n# none\n\n[keys]\n", {"glyphs": True}, "[chat]\nglyphs = true\n# none\n\n[keys]\n"),
        (
            'system = """\n[chat]\n"""\n# end\n[chat]\n',
            {"temp": 1},
            'system = """\n[chat]\n"""\ntemp = 1.0\n# end\n[chat]\n',
        ),
        ("temp = 1\r\n[keys]\r\n", {"top-k": 2}, "temp = 1\r\ntop-k = 2\r\n[keys]\r\n"),
    ],
)
def test_a_new_value_stands_with_those_of_its_table(
    file: Path, before: str, changes: dict[str, Any], after: str
) -> None:
    write(file, before)
    save_settings(changes)
    assert file.read_bytes().decode() == after


@pytest.mark.parametrize(
    "before", ["chat = { rendered = true } # x\n", "temp = 1\nchat.rendered = true # x\n"]
)
def test_a_table_may_be_written_in_any_way_that_toml_has(file: Path, before: str) -> None:
    write(file, before)
    save_settings({"glyphs": True, "top-k": 2})
    assert resolve(environ={})["glyphs"] is resolve(environ={})["rendered"] is True
    assert resolve(environ={})["top-k"] == 2 and "# x" in file.read_text()


def test_a_file_is_made_with_its_folder(file: Path) -> None:
    save_settings({"glyphs": True, "temp": 0, "keys": {"stop": "f8"}})
    assert tomllib.loads(file.read_text()) == {"temp": 0.0, "chat": {"glyphs": True}, "keys": {"stop": "f8"}}
    found = resolve(environ={})
    assert (found["temp"], found["glyphs"], found.keys["stop"].value) == (0.0, True, ("f8",))


def test_none_takes_a_key_out_wherever_it_stands(file: Path) -> None:
    write(file, OWN)
    save_settings(
        {"temp": None, "theme": None, "top-k": None, "rendered": None, "keys": {"stop": None, "x": None}}
    )
    assert tomllib.loads(file.read_text()) == {"stop": ["a"], "chat": {}, "keys": {}}
    assert "# Mine." in file.read_text() and "# How it looks." in file.read_text()
    save_settings({"stop": None, "keys": {"copy": None}}, file.with_name("other.toml"))
    assert file.with_name("other.toml").read_text() == ""


@pytest.mark.parametrize(
    ("name", "given", "written"),
    [
        ("temp", "0.25", 0.25),
        ("temp", 1, 1.0),
        ("top-k", "7", 7),
        ("glyphs", "off", False),
        ("stop", "###", ["###"]),
        ("stop", '["a", "[b]"]', ["a", "[b]"]),
        ("stop", ["\n\n"], ["\n\n"]),
        ("logit-bias", "15043-inf", ["15043-inf"]),
        ("logit-bias", ["15043+1"], ["15043+1.0"]),
        ("system", "Be brief.\nBe kind.\n", "Be brief.\nBe kind.\n"),
        ("cache-type-k", "q8_0", "q8_0"),
    ],
)
def test_a_value_may_be_that_of_a_file_or_the_text_of_a_variable(
    file: Path, name: str, given: object, written: object
) -> None:
    save_settings({name: given})
    row, table = SETTINGS[name], tomllib.loads(file.read_text())
    assert (table[row.table] if row.table else table) == {name: written}


def test_several_lines_stay_several_lines(file: Path) -> None:
    save_settings({"system": 'Be brief.\n"""Be kind."""'})
    assert len(file.read_text().splitlines()) == 2


@given(text=st.text(st.characters(exclude_categories=("Cs",))))
def test_any_text_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    own = tmp_path_factory.getbasetemp() / "any.toml"
    save_settings({"system": text, "stop": [text or "x"], "glyphs": True}, own)
    found = resolve(config=own, environ={})
    assert (found["system"], found["stop"]) == (text, (text or "x",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tmep": 1}, "There is no setting 'tmep'; did you mean 'temp'?"),
        ({"temp": "hot"}, "temp is 'hot', but it must be a number."),
        ({"temp": True}, "temp is True, but it must be a number."),
        ({"glyphs": "maybe"}, "glyphs is 'maybe', but it must be on or off."),
        ({"stop": "[1"}, "stop is '[1', which is no JSON list."),
        ({"temp": -1}, "temperature is -1.0, but it must be 0 or more (temp in {file})."),
        ({"draft-min": 33}, "draft-min is 33, but it must be from 0 to draft-max (32)."),
        (
            {"flash-attn": "off", "cache-type-v": "q8_0"},
            "kv-type-v is q8_0, but it must be f32, f16 or bf16 without flash attention.",
        ),
        (
            {"keys": {"stop": "a b"}},
            "keys.stop in {file} is 'a b', but it must be a key like \"ctrl+r\", or a list of them.",
        ),
    ],
)
def test_nothing_is_written_of_a_change_that_would_be_refused(
    file: Path, changes: dict[str, Any], message: str
) -> None:
    write(file, OWN)
    with pytest.raises(SettingError) as caught:
        save_settings({"top-k": 9, **changes})
    assert str(caught.value) == message.format(file=file)
    assert file.read_text() == OWN
    assert names(file.parent) == ["config.toml"]


def test_a_file_that_is_broken_already_is_refused_and_left_alone(file: Path) -> None:
    for broken in ("temp = ", "tmep = 1", "[keys]\nstop = 1"):
        write(file, broken)
        with pytest.raises(SettingError, match=str(file)):
            save_settings({"temp": 1})
        assert file.read_text() == broken


def test_line_ends_mode_and_link_stay_what_they_are(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    write(real, "# a\r\ntemp = 1.0\r\n\r\n[chat]\r\n")
    real.chmod(0o640)
    file.parent.mkdir()
    file.symlink_to(real)
    save_settings({"temp": 2})
    assert file.is_symlink() and real.read_bytes() == b"# a\r\ntemp = 2.0\r\n\r\n[chat]\r\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert names(tmp_path) == ["config", "dotfiles.toml", "project"]


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"^The settings file .* cannot be written: .*\.$"):
        save_settings({"temp": 1}, tmp_path / "file" / "config.toml")


def test_a_write_that_fails_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    write(file, OWN)
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        save_settings({"temp": 1})
    assert file.read_text() == OWN and names(file.parent) == ["config.toml"]


# -- on the command line


def test_run_takes_nothing_that_only_the_chat_shows_and_config_show_does() -> None:
    from edge_spec.cli import config, run

    def options(command: click.Command) -> set[str]:
        return {flag for param in command.params for flag in param.opts}

    chat = {f"--{name}" for name, row in SETTINGS.items() if row.chat_only}
    assert chat == {"--theme", "--glyphs", "--rejected", "--rendered", "--inspect"}
    assert "--temp" in options(run.command) and not chat & options(run.command)
    assert chat < options(config.command.commands["show"])


def test_config_show_has_the_chats_settings_and_keys_with_their_places(file: Path) -> None:
    from edge_spec.cli import config

    write(file, OWN)
    shown = CliRunner().invoke(config.command, ["show", "--glyphs", "yes"])
    rows = [line.split() for line in shown.output.splitlines()]
    assert ["chat.theme", "nord", str(file)] in rows
    assert ["chat.glyphs", "on", "--glyphs"] in rows
    assert ["keys.stop", "f8", str(file)] in rows
    assert ["stop", '["a"]', str(file)] in rows
    found = json.loads(CliRunner().invoke(config.command, ["show", "--json"]).output)
    assert found["keys.stop"] == {"value": ["f8"], "origin": str(file)}
    assert found["glyphs"] == {"value": False, "origin": "default"}
