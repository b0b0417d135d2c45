"""Drawn programs of ops of complex numbers. Arguments and results are real and imaginary parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.importers.stablehlo.cases import Case, Rng, array, family, ints, pick, shape_of, tensor

WHOLE = {"float32": "complex64", "float64": "complex128"}


def of_parts(
    op: str,
    name: str,
    shapes: Sequence[Sequence[int]],
    result: str,
    parts: list[np.ndarray],
    attributes: str = "",
    regions: str = "",
    loose: float = 30.0,
) -> Case:
    """An op on complex operands that are made of pairs of arguments. result: its type."""
    whole = WHOLE[name]
    types = [tensor(whole, shape) for shape in shapes]
    lines = [
        f'%z{i} = "stablehlo.complex"(%a{2 * i}, %a{2 * i + 1}) : ({tensor(name, s)}, {tensor(name, s)}) -> {t}'
        for i, (s, t) in enumerate(zip(shapes, types, strict=True))
    ]
    attributes = f" <{{{attributes}}}>" if attributes else ""
    operands = ", ".join(f"%z{i}" for i in range(len(shapes)))
    lines.append(f'%r = "{op}"({operands}){attributes}{regions} : ({", ".join(types)}) -> {result}')
    if "complex" not in result:
        return Case(op, parts, lines, [("%r", result)], loose)
    real = result.replace("complex<f32>", "f32").replace("complex<f64>", "f64")
    lines += [f'%{part} = "stablehlo.{part}"(%r) : ({result}) -> {real}' for part in ("real", "imag")]
    return Case(op, parts, lines, [("%real", real), ("%imag", real)], loose)


def numbers(rng: Rng, name: str, shape: Sequence[int]) -> list[np.ndarray]:
    return [array(rng, name, shape, special=False) for _ in range(2)]


UNARY = [
    "abs", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "negate", "rsqrt", "sign", "sine",
    "sqrt", "tan", "tanh", "real", "imag",
]  # fmt: skip


@family
def complex_unary(rng: Rng) -> Case:
    op, name, shape = pick(rng, UNARY), pick(rng, list(WHOLE)), shape_of(rng)
    result = tensor(name if op in ("abs", "real", "imag") else WHOLE[name], shape)
    return of_parts(f"stablehlo.{op}", name, [shape], result, numbers(rng, name, shape))


@family
def complex_binary(rng: Rng) -> Case:
    op, name, shape = (
        pick(rng, ["add", "subtract", "multiply", "divide", "power"]),
        pick(rng, list(WHOLE)),
        shape_of(rng),
    )
    parts = [*numbers(rng, name, shape), *numbers(rng, name, shape)]
    return of_parts(f"stablehlo.{op}", name, [shape, shape], tensor(WHOLE[name], shape), parts, loose=200)


@family
def complex_compare(rng: Rng) -> Case:
    shape = shape_of(rng)
    parts = [rng.integers(0, 2, shape).astype("f4") for _ in range(4)]
    attributes = f"comparison_direction = #stablehlo<comparison_direction {pick(rng, ['EQ', 'NE'])}>"
    return of_parts("stablehlo.compare", "float32", [shape, shape], tensor("bool", shape), parts, attributes)


@family
def complex_moves(rng: Rng) -> Case:
    name, shape = pick(rng, list(WHOLE)), shape_of(rng, 3, 1)
    parts = numbers(rng, name, shape)
    axis = int(rng.integers(len(shape)))
    if rng.random() < 0.5:
        return of_parts(
            "stablehlo.reverse", name, [shape], tensor(WHOLE[name], shape), parts, f"dimensions = {ints([axis])}"
        )
    order = [int(a) for a in rng.permutation(len(shape))]
    result = tensor(WHOLE[name], [shape[a] for a in order])
    return of_parts("stablehlo.transpose", name, [shape], result, parts, f"permutation = {ints(order)}")


@family
def complex_sum(rng: Rng) -> Case:
    name, shape = pick(rng, list(WHOLE)), shape_of(rng, 3, 1)
    axis, t = int(rng.integers(len(shape))), tensor(WHOLE[name], ())
    region = f'{{^bb0(%x: {t}, %y: {t}): %s = "stablehlo.add"(%x, %y) : ({t}, {t}) -> {t} "stablehlo.return"(%s) : ({t}) -> ()}}'
    result = tensor(WHOLE[name], [d for a, d in enumerate(shape) if a != axis])
    parts = [*numbers(rng, name, shape), *(np.zeros((), name) for _ in range(2))]
    return of_parts(
        "stablehlo.reduce", name, [shape, ()], result, parts, f"dimensions = {ints([axis])}", f" ({region})"
    )


@family
def complex_dot(rng: Rng) -> Case:
    name = pick(rng, list(WHOLE))
    m, k, n = (int(rng.integers(1, 5)) for _ in "abc")
    numbers_ = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
    parts = [*numbers(rng, name, (m, k)), *numbers(rng, name, (k, n))]
    attributes = f"dot_dimension_numbers = {numbers_}"
    return of_parts("stablehlo.dot_general", name, [(m, k), (k, n)], tensor(WHOLE[name], (m, n)), parts, attributes)


@family
def fft(rng: Rng) -> Case:
    name = pick(rng, list(WHOLE))
    shape = [int(rng.integers(1, 9)) for _ in range(int(rng.integers(1, 4)))]
    count = int(rng.integers(1, len(shape) + 1))
    kind = pick(rng, ["FFT", "IFFT", "RFFT", "IRFFT"])
    lengths = shape[-count:]
    attributes = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {ints(lengths)}"
    half = [*shape[:-1], shape[-1] // 2 + 1]
    if kind == "RFFT":
        x = array(rng, name, shape, special=False)
        t, result = tensor(name, shape), tensor(WHOLE[name], half)
        lines = [f'%r = "stablehlo.fft"(%a0) <{{{attributes}}}> : ({t}) -> {result}']
        lines += [f'%{p} = "stablehlo.{p}"(%r) : ({result}) -> {tensor(name, half)}' for p in ("real", "imag")]
        return Case("stablehlo.fft", [x], lines, [(f"%{p}", tensor(name, half)) for p in ("real", "imag")], 60)
    given = half if kind == "IRFFT" else shape
    parts = numbers(rng, name, given)
    if kind == "IRFFT":  # a real signal has no imaginary part at the ends, and none of its own in several axes
        x = np.fft.rfftn(
            array(rng, name, shape, special=False).astype("f8"), axes=range(len(shape) - count, len(shape))
        )
        parts = [x.real.astype(name), x.imag.astype(name)]
    result = tensor(name if kind == "IRFFT" else WHOLE[name], shape)
    return of_parts("stablehlo.fft", name, [given], result, parts, attributes, loose=100)
