"""llama.cpp's programs that answer one prompt and end: llama-bench and llama-speculative-simple."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.processes import run_peer
from bench.samples import BenchError, Prompt, Sample, Setting

PEER_BATCH = 2048  # llama.cpp's default; llama-speculative-simple refuses longer prompts


@dataclass(slots=True)
class LlamaBench:
    """Plain decoding of as many tokens at the same depth, by llama-bench (which does not sample)."""

    name: str
    program: Path
    setting: Setting
    count: Callable[[Prompt], int]

    def run(self, prompt: Prompt, repetition: int) -> Sample:
        s, depth = self.setting, self.count(prompt)
        output = run_peer(
            self.program,
            "-m", str(s.target), "-p", "0", "-n", str(s.max_tokens), "-d", str(depth),
            "-t", str(s.threads), "-r", "1", "-o", "json",
        )[0]  # fmt: skip
        return parse_bench(output)


@dataclass(slots=True)
class SpeculativeSimple:
    """llama-speculative-simple with the prompt as rendered text; `speculation` says how it guesses."""

    name: str
    program: Path
    setting: Setting
    render: Callable[[Prompt], str]
    speculation: tuple[str, ...]

    def run(self, prompt: Prompt, repetition: int) -> Sample:
        s, text = self.setting, self.render(prompt)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "prompt.txt"
            # -bf, as -f drops a last newline, and --no-escape, or it would rewrite \n in code.
            file.write_bytes(text.encode())
            output, log = run_peer(
                self.program,
                "-m", str(s.target), *self.speculation,
                "-bf", str(file), "--no-escape", "-n", str(s.max_tokens), "-c", str(s.context_size),
                "-b", str(PEER_BATCH), "-t", str(s.threads),
                "--temp", str(s.temperature), "--seed", str(s.seed + repetition), "--log-colors", "off",
            )  # fmt: skip
        return parse_simple(output, log, text)


def draft_options(setting: Setting, k: int | None) -> tuple[str, ...]:
    """A draft model, at most `k` tokens a round, as llama.cpp's programs are told; None: their own K."""
    length = () if k is None else ("--spec-draft-n-max", str(k), "--spec-draft-n-min", "0")
    options = ("-md", str(setting.draft), "--spec-type", "draft-simple", "-td", str(setting.threads))
    return (*options, *length)


_SIZES = {
    "ngram-simple": ("size-n", "size-m"),
    "ngram-map-k": ("size-n", "size-m"),
    "ngram-mod": ("n-match", "n-min", "n-max"),
}
"""The draft-free modes and what their sizes are called: the words to match, the words to draft."""

NGRAM_MODES = tuple(_SIZES)


def ngram_options(mode: str, sizes: tuple[int, ...]) -> tuple[str, ...]:
    """How llama.cpp is told to guess by n-grams; without `sizes` it takes its defaults."""
    names = _SIZES[mode]
    if sizes and len(sizes) != len(names):
        raise BenchError(f"{mode} has {len(names)} sizes ({', '.join(names)}), not {len(sizes)}.")
    given = [(f"--spec-{mode}-{name}", str(size)) for name, size in zip(names, sizes, strict=False)]
    return ("--spec-type", mode, *(word for option in given for word in option))


def parse_bench(output: str) -> Sample:
    """What llama-bench reported of its only test."""
    try:
        (result,) = json.loads(output)
        seconds = result["samples_ns"][0] / 1e9
        tokens, depth = int(result["n_gen"]), int(result["n_depth"])
    except (ValueError, KeyError, IndexError, TypeError):
        raise BenchError(f"llama-bench did not print one result as JSON:\n{output[-2000:]}") from None
    return Sample(tokens, seconds, tokens, None, depth)


def parse_simple(output: str, log: str, prompt: str) -> Sample:
    """What llama-speculative-simple reported. Its accept is accepted / drafted."""

    def find(pattern: str) -> tuple[str, ...]:
        found = re.search(pattern, log)
        if found is None:
            raise BenchError(f"llama-speculative-simple did not print {pattern!r}:\n{log[-2000:]}")
        return found.groups()

    encoded, encode_s = find(r"encoded +(\d+) tokens in +([\d.]+) seconds")
    decoded, decode_s = find(r"decoded +(\d+) tokens in +([\d.]+) seconds")
    (drafted,), (accepted,) = find(r"n_drafted += (\d+)"), find(r"n_accept +=? *(\d+)")
    num_decoded, num_accepted = int(decoded), int(accepted)
    _, shown, text = output.partition(prompt)
    return Sample(
        decode_tokens=num_decoded,
        decode_s=float(decode_s),
        wall_tokens=num_decoded,
        wall_s=float(encode_s) + float(decode_s),
        prompt_tokens=int(encoded),
        drafted=int(drafted),
        accepted=num_accepted,
        rounds=num_decoded - num_accepted,  # a round emits what it accepted, and one token more
        text=text if shown else None,
    )


def p_min(program: Path) -> str | None:
    """The draft probability below which the peer stops drafting; its default, which is not changed."""
    try:
        output, log = run_peer(program, "--help")
    except BenchError:
        return None
    found = re.search(r"--spec-draft-p-min.*?\(default: ([\d.]+)\)", output + log, re.DOTALL)
    return found[1] if found else None
