"""torch finds the backend by its name in a fresh process, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

SCRIPT = """
{imports}
import torch
module = torch.nn.Linear(3, 2)
x = torch.randn(5, 3)
assert torch.allclose(torch.compile(module, backend="burn")(x), module(x), atol=1e-5)
"""


AFTER = pytest.param("import burn.importers.torch", marks=pytest.mark.slow)
"""As in this process: tests/importers/torch/test_dynamo.py."""


@pytest.mark.parametrize("imports", ["", AFTER], ids=["torch-alone", "burn-first"])
def test_backend_is_found_by_name(imports: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(imports=imports)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
