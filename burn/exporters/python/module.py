"""A class out of nodes: members in `__init__`, `forward`, and which constants of the program its parameters are.

Enter at `ModuleWriter`. The parameters' names in the file are their paths from the model.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from burn.dialect.dims import Dim, Expr, symbols
from burn.dialect.types import DTYPES
from burn.errors import CompileError, Problem
from burn.exporters.python.blocks import OPTION, Block, Option
from burn.exporters.python.function import INDENT, WIDTH, Body, Chain, Line, Sizes, literal_constant, shape_text
from burn.exporters.python.graph import Node, Value, walk
from burn.exporters.python.names import (
    Names,
    container_path,
    identifier,
    parameter_path,
    shared_prefix,
    snake_case,
)
from burn.exporters.python.sequences import ACTIVATIONS
from burn.exporters.python.spell import reshape_form
from burn.exporters.python.text import literal, number
from burn.exporters.python.uses import Users, role_of_linear, used_as, users_of
from burn.nn.module import Module

POSITIONAL = frozenset({
    "in_channels", "out_channels", "kernel_size", "in_features", "out_features", "count", "dim", "normalized_shape",
    "num_features", "num_groups", "num_channels", "input_size", "hidden_size", "0", "1", "2", "3", "4", "5", "6", "7",
})  # fmt: skip
"""Constructor's arguments that are written without their names."""

AXES = {4: {0: "batch", 1: "channels", 2: "height", 3: "width"}, 3: {0: "batch", 1: "length"}, 2: {0: "rows"}}
"""Names of unnamed sizes, by the rank of their tensor."""

MERGED = re.compile(r"^(bn|norm|batch_?norm)(?=\d*$)")
"""Exporters give a convolution the name of the normalisation that they merged into it."""

RESERVED = frozenset(dir(Module)) | {"forward", "self"}


