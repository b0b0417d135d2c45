"""scikit-learn's estimators and metrics, and SciPy's functions, with burn tensors: numbers as with numpy arrays."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.array_api.libraries import REFUSED, SCIKIT_LEARN, SCIPY

pytest.importorskip("sklearn")

FEW = ("PCA", "accuracy_score")
TENSORS = ("PCA", "Ridge", "StandardScaler", "stats.zscore", "special.softmax")


def lines(*names: str) -> dict[str, tuple[str, str]]:
    """For each call the distance from numpy's numbers, relative to the largest, or "error"; and the types of its results, or the
    error."""
    command = [sys.executable, "-m", "tests.array_api.libraries", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {name: (first, second) for name, first, second in rows}


def _agree(found: dict[str, tuple[str, str]]) -> None:
    wrong = {name: row for name, row in found.items() if row[0] == "error" or float(row[0]) > 3e-5}
    assert not wrong
    assert {found[name][1] for name in TENSORS if name in found} == {"Tensor"}


def test_a_few() -> None:
    found = lines(*FEW)
    assert found.keys() == set(FEW)
    _agree(found)


@pytest.mark.slow
def test_all() -> None:
    found = lines()
    refused = {name: found.pop(name) for name in REFUSED}
    assert found.keys() == SCIKIT_LEARN.keys() | SCIPY.keys()
    _agree(found)
    assert not {n: row for n, row in refused.items() if row[0] != "error" or REFUSED[n][1] not in row[1]}
