#!/usr/bin/env python3
"""How long a verdict on two models takes, from headers alone and from what is remembered.

scripts/bench_check.py [TARGET.gguf DRAFT.gguf] [--repeat 7] [--store 50]

Without files, two headers with 151,936 and 152,064 tokens are made, the sizes of Qwen2.5 0.5B and
7B. `--store N` also makes a store of N such files with five vocabularies and times what the model
screen asks: every file as a draft for one target. Counted is everything from two paths to the
verdict, and beside it the processor time alone, which other programs hardly change; not counted are
the start of the interpreter and imports. Files are in the page cache.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def make(path: Path, num_tokens: int) -> Path:
    """A header with that many tokens, as many merges, and one tensor."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(1)
    tokens = [f"token{i:x}" for i in range(num_tokens)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 151_643 + [3] * (num_tokens - 151_643))
    writer.add_token_merges([f"t{i:x} o{i:x}" for i in range(151_387)])
    writer.add_tensor("output.weight", np.zeros((num_tokens // 100, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--store", type=int, default=0, metavar="N")
    options = parser.parse_args()
    if len(options.files) not in (0, 2):
        parser.error("give two files or none")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        files = options.files or [make(Path(folder) / f"{n}.gguf", n) for n in (152_064, 151_936)]
        run(files[0], files[1], options.repeat)
        if options.store:
            run_store(Path(folder) / "store", options.store)


def run_store(folder: Path, num_files: int) -> None:
    """Time `drafts_for` on a store of copies of five vocabularies, with nothing remembered and again."""
    import shutil

    import edge_spec

    folder.mkdir()
    originals = [make(folder / f"size{n}.gguf", 151_936 + 32 * n) for n in range(5)]
    for number in range(len(originals), num_files):
        shutil.copyfile(originals[number % 5], folder / f"copy{number}.gguf")
    for name in ("HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE", "HOME"):
        os.environ[name] = str(folder / "none")
    os.environ["EDGE_SPEC_MODELS"] = str(folder)
    for label in ("nothing remembered", "remembered"):
        started, worked = time.perf_counter(), time.process_time()
        drafts = edge_spec.drafts_for("size0")
        taken, busy = time.perf_counter() - started, time.process_time() - worked
        print(
            f"{taken * 1e3:8.1f} ms (processor {busy * 1e3:.1f})  drafts_for on {num_files} files, {label}: "
            f"{len(drafts)} drafts judged"
        )


def run(target: Path, draft: Path, repeat: int) -> None:
    import shutil

    from edge_spec.models import facts_cache
    from edge_spec.models.header import read_header
    from edge_spec.models.pairing import check_files, check_pair

    def forget(what: str) -> None:
        shutil.rmtree(facts_cache.cache_folder() / what, ignore_errors=True)

    def forget_all() -> None:
        forget("facts")
        forget("vocabularies")

    def nothing() -> None:
        pass

    def headers() -> str:
        return check_pair(read_header(target), read_header(draft)).verdict

    def remembered() -> str:
        return check_files(target, draft).verdict

    def compare_again() -> None:
        forget("vocabularies")

    for label, prepare, check in (
        ("headers alone, as `load_pair` checks them", nothing, headers),
        ("headers alone, as `edge-spec check` does, nothing remembered", forget_all, remembered),
        ("facts remembered, this pair of vocabularies not", compare_again, remembered),
        ("both remembered", nothing, remembered),
    ):
        show(label, prepare, check, repeat)


def show(label: str, prepare: Callable[[], None], check: Callable[[], str], repeat: int) -> None:
    times, busy, verdict = [], [], ""
    for _ in range(repeat):
        prepare()
        started, worked = time.perf_counter(), time.process_time()
        verdict = check()
        times.append(time.perf_counter() - started)
        busy.append(time.process_time() - worked)
    took = f"{statistics.median(times) * 1e3:8.1f} ms (worst {max(times) * 1e3:.1f}"
    print(f"{took}, processor {statistics.median(busy) * 1e3:.1f})  {label}: {verdict}")


if __name__ == "__main__":
    main()
