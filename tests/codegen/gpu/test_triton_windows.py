"""Kernels that slide (depthwise convolutions, their gradients, pooling) against float64, in Triton's interpreter.

BURN_SWEEP=200 adds so many drawn cases, from BURN_SWEEP_SEED on.
"""

from __future__ import annotations

import os
import random as drawing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.heuristics.preferences import preferences
from burn.codegen.triton.heuristics.windows import window_block
from burn.dialect import ops
from burn.dialect.adjoint.contraction import conv as gradients
from burn.dialect.dims import parse
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.dialect.adjoint.extreme_windows import OPTIONS, expected, infinite, pulled_back
from tests.kernels.interpreting import interpreted
from tests.passes.cases import random

simulated = pytest.importorskip("tests.codegen.gpu.simulated")
pytest.importorskip("triton")
torch = pytest.importorskip("torch")

ROUNDING = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}


@dataclass(frozen=True)
class Case:
    """A convolution of `groups` groups of `inputs` and `outputs` channels. last: its input and result are channels-last.
    named: the batch has a name. transposed: it is a transposed convolution, with `extra` rows."""

    batch: int
    sizes: tuple[int, ...]
    groups: int
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dtype: str = "float16"
    inputs: int = 1
    outputs: int = 1
    last: bool = True
    named: bool = False
    transposed: bool = False
    extra: tuple[int, ...] = ()

    @property
    def attrs(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: getattr(self, name) for name in ("strides", "dilations", "low", "high", "groups")
        }
        return found | ({"extra": self.extra} if self.transposed else {})

    @property
    def x(self) -> tuple[int, ...]:
        return (self.batch, self.groups * self.inputs, *self.sizes)

    @property
    def weight(self) -> tuple[int, ...]:
        if self.transposed:
            return (self.groups * self.inputs, self.outputs, *self.window)
        return (self.groups * self.outputs, self.inputs, *self.window)

    @property
    def y(self) -> tuple[int, ...]:
        channels = self.groups * self.outputs
        rows = zip(self.sizes, self.window, self.strides, self.dilations, self.low, self.high, strict=True)
        if self.transposed:
            spatial = (
                (d - 1) * s + e + (k - 1) * t + 1 - p - q
                for (d, k, s, t, p, q), e in zip(rows, self.extra, strict=True)
            )
        else:
            spatial = ((d + p + q - (k - 1) * t - 1) // s + 1 for d, k, s, t, p, q in rows)
        return (self.batch, channels, *spatial)


def to_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


def stored(shape: Sequence[int], last: bool) -> tuple[int, ...]:
    return tuple(shape[i] for i in to_last(len(shape))) if last else tuple(shape)


def compiled(case: Case, shapes: Sequence[tuple[int, ...]], function: Callable[..., Any]) -> Program:
    """A program over tensors stored as the case says; only the first and the third are images."""
    types = []
    for number, shape in enumerate(shapes):
        dims: list[Any] = list(stored(shape, case.last) if number != 1 else shape)
        if case.named and number != 1:
            dims[0] = parse("n")
        types.append(TensorType(case.dtype, tuple(dims)))
    made = Program.create([(f"x{i}", t) for i, t in enumerate(types)])
    rank = len(case.x)

    def first(value: Any) -> Any:
        return ops.transpose(value, permutation=to_first(rank)) if case.last else value

    def back(value: Any) -> Any:
        return ops.transpose(value, permutation=to_last(rank)) if case.last else value

    with made.building("node"):
        inputs = [first(v) if i != 1 else v for i, v in enumerate(made.inputs)]
        results = function(*inputs)
        outputs = [back(v) if images else v for v, images in results]
    made.finish([(f"y{i}", v) for i, v in enumerate(outputs)])
    back_end = GPU().session(made)
    pipeline.run(pipeline.parse(back_end.pipeline.text), made, Environment(back_end))
    return made


def convolved(case: Case, x: Any, weight: Any) -> Any:
    """In float64."""
    rank = len(case.window)
    if case.transposed:
        call = (
            torch.nn.functional.conv_transpose1d,
            torch.nn.functional.conv_transpose2d,
            torch.nn.functional.conv_transpose3d,
        )
        full = call[rank - 1](
            x, weight, None, case.strides, 0, case.extra if any(case.extra) else 0, case.groups, case.dilations
        )
        for axis, (p, e) in enumerate(zip(case.low, case.y[2:], strict=True)):
            full = full.narrow(axis + 2, p, e)
        return full
    call = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)
    pads = [p for pair in reversed(list(zip(case.low, case.high, strict=True))) for p in pair]
    padded = torch.nn.functional.pad(x, pads)
    return call[rank - 1](padded, weight, None, case.strides, 0, case.dilations, case.groups)


