"""Custom ops drawn at random: operands, types, attributes and bodies, against numpy. BURN_SWEEP=n adds n; BURN_SWEEP_SEED
repeats them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import burn

DEFAULT = 4
DTYPES = {
    "float64": "double",
    "float32": "float",
    "int64": "int64_t",
    "int32": "int32_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
}
SIZES = (0, 1, 2, 3, 7, 13)


def cases() -> list[int]:
    seed = int(os.environ.get("BURN_SWEEP_SEED", "0"))
    return list(range(seed, seed + DEFAULT + int(os.environ.get("BURN_SWEEP", "0"))))


def source(count: int, outputs: int, ctype: str) -> str:
    """Output k is the sum of operand i times weights[(i + k) % n], in the operands' type."""
    return f"""#include "burn_custom.h"
int drawn(const burn_custom_call *c) {{
    int64_t n, m;
    const int64_t *weights = burn_custom_ints(c, "weights", &n);
    const double *shift = burn_custom_floats(c, "shift", &m);
    if (c->inputs != {count} || c->outputs != {outputs} || n < 1)
        return 9;
    for (int64_t k = 0; k < c->outputs; k++)
        for (int64_t e = 0; e < c->output[k].elements; e++) {{
            {ctype} sum = ({ctype})(m ? shift[k % m] : 0);
            for (int64_t i = 0; i < c->inputs; i++)
                sum = ({ctype})(sum + ((const {ctype} *)c->input[i].data)[e] * ({ctype})weights[(i + k) % n]);
            (({ctype} *)c->output[k].data)[e] = sum;
        }}
    return 0;
}}"""


@pytest.mark.parametrize("seed", cases())
def test_drawn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(list(DTYPES)))
    count, outputs, rank = int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 4))
    weights = tuple(int(w) for w in rng.integers(0, 4, int(rng.integers(1, 4))))
    shift = tuple(float(s) for s in rng.integers(0, 3, int(rng.integers(0, 3))))
    named = [f"n{axis}" for axis in range(rank)]
    pattern = f"T[{', '.join(named)}]" if rng.random() < 0.5 else "T[...]"
    types = f"{', '.join([pattern] * count)} -> {', '.join([pattern] * outputs)}"

    def compute(xs: Any, cast: Any) -> list[Any]:
        made = []
        for k in range(outputs):
            total = xs[0] * cast(weights[k % len(weights)])
            for i, x in enumerate(xs[1:], 1):
                total = total + x * cast(weights[(i + k) % len(weights)])
            made.append(total + cast(shift[k % len(shift)] if shift else 0))
        return made

    kinds = [kind for kind in ("c", "functions", "python") if rng.random() < 0.6] or ["c"]
    op = burn.custom_op(f"tests::drawn{seed}", types, attributes={"weights": (1,), "shift": ()})
    if "c" in kinds:
        op.c(source(count, outputs, DTYPES[dtype]), "drawn")
    if "functions" in kinds:
        whole = not dtype.startswith("float")
        op.functions(lambda *xs, weights, shift: tuple(compute(xs, int if whole else float)))
    if "python" in kinds:
        kind = np.dtype(dtype).type
        op.python(lambda *xs, weights, shift: tuple(np.asarray(y, dtype) for y in compute(xs, kind)))
    type_ = f"{dtype}[{', '.join(named)}]"

    def program(*xs: Any) -> Any:
        first = op(*(x + x for x in xs), weights=weights, shift=shift)
        return [y + 1 for y in (first if isinstance(first, tuple) else (first,))]

    compiled = burn.compile(program, [type_] * count)
    for bounded in (False, True):
        xs = [rng.integers(0, 5, [int(rng.choice(SIZES)) for _ in named]).astype(dtype) for _ in range(count)]
        xs = [np.resize(x, xs[0].shape) for x in xs]
        want = [np.asarray(y + np.dtype(dtype).type(1)) for y in compute([x + x for x in xs], np.dtype(dtype).type)]
        if bounded:
            with burn.debug.bounds():
                found = compiled(*xs)
        else:
            found = program(*map(burn.tensor, xs)) if rng.random() < 0.3 else compiled(*xs)
        found = found if isinstance(found, (list, tuple)) else [found]
        for y, expected in zip(found, want, strict=True):
            y = np.asarray(y)
            assert y.dtype == dtype
            np.testing.assert_array_equal(y, expected.reshape(y.shape))
