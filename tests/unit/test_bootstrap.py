"""What decides whether the checkout's own environment is current, and what an installation does then.

pip, the compiler and the network are replaced; the files that decide are real.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import _bootstrap
import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = '[project]\ndependencies = ["numpy>=2", "llama-cpp-python==1.2.3", "rich"]\n'
AMX = 'CMAKE_ARGS = "-DAMX=OFF"\n\n\ndef amx_is_advertised():\n    return {advertised}\n'


class Checkout:
    """A checkout in a folder of its own; `installs` has the extras and flags of each installation."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.venv = root / ".venv"
        self.installs: list[tuple[list[str], str | None]] = []
        self._monkeypatch = monkeypatch
        (root / "edge_spec" / "llama").mkdir(parents=True)
        (root / "pyproject.toml").write_text(PYPROJECT)
        self.advertise_amx(False)
        self.place(root)
        monkeypatch.delenv("CMAKE_ARGS", raising=False)
        monkeypatch.setattr(_bootstrap, "_create_venv", self._create_venv)
        monkeypatch.setattr(_bootstrap, "_pip", self._pip)
        monkeypatch.setattr(_bootstrap, "_has_amx", lambda: False)
        monkeypatch.setattr(_bootstrap, "_forget_cached_build", lambda: None)

    def place(self, root: Path) -> None:
        """Let _bootstrap take `root` for its checkout."""
        self.root, self.venv = root, root / ".venv"
        places = {
            "ROOT": root,
            "VENV": self.venv,
            "STAMP": self.venv / "stamp.json",
            "INSTALLING": self.venv / "installing",
            "LOG": self.venv / "install.log",
            "LOCK": root / ".venv.lock",
            "PYTHON": self.venv / "python",
        }
        for name, path in places.items():
            self._monkeypatch.setattr(_bootstrap, name, path)

    def advertise_amx(self, advertised: bool) -> None:
        (self.root / "edge_spec" / "llama" / "amx.py").write_text(AMX.format(advertised=advertised))

    def ask(self, cmake_args: str | None) -> None:
        if cmake_args is None:
            self._monkeypatch.delenv("CMAKE_ARGS", raising=False)
        else:
            self._monkeypatch.setenv("CMAKE_ARGS", cmake_args)

    def stamp(self) -> dict[str, Any]:
        stamp: dict[str, Any] = json.loads((self.venv / "stamp.json").read_text())
        return stamp

    def _create_venv(self) -> None:
        (self.venv / "python").touch()

    def _pip(self, arguments: list[str], environment: dict[str, str], started: float) -> None:
        self.installs.append((arguments, environment.get("CMAKE_ARGS")))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    (tmp_path / "checkout").mkdir()
    return Checkout(tmp_path / "checkout", monkeypatch)


def editable(checkout: Checkout, extras: str = "") -> list[str]:
    return ["install", "-e", f"{checkout.root}{extras}"]


# -- when it installs


def test_the_first_start_installs_and_the_second_does_nothing(checkout: Checkout) -> None:
    assert _bootstrap.ensure() == checkout.venv / "python"
    assert checkout.installs == [(editable(checkout), None)]
    assert checkout.stamp() == {"key": _bootstrap._key(), "extras": [], "cmake_args": None}
    assert not (checkout.venv / "installing").exists()
    _bootstrap.ensure()
    assert len(checkout.installs) == 1


def test_a_changed_pyproject_is_installed_over_what_is_there(checkout: Checkout) -> None:
    _bootstrap.ensure(["dev"])
    (checkout.venv / "kept").touch()
    (checkout.root / "pyproject.toml").write_text(PYPROJECT + "# changed\n")
    _bootstrap.ensure()
    assert checkout.installs[1:] == [(editable(checkout, "[dev]"), None)]
    assert (checkout.venv / "kept").exists()
    _bootstrap.ensure(["dev"])
    assert len(checkout.installs) == 2


