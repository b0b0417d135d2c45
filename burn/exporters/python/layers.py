"""Ops and their constants become layers: `conv` with its weight, and the addition of a bias, is an `nn.Conv2d`.

Each rule looks at one node, says what layer it is (or that it is none), and the layer takes the node's place, or that of
the last of the nodes it is made of. What a layer builds when it is called is exactly what it was recognised in. Enter at
`recognise`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from burn.dialect.recurrent import DIRECTIONS
from burn.dialect.types import FLOATS
from burn.exporters.python.graph import Graph, Node, Value, live, walk
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
        self.users: dict[Value, list[Node]] = {}
        for node in walk(graph.nodes):
            for value in node.values:
                self.users.setdefault(value, []).append(node)

    def constant(self, value: Value | None) -> bool:
        """Whether a value is a constant that no layer owns yet."""
        return value is not None and value.node.op == "constant" and value not in self.owned

    def only_user(self, value: Value) -> Node | None:
        """The one node that a value is for."""
        users = self.users.get(value, [])
        return users[0] if self.uses[value] == 1 and len(users) == 1 else None


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
        context.owned.update(found.constants.values())
        last.op, last.operands, last.constants = found.name, list(found.operands), found.constants
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
    if not plain or not context.constant(weight) or not numbers(attrs["low"], attrs["high"]):
        return None
    transposed = node.op == "conv_transpose"
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


@rule("dot_general")
def _linear(node: Node, context: Context) -> Layer | None:
    x, weight = node.operands
    attrs = node.attrs
    if not context.constant(weight) or weight.type.rank != 2 or attrs["dtype"] or weight.type.dtype not in FLOATS:
        return None
    if attrs["lhs_batch"] or attrs["lhs_contract"] != (x.type.rank - 1,) or x.type.rank < 1:
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
    if scale is not None and scale == bias:
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
    if len(set(parameters)) != 4:
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
    if affine and not (context.constant(scale) and context.constant(bias) and scale != bias):
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
    if not all(map(context.constant, constants.values())) or len(set(constants.values())) != len(constants):
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
    if attrs["kind"] != "sum" or divide is None or divide.op != "div" or divide.operands[0] != node.result:
        return None
    if x.type.dtype not in FLOATS:
        return None
    count = divide.operands[1].array
    if count is None and any((*low, *high)):
        if not _counts(divide.operands[1], x, sizes):
            return None
        arguments["count_include_pad"], defaults["count_include_pad"] = False, True
    elif count is None or count.shape != () or float(count) != math.prod(window):
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
    """A sum, divided by how many elements it takes in."""
    divide = context.only_user(node.result)
    if node.attrs["kind"] != "sum" or divide is None or divide.op != "div" or divide.operands[0] != node.result:
        return None
    x, count = node.operands[0], divide.operands[1]
    if x.type.dtype not in FLOATS or count.type.shape != ():
        return None
    total: Any = 1
    for axis in node.attrs["axes"]:
        total = total * x.type.shape[axis]
    if count.array is not None:
        same = isinstance(total, int) and float(count.array) == total
    else:
        size = count.node.operands[0] if count.node.op == "cast" else count
        same = is_size(size) and size.node.attrs["dims"] == (total,)
    arguments = {"axes": node.attrs["axes"], "keepdims": node.attrs["keepdims"]}
    return Layer("mean", [x], {}, arguments, last=divide) if same else None
