"""The table of scalar functions: what is not in a row, the code on a device, is there for every row."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

from burn.codegen.cpu.math import FUNCTIONS as CPU
from burn.codegen.triton.functions import FUNCTIONS as GPU
from burn.dialect.adjoint.rules import kind
from burn.dialect.functions import FUNCTIONS, Function
from burn.tensors import Tensor

FIELDS = {"float": "floats", "int": "signed", "uint": "unsigned", "bool": "boolean"}


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: row.name)
def test_devices_have_code_for_every_kind(row: Function) -> None:
    for table in (CPU, GPU):
        missing = [k for k in row.kinds if k in FIELDS and getattr(table[row.name], FIELDS[k]) is None]
        assert not missing
    assert CPU[row.name].arity == row.arity


@pytest.mark.parametrize(
    "row", [r for r in FUNCTIONS if "float" in r.kinds and not r.predicate], ids=lambda row: row.name
)
def test_functions_of_floats(row: Function) -> None:
    """They have a meaning, a derivative (or none for a stated reason) and, with one operand, a method."""
    assert row.numpy is not None and kind(row.name) in ("rule", "zero")
    low, high = (max(row.domain[0], -2.0), min(row.domain[1], 2.0))
    inside = low + (high - low) * 0.8
    assert math.isfinite(row.numpy(*[np.float64(inside)] * row.arity))
    assert row.arity == 2 or callable(getattr(Tensor, row.name))


def test_names_of_operators_exist() -> None:
    torch = pytest.importorskip("torch")
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    assert not {row.onnx for row in FUNCTIONS if row.onnx} - names
    assert not [row.aten for row in FUNCTIONS if row.aten and not hasattr(torch.ops.aten, row.aten)]
    assert len({row.name for row in FUNCTIONS}) == len(FUNCTIONS)
