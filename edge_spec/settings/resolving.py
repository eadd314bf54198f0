"""Every setting decided: flags beat variables, these the project's file, this the user's, this defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs

from edge_spec.errors import SettingError
from edge_spec.settings.reading import check_range, parse_file, parse_text, parse_value, read_text
from edge_spec.settings.table import SETTINGS
from edge_spec.settings.values import PROJECT_FILE, Settings, Value, defaults


def user_file() -> Path:
    """The user's own settings file, in the platform's folder for them."""
    return platformdirs.user_config_path("edge-spec") / "config.toml"


def resolve(
    flags: Mapping[str, Any] | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Decide every setting. `flags` holds texts as typed; `config` replaces the user's file."""
    values, keys = defaults(), dict[str, Value]()
    files = []

    def put(name: str, value: Value) -> None:
        values[name] = replace(value, below=values[name])

    if config is not None and not os.path.exists(config):
        raise SettingError(f"The settings file {config} does not exist.")
    for path in (config or user_file(), PROJECT_FILE):
        if os.path.exists(path):
            files.append(path)
            read = parse_file(read_text(path), path)
            for name, value in read.values.items():
                put(name, value)
            keys.update(read.keys)
    for name, row in SETTINGS.items():
        if text := environ.get(row.variable):
            put(name, Value(parse_text(row, text, row.variable), row.variable))
    for name, given in (flags or {}).items():
        if given is not None and given != ():
            flag = f"--{name}"
            put(name, Value(parse_value(SETTINGS[name], given, (str,), flag), flag))
    for name, value in values.items():
        check_range(SETTINGS[name], value)
    return Settings(values, tuple(files), keys, config or user_file())
