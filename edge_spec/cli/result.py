"""An answer as `run --json` prints it, and as one line for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edge_spec.config import Decoding
from edge_spec.events import Finished
from edge_spec.settings import Settings
from edge_spec.stats import Stats
from edge_spec.versions import versions

if TYPE_CHECKING:
    from edge_spec.cli.isolate import IsolatedPair
    from edge_spec.pair import Pair

SCHEMA_VERSION = 1


def result_object(
    pair: Pair | IsolatedPair,
    settings: Settings,
    decoding: Decoding,
    *,
    text: str,
    token_ids: list[int],
    finished: Finished,
) -> dict[str, Any]:
    """The one object of `run --json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "text": text,
        "token_ids": token_ids,
        "finish_reason": finished.reason,
        "stats": stats_object(finished.stats),
        **model_objects(pair),
        "settings": settings_object(settings, decoding),
        "versions": versions(),
    }


def stats_object(stats: Stats) -> dict[str, Any]:
    """Counts, rates (null where nothing was counted) and seconds."""
    timers = stats.timers
    return {
        "prompt_tokens": stats.prompt_tokens,
        "cached_tokens": stats.cached_tokens,
        "completion_tokens": stats.completion_tokens,
        "rounds": stats.rounds,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "rejected": stats.rejected,
        "discarded": stats.discarded,
        "acceptance_rate": stats.acceptance_rate,
        "draft_yield": stats.draft_yield,
        "mean_acceptance_length": stats.mean_acceptance_length,
        "acceptance_by_position": stats.acceptance_by_position,
        "tokens_per_second": stats.tokens_per_second,
        "predicted_tokens_per_second": stats.predicted_tokens_per_second,
        "time_to_first_token_s": stats.time_to_first_token_s,
        "wall_s": stats.wall_s,
        "prefill_s": timers.prefill_s,
        "draft_prefill_s": timers.draft_prefill_s,
        "draft_s": timers.draft_s,
        "verify_s": timers.verify_s,
        "sample_s": timers.sample_s,
        "rest_s": stats.rest_s,
        "speculation": {"state": stats.state, "reason": stats.reason},
    }


def model_objects(pair: Pair | IsolatedPair) -> dict[str, Any]:
    """File, sha256, quantisation and load mode of target and draft; draft is null when there is none."""
    return {
        role: None
        if model is None
        else {
            "file": str(model.path),
            "sha256": model.sha256,
            "quantization": model.quantization,
            "load_mode": model.load_mode,
        }
        for role, model in (("target", pair.target), ("draft", pair.draft))
    }


def settings_object(settings: Settings, decoding: Decoding) -> dict[str, Any]:
    """Every setting as it was used: K and the coupling are those that were in force."""
    plain = {name.replace("-", "_"): value for name, value in settings.plain().items()}
    plain["draft_max"], plain["coupling"] = decoding.draft_max, decoding.coupling_name
    plain["drafter"] = decoding.drafter if decoding.draft_max else "none"
    return plain


_ENDINGS = {
    "eog": "the model ended it",
    "stop": "a stop string ended it",
    "length": "max-tokens reached",
    "context": "the context is full",
    "cancelled": "cancelled",
}


def summary_line(finished: Finished, decoding: Decoding) -> str:
    """Speed, acceptance and why the text ended, in one line."""
    stats = finished.stats
    count = stats.completion_tokens
    parts = [f"{count} token" if count == 1 else f"{count} tokens"]
    if stats.tokens_per_second is not None:
        parts.append(f"{stats.tokens_per_second:.1f} tokens/s")
    if stats.drafted:
        rate = stats.acceptance_rate
        parts.append(f"acceptance {rate:.0%}" if rate is not None else "nothing judged")
        parts.append(f"mean acceptance length {stats.mean_acceptance_length or 0:.2f}")
        parts.append("K chosen each round" if decoding.drafter == "auto" else f"K {decoding.draft_max}")
    else:
        parts.append("nothing drafted" + (f" ({stats.reason})" if stats.reason else ""))
    return f"[{', '.join(parts)}; {_ENDINGS[finished.reason]}]"
