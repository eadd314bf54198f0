"""`edge-spec doctor --tune MODEL`: try the ways to decode a model, show them, keep the fastest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edge_spec.cli.output import print_json, show
from edge_spec.cli.progress import StatusLine

if TYPE_CHECKING:
    from edge_spec.tuning import Tried


def tune_model(model: str, as_json: bool) -> None:
    """Tune it as the settings files would have it loaded. Raises EdgeSpecError."""
    from edge_spec import tuning
    from edge_spec.config import ModelSettings
    from edge_spec.models.header import read_header
    from edge_spec.models.resolve import resolve_model
    from edge_spec.settings import resolve

    options = resolve({}).load_options()
    path = resolve_model(model)
    settings = ModelSettings(
        path, context_size=options["context_size"], gpu_layers=options["gpu_layers"],
        device=options["device"], kv_type_k=options["kv_type_k"], kv_type_v=options["kv_type_v"],
    )  # fmt: skip
    status = StatusLine(quiet=as_json)
    steps: list[list[Tried]] = []
    for tried in tuning.tune(settings, status.show):
        status.clear()
        steps.append(tried)
        if not as_json:
            _show_step(tried)
    best = next(one.way for one in steps[-1] if one.chosen)
    tuning.keep(settings, read_header(path), best)
    if as_json:
        tries = [_plain(one) for one in itertools.chain.from_iterable(steps)]
        print_json({"schema_version": 1, "model": path, "tried": tries, "kept": asdict(best)})
    else:
        show(f"kept for {path.stem}: {best}")


def _show_step(tried: Sequence[Tried]) -> None:
    rows = tried[0].num_rows
    show(f"{rows} row{'s' if rows > 1 else ''} a decode")
    for one in tried:
        faster = tried[0].seconds / one.seconds
        show(f"  {'*' if one.chosen else ' '} {1e3 * one.seconds:8.1f} ms {faster:5.2f}x  {one.way}")


def _plain(one: Tried) -> dict[str, Any]:
    return {**asdict(one.way), "rows": one.num_rows, "ms": 1e3 * one.seconds, "chosen": one.chosen}