def arrays(case: Case, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    found = [random(TensorType(case.dtype, stored(s, case.last) if i != 1 else s), {}, i) for i, s in enumerate(shapes)]
    return [np.asarray(a) for a in found]


def wide(case: Case, array: np.ndarray, images: bool) -> Any:
    tensor = torch.from_numpy(array.astype(np.float64))
    return tensor.permute(to_first(tensor.ndim)) if images and case.last else tensor


def near(got: np.ndarray, want: Any, case: Case, images: bool) -> None:
    expected = (want.permute(to_last(want.ndim)) if images and case.last else want).detach().numpy()
    assert got.shape == expected.shape
    bound = ROUNDING[case.dtype]
    np.testing.assert_allclose(
        got.astype(np.float64), expected, rtol=bound, atol=bound * np.abs(expected).max(initial=1)
    )


def forward(case: Case) -> Program:
    """The negated result."""
    op = ops.conv_transpose if case.transposed else ops.conv

    def function(x: Any, w: Any) -> Any:
        return [(ops.neg(op(x, w, **case.attrs)), True)]

    return compiled(case, [case.x, case.weight], function)


def check_forward(case: Case, abilities: Abilities = USUAL_ABILITIES) -> None:
    made, given = forward(case), arrays(case, [case.x, case.weight])
    (got,) = interpreted(made, given, simulated.Simulator(abilities).launch, GPU().session(made).preferences)
    near(got, -convolved(case, wide(case, given[0], True), wide(case, given[1], False)), case, True)


def check_gradients(case: Case, abilities: Abilities = USUAL_ABILITIES) -> None:
    def function(x: Any, w: Any, g: Any) -> Any:
        y = ops.conv(x, w, **case.attrs)
        attrs = (case.strides, case.dilations, case.low, case.high, case.groups)
        found: Any = gradients(g, y, x, w, *attrs, "first", None, None)
        return [(found[0], True), (found[1], False)]

    shapes = [case.x, case.weight, case.y]
    made, given = compiled(case, shapes, function), arrays(case, shapes)
    got = interpreted(made, given, simulated.Simulator(abilities).launch, preferences({}, abilities))
    x, w = (wide(case, given[i], i == 0).requires_grad_() for i in range(2))
    wanted = torch.autograd.grad(convolved(case, x, w), (x, w), wide(case, given[2], True))
    for each, want, images in zip(got, wanted, (True, False), strict=True):
        near(each, want, case, images)


ONE, TWO = (1, 1), (2, 2)
CASES = {
    "3x3": Case(2, (9, 8), 16, (3, 3), ONE, ONE, ONE, ONE),
    "7x7, channels of two blocks": Case(1, (9, 10), 40, (7, 7), ONE, ONE, (3, 3), (3, 3), "bfloat16"),
    "5x5, stride 2, padding that differs": Case(2, (11, 9), 8, (5, 5), TWO, ONE, (1, 2), (2, 2)),
    "strides and dilations that differ": Case(1, (17, 19), 3, (3, 4), (2, 3), (3, 2), (2, 0), (1, 3), "float32"),
    "no padding, tiles that are cut": Case(1, (5, 21), 5, (3, 3), ONE, ONE, (0, 0), (0, 0), "float32"),
    "channels first": Case(2, (9, 13), 6, (3, 3), ONE, ONE, ONE, ONE, last=False),
    "channels first, stride 2": Case(1, (12, 11), 5, (3, 5), TWO, ONE, (1, 2), (1, 2), last=False),
    "1-D, 31 taps": Case(2, (50,), 7, (31,), (1,), (1,), (15,), (15,)),
    "1-D, channels first": Case(2, (37,), 5, (9,), (1,), (2,), (8,), (8,), last=False),
    "3-D": Case(1, (5, 6, 7), 4, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "a multiplier": Case(2, (7, 8), 5, (3, 3), ONE, ONE, ONE, ONE, outputs=2),
    "two channels a group": Case(2, (7, 8), 5, (3, 3), ONE, ONE, ONE, ONE, inputs=2, outputs=3),
    "groups of eight": Case(2, (6, 7), 4, (3, 3), ONE, ONE, ONE, ONE, inputs=8, outputs=8),
    "no images": Case(0, (6, 7), 4, (3, 3), ONE, ONE, ONE, ONE),
    "as many images as a call has": Case(3, (6, 7), 16, (3, 3), ONE, ONE, ONE, ONE, named=True),
    "one row": Case(2, (1, 9), 8, (3, 3), ONE, ONE, ONE, ONE),
}


TRANSPOSED = {
    "3x3, stride 2": Case(2, (5, 6), 8, (3, 3), TWO, ONE, ONE, ONE, transposed=True, extra=(1, 0)),
    "4x5, strides that differ": Case(
        1, (4, 7), 5, (4, 5), (3, 2), ONE, (2, 1), (1, 2), "float32", transposed=True, extra=(0, 1)
    ),
    "dilated": Case(2, (6, 5), 4, (3, 3), TWO, TWO, ONE, TWO, transposed=True, extra=(1, 1)),
    "1-D, channels first": Case(2, (9,), 6, (7,), (2,), (1,), (3,), (3,), transposed=True, extra=(1,), last=False),
    "3-D": Case(1, (3, 4, 3), 4, (3, 2, 3), (2, 1, 2), (1,) * 3, (1, 0, 1), (1, 1, 0), transposed=True, extra=(0,) * 3),
    "two channels a group, a multiplier": Case(
        1, (5, 4), 3, (3, 3), TWO, ONE, ONE, ONE, inputs=2, outputs=3, transposed=True, extra=(0, 0)
    ),
}


def tabled(table: dict[str, Case], slow: Sequence[str]) -> list[Any]:
    """The names of a table's cases; those that take seconds in the interpreter are marked slow."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in table]


SLOW = ("7x7, channels of two blocks", "groups of eight")
QUICK_GRADIENTS = (
    "strides and dilations that differ", "no padding, tiles that are cut", "channels first, stride 2", "1-D, channels first",
    "no images", "one row",
)  # fmt: skip


@pytest.mark.parametrize("name", tabled(TRANSPOSED, ("3-D", "dilated")))
def test_transposed(name: str) -> None:
    check_forward(TRANSPOSED[name])


def kernels_of(made: Program) -> int:
    """The number of groups that are left of a program, each a kernel."""
    return sum(operation.name == "burn.group" for operation in made.block.operations)


def test_one_kernel() -> None:
    """Transposes, padding, dilation and epilogues take part in the kernel of the convolution, in either layout."""
    for last in (True, False):
        case = replace(CASES["3x3"], last=last)
        assert kernels_of(forward(case)) == 1 + last  # the weight becomes channels-last
        assert kernels_of(forward(replace(TRANSPOSED["3x3, stride 2"], last=last))) == 1 + last


def test_a_first_convolution() -> None:
    """One kernel pads the image and arranges its pixels as channels. Another arranges the weight, and the last convolves."""
    case = Case(2, (13, 16), 1, (3, 3), TWO, ONE, ONE, (1, 2), inputs=3, outputs=5, last=False)
    assert kernels_of(forward(case)) == 3
    check_forward(case)


@pytest.mark.parametrize("name", tabled(CASES, SLOW))
def test_forward(name: str) -> None:
    check_forward(CASES[name])


@pytest.mark.parametrize("name", tabled(CASES, [name for name in CASES if name not in QUICK_GRADIENTS]))
def test_gradients(name: str) -> None:
    check_gradients(CASES[name])


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.usefixtures("gpu")
def test_gradients_of_infinite_windows(kind: str) -> None:
    generator = np.random.default_rng(2)
    x = infinite(kind, generator)
    found, g = pulled_back(x, OPTIONS[1], kind, generator, device="cuda")
    np.testing.assert_array_equal(found, expected(x, g, kind, OPTIONS[1]))


def drawn(seed: int) -> Case:
    """A small convolution with few channels in a group."""
    rng = drawing.Random(seed)
    rank = rng.choice((1, 2, 2, 2, 3))
    most = {1: 40, 2: 14, 3: 7}[rank]

    def each(choices: Sequence[int]) -> tuple[int, ...]:
        return tuple(rng.choice(choices) for _ in range(rank))

    window, strides, dilations = each((1, 2, 3, 3, 4, 5, 7)), each((1, 1, 2, 3)), each((1, 1, 1, 2, 3))
    low, high = each((0, 1, 2, 3)), each((0, 1, 2, 3))
    sizes = tuple(
        max(rng.randint(1, most), (k - 1) * t + 1 - p - q)
        for k, t, p, q in zip(window, dilations, low, high, strict=True)
    )
    return Case(
        rng.choice((0, 1, 1, 2, 3)), sizes, rng.choice((1, 2, 5, 8, 16, 24, 40)), window, strides, dilations, low, high,
        rng.choice(("float16", "bfloat16", "float32")), rng.choice((1, 1, 1, 2, 3, 4)), rng.choice((1, 1, 1, 2, 4)),
        rng.random() < 0.7, rng.random() < 0.2,
    )  # fmt: skip


def drawn_transposed(seed: int) -> Case:
    """The transposed convolution of such a case."""
    case, rng = drawn(seed), drawing.Random(-seed)
    extra = tuple(rng.randrange(max(s, t)) for s, t in zip(case.strides, case.dilations, strict=True))
    made = replace(case, transposed=True, extra=extra)
    spare = [min(0, size) for size in made.y[2:]]  # padding may remove no more than there is
    return made if not any(spare) and all(made.y[2:]) else replace(made, low=(0,) * len(extra), high=(0,) * len(extra))


FIRST = int(os.environ.get("BURN_SWEEP_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("BURN_SWEEP", "1")))


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn(seed: int) -> None:
    case = drawn(seed)
    check_forward(case)
    check_gradients(case)
    check_forward(drawn_transposed(seed))


@pytest.mark.parametrize(("taps", "contiguous", "tile"), [(7, False, 16), (3, False, 8), (7, True, 8), (3, True, 4)])
def test_results_of_a_thread(taps: int, contiguous: bool, tile: int) -> None:
    """A thread whose loads have one element has twice as many results in a tile."""
    block = window_block(1 << 24, 112, (taps, taps), 2, 132, contiguous)
    assert (block.tile, block.elements) == (tile, 4 if contiguous else 1)


@pytest.mark.parametrize("image_last", [False, True])
@pytest.mark.parametrize("gradient_last", [False, True])
def test_layouts_of_a_weight_gradient(image_last: bool, gradient_last: bool) -> None:
    """The image and the gradient of the result are each stored channels-first or channels-last."""
    batch, channels, size = 2, 19, (7, 5)
    shapes = [stored((batch, channels, *size), last) for last in (image_last, gradient_last)]
    made = Program.create([(name, TensorType("float32", shape)) for name, shape in zip("xg", shapes, strict=True)])
    with made.building("node"):
        x, g = (
            v if last else ops.transpose(v, permutation=to_last(4))
            for v, last in zip(made.inputs, (image_last, gradient_last), strict=True)
        )
        if not image_last:  # padded as it is stored
            x = made.inputs[0]
        edges = (0, 1, 1, 0) if image_last else (0, 0, 1, 1)
        x = ops.pad(x, ops.full(value=0.0, dtype="float32", shape=()), low=edges, high=edges)
        x = x if image_last else ops.transpose(x, permutation=to_last(4))
        for axis in (1, 3):
            x = ops.windows(x, axis=axis, window=(3,), strides=(1,), dilations=(1,))
        axes = {"lhs_batch": (5,), "rhs_batch": (3,), "lhs_contract": (0, 1, 3), "rhs_contract": (0, 1, 2)}
        result = ops.dot_general(x, g, **axes)
    made.finish([("weight", result)])
    arrays = [random(t, {}, i) for i, t in enumerate(made.input_types)]
    images = [
        a if not last else a.transpose(to_first(4)) for a, last in zip(arrays, (image_last, gradient_last), strict=True)
    ]
    image, gradient = (a.astype(np.float64) for a in images)
    image = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = [
        [np.einsum("nchw,nchw->c", image[:, :, i : i + 7, j : j + 5], gradient) for j in range(3)] for i in range(3)
    ]
    pipeline.run(pipeline.parse("fuse"), made, Environment(GPU()))
    (got,) = interpreted(made, arrays, simulated.Simulator().launch, GPU().preferences)
    np.testing.assert_allclose(got, np.moveaxis(np.asarray(want), 2, 0), rtol=1e-4, atol=1e-4)
