"""Ops and their constants become layers: `conv` with its weight, and the addition of a bias, is an `nn.Conv2d`.

Each rule looks at one node, says what layer it is (or that it is none), and the layer takes the node's place, or that of
the last of the nodes it is made of. What a layer builds when it is called is exactly what it was recognised in. Enter at
`recognise`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burn.dialect.recurrent import DIRECTIONS
from burn.dialect.types import DTYPES, FLOATS, numpy_dtype
from burn.dialect.weights import array_weight
from burn.exporters.python.graph import Graph, Node, Value, live, replace, walk
from burn.exporters.python.spell import is_size
from burn.exporters.python.text import number


@dataclass
class Layer:
    """A layer found: its class, constructor's arguments (positional ones without a default), parameters and operands.

    defaults: arguments that need not be written when they have this value. absorbed: nodes that go with it, besides the
    one it is put in the place of (`last`)."""

    name: str
    operands: list[Any]
    constants: dict[str, Any]
    arguments: dict[str, Any]
    defaults: dict[str, Any] = field(default_factory=dict)
    absorbed: list[Node] = field(default_factory=list)
    last: Node | None = None


class Context:
    """What a rule may ask about the graph."""

    def __init__(self, graph: Graph) -> None:
        self.uses: Counter[Value] = graph.uses()
        self.owned: set[Value] = set()
        self.layers: dict[tuple[Value, ...], tuple[Any, ...]] = {}  # parameters -> what the layer that has them is
        self.users: dict[Value, list[Node]] = {}
        for node in walk(graph.nodes):
            for value in node.values:
                self.users.setdefault(value, []).append(node)

    def constant(self, value: Value | None) -> bool:
        """Whether a value is a constant, or one number repeated."""
        return value is not None and (_is_filled(value) or value.node.op == "constant")

    def take(self, layer: Layer) -> bool:
        """Whether a layer may have its parameters: nothing else does, but for a layer that is the same."""
        parameters = tuple(v for v in layer.constants.values() if not _is_filled(v))
        what = (layer.name, tuple(layer.constants), repr(layer.arguments))
        if any(v in self.owned for v in parameters):
            return self.layers.get(parameters) == what and len(parameters) == len(layer.constants)
        self.layers[parameters] = what
        return True

    def apart(self, values: Iterable[Value]) -> bool:
        """Whether constants are not one another, so that each can be a parameter."""
        kept = [v for v in values if not _is_filled(v)]
        return len(set(kept)) == len(kept)

    def own(self, value: Value) -> Value:
        """A constant as a layer's parameter."""
        if _is_filled(value):  # every layer may have one of its own
            weight = value.node.weight
            if weight is None:
                attrs = value.node.attrs
                number = attrs["value"] if attrs["bits"] is None else attrs["bits"]
                shape = [d for d in value.type.shape if isinstance(d, int)]
                weight = array_weight(np.full(shape, number).astype(numpy_dtype(value.type.dtype)))
            value = Node("constant", types=[value.type], weight=weight).result
        self.owned.add(value)
        return value

    def only_user(self, value: Value) -> Node | None:
        """The one node that a value is for."""
        users = self.users.get(value, [])
        return users[0] if self.uses[value] == 1 and len(users) == 1 else None


def _is_filled(value: Value) -> bool:
    """Whether a value is one number repeated, or a single number: nothing that has a name."""
    if value.node.op == "full":
        return all(isinstance(d, int) for d in value.type.shape)
    whole = DTYPES[value.type.dtype].kind in ("int", "uint")
    if value.node.op != "constant" or not (whole or value.type.shape == ()):
        return False
    array = value.array
    return array is not None and array.size <= SMALL and (array == array.reshape(-1)[:1]).all()


SMALL = 4096
"""Elements up to which an integer constant may be copied, so that each layer has one of its own."""

Rule = Callable[[Node, Context], "Layer | None"]
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return enter


def recognise(graph: Graph) -> None:
    """Rewrites the graph's nodes, in its regions too."""
    context = Context(graph)
    _block(graph.nodes, context)
    graph.nodes[:] = live(graph.nodes, graph.outputs)
    split(graph)


