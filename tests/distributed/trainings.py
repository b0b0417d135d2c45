"""Trainings of tests/distributed/letters.py by `burn train`, and their losses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from burn.train import checkpoints

ROOT = Path(__file__).parents[2]
STEPS = 12
PATIENCE = 400.0
"""Seconds that a command may take on a busy machine."""


def start(folder: Path, *options: Any, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "burn.cli.main", "train", "tests/distributed/letters.py:Letters", "--dir", folder]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    quick = {"XLA_FLAGS": "--xla_backend_optimization_level=0", "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths}
    return subprocess.Popen(
        [*map(str, command), *map(str, options)],
        cwd=ROOT, env={**os.environ, **quick, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def trained(folder: Path, *options: Any, status: int = 0) -> str:
    """The output of a training that ends with an exit status."""
    with start(folder, "--epochs", 2, *options) as command:
        output, _ = command.communicate(timeout=PATIENCE)
    assert command.returncode == status, output
    return output


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    found = {line["step"]: line["values"]["loss"] for line in lines if line["event"] == "step"}
    return [found[step] for step in sorted(found)]


def agree(folder: Path, one: Path) -> None:
    np.testing.assert_allclose(losses(folder), losses(one), rtol=0, atol=1e-5)
    ours, other = (checkpoints.read(checkpoints.path_of(f, STEPS)) for f in (folder, one))
    assert ours.tensors.keys() == other.tensors.keys()
    for name, weight in ours.tensors.items():
        if not name.endswith("key.bias"):  # softmax cancels it, and Adam scales up a gradient of rounding errors
            want = other.tensors[name].array()
            np.testing.assert_allclose(weight.array(), want, rtol=1e-3, atol=1e-5, err_msg=name)


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
