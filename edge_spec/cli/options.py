"""The options that commands share, made from the table of settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from edge_spec.paths import user_path
from edge_spec.settings import CHAT, SETTINGS, Setting, Settings, resolve

_FLAGS = "edge_spec.flags"

_SYNONYMS: Final = {"n-predict": "max-tokens", "temperature": "temp"}
"""Names that options have in llama.cpp and elsewhere; they are understood and not shown."""

_GROUPS: Final = ("Options", "Text", "Sampling", "Models", "Drafting", CHAT, "Memory and threads")
"""The order of groups in a help, the most used first."""

_NAMES: Final = ("model", "draft-model", "hf-repo", "hf-repo-draft", "pair")
"""What is shown as of models; the others of that group stand last."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _param(name: str) -> str:
    return "setting_" + name.replace("-", "_")


def _help(row: Setting) -> str:
    default = row.text(row.default)
    return f"{row.help} [{default}]" if default else row.help


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """A callback that keeps a flag's text for `resolve_settings`, out of the command's arguments."""

    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        ctx.meta.setdefault(_FLAGS, {})[name] = value

    return callback


def settings_options(function: Function) -> Function:
    """Add an option for every setting of a generation, and --config.

    Values stay text until `resolve`, which gives flags, variables and files the same errors.
    """
    return _add_options(function, [row for row in SETTINGS.values() if not row.chat_only])


def chat_settings_options(function: Function) -> Function:
    """Add what `settings_options` adds, and an option for every setting of the chat's screen."""
    return _add_options(function, list(SETTINGS.values()))


def _add_options(function: Function, rows: Sequence[Setting]) -> Function:
    config = click.option(
        "--config", "config_file", metavar="FILE", help="Settings file instead of the user's."
    )
    function = config(function)
    for row in reversed(rows):
        option = click.option(
            *row.flags, f"--{row.name}", _param(row.name),
            metavar=row.metavar, help=_help(row), multiple=row.kind.many, default=None,
            expose_value=False, callback=_keep(row.name),
        )  # fmt: skip
        function = option(function)
    return function


def _group(row: Setting) -> str:
    return _GROUPS[-1] if row.group == "Models" and row.name not in _NAMES else row.group


class SettingsCommand(click.Command):
    """A command with settings: its help shows them by group."""

    def __init__(
        self, name: str | None, context_settings: Mapping[str, Any] | None = None, **attributes: Any
    ) -> None:
        names = {"token_normalize_func": lambda name: _SYNONYMS.get(name, name)}
        super().__init__(name, {**names, **(context_settings or {})}, **attributes)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in _GROUPS}
        names = {_param(row.name): _group(row) for row in SETTINGS.values()}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                groups[names.get(param.name or "", "Options")].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records, col_max=34)


def resolve_settings(ctx: click.Context, config_file: str | None) -> Settings:
    """Decide every setting from the flags of this command and the places below them."""
    return resolve(ctx.meta[_FLAGS], config=user_path(config_file) if config_file else None)