def split(graph: Graph) -> None:
    """Slices that cut a tensor into equal parts become one node with the parts as its results."""
    replaced: dict[Value, Value] = {}
    for nodes in [graph.nodes, *(r.nodes for n in walk(graph.nodes) for r in n.regions)]:
        slices: dict[tuple[Value, int], list[Node]] = {}
        for node in nodes:
            axis = _cut_axis(node)
            if axis is not None:
                slices.setdefault((node.operands[0], axis), []).append(node)
        for (x, axis), parts in slices.items():
            ordered = sorted(parts, key=lambda n: n.attrs["starts"][axis])
            size = ordered[0].attrs["sizes"][axis]
            starts = [n.attrs["starts"][axis] for n in ordered]
            if len(parts) < 2 or starts != [i * size for i in range(len(parts))]:
                continue
            if len(parts) * size != x.type.shape[axis] or any(n.attrs["sizes"][axis] != size for n in parts):
                continue
            made = Node("chunk", [x], {"chunks": len(parts), "axis": axis}, [n.types[0] for n in ordered])
            made.source, made.scope = ordered[0].source, ordered[0].scope
            replaced.update({node.result: Value(made, i) for i, node in enumerate(ordered)})
            nodes[:] = [made if n is parts[0] else n for n in nodes if n is parts[0] or n not in parts]
    replace(graph, replaced)


def _cut_axis(node: Node) -> int | None:
    """The one axis along which a slice takes less than all, without steps."""
    if node.op != "slice" or set(node.attrs["steps"]) != {1}:
        return None
    shape, sizes, starts = node.operands[0].type.shape, node.attrs["sizes"], node.attrs["starts"]
    axes = [i for i, (have, size) in enumerate(zip(shape, sizes, strict=True)) if have != size]
    known = len(axes) == 1 and isinstance(shape[axes[0]], int)
    return axes[0] if known and isinstance(sizes[axes[0]], int) and isinstance(starts[axes[0]], int) else None


def _block(nodes: list[Node], context: Context) -> None:
    gone: set[Node] = set()
    for node in nodes:
        for region in node.regions:
            _block(region.nodes, context)
        found = RULES[node.op](node, context) if node.op in RULES and node not in gone else None
        if found is None:
            continue
        last = found.last or node
        gone.update(found.absorbed)
        if last is not node:
            gone.add(node)
        if not context.take(found):
            continue
        constants = {role: context.own(value) for role, value in found.constants.items()}
        last.op, last.operands, last.constants = found.name, list(found.operands), constants
        last.attrs, last.defaults = dict(found.arguments), found.defaults
    nodes[:] = [node for node in nodes if node not in gone]


# ---- products ----------------------------------------------------------------------------------------------------------


def same_or_each(values: tuple[int, ...]) -> int | tuple[int, ...]:
    """One number where all are the same."""
    return values[0] if len(set(values)) == 1 else tuple(values)


def pads(low: tuple[Any, ...], high: tuple[Any, ...]) -> Any:
    """`padding` as layers take it."""
    if low == high:
        return same_or_each(low)
    return tuple(zip(low, high, strict=True))


def numbers(*groups: tuple[Any, ...]) -> bool:
    return all(isinstance(v, int) for group in groups for v in group)


CONV_DEFAULTS = {
    "stride": 1,
    "padding": 0,
    "output_padding": 0,
    "dilation": 1,
    "groups": 1,
    "bias": True,
    "dtype": "float32",
}


