"""`edge-spec config path` and `config show`: where settings come from."""

from __future__ import annotations

import click

from edge_spec.cli.options import SettingsCommand, chat_settings_options, resolve_settings
from edge_spec.cli.output import print_json, table
from edge_spec.settings import KEYS, SETTINGS


@click.group("config")
def command() -> None:
    """Where settings come from.

    A flag beats EDGE_SPEC_* variables, which beat ./edge-spec.toml, which beats the user's file,
    which beats the default. Keys are the long option names: temp = 0.2, ctx-size = 8192. Those of
    the chat's screen stand in the table [chat], and [keys] gives its actions other keys.
    """


@command.command("path")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def path(as_json: bool) -> None:
    """The settings files, and whether they are there."""
    from edge_spec.settings import PROJECT_FILE, user_file

    files = {"project": PROJECT_FILE.absolute(), "user": user_file()}
    if as_json:
        print_json({name: {"path": file, "exists": file.exists()} for name, file in files.items()})
        return
    table(
        [["file", "", "path"]]
        + [[name, "found" if file.exists() else "none", str(file)] for name, file in files.items()]
    )


@command.command("show", cls=SettingsCommand)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@chat_settings_options
@click.pass_context
def show(ctx: click.Context, config_file: str | None, as_json: bool) -> None:
    """Every setting's value and where it came from; takes the options that chat takes."""
    settings = resolve_settings(ctx, config_file)
    keys = {f"{KEYS}.{action}": value for action, value in settings.keys.items()}
    if as_json:
        values = {**settings.values, **keys}
        print_json({name: {"value": v.value, "origin": v.origin} for name, v in values.items()})
        return
    rows = []
    for name, found in settings.values.items():
        row = SETTINGS[name]
        rows.append([row.key, row.text(found.value), found.origin])
    rows += [[action, " ".join(found.value), found.origin] for action, found in keys.items()]
    table([["setting", "value", "from"]] + [[name, text or "-", origin] for name, text, origin in rows])
