"""What a run is summed up to, and how that is shown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.measure import PLAIN, Run, Speed, decode_speed, wall_speed
from bench.ratios import Estimate, centre, estimate

ALL = "all"
FIXED_K = "best fixed K"
DRAFTING_K = "best drafting K"
LLAMA_CPP = "best llama.cpp arm"
AUTO = "ours-auto"


@dataclass(frozen=True, slots=True)
class Row:
    """One arm over another in one category, or in the mean over all of them.

    Where `over` is the best of several, `decode_best` and `wall_best` name the one that was it,
    chosen afterwards by the ratio itself.
    """

    arm: str
    over: str
    category: str
    decode: Estimate | None
    wall: Estimate | None
    decode_best: str | None = None
    wall_best: str | None = None


def comparisons(arms: Sequence[str]) -> list[tuple[str, str]]:
    """Every arm over plain decoding, and each of ours over the peer that does the same."""
    over = [(arm, PLAIN) for arm in arms if arm != PLAIN]
    over += [(arm, arm.replace("ours", "simple")) for arm in arms if arm.startswith("ours-k")]
    return [(a, b) for a, b in over if b in arms]


def summarise(run: Run) -> list[Row]:
    """A row for each comparison and category, and one over all categories."""
    rows = []
    for arm, over in comparisons(run.arms):
        rivals = dict.fromkeys(run.categories, over)
        for category in _cells(run):
            decode = _estimate(run, arm, rivals, category, decode_speed)
            wall = _estimate(run, arm, rivals, category, wall_speed)
            rows.append(Row(arm, over, category, decode, wall))
    return [row for row in rows if row.decode is not None]


def rivals_of_auto(arms: Sequence[str]) -> dict[str, list[str]]:
    """What `ours-auto` is held against: the best of each list, chosen afterwards by category.

    Plain decoding is the fixed K of 0.
    """
    drafting = [arm for arm in arms if arm.startswith("ours-k")]
    peers = [arm for arm in arms if not arm.startswith("ours")]
    fixed = [PLAIN, *drafting] if PLAIN in arms else drafting
    found = {FIXED_K: fixed, DRAFTING_K: drafting, LLAMA_CPP: peers}
    return {name: rivals for name, rivals in found.items() if rivals and AUTO in arms}


def summarise_best(run: Run) -> list[Row]:
    """`ours-auto` over the best of each kind, by category and over all."""
    rows = []
    for name, rivals in rivals_of_auto(run.arms).items():
        decode_best = {c: _best(run, rivals, c, decode_speed) for c in run.categories}
        wall_best = {c: _best(run, rivals, c, wall_speed) for c in run.categories}
        for category in _cells(run):
            rows.append(
                Row(
                    AUTO,
                    name,
                    category,
                    _estimate(run, AUTO, decode_best, category, decode_speed),
                    _estimate(run, AUTO, wall_best, category, wall_speed),
                    decode_best.get(category),
                    wall_best.get(category),
                )
            )
    return [row for row in rows if row.decode is not None]


def _cells(run: Run) -> list[str]:
    return [*run.categories, ALL] if len(run.categories) > 1 else run.categories


def _best(run: Run, rivals: Sequence[str], category: str, speed: Speed) -> str | None:
    """The rival that auto's ratio over is lowest; None when none of them has one."""
    found = {}
    for rival in rivals:
        ratios = [r for r in run.ratios((AUTO, rival), category, speed) if r]
        if ratios:
            found[rival] = centre(ratios)
    return min(found, key=found.__getitem__) if found else None


def _estimate(
    run: Run, arm: str, rivals: dict[str, str] | dict[str, str | None], category: str, speed: Speed
) -> Estimate | None:
    """The ratio of `arm` over each category's rival; over all of them, none may be missing."""
    wanted = run.categories if category == ALL else [category]
    ratios = []
    for each in wanted:
        rival = rivals[each]
        ratios.append([] if rival is None else run.ratios((arm, rival), each, speed))
    return estimate(ratios, run.setting.seed)


def row_record(row: Row) -> dict[str, Any]:
    """A row as JSON."""
    record: dict[str, Any] = {"over": [row.arm, row.over], "category": row.category}
    for name, found, best in (
        ("decode", row.decode, row.decode_best),
        ("wall", row.wall, row.wall_best),
    ):
        record[f"{name}_ratio"] = None if found is None else found.ratio
        record[f"{name}_low"] = None if found is None else found.low
        record[f"{name}_high"] = None if found is None else found.high
        if best is not None:
            record[f"{name}_best"] = best
    counted = row.decode or row.wall
    record["prompts"] = 0 if counted is None else counted.prompts
    record["pairs"] = 0 if counted is None else counted.pairs
    return record


