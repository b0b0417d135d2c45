"""ONNX graphs computed by torch's own functions: the twins of models that come as files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional as F


class OnnxInTorch(torch.nn.Module):
    """The graph node by node. Float initializers are `weights`, by name; statistics of batch normalisation are not learned."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        self.graph = model.graph
        self.held = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in model.graph.initializer}
        fixed = {n for node in model.graph.node if node.op_type == "BatchNormalization" for n in node.input[3:5]}
        self.weights = {k: v for k, v in self.held.items() if v.is_floating_point() and k not in fixed}

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = {**self.held, **self.weights}
        (given,) = [v.name for v in self.graph.input if v.name not in self.held]
        values[given] = x
        for node in self.graph.node:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            operands = [values[name] for name in node.input if name]
            result = OPERATORS[node.op_type](self.training, *operands, **attributes)
            values[node.output[0]] = result
        return tuple(values[o.name] for o in self.graph.output)


def _conv(training: bool, x: Any, w: Any, b: Any = None, *, pads: Any = (0, 0, 0, 0), **attributes: Any) -> Any:
    top, left, bottom, right = pads
    strides, dilations = attributes.get("strides", (1, 1)), attributes.get("dilations", (1, 1))
    padded = F.pad(x, (left, right, top, bottom))
    return F.conv2d(padded, w, b, tuple(strides), 0, tuple(dilations), attributes.get("group", 1))


def _norm(
    training: bool, x: Any, scale: Any, bias: Any, mean: Any, var: Any, *, epsilon: float = 1e-5, **_: Any
) -> Any:
    return F.batch_norm(x, mean.to(x.dtype), var.to(x.dtype), scale, bias, training, eps=epsilon)


def _slice(training: bool, x: Any, *rest: Any, **attributes: Any) -> Any:
    names = ("starts", "ends", "axes")
    starts, ends, axes = [attributes[n] for n in names] if not rest else [r.tolist() for r in rest[:3]]
    for start, end, axis in zip(starts, ends, axes, strict=True):
        x = x.movedim(axis, 0)[start:end].movedim(0, axis)
    return x


def _gemm(training: bool, a: Any, b: Any, c: Any, *, transB: int = 0, **_: Any) -> Any:
    return a @ (b.T if transB else b) + c


def _unsqueeze(training: bool, x: Any, *, axes: Any) -> Any:
    for axis in sorted(axes):
        x = x.unsqueeze(axis)
    return x


OPERATORS: dict[str, Callable[..., Any]] = {
    "Conv": _conv, "BatchNormalization": _norm, "Slice": _slice, "Gemm": _gemm, "Unsqueeze": _unsqueeze,
    "Relu": lambda _, x: x.relu(), "Exp": lambda _, x: x.exp(),
    "Add": lambda _, x, y: x + y, "Sub": lambda _, x, y: x - y, "Mul": lambda _, x, y: x * y,
    "Div": lambda _, x, y: x / y if x.is_floating_point() else x // y,
    "Constant": lambda _, value: torch.from_numpy(numpy_helper.to_array(value).copy()),
    "Concat": lambda _, *xs, axis: torch.cat(xs, axis),
    "Transpose": lambda _, x, perm: x.permute(*perm),
    "Shape": lambda _, x: torch.tensor(x.shape),
    "Gather": lambda _, x, i, axis=0: x.select(axis, int(i)),
    "Reshape": lambda _, x, shape: x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape.tolist())]),
    "Flatten": lambda _, x, axis=1: x.flatten(axis),
    "Softmax": lambda _, x, axis=1: x.softmax(axis),
    "LogSoftmax": lambda _, x, axis=1: x.log_softmax(axis),
}  # fmt: skip
"""What the files take, with the ranks and operands that they have there."""