@rule("conv", "conv_transpose")
def _convolution(node: Node, context: Context) -> Layer | None:
    x, weight = node.operands
    attrs = node.attrs
    plain = attrs.get("layout", "first") == "first" and attrs.get("dtype") is None
    transposed = node.op == "conv_transpose"
    if plain and weight.node.op == "dequantize" and not transposed and numbers(attrs["low"], attrs["high"]):
        return _quantised_convolution(node, context)
    if not plain or not context.constant(weight) or not numbers(attrs["low"], attrs["high"]):
        return None
    first, second, *kernel = weight.type.shape
    channels = (first, second * attrs["groups"]) if transposed else (second * attrs["groups"], first)
    constants = {"weight": weight}
    absorbed, last = _bias(node, channels[1], context, constants)
    arguments = {
        "in_channels": channels[0],
        "out_channels": channels[1],
        "kernel_size": same_or_each(tuple(kernel)),
        "stride": same_or_each(attrs["strides"]),
        "padding": pads(attrs["low"], attrs["high"]),
        "dilation": same_or_each(attrs["dilations"]),
        "groups": attrs["groups"],
        "bias": "bias" in constants,
        "dtype": weight.type.dtype,
    }
    if transposed:
        arguments["output_padding"] = same_or_each(attrs["extra"])
    name = f"nn.Conv{'Transpose' if transposed else ''}{len(kernel)}d"
    return Layer(name, [x], constants, arguments, CONV_DEFAULTS, absorbed, last)


def _bias(node: Node, channels: Any, context: Context, constants: dict[str, Value]) -> tuple[list[Node], Node | None]:
    """The addition of one number a channel (axis 1) after a node, if that is all that its result is for."""
    add = context.only_user(node.result)
    if add is None or add.op != "add":
        return [], None
    other = add.operands[1] if add.operands[0] == node.result else add.operands[0]
    shape = (1, channels, *[1] * (node.result.type.rank - 2))
    view = other.node
    if view.op != "reshape" or other.type.shape != shape or context.uses[other] != 1:
        return [], None
    bias = view.operands[0]
    if not context.constant(bias) or bias.type.shape != (channels,) or add.types[0] != node.types[0]:
        return [], None
    constants["bias"] = bias
    return [view], add


@rule("reshape")
def _pick(node: Node, context: Context) -> Layer | None:
    """x[:, 0]: a slice of one, without its axis."""
    cut = node.operands[0].node
    if cut.op != "slice" or context.only_user(cut.result) is not node or set(cut.attrs["steps"]) != {1}:
        return None
    x, shape, sizes, starts = cut.operands[0], cut.operands[0].type.shape, cut.attrs["sizes"], cut.attrs["starts"]
    axes = [i for i, (have, size) in enumerate(zip(shape, sizes, strict=True)) if have != size]
    if len(axes) != 1 or sizes[axes[0]] != 1 or (*shape[: axes[0]], *shape[axes[0] + 1 :]) != node.types[0].shape:
        return None
    axis, start = axes[0], starts[axes[0]]
    index = start if isinstance(start, int) else start - shape[axis]
    if not isinstance(index, int):
        return None
    return Layer("pick", [x], {}, {"axis": axis, "index": index}, absorbed=[cut])


@rule("dot_general")
def _linear(node: Node, context: Context) -> Layer | None:
    x, weight = node.operands
    attrs = node.attrs
    if weight.node.op == "dequantize":
        return _quantised_linear(node, context)
    if not context.constant(weight) or weight.type.rank != 2 or attrs["dtype"] or weight.type.dtype not in FLOATS:
        return None
    if attrs["lhs_batch"] or attrs["lhs_contract"] != (x.type.rank - 1,) or x.type.rank < 1 or attrs["sums"]:
        return None
    (axis,) = attrs["rhs_contract"]
    constants, last = {"weight": weight}, None
    out = weight.type.shape[1 - axis]
    add = context.only_user(node.result)
    if add is not None and add.op == "add":
        other = add.operands[1] if add.operands[0] == node.result else add.operands[0]
        if context.constant(other) and other.type.shape == (out,) and add.types[0] == node.types[0]:
            constants["bias"], last = other, add
    arguments = {
        "in_features": weight.type.shape[axis],
        "out_features": out,
        "bias": "bias" in constants,
        "transposed": axis == 0,
        "dtype": weight.type.dtype,
    }
    defaults = {"bias": True, "transposed": False, "dtype": "float32"}
    return Layer("nn.Linear", [x], constants, arguments, defaults, [], last)


# ---- quantised layers --------------------------------------------------------------------------------------------------


