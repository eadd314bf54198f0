"""The settings screen shows what decides each value, and writes only what is right."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from textual.widgets import Input, OptionList

from edge_spec import SETTINGS, resolve_settings, save_settings, user_settings_file
from tests.tui.alone import Alone, alone, until
from tui.screens.edit import EditScreen
from tui.screens.settings import SettingsScreen


def highlight(app: Alone, name: str) -> None:
    options = app.screen.query_one(OptionList)
    options.highlighted = options.get_option_index(name)


def row(app: Alone, name: str) -> str:
    """The words of a setting's row."""
    option = app.screen.query_one(OptionList).get_option(name)
    return " ".join(str(option.prompt).split())


def file() -> dict[str, object]:
    return tomllib.loads(user_settings_file().read_text()) if user_settings_file().exists() else {}


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_every_setting_is_shown_by_group_with_value_and_place(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    save_settings({"glyphs": True, "stop": ["a", "b"], "keys": {"stop": ["f8", "ctrl+x"], "copy": []}})
    monkeypatch.setenv("EDGE_SPEC_TOP_K", "7")
    Path("edge-spec.toml").write_text("temp = 0.3")
    async with alone(SettingsScreen(lambda: resolve_settings({"seed": "5"})), size) as (app, pilot):
        await pilot.pause()
        options = app.screen.query_one(OptionList).options
        assert {option.id for option in options if option.id} == set(SETTINGS)
        headings = [str(option.prompt) for option in options if option.disabled]
        assert [text for text in headings if not text.startswith(" ")] == [
            "Chat", "Models", "Drafting", "Text", "Sampling",
        ]  # fmt: skip
        assert row(app, "theme") == "theme -"
        assert row(app, "glyphs") == "glyphs on your file"
        assert row(app, "stop") == 'stop ["a", "b"] your file'
        assert row(app, "top-k") == "top-k 7 EDGE_SPEC_TOP_K"
        assert row(app, "temp") == "temp 0.3 edge-spec.toml"
        assert row(app, "seed") == "seed 5 --seed"
        shown = [" ".join(str(option.prompt).split()) for option in options]
        assert "key of stop f8 ctrl+x your file" in shown and "key of copy - your file" in shown
        assert str(user_settings_file()) in app.text("#settings-file").replace("\n", "")
        assert len(app.text("#settings-keys").splitlines()) == 1


async def test_a_value_is_written_into_the_users_file_and_shown() -> None:
    async with alone(SettingsScreen()) as (app, pilot):
        highlight(app, "temp")
        await pilot.press("enter")
        field = app.screen.query_one(Input)
        assert field.has_focus and field.value == "0.8"
        await pilot.press(*"0.25", "enter")  # what stood there is marked, so typing replaces it
        assert file() == {"temp": 0.25}
        assert row(app, "temp") == "temp 0.25 your file"
        assert app.screen.query_one(OptionList).has_focus
        await pilot.press("escape")
        assert app.results == [True]


async def test_a_wrong_value_is_said_and_can_be_put_right() -> None:
    async with alone(SettingsScreen()) as (app, pilot):
        highlight(app, "top-k")
        await pilot.press("enter", "x", "enter")
        await pilot.pause()
        assert "top-k is 'x', but it must be a whole number." in app.text("#settings-about")
        assert app.screen.query_one(Input).has_focus and file() == {}
        await pilot.press("backspace", "7", "enter")
        assert file() == {"top-k": 7}


async def test_what_does_not_go_together_is_said() -> None:
    async with alone(SettingsScreen()) as (app, pilot):
        highlight(app, "draft-min")
        await pilot.press("enter", "9", "9", "enter")
        await pilot.pause()
        assert "draft-min is 99, but it must be from 0 to draft-max (32)." in app.text("#settings-about")
        assert file() == {}


async def test_escape_leaves_the_value_then_the_screen() -> None:
    async with alone(SettingsScreen()) as (app, pilot):
        highlight(app, "temp")
        await pilot.press("enter", "9", "escape")
        assert app.results == [] and app.screen.query_one(OptionList).has_focus
        assert "Temperature" in app.text("#settings-about")
        await pilot.press("escape")
        assert app.results == [False] and file() == {}


async def test_space_goes_through_the_choices_and_beeps_where_there_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with alone(SettingsScreen()) as (app, pilot):
        highlight(app, "glyphs")
        await pilot.press("space")
        assert file() == {"chat": {"glyphs": True}}
        await pilot.press("space")
        assert file() == {"chat": {"glyphs": False}}
        highlight(app, "coupling")
        await pilot.press("space", "space")
        assert file()["coupling"] == "shared"
        bells: list[None] = []
        monkeypatch.setattr(app, "bell", lambda: bells.append(None))
        highlight(app, "temp")
        await pilot.press("space")
        assert len(bells) == 1 and "temp" not in file()


async def test_space_and_delete_belong_to_the_field_while_a_value_is_written() -> None:
    async with alone(SettingsScreen()) as (app, pilot):
        highlight(app, "model")
        await pilot.press("enter", *"my", "space", *"modelx", "left", "delete", "enter")
        assert file() == {"model": "my model"}


async def test_delete_takes_a_value_out_of_the_file() -> None:
    save_settings({"temp": 0.1, "glyphs": True})
    async with alone(SettingsScreen()) as (app, pilot):
        highlight(app, "temp")
        await pilot.press("delete")
        assert file() == {"chat": {"glyphs": True}} and row(app, "temp") == "temp 0.8"
        highlight(app, "glyphs")
        await pilot.press("enter", "backspace", "enter")
        assert file() == {"chat": {}}


@pytest.mark.parametrize(
    ("flags", "variable", "project", "words"),
    [
        ({"temp": "0.5"}, "0.6", "temp = 0.7", "The option --temp of this run decides it"),
        ({}, "0.6", "temp = 0.7", "The variable EDGE_SPEC_TEMP decides it"),
        ({}, "", "temp = 0.7", "The file edge-spec.toml in this folder decides it"),
    ],
)
async def test_what_beats_the_file_is_named_and_the_file_is_written_all_the_same(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, str], variable: str, project: str, words: str
) -> None:
    monkeypatch.setenv("EDGE_SPEC_TEMP", variable)
    Path("edge-spec.toml").write_text(project)
    async with alone(SettingsScreen(lambda: resolve_settings(flags))) as (app, pilot):
        highlight(app, "temp")
        await pilot.pause()
        about = app.text("#settings-about").replace("\n", " ")
        assert f"{words}: a value that is saved here holds where that says nothing." in about
        before = row(app, "temp")
        await pilot.press("enter", *"0.1", "enter")
        assert file() == {"temp": 0.1} and row(app, "temp") == before


