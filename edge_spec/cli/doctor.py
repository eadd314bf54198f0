"""`edge-spec doctor`: what this machine and installation have, for a person or a bug report."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import click

from edge_spec.cli.output import log_folder, print_json, show
from edge_spec.errors import EdgeSpecError
from edge_spec.sizes import size_text
from edge_spec.versions import versions

_BAR_WIDTH = 32

Facts = dict[str, Any]
"""What was found: a name that ends in _bytes is a size."""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--tune", metavar="MODEL", help="Find the fastest way to decode MODEL here, and keep it.")
@click.pass_context
def command(ctx: click.Context, as_json: bool, tune: str | None) -> None:
    """What this machine and installation have: versions, devices, memory, store, settings files.

    Exits with 3 when something in it cannot be used. With --tune, threads, flash attention and load
    mode are tried on a model instead; what is fastest is used from then on wherever a setting leaves
    it open.
    """
    if tune is not None:
        from edge_spec.cli.tune import tune_model

        tune_model(tune, as_json)
        return
    problems: list[str] = []
    report: dict[str, Facts] = {
        "versions": versions(),
        "machine": _machine(),
        "llama.cpp": _llama(problems),
        "store": _store(problems),
        "files": _files(),
    }
    measured = _measured()
    if as_json:
        print_json(
            {"schema_version": 1, **report, "tuned": _tuned(), "measured": measured, "problems": problems}
        )
    else:
        for section, facts in report.items():
            show(section)
            for name, value in facts.items():
                label = name.removesuffix("_bytes").replace("_", " ")
                absent = "not installed" if section == "versions" else "unknown"
                show(f"  {label:18} {absent if value is None else _shown(name, value)}")
        for name, way in _tuned().items():
            show(f"tuned: {name}: {way}")
        for costs in measured:
            _show_costs(costs)
        for problem in problems:
            show(f"problem: {problem}")
    if problems:
        ctx.exit(3)


def _machine() -> Facts:
    """What there is, and as usable what affinity and a container's limits leave of it."""
    import psutil

    from edge_spec.limits import usable_cores, usable_memory

    memory = usable_memory()
    return {
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "usable_memory_bytes": memory.total,
        "available_memory_bytes": memory.available,
    }


def _llama(problems: list[str]) -> Facts:
    """What llama.cpp can compute on; a library that does not load is a problem, not a crash."""
    try:
        from edge_spec.llama import abi
        from edge_spec.plain import to_plain

        return {
            "ggml": abi.ggml_version(),
            "devices": [to_plain(device) for device in abi.devices()],
            "gpu_offload": abi.supports_gpu_offload(),
            "cpu_features": abi.cpu_features(),
            "log": abi.log.path,
        }
    except EdgeSpecError as error:
        problems.append(str(error))
        return {"loads": False}


def _store(problems: list[str]) -> Facts:
    from edge_spec.models import store
    from edge_spec.models.job import disk_usage

    installed = store.list_models()
    problems += [model.problem for model in installed if model.problem]
    return {
        "path": store.store_path(),
        "free_disk_bytes": disk_usage(store.store_path()).free,
        "models": [model.name for model in installed],
    }


def _files() -> Facts:
    from edge_spec.settings import PROJECT_FILE, user_file

    paths = {
        "project_settings": PROJECT_FILE.absolute(),
        "user_settings": user_file(),
        "last_bug": log_folder() / "error.log",
    }
    return {name: {"path": path, "exists": path.exists()} for name, path in paths.items()}


def _measured() -> list[Facts]:
    """What decodes of each pair cost here, as `--drafter auto` measured it and rounds have corrected it."""
    from edge_spec.planner.calibration import kept_pairs

    def milliseconds(seconds: Mapping[int, float] | None) -> dict[str, float] | None:
        return None if seconds is None else {str(n): round(1e3 * seconds[n], 2) for n in sorted(seconds)}

    return [
        {
            "target": kept.target,
            "draft": kept.draft,
            "target_ms": milliseconds(kept.verify_s),
            "draft_ms": milliseconds(kept.draft_s),
        }
        for kept in kept_pairs()
    ]


def _tuned() -> Facts:
    """How each model that `--tune` was asked for is decoded from then on."""
    from edge_spec.tuning import kept_models

    return {name: str(tuned) for name, tuned in kept_models()}


def _show_costs(costs: Facts) -> None:
    """The staircases of a pair: milliseconds of a decode by its rows."""
    show(f"measured: {costs['target']}, drafted by {costs['draft'] or 'no model'}")
    longest = max(costs["target_ms"].values())
    for role in ("target", "draft"):
        for rows, ms in (costs[f"{role}_ms"] or {}).items():
            bar = "█" * max(1, round(_BAR_WIDTH * ms / longest))
            label = f"{role} {rows} row" + ("" if rows == "1" else "s")
            show(f"  {label:18} {ms:7.1f} ms {bar}")


def _shown(name: str, value: Any) -> str:
    """A fact as text for a person."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int() if name.endswith("_bytes"):
            return size_text(value)
        case {"path": path, "exists": exists}:
            return f"{path}{'' if exists else ' (none)'}"
        case {"name": device, "description": what, "kind": kind, "free_bytes": free, "total_bytes": total}:
            return f"{device}: {what} ({kind}, {size_text(free)} of {size_text(total)} free)"
        case list():
            return ("; " if name == "devices" else " ").join(_shown("", item) for item in value) or "none"
        case _:
            return str(value)
