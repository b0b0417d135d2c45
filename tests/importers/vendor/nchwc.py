"""Convolutional networks, drawn at random, that ONNX Runtime lays out in blocks of channels. Enter at `one`.

    python -m tests.importers.vendor.nchwc --count 1000

ONNX Runtime optimises the network at its level "all" and writes the file; burn's results of that file must be those of the
network as it was drawn. Its blocks are those of this machine; `reblocked` rewrites a file for CPUs with larger ones.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from burn.dialect.program import Program
from burn.errors import BurnError, ModelError
from burn.importers.onnx import import_onnx
from tests.fuzz.runner import Outcome, main
from tests.importers.reference import evaluate

Array = np.ndarray
NCHWC = "com.microsoft.nchwc"
TOLERANCE = 2e-5
AMBIGUOUS = "does not say of which"


@dataclass(frozen=True)
class Image:
    """A tensor [batch, channels, height, width] of the network."""

    name: str
    channels: int
    height: int
    width: int


@dataclass
class Network:
    """A network in the making. wide: all numbers of channels are multiples of 16, but for the input's."""

    rng: np.random.Generator
    wide: bool
    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    names: Iterator[int] = field(default_factory=itertools.count)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def image(self) -> Image:
        """One of the last few: chains are long, and older tensors are read again at times."""
        return self.images[-1 - min(int(self.rng.geometric(0.6)) - 1, len(self.images) - 1)]

    def channels(self) -> int:
        return self.pick(16, 32, 48) if self.wide else self.pick(8, 16, 24, 20, 12, 36, 5, 17, 32, 40)

    def weight(self, array: Array, dtype: Any = np.float32) -> str:
        name = f"w{next(self.names)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def normal(self, *shape: int) -> Array:
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 4
        return self.rng.standard_normal(shape) * fan**-0.5

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        name = f"t{next(self.names)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def add(self, op: str, inputs: list[str], channels: int, height: int, width: int, **attributes: Any) -> None:
        self.images.append(Image(self.node(op, inputs, **attributes), channels, height, width))