async def test_the_system_prompt_gets_an_editor_of_several_lines() -> None:
    async with alone(SettingsScreen()) as (app, pilot):
        highlight(app, "system")
        await pilot.press("enter")
        assert isinstance(app.screen, EditScreen)
        await pilot.press(*"Be", "enter", *"kind", "ctrl+s")
        await pilot.pause()
        assert file() == {"system": "Be\nkind"} and row(app, "system") == "system Be␊kind your file"
        await pilot.press("enter", "escape")
        assert file() == {"system": "Be\nkind"}


async def test_a_theme_is_shown_at_once_and_an_unknown_one_refused() -> None:
    async with alone(SettingsScreen()) as (app, pilot):
        highlight(app, "theme")
        await pilot.press("enter", *"norb", "enter")
        await pilot.pause()
        assert "There is no theme 'norb'; did you mean 'nord'?" in app.text("#settings-about")
        await pilot.press("backspace", "d", "enter")
        assert app.theme == "nord" and file() == {"chat": {"theme": "nord"}}
        await pilot.press("space")
        assert app.theme != "nord" and file() == {"chat": {"theme": app.theme}}


async def test_another_file_in_the_place_of_the_users_is_the_one_that_is_written(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.touch()
    async with alone(SettingsScreen(lambda: resolve_settings(config=other))) as (app, pilot):
        assert "other.toml" in app.text("#settings-file").replace("\n", "")
        highlight(app, "glyphs")
        await pilot.press("space")
        assert other.read_text() == "[chat]\nglyphs = true\n" and file() == {}


async def test_a_broken_file_is_said_and_not_touched() -> None:
    user_settings_file().parent.mkdir(parents=True)
    user_settings_file().write_text("temp = ")
    async with alone(SettingsScreen()) as (app, pilot):
        await until(pilot, lambda: "is not TOML" in app.text("#settings-about").replace("\n", " "))
        await pilot.press("enter", "space", "delete", "down")
        await pilot.press("escape")
        assert app.results == [False]
    assert user_settings_file().read_text() == "temp = "


async def test_a_file_that_cannot_be_written_is_said() -> None:
    user_settings_file().parent.parent.mkdir(parents=True)
    user_settings_file().parent.touch()  # a file where the folder should be
    async with alone(SettingsScreen()) as (app, pilot):
        highlight(app, "glyphs")
        await pilot.press("space")
        await until(pilot, lambda: "cannot be written" in app.text("#settings-about").replace("\n", " "))
        await pilot.press("escape")
        assert app.results == [False]