def test_missing_extras_are_added_to_those_that_are_installed(checkout: Checkout) -> None:
    _bootstrap.ensure(["web"])
    (checkout.venv / "kept").touch()
    _bootstrap.ensure(["dev"])
    assert checkout.installs[1:] == [(editable(checkout, "[dev,web]"), None)]
    assert checkout.stamp()["extras"] == ["dev", "web"]
    assert (checkout.venv / "kept").exists()
    for fewer in ([], ["dev"], ["web"], ["web", "dev"]):
        _bootstrap.ensure(fewer)
    assert len(checkout.installs) == 2


def test_a_moved_checkout_is_installed_again_as_the_install_points_at_the_old_place(
    checkout: Checkout,
) -> None:
    _bootstrap.ensure()
    moved = checkout.root.rename(checkout.root.with_name("moved"))
    checkout.place(moved)
    _bootstrap.ensure()
    assert checkout.installs[1:] == [(["install", "-e", str(moved)], None)]


def test_an_interrupted_installation_is_begun_anew(checkout: Checkout) -> None:
    _bootstrap.ensure(["dev"])
    (checkout.venv / "half-written").touch()
    (checkout.venv / "installing").touch()
    _bootstrap.ensure()
    assert checkout.installs[1:] == [(editable(checkout), None)]
    assert not (checkout.venv / "half-written").exists()
    assert not (checkout.venv / "installing").exists()