def _window(net: Network, x: Image, largest: int = 3) -> tuple[dict[str, Any], int, int] | None:
    """Attributes of a window, and the result's size; None if the image is too small for it."""
    kernel = [int(net.rng.integers(1, largest + 1)) for _ in range(2)]
    strides, dilations = (
        [net.pick(1, 1, 2, 3)] * 2 if net.rng.random() < 0.7 else [1, net.pick(1, 2)] for _ in range(2)
    )
    if net.rng.random() < 0.7:
        dilations = [1, 1]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    if dilations != [1, 1] or net.rng.random() < 0.5:
        attributes["dilations"] = dilations
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes, auto = (x.height, x.width), net.pick("NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    if (
        auto.startswith("SAME") and dilations == [1, 1] and max(strides) <= min(kernel)
    ):  # else the runtime's pads are negative
        attributes["auto_pad"] = auto
        return attributes, -(-x.height // strides[0]), -(-x.width // strides[1])
    pads = [0] * 4
    if auto == "VALID":
        attributes["auto_pad"] = auto
    else:
        pads = [int(net.rng.integers(0, k)) for k in (*kernel, *kernel)]
        attributes["pads"] = pads
    results = [
        (size + pads[i] + pads[i + 2] - reach[i]) // strides[i] + 1 if size + pads[i] + pads[i + 2] >= reach[i] else 0
        for i, size in enumerate(sizes)
    ]
    return (attributes, results[0], results[1]) if min(results) >= 1 else None


def _conv(net: Network) -> None:
    x = net.image()
    window = _window(net, x)
    if window is None:
        return
    attributes, height, width = window
    kind = net.pick("full", "full", "full", "depthwise", "groups")
    outputs, groups = net.channels(), 1
    if kind == "depthwise" and x.channels > 3:
        outputs = groups = x.channels
    elif kind == "groups":
        groups = net.pick(2, 3)
        outputs = -(-outputs // groups) * groups
        if x.channels % groups:
            return
    if groups > 1:
        attributes["group"] = groups
    weight = net.weight(net.normal(outputs, x.channels // groups, *attributes["kernel_shape"]))
    inputs = [x.name, weight, *([net.weight(net.normal(outputs))] if net.rng.random() < 0.6 else [])]
    net.add("Conv", inputs, outputs, height, width, **attributes)
    if net.rng.random() < 0.5:
        _activation(net, net.images[-1])


ACTIVATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Relu", {}), ("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"alpha": 0.2}), ("HardSigmoid", {"alpha": 0.3}),
    ("Elu", {"alpha": 0.7}), ("Clip", {}), ("HardSwish", {}), ("Abs", {}), ("Softplus", {}), ("Gelu", {}), ("Exp", {}),
    ("PRelu", {}),
)  # fmt: skip


def _activation(net: Network, x: Image | None = None) -> None:
    x = x or net.image()
    op, attributes = net.pick(*ACTIVATIONS)
    inputs = [x.name]
    if op == "Clip":
        inputs += [net.weight(np.array(-0.5)), net.weight(np.array(0.75))]
    if op == "PRelu":
        inputs.append(net.weight(net.normal(x.channels, 1, 1)))
    if op == "Exp":
        inputs = [net.node("Tanh", [x.name])]
    if {"Gelu": 20, "HardSwish": 14}.get(op, 0) > net.opset:
        op, attributes = "Relu", {}
    net.add(op, inputs, x.channels, x.height, x.width, **attributes)


def _binary(net: Network) -> None:
    x = net.image()
    size = (x.channels, x.height, x.width)
    fits = [y for y in net.images if (y.channels, y.height, y.width) == size]
    small = [y for y in net.images if (y.channels, y.height, y.width) == (x.channels, 1, 1)]
    y = net.pick(*(fits + small))
    op, inputs = net.pick("Add", "Add", "Sum", "Mul", "Sub"), [x.name, y.name]
    if net.rng.random() < 0.1:
        inputs[1] = net.weight(net.pick(np.array(0.5), net.normal(x.channels, 1, 1)))
    net.add(op, inputs[:: net.pick(1, -1)], *size)
    if net.rng.random() < 0.5:
        _activation(net, net.images[-1])


def _concat(net: Network) -> None:
    x = net.image()
    fits = [y for y in net.images if (y.height, y.width) == (x.height, x.width)]
    parts = [x, *(net.pick(*fits) for _ in range(net.pick(1, 1, 2)))]
    net.add(
        "Concat", [p.name for p in parts], sum(p.channels for p in parts), x.height, x.width, axis=net.pick(1, 1, -3)
    )


def _pool(net: Network) -> None:
    x = net.image()
    window = _window(net, x)
    if window is None:
        return
    attributes, height, width = window
    op = net.pick("MaxPool", "AveragePool")
    if op == "AveragePool":
        attributes["count_include_pad"] = net.pick(0, 1)
        if net.opset < 19 and attributes.get("dilations", [1, 1]) != [1, 1]:
            return
        if net.opset < 19:
            attributes.pop("dilations", None)
    if "auto_pad" not in attributes and net.rng.random() < 0.2:
        attributes["ceil_mode"] = 1
        height, width = (_rounded_up(size, attributes, i) for i, size in enumerate((x.height, x.width)))
    net.add(op, [x.name], x.channels, height, width, **attributes)


def _rounded_up(size: int, attributes: dict[str, Any], axis: int) -> int:
    """Windows with ceil_mode: one that would begin behind the image and its padding in front is left out."""
    low, high = attributes["pads"][axis], attributes["pads"][axis + 2]
    reach = (attributes["kernel_shape"][axis] - 1) * attributes.get("dilations", [1, 1])[axis] + 1
    stride = attributes["strides"][axis]
    return min(-(-(size + low + high - reach) // stride) + 1, -(-(size + low) // stride))


def _global(net: Network) -> None:
    x = net.image()
    net.add(net.pick("GlobalMaxPool", "GlobalAveragePool"), [x.name], x.channels, 1, 1)


def _resize(net: Network) -> None:
    x = net.image()
    scales = [net.pick(1, 2, 3), net.pick(1, 2)]
    if x.height * x.width > 200:
        return
    mode, coordinates = net.pick(
        ("nearest", "asymmetric"), ("nearest", "half_pixel"), ("linear", "asymmetric"), ("linear", "align_corners"),
        ("linear", "half_pixel"), ("linear", "pytorch_half_pixel"),
    )  # fmt: skip
    net.add(
        "Resize", [x.name, "", net.weight(np.array([1, 1, *scales]))], x.channels, x.height * scales[0], x.width * scales[1],
        mode=mode, coordinate_transformation_mode=coordinates, nearest_mode=net.pick("floor", "round_prefer_floor"),
    )  # fmt: skip


def _normalization(net: Network) -> None:
    x = net.image()
    operands = [
        net.normal(x.channels),
        net.normal(x.channels),
        net.normal(x.channels),
        net.rng.uniform(0.5, 2, x.channels),
    ]
    net.add(
        "BatchNormalization", [x.name, *map(net.weight, operands)], x.channels, x.height, x.width, epsilon=1e-5,
    )  # fmt: skip


def _other(net: Network) -> None:
    """Operators that ONNX Runtime does not apply to blocked tensors."""
    x = net.image()
    if net.rng.random() < 0.4:
        net.outputs.append(net.node("Transpose", [x.name], perm=net.pick([0, 2, 3, 1], [0, 1, 3, 2], [1, 0, 2, 3])))
    else:
        axes = net.weight(np.array([net.pick(1, 2, -1)]), np.int64)
        net.outputs.append(net.node("ReduceMax", [x.name, axes] if net.opset >= 18 else [x.name]))


STEPS: tuple[Callable[[Network], None], ...] = (
    *(_conv,) * 6, *(_activation,) * 2, *(_binary,) * 4, *(_concat,) * 2, *(_pool,) * 3, _global, *(_resize,) * 2,
    *(_normalization,) * 2, _other,
)  # fmt: skip


def network(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], dict[str, int]]:
    """A network of floats, an input, and the channels of its tensors."""
    rng = np.random.default_rng(seed)
    net = Network(rng, wide=seed % 2 == 1, opset=int(rng.choice([13, 18, 20])))
    batch, height, width = int(rng.integers(1, 4)), int(rng.integers(1, 14)), int(rng.integers(3, 14))
    channels = net.pick(1, 3, 3, 8, 16, 4)
    net.images.append(Image("x", channels, height, width))
    for _ in range(int(rng.integers(2, 12))):
        net.pick(*STEPS)(net)
    sizes = [[batch, channels, height, width], ["n", channels, height, width], ["n", channels, "h", "w"]][
        net.pick(0, 1, 2)
    ]
    results = [*dict.fromkeys([net.images[-1].name, *net.outputs, net.image().name])]
    if "x" in results:
        results.remove("x")
        results.append(net.node("Identity", ["x"]))
    graph = helper.make_graph(
        net.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [onnx.ValueInfoProto(name=r) for r in results], net.weights,
    )  # fmt: skip
    for output in graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", net.opset)], ir_version=9)
    channels_of = {image.name: image.channels for image in net.images}
    return model, {"x": rng.standard_normal((batch, channels, height, width)).astype(np.float32)}, channels_of


def _session(model: onnx.ModelProto, level: str, path: Path | None = None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    if path is not None:
        options.optimized_model_filepath = str(path)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def optimised(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model at ONNX Runtime's level "all"."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.onnx"
        _session(model, "ENABLE_ALL", path)
        return onnx.load(path)


# ---- blocks of another size --------------------------------------------------------------------------------------------
def ordered(weight: Array, block: int, blocked_inputs: bool) -> Array:
    """A filter [o, i, h, w] with its elements in the order of OIHWBiBo, or of OIHWBo. Written out by index, as a definition."""
    o, i, h, w = weight.shape
    inner = range(block) if blocked_inputs else range(1)
    values = [
        weight[ob + bo, ib + bi, y, x]
        for ob in range(0, o, block)
        for ib in range(0, i, len(inner))
        for y in range(h)
        for x in range(w)
        for bi in inner
        for bo in range(block)
    ]
    return np.array(values, weight.dtype).reshape(weight.shape)


def unordered(stored: Array, block: int, blocked_inputs: bool) -> Array:
    """The converse of `ordered`."""
    indices = ordered(np.arange(stored.size).reshape(stored.shape), block, blocked_inputs)
    weight = np.empty_like(stored).reshape(-1)
    weight[indices.reshape(-1)] = stored.reshape(-1)
    return weight.reshape(stored.shape)


def reblocked(model: onnx.ModelProto, channels: Mapping[str, int], old: int, new: int) -> onnx.ModelProto | None:
    """The same file as a CPU with larger blocks would have written it; None where the channels do not fit those. channels: of the
    network's tensors."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    weights = {t.name: t for t in made.graph.initializer}
    done: dict[str, Array] = {}
    for node in made.graph.node:
        if node.op_type == "Reshape" and weights[node.input[1]].dims[0] == 5:
            return None
        if node.op_type == "ReorderInput" and channels[node.input[0]] % new:
            return None
        if node.domain != NCHWC or node.op_type != "Conv":
            continue
        stored = numpy_helper.to_array(weights[node.input[1]])
        o, i = stored.shape[:2]
        groups = next((a.i for a in node.attribute if a.name == "group"), 1)
        if o % new or (old <= i and i % new) or (groups > 1 and i > 1 and o // groups % new):
            return None
        done[node.input[1]] = ordered(unordered(stored, old, i >= old), new, i >= new)
    for name, array in done.items():
        weights[name].CopyFrom(numpy_helper.from_array(array, name))
    return made


# ---- the comparison ----------------------------------------------------------------------------------------------------
def machine_block() -> int:
    """The block of files that ONNX Runtime writes on this machine."""
    weight = np.zeros((8, 3, 1, 1), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    made = optimised(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    return made.graph.initializer[0].dims[0]


def read(model: onnx.ModelProto, block: int) -> Program:
    """The file's program; the block is given if the file does not tell it."""
    try:
        return import_onnx(model)
    except ModelError as error:
        if AMBIGUOUS not in str(error):
            raise
    return import_onnx(model, dims={"nchwc_block": block})


def one(seed: int) -> Outcome:
    """Draws, optimises and compares a network; every eighth is compiled, the others are interpreted."""
    try:
        model, feeds, channels = network(seed)
        wanted: list[Any] = list(_session(model, "DISABLE_ALL").run(None, feeds))
        made = optimised(model)
    except Exception as error:  # the runtime's exceptions have no class of their own
        return Outcome("skipped", f"ONNX Runtime: {str(error)[:300]}")
    if not any(node.domain == NCHWC for node in made.graph.node):
        return Outcome("skipped", "nothing is in blocks")
    if not all((np.abs(w) < 1e30).all() for w in wanted):
        return Outcome("skipped", "not finite: a window of padding alone has the lowest number there, -inf here")
    block = machine_block()
    files = {block: made, **({16: other} if block == 8 and (other := reblocked(made, channels, 8, 16)) else {})}
    for size, file in files.items():
        try:
            program = read(file, size)
            results = list(_run(program, feeds, compiled=seed % 8 == 0).values())
        except BurnError as error:
            return Outcome("not imported", f"blocks of {size}: {error}")
        for output, got, want in zip(file.graph.output, results, wanted, strict=True):
            if got.shape != want.shape:
                return Outcome("wrong", f"blocks of {size}: {output.name} is {got.shape}, not {want.shape}")
            error = float(np.abs(got - want).max(initial=0)) / max(1.0, float(np.abs(want).max(initial=0)))
            if not error <= TOLERANCE:
                return Outcome("wrong", f"blocks of {size}: {output.name} is off by {error:.2g}")
    return Outcome("ok")


def _run(program: Program, feeds: dict[str, Array], compiled: bool) -> dict[str, Array]:
    if not compiled:
        return evaluate(program, feeds)
    from burn.compiler import executable

    return executable(program).run(feeds)


if __name__ == "__main__":
    sys.exit(main(one))
