"""The reference is made from the code, whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from burn import nn, ops

SCRIPT = Path(__file__).parents[2] / "docs" / "gen.py"


def test_every_op_and_layer_has_its_entry(tmp_path: Path) -> None:
    subprocess.run([sys.executable, SCRIPT, tmp_path], check=True, capture_output=True)
    text = "\n".join(page.read_text() for page in tmp_path.glob("ops-*.md"))
    missing = [name for name in ops.names() if f"burn.ops.{name}(" not in text]
    missing += [name for name in nn.__all__ if f"nn.{name}(" not in (tmp_path / "nn.md").read_text()]
    assert not missing
    linked = (tmp_path / "index.md").read_text()
    assert all(f"({page.name})" in linked for page in tmp_path.glob("*.md") if page.name != "index.md")
