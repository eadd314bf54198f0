"""Lossless speculative decoding on one person's machine.

`load_pair` is the way in; `import edge_spec` itself loads neither numpy nor llama.cpp. User
interfaces run the engine in a process of its own through `EngineHost`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge_spec.api import load_pair
    from edge_spec.cli.options import (
        SettingsCommand,
        chat_settings_options,
    )
    from edge_spec.cli.options import (
        resolve_settings as command_settings,
    )
    from edge_spec.cli.prepare import chosen_models
    from edge_spec.config import Decoding, ModelSettings, Sampling
    from edge_spec.conversation import History
    from edge_spec.errors import (
        Cancelled,
        EdgeSpecError,
        EngineCrashedError,
        PromptTooLongError,
        SettingError,
        UsageError,
    )
    from edge_spec.events import (
        Alternative,
        Alternatives,
        Calibrating,
        Drafted,
        Event,
        Finished,
        Inspected,
        Notice,
        Prefilled,
        RoundTimings,
        Started,
        Verified,
    )
    from edge_spec.forge.process import (
        ForgeRequest,
        ForgeResult,
        ForgeStatus,
        ForgeStep,
        forge_draft,
    )
    from edge_spec.forge.running import running_options
    from edge_spec.host import ChatRequest, EngineHost, Loading, PairInfo, PairSpec
    from edge_spec.models.job import disk_usage
    from edge_spec.models.library import (
        CataloguePair,
        DraftChoice,
        InstalledModel,
        PairEstimate,
        PullPreview,
        check_models,
        drafts_for,
        estimate_pair,
        found_models,
        preview_pull,
        pull_models,
    )
    from edge_spec.models.library import (
        catalogue_pairs as catalogue,
    )
    from edge_spec.models.library import (
        installed as list_models,
    )
    from edge_spec.models.resolve import is_missing
    from edge_spec.models.store import store_path
    from edge_spec.pair import Answer, Pair
    from edge_spec.paths import user_path
    from edge_spec.settings import (
        SETTINGS,
        Setting,
        Settings,
        Value,
    )
    from edge_spec.settings import (
        resolve as resolve_settings,
    )
    from edge_spec.settings import (
        user_file as user_settings_file,
    )
    from edge_spec.settings.writing import save_settings
    from edge_spec.sizes import count_text, size_text
    from edge_spec.stats import Stats
    from edge_spec.terminal import harmless
    from edge_spec.text import Detokenizer, TextStream
    from edge_spec.trace import TraceHeader, TraceReader, TraceWriter
    from edge_spec.types import Fate, FinishReason, Message, Origin, Proposal, Verdict

_HOME = {
    "Alternative": "events",
    "Alternatives": "events",
    "Calibrating": "events",
    "Answer": "pair",
    "Cancelled": "errors",
    "CataloguePair": "models.library",
    "ChatRequest": "host",
    "Decoding": "config",
    "Detokenizer": "text",
    "DraftChoice": "models.library",
    "Drafted": "events",
    "EdgeSpecError": "errors",
    "EngineCrashedError": "errors",
    "EngineHost": "host",
    "Event": "events",
    "Fate": "types",
    "FinishReason": "types",
    "Finished": "events",
    "ForgeRequest": "forge.process",
    "ForgeResult": "forge.process",
    "ForgeStatus": "forge.process",
    "ForgeStep": "forge.process",
    "History": "conversation",
    "Inspected": "events",
    "InstalledModel": "models.library",
    "Loading": "host",
    "Message": "types",
    "ModelSettings": "config",
    "Notice": "events",
    "Origin": "types",
    "Pair": "pair",
    "PairEstimate": "models.library",
    "PairInfo": "host",
    "PairSpec": "host",
    "Prefilled": "events",
    "PromptTooLongError": "errors",
    "Proposal": "types",
    "PullPreview": "models.library",
    "RoundTimings": "events",
    "SETTINGS": "settings",
    "Sampling": "config",
    "Setting": "settings",
    "SettingError": "errors",
    "Settings": "settings",
    "SettingsCommand": "cli.options",
    "Started": "events",
    "Stats": "stats",
    "TextStream": "text",
    "TraceHeader": "trace",
    "TraceReader": "trace",
    "TraceWriter": "trace",
    "UsageError": "errors",
    "Value": "settings",
    "Verdict": "types",
    "Verified": "events",
    "catalogue": "models.library",
    "chat_settings_options": "cli.options",
    "check_models": "models.library",
    "chosen_models": "cli.prepare",
    "command_settings": "cli.options",
    "count_text": "sizes",
    "disk_usage": "models.job",
    "drafts_for": "models.library",
    "estimate_pair": "models.library",
    "forge_draft": "forge.process",
    "found_models": "models.library",
    "harmless": "terminal",
    "is_missing": "models.resolve",
    "list_models": "models.library",
    "load_pair": "api",
    "preview_pull": "models.library",
    "pull_models": "models.library",
    "resolve_settings": "settings",
    "running_options": "forge.running",
    "save_settings": "settings.writing",
    "size_text": "sizes",
    "store_path": "models.store",
    "user_path": "paths",
    "user_settings_file": "settings",
}
"""The module below edge_spec that each public name is from."""

_NAME_AT_HOME = {
    "catalogue": "catalogue_pairs",
    "command_settings": "resolve_settings",
    "list_models": "installed",
    "resolve_settings": "resolve",
    "user_settings_file": "user_file",
}
"""What a public name is called there, if otherwise: there its module says what it is about."""

__all__ = [
    "SETTINGS",
    "Alternative",
    "Alternatives",
    "Answer",
    "Calibrating",
    "Cancelled",
    "CataloguePair",
    "ChatRequest",
    "Decoding",
    "Detokenizer",
    "DraftChoice",
    "Drafted",
    "EdgeSpecError",
    "EngineCrashedError",
    "EngineHost",
    "Event",
    "Fate",
    "FinishReason",
    "Finished",
    "ForgeRequest",
    "ForgeResult",
    "ForgeStatus",
    "ForgeStep",
    "History",
    "Inspected",
    "InstalledModel",
    "Loading",
    "Message",
    "ModelSettings",
    "Notice",
    "Origin",
    "Pair",
    "PairEstimate",
    "PairInfo",
    "PairSpec",
    "Prefilled",
    "PromptTooLongError",
    "Proposal",
    "PullPreview",
    "RoundTimings",
    "Sampling",
    "Setting",
    "SettingError",
    "Settings",
    "SettingsCommand",
    "Started",
    "Stats",
    "TextStream",
    "TraceHeader",
    "TraceReader",
    "TraceWriter",
    "UsageError",
    "Value",
    "Verdict",
    "Verified",
    "catalogue",
    "chat_settings_options",
    "check_models",
    "chosen_models",
    "command_settings",
    "count_text",
    "disk_usage",
    "drafts_for",
    "estimate_pair",
    "forge_draft",
    "found_models",
    "harmless",
    "is_missing",
    "list_models",
    "load_pair",
    "preview_pull",
    "pull_models",
    "resolve_settings",
    "running_options",
    "save_settings",
    "size_text",
    "store_path",
    "user_path",
    "user_settings_file",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'edge_spec' has no attribute {name!r}")
    return getattr(importlib.import_module(f"edge_spec.{home}"), _NAME_AT_HOME.get(name, name))


def __dir__() -> list[str]:
    return list(__all__)
