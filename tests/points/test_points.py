"""Every function of the table at every special point: values, first and second derivatives against PyTorch in float64.
Differences stand in `explained.py` with a reason, and no reason stands there for nothing.

A test run takes one function of three, and other ones by BURN_SWEEP_SEED; BURN_SWEEP=1 takes all, in every way."""

from __future__ import annotations

import os
import warnings
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from burn.errors import ModelError
from tests.points.explained import EXPLAINED, NOT_EXPORTED, WITHOUT_SECOND, reason
from tests.points.exported import EXPORTED
from tests.points.from_onnx import EXPLAINED as OPERATOR
from tests.points.from_onnx import IMAGES, SINGLE, SPELLED, exported, spelled
from tests.points.functions import TABLE
from tests.points.run import NEAR, differing, imported, in_torch, native

ALL = "BURN_SWEEP" in os.environ
PART = int(os.environ.get("BURN_SWEEP_SEED", "0"))
NAMES = list(TABLE)
PICKED = NAMES if ALL else NAMES[PART % 3 :: 3]


def _theirs(name: str) -> tuple:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return in_torch(TABLE[name].torch, WITHOUT_SECOND.get(name, ""))


def _unexplained(name: str, ours: tuple) -> list[str]:
    found = differing(ours, _theirs(name))
    return [f"{point}, {part}: {text}" for point, part, text in found if reason(name, point, part) is None]


@pytest.mark.parametrize("name", PICKED)
def test_native(name: str) -> None:
    assert not _unexplained(name, native(TABLE[name], jit=True))


@pytest.mark.parametrize("name", NAMES if ALL else PICKED[::8])
def test_recorded(name: str) -> None:
    assert not _unexplained(name, native(TABLE[name], jit=False))


@pytest.mark.parametrize("name", NAMES if ALL else PICKED[::8])
def test_imported_from_torch(name: str) -> None:
    """By torch.export, differentiated by burn."""
    try:
        found = imported(TABLE[name])
    except ModelError as error:
        if name not in NOT_EXPORTED or "cannot be exported" not in str(error):
            raise
        pytest.skip(f"torch.export refuses: {NOT_EXPORTED[name]}")
    assert not _unexplained(name, found)


OPERATORS = [*SPELLED, *IMAGES]


@pytest.mark.parametrize("name", OPERATORS if ALL else OPERATORS[PART % 24 :: 24])
def test_operators_of_onnx(name: str) -> None:
    near = 1e-7 if name in SINGLE else NEAR
    found = differing(spelled(name), _theirs(name), near)
    every = [
        (row, reason(name, *row[:2]) or next((r for r in OPERATOR if r.covers(name, *row[:2])), None)) for row in found
    ]
    assert not [row for row, why in every if why is None]


@pytest.mark.parametrize("name", NAMES if ALL else NAMES[PART % 60 :: 60])
def test_exported_and_imported_again(name: str, tmp_path: Path) -> None:
    """At every point. Differences that the export makes have a reason of their own, which must be needed."""
    rows = [row[:2] for row in differing(exported(name, tmp_path), _theirs(name)) if reason(name, *row[:2]) is None]
    reasons = [r for r in (*EXPORTED, *OPERATOR) if fnmatchcase(name, r.functions)]
    assert not [row for row in rows if not any(r.covers(name, *row) for r in reasons)]
    own = [r for r in reasons if r in EXPORTED]
    assert not [r for r in own if not any(r.covers(name, *row) for row in rows)]
    assert not [p for r in own for p in r.points if not any(point == p and part in r.parts for point, part in rows)]


@pytest.mark.skipif(not ALL, reason="BURN_SWEEP: all functions have to be run")
def test_every_reason_is_needed() -> None:
    needed = set()
    for name in NAMES:
        for point, part, _ in differing(native(TABLE[name], jit=True), _theirs(name)):
            needed.add(reason(name, point, part))
    assert not [r for r in EXPLAINED if r not in needed and not r.imported]
