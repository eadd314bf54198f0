"""Running llama.cpp's programs: one answer each, or a process that serves many and surely ends."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO

from bench.samples import BenchError

SCRIPTS = Path(__file__).resolve().parent.parent
TAIL = 2000


def peer_environment() -> dict[str, str]:
    """Ours without LLAMA_ARG_*, from which llama.cpp reads options: they would set one side only."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_ARG_")}


def run_peer(program: Path, *arguments: str) -> tuple[str, str]:
    """A peer's stdout and stderr. Raises BenchError with its last words when it fails."""
    try:
        done = subprocess.run(
            [str(program), *arguments],
            env=peer_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise _not_built(program, error) from None
    if done.returncode:
        tail = (done.stdout + done.stderr)[-TAIL:]
        raise BenchError(f"{program.name} failed with exit code {done.returncode}:\n{tail}")
    return done.stdout, done.stderr


def _not_built(program: Path, error: OSError) -> BenchError:
    return BenchError(f"{program} cannot be started ({error}): run scripts/build_peers.py first.")


class Service:
    """A process that serves until it is closed; use it as a context manager.

    It has a session of its own, so Ctrl+C reaches only us. It ends when its stdin closes, and
    that happens however we end: a module of ours reads its stdin anyway, and another program is
    started by `bench.keeper`, which ends it then. What it says goes to a file, answers excepted.
    """

    def __init__(self, name: str, module: str, *arguments: str) -> None:
        self.name = name
        # Written at its end, wherever we read; closed by close().
        self._log: IO[bytes] = tempfile.TemporaryFile("a+b")  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=SCRIPTS,
                env=peer_environment() | {"PYTHONPATH": _python_path()},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
            )
        except BaseException:
            self._log.close()
            raise

    @classmethod
    def of_program(cls, program: Path, *arguments: str) -> Service:
        """Another program, whose end is seen to."""
        if not program.exists():
            raise _not_built(program, FileNotFoundError("there is no such file"))
        return cls(program.name, "bench.keeper", str(program), *arguments)

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        """All that it said on stderr so far."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def ask(self, line: str) -> str:
        """Send one line and read one. Raises BenchError when the process has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError:
            answer = b""
        if not answer:
            raise self.failure("ended")
        return answer.decode()

    def ended(self) -> bool:
        return self._process.poll() is not None

    def failure(self, what: str) -> BenchError:
        """An error that quotes its last words."""
        return BenchError(f"{self.name} {what}:\n{self.log()[-TAIL:]}")

    def close(self, patience_s: float = 20.0) -> None:
        """End it, wait until it has, and forget its log; safe to call twice."""
        if self._log.closed:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not sent yet cannot be sent any more
                    pipe.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._log.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def wait_for(service: Service, ready: re.Pattern[str], patience_s: float = 600.0) -> re.Match[str]:
    """The first match in its log. Raises BenchError when the service ends or takes too long."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        ended = service.ended()
        found = ready.search(service.log())
        if found is not None:
            return found
        if ended:
            raise service.failure("ended while it started")
        time.sleep(0.05)
    raise service.failure(f"was not ready after {patience_s:g} s")


def _python_path() -> str:
    """The children import from this checkout what we do."""
    parts = [str(SCRIPTS), str(SCRIPTS.parent), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(part for part in parts if part)
