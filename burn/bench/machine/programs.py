"""Small programs whose kernels depend on costs. Each function returns a new program, because passes change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from burn import ops
from burn.codegen.cpu.costs import Costs
from burn.codegen.cpu.target import Target
from burn.compiler import compile_program
from burn.dialect.program import Program
from burn.options import OFF, SPEED, Options
from burn.runtime.artefact import Artefact
from burn.runtime.executable import Executable
from burn.tensors.creation import constant
from burn.tracing.trace import trace_examples

Make = Callable[[], Program]


def compiled(make: Make, target: Target, costs: Costs) -> Artefact:
    """The program for a CPU with these costs. Nothing is read from the cache."""
    options = Options(target=replace(target, costs=costs), autotune=OFF, cache=False, optimize=SPEED, nans="")
    return compile_program(make(), options)


def loaded(artefact: Artefact) -> Executable:
    return Executable(artefact)


def matmul(rows: int, depth: int, columns: int) -> Make:
    """By a constant, which is packed."""

    def make() -> Program:
        weight = _random(depth, columns)
        return trace_examples(lambda x: x @ constant(weight), (f"float32[{rows}, {depth}]",))

    return make


def attention(heads: int, length: int, depth: int) -> Make:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return ops.attention(q, k, v, scale=depth**-0.5)

    return lambda: trace_examples(attend, (f"float32[1, {heads}, {length}, {depth}]",) * 3)


def convolution(size: int, inputs: int, outputs: int, groups: int = 1) -> Make:
    """3 x 3 with constant weights, on one image in channels-last layout."""

    def make() -> Program:
        weight = _random(3, 3, inputs // groups, outputs)

        def convolve(x: Any) -> Any:
            same = (1, 1)
            return ops.conv(
                x, constant(weight), strides=same, dilations=same, low=same, high=same, groups=groups, layout="last"
            )

        return trace_examples(convolve, (f"float32[1, {size}, {size}, {inputs}]",))

    return make


def weights_of_four_bits(rows: int, depth: int, columns: int) -> Make:
    """A matmul by packed integers with a scale for each 32 of them."""

    def make() -> Program:
        rng = np.random.default_rng(0)
        packed = rng.integers(0, 256, (columns, depth // 32, 16)).astype(np.uint8)
        scale = rng.uniform(0.01, 0.02, (columns, depth // 32)).astype(np.float32)

        def multiply(x: Any) -> Any:
            return ops.block_dot(x, constant(packed), constant(scale), bits=4, block=32)

        return trace_examples(multiply, (f"float32[{rows}, {depth}]",))

    return make


def elementwise(elements: int, steps: int) -> Make:
    """`steps` multiplications and maxima of each element."""

    def apply(x: Any) -> Any:
        for step in range(steps):
            x = ops.max(x * (1 + step / 64), constant(np.float32(-step)))
        return x

    return lambda: trace_examples(apply, (f"float32[{elements}]",))


def functions(elements: int, steps: int) -> Make:
    """`steps` exponentials of each element, with a multiplication and a maximum each."""

    def apply(x: Any) -> Any:
        for step in range(steps):
            x = ops.max(ops.exp(x) * (0.5 + step / 64), constant(np.float32(-step)))
        return x

    return lambda: trace_examples(apply, (f"float32[{elements}]",))


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 0.1