def _quantised(value: Value, role: str, context: Context) -> tuple[dict[str, Value], int | None] | None:
    """The parts of a weight that is stored as integers, and the axis along which its scales lie (None for one scale)."""
    node = value.node
    if (
        node.op != "dequantize"
        or node.attrs["block"]
        or any(o is None or not context.constant(o) for o in node.operands)
    ):
        return None
    stored, scale, zero = node.operands
    axis = node.attrs["axis"] % max(value.type.rank, 1)
    some = () if scale.type.shape == () else (value.type.shape[axis],)
    if (
        scale.type.shape != some
        or zero.type.shape != some
        or (scale.type.dtype, node.attrs["dtype"]) != ("float32",) * 2
    ):
        return None
    if not some and axis:
        return None
    parts = {f"{role}.values": stored, f"{role}.scale": scale, f"{role}.zero_point": zero}
    return parts, axis if some else None


def _quantised_bias(
    node: Node, channels: Any, per_channel: bool, context: Context, constants: dict[str, Value]
) -> tuple[list[Node], Node | None]:
    """The addition of a bias that is stored as integers."""
    add = context.only_user(node.result)
    if add is None or add.op != "add" or add.types[0] != node.types[0]:
        return [], None
    other = add.operands[1] if add.operands[0] == node.result else add.operands[0]
    absorbed = [other.node]
    if other.node.op == "reshape" and other.type.shape == (1, channels, *[1] * (node.result.type.rank - 2)):
        other = other.node.operands[0]
        absorbed.append(other.node)
    found = _quantised(other, "bias", context)
    if found is None or other.type.shape != (channels,) or other.node.operands[0].type.dtype != "int32":
        return [], None
    if (found[1] is not None) != per_channel:
        return [], None
    constants |= found[0]
    return absorbed, add


def _quantised_convolution(node: Node, context: Context) -> Layer | None:
    x, weight = node.operands
    found = _quantised(weight, "weight", context)
    if found is None or found[1] not in (0, None):
        return None
    attrs, (constants, axis) = node.attrs, found
    out, inside, *kernel = weight.type.shape
    absorbed, last = _quantised_bias(node, out, axis is not None, context, constants)
    arguments = {
        "in_channels": inside * attrs["groups"],
        "out_channels": out,
        "kernel_size": same_or_each(tuple(kernel)),
        "stride": same_or_each(attrs["strides"]),
        "padding": pads(attrs["low"], attrs["high"]),
        "dilation": same_or_each(attrs["dilations"]),
        "groups": attrs["groups"],
        "bias": last is not None,
        "per_channel": axis is not None,
        "dtype": weight.node.operands[0].type.dtype,
    }
    defaults = {**CONV_DEFAULTS, "per_channel": True, "dtype": "int8"}
    return Layer(f"nn.QuantConv{len(kernel)}d", [x], constants, arguments, defaults, [weight.node, *absorbed], last)


def _quantised_linear(node: Node, context: Context) -> Layer | None:
    x, weight = node.operands
    attrs, found = node.attrs, _quantised(weight, "weight", context)
    if found is None or weight.type.rank != 2 or attrs["dtype"] or attrs["lhs_batch"]:
        return None
    (contracted,), (constants, axis) = attrs["rhs_contract"], found
    if attrs["lhs_contract"] != (x.type.rank - 1,) or x.type.rank < 1 or axis not in (None, 1 - contracted):
        return None
    out = weight.type.shape[1 - contracted]
    absorbed, last = _quantised_bias(node, out, axis is not None, context, constants)
    arguments = {
        "in_features": weight.type.shape[contracted],
        "out_features": out,
        "bias": last is not None,
        "per_channel": axis is not None,
        "transposed": contracted == 0,
        "dtype": weight.node.operands[0].type.dtype,
    }
    defaults = {"bias": True, "per_channel": True, "transposed": False, "dtype": "int8"}
    return Layer("nn.QuantLinear", [x], constants, arguments, defaults, [weight.node, *absorbed], last)


