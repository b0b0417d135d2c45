"""The reference is made from the code, whole."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_args

from burn import nn, ops, train
from burn.tensors.functions import NAMES
from tests.api.rows import ROWS

SCRIPT = Path(__file__).parents[2] / "docs" / "gen.py"


def test_every_op_and_layer_has_its_entry(tmp_path: Path) -> None:
    subprocess.run([sys.executable, SCRIPT, tmp_path], check=True, capture_output=True)
    text = "\n".join(page.read_text() for page in tmp_path.glob("ops-*.md"))
    missing = [name for name in ops.names() if f"burn.ops.{name}(" not in text]
    layers = [name for name in nn.__all__ if not inspect.ismodule(getattr(nn, name))]
    missing += [name for name in layers if f"nn.{name}(" not in (tmp_path / "nn.md").read_text()]
    tensors = (tmp_path / "tensor.md").read_text()
    missing += [name for name in NAMES if f"`burn.{name}(" not in tensors]
    missing += [row.key for row in ROWS if f"`burn.{row.key}(" not in tensors]
    trained = (tmp_path / "train.md").read_text()
    told = [event.__name__ for event in get_args(train.Event)]
    metrics, events = (train.metrics.__all__, "metrics"), (told, "events")
    missing += [name for names, home in (metrics, events) for name in names if f"{home}.{name}(" not in trained]
    missing += [
        name for name in ("step", "Learner", "Experiment", "Keep", "TensorBoard") if f"train.{name}(" not in trained
    ]
    assert not missing
    linked = (tmp_path / "index.md").read_text()
    assert all(f"({page.name})" in linked for page in tmp_path.glob("*.md") if page.name != "index.md")
