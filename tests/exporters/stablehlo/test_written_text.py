"""The text of StableHLO modules, by family of ops, and what an independent MLIR says of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import burn
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.spec import spec
from burn.dialect.types import TensorType
from burn.errors import CompileError
from burn.exporters.stablehlo import stablehlo_of
from burn.tracing.trace import trace

N = symbol("n")


def written(types: list[str], build: Callable[..., Any], sizes: dict[str, int] | None = None) -> str:
    """The module of ops on inputs of these types."""
    program = Program.create([(f"x{i}", spec(t)) for i, t in enumerate(types)])
    with program.building("node"):
        made = build(*program.inputs)
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    return stablehlo_of(program.finish([(f"y{i}", v) for i, v in enumerate(made)]), sizes)[0]


CASES: dict[str, tuple[list[str], Callable[..., Any], str]] = {
    "elementwise, with broadcasting": (
        ["float32[n, 3]", "float32[3]"],
        lambda x, y: ops.erf(ops.add(x, y)),
        """
        func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>) -> (tensor<2x3xf32>) {
        %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
        %1 = stablehlo.add %arg0, %0 : tensor<2x3xf32>
        %2 = chlo.erf %1 : tensor<2x3xf32> -> tensor<2x3xf32>
        func.return %2 : tensor<2x3xf32>
        """,
    ),
    "division of integers by zero": (
        ["int32[n]", "int32[n]"],
        ops.div,
        """
        stablehlo.compare EQ, %arg1, %0, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
        stablehlo.divide
        stablehlo.select
        """,
    ),
    "a conversion, truncated within range": (
        ["float32[n]"],
        lambda x: ops.cast(x, dtype="uint8"),
        """
        stablehlo.compare GE, %arg0
        : (tensor<2xf32>) -> tensor<2xi32>
        stablehlo.constant dense<-2147483648> : tensor<2xi32>
        : (tensor<2xi32>) -> tensor<2xui8>
        """,
    ),
    "views": (
        ["float32[n, 3]"],
        lambda x: ops.slice(ops.transpose(x, permutation=(1, 0)), starts=(2, 0), sizes=(2, N), steps=(-2, 1)),
        """
        stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
        stablehlo.slice %0 [0:3:2, 0:2:1] : (tensor<3x2xf32>) -> tensor<2x2xf32>
        stablehlo.reverse %1, dims = [0] : tensor<2x2xf32>
        """,
    ),
    "pad and concat": (
        ["float32[n]", "float32[]"],
        lambda x, v: ops.concat([ops.pad(x, v, low=(1,), high=(N,), interior=(1,)), x], axis=0),
        """
        stablehlo.pad %arg0, %arg1, low = [1], high = [2], interior = [1] : (tensor<2xf32>, tensor<f32>) -> tensor<6xf32>
        stablehlo.concatenate %0, %arg0, dim = 0 : (tensor<6xf32>, tensor<2xf32>) -> tensor<8xf32>
        """,
    ),
    "a reduction, of half precision in float32": (
        ["bfloat16[n, 3]"],
        lambda x: ops.reduce(x, kind="sum", axes=(1,), keepdims=True),
        """
        stablehlo.convert %arg0 : (tensor<2x3xbf16>) -> tensor<2x3xf32>
        stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>
        : (tensor<2xf32>) -> tensor<2xbf16>
        stablehlo.reshape %3 : (tensor<2xbf16>) -> tensor<2x1xbf16>
        """,
    ),
    "the index of an extreme": (
        ["int32[n, 3]"],
        lambda x: ops.arg_reduce(x, kind="max", axis=1),
        """
        applies stablehlo.maximum across dimensions = [1]
        stablehlo.iota dim = 1 : tensor<2x3xi64>
        applies stablehlo.minimum across dimensions = [1]
        """,
    ),
    "windows": (
        ["float32[1, 1, n, 4]"],
        lambda x: ops.window_reduce(
            x,
            kind="max",
            window=(1, 1, 2, 2),
            strides=(1, 1, 1, 2),
            dilations=(1,) * 4,
            low=(0, 0, 1, 0),
            high=(0,) * 4,
        ),
        """
        "stablehlo.reduce_window"(%arg0, %0) <{window_dimensions = array<i64: 1, 1, 2, 2>
        stablehlo.maximum
        (tensor<1x1x2x4xf32>, tensor<f32>) -> tensor<1x1x2x2xf32>
        """,
    ),
    "cumulative": (
        ["float32[3, n]"],
        lambda x: ops.cumulative(x, kind="sum", axis=0),
        """
        stablehlo.pad %arg0, %0, low = [1, 0], high = [-1, 0]
        stablehlo.pad %2, %0, low = [2, 0], high = [-2, 0]
        """,
    ),
    "contractions": (
        ["float16[n, 2, 3]", "float16[n, 3, 4]"],
        lambda x, y: ops.dot_general(x, y, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(2,), rhs_contract=(1,)),
        """
        stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x2x3xf16>,
        stablehlo.convert %0 : (tensor<2x2x4xf32>) -> tensor<2x2x4xf16>
        """,
    ),
    "convolutions": (
        ["float32[n, 4, 5]", "float32[6, 2, 3]"],
        lambda x, w: ops.conv(x, w, strides=(2,), dilations=(1,), low=(1,), high=(0,), groups=2),
        """
        dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [2], pad = [[1, 0]], rhs_dilate = [1]}
        feature_group_count = 2 : i64
        -> tensor<2x6x2xf32>
        """,
    ),
    "gather and scatter": (
        ["float32[5, 3]", "int64[n]", "float32[n, 3]"],
        lambda x, i, u: (
            ops.gather(x, i, axis=0),
            ops.scatter_nd(x, ops.reshape(i, shape=(N, 1)), u, reduction="add"),
        ),
        """
        "stablehlo.gather"(%arg0
        slice_sizes = array<i64: 1, 3>
        "stablehlo.scatter"(%arg0
        inserted_window_dims = [0]
        stablehlo.add
        """,
    ),
    "sort": (
        ["float32[n]"],
        lambda x: ops.sort(x, axis=0, descending=True),
        """
        stablehlo.reverse %arg0
        "stablehlo.sort"
        dimension = 0 : i64, is_stable = true
        stablehlo.compare LT
        stablehlo.compare NE
        """,
    ),
    "sizes": (
        ["float32[n]"],
        lambda x: (ops.dim_values(dims=(N, N * 2 + 1)), ops.iota(shape=(N,), axis=0)),
        "stablehlo.concatenate",
    ),
    "numbers without arithmetic": (
        ["float8_e4m3fn[n]", "int4[n]"],
        lambda x, y: (ops.cast(x, dtype="float32"), ops.neg(y)),
        """
        stablehlo.bitcast_convert %arg0 : (tensor<2xf8E4M3FN>) -> tensor<2xui8>
        stablehlo.convert %arg1 : (tensor<2xi4>) -> tensor<2xi8>
        stablehlo.shift_right_arithmetic
        (tensor<2xi8>) -> tensor<2xi4>
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_family(name: str) -> None:
    """The expected parts, in their order."""
    types, build, expected = CASES[name]
    text, at = written(types, build, {"n": 2}), 0
    for line in filter(None, map(str.strip, expected.splitlines())):
        found = text.find(line, at)
        assert found >= 0, f"'{line}' does not follow in\n{text}"
        at = found + len(line)


def test_loops_and_branches() -> None:
    def function(x: burn.Tensor) -> burn.Tensor:
        y = burn.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 2), (burn.constant(0), x))[1]
        return burn.cond(y[0] > 2, lambda: y + 1, lambda: y)

    text, _ = stablehlo_of(trace(function, {"x": "float32[3]"}))
    assert re.search(r'"stablehlo.while"\(.*\) \(\{', text) and re.search(r'"stablehlo.if"\(%\d+\) \(\{', text)


def every_module() -> list[str]:
    step = trace(training_step, {"w": "float32[4, 3]", "x": "float32[n, 4]", "y": "int64[n]"})
    return [*(written(t, b, {"n": 2}) for t, b, _ in CASES.values()), stablehlo_of(step, {"n": 8})[0]]


def training_step(w: burn.Tensor, x: burn.Tensor, y: burn.Tensor) -> Any:
    loss, gradient = burn.value_and_grad(lambda w: burn.nn.CrossEntropyLoss()(burn.nn.Dropout(0.1)(x @ w), y))(w)
    return loss, w - 0.1 * gradient


def test_another_mlir_accepts_every_module(tmp_path: Path) -> None:
    """torch-mlir's tool has the dialects stablehlo and chlo."""
    tool = Path(sys.executable).with_name("torch-mlir-opt")
    if not tool.exists() and shutil.which("torch-mlir-opt") is None:
        pytest.skip("torch-mlir-opt is not installed")
    file = tmp_path / "all.mlir"
    file.write_text("\n// -----\n".join(every_module()))
    done = subprocess.run([str(tool), "--split-input-file", str(file)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[:3000]
    assert done.stdout.count("func.func public @main") == len(CASES) + 1


def test_the_signature() -> None:
    weight = burn.tensor([[1.0, 2.0], [3.0, 4.0]] * 20).numpy()
    program = trace(lambda x: burn.random.normal((2,)) + x @ weight, {"x": "float32[n, 40]"})
    text, signature = stablehlo_of(program, {"n": 3}, weights_inside=False)
    assert [p.name for p in signature.inputs] == ["x", "random_state"] and signature.random_state
    assert [p.type for p in signature.inputs] == ["tensor<3x40xf32>", "tensor<2xui64>"]
    assert [p.shape for p in signature.weights] == [(40, 2)] and "%weight0: tensor<40x2xf32>" in text
    assert [p.type for p in signature.outputs] == ["tensor<3x2xf32>"]
    inside, signature = stablehlo_of(program, {"n": 3})
    assert not signature.weights and 'dense<"0x0000803F' in inside


def test_everything_that_it_lacks_is_listed() -> None:
    program = Program.create([("x", TensorType("float32", (N,))), ("s", TensorType("string", ()))])
    with program.building("node"):
        found = ops.nonzero(program.inputs[0], count="k")
        joined = ops.string_concat(program.inputs[1], program.inputs[1])
    with pytest.raises(CompileError) as error:
        stablehlo_of(program.finish([("i", found), ("t", joined)]), {"n": 2})
    text = str(error.value)
    assert "burn.nonzero" in text and "input 's'" in text and "output 't'" in text and "string_concat" in text


def test_sizes_that_are_missing_or_do_not_fit() -> None:
    program = trace(lambda x, y: x + y, {"x": "float32[n]", "y": "float32[m]"})
    with pytest.raises(CompileError, match="the size m is not given"):
        stablehlo_of(program, {"n": 2})
    with pytest.raises(CompileError, match="a size is 2, which does not fit"):
        stablehlo_of(program, {"n": 2, "m": 3})