@rule("quantize")
def _fake_quantize(node: Node, context: Context) -> Layer | None:
    """Rounding to a small type and back."""
    x, scale, zero = node.operands
    back = context.only_user(node.result)
    if back is None or back.op != "dequantize" or zero is None or back.operands[0] != node.result:
        return None
    numbers_ = [v.array for v in (scale, zero, *back.operands[1:]) if v is not None]
    if len(numbers_) != 4 or any(v is None or v.shape != () for v in numbers_):
        return None
    plain = {"axis": 0, "block": 0, "saturate": True, "precision": None, "dtype": zero.type.dtype}
    same = numbers_[0] == numbers_[2] and numbers_[1] == numbers_[3] and scale.type.dtype == x.type.dtype
    if any(node.attrs[k] != v for k, v in plain.items()) or back.attrs["dtype"] != x.type.dtype or not same:
        return None
    if back.attrs["axis"] or back.attrs["block"] or scale.type.dtype != "float32":
        return None
    arguments = {"0": _single(float(numbers_[0]), "float32"), "1": int(numbers_[1]), "dtype": zero.type.dtype}
    return Layer("nn.FakeQuantize", [x], {}, arguments, {"dtype": "int8"}, last=back)


@rule("gather")
def _embedding(node: Node, context: Context) -> Layer | None:
    table, indices = node.operands
    if not context.constant(table) or table.type.rank != 2 or node.attrs["axis"] != 0 or table.type.dtype not in FLOATS:
        return None
    arguments = {"count": table.type.shape[0], "dim": table.type.shape[1], "dtype": table.type.dtype}
    return Layer("nn.Embedding", [indices], {"weight": table}, arguments, {"dtype": "float32"})


# ---- normalisations ----------------------------------------------------------------------------------------------------

EPS = {"eps": 1e-5, "dtype": "float32"}


def _single(epsilon: float, dtype: str) -> float:
    """An epsilon that float32 holds, as it was before it was rounded to that."""
    return float(number(epsilon, "float32" if dtype != "float64" else dtype))


@rule("layer_norm", "rms_norm")
def _over_last_axes(node: Node, context: Context) -> Layer | None:
    operands: list[Any] = [*node.operands, None]
    x, scale, bias = operands[:3]
    shape = x.type.shape[node.attrs["axis"] % x.type.rank :]
    if scale is None and bias is None and not numbers(shape):
        return None
    for parameter in (scale, bias):
        if parameter is not None and not (context.constant(parameter) and parameter.type.shape == shape):
            return None
    if (scale is None and bias is not None) or _mixed(x, scale, bias):
        return None
    if not context.apart(v for v in (scale, bias) if v is not None):
        return None
    constants = {k: v for k, v in (("weight", scale), ("bias", bias)) if v is not None}
    arguments = {
        "normalized_shape": shape[0] if len(shape) == 1 else tuple(shape),
        "eps": _single(node.attrs["epsilon"], x.type.dtype),
        "affine": scale is not None,
        "bias": bias is not None or scale is None,
        "dtype": scale.type.dtype if scale is not None else "float32",
    }
    defaults = {**EPS, "affine": True, "bias": True}
    if node.op == "rms_norm":
        del arguments["bias"]
    return Layer("nn.LayerNorm" if node.op == "layer_norm" else "nn.RMSNorm", [x], constants, arguments, defaults)


def _mixed(x: Value, *parameters: Value | None) -> bool:
    """Whether the parameters differ from one another in their element types."""
    return len({p.type.dtype for p in parameters if p is not None}) > 1


@rule("batch_norm")
def _batch_norm(node: Node, context: Context) -> Layer | None:
    x, *parameters = node.operands
    if not all(map(context.constant, parameters)) or _mixed(x, *parameters) or not 2 <= x.type.rank <= 5:
        return None
    if not context.apart(parameters):
        return None
    constants: dict[str, Any] = dict(zip(("weight", "bias", "running_mean", "running_var"), parameters, strict=True))
    arguments = {
        "num_features": parameters[0].type.shape[0],
        "eps": _single(node.attrs["epsilon"], x.type.dtype),
        "dtype": parameters[0].type.dtype,
    }
    return Layer(f"nn.BatchNorm{max(x.type.rank - 2, 1)}d", [x], constants, arguments, EPS)


