"""Who may import whom: read from the sources, so that a rule holds on paths no test takes."""

from __future__ import annotations

import ast
import graphlib
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import edge_spec

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = sorted((ROOT / "edge_spec").rglob("*.py"))
INTERFACE = sorted((ROOT / "tui").rglob("*.py"))
SHOWING = ("actions", "app", "program", "replay_app", "screens", "widgets")
HEADLESS = ("chat", "conversations", "models", "replay")
PURE = ("sampling", "tree", "verify")
PURE_MAY_USE = {"numpy", *(f"edge_spec.{name}" for name in ("config", "errors", "types", *PURE))}


def imported(source: str) -> Iterator[str]:
    """Every module that `source` imports, wherever in it, by full name; `from a import b` gives a and a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import: {ast.unparse(node)}"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("importlib.import_module", "import_module", "__import__")
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def offenders(paths: list[Path], forbidden: tuple[str, ...]) -> list[str]:
    """`file: module` for each import of a forbidden package or of something in it."""
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for name in imported(path.read_text(encoding="utf-8"))
        if name.partition(".")[0] in forbidden
    ]


def test_the_walk_sees_every_form_of_import() -> None:
    source = (
        "import a.b, c\nfrom d import e\ndef f():\n    import g\n"
        "if 0:\n    from h.i import j as k\nimportlib.import_module('l.m')\n"
    )
    assert sorted(imported(source)) == ["a.b", "c", "d", "d.e", "g", "h.i", "h.i.j", "l.m"]


def test_only_the_llama_package_imports_llama_cpp() -> None:
    outside = [path for path in LIBRARY if "llama" not in path.relative_to(ROOT / "edge_spec").parts[:-1]]
    assert len(outside) < len(LIBRARY)
    assert offenders([*outside, *INTERFACE], ("llama_cpp",)) == []


def test_the_llama_package_knows_nothing_of_model_files_or_of_what_is_built_on_it() -> None:
    known = {"cancel", "config", "errors", "limits", "llama", "types"}
    inside = [path for path in LIBRARY if path.parent == ROOT / "edge_spec" / "llama"]
    used = [found for found in offenders(inside, ("edge_spec",)) if not found.endswith(": edge_spec")]
    assert [found for found in used if found.partition(": ")[2].split(".")[1] not in known] == []
    assert used


def test_the_library_never_imports_an_interface() -> None:
    assert offenders(LIBRARY, ("textual", "tui")) == []


def test_the_interface_sees_only_the_public_names() -> None:
    public = {"edge_spec", *(f"edge_spec.{name}" for name in edge_spec.__all__)}
    private = [
        found for found in offenders(INTERFACE, ("edge_spec",)) if found.partition(": ")[2] not in public
    ]
    assert private == []


def part(name: str) -> str:
    """The package or module of `tui` that a module's full name lies in, "" for anything else."""
    return name.partition(".")[2].partition(".")[0] if name.startswith("tui.") else ""


def test_the_parts_of_the_interface_import_one_another_in_one_direction_only() -> None:
    below: dict[str, set[str]] = {}
    for path in INTERFACE:
        own = path.relative_to(ROOT / "tui").parts[0].removesuffix(".py")
        used = {part(name) for name in imported(path.read_text(encoding="utf-8"))}
        below.setdefault(own, set()).update(used - {own, ""})
    assert below["app"] > {"actions", "screens"}
    order = list(graphlib.TopologicalSorter(below).static_order())  # its CycleError names a circle
    assert order.index("chat") < order.index("widgets") < order.index("screens") < order.index("actions")


@pytest.mark.parametrize("package", HEADLESS)
def test_what_the_interface_shows_is_known_without_what_shows_it(package: str) -> None:
    paths = [path for path in INTERFACE if path.is_relative_to(ROOT / "tui" / package)]
    assert paths
    assert [found for found in offenders(paths, ("tui",)) if part(found.partition(": ")[2]) in SHOWING] == []


@pytest.mark.parametrize("module", PURE)
def test_the_mathematics_needs_numpy_and_the_standard_library_only(module: str) -> None:
    source = (ROOT / "edge_spec" / f"{module}.py").read_text(encoding="utf-8")
    used = {name for name in imported(source) if name.partition(".")[0] not in sys.stdlib_module_names}
    # `from a import b` gives a and a.b: b is in an allowed module when a is one.
    strangers = {
        name
        for name in used
        if not any(name == allowed or name.startswith(f"{allowed}.") for allowed in PURE_MAY_USE)
    }
    assert strangers == set()


def test_public_names_are_sorted_and_can_be_imported() -> None:
    # Constants first, as ruff sorts them.
    assert list(edge_spec.__all__) == sorted(edge_spec.__all__, key=lambda name: (not name.isupper(), name))
    for name in edge_spec.__all__:
        assert getattr(importlib.import_module("edge_spec"), name) is not None


def exporting() -> list[str]:
    """The modules that say in `__all__` what is public in them, by full name."""
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in [*LIBRARY, *INTERFACE]
        if re.search(r"^__all__\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


@pytest.mark.parametrize("name", exporting())
def test_what_a_module_says_is_public_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert [public for public in module.__all__ if not hasattr(module, public)] == []


def test_every_public_name_has_one_home_and_is_listed() -> None:
    assert set(edge_spec._HOME) == set(edge_spec.__all__) >= set(edge_spec._NAME_AT_HOME)


def test_importing_edge_spec_loads_neither_llama_cpp_nor_numpy() -> None:
    code = (
        "import sys; before = set(sys.modules); import edge_spec;"
        "print(*sorted({'llama_cpp', 'numpy', 'textual'} & set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []
