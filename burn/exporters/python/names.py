"""Names for what a program calls things, or does not: members of modules, variables, classes. Enter at `member_path`.

A source model's names are kept where they say something ("encoder.layer.0.attention.query.weight"); the numbers that
exporters give ("val_12", "onnx::MatMul_1604") say nothing.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence

from burn.exporters.python.graph import Node, Value

MEANINGLESS = re.compile(
    r"(onnx::.*|val_\d+|_?\d+|.*[Cc]onstant(_\d+)?(_output_\d+)?|constant|program|tensor_\d+|t\d+"
    r"|(Identity|const|transpose|reshape|broadcast_to|ConstantOfShape|constant_of_shape|const_fold_opt_)(_\d+)*(__\d+)?)"
)
LONGEST = 40  # characters of a name that a person would give
GENERAL = frozenset({"layer", "block", "stage", "module", "unit"})
VAGUE = frozenset(
    {"model", "module", "net", "network", "backbone", "body", "m", "base", "main", "features", "sub", "self"}
)
"""Names of modules without information about their content."""
WORDS = {"attn": "attention", "mlp": "MLP", "ffn": "feed_forward", "ff": "feed_forward", "norm": "norm", "conv": "conv"}
PARAMETER_NAMES = frozenset({
    "weight", "bias", "kernel", "gamma", "beta", "scale", "mean", "var", "running_mean", "running_var",
    "w", "b", "W", "B", "R", "slope", "alpha",
})  # fmt: skip
SUFFIX = re.compile(r"_(w|b|s|rm|riv|weight|bias|kernel|gamma|beta|scale|mean|var|W|B|R)(_\d+)?$")
MOVED = re.compile(r"(transpose|Transpose|Reshape|BroadcastTo)(_\d+)?")
"""Ends of names of parameters that were folded with an op: the module stands before them."""
QUANTISED = re.compile(
    r"_quantized(_scale|_zero_point)?$|(?<=weight)_(scale|zero_point)$|(?<=bias)_(scale|zero_point)$"
)
RECURRENT = re.compile(r"(weight|bias)_(ih|hh)(_l\d*)?(_reverse)?")  # torch's names in recurrent layers
OPERATOR = re.compile(r"[A-Z]\w*$")  # the last part of a node's name: "MatMul_3"


def identifier(text: str) -> str:
    """The text as a Python name that starts with a letter."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "x"
    name = re.sub(r"^(\d+_)+(?=[A-Za-z])", "", re.sub(r"_+", "_", name))
    name = f"n{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) or name in ("self", "burn", "nn", "ops") else name


def class_name(text: str) -> str:
    name = "".join(part[:1].upper() + part[1:] for part in identifier(text).split("_"))
    return f"{name}_" if keyword.iskeyword(name) else name


def parameter_path(name: str, whole: bool = False) -> list[str]:
    """The module that a parameter belongs to, by its name's parts; with `whole` its own name last. [] where the name says
    nothing."""
    parts = [p for p in re.split(r"[./]", name.split("::")[-1] if "onnx::" not in name else name) if p]
    if not parts or MEANINGLESS.fullmatch(name) or MEANINGLESS.fullmatch(parts[-1]) or len(parts[-1]) > LONGEST:
        return []
    parts[-1] = re.sub(r":\d+$", "", parts[-1])  # TensorFlow's outputs
    if re.fullmatch(r"Const(ant)?(_\d+)?", parts[-1]):
        return []
    if len(parts) > 1 and MOVED.fullmatch(parts[-1]):
        return parts[:-1]
    if whole:
        return parts
    if len(parts) > 2 and parts[-2] in ("weight", "bias") and parts[-1] in ("values", "scale", "zero_point"):
        return parts[:-2]
    parts[-1] = QUANTISED.sub("", parts[-1])
    if parts[-1] in PARAMETER_NAMES or RECURRENT.fullmatch(parts[-1]):
        return parts[:-1]
    return [*parts[:-1], SUFFIX.sub("", parts[-1])]