def test_a_failed_installation_leaves_no_stamp_and_is_begun_anew(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        sys.exit(1)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(_bootstrap, "_pip", fail)
        _bootstrap.ensure()
    assert (checkout.venv / "installing").exists()
    assert not (checkout.venv / "stamp.json").exists()
    (checkout.venv / "half-written").touch()
    _bootstrap.ensure()
    assert not (checkout.venv / "half-written").exists()
    assert len(checkout.installs) == 1


def test_an_environment_without_its_python_is_made_again(checkout: Checkout) -> None:
    _bootstrap.ensure()
    (checkout.venv / "kept").touch()
    (checkout.venv / "python").unlink()
    _bootstrap.ensure()
    assert (checkout.venv / "python").exists()
    assert not (checkout.venv / "kept").exists()
    assert len(checkout.installs) == 2


@pytest.mark.skipif(os.name != "posix", reason="elsewhere environments link to no Python")
def test_an_environment_whose_python_became_another_version_is_made_again(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, version = checkout.root / "python3", "python3.11"

    def install_python() -> None:
        (checkout.root / version).touch()
        system.unlink(missing_ok=True)
        system.symlink_to(version)

    def create_venv() -> None:
        checkout.venv.joinpath("lib", version).mkdir(parents=True)
        checkout.venv.joinpath("python").symlink_to(system)

    monkeypatch.setattr(_bootstrap, "_create_venv", create_venv)
    install_python()
    _bootstrap.ensure()
    (checkout.venv / "kept").touch()
    install_python()
    _bootstrap.ensure()
    assert len(checkout.installs) == 1
    version = "python3.12"
    install_python()
    _bootstrap.ensure()
    assert len(checkout.installs) == 2
    assert not (checkout.venv / "kept").exists()
    _bootstrap.ensure()
    assert len(checkout.installs) == 2


def test_what_venv_makes_is_an_environment_with_its_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    monkeypatch.setattr(_bootstrap, "VENV", made)
    monkeypatch.setattr(_bootstrap, "PYTHON", made / _bootstrap.PYTHON.relative_to(ROOT / ".venv"))
    assert _bootstrap._has_python()
    for folder in (made / "lib").glob("python*"):
        folder.rename(folder.with_name("python3.3"))
        assert not _bootstrap._has_python()


@pytest.mark.parametrize("words", ["", "{", "[]", '{"extras": []}', '{"key": "KEY", "extras": null}'])
def test_a_stamp_that_says_nothing_usable_counts_as_none(checkout: Checkout, words: str) -> None:
    _bootstrap.ensure()
    (checkout.venv / "stamp.json").write_text(words.replace("KEY", _bootstrap._key()))
    _bootstrap.ensure()
    assert checkout.installs == [(editable(checkout), None)] * 2
    assert checkout.stamp()["key"] == _bootstrap._key()


def test_a_start_that_waited_uses_what_the_other_one_installed(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [False, True]
    monkeypatch.setattr(_bootstrap, "_is_current", lambda extras: answers.pop(0))
    assert _bootstrap.ensure() == checkout.venv / "python"
    assert checkout.installs == []


# -- with which CMAKE_ARGS


def test_other_cmake_args_make_the_environment_again(checkout: Checkout) -> None:
    _bootstrap.ensure()
    (checkout.venv / "kept").touch()
    checkout.ask("-DGGML_CUDA=on")
    _bootstrap.ensure()
    assert checkout.installs[1:] == [
        (["install", "--no-cache-dir", "-e", str(checkout.root)], "-DGGML_CUDA=on")
    ]
    assert checkout.stamp()["cmake_args"] == "-DGGML_CUDA=on"
    assert not (checkout.venv / "kept").exists()
    _bootstrap.ensure()
    assert len(checkout.installs) == 2
    checkout.ask("")
    _bootstrap.ensure()
    assert checkout.installs[2:] == [(editable(checkout), "")]


def test_not_asking_for_cmake_args_keeps_the_build_there_is(checkout: Checkout) -> None:
    checkout.ask("-DGGML_CUDA=on")
    _bootstrap.ensure()
    checkout.ask(None)
    _bootstrap.ensure()
    assert len(checkout.installs) == 1


@pytest.mark.parametrize("lost", ["pyproject.toml changed", "interrupted", "no Python"])
def test_a_later_installation_builds_as_the_first_was_asked_to(checkout: Checkout, lost: str) -> None:
    checkout.ask("-DGGML_CUDA=on")
    _bootstrap.ensure()
    checkout.ask(None)
    if lost == "interrupted":
        (checkout.venv / "installing").touch()
    elif lost == "no Python":
        (checkout.venv / "python").unlink()
    else:
        (checkout.root / "pyproject.toml").write_text(PYPROJECT.replace("1.2.3", "1.2.4"))
    _bootstrap.ensure()
    assert checkout.installs[1:] == [
        (["install", "--no-cache-dir", "-e", str(checkout.root)], "-DGGML_CUDA=on")
    ]
    assert checkout.stamp()["cmake_args"] == "-DGGML_CUDA=on"


@pytest.mark.parametrize("amx", ["", "-DAMX=OFF "])
def test_amx_is_kept_out_where_the_cpu_has_it_and_the_users_flags_come_last(
    checkout: Checkout, amx: str
) -> None:
    checkout.advertise_amx(bool(amx))
    checkout.ask("-DGGML_CUDA=on")
    _bootstrap.ensure()
    assert [flags for _, flags in checkout.installs] == [f"{amx}-DGGML_CUDA=on"]
    assert checkout.stamp()["cmake_args"] == "-DGGML_CUDA=on"  # what the user asked for, no more


def test_without_flags_of_the_users_only_those_against_amx_are_set(checkout: Checkout) -> None:
    checkout.advertise_amx(True)
    _bootstrap.ensure()
    assert checkout.installs == [(editable(checkout), "-DAMX=OFF")]
    assert checkout.stamp()["cmake_args"] is None


@pytest.mark.parametrize(("advertised", "installs"), [(True, 2), (False, 1)])
def test_a_ready_made_build_with_amx_is_compiled_again_where_it_may_crash(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, advertised: bool, installs: int
) -> None:
    monkeypatch.setattr(_bootstrap, "_has_amx", lambda: True)
    checkout.advertise_amx(advertised)
    _bootstrap.ensure()
    again = ["--force-reinstall", "--no-deps", "--no-binary", "llama-cpp-python", "llama-cpp-python==1.2.3"]
    assert len(checkout.installs) == installs
    assert checkout.installs[1:] == [(["install", *again], "-DAMX=OFF")] * (installs - 1)


@pytest.mark.parametrize(
    ("system", "processor", "flags", "advertised"),
    [
        ("linux", "x86_64", "flags : fpu amx_bf16 amx_tile amx_int8", True),
        ("linux", "x86_64", "flags : fpu avx512f", False),
        ("linux", "aarch64", "flags : amx_tile", False),
        ("darwin", "x86_64", "flags : amx_tile", False),
    ],
)
def test_amx_is_advertised_by_the_tile_flag_on_linux_x86_64_only(
    monkeypatch: pytest.MonkeyPatch, system: str, processor: str, flags: str, advertised: bool
) -> None:
    from edge_spec.llama import amx

    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", system)
        patch.setattr(amx.platform, "machine", lambda: processor)
        patch.setattr(Path, "read_text", lambda path: {"/proc/cpuinfo": flags}[path.as_posix()])
        found = amx.amx_is_advertised()
    assert found is advertised


# -- what it says


def test_a_python_that_is_too_old_is_told_so_before_anything_is_made(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_bootstrap, "OLDEST_PYTHON", (99, 1))
    with pytest.raises(SystemExit) as stopped:
        _bootstrap.ensure()
    have = ".".join(map(str, sys.version_info[:3]))
    assert stopped.value.code == 1
    assert capsys.readouterr().err == (
        f"edge-spec needs Python 99.1 or newer, but {sys.executable} is {have}:"
        " start this with a newer one.\n"
    )
    assert not checkout.venv.exists()


def test_the_oldest_python_is_the_one_that_the_project_requires() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=" + ".".join(map(str, _bootstrap.OLDEST_PYTHON))


@pytest.mark.parametrize("name", ["_bootstrap.py", "edge-spec", "test"])
def test_python_3_8_can_load_a_starter_up_to_the_sentence_that_refuses_it(name: str) -> None:
    tree = ast.parse((ROOT / "scripts" / name).read_text(encoding="utf-8"), feature_version=(3, 8))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    evaluated = [node.name for node in functions if node.returns or any(a.annotation for a in node.args.args)]
    if any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body):
        evaluated = []  # `list[str]` and `int | None` stay unread text
    assert evaluated == []


def test_the_engine_pin_is_read_from_pyproject(checkout: Checkout) -> None:
    assert _bootstrap.engine_pin() == "llama-cpp-python==1.2.3"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("make: No space left on device", "The disk is full. Free about 2 GB and start again."),
        (
            "c++: fatal error: Killed signal terminated program cc1plus",
            "Memory ran out while compiling. Start again with CMAKE_BUILD_PARALLEL_LEVEL=1 set.",
        ),
        (
            "Max retries exceeded with url: /simple/numpy/",
            "The package index cannot be reached. Check the network or pip's settings, and start again.",
        ),
        ("something else", "Mend what the log's last lines say, and start again."),
    ],
)
def test_a_failure_shows_the_end_of_the_log_and_one_piece_of_advice(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], words: str, advice: str
) -> None:
    checkout.venv.mkdir()
    log = checkout.venv / "install.log"
    log.write_text("\n".join([words, *(f"line {number}" for number in range(1, 27))]))
    _bootstrap._explain_failure()
    shown = capsys.readouterr().err.splitlines()
    assert shown[:25] == [f"  | line {number}" for number in range(2, 27)]
    assert shown[25:] == ["", f"The installation failed. The whole log is {log}", advice]