@rule("group_norm", "instance_norm")
def _by_channel(node: Node, context: Context) -> Layer | None:
    x, scale, bias = node.operands
    channels = x.type.shape[1]
    affine = scale is not None
    if affine != (bias is not None) or not isinstance(channels, int):
        return None
    if affine and not (context.constant(scale) and context.constant(bias) and context.apart((scale, bias))):
        return None
    if _mixed(x, scale, bias):
        return None
    constants = {"weight": scale, "bias": bias} if affine else {}
    name = "nn.GroupNorm" if node.op == "group_norm" else "nn.InstanceNorm"
    arguments: dict[str, Any] = {"num_groups": node.attrs["groups"]} if node.op == "group_norm" else {}
    arguments |= {
        "num_channels" if arguments else "num_features": channels,
        "eps": _single(node.attrs["epsilon"], x.type.dtype),
        "affine": affine,
        "dtype": scale.type.dtype if affine else "float32",
    }
    return Layer(name, [x], constants, arguments, {**EPS, "affine": True})


@rule("prelu")
def _prelu(node: Node, context: Context) -> Layer | None:
    x, slope = node.operands
    if not context.constant(slope) or not slope.type.shape or slope.type.dtype not in FLOATS:
        return None
    arguments = {str(i): d for i, d in enumerate(slope.type.shape)} | {"dtype": slope.type.dtype}
    return Layer("nn.PReLU", [x], {"weight": slope}, arguments, {"dtype": "float32"})


# ---- recurrent layers --------------------------------------------------------------------------------------------------


@rule("lstm", "gru", "rnn")
def _recurrent(node: Node, context: Context) -> Layer | None:
    x, w, r, b, lengths, *rest = node.operands
    states, peephole = (rest[:2], rest[2]) if node.op == "lstm" else (rest, None)
    constants = {"weight_input": w, "weight_hidden": r, "bias": b, "peephole": peephole}
    constants = {k: v for k, v in constants.items() if v is not None}
    if not all(map(context.constant, constants.values())) or not context.apart(constants.values()):
        return None
    attrs = dict(node.attrs)
    arguments = {
        "input_size": w.type.shape[2],
        "hidden_size": r.type.shape[2],
        "direction": attrs.pop("direction"),
        "bias": b is not None,
        "activations": attrs.pop("activations"),
        "alphas": attrs.pop("alphas"),
        "betas": attrs.pop("betas"),
        "clip": attrs.pop("clip"),
        "dtype": w.type.dtype,
        **attrs,
    }
    defaults = {
        "direction": "forward", "bias": True, "activations": (), "alphas": (), "betas": (), "clip": 0.0,
        "dtype": "float32", "couple": False, "reset_after": False, "peephole": False,
    }  # fmt: skip
    if node.op == "lstm":
        arguments["peephole"] = peephole is not None
    assert arguments["direction"] in DIRECTIONS
    return Layer(f"nn.{node.op.upper()}", [x, *states, lengths], constants, arguments, defaults)


# ---- sampling ----------------------------------------------------------------------------------------------------------

MODES = {("nearest", "asymmetric", "floor"): "nearest", ("nearest", "half_pixel", "round_prefer_ceil"): "nearest-exact"}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@rule("resize")
def _upsample(node: Node, context: Context) -> Layer | None:
    """By whole factors, as they are mostly."""
    x, attrs = node.operands[0], node.attrs
    count = x.type.rank - 2
    factors = tuple(attrs["factors"])
    if any(o is not None for o in node.operands[1:]) or attrs["axes"] != tuple(range(2, x.type.rank)) or not factors:
        return None
    key = (attrs["mode"], attrs["transformation"], attrs["rounding"])
    mode = MODES.get(key) or (LINEAR.get(count) if key == ("linear", "half_pixel", "floor") else None)
    whole = all(
        f == int(f) and s == d * int(f) for f, s, d in zip(factors, attrs["sizes"], x.type.shape[2:], strict=True)
    )
    if mode is None or not whole or attrs["antialias"] or attrs["exclude_outside"]:
        return None
    factor = same_or_each(tuple(map(int, factors)))
    return Layer("nn.Upsample", [x], {}, {"scale_factor": factor, "mode": mode}, {"mode": "nearest"})


