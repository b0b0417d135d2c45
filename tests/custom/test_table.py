"""The table of custom ops: every kind of body in every use works, or raises the error that table.py names."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.custom.table import (
    COLUMNS,
    ERRORS,
    GUIDE,
    HAS_TRITON,
    KINDS,
    ON_GPU,
    check,
    on_gpu,
    recorded,
    step_on_gpu,
    written,
)
from tests.runtime.simulation import simulation

NEEDED = {"`torch.compile`": "torch", "JAX": "jax"}
"""Packages that columns need."""


COSTLY = ("`torch.compile`", "JAX", "`burn-compile`", "WebAssembly", "Cortex-M")
QUICK = {cell for cell in ERRORS if cell[1] in ("`burn-compile`", "WebAssembly", "Cortex-M")}


def _skip(kind: str, column: str = "") -> None:
    if column in ("WebAssembly", "Cortex-M"):
        pytest.importorskip("ziglang")
    if kind == "Triton kernel" and not HAS_TRITON:
        pytest.skip("Triton is not installed")
    if column in NEEDED and importlib.util.find_spec(NEEDED[column]) is None:
        pytest.skip(f"{NEEDED[column]} is not installed")


def _cells() -> list[Any]:
    """All cells. Those that compile or import much are marked as slow, except for one kind."""
    pairs = [(kind, column) for kind in KINDS for column in COLUMNS]
    slow = {(kind, column) for kind, column in pairs if column in COSTLY and kind != "C source"}
    return [pytest.param(*pair, marks=[pytest.mark.slow] if pair in slow - QUICK else []) for pair in pairs]


@pytest.mark.parametrize(("kind", "column"), _cells())
def test_a_cell(kind: str, column: str, tmp_path: Path) -> None:
    _skip(kind, column)
    if (kind, column) not in ERRORS:
        check(kind, column, tmp_path)
        return
    error, message = ERRORS[kind, column]
    with pytest.raises(error, match=f"(?s){message}"):
        check(kind, column, tmp_path)


def test_the_guide_has_the_table() -> None:
    """`python -m tests.custom.table` writes it."""
    text = GUIDE.read_text()
    assert text == written(text)


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in ("Triton kernel", "C source") else pytest.mark.slow) for kind in KINDS],
)
def test_the_column_of_gpus(kind: str, gpu: Any) -> None:
    """On the simulated GPU. tests/gpu runs the same on a real one."""
    assert recorded(on_gpu(kind)) == (kind in ON_GPU)


@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
def test_a_training_step_with_a_kernel_stays_on_the_gpu(gpu: Any) -> None:
    graphs = simulation().alive("graph")
    losses = step_on_gpu(8, 4)
    assert losses[-1] < losses[0] and simulation().alive("graph") > graphs
