"""The record of a measurement: written after every visit, and gone on with later.

Texts are kept by their hash only, as some prompts' terms are their owners'.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from bench.measure import Run
from bench.samples import BenchError, Sample
from edge_spec.whole_file import write_whole

SCHEMA_VERSION = 2
_SAMPLE = {item.name for item in fields(Sample)}


def samples_record(run: Run) -> list[dict[str, Any]]:
    """Every answer with its place, in running order."""
    records = []
    for (repetition, prompt_id), visit in run.visits.items():
        for arm, sample in visit.items():
            values = {name: value for name, value in asdict(sample).items() if name != "text"}
            records.append({"repetition": repetition, "prompt": prompt_id, "arm": arm, **values})
    return records


def restore(run: Run, samples: Sequence[Mapping[str, Any]]) -> None:
    """Take the visits of a record into `run`, those left out in which an arm did not answer."""
    found: dict[tuple[int, str], dict[str, Sample]] = {}
    for entry in samples:
        place = (int(entry["repetition"]), str(entry["prompt"]))
        values = {name: entry[name] for name in _SAMPLE & set(entry)}
        found.setdefault(place, {})[str(entry["arm"])] = Sample(**values)
    run.visits.update({place: visit for place, visit in found.items() if set(visit) == set(run.arms)})


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Whole or not at all, so that an interruption loses one visit at most."""
    write_whole(path, (json.dumps(record, indent=1) + "\n").encode())


def read(path: Path) -> dict[str, Any]:
    """A record of this schema. Raises BenchError when the file holds something else."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} cannot be gone on with: {error}") from None
    version = record.get("schema_version") if isinstance(record, dict) else None
    if version != SCHEMA_VERSION:
        raise BenchError(f"{path} has schema version {version}, not {SCHEMA_VERSION}; name another file.")
    assert isinstance(record, dict)
    return record


def identity(record: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same for a run to go on, by name.

    More alternations may be asked for, and the commit may be another, which the report tells.
    """
    settings = {name: value for name, value in record["settings"].items() if name != "pairs"}
    runs = [[run[key] for key in ("target", "draft", "temperature", "arms")] for run in record["runs"]]
    machine = {name: record["machine"][name] for name in ("cpu", "cores")}
    parts = {"prompts": record["prompts"], "pairs, temperatures and arms": runs}
    return {**settings, **parts, **record["versions"], **machine}


def check_same(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise BenchError, naming what differs, when `new` cannot go on with `old`."""
    # As JSON has it: tuples are lists there.
    before, now = identity(old), json.loads(json.dumps(identity(new)))
    differing = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if differing:
        raise BenchError(f"{path} was measured with other {', '.join(differing)}; name another file.")
