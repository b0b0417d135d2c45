"""ONNX graphs computed by torch's own functions: the twins of models that come as files, for gradients and for timings.

A graph is taken apart once, so that `torch.compile` meets nothing but torch's functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional as F


@dataclass(frozen=True)
class Step:
    """A node: its function, operands, attributes, and name."""

    function: Callable[..., Any]
    operands: tuple[str, ...]
    attributes: dict[str, Any]
    result: str


class OnnxInTorch(torch.nn.Module):
    """The graph node by node. Float initializers are parameters; statistics of batch normalisation are not learned."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        held = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in model.graph.initializer}
        fixed = {n for node in model.graph.node if node.op_type == "BatchNormalization" for n in node.input[3:5]}
        (self.given,) = [v.name for v in model.graph.input if v.name not in held]
        self.results = [v.name for v in model.graph.output]
        self.members: dict[str, str] = {}
        self.steps: list[Step] = []
        for node in model.graph.node:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Constant":
                held[node.output[0]] = torch.from_numpy(numpy_helper.to_array(attributes["value"]).copy())
                continue
            operands = [name for name in node.input if name]
            if node.op_type == "Reshape" and operands[1] in held:
                attributes["shape"] = held[operands.pop()].tolist()
            self.steps.append(Step(OPERATORS[node.op_type], tuple(operands), attributes, node.output[0]))
        for name in {name for step in self.steps for name in step.operands if name in held}:
            attribute, tensor = f"held_{len(self.members)}", held[name]
            self.members[name] = attribute
            if tensor.is_floating_point() and name not in fixed:
                self.register_parameter(attribute, torch.nn.Parameter(tensor))
            else:
                self.register_buffer(attribute, tensor)

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The parameters, as the file calls them."""
        parameters = dict(self.named_parameters())
        return {name: parameters[attribute] for name, attribute in self.members.items() if attribute in parameters}

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = {name: getattr(self, attribute) for name, attribute in self.members.items()}
        values[self.given] = x
        for step in self.steps:
            operands = [values[name] for name in step.operands]
            values[step.result] = step.function(self.training, *operands, **step.attributes)
        return tuple(values[name] for name in self.results)


def _padded(x: Any, pads: Any, value: float = 0.0) -> Any:
    top, left, bottom, right = pads
    return F.pad(x, (left, right, top, bottom), value=value) if any(pads) else x


def _conv(training: bool, x: Any, w: Any, b: Any = None, *, pads: Any = (0, 0, 0, 0), **attributes: Any) -> Any:
    strides, dilations = attributes.get("strides", (1, 1)), attributes.get("dilations", (1, 1))
    around, x = (tuple(pads[:2]), x) if pads[:2] == pads[2:] else (0, _padded(x, pads))
    return F.conv2d(x, w, b, tuple(strides), around, tuple(dilations), attributes.get("group", 1))


def _norm(
    training: bool, x: Any, scale: Any, bias: Any, mean: Any, var: Any, *, epsilon: float = 1e-5, **_: Any
) -> Any:
    return F.batch_norm(x, mean, var, scale, bias, training, momentum=0.0, eps=epsilon)


def _max_pool(training: bool, x: Any, *, kernel_shape: Any, strides: Any = (1, 1), pads: Any = (0, 0, 0, 0)) -> Any:
    return F.max_pool2d(_padded(x, pads, -torch.inf), tuple(kernel_shape), tuple(strides))


def _average_pool(
    training: bool, x: Any, *, kernel_shape: Any, strides: Any = (1, 1), pads: Any = (0, 0, 0, 0), **attributes: Any
) -> Any:
    if pads[:2] != pads[2:]:
        raise NotImplementedError("AveragePool with other zeros in front than behind")
    count = bool(attributes.get("count_include_pad", 0))
    return F.avg_pool2d(x, tuple(kernel_shape), tuple(strides), tuple(pads[:2]), count_include_pad=count)


def _slice(training: bool, x: Any, *rest: Any, **attributes: Any) -> Any:
    names = ("starts", "ends", "axes")
    starts, ends, axes = [attributes[n] for n in names] if not rest else [r.tolist() for r in rest[:3]]
    for start, end, axis in zip(starts, ends, axes, strict=True):
        x = x.movedim(axis, 0)[start:end].movedim(0, axis)
    return x


def _gemm(training: bool, a: Any, b: Any, c: Any, *, transB: int = 0, **_: Any) -> Any:
    return F.linear(a, b if transB else b.T, c)


def _unsqueeze(training: bool, x: Any, *, axes: Any) -> Any:
    for axis in sorted(axes):
        x = x.unsqueeze(axis)
    return x


def _reshape(training: bool, x: Any, shape: Any) -> Any:
    sizes = shape if isinstance(shape, list) else shape.tolist()
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(sizes)])


def _sum(training: bool, x: Any, *others: Any) -> Any:
    for other in others:
        x = x + other
    return x


def _flat_softmax(training: bool, x: Any, *, axis: int = 1) -> Any:
    """Up to opset 12: over all axes from one on."""
    return x.flatten(axis).softmax(-1).reshape(x.shape)


OPERATORS: dict[str, Callable[..., Any]] = {
    "Conv": _conv, "BatchNormalization": _norm, "MaxPool": _max_pool, "AveragePool": _average_pool, "Slice": _slice,
    "Gemm": _gemm, "Unsqueeze": _unsqueeze, "Reshape": _reshape, "Sum": _sum, "Softmax": _flat_softmax,
    "Relu": lambda _, x: x.relu(), "Exp": lambda _, x: x.exp(),
    "Add": lambda _, x, y: x + y, "Sub": lambda _, x, y: x - y, "Mul": lambda _, x, y: x * y,
    "Div": lambda _, x, y: x / y if x.is_floating_point() else x // y,
    "Concat": lambda _, *xs, axis: torch.cat(xs, axis),
    "Transpose": lambda _, x, perm: x.permute(*perm),
    "Shape": lambda _, x: torch.tensor(x.shape),
    "Gather": lambda _, x, i, axis=0: x.select(axis, int(i)),
    "Flatten": lambda _, x, axis=1: x.flatten(axis),
    "GlobalAveragePool": lambda _, x: x.mean((2, 3), keepdim=True),
    "Dropout": lambda training, x, ratio=0.5: F.dropout(x, ratio, training),
    "LogSoftmax": lambda _, x, axis=1: x.log_softmax(axis),
}  # fmt: skip
"""Operators in the files, for the ranks and operands that occur there."""
