"""Bounds of constants before their computation enclose their values."""

from __future__ import annotations

import numpy as np
import pytest

from burn.passes.algebra.bounds import RULES, Bounds

NUMPY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "neg": np.negative, "reciprocal": np.reciprocal, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_every_rule_encloses_what_it_is_about(name: str) -> None:
    random = np.random.default_rng(0)
    operands = 2 if name in ("add", "sub", "mul", "div", "max", "min") else 1
    told = 0
    for _ in range(200):
        arrays = []
        for _ in range(operands):
            low, high = sorted(random.uniform(-3, 3, 2))
            arrays.append(random.uniform(low, high, 4) * random.choice([0, 1], p=[0.1, 0.9]))
        found = RULES[name](*(Bounds(a.min(), a.max(), np.abs(a).min()) for a in arrays))
        if found is None:
            continue
        told += 1
        exact = NUMPY[name](*arrays)
        slack = 1e-12 * np.abs(exact).max()
        assert found.low <= exact.min() + slack and exact.max() <= found.high + slack
        assert found.near <= np.abs(exact).min() + slack
    assert told > 20