def describe_arms(run: Run) -> list[dict[str, Any]]:
    """Each arm on its own: median speed, what was drafted and accepted, time outside llama.cpp."""
    rows = []
    for name in run.arms:
        samples = run.samples(name)
        speeds = [s.decode_speed for s in samples if s.decode_speed is not None]
        if not speeds:
            continue
        drafted, rounds = sum(s.drafted for s in samples), sum(s.rounds for s in samples)
        outside = [s.outside_s / s.decode_s for s in samples if s.outside_s is not None and s.decode_s > 0]
        agreements = [s.agreement for s in samples if s.agreement is not None]
        rows.append(
            {
                "arm": name,
                "tokens_per_second": statistics.median(speeds),
                "drafted": drafted,
                "accepted": sum(s.accepted for s in samples),
                "draft_yield": sum(s.accepted for s in samples) / drafted if drafted else None,
                "mean_acceptance_length": sum(s.wall_tokens for s in samples) / rounds if rounds else None,
                "outside_llama_cpp": statistics.median(outside) if outside else None,
                # At temperature 0, less than 1 is a near-tie that decode widths decided differently, or
                # a bug; above, the texts differ anyway.
                "text_agreement": statistics.fmean(agreements)
                if agreements and run.setting.temperature == 0
                else None,
            }
        )
    return rows


def warnings(run: Run) -> list[str]:
    """What makes a comparison less than fair."""
    told = []
    lengths: dict[str, dict[str, int]] = {}
    for (_, prompt_id), visit in run.visits.items():
        lengths.setdefault(prompt_id, {name: sample.prompt_tokens for name, sample in visit.items()})
    for prompt_id, counts in lengths.items():
        if len(set(counts.values())) > 1:
            told.append(f"{prompt_id}: the arms read prompts of different lengths: {counts}")
    for name in run.arms:
        short = sum(sample.decode_speed is None for sample in run.samples(name))
        if short:
            told.append(f"{name} ended {short} answers after one token, which have no speed and are left out")
    return told


def peer_warnings(versions: dict[str, Any], arms: Sequence[str]) -> list[str]:
    """Whether llama.cpp's programs, if any took part, are those that our engine is to be compared with."""
    built = (versions["peers"] or {}).get("version")
    if built == versions["llama-cpp-python"] or all(arm.startswith(("ours", "lookup")) for arm in arms):
        return []
    return ["The peers have no record of being built from our engine's version (scripts/build_peers.py)."]


def commit_warnings(sessions: Sequence[dict[str, Any]]) -> list[str]:
    """Whether one edge-spec answered from beginning to end."""
    seen = {session["commit"] for session in sessions}
    return [f"The run was gone on with at another commit: {len(seen)} of them took part."] * (len(seen) > 1)


def markdown(record: dict[str, Any]) -> str:
    """The record as tables for a person."""
    machine, settings = record["machine"], record["settings"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores; threads {settings['threads']}, "
        f"{settings['max_tokens']} tokens, context {settings['context_size']}; "
        f"llama-cpp-python {record['versions']['llama-cpp-python']}; "
        f"{settings['pairs']} alternations; peers' p_min {settings['peer_p_min']}.",
    ]
    for run in record["runs"]:
        if not run.get("arms_alone"):
            continue
        draft = (run["draft"] or {}).get("file", "nothing")
        lines += [
            "",
            f"**{run['target']['file']}** drafted by {draft}, temperature {run['temperature']:g}",
            "",
        ]
        lines += _ratio_table(run["summary"])
        if run["best"]:
            lines += ["", *_ratio_table(run["best"])]
        lines += ["", *_arm_table(run["arms_alone"])]
        lines += [f"Warning: {text}" for text in run["warnings"]]
    lines += [f"Warning: {text}" for text in record.get("warnings", [])]
    return "\n".join(lines)


def _ratio_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["| arms | category | decode | 95% | wall | 95% | pairs |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        cells = [" / ".join(row["over"]), row["category"]]
        for name in ("decode", "wall"):
            if row[f"{name}_ratio"] is None:
                cells += ["", ""]
                continue
            best = row.get(f"{name}_best")
            cells.append(f"{row[f'{name}_ratio']:.3f}" + (f" ({best})" if best else ""))
            cells.append(f"{row[f'{name}_low']:.3f} to {row[f'{name}_high']:.3f}")
        cells.append(f"{row['pairs']} on {row['prompts']} prompts")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _arm_table(arms: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "| arm | tokens/s | drafted | draft yield | tokens a round | outside llama.cpp | text shared |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm in arms:
        cells = (
            arm["arm"],
            f"{arm['tokens_per_second']:.2f}",
            str(arm["drafted"]),
            _number(arm["draft_yield"], ".3f"),
            _number(arm["mean_acceptance_length"], ".2f"),
            _number(arm["outside_llama_cpp"], ".2%"),
            _number(arm["text_agreement"], ".1%"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