def test_a_missing_compiler_is_named_with_the_command_that_brings_one(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(_bootstrap, "WINDOWS", False)
    monkeypatch.setattr("shutil.which", lambda name: name if name == "dnf" else None)
    checkout.venv.mkdir()
    (checkout.venv / "install.log").write_text("CMake Error: CMAKE_CXX_COMPILER not set")
    _bootstrap._explain_failure()
    assert capsys.readouterr().err.splitlines()[-1] == (
        "There is no C++ compiler. Install one (sudo dnf install gcc-c++ make) and start again."
    )


# -- one at a time


def test_the_lock_is_held_while_installing_and_free_afterwards(checkout: Checkout) -> None:
    other = os.open(checkout.root / ".venv.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with _bootstrap._locked():
            assert not _bootstrap._try_lock(other)
        assert _bootstrap._try_lock(other)
    finally:
        os.close(other)


def test_a_checkout_that_cannot_be_written_is_refused_in_one_sentence(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_bootstrap, "LOCK", checkout.root / "no such folder" / "lock")
    with pytest.raises(SystemExit) as stopped:
        _bootstrap.ensure()
    assert stopped.value.code == 1
    assert capsys.readouterr().err == (
        f"edge-spec must be installed once by someone who may write to {checkout.root}"
        " (No such file or directory).\n"
    )
