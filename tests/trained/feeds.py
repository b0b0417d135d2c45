"""Inputs for models without a description: sizes that ONNX Runtime accepts, elements of the right kinds. Enter at `draw`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

DTYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
    "tensor(string)": object,
}
FEW = (1, 2, 3, 5)
LENGTHS = (5, 7, 13, 16, 32, 48, 64, 80, 96, 100, 128, 160, 224, 256, 320, 512, 576, 640, 1024, 1280, 1536, 4000, 16000)
RATES = (16000, 8000)
WORDS = ("a", "hello", "ü", "12")


def draw(model: onnx.ModelProto, session: Any, seed: int = 0) -> Iterator[dict[str, np.ndarray]]:
    """Inputs with other sizes each time, endlessly. ONNX Runtime may refuse them: then the next may do."""
    rng = np.random.default_rng(seed)
    bounds = indices_below(model.graph)
    while True:
        sizes: dict[str, int] = {}
        shapes = {value.name: shape(value, sizes, rng) for value in session.get_inputs()}
        longest = max((n for s in shapes.values() for n in s[1:2]), default=1)
        yield {v.name: elements(v, shapes[v.name], bounds, longest, rng) for v in session.get_inputs()}


def shape(value: Any, sizes: dict[str, int], rng: np.random.Generator) -> tuple[int, ...]:
    """A shape; the first axis is a batch, of few."""
    result = []
    for axis, dim in enumerate(value.shape):
        if isinstance(dim, int) and dim > 0:
            result.append(dim)
            continue
        text = dim if isinstance(dim, str) else ""
        is_state = axis == 1 and len(value.shape) == 3 and all(isinstance(d, int) for d in value.shape[::2])
        is_batch = axis == 0 or is_state or "batch" in text.lower()
        name = text if text.isidentifier() and text not in ("None", "unk") else f"{value.name}/{axis}"
        if is_batch and dim is None and rng.random() < 0.8:
            name = "batch"  # of a recurrent state [layers, batch, units], and mostly the same as that of other inputs
        choices = FEW[: 3 if rng.random() < 0.5 else 1] if is_batch else LENGTHS
        channels = 3 if value.shape[-1] in (1, 3, 4) else 1  # of images
        if len(value.shape) == 4 and axis == channels:
            choices = (1, 3)
        elif len(value.shape) == 4 and axis > 0:
            choices = (32, 48, 64, 96, 128, 160, 192, 224, 320)
        result.append(sizes.setdefault(name, int(rng.choice(choices))))
    return tuple(result)


def elements(
    value: Any, shape: tuple[int, ...], bounds: Mapping[str, int], longest: int, rng: np.random.Generator
) -> np.ndarray:
    dtype, name = DTYPES[value.type], value.name.lower()
    if dtype is object:
        array = np.empty(shape, object)
        array[...] = rng.choice(WORDS, shape)
        return array
    if dtype is np.bool_:
        return rng.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        if name in ("sr", "sample_rate", "sampling_rate"):
            return np.full(shape, rng.choice(RATES), dtype)
        if "mask" in name:
            return np.ones(shape, dtype)
        if "length" in name or "seq_len" in name:
            return np.full(shape, longest, dtype)
        if dtype == np.uint8:
            return rng.integers(0, 256, shape).astype(dtype)
        return rng.integers(0, max(min(bounds.get(value.name, 8), 1 << 15), 1), shape).astype(dtype)
    if "mask" in name:
        return np.ones(shape, dtype)
    if value.name in bounds:  # numbers that become indices
        return rng.integers(0, max(min(bounds[value.name], 1 << 15), 1), shape).astype(dtype)
    if len(shape) == 4:  # images, in the range that most are scaled to
        return rng.random(shape).astype(dtype)
    scale = 0.1 if any(word in name for word in ("state", "h", "c", "hidden", "cache", "context")) else 0.5
    return (rng.standard_normal(shape) * scale).astype(dtype)


def indices_below(graph: onnx.GraphProto) -> dict[str, int]:
    """The number of rows of the tables that integer inputs index, followed through what only moves or casts elements."""
    constants = {t.name: tuple(t.dims) for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t).shape
    found: dict[str, int] = {}
    for value in graph.input:
        names = {value.name}
        for node in graph.node:
            if node.op_type in ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Slice", "Concat"):
                if names & set(node.input[: len(node.input) if node.op_type == "Concat" else 1]):
                    names.update(node.output)
            elif node.op_type == "Gather" and len(node.input) > 1 and node.input[1] in names:
                table = constants.get(_source(graph, node.input[0], constants), ())
                if table:
                    found[value.name] = min(found.get(value.name, table[0]), table[0])
    return found


def _source(graph: onnx.GraphProto, name: str, constants: Mapping[str, Any]) -> str:
    """The constant that a value is made of, through dequantisation."""
    for _ in range(4):
        if name in constants:
            return name
        made = next((n for n in graph.node if name in n.output), None)
        if made is None or not made.input:
            return name
        name = made.input[0]
    return name
