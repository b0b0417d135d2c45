"""Convolutions whose taps lie in padding: the cropped and divided ones against the convolution as it was."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

import burn
from burn.compiler import executable
from burn.dialect.contraction import Conv
from burn.dialect.program import Program
from burn.passes.crop_taps import CropTaps
from burn.tracing.trace import trace
from tests.passes.splitting import splitting

CASES = 25 if "BURN_SWEEP" not in os.environ else int(os.environ["BURN_SWEEP"])
SEED = int(os.environ.get("BURN_SWEEP_SEED", "0"))


def drawn(rng: random.Random) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str]:
    axes, last = rng.choice((1, 2, 2, 3)), rng.random() < 0.4
    groups = rng.choice((1, 1, 1, 3))
    inputs, outputs = groups * rng.choice((1, 2)), groups * rng.choice((1, 3))
    sizes, kernel, options = [], [], {"strides": [], "dilations": [], "low": [], "high": []}
    for _ in range(axes):
        size, taps, dilation = rng.randint(1, 9), rng.randint(1, 4), rng.randint(1, 12)
        reach = (taps - 1) * dilation + 1
        low = rng.choice((0, reach // 2, reach - 1, rng.randint(0, reach + 3)))
        high = max(rng.choice((low, 0, reach // 2)), reach - size - low)
        sizes.append(size)
        kernel.append(taps)
        for name, value in zip(options, (rng.choice((1, 1, 2, 5)), dilation, low, high), strict=True):
            options[name].append(value)
    batch = rng.choice((0, 1, 2, 3))
    x = (batch, *sizes, inputs) if last else (batch, inputs, *sizes)
    weight = (*kernel, inputs // groups, outputs) if last else (outputs, inputs // groups, *kernel)
    attrs = {name: tuple(row) for name, row in options.items()} | {
        "groups": groups,
        "layout": "last" if last else "first",
    }
    return x, weight, attrs, rng.choice(("float32", "float64", "int32", "n"))


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
def test_the_same_numbers(seed: int) -> None:
    x, weight, attrs, kind = drawn(random.Random(seed))
    dtype = "float64" if kind == "n" else kind
    batch = "n" if kind == "n" else x[0]
    types = {"x": f"{dtype}[{', '.join(map(str, (batch, *x[1:])))}]", "w": f"{dtype}[{', '.join(map(str, weight))}]"}
    program = trace(lambda x, w: burn.ops.conv(x, w, **attrs), types)
    cropped = program.copy()
    CropTaps().run(cropped, splitting())
    rng = np.random.default_rng(seed)
    values = [rng.integers(-9, 9, shape).astype(dtype) for shape in (x, weight)]
    results = [np.asarray(executable(each)(*values)) for each in (program, cropped)]
    np.testing.assert_array_equal(results[1], results[0])


def convolutions(program: Program) -> list[Conv]:
    return [op.opview for op in program.block.operations if isinstance(op.opview, Conv)]


def test_a_quarter_of_the_work() -> None:
    """3x3 taps dilated by 12 over 16x16 pixels: three segments along each axis."""
    options: dict[str, Any] = {"strides": (1, 1), "dilations": (12, 12), "low": (12, 12), "high": (12, 12)}
    program = trace(
        lambda x, w: burn.ops.conv(x, w, **options), {"x": "float32[1, 64, 16, 16]", "w": "float32[64, 64, 3, 3]"}
    )
    work = sum(op.flops() for op in convolutions(program))
    assert isinstance(work, int)
    assert CropTaps().run(program) == {"cropped": 0}
    assert CropTaps().run(program, splitting(0.8)) == CropTaps().run(program, splitting(0.7, work)) == {"cropped": 0}
    assert CropTaps().run(program, splitting(0.5, work // 10)) == {"cropped": 1}
    assert len(convolutions(program)) == 9
    assert sum(op.flops() for op in convolutions(program)) * 4 == work


def test_padding_of_another_value_stays() -> None:
    options: dict[str, Any] = {
        "strides": (1,),
        "dilations": (9,),
        "low": (9,),
        "high": (9,),
        "dtype": "int32",
        "fill": 3,
    }
    program = trace(lambda x, w: burn.ops.conv(x, w, **options), {"x": "uint8[1, 2, 4]", "w": "int8[2, 2, 3]"})
    assert CropTaps().run(program, splitting()) == {"cropped": 0}