class ModuleWriter:
    """One class of the source. `inputs` are the values that `forward` takes, with the names wished for them."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[Node],
        inputs: Sequence[tuple[Value, str]],
        outputs: Sequence[Value],
        uses: Counter[Value],
        writers: Mapping[Block, ModuleWriter] | None = None,
        block: Block | None = None,
        plain: bool = False,
        output_names: Sequence[str] = (),
    ) -> None:
        """writers: of the blocks that are called here. block: what this is the class of, if it is not the model. plain: write
        ops as functions."""
        self.writers, self.block, self.plain = writers or {}, block, plain
        self.name, self.nodes, self.inputs, self.outputs = name, list(nodes), list(inputs), list(outputs)
        self.uses = Counter(uses)
        self.names = Names(RESERVED)
        self.members: dict[Node, str] = {}
        self.constructors: list[str] = []
        self.paths: dict[Value, str] = {}  # constant -> its path in this module
        self.output_names = dict(zip(outputs, output_names, strict=False)) if len(output_names) > 1 else {}
        self.split: dict[Node, str] = {}  # reshapes into heads -> the attribute that holds their number
        if not plain:
            self._add_heads()
        self._add_members()

    def _add_heads(self) -> None:
        """Attributes for the numbers of heads, which reshapes before attention have."""
        names: dict[int, str] = {}
        for node in walk(self.nodes):
            for index, operand in enumerate(node.operands[:3] if node.op == "attention" else ()):
                split = _heads_of(operand)
                if split is None or split.attrs["shape"][2] in (1, -1):
                    continue
                count = split.attrs["shape"][2]
                if count not in names:
                    names[count] = self.names.new("num_heads" if index == 0 else "num_kv_heads")
                    self.constructors.append(f"self.{names[count]} = {count}")
                self.split[split] = names[count]

    # ---- members -----------------------------------------------------------------------------------------------------
    def _add_members(self) -> None:
        for option in self._size_options():
            self.names.taken.add(option)
            self.constructors.append(f"self.{option} = {option}")
        lists = self._call_lists()
        wishes = self._wishes(lists)
        shared: dict[Any, str] = {}
        for node in walk(self.nodes):
            if node.op == "call" and node not in self.members:
                self._add_calls(lists[node], wishes[node])
            elif node.op == "sequential":
                self._add_sequence(node, wishes[node])
            elif node.op.startswith("nn."):
                key = self._same_layer(node)
                if key in shared:
                    self.members[node] = shared[key]
                    continue
                attribute = shared[key] = self.names.new(wishes[node])
                self.members[node] = attribute
                self.paths.update({value: f"{attribute}.{role}" for role, value in node.constants.items()})
                self.constructors.append(f"self.{attribute} = {node.op}({self._arguments(node)})")
        users = users_of(self.nodes)
        for value in self._free_constants():
            path = self._parameter_path(value, whole=True)
            used = used_as(value, users)
            role = "attention_bias" if used == "mask" else used or _factor(value, users) or "table"
            attribute = self.names.from_path([p for p in path if p != "weight"] or path, role)
            self.paths[value] = attribute
            shape = (self.block.shapes if self.block else {}).get(value, value.type.shape)
            self.constructors.append(f"self.{attribute} = {_parameter(value, shape)}")

    def _same_layer(self, node: Node) -> Any:
        """A key that is equal for calls of one layer."""
        if node.constants:
            return tuple(node.constants.values())
        path = self._path(node)
        again = [*path[:-1], re.sub(r"_\d+$", "", path[-1])] if path else []  # exporters number a layer's further calls
        return (node.op, tuple(again), self._arguments(node)) if path else node

    def _wishes(self, lists: dict[Node, list[Node]]) -> dict[Node, str]:
        """Preferred name of each member: the shortest unique suffix of its path in this module."""
        paths: dict[Node, list[str]] = {}
        kinds: dict[Node, str] = {}
        for node in walk(self.nodes):
            if node.op == "call" and node is lists[node][0]:
                single = len(lists[node]) == 1
                paths[node] = self._path(node) if single else container_path(self._path(node))
                name = snake_case(self.writers[node.attrs["block"]].name)
                kinds[node] = name if single else f"{name.rstrip('s')}s"
            elif node.op.startswith("nn.") or node.op == "sequential":
                paths[node] = self._path(node)
                kinds[node] = snake_case(node.op.removeprefix("nn.").removeprefix("Fake"))
                if paths[node] and node.op.startswith(("nn.Conv", "nn.QuantConv")):
                    paths[node] = [*paths[node][:-1], MERGED.sub("conv", paths[node][-1])]
        around = self._attention_names(paths)
        outer = shared_prefix(p for p in paths.values() if p)
        local = {node: path[outer:] if len(path) > outer else path for node, path in paths.items()}
        ends = Counter(tuple(p[-n:]) for p in {tuple(p) for p in local.values()} for n in range(1, len(p) + 1))
        return {node: around.get(node) or _shortest(path, ends) or kinds[node] for node, path in local.items()}

    def _attention_names(self, paths: Mapping[Node, list[str]]) -> dict[Node, str]:
        """Names of linear layers around attention whose own names say nothing, or are those of other layers."""
        count = Counter(tuple(p) for p in paths.values())
        users = users_of(self.nodes)
        found: dict[Node, str] = {}
        for node, path in paths.items():
            if node.op == "nn.Linear" and (not path or count[tuple(path)] > 1):
                role = role_of_linear(node, users)
                if role is not None and role not in found.values():
                    found[node] = role
        return found

    def _path(self, node: Node) -> list[str]:
        """Where a member stands in the module that is written."""
        if node.op == "call":
            return self._inside(node.scope) or node.attrs["path"]
        if node.named:
            return self._inside(node.scope)
        if node.op == "nn.FakeQuantize":
            return []  # the module beside it has the name
        known = self.block.names if self.block is not None else {}
        named = [p for v in node.constants.values() if (p := parameter_path(known.get(v, v.node.source)))]
        paths = [*named[:1], list(node.scope)]
        return next((p for path in paths if (p := self._inside(path))), (named or [[]])[0])

    def _inside(self, path: Sequence[str]) -> list[str]:
        """A path in the source model from the module that is written; [] for one elsewhere."""
        scope = self.block.scope if self.block is not None else ()
        return list(path[len(scope) :]) if tuple(path[: len(scope)]) == tuple(scope) else []

    def _parameter_path(self, value: Value, whole: bool = False) -> list[str]:
        known = self.block.names if self.block is not None else {}
        path = parameter_path(known.get(value, value.node.source), whole)
        return self._inside(path) or path

    def _arguments(self, node: Node) -> str:
        given = {k: v for k, v in node.attrs.items() if k not in node.defaults or v != node.defaults[k]}
        return ", ".join(_text(v) if k in POSITIONAL else f"{k}={_text(v)}" for k, v in given.items())

    def _size_options(self) -> list[str]:
        """Options that sizes in `forward` are made of."""
        if self.block is None:
            return []
        attrs = [v for node in self.nodes for v in node.attrs.values() if isinstance(v, tuple)]
        names = {s for dims in attrs for d in dims if isinstance(d, Expr) for s in symbols(d)}
        return [name for name in self.block.options if OPTION + name in names]

    def _call_lists(self) -> dict[Node, list[Node]]:
        """The calls that form one list, for each call: those of numbered parts of the source model, or of one module in a row.

        Each call in a row takes the result of the call before."""
        groups: dict[Any, list[Node]] = {}
        run, before = 0, None
        for node in self.nodes:
            if node.op == "call":
                path = self._path(node)
                linked = (
                    before is not None
                    and before.attrs["block"] is node.attrs["block"]
                    and any(v.node is before for v in node.values)
                )
                run += not linked
                if node.scope:
                    key: Any = tuple(path[:-1]) if path[-1:] and path[-1].isdigit() else node
                else:
                    key = tuple(container_path(path)) or run
                groups.setdefault(key, []).append(node)
            before = node if node.op == "call" else None
        return {node: group for group in groups.values() for node in group}

    def _add_calls(self, calls: list[Node], wish: str) -> None:
        made = []
        for node in calls:
            options = ", ".join(_text(v) for v in node.attrs["options"].values())
            made.append(f"{self.writers[node.attrs['block']].name}({options})")
        single = len(calls) == 1
        attribute = self.names.new(wish)
        for i, node in enumerate(calls):
            self.members[node] = attribute if single else f"{attribute}[{i}]"
            inner = self.writers[node.attrs["block"]].paths
            target = attribute if single else f"{attribute}.{i}"
            for own, template in zip(node.constants.values(), node.attrs["template"], strict=True):
                self.paths[own] = f"{target}.{inner[template]}"
        if single:
            self.constructors.append(f"self.{attribute} = {made[0]}")
        elif len(set(made)) == 1:
            self.constructors.append(f"self.{attribute} = nn.ModuleList({made[0]} for _ in range({len(made)}))")
        else:
            self.constructors.append(f"self.{attribute} = nn.ModuleList([{', '.join(made)}])")

    def _add_sequence(self, node: Node, wish: str) -> None:
        attribute = self.members[node] = self.names.new(wish)
        made = self._children(node, attribute)
        if len(made) > 2 and len(set(made)) == 1:
            self.constructors.append(f"self.{attribute} = nn.Sequential(*({made[0]} for _ in range({len(made)})))")
        else:
            self.constructors.append(f"self.{attribute} = nn.Sequential({', '.join(made)})")

    def _children(self, node: Node, attribute: str) -> list[str]:
        """The constructors of a sequence's modules; notes the paths of their parameters."""
        made = []
        for i, child in enumerate(node.attrs["children"]):
            if child.op == "call":
                writer = self.writers[child.attrs["block"]]
                made.append(f"{writer.name}({', '.join(_text(v) for v in child.attrs['options'].values())})")
                for own, template in zip(child.constants.values(), child.attrs["template"], strict=True):
                    self.paths[own] = f"{attribute}.{i}.{writer.paths[template]}"
            elif child.op == "sequential":
                made.append(f"nn.Sequential({', '.join(self._children(child, f'{attribute}.{i}'))})")
            elif child.op in ACTIVATIONS:
                made.append(ACTIVATIONS[child.op](child) or "")
            else:
                made.append(f"{child.op}({self._arguments(child)})")
                self.paths.update({v: f"{attribute}.{i}.{role}" for role, v in child.constants.items()})
        return made

    def _free_constants(self) -> list[Value]:
        """Constants that no layer owns and that are not written where they are used."""
        used = [v for node in walk(self.nodes) for v in node.values]
        used += [v for node in walk(self.nodes) for region in node.regions for v in region.results] + self.outputs
        given = {value for value, _ in self.inputs}
        free: dict[Value, None] = {}
        for value in used:
            if value.node.op != "constant" or value in self.paths or value in given:
                continue
            if literal_constant(value) is None:
                if value.type.dtype == "string":
                    problem = Problem("a constant of strings cannot be written", node=value.node.source)
                    raise CompileError("no source can be written for this model", [problem])
                free[value] = None
        return list(free)

    # ---- the interface that bodies use -----------------------------------------------------------------------------------
    def constant(self, value: Value) -> str:
        return f"self.{self.paths[value]}"

    def member(self, node: Node) -> str:
        return f"self.{self.members[node]}"

    def called(self, node: Node) -> str | None:
        return self.members[node].split("[")[0] if node in self.members else None

    def size_variable(self, dim: Dim) -> str | None:
        option = isinstance(dim, Expr) and dim.is_symbol and str(dim).startswith(OPTION)
        return f"self.{str(dim).removeprefix(OPTION)}" if option else None

    def heads(self, node: Node) -> str | None:
        return self.split.get(node)

    def result_name(self, value: Value) -> str | None:
        return self.output_names.get(value)

    def shape(self, value: Value) -> str:
        return "" if self.block is not None and value in self.block.varying else shape_text(value.type)

    def chains(self, nodes: Sequence[Node]) -> dict[Node, Chain]:
        found: dict[Node, Chain] = {}
        for group in {id(g): g for g in self._call_lists().values()}.values():
            first = group[0]
            if len(group) < 2 or first not in nodes or [len(n.types) for n in group] != [1] * len(group):
                continue
            start = nodes.index(first)
            if list(nodes[start : start + len(group)]) != group or len({len(n.operands) for n in group}) > 1:
                continue
            for slot in range(len(first.operands)):
                linked = all(b.operands[slot] == a.result and self.uses[a.result] == 1 for a, b in pairwise(group))
                rest = [[v for i, v in enumerate(n.operands) if i != slot] for n in group]
                if linked and all(r == rest[0] for r in rest):
                    found[first] = Chain(self.member(first).split("[")[0], group, slot)
        return found

    # ---- text --------------------------------------------------------------------------------------------------------
    def lines(self, head: Sequence[str] = ()) -> list[str]:
        """The class's source. `head` comes after its first line."""
        parameters, body = self.forward()
        text = [f"class {self.name}(nn.Module):", *self._docstring(parameters)]
        text += [f"{INDENT}{line}".rstrip() for line in head]
        if self.constructors:
            options = [
                f"{name}: {_annotation(values)}" for name, values in (self.block.options if self.block else {}).items()
            ]
            text += [""] if len(text) > 1 else []
            text += wrapped(f"def __init__({', '.join(['self', *options])}) -> None:", "", 1)
            text += [line for code in self.constructors for line in wrapped(code, "", 2)]
        many = ["burn.Tensor"] * len(self.outputs) if 0 < len(self.outputs) <= 4 else ["burn.Tensor", "..."]
        returned = "burn.Tensor" if len(self.outputs) == 1 else f"tuple[{', '.join(many)}]"
        signature = ", ".join(["self", *(f"{p}: burn.Tensor" for p in parameters)])
        text += [""] if self.constructors or head else []
        text += [*wrapped(f"def forward({signature}) -> {returned}:", "", 1)]
        return text + body

    def _docstring(self, parameters: Sequence[str]) -> list[str]:
        """The shapes of a block, if all its occurrences have the same."""
        if self.block is None or not self.block.fixed:
            return []
        given = [f"{name} {shape_text(value.type)}" for name, (value, _) in zip(parameters, self.inputs, strict=True)]
        shapes = f'"""Shapes: {", ".join(given)} -> {", ".join(shape_text(v.type) for v in self.outputs)}."""'
        return [f"{INDENT}{line}" for line in textwrap.wrap(shapes, WIDTH - len(INDENT), break_long_words=False)]

    def forward(self) -> tuple[list[str], list[str]]:
        """The parameters' names, and the body's lines."""
        names = Names({"self", "burn", "nn", "ops", "float", "_"})
        sizes = Sizes(names)
        body = Body(self, self.uses, names, sizes)
        parameters = [names.new(identifier(wish)) for _, wish in self.inputs]
        body.fixed = {p for p in parameters if p != "x"}
        for (value, _), parameter in zip(self.inputs, parameters, strict=True):
            body.hold(parameter, value)
        body.users, body.results = users_of(self.nodes), set(self.outputs)
        self._name_sizes(sizes)
        body.nodes(self.nodes)
        body.finish(self.outputs)
        lines = self._size_lines(sizes, parameters) + body.lines
        text = []
        for line in lines:
            if line.binds is None or line.binds in sizes.used:
                text += wrapped(line.code, line.comment, line.indent)
        return parameters, text

    def _name_sizes(self, sizes: Sizes) -> None:
        for value, _ in self.inputs:
            for dim in value.type.shape:
                if isinstance(dim, Expr) and dim.is_symbol:
                    sizes.bind(dim, str(dim))
        for value, _ in self.inputs if self.block is not None else ():
            for axis, dim in enumerate(value.type.shape):
                if isinstance(dim, Expr):
                    parts = sorted(symbols(dim))
                    sizes.bind(
                        dim, "_".join(parts) if len(parts) < 3 else AXES.get(value.type.rank, {}).get(axis, "size")
                    )

    def _size_lines(self, sizes: Sizes, parameters: Sequence[str]) -> list[Line]:
        """`batch, length, _ = x.shape`, for the sizes that are used."""
        lines, bound = [], set()
        for (value, _), parameter in zip(self.inputs, parameters, strict=True):
            shape = value.type.shape
            new = [d for d in dict.fromkeys(shape) if d in sizes.used and d not in bound and d in sizes.variables]
            bound.update(new)
            if len(new) == 1:
                lines.append(Line(f"{sizes.variables[new[0]]} = {parameter}.shape[{shape.index(new[0])}]", indent=2))
            elif new:
                firsts = {shape.index(d) for d in new}
                targets = [sizes.variables[d] if i in firsts else "_" for i, d in enumerate(shape)]
                lines.append(Line(f"{', '.join(targets)} = {parameter}.shape", indent=2))
        return lines


