"""The two ways to install: a wheel that stands alone, and a checkout that is used where it lies.

The wheels are built by hatchling from the checkout and installed by pip, both without a network.
"""

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SITE_PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
WHERE = """
import json, edge_spec
from edge_spec.models.catalogue import catalogue, catalogue_path
print(json.dumps([edge_spec.__file__, str(catalogue_path()), list(catalogue().pairs)]))
"""


def run(*command: str, folder: Path | None = None) -> str:
    """The program's stdout; with `folder`, in a Python that knows only it and the dependencies."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if folder is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(folder), *SITE_PACKAGES])
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", cwd=folder, env=environment, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def python(folder: Path, *arguments: str) -> str:
    # -S: no .pth files, of which an editable install's would lead back to the checkout.
    # -P: neither would the folder that the tests were started from.
    return run(sys.executable, "-S", "-P", *arguments, folder=folder)


def build(kind: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", f"wheel:{kind}", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("standard", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("editable", tmp_path_factory.mktemp("editable"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the wheel, its dependencies not."""
    folder = tmp_path_factory.mktemp("installed")
    offline = ["--isolated", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile"]
    command = [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", str(folder), str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def test_an_installed_wheel_reads_its_own_catalogue(installed: Path) -> None:
    package, catalogue, pairs = json.loads(python(installed, "-c", WHERE))
    assert Path(package) == installed / "edge_spec" / "__init__.py"
    assert Path(catalogue) == installed / "edge_spec" / "_data" / "catalogue.toml"
    assert pairs[:2] == ["starter", "tiny"]


def test_the_wheel_carries_every_toml_file_of_models_unchanged(installed: Path) -> None:
    carried = {path.name: path.read_bytes() for path in (installed / "edge_spec" / "_data").iterdir()}
    assert "catalogue.toml" in carried
    assert carried == {path.name: path.read_bytes() for path in (ROOT / "models").glob("*.toml")}


def test_the_command_line_of_an_installed_wheel_starts(installed: Path) -> None:
    version = f"edge-spec {PROJECT['version']}\n"
    assert python(installed, "-m", "edge_spec.cli", "--version") == version
    shown = python(installed, "-m", "edge_spec.cli", "--help")
    assert shown.splitlines()[0] == "Usage: edge-spec [OPTIONS] COMMAND [ARGS]..."
    (program,) = (installed / "bin").glob("edge-spec*")
    assert run(str(program), "--version", folder=installed) == version


def test_the_wheel_holds_the_packages_and_nothing_of_the_checkout_around_them(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in names(wheel)}
    metadata = f"edge_spec-{PROJECT['version']}.dist-info"
    assert {"edge_spec", metadata} <= tops <= {"edge_spec", "tui", metadata}


def test_the_wheel_holds_every_module_of_the_library(wheel: Path) -> None:
    held = {name for name in names(wheel) if name.startswith("edge_spec/") and name.endswith(".py")}
    assert held == {path.relative_to(ROOT).as_posix() for path in (ROOT / "edge_spec").rglob("*.py")}


def test_the_wheel_says_what_it_is_and_under_which_licence(wheel: Path) -> None:
    folder = f"edge_spec-{PROJECT['version']}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
        licence = archive.read(f"{folder}/licenses/LICENSE")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# edge-spec\n")
    assert metadata["License-Expression"] == "Apache-2.0"
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_an_editable_install_points_at_the_checkout_and_copies_nothing(editable: Path) -> None:
    with zipfile.ZipFile(editable) as archive:
        outside = {name for name in archive.namelist() if ".dist-info/" not in name}
        (pointer,) = outside
        assert pointer.endswith(".pth")
        assert set(archive.read(pointer).decode().splitlines()) == {str(ROOT)}  # once a package


def test_the_checkout_reads_the_catalogue_in_models() -> None:
    package, catalogue, pairs = json.loads(python(ROOT, "-c", WHERE))
    assert Path(package) == ROOT / "edge_spec" / "__init__.py"
    assert Path(catalogue) == ROOT / "models" / "catalogue.toml"
    assert pairs[:2] == ["starter", "tiny"]
