"""Names of values and parts of a model, derived from the ops around them.

Enter at `used_as` and `made_by` (of a value), `title` (of a part).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from burn.dialect.types import DTYPES
from burn.exporters.python.graph import Node, Value, walk

VIEWS = frozenset({"reshape", "transpose", "broadcast_to", "slice", "cast", "pick"})
"""Ops whose result is what their operand was, in another form."""

USES: dict[str, tuple[str | None, ...]] = {
    "attention": ("query", "key", "value", "mask", "lengths", "random_key"),
    "rotary_embedding": (None, "cos", "sin"),
    "gather": (None, "index"),
    "nn.Embedding": ("index",),
    "nn.LSTM": (None, "hidden", "cell"),
    "nn.LSTMCell": (None, "hidden", "cell"),
    "nn.GRU": (None, "hidden"),
    "select": ("mask",),
    "if": ("condition",),
}
"""Names of operands, by the op and the operand's index."""

OTHERWISE = {
    "mask": "attention_mask", "query": "queries", "key": "keys", "value": "values", "index": "indices",
    "hidden": "state", "cell": "memory", "condition": "chosen",
}  # fmt: skip
"""The name for a use whose first name is taken."""

RESULTS: dict[str, tuple[str, ...]] = {
    "nn.LSTM": ("output", "hidden", "cell"),
    "nn.LSTMCell": ("hidden", "cell"),
    "nn.GRU": ("output", "hidden"),
    "nn.RNN": ("output", "hidden"),
    "nn.StackedLSTM": ("output", "hidden", "cell"),
    "nn.StackedGRU": ("output", "hidden"),
    "nn.StackedRNN": ("output", "hidden"),
    "top_k": ("best", "places"),
    "unique": ("distinct", "first", "inverse", "counts"),
}
"""Names of results of ops with several results."""

NOUNS = {
    "abs": "size", "arg_reduce": "best", "attention": "context", "ceil": "steps", "clip": "clipped", "concat": "joined",
    "conv": "features", "cos": "cos", "cumulative": "totals",
    "div": "ratio", "dot_general": "product", "exp": "powers", "floor": "steps", "gather": "picked", "gelu": "hidden",
    "if": "result", "iota": "positions", "log": "logs", "log_softmax": "log_probabilities", "loop": "state",
    "max": "larger", "mean": "mean", "min": "smaller", "mul": "scaled", "neg": "negative", "nonzero": "places",
    "one_hot": "one_hot", "pad": "padded", "reciprocal": "inverse", "relu": "hidden",
    **dict.fromkeys(("nn.LayerNorm", "nn.RMSNorm", "nn.GroupNorm", "nn.BatchNorm1d", "nn.BatchNorm2d"), "normed"),
    "nn.MaxPool1d": "pooled", "nn.MaxPool2d": "pooled", "nn.AvgPool2d": "pooled", "nn.FakeQuantize": "rounded",
    "quantize": "stored", "dequantize": "real", "dim_values": "length", "window_reduce": "pooled", "round": "rounded",
    "resize": "resized", "nn.Upsample": "upsampled", "rotary_embedding": "rotated", "rsqrt": "scale", "select": "chosen",
    "sigmoid": "gate", "silu": "hidden", "sin": "sin", "softmax": "probabilities", "softplus": "hidden", "sort": "ordered",
    "sqrt": "root", "sub": "difference", "tanh": "curve", "add": "total", "chunk": "part", "hard_sigmoid": "gate",
    "scatter_elements": "updated", "scatter_nd": "updated", "pow": "power", "layer_norm": "normed", "rms_norm": "normed",
}  # fmt: skip
"""Names of values, by the op that computes them."""

REDUCED = {"sum": "total", "max": "peak", "min": "least", "mean": "mean", "prod": "product"}

PARTS = ("first", "second", "third", "fourth")


LAYERS = re.compile(
    r"\d|norm|(^|_)(ln|bn|gn|fc|act|mlp|ffn|ff|attn|h|m)(_|$)|lin(ear)?$|conv|dense|proj|dropout|pool|block|layer|stage|module"
    r"|residual|seq|net$|features|list|attention|head$|down$|up$|dec$|enc$|out$"
)
"""Names of members that say which layer they are, and not what their result is."""


def says_role(member: str) -> bool:
    """True if a member's name is a name for its result: `mu`, `embedding`."""
    return LAYERS.search(member) is None


Users = Mapping[Value, Sequence[tuple[Node, int]]]
"""The nodes that take each value, and as which operand."""