def _factor(value: Value, users: Users) -> str | None:
    """The name of a parameter that is only multiplied or only added."""
    ops = {node.op for node, _ in users.get(value, ())}
    return {"mul": "scale", "add": "bias"}.get(ops.pop()) if len(ops) == 1 else None


def _heads_of(value: Value) -> Node | None:
    """The reshape [batch, length, heads, features] of an operand of attention, before its transpose and a rotation."""
    node = value.node
    while node.op == "rotary_embedding" or node.op in ("nn.LayerNorm", "nn.RMSNorm"):
        node = node.operands[0].node
    if node.op != "transpose" or tuple(node.attrs["permutation"]) != (0, 2, 1, 3):
        return None
    split = node.operands[0].node
    if split.op in ("nn.LayerNorm", "nn.RMSNorm"):
        split = split.operands[0].node
    fits = split.op == "reshape" and reshape_form(split)[0] == "reshape" and len(split.attrs["shape"]) == 4
    return split if fits and all(isinstance(d, int) for d in split.attrs["shape"][2:]) else None


def _shortest(path: Sequence[str], ends: Counter[tuple[str, ...]]) -> str:
    """The shortest end of a path that no other path has, as a name; '' for a path of numbers."""
    for length in range(1, len(path) + 1):
        part = path[-length:]
        if not part[0].isdigit() and (ends[tuple(part)] == 1 or length == len(path)):
            return snake_case(identifier("_".join(part)))
    return snake_case(identifier("_".join(path))) if path and not all(p.isdigit() for p in path) else ""


