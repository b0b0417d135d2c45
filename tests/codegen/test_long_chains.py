"""Long chains of scalars compile: LLVM's vectoriser takes exponential time for values that are used twice at every step."""

from __future__ import annotations

import subprocess
import sys

import pytest

import burn
from burn.codegen.cpu.target import TARGETS
from burn.compiler import compile_program
from burn.options import Options
from burn.tracing.trace import trace

CHAIN = """
import numpy as np, burn

def chain(x):
    for _ in range(40):
        x = burn.maximum(x * 0.5, 0.25 - x)
    return x

compiled = burn.compile(chain, (np.float32(0.7),), cache=False)
x = want = np.float32(0.7)
for _ in range(40):
    want = np.maximum(want * np.float32(0.5), np.float32(0.25) - want)
np.testing.assert_allclose(np.asarray(compiled(x)), want, rtol=1e-6)
"""

UNROLLED = """
import numpy as np, burn

def least(x):
    return burn.minimum(burn.min(x[:, :, :4]), 0)

x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
assert np.asarray(burn.compile(least, (x,), cache=False)(x)) == x[:, :, :4].min()
"""


@pytest.mark.parametrize("program", [CHAIN, UNROLLED], ids=["chain", "unrolled"])
def test_compiles(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_the_hint_for_compilers_of_other_machines() -> None:
    """Their LLVM is older: it has one spelling of the hint, and ignores others."""
    program = trace(lambda x: burn.minimum(burn.min(x), 0), {"x": "float32[2, 7, 5]"})
    text = bytes(compile_program(program, Options(TARGETS["simd128"], as_text=True)).code)
    assert b'"llvm.loop.vectorize.enable", i1 false' in text
    assert b"vectorize.disable" not in text
