"""Makes the virtual environment that `scripts/edge-spec` and `scripts/test` run in.

Standard library only, and no syntax newer than Python 3.8's, so that an old Python can still
say in one sentence that it is too old. The first start creates `.venv` and installs the
project, which compiles llama.cpp; every later start reads one small file, the stamp, and goes on.

    .venv/stamp.json    what was installed, written last: without it nothing is
    .venv/installing    exists while an installation runs; found at a start, it was interrupted
    .venv/install.log   pip's words
    .venv.lock          held while installing, by pip too: a second start waits for the first
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO, NoReturn

OLDEST_PYTHON = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "stamp.json"
INSTALLING = VENV / "installing"
LOG = VENV / "install.log"
LOCK = ROOT / ".venv.lock"
WINDOWS = os.name == "nt"
PYTHON = VENV / ("Scripts/python.exe" if WINDOWS else "bin/python")
TAIL_LINES = 25


def ensure(extras: Sequence[str] = ()) -> Path:
    """The environment's Python, with the project and its `extras` installed.

    Exits with one sentence on stderr when that cannot be had.
    """
    if sys.version_info < OLDEST_PYTHON:
        have = ".".join(map(str, sys.version_info[:3]))
        want = ".".join(map(str, OLDEST_PYTHON))
        _stop(
            f"edge-spec needs Python {want} or newer, but {sys.executable} is {have}:"
            " start this with a newer one."
        )
    if not _is_current(extras):
        with _locked():
            if not _is_current(extras):  # the start that we waited for may have done it
                _install(extras)
    return PYTHON


def replace_process(arguments: Sequence[str]) -> NoReturn:
    """Go on as `PYTHON arguments...`; the caller's exit code is then that program's."""
    command = [str(PYTHON), *arguments]
    if not WINDOWS:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(command[0], command)
    import subprocess

    # Windows has no exec that keeps the console, so this process waits and passes the code on.
    with subprocess.Popen(command) as child:
        while True:
            try:
                sys.exit(child.wait())
            except KeyboardInterrupt:
                continue  # Ctrl-C reached the child as well, and it is the child's to answer


def enter() -> None:
    """For scripts that use edge_spec: go on in an interpreter that has what it needs."""
    import importlib.util

    if importlib.util.find_spec("llama_cpp") is None:
        ensure()
        replace_process(sys.argv)
    sys.path.insert(1, str(ROOT))


def _key() -> str:
    """Changes when the dependencies may have, or when the checkout moved (the install points at it)."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + os.fsencode(ROOT)).hexdigest()


def _stamp() -> dict[str, object]:
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _cmake_args_changed(stamp: dict[str, object]) -> bool:
    """Whether the user now asks for another build of llama.cpp; not asking keeps the one there is."""
    wanted = os.environ.get("CMAKE_ARGS")
    return wanted is not None and stamp.get("cmake_args") != wanted


def _has_python() -> bool:
    """Whether the environment's Python is there and is still the one that it was made with.

    `PYTHON` links to the system's, which an upgrade may replace by one that looks for packages in another
    folder. Where its file's name does not tell the version, nothing is known against it.
    """
    name = PYTHON.resolve().name
    return PYTHON.exists() and (not re.fullmatch(r"python\d+\.\d+t?", name) or (VENV / "lib" / name).is_dir())


def _is_current(extras: Sequence[str]) -> bool:
    stamp = _stamp()
    installed = stamp.get("extras")
    return (
        stamp.get("key") == _key()
        and isinstance(installed, list)
        and set(extras) <= set(installed)
        and not _cmake_args_changed(stamp)
        and not INSTALLING.exists()
        and _has_python()
    )


def _install(extras: Sequence[str]) -> None:
    """Create or update `.venv`; a leftover of an interrupted installation is removed first."""
    stamp = _stamp()
    again = INSTALLING.exists() or (stamp and (_cmake_args_changed(stamp) or not _has_python()))
    if again and VENV.exists():
        _say("Removing an unfinished or outdated .venv.")
        _remove_venv()
    VENV.mkdir(exist_ok=True)
    INSTALLING.touch()
    if not PYTHON.exists():
        _say(f"Making a virtual environment in {VENV} (first start only).")
        _create_venv()
    known = stamp.get("extras")
    all_extras = sorted({*extras, *(known if isinstance(known, list) and not again else [])})
    # Who asked for a build once gets it again when dependencies change or .venv breaks.
    cmake_args = os.environ.get("CMAKE_ARGS", stamp.get("cmake_args"))
    _install_project(all_extras, str(cmake_args or ""))
    record = {"key": _key(), "extras": all_extras, "cmake_args": cmake_args}
    STAMP.write_text(json.dumps(record), encoding="utf-8")
    INSTALLING.unlink()