def made_by(value: Value) -> str | None:
    """A name for a value from the op that computes it, ignoring views."""
    while value.node.op in VIEWS:
        value = value.node.operands[0]
    node = value.node
    if node.op == "call":
        inner = node.attrs["block"].results[value.index]
        return made_by(inner) if len(node.types) > 1 else None
    if node.op == "chunk":
        return PARTS[value.index] if node.attrs["chunks"] <= len(PARTS) else "part"
    if node.op in RESULTS and len(node.types) > 1:
        return RESULTS[node.op][min(value.index, len(RESULTS[node.op]) - 1)]
    if node.op in ("reduce", "mean"):
        return REDUCED.get(node.attrs.get("kind", "mean"), "summary")
    if node.op in ("input", "argument"):
        return "part"
    if node.op == "full":
        return "zeros" if not node.attrs["value"] and not node.attrs["bits"] else "filled"
    return "mask" if DTYPES[value.type.dtype].kind == "bool" else NOUNS.get(node.op)


def used_as(value: Value, users: Users) -> str | None:
    """A name for a value from all its users, ignoring views; None if they disagree."""
    todo, found = [value], set()
    for each in todo:
        for node, index in users.get(each, ()):
            if node.op in VIEWS or (node.op == "rotary_embedding" and index == 0):
                todo.append(node.result)
            elif node.op == "call":
                block = node.attrs["block"]
                found.add(used_as(block.slots[index], users_of(block.nodes)))
            else:
                names = USES.get(node.op, ())
                found.add(names[index] if index < len(names) else None)
    return found.pop() if len(found) == 1 else None


def users_of(nodes: Sequence[Node]) -> Users:
    """The nodes that take each value, those in regions too, and as which operand."""
    users: dict[Value, list[tuple[Node, int]]] = {}
    for node in walk(list(nodes)):
        for index, operand in enumerate(node.operands):
            for value in operand if isinstance(operand, list) else [operand]:
                if value is not None:
                    users.setdefault(value, []).append((node, index))
    return users


def role_of_linear(node: Node, users: Users) -> str | None:
    """`qkv`, `query`, `key`, `value` or `proj` for a linear layer before or after attention."""
    source = node.operands[0]
    while source.node.op in VIEWS:
        source = source.node.operands[0]
    if source.node.op == "attention":
        return "proj"
    todo, found = [node.result], set()
    for value in todo:
        for user, index in users.get(value, ()):
            if user.op in VIEWS or user.op in ("chunk", "rotary_embedding"):
                todo += user.results
            elif user.op == "attention" and index < 3:
                found.add(USES["attention"][index])
            else:
                return None
    return "qkv" if len(found) == 3 else "kv" if found == {"key", "value"} else found.pop() if len(found) == 1 else None


# ---- parts of a model --------------------------------------------------------------------------------------------------

NORMS = ("nn.LayerNorm", "nn.RMSNorm", "nn.GroupNorm", "nn.BatchNorm")

ACTIVATIONS = frozenset({
    "relu", "silu", "gelu", "sigmoid", "tanh", "hard_swish", "hard_sigmoid", "leaky_relu", "elu", "mish", "clip", "nn.PReLU",
    "softplus", "selu",
})  # fmt: skip


def title(nodes: Sequence[Node], titles: Sequence[str]) -> str | None:
    """The name of a part, from its contents. titles: of the parts that it calls."""
    ops = [n.op for n in nodes]
    convolutions = sum(op.startswith(("nn.Conv", "nn.QuantConv")) for op in ops)
    linear = sum(op in ("nn.Linear", "nn.QuantLinear") for op in ops)
    if "attention" in ops or any("Attention" in t for t in titles):
        norms = sum(op.startswith(NORMS) for op in ops)
        whole = norms > 1 or linear > 5 or any(t.startswith(("FeedForward", "MLP")) for t in titles)
        return "Block" if whole else "Attention"
    if any(op.startswith(("nn.LSTM", "nn.GRU", "nn.RNN", "nn.Stacked")) for op in ops):
        return "Recurrent"
    if linear >= 2 and not convolutions and len(ops) <= 3 * linear:
        return "FeedForward"
    others = [
        op for op in ops if not op.startswith(("nn.Conv", "nn.QuantConv", "nn.BatchNorm")) and op not in ACTIVATIONS
    ]
    if convolutions == 1 and not others:
        if not any(op.startswith("nn.BatchNorm") for op in ops):
            return "ConvActivation" if len(ops) > 1 else None
        return "ConvNorm" if len(ops) == 2 else "ConvNormActivation"
    if convolutions >= 1 and "mul" in ops and "mean" in ops:
        return "SqueezeExcite"
    if _is_residual(nodes):
        return "Residual"
    if "concat" in ops and (convolutions or titles):
        return "Branches"
    if convolutions > 1:
        return "ConvBlock"
    return None


def _is_residual(nodes: Sequence[Node]) -> bool:
    """True if the last thing is to add what came in, perhaps before an activation."""
    inside = set(nodes)
    last = nodes[-1]
    if last.op in ACTIVATIONS:
        last = last.operands[0].node
    return last.op == "add" and any(v.node not in inside for v in last.values)
