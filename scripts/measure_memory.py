#!/usr/bin/env python3
"""Hold the memory plan against what a process really takes (Linux).

Each configuration is loaded in a fresh process, which reads a prompt in a full batch on every
slot, drafts and verifies a little, and then asks the system for its own memory: private bytes
(Anonymous in /proc/self/smaps_rollup) and mapped file pages (the rest of Rss). Exits with 1 when a
plan is off by more than a tenth of the private bytes.

    scripts/measure_memory.py                    every configuration whose files are there
    scripts/measure_memory.py q4_0-kv-q8 tiny    some of them
    scripts/measure_memory.py --json             with every part of the plans
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ALLOWED = 0.10
TINY, TARGET, DRAFT = "smollm2-135m", "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"
Q4_0, DRAFT_Q4_0 = "qwen2.5-coder-1.5b-instruct-q4_0.gguf", "qwen2.5-coder-0.5b-instruct-q4_0.gguf"
BF16, GEMMA = "qwen2.5-coder-1.5b-instruct-bf16.gguf", "gemma-3-270m"


@dataclass(frozen=True)
class Configuration:
    """A pair and the options of `load_pair` that it is loaded with.

    `full` reads a prompt that fills the context.
    """

    target: str
    draft: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    full: bool = False


def _options(context: int, **more: Any) -> dict[str, Any]:
    return {"context_size": context, "gpu_layers": 0, "draft_gpu_layers": 0, **more}


CONFIGURATIONS = {
    "starter": Configuration(TARGET, DRAFT, _options(4096)),
    "starter-mmap": Configuration(TARGET, DRAFT, _options(4096, load_mode="mmap")),
    "starter-none": Configuration(TARGET, DRAFT, _options(4096, load_mode="none")),
    "q4_0-kv-q8": Configuration(Q4_0, DRAFT_Q4_0, _options(8192, kv_type_k="q8_0", kv_type_v="q8_0")),
    "q4_0-mmap": Configuration(Q4_0, DRAFT_Q4_0, _options(4096, load_mode="mmap")),
    "bf16-alone": Configuration(BF16, None, _options(2048)),
    "bf16-none": Configuration(BF16, None, _options(2048, load_mode="none")),
    "tiny": Configuration(TINY, None, _options(4096)),
    "tiny-six-slots": Configuration(TINY, TINY, _options(1024, num_slots=6)),
    "tiny-no-flash": Configuration(TINY, None, _options(4096, flash_attention="off"), full=True),
    "gemma": Configuration(GEMMA, None, _options(4096)),
    "gemma-none": Configuration(GEMMA, None, _options(4096, load_mode="none")),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CONFIGURATIONS))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(CONFIGURATIONS[args.child])))
        return 0
    unknown = set(args.names) - CONFIGURATIONS.keys()
    if unknown:
        parser.error(f"there is no configuration {', '.join(sorted(unknown))}")
    results = {name: run(name) for name in args.names or CONFIGURATIONS}
    measured = {name: result for name, result in results.items() if result is not None}
    if args.json:
        print(json.dumps(measured, indent=2))
    else:
        show(measured)
    off = [name for name, result in measured.items() if abs(result["error"]) > ALLOWED]
    for name in off:
        print(f"{name}: the plan is off by more than {ALLOWED:.0%}.", file=sys.stderr)
    return 1 if off else 0


def run(name: str) -> dict[str, Any] | None:
    """Measure one configuration in a process of its own; None, said so, where a model is missing."""
    from edge_spec.errors import ModelFileError
    from edge_spec.models.resolve import resolve_model

    chosen = CONFIGURATIONS[name]
    try:
        for model in (chosen.target, chosen.draft):
            if model is not None:
                resolve_model(model)
    except ModelFileError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None
    child = subprocess.run(
        [sys.executable, __file__, "--child", name], stdout=subprocess.PIPE, check=True, text=True
    )
    result: dict[str, Any] = json.loads(child.stdout)
    result["error"] = result["planned"]["private"] / result["measured"]["private"] - 1
    return result


def measure(chosen: Configuration) -> dict[str, Any]:
    """Load the pair, use it, and return the plan's bytes beside the process's."""
    import edge_spec
    from edge_spec.host import PairSpec
    from edge_spec.models.library import memory_requests
    from edge_spec.models.memory import plan_memory, this_machine

    spec = PairSpec(chosen.target, chosen.draft, chosen.options)
    plan = plan_memory(memory_requests(spec), this_machine())
    with edge_spec.load_pair(chosen.target, chosen.draft, **chosen.options) as pair:
        slots = pair.target.settings.num_slots
        most = pair.target.settings.context_size - 32
        length = most if chosen.full else min(pair.target.settings.batch_size + 8, most)
        prompts = [[(1000 + 7 * i + slot) % 10_000 for i in range(length)] for slot in range(slots)]
        decoding = edge_spec.Decoding(max_tokens=12, draft_max=3)
        for _ in pair.generate_many(prompts, decoding=decoding):
            pass
        rollup = Path("/proc/self/smaps_rollup").read_text()
        modes = [model.load_mode for model in (pair.target, pair.draft) if model is not None]
    rss, private = _bytes(rollup, "Rss"), _bytes(rollup, "Anonymous")
    return {
        "load_modes": modes,
        "planned": {"private": plan.private, "mapped": plan.mapped + plan.idle},
        "measured": {"private": private, "mapped": rss - private},
        "parts": [[asdict(part) for part in model.parts] for model in plan.models],
    }


def _bytes(rollup: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", rollup, re.MULTILINE)
    assert found is not None, f"smaps_rollup has no {name}"
    return int(found[1]) * 1024


def show(results: dict[str, dict[str, Any]]) -> None:
    """A table in MB, with the plan's error beside private memory."""
    print(f"{'':16}{'load mode':12}{'private MB':>22}{'':10}{'mapped MB':>20}")
    print(f"{'':16}{'':12}{'planned':>11}{'measured':>11}{'error':>10}{'planned':>10}{'measured':>10}")
    for name, result in results.items():
        planned, measured = result["planned"], result["measured"]
        print(
            f"{name:16}{'+'.join(result['load_modes']):12}"
            f"{planned['private'] / 1e6:11.0f}{measured['private'] / 1e6:11.0f}{result['error']:+10.1%}"
            f"{planned['mapped'] / 1e6:10.0f}{measured['mapped'] / 1e6:10.0f}"
        )


if __name__ == "__main__":
    sys.exit(main())
