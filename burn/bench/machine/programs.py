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


def matmul_of_inputs(rows: int, depth: int, columns: int) -> Make:
    """By a matrix that is read in place."""
    return lambda: trace_examples(lambda x, w: x @ w, (f"float32[{rows}, {depth}]", f"float32[{depth}, {columns}]"))


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


def pointwise_convolution(size: int, channels: int, count: int = 1) -> Make:
    """So many of 1 x 1 with constant weights, with ReLU between them, on one image in channels-first layout."""

    def make() -> Program:
        weight = _random(channels, channels, 1, 1)

        def convolve(x: Any) -> Any:
            return ops.conv(x, constant(weight), strides=(1, 1), dilations=(1, 1), low=(0, 0), high=(0, 0))

        def apply(x: Any) -> Any:
            for _ in range(count - 1):
                x = ops.relu(convolve(x))
            return convolve(x)

        return trace_examples(apply, (f"float32[1, {channels}, {size}, {size}]",))

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


SHORT_ROW, WINDOW = 64, 3

LAUNCHED = SHORT_ROW * (3 * WINDOW + 1)
"""Operations of a row of `launches` as the heuristics count them (heuristics/launches.py): for each element of a window a load, a
padding value and the choice between them, and the result."""


def launches(rows: int, count: int) -> Make:
    """`count` kernels, each the largest of three neighbours in rows of 64 elements. Between two kernels of a run workers are
    awake."""

    def apply(x: Any) -> Any:
        same = (1, 1)
        for _ in range(count):
            x = ops.window_reduce(
                x, kind="max", window=(1, WINDOW), strides=same, dilations=same, low=(0, 1), high=(0, 1)
            )
        return x

    return lambda: trace_examples(apply, (f"float32[{rows}, {SHORT_ROW}]",))


def network() -> Program:
    """A convolutional network of small kernels: pointwise and grouped convolutions of small images, as in MobileNet."""
    size, channels = 28, 32
    first, last = _random(3, 3, channels, channels), _random(channels, 10)
    pairs = [(_random(3, 3, 1, channels), _random(1, 1, channels, channels)) for _ in range(4)]

    def convolve(x: Any, weight: np.ndarray, groups: int) -> Any:
        same, pad = (1, 1), (weight.shape[0] // 2,) * 2
        made = ops.conv(
            x, constant(weight), strides=same, dilations=same, low=pad, high=pad, groups=groups, layout="last"
        )
        return ops.max(made, constant(np.float32(0)))

    def apply(x: Any) -> Any:
        x = convolve(x, first, 1)
        for grouped, pointwise in pairs:
            x = convolve(convolve(x, grouped, channels), pointwise, 1)
        return x.sum((1, 2)) @ constant(last)

    return trace_examples(apply, (f"float32[1, {size}, {size}, {channels}]",))


def encoder() -> Program:
    """A layer of a transformer: attention and two matmuls with GELU between them, on 64 words."""
    length, heads, depth = 64, 4, 32
    width = heads * depth
    qkv, out, up, down = (_random(*s) for s in ((width, 3 * width), (width, width), (width, 512), (512, width)))

    def apply(x: Any) -> Any:
        split = (x @ constant(qkv)).reshape((1, length, 3 * heads, depth)).permute((0, 2, 1, 3))
        q, k, v = (split[:, i * heads : (i + 1) * heads] for i in range(3))
        mixed = ops.attention(q, k, v, scale=depth**-0.5).permute((0, 2, 1, 3)).reshape((length, width))
        x = x + mixed @ constant(out)
        return x + ops.gelu(x @ constant(up)) @ constant(down)

    return trace_examples(apply, (f"float32[{length}, {width}]",))


def functions(elements: int, steps: int) -> Make:
    """The sum of `steps` exponentials of multiples of each element. None is of another, which would wait for it and overflow."""

    def apply(x: Any) -> Any:
        total = ops.exp(x)
        for step in range(1, steps):
            total = total + ops.exp(x * (0.5 + step / 64))
        return total

    return lambda: trace_examples(apply, (f"float32[{elements}]",))


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 0.1
