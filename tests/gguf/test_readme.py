"""The README's Python example runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.pair
def test_the_python_example_of_the_readme_runs(target_path, draft_path, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, str(README), "exec"), {})
    shown = capsys.readouterr().out
    assert "accepted" in shown
    assert "bonus" in shown or "residual" in shown
