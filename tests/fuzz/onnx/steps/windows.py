"""Convolutions, pools and what resamples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Graph
from ..values import Reject, Value, known
from .registry import step


def picture(graph: Graph, *types: type) -> tuple[Value, int, int]:
    """A value with channels and 1 to 3 spatial axes: the value, its channels, its spatial axes."""
    value = graph.pick(lambda v: v.dtype in types and v.rank in (3, 4, 5) and bool(v.dims[1]) and not v.empty)
    return value, value.dims[1] or 0, value.rank - 2


def several(graph: Graph, options: list[int], count: int, probability: float) -> list[int] | None:
    return [graph.choice(options) for _ in range(count)] if graph.chance(probability) else None


def groups(graph: Graph, channels: int) -> int:
    return graph.choice([n for n in range(1, channels + 1) if channels % n == 0]) if graph.chance(0.4) else 1


SAME = ["SAME_UPPER", "SAME_LOWER", "VALID"]


@step(5)
def convolution(graph: Graph) -> None:
    value, channels, axes = picture(graph, np.float32, np.float64)
    group = groups(graph, channels)
    kernel = [graph.choice([1, 2, 3, 3, 4]) for _ in range(axes)]
    wide = group * graph.choice([1, 2, 3, 4 if axes < 3 else 1])
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "group": group,
        "strides": several(graph, [1, 2, 3], axes, 0.6),
    }
    if graph.chance(0.3):
        attributes["auto_pad"] = graph.choice(SAME)
    else:
        attributes["pads"] = several(graph, [0, 1, 2, 3], 2 * axes, 0.8)
        attributes["dilations"] = several(graph, [1, 2, 3], axes, 0.4)
    bias = graph.numbers([wide], value.dtype) if graph.chance(0.6) else None
    graph.node("Conv", value, graph.numbers([wide, channels // group, *kernel], value.dtype), bias, **attributes)


@step(3)
def transposed(graph: Graph) -> None:
    value, channels, axes = picture(graph, np.float32)
    if axes == 3:
        raise Reject("slow")
    group, wide = groups(graph, channels), graph.choice([1, 2, 3])
    kernel, strides = [graph.choice([1, 2, 3, 4]) for _ in range(axes)], several(graph, [1, 2, 3], axes, 0.7)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "group": group, "strides": strides}
    if graph.chance(0.2) and all(a >= b for a, b in zip(kernel, strides or kernel, strict=True)):
        attributes["auto_pad"] = graph.choice(SAME)
    else:
        attributes["pads"] = several(graph, [0, 1, 2], 2 * axes, 0.6)
        attributes["dilations"] = several(graph, [1, 2], axes, 0.3)
        if strides and graph.chance(0.2) and None not in value.dims[2:]:  # pads follow, below 0 where this is large
            del attributes["pads"]
            attributes["output_shape"] = [
                (size - 1) * stride + graph.choice([1, 2, 3, 4])
                for size, stride in zip(known(value.dims[2:]), strides, strict=True)
            ]
        elif strides and graph.chance(0.4):
            attributes["output_padding"] = [graph.random.randint(0, stride - 1) for stride in strides]
    bias = graph.numbers([wide * group], value.dtype) if graph.chance(0.5) else None
    graph.node("ConvTranspose", value, graph.numbers([channels, wide, *kernel], value.dtype), bias, **attributes)


@step(4)
def pool(graph: Graph) -> None:
    op = graph.choice(
        ["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"]
    )
    types = (np.float32, np.float32, np.float64, np.int8, np.uint8) if op == "MaxPool" else (np.float32,)
    value, _, axes = picture(graph, *types)
    if op.startswith("Global"):
        graph.node(op, value)
        return
    kernel = [graph.choice([1, 2, 3, 4]) for _ in range(axes)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": several(graph, [1, 2, 3], axes, 0.6)}
    if graph.chance(0.25):
        attributes["auto_pad"] = graph.choice(SAME)
    else:
        attributes["pads"] = [graph.random.randint(0, size - 1) for size in kernel * 2] if graph.chance(0.6) else None
        attributes["ceil_mode"] = 1 if graph.chance(0.3) else None
        if op == "MaxPool" or graph.opset >= 19:
            attributes["dilations"] = several(graph, [1, 2], axes, 0.3)
        _refuse_small(value, kernel, attributes)
    if op == "AveragePool":
        attributes["count_include_pad"] = graph.choice([0, 1])
    if op == "LpPool":
        attributes["p"] = graph.choice([1, 2, 3])
    indices = op == "MaxPool" and value.dtype == np.float32 and graph.chance(0.3)
    if indices and graph.chance(0.3):
        attributes["storage_order"] = 1
    graph.node(op, value, outputs=2 if indices else 1, **attributes)


def _refuse_small(value: Value, kernel: list[int], attributes: dict[str, Any]) -> None:
    """Refuses a window that is larger than its padded input."""
    axes = len(kernel)
    pads, dilations = attributes.get("pads") or [0] * 2 * axes, attributes.get("dilations") or [1] * axes
    for axis, size in enumerate(value.least[2:]):
        if size + pads[axis] + pads[axes + axis] <= dilations[axis] * (kernel[axis] - 1):
            raise Reject("the window is larger than its operand")


@step(2)
def resize(graph: Graph) -> None:
    value = graph.pick(lambda v: v.rank in (3, 4) and v.dtype == np.float32 and not v.empty)
    mode = graph.choice(["nearest", "linear", "cubic"])
    if mode == "cubic" and value.rank != 4:
        raise Reject("rank")
    scales = [1.0, 1.0, *(graph.choice([0.5, 1.0, 2.0, 1.5, 3.0, 0.7, 1 / 3]) for _ in range(value.rank - 2))]
    how = graph.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how}
    if mode == "nearest":
        attributes["nearest_mode"] = graph.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attributes["cubic_coeff_a"] = graph.choice([None, -0.5])
        attributes["exclude_outside"] = graph.choice([None, None, 1])
    if how == "align_corners" or graph.chance(0.3):
        sizes = [max(1, int(size * scale)) for size, scale in zip(known(value.dims), scales, strict=True)]
        graph.node("Resize", value, None, None, np.array(sizes, np.int64), **attributes)
    else:
        graph.node("Resize", value, None, np.array(scales, np.float32), **attributes)


@step(1)
def sample_grid(graph: Graph) -> None:
    if graph.opset < 20:
        raise Reject("version")
    value, _, axes = picture(graph, np.float32)
    batch = value.dims[0]
    if axes != 2 or not batch:
        raise Reject("a size varies")
    grid = graph.rng.uniform(-1.3, 1.3, [batch, graph.choice([1, 3]), graph.choice([2, 5]), 2]).astype(np.float32)
    mode = graph.choice(["linear", "cubic"])
    edge = graph.choice(["zeros", "border", "reflection"])
    graph.node("GridSample", value, grid, mode=mode, padding_mode=edge, align_corners=graph.choice([0, 1]))
