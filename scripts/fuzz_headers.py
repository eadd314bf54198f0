#!/usr/bin/env python3
"""Damage GGUF headers in every way at hand and see that reading them never crashes, hangs or hoards.

scripts/fuzz_headers.py [--count 10000] [--seed 1] [MODEL.gguf ...]

Small models of several kinds are made first; headers of the models named are used too. A child
process with at most 1 GiB of address space reads each damaged file, tells its facts and judges it
as target and as draft. Anything but a ModelFileError, or five seconds of processor time on one
file, ends the child, and the file that did it is kept.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import contextlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEMORY_BYTES = 1 << 30
SECONDS_A_FILE = 5.0
LARGE_BYTES = 1 << 20
"""Headers larger than this are damaged in one case of fifty only: each takes a tenth of a second."""

HUGE = (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class Seed:
    """A sound header: its bytes, the size of its file, and the file's name."""

    name: str
    data: bytes
    size: int


def make_seeds(folder: Path, models: list[Path]) -> list[Seed]:
    """Small files of each kind, made by the `gguf` package, and the heads of real ones."""
    import gguf

    from edge_spec.models.header import read_header
    from tests.gguf_maker import make_gguf

    folder.mkdir(parents=True, exist_ok=True)
    bare = folder / "imatrix.gguf"
    writer = gguf.GGUFWriter(bare, "imatrix")
    writer.add_type("imatrix")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    made = [
        make_gguf(folder / "bpe.gguf", vocab_size=64, layers=1, width=8, chat_template="{{ messages }}"),
        make_gguf(folder / "spm.gguf", tokenizer="spm", layers=1, width=8),
        make_gguf(folder / "mamba.gguf", architecture="mamba", vocab_size=64, layers=1, width=8),
        make_gguf(
            folder / "trimmed.gguf",
            vocab_size=64,
            layers=1,
            width=8,
            edit=lambda writer: writer.add_array("edge_spec.target_ids", list(range(64))),
        ),
        bare,
    ]
    first = make_gguf(folder / "split.gguf", vocab_size=64, layers=1, width=8, split_tensors=5)
    seeds = [Seed(path.name, path.read_bytes(), path.stat().st_size) for path in made]
    seeds += [
        Seed(p.name, p.read_bytes(), p.stat().st_size) for p in sorted(folder.glob(f"{first.name[:5]}-*"))
    ]
    for path in models:
        with path.open("rb") as file:
            seeds.append(Seed(path.name, file.read(read_header(path).data_offset), path.stat().st_size))
    return seeds


def damaged(seed: Seed, luck: random.Random) -> tuple[bytes, int]:
    """Damaged bytes of a seed, and the size that its file claims (the rest of it is a hole)."""
    data = bytearray(seed.data)
    for _ in range(luck.choice((1, 1, 2, 4, 16))):
        at = luck.randrange(len(data))
        match luck.randrange(8):
            case 0:
                data[at] = luck.randrange(256)
            case 1:
                data[at] ^= 1 << luck.randrange(8)
            case 2:  # a length or count anywhere
                data[at : at + 8] = struct.pack("<Q", luck.choice(HUGE))
            case 3:  # one that is merely wrong
                data[at : at + 8] = struct.pack("<Q", luck.randrange(1 << luck.randrange(1, 40)))
            case 4:  # the two counts at the beginning
                at = luck.choice((8, 16))
                data[at : at + 8] = struct.pack("<Q", luck.choice((*HUGE, 0, 1, 65536, 1 << 18)))
            case 5:
                del data[at : at + luck.randrange(1, 64)]
            case 6:
                data[at:at] = data[at : at + luck.randrange(1, 64)]
            case _:  # a type tag becomes an array of strings, or of anything
                data[at : at + 12] = struct.pack("<IQ", luck.choice((8, 9, 4, 12)), luck.choice(HUGE))
        data = data or bytearray(b"G")
    if luck.random() < 0.2:
        del data[luck.randrange(1, len(data) + 1) :]
        return bytes(data), len(data)
    return bytes(data), luck.choice((len(data), max(len(data), seed.size), 1 << 33))


def read_all(folder: Path, seeds: list[Seed], count: int, seed: int) -> dict[str, Any]:
    """Damage and read `count` files in this process; returns counts and the slowest."""
    import signal

    from edge_spec.errors import ModelFileError
    from edge_spec.models.facts import facts_of
    from edge_spec.models.header import read_header
    from edge_spec.models.pairing import check_pair

    luck = random.Random(seed)
    small = [one for one in seeds if len(one.data) <= LARGE_BYTES]
    large = [one for one in seeds if len(one.data) > LARGE_BYTES]
    for one in seeds:
        _write(folder / one.name, one.data, one.size)
    good = read_header(folder / "bpe.gguf")
    told: dict[str, Any] = {"files": 0, "read": 0, "refused": 0, "slowest_s": 0.0}
    for number in range(count):
        chosen = luck.choice(large if large and number % 50 == 0 else small)
        path = folder / chosen.name
        _write(path, *damaged(chosen, luck))
        (folder / "case").write_text(f"{number} {chosen.name}")
        signal.setitimer(signal.ITIMER_PROF, SECONDS_A_FILE)
        started = time.process_time()
        try:
            header = read_header(path)
            facts_of(header)
            check_pair(header, good)
            check_pair(good, header)
            told["read"] += 1
        except ModelFileError:
            told["refused"] += 1
        signal.setitimer(signal.ITIMER_PROF, 0)
        told["files"] += 1
        told["slowest_s"] = max(told["slowest_s"], time.process_time() - started)
        _write(path, chosen.data, chosen.size)
    # Not getrusage's ru_maxrss, which a new process has from the one that made it.
    status = Path("/proc/self/status").read_text()
    told["peak_bytes"] = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return told


def fuzz(count: int, seed: int, models: list[Path], folder: Path, timeout_s: float) -> dict[str, Any]:
    """Run `read_all` in a child with limits; raises RuntimeError when the child does not survive."""
    made = folder / "seeds"
    seeds = make_seeds(made, models)
    listing = [[one.name, one.size] for one in seeds]
    for one in seeds:
        (made / one.name).write_bytes(one.data)
    (folder / "seeds.json").write_text(json.dumps(listing))
    command = [sys.executable, __file__, "--child", str(folder), "--count", str(count), "--seed", str(seed)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(_bootstrap.ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout_s)
    if done.returncode:
        with contextlib.suppress(OSError):
            case = (folder / "work" / "case").read_text()
            raise RuntimeError(f"{case}: exit {done.returncode}\n{done.stderr[-2000:]}")
        raise RuntimeError(f"exit {done.returncode}\n{done.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _write(path: Path, data: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.truncate(size)


def _child(folder: Path, count: int, seed: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    seeds = [
        Seed(name, (folder / "seeds" / name).read_bytes(), size)
        for name, size in json.loads((folder / "seeds.json").read_text())
    ]
    work = folder / "work"
    work.mkdir(exist_ok=True)
    print(json.dumps(read_all(work, seeds, count, seed)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="real models whose headers are damaged too")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=3600, metavar="S")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        _child(options.child, options.count, options.seed)
        return
    folder = Path(tempfile.mkdtemp(prefix="edge-spec-fuzz-"))
    try:
        told = fuzz(options.count, options.seed, options.models, folder, options.timeout)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        sys.exit(f"{error}\nThe file is in {folder / 'work'}.")
    shutil.rmtree(folder)
    print(
        f"{told['files']:,} damaged files: {told['read']:,} read, {told['refused']:,} refused; "
        f"slowest {told['slowest_s']:.2f} s of processor time, peak {told['peak_bytes'] / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