# ---- windows and means -------------------------------------------------------------------------------------------------


@rule("window_reduce")
def _pool(node: Node, context: Context) -> Layer | None:
    (x,), attrs = node.operands, node.attrs
    rank = x.type.rank
    sizes = [attrs[k] for k in ("window", "strides", "dilations", "low", "high")]
    outer = [s[:2] for s in sizes]
    if not 3 <= rank <= 5 or outer != [(1, 1), (1, 1), (1, 1), (0, 0), (0, 0)] or not numbers(*sizes):
        return None
    window, strides, dilations, low, high = (tuple(s[2:]) for s in sizes)
    arguments = {
        "kernel_size": same_or_each(window),
        "stride": None if strides == window else same_or_each(strides),
        "padding": pads(low, high),
        "dilation": same_or_each(dilations),
    }
    defaults = {"stride": None, "padding": 0, "dilation": 1}
    if attrs["kind"] == "max":
        return Layer(f"nn.MaxPool{rank - 2}d", [x], {}, arguments, defaults)
    divide = context.only_user(node.result)
    if attrs["kind"] != "sum" or divide is None or divide.op not in ("div", "mul") or divide.operands[0] != node.result:
        return None
    if x.type.dtype not in FLOATS:
        return None
    count = divide.operands[1].array
    if count is not None and divide.op == "mul":
        count = 1 / count
    if count is None and any((*low, *high)):
        if not _counts(divide.operands[1], x, sizes):
            return None
        arguments["count_include_pad"], defaults["count_include_pad"] = False, True
    elif count is None or np.shape(count) != () or float(count) != math.prod(window):
        return None
    return Layer(f"nn.AvgPool{rank - 2}d", [x], {}, arguments, defaults, last=divide)


def _counts(value: Value, x: Value, sizes: list[tuple[int, ...]]) -> bool:
    """Whether a value is how many elements of x itself each window holds: a product of one factor an axis."""
    factors: list[Node] = []
    while value.node.op == "mul":
        factors.append(value.node.operands[1].node)
        value = value.node.operands[0]
    factors.append(value.node)
    if len(factors) != x.type.rank - 2:
        return False
    for axis, view in enumerate(reversed(factors), 2):
        shape = tuple(-1 if i == axis else 1 for i in range(x.type.rank))
        if view.op != "reshape" or tuple(-1 if i == axis else d for i, d in enumerate(view.types[0].shape)) != shape:
            return False
        slide = view.operands[0].node
        ones = slide.operands[0].node if slide.op == "window_reduce" else slide
        given = tuple(slide.attrs.get(k) for k in ("window", "strides", "dilations", "low", "high"))
        if ones.op != "full" or ones.attrs["value"] != 1.0 or ones.attrs["shape"] != (x.type.shape[axis],):
            return False
        if slide.attrs["kind"] != "sum" or given != tuple((s[axis],) for s in sizes):
            return False
    return True


@rule("reduce")
def _mean(node: Node, context: Context) -> Layer | None:
    """A sum, divided by how many elements it takes in, or multiplied by the inverse."""
    last = context.only_user(node.result)
    if node.attrs["kind"] != "sum" or last is None or last.op not in ("div", "mul") or last.operands[0] != node.result:
        return None
    x, count = node.operands[0], last.operands[1]
    if x.type.dtype not in FLOATS or count.type.shape != ():
        return None
    total: Any = 1
    for axis in node.attrs["axes"]:
        total = total * x.type.shape[axis]
    if count.array is not None:
        number = float(count.array)
        same = isinstance(total, int) and number == (total if last.op == "div" else 1 / max(total, 1))
    else:
        size = count.node.operands[0] if count.node.op == "cast" else count
        same = last.op == "div" and is_size(size) and size.node.attrs["dims"] == (total,)
    arguments = {"axes": node.attrs["axes"], "keepdims": node.attrs["keepdims"]}
    return Layer("mean", [x], {}, arguments, last=last) if same else None
