#!/usr/bin/env python3
"""Build llama.cpp's own programs from the very sources that our engine was built from.

    scripts/build_peers.py [--dir DIR] [--jobs N]

The sources are those in the sdist of the llama-cpp-python that pyproject.toml pins, so that a
comparison (scripts/bench_peers.py) differs in the driver only. A folder that already holds
them, built with the same settings, is left alone. CMAKE_ARGS is honoured as it was for the
engine: give the same.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import _bootstrap

TARGETS = (
    "llama-bench",
    "llama-batched-bench",
    "llama-speculative-simple",
    "llama-lookahead",
    "llama-server",
    "llama-cli",
)


@dataclass(frozen=True)
class Recipe:
    """What a build depends on; kept beside it as build.json."""

    version: str
    cmake_arguments: tuple[str, ...]
    targets: tuple[str, ...] = TARGETS

    @classmethod
    def of_this_machine(cls) -> Recipe:
        amx = runpy.run_path(str(_bootstrap.ROOT / "edge_spec" / "llama" / "amx.py"))
        amx_off = amx["CMAKE_ARGS"] if amx["amx_is_advertised"]() else ""
        arguments = (
            # As llama-cpp-python's build has it; GGML_NATIVE is on by default in both.
            "-DCMAKE_BUILD_TYPE=Release",
            "-DLLAMA_CURL=OFF",
            # The web page of llama-server, which would be fetched while building.
            "-DLLAMA_BUILD_UI=OFF",
            "-DLLAMA_BUILD_TESTS=OFF",
            *shlex.split(amx_off),
            *shlex.split(os.environ.get("CMAKE_ARGS", "")),
        )
        return cls(_bootstrap.engine_pin().partition("==")[2], arguments)


def default_folder() -> Path:
    """Where the peers of the pinned version lie unless --dir says otherwise."""
    import platformdirs

    version = _bootstrap.engine_pin().partition("==")[2]
    return platformdirs.user_cache_path("edge-spec") / "peers" / version


def program(folder: Path, name: str) -> Path:
    """The path of a built program in `folder`."""
    suffix = ".exe" if os.name == "nt" else ""
    beside = folder / "build" / "bin" / (name + suffix)
    release = folder / "build" / "bin" / "Release" / (name + suffix)  # Visual Studio's generator
    return release if release.exists() else beside


def read_record(folder: Path) -> dict[str, object]:
    """The recipe that `folder` was built by; empty when there is none."""
    try:
        record = json.loads((folder / "build.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def build(folder: Path, jobs: int) -> None:
    """Fetch, configure and compile into `folder`, unless that was done already."""
    recipe = Recipe.of_this_machine()
    wanted = json.loads(json.dumps(asdict(recipe)))
    if read_record(folder) == wanted and all(program(folder, name).exists() for name in recipe.targets):
        print(f"The peers of {recipe.version} are built already: {folder}", file=sys.stderr)
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "build.json").unlink(missing_ok=True)
    source = folder / "src"
    if not (source / "CMakeLists.txt").exists():
        _fetch_source(recipe.version, source)
    cmake, ninja = _tool("cmake"), _tool("ninja")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    # Without --fresh an earlier configuration's flags would live on in the cache.
    configure = [cmake, "--fresh", "-S", str(source), "-B", str(folder / "build"), *generator]
    _run([*configure, *recipe.cmake_arguments])
    _run([cmake, "--build", str(folder / "build"), "--parallel", str(jobs), "--target", *recipe.targets])
    (folder / "build.json").write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
    print(f"The peers of {recipe.version} are in {folder / 'build' / 'bin'}", file=sys.stderr)


def _fetch_source(version: str, source: Path) -> None:
    """Put llama.cpp, as vendored in llama-cpp-python's sdist, into the folder `source`."""
    print(f"Fetching the sources of llama-cpp-python {version}.", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=source.parent) as name:
        scratch = Path(name)
        # pip asks an sdist for its metadata, so this takes seconds more than the download.
        options = ["--quiet", "--no-deps", "--no-binary", "llama-cpp-python", "--dest", str(scratch)]
        _run([sys.executable, "-m", "pip", "download", *options, f"llama-cpp-python=={version}"])
        (archive,) = scratch.glob(f"llama_cpp_python-{version}.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
        unpacked = scratch / f"llama_cpp_python-{version}" / "vendor" / "llama.cpp"
        shutil.rmtree(source, ignore_errors=True)
        unpacked.rename(source)


def _tool(name: str) -> str:
    """A build tool's path: the system's, or one from the package of the same name."""
    beside = Path(sys.executable).parent / (name + (".exe" if os.name == "nt" else ""))
    if not (shutil.which(name) or beside.exists()):
        print(f"Installing {name}.", file=sys.stderr)
        _run([sys.executable, "-m", "pip", "install", "--quiet", name])
    return shutil.which(name) or str(beside)


def _run(command: list[str]) -> None:
    print("+ " + shlex.join(command), file=sys.stderr, flush=True)
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error}")
    if code:
        sys.exit(f"{command[0]} failed with exit code {code}; its last lines say why.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build llama.cpp's own programs to compare with.")
    parser.add_argument("--dir", type=Path, help="where to (default: the user's cache folder)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at once")
    options = parser.parse_args()
    build((options.dir or default_folder()).absolute(), options.jobs)


if __name__ == "__main__":
    _bootstrap.enter()
    main()
