"""Small programs for the export's tests, and ONNX Runtime's and burn's answers to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from burn.compiler import executable
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.spec import spec
from burn.exporters.onnx import export
from tests.exporters.onnx.sweep import ort_run

Build = Callable[..., Any]


def program(build: Build, **inputs: str) -> Program:
    """The program that `build` writes on values of these types; its results are called y0, y1, .."""
    made = Program.create([(name, spec(type_)) for name, type_ in inputs.items()])
    with made.building("here"):
        results = build(*made.inputs)
    values = [results] if isinstance(results, ir.Value) else list(results)
    return made.finish([(f"y{i}", value) for i, value in enumerate(values)])


def exported(made: Program, opset: int | None = None) -> onnx.ModelProto:
    """The model, which passes ONNX's checks."""
    model = export(made, opset)
    onnx.checker.check_model(model, full_check=True)
    return model


def ort(model: onnx.ModelProto, feeds: Sequence[np.ndarray]) -> list[Any]:
    return ort_run(model, model)(list(feeds))


def burn(made: Program, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    results = executable(made.copy())(*feeds)
    return list(results) if isinstance(results, tuple) else [results]


def close(got: Sequence[np.ndarray], want: Sequence[np.ndarray], tolerance: float = 1e-5) -> None:
    """Types and shapes are the same, values to a tolerance relative to the largest."""
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        x, y = (np.asarray(v).astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (a, b))
        scale = np.abs(y[np.isfinite(y)]).max(initial=1.0)
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * scale)


def agree(
    build: Build, feeds: Mapping[str, np.ndarray], opset: int | None = None, tolerance: float = 1e-5, **types: str
) -> onnx.ModelProto:
    """ONNX Runtime computes from the export what burn computes from the program."""
    made = program(build, **(types or {n: f"{a.dtype.name}{list(a.shape)}" for n, a in feeds.items()}))
    model = exported(made, opset)
    close(ort(model, list(feeds.values())), burn(made, list(feeds.values())), tolerance)
    return model


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]