def _text(value: Any) -> str:
    """An argument of a constructor."""
    if isinstance(value, Option):
        return value.name
    return number(value, "float64") if isinstance(value, float) else literal(value)


def _annotation(values: Sequence[Any]) -> str:
    kinds = {"int" if isinstance(v, int) else "tuple[int, ...]" if v is not None else "None" for v in values}
    kinds = {
        "tuple" if isinstance(v, tuple) and any(isinstance(p, tuple) for p in v) else k for v in values for k in kinds
    }
    return " | ".join(sorted(kinds))


def _parameter(value: Value, shape: Sequence[Any]) -> str:
    """The constructor of a parameter (or of a buffer, for what is not floats)."""
    type_ = value.type
    kind = "Parameter" if DTYPES[type_.dtype].kind == "float" else "Buffer"
    dtype = "" if type_.dtype == "float32" else f', "{type_.dtype}"'
    dims = ", ".join(map(_text, shape))
    return f"nn.{kind}(({dims}{',' if len(shape) == 1 else ''}){dtype})"


def wrapped(code: str, comment: str, indent: int) -> list[str]:
    """A statement on one line, or with its outermost brackets' contents on lines of their own."""
    start = INDENT * indent
    if len(start) + len(code) <= WIDTH:
        whole = f"{start}{code}  # {comment}" if comment else start + code
        return [whole] if len(whole) <= WIDTH else [start + code]
    opened = _outermost(code)
    if opened is None:
        return [start + code]
    first, last = opened
    head, inner, tail = code[: first + 1], code[first + 1 : last], code[last:]
    lines = [start + head]
    for part in _arguments_of(inner):
        lines += wrapped(f"{part},", "", indent + 1)
    return [*lines, start + tail]