def _remove_venv() -> None:
    import shutil

    try:
        shutil.rmtree(VENV)
    except OSError as error:
        _stop(f"The old virtual environment cannot be removed ({error}): delete {VENV} and start again.")


def _create_venv() -> None:
    import subprocess

    made = subprocess.run(
        [sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        _stop(
            f"{made.stdout}{made.stderr}\nPython could not make a virtual environment: install your system's"
            " venv package (Debian and Ubuntu: sudo apt-get install python3-venv) and start again."
        )


def _install_project(extras: Sequence[str], cmake_args: str) -> None:
    """pip install the checkout, its llama.cpp built by `cmake_args` and such that it runs on this CPU."""
    import time

    _say(
        "Installing edge-spec and what it needs. llama.cpp is compiled for this machine,"
        f" which takes about 4 minutes on two cores. Log: {LOG}"
    )
    LOG.unlink(missing_ok=True)
    started = time.monotonic()
    amx_off = _amx_off()
    environment = dict(os.environ)
    if amx_off or cmake_args:
        # The user's own come last, so that they win.
        environment["CMAKE_ARGS"] = f"{amx_off} {cmake_args}".strip()
    # pip's wheel cache does not know CMAKE_ARGS and would hand back an earlier, plain build.
    uncached = ["--no-cache-dir"] if cmake_args else []
    what = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    _pip(["install", *uncached, "-e", what], environment, started)
    if amx_off and _has_amx():
        _say("A ready-made build of llama.cpp was installed that may crash on this CPU; compiling another.")
        _forget_cached_build()
        again = ["install", "--force-reinstall", "--no-deps", "--no-binary", "llama-cpp-python"]
        _pip([*again, *uncached, engine_pin()], environment, started)
    _say(f"Installed in {time.monotonic() - started:.0f} s.")


def _amx_off() -> str:
    """CMAKE_ARGS that keep AMX out of the build where the CPU has it (edge_spec/llama/amx.py), else ""."""
    import runpy

    amx = runpy.run_path(str(ROOT / "edge_spec" / "llama" / "amx.py"))
    return str(amx["CMAKE_ARGS"]) if amx["amx_is_advertised"]() else ""


def _has_amx() -> bool:
    """Whether the installed llama.cpp was compiled with AMX; asked in a child, as it may crash."""
    import subprocess

    code = "import llama_cpp; print(llama_cpp.llama_print_system_info().decode())"
    asked = subprocess.run([str(PYTHON), "-c", code], capture_output=True, text=True, check=False)
    return "AMX_INT8 = 1" in asked.stdout


def _forget_cached_build() -> None:
    """Remove llama-cpp-python from pip's wheel cache, so that later checkouts get the new build.

    Fails harmlessly where that cache is off: then the build that was installed came from elsewhere.
    """
    import subprocess

    command = [str(PYTHON), "-m", "pip", "cache", "remove", "llama_cpp_python"]
    subprocess.run(command, capture_output=True, check=False)


def engine_pin() -> str:
    """The requirement of pyproject.toml that names llama-cpp-python's exact version."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return next(str(line) for line in project["dependencies"] if str(line).startswith("llama-cpp-python=="))


def _pip(arguments: Sequence[str], environment: dict[str, str], started: float) -> None:
    """Run pip with a live line on stderr and its words in the log; exits when it fails."""
    import subprocess

    # -v shows the compiler's "[n/m]" lines, the only sign of life of a build of minutes.
    command = [str(PYTHON), "-m", "pip", "-v", "--no-input", "--disable-pip-version-check", *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        pass_fds=() if WINDOWS else (_lock_fd,),
    ) as pip:
        try:
            assert pip.stdout is not None
            _follow(pip.stdout, started)
        except KeyboardInterrupt:
            pip.terminate()
            pip.wait()
            _say("\nInterrupted. The next start begins the installation anew.")
            sys.exit(130)
    if pip.returncode:
        _explain_failure()
        sys.exit(1)


def _follow(lines: IO[str], started: float) -> None:
    """Copy `lines` to the log and show where pip is: redrawn on a terminal, else every 15 seconds."""
    import shutil
    import threading
    import time

    live = sys.stderr.isatty()
    width = shutil.get_terminal_size().columns - 1
    now = ["starting pip"]
    compiling = re.compile(r"\s*\[(\d+)/(\d+)\] ")

    def read() -> None:
        with LOG.open("a", encoding="utf-8", errors="replace") as log:
            for line in lines:
                log.write(line)
                match = compiling.match(line)
                if match:
                    now[0] = "compiling llama.cpp, step {} of {}".format(*match.groups())
                elif line[:1].isalpha():  # pip's own words; what it runs is indented
                    now[0] = line.strip()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    shown = -1.0
    while reader.is_alive():
        reader.join(0.2 if live else 1.0)
        seconds = time.monotonic() - started
        text = f"  {int(seconds) // 60}:{int(seconds) % 60:02d}  {now[0]}"
        if live:
            sys.stderr.write("\r" + text[:width].ljust(width))
            sys.stderr.flush()
        elif seconds - shown >= 15:
            shown = seconds
            _say(text[:width])
    if live:
        sys.stderr.write("\r" + " " * width + "\r")
        sys.stderr.flush()


def _explain_failure() -> None:
    """Print the log's end, and what to do about the failures that fresh machines have."""
    text = LOG.read_text(encoding="utf-8", errors="replace")
    for line in text.splitlines()[-TAIL_LINES:]:
        _say("  | " + line[:200])
    _say(f"\nThe installation failed. The whole log is {LOG}")
    for words, advice in _REMEDIES:
        if any(word in text for word in words):
            _say(advice())
            return
    _say("Mend what the log's last lines say, and start again.")


def _compiler_advice() -> str:
    """Which package brings a C++ compiler here."""
    import shutil

    managers = {
        "apt-get": "sudo apt-get install build-essential",
        "dnf": "sudo dnf install gcc-c++ make",
        "pacman": "sudo pacman -S base-devel",
        "zypper": "sudo zypper install gcc-c++ make",
        "apk": "sudo apk add build-base linux-headers",
    }
    command = next((c for name, c in managers.items() if shutil.which(name)), "install gcc and g++, or clang")
    if sys.platform == "darwin":
        command = "xcode-select --install"
    elif WINDOWS:
        command = "winget install Microsoft.VisualStudio.2022.BuildTools, with 'Desktop development with C++'"
    return f"There is no C++ compiler. Install one ({command}) and start again."


_REMEDIES = (
    (
        (
            "No CMAKE_C_COMPILER could be found",
            "No CMAKE_CXX_COMPILER could be found",
            "CMAKE_C_COMPILER not set",
            "CMAKE_CXX_COMPILER not set",
            "could not find any instance of Visual Studio",
            "is not a full path to an existing compiler tool",
            "Could not find compiler set in environment variable",
        ),
        _compiler_advice,
    ),
    (("No space left on device",), lambda: "The disk is full. Free about 2 GB and start again."),
    (
        ("Killed signal terminated program", "out of memory", "virtual memory exhausted"),
        lambda: "Memory ran out while compiling. Start again with CMAKE_BUILD_PARALLEL_LEVEL=1 set.",
    ),
    (
        (
            "Temporary failure in name resolution",
            "Failed to establish a new connection",
            "Max retries exceeded",
        ),
        lambda: "The package index cannot be reached. Check the network or pip's settings, and start again.",
    ),
)


_lock_fd = -1


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Hold the installation lock; waits for another start to let it go.

    The system lets the lock go when its holders end, however they end. pip inherits it, so
    that a start whose script was killed, but whose pip goes on, still keeps others out.
    """
    global _lock_fd
    try:
        _lock_fd = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        _stop(f"edge-spec must be installed once by someone who may write to {ROOT} ({error.strerror}).")
    try:
        if not _try_lock(_lock_fd):
            import time

            _say("Another start is installing; waiting for it.")
            while not _try_lock(_lock_fd):
                time.sleep(0.5)
        yield
    finally:
        os.close(_lock_fd)


if WINDOWS:

    def _try_lock(fd: int) -> bool:
        import msvcrt

        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]  # Windows only
        except OSError:
            return False
        return True

else:

    def _try_lock(fd: int) -> bool:
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _stop(text: str) -> NoReturn:
    _say(text)
    sys.exit(1)
