"""Run a program for as long as stdin stays open: `python -m bench.keeper PROGRAM ARGUMENTS...`.

The system closes a pipe however its other end's owner ends, so the program does not outlive a
script that crashed or was killed. Its stdout goes to stderr, and the exit code is its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

PATIENCE_S = 10.0


def main(command: list[str]) -> None:
    try:
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error}")

    def end_with_stdin() -> None:
        while os.read(0, 4096):
            pass
        program.terminate()
        try:
            program.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            program.kill()

    threading.Thread(target=end_with_stdin, daemon=True).start()
    code = program.wait()
    # The thread may still be reading, so no orderly end, which would wait for stdin's lock.
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