def _outermost(code: str) -> tuple[int, int] | None:
    """The positions of the longest pair of brackets: of a call, an index or a list."""
    depth, begin, best = 0, 0, None
    for i, (character, quoted) in enumerate(_characters(code)):
        if quoted:
            continue
        if character in "([{":
            begin = i if depth == 0 else begin
            depth += 1
        elif character in ")]}":
            depth -= 1
            groups = code[begin] == "(" and not re.match(r"[\w\])]", code[max(begin - 1, 0)])  # brackets for precedence
            if depth == 0 and not groups and (best is None or i - begin > best[1] - best[0]):
                best = (begin, i)
    return best if best is not None and best[1] > best[0] + 1 else None


def _arguments_of(code: str) -> list[str]:
    parts, depth = [""], 0
    for character, quoted in _characters(code):
        if not quoted:
            depth += (character in "([{") - (character in ")]}")
            if character == "," and depth == 0:
                parts.append("")
                continue
        parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _characters(code: str) -> list[tuple[str, bool]]:
    """Each character, and whether it is inside of a string."""
    found, quote, escaped = [], "", False
    for character in code:
        found.append((character, bool(quote)))
        if not escaped and character in "\"'" and quote in ("", character):
            quote = "" if quote else character
        escaped = bool(quote) and character == "\\" and not escaped
    return found
