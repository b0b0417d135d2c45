"""The CPU's code and the interpreter of kernels agree: on every pass's cases, on random programs, on sizes of 0 and 1."""

from __future__ import annotations

import numpy as np
import pytest

from burn.dialect import ops
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from tests.kernels.interpreting import Unsupported, check, sizes_of
from tests.passes.cases import PLAIN, Case, cases, random, random_weights, read
from tests.passes.test_random import Maker

KERNELS = ("casts", "decompose", "fuse", "indexing", "joining", "layout", "one_hot", "pack", "reductions", "views")
"""The files of cases whose programs make kernels of many kinds; the others are laws of algebra."""

CASES = [
    pytest.param(case, marks=[pytest.mark.slow] if case.large else [])
    for case in cases()
    if case.name.startswith(KERNELS)
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    weights = random_weights(read(case))
    program = read(case, weights)
    sizes = dict.fromkeys(sizes_of(program), 3)
    arrays = [random(t, sizes, 100 + i, case.special) for i, t in enumerate(program.input_types)]
    try:
        check(program, arrays, PLAIN)
    except Unsupported:
        pytest.skip()


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("seed", range(6))
def test_random_program(seed: int, n: int) -> None:
    program = Maker(seed + 1000).make()
    arrays = [random(t, {"n": n}, seed + i) for i, t in enumerate(program.input_types)]
    check(program, arrays)


@pytest.mark.parametrize(("bits", "rows"), [(4, 1), (4, 11), (8, 2), (2, 3)])
def test_weights_of_a_few_bits(bits: int, rows: int) -> None:
    """A matmul with a weight in panels, and many or few rows for the CPU."""
    rng = np.random.default_rng(bits)
    program = Program.create([("x", TensorType("float32", (rows, 50)))])
    arrays = [
        rng.integers(0, 256, (5, 4, 2 * bits)).astype("uint8"),
        rng.uniform(-1, 1, (5, 4)).astype("float32"),
        rng.uniform(0, 2**bits, (5, 4)).astype("float32"),
    ]
    with program.building("product"):
        keys = [program.weights.add_array(a, "w") for a in arrays]
        parts = [ops.weight(key=k, shape=a.shape, dtype=str(a.dtype)) for k, a in zip(keys, arrays, strict=True)]
        y = ops.block_dot(program.inputs[0], *parts, bits=bits, block=16)
    x = rng.standard_normal((rows, 50)).astype("float32")
    check(program.finish([("y", y)]), [x], "blocks,decompose{keep=block_dot},pack,fold,fuse,release")