def node_path(source: str) -> list[str]:
    """The module that a node belongs to, where its name is a path ("/encoder/layer.0/attention/query/MatMul")."""
    if "/" not in source.strip("/"):
        return []
    parts = [p for p in re.split(r"[./]", source) if p]
    if parts and OPERATOR.match(parts[-1]):
        parts.pop()
    return [] if not parts or MEANINGLESS.fullmatch(parts[-1]) else parts


def container_path(path: list[str]) -> list[str]:
    """A path without its last number: that of the list whose element is meant. [] without a number."""
    numbered = [i for i, part in enumerate(path) if part.isdigit()]
    return [part for i, part in enumerate(path) if i != numbered[-1]] if numbered else []


def block_name(paths: Sequence[Sequence[str]], title: str | None, has_blocks: bool) -> str:
    """The class name of a part of a model, which may contain other parts.

    It is the common name of its occurrences, if there is one, else its `title`, which describes its contents."""
    names = {_part_name(path) for path in paths}
    name = names.pop() if len(names) == 1 else ""
    nested = all(sum(part.isdigit() for part in path) > 1 for path in paths)
    if nested and name.rpartition("_")[2] in GENERAL and title not in (None, "Block"):
        name = ""  # the parts of a layer are all called layers
    return class_name(name) if name else title or ("Stage" if has_blocks else "Block")


def source_class(classes: Sequence[str]) -> str:
    """The name of the class that all occurrences of a part have in the source model; "" for containers, or if it is unknown."""
    if len(set(classes)) != 1 or not classes[0] or classes[0].startswith("torch.nn.modules.container."):
        return ""
    return class_name(classes[0].split(".")[-1])


def _part_name(path: Sequence[str]) -> str:
    """encoder_layer for ["bert", "encoder", "layer", "0"]; "" where the path says nothing."""
    words = [re.sub(r"_?\d+$", "", p) for p in path if not p.isdigit()]
    words = [w for w in words if w]
    if not words:
        return ""
    last = words[-1][:-1] if words[-1].endswith("s") and not words[-1].endswith("ss") else words[-1]
    if words[-1] in VAGUE:
        return ""
    if last in GENERAL:
        return f"{words[-2]}_{last}" if len(words) > 1 and words[-2] not in VAGUE and len(words[-2]) > 2 else ""
    parts = [WORDS.get(part, part) for part in last.split("_")]
    return "" if last in VAGUE or len(last) < 3 else "_".join(parts)


def snake_case(name: str) -> str:
    """`MaxPool2d` as max_pool, `Conv2d` as conv."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub(r"[1-3]d$", "", name)).lower()


def member_path(node: Node, names: Mapping[Value, str] | None = None) -> list[str]:
    """The name of a layer: from its parameters (`names` has other names for some), else from its node."""
    for constant in node.constants.values():
        path = parameter_path((names or {}).get(constant, constant.node.source))
        if path:
            return path
    return node_path(node.source)


def shared_prefix(paths: Iterable[list[str]]) -> int:
    """How many parts all the paths begin with; none of them is left without a name."""
    groups = list(zip(*(p[:-1] for p in paths), strict=False))
    return next((i for i, group in enumerate(groups) if len(set(group)) > 1), len(groups))


class Names:
    """Names that are taken, in one namespace."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)

    def new(self, wanted: str) -> str:
        """The name, or with the first free number after it."""
        name, number = wanted, 1
        while name in self.taken or keyword.iskeyword(name):
            number += 1
            name = f"{wanted}_{number}" if wanted[-1:].isdigit() else f"{wanted}{number}"
        self.taken.add(name)
        return name

    def from_path(self, path: list[str], default: str) -> str:
        """The shortest end of a path that is free; a number never stands alone."""
        for length in range(1, len(path) + 1):
            parts = path[-length:]
            if parts[0].isdigit():
                continue
            name = snake_case(identifier("_".join(parts)))
            if name not in self.taken:
                return self.new(name)
        return self.new(snake_case(identifier("_".join(path))) if path else default)
