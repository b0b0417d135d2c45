"""The body of a function: statements out of nodes. Enter at `Body`.

A value with one use, by the next node, is written inside that expression; the others get a variable. A variable whose value
is dead is reused, as in hand-written code (`x = self.conv1(x)`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from burn.dialect.dims import Dim, Expr, symbol
from burn.dialect.types import DTYPES, TensorType, is_symbolic
from burn.exporters.python.graph import Node, Region, Value, new_sizes, walk
from burn.exporters.python.names import Names, identifier
from burn.exporters.python.spell import function, is_number, is_size, spell
from burn.exporters.python.text import ATOM, UNARY, Text, call, literal, number, quoted, size
from burn.exporters.python.uses import OTHERWISE, VIEWS, Users, made_by, says_role, used_as

WIDTH = 120
LONGEST_SIZE = 24  # Characters of a size in a comment.
LONG = 96  # Characters: a longer expression is split if possible.
INLINE = 72  # Characters: a longer expression gets a line of its own.
DEEPEST = 2  # Nested brackets: deeper expressions are split.
INDENT = "    "

GENERIC = frozenset({"x", "index", "mask"})
"""Variables that say no more than that they hold something: free to hold the next thing."""


class Owner(Protocol):
    """The module whose function is written. plain: write ops as functions."""

    plain: bool

    def constant(self, value: Value) -> str:
        """How a constant is reached: `self.conv1.weight`."""
        ...

    def member(self, node: Node) -> str:
        """How a layer or a module is reached: `self.conv1`."""
        ...

    def called(self, node: Node) -> str | None:
        """A member's plain name, for a variable that holds its result; None for other nodes."""
        ...

    def size_variable(self, dim: Dim) -> str | None:
        """The expression for a size that is an option of the module."""
        ...

    def shape(self, value: Value) -> str:
        """A value's type for a comment."""
        ...

    def heads(self, node: Node) -> str | None:
        """The attribute that holds the number of heads into which a reshape splits features."""
        ...

    def result_name(self, value: Value) -> str | None:
        """The model's name for one of its outputs."""
        ...

    def chains(self, nodes: Sequence[Node]) -> dict[Node, Chain]:
        """Calls of the modules of a list one after another, by the first of them."""
        ...


@dataclass
class Line:
    """A statement; one that binds a size is left out when the size is not used."""

    code: str
    comment: str = ""
    binds: Dim | None = None
    indent: int = 0


@dataclass
class Chain:
    """`for block in self.blocks: x = block(x, mask)`: what one call returns is operand `slot` of the next."""

    members: str
    nodes: list[Node]
    slot: int


class Sizes:
    """The variables that hold sizes, and which of them are used."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.variables: dict[Dim, str] = {}
        self.used: set[Dim] = set()

    def bind(self, dim: Dim, wanted: str) -> str:
        if dim not in self.variables:
            self.variables[dim] = self.names.new(wanted)
        return self.variables[dim]


class Body:
    """Writes the nodes of one function, and of the functions nested in it."""

    def __init__(self, owner: Owner, uses: Counter[Value], names: Names, sizes: Sizes) -> None:
        self.owner = owner
        self.left = uses  # how often each value is still to be used
        self.names = names
        self.sizes = sizes
        self.lines: list[Line] = []
        self.variables: dict[Value, str] = {}
        self.holder: dict[str, Value] = {}  # what each variable holds now
        self.fixed: set[str] = set()  # variables of the functions around, and parameters: not assigned to
        self.pending: dict[Value, Text] = {}
        self.users: Users = {}
        self.results: set[Value] = set()  # what the function returns
        self.items: set[str] = set()  # variables of loops over modules, free after the loop
        self.indent = 2

    # ---- the interface that spell uses -------------------------------------------------------------------------------
    def value(self, value: Value) -> Text:
        if value in self.pending:
            return self.pending[value]
        if value in self.variables:
            return Text(self.variables[value], refs=(value,))
        if value.node.op == "constant":
            return Text(literal_constant(value) or self.owner.constant(value))
        if is_number(value):
            return call("burn.constant", self.operand(value), *([] if is_size(value) else [quoted(value.type.dtype)]))
        raise KeyError(f"{value.node.op} has not been written")

    def operand(self, value: Value) -> Text:
        if not is_number(value):
            return self.value(value)
        node = value.node
        if node.op == "constant":
            assert node.weight is not None
            code = number(node.weight.array().reshape(())[()], value.type.dtype)
            return Text(code, UNARY if code.startswith("-") else ATOM)
        inner = node.operands[0].node if node.op == "cast" else node
        return self.size(inner.attrs["dims"][0])

    def size(self, dim: Dim) -> Text:
        return size(dim, self._size_variable)

    def heads(self, node: Node) -> str | None:
        return self.owner.heads(node)

    def _size_variable(self, dim: Dim) -> str | None:
        replaced = self.owner.size_variable(dim)
        if replaced is not None:
            return replaced
        if dim in self.sizes.variables:
            self.sizes.used.add(dim)
            return self.sizes.variables[dim]
        if isinstance(dim, Expr) and dim.is_symbol:  # of no tensor here: by its name
            return f'burn.Dim("{dim}")'
        return None

    # ---- statements --------------------------------------------------------------------------------------------------
    def nodes(self, nodes: Sequence[Node]) -> None:
        chains, skipped = self.owner.chains(nodes), set()
        for node in nodes:
            if node in chains:
                self._loop(chains[node])
                skipped.update(chains[node].nodes)
            elif node not in skipped and not (node.types and is_number(node.result)):
                self._node(node)  # numbers are written where they are used

    def _node(self, node: Node) -> None:
        waiting = set(self.pending) - set(node.values)
        if waiting and not self._inlines(node):
            self.flush()
        if node.op in ("read_dim", "check_size"):
            (self._read_dim if node.op == "read_dim" else self._check_size)(node)
            return
        if node.regions:
            self.flush()
            self._control(node)
            return
        text = self._expression(node)
        if len(text.code) > LONG and any(v in self.pending for v in node.values):
            self.flush()
            text = self._expression(node)
        for value in node.values:
            if value in self.pending:
                del self.pending[value]
        last = len(self.results) == 1 and bool(node.types) and node.result in self.results
        if (
            self._inlines(node)
            and len(text.code) <= (LONG if last else INLINE)
            and depth(text.code) <= DEEPEST + 2 * last
        ):
            self.pending[node.result] = text
        else:
            self.assign(node, text)

    def _loop(self, chain: Chain) -> None:
        self.flush()
        first, last = chain.nodes[0], chain.nodes[-1]
        start = self.value(first.operands[chain.slot])
        for ref in start.refs:
            self.left[ref] -= 1
        name = start.code if start.code in self.holder and self._ends_in(start) else self.variable(last.result, start)
        self.hold(name, last.result)
        arguments = [self.value(v) for v in first.values]
        if arguments[chain.slot].code != name:
            self.line(f"{name} = {start.code}")
        arguments[chain.slot] = Text(name)
        for node in chain.nodes:
            for i, value in enumerate(node.values):
                if i != chain.slot:
                    self.left[value] -= 1
        item = self._item(chain.members)
        shape = self.owner.shape(last.result)
        self.line(f"for {item} in {chain.members}:")
        self.indent += 1
        same = shape == self.owner.shape(first.operands[chain.slot])
        self.line(f"{name} = {call(item, *arguments).code}", "" if same else shape)
        self.indent -= 1

    def _ends_in(self, start: Text) -> bool:
        """True if a loop is the last user of a variable, which may then hold what the loop computes."""
        return start.code not in self.fixed and all(self._spent(ref) for ref in start.refs)

    def _item(self, members: str) -> str:
        """The variable of a loop over a list of modules: `layer` for `self.layers`."""
        name = members.split(".")[-1]
        wanted = name[:-1] if name.endswith("s") and not name.endswith("ss") and len(name) > 3 else "block"
        wanted = wanted if wanted.rstrip("0123456789_") == wanted and "_" not in wanted else "block"
        if wanted not in self.items:
            self.items.add(self.names.new(wanted) if wanted not in self.names.taken else self.names.new("block"))
        return wanted if wanted in self.items else max(self.items)

    def _inlines(self, node: Node) -> bool:
        """True if a node's result may be written inside of the expression that uses it."""
        return len(node.types) == 1 and node.pure and self.left[node.result] == 1 and not new_sizes(node)

    def _expression(self, node: Node) -> Text:
        if node.op.startswith("nn.") or node.op in ("call", "sequential"):
            arguments = [None if o is None else self.value(o) for o in node.operands]
            while arguments and arguments[-1] is None:
                arguments.pop()
            return call(self.owner.member(node), *("None" if a is None else a for a in arguments))
        return function(node, self) if self.owner.plain else spell(node, self)

    def flush(self) -> None:
        """Gives variables to the expressions that wait."""
        waiting, self.pending = dict(self.pending), {}
        for value, text in waiting.items():
            self.assign(value.node, text)

    def assign(self, node: Node, text: Text) -> None:
        for ref in text.refs:
            self.left[ref] -= 1
        results = node.results
        named = [r for r in results if self.left[r] > 0]
        for dim in map(symbol, new_sizes(node)):  # a result that only its size is wanted of
            sized = [r for r in results if dim in r.type.shape]
            named += sized[:1] if sized and named == [r for r in named if r not in sized] else []
        targets = [self.variable(r, text, many=len(results) > 1) if r in named else "_" for r in results]
        if node.op == "nn.StackedLSTM":  # which returns y, (h, c)
            states = targets[1:]
            targets[1:] = ["_" if states == ["_", "_"] else f"({', '.join(states)})"]
        shapes = [s for r in results if self.left[r] > 0 and (s := self.owner.shape(r))]
        known = {self.owner.shape(ref) for ref in text.refs}
        if len(shapes) > 1 and len(set(shapes)) == 1:
            shapes = [f"each {shapes[0]}"]
        self.line(f"{', '.join(targets)} = {text.code}", "" if set(shapes) <= known else ", ".join(shapes))
        self._bind_new_sizes(node)

    def variable(self, value: Value, text: Text, many: bool = False) -> str:
        """A variable for a value: one whose own value is spent, or a new one."""
        spent = [self.variables[r] for r in dict.fromkeys(text.refs) if self._spent(r)]
        same = [n for n in spent if self.holder[n].type.dtype == value.type.dtype and not many]
        generic = [n for n in same if n.rstrip("0123456789") in GENERIC]
        views = [n for n in same[:1] if value.node.op in VIEWS and self.variables.get(value.node.operands[0]) == n]
        purposes, wishes = self._wishes(value)
        if many:
            wishes = [n for n in wishes if n != "x"] or ["part"]
        for name in (*purposes, *views, *(n for n in generic if n in wishes), *wishes):
            if name not in self.fixed and self._free(name):
                return self.hold(name, value)
        wishes = wishes or purposes
        return self.hold(self.names.new(wishes[-1]), value)

    def _spent(self, value: Value) -> bool:
        return self.left[value] <= 0 and self.holder[self.variables[value]] == value

    def _free(self, name: str) -> bool:
        holder = self.holder.get(name)
        if holder is None:
            if name in self.names.taken:
                return False
            self.names.taken.add(name)
            return True
        return self.left[holder] <= 0

    def _wishes(self, value: Value) -> tuple[list[str], list[str]]:
        """Names for a value, the best first: those of its purpose (the output that it is, what it is used as), and others.
        Others are `x` for what passes through, and nouns for the op that made it."""
        origin = value
        while origin.node.op in VIEWS:
            origin = origin.node.operands[0]
        kind = DTYPES[value.type.dtype].kind
        used, made = used_as(value, self.users), made_by(value)
        output = self.owner.result_name(value)
        purposes = [n for n in (identifier(output) if output else None, used, OTHERWISE.get(used or "")) if n]
        if kind == "bool":
            return purposes, ["mask"]
        own = self.owner.called(origin.node)
        begins = all(user.op == "call" for user, _ in self.users.get(value, ()))  # what a chain of modules begins with
        if own is not None and not (len(origin.node.types) == 1 or made is None):
            own = None
        names = ["x"] if kind == "float" else []
        if own is not None and says_role(own) and not begins:
            names.append(own)
        if origin.node.op == "constant" and literal_constant(origin) is None:
            names.append(identifier(self.owner.constant(origin).split(".")[-1]))
        names.append(made or ("out" if kind == "float" else "index"))
        if own is not None and own not in names:
            names.append(own)
        return purposes, names

    def hold(self, name: str, value: Value) -> str:
        self.variables[value] = name
        self.holder[name] = value
        return name

    def line(self, code: str, comment: str = "", binds: Dim | None = None) -> None:
        self.lines.append(Line(code, comment, binds, self.indent))

    # ---- sizes -------------------------------------------------------------------------------------------------------
    def _bind_new_sizes(self, node: Node) -> None:
        """Variables for the sizes that an op defines."""
        for name in new_sizes(node):
            dim = symbol(name)
            for value in node.results:
                if dim in value.type.shape and value in self.variables:
                    variable = self.sizes.bind(dim, name)
                    scope = f"{self.variables[value]}.shape[{value.type.shape.index(dim)}]"
                    self.line(f"{variable} = {scope}", binds=dim)
                    break

    def _read_dim(self, node: Node) -> None:
        x, attrs = self.value(node.operands[0]), node.attrs
        self.pending.pop(node.operands[0], None)
        variable = self.sizes.bind(symbol(attrs["symbol"]), attrs["symbol"])
        self.sizes.used.add(symbol(attrs["symbol"]))
        named = {k: str(attrs[k]) for k in ("position", "minimum") if attrs[k]}
        for ref in x.refs:
            self.left[ref] -= 1
        self.line(f"{variable} = {call('burn.read_dim', x, quoted(attrs['symbol']), **named).code}")

    def _check_size(self, node: Node) -> None:
        attrs = node.attrs
        size, bound = (self.size(attrs[name]) for name in ("size", "bound"))
        says = quoted(attrs["says"]) if attrs["says"] else None
        self.line(call("burn.check_size", size, quoted(attrs["relation"]), bound, *([says] if says else [])).code)

    # ---- control flow ------------------------------------------------------------------------------------------------
    def _control(self, node: Node) -> None:
        names = ("then", "otherwise") if node.op == "if" else ("body",)
        functions = [self._nested(self.names.new(n), region) for n, region in zip(names, node.regions, strict=True)]
        new = new_sizes(node)
        named: dict[str, Text | str | None] = {}
        if new:
            named["sizes"] = literal(tuple(new))
            named["results"] = _types(node.types)
        if node.op == "if":
            if any(map(_has_symbolic_sizes, node.regions)):
                named["partial"] = "True"  # sizes that are fixed later need not fit a branch that is not taken
            text = call("burn.cond", self.value(node.operands[0]), *functions, **named)
        else:
            trips, condition, carried = node.operands
            inner = [a.types[0] for a in node.regions[0].arguments[2:]]
            values = [self.value(v) for v in carried]
            state = Text(f"[{', '.join(v.code for v in values)}]", refs=sum((v.refs for v in values), ()))
            if new:
                named["carried_types"] = _types(inner)
            text = call(
                "burn.loop",
                *functions,
                state,
                trips=None if trips is None else self.operand(trips),
                condition=None if condition is None else self.operand(condition),
                scans=str(node.attrs["scans"]) if node.attrs["scans"] else None,
                **named,
            )
            if len(node.types) == 1:
                text = Text(f"{text.code}[0]", refs=text.refs)
        if not node.types:
            self.line(text.code)
            return
        self.assign(node, text)

    def _nested(self, name: str, region: Region) -> str:
        """A function for a region, which sees the variables around it."""
        inner = Body(self.owner, self.left, Names(self.names.taken), self.sizes)  # what it assigns to is its own
        inner.variables, inner.holder = dict(self.variables), dict(self.holder)
        inner.fixed = self.fixed | set(self.holder)
        inner.indent = self.indent + 1
        inner.users = self.users
        arguments = []
        for i, argument in enumerate(region.arguments):
            wish = ("step", "going")[i] if i < 2 else "state"
            arguments.append(inner.hold(self.names.new(wish), argument.result))
            inner.fixed.add(arguments[-1])
        self.line(f"def {name}({', '.join(arguments)}):")
        for argument, variable in zip(region.arguments, arguments, strict=True):
            for axis, dim in enumerate(argument.types[0].shape):
                if isinstance(dim, Expr) and dim.is_symbol and dim not in self.sizes.variables:
                    self.sizes.bind(dim, str(dim))
                    inner.line(f"{self.sizes.variables[dim]} = {variable}.shape[{axis}]", binds=dim)
        inner.nodes(region.nodes)
        inner.finish(region.results)
        self.lines += inner.lines
        return name

    def finish(self, results: Sequence[Value]) -> None:
        """The return statement."""
        if set(self.pending) - set(results):
            self.flush()
        texts = [self.value(v) for v in results]
        if len(texts) > 1 and len(", ".join(t.code for t in texts)) > LONG:
            self.flush()
            texts = [self.value(v) for v in results]
        self.line(f"return {', '.join(t.code for t in texts) or '()'}")
        self.pending = {}


def depth(code: str) -> int:
    """How many brackets stand in one another."""
    deepest = now = 0
    for character in code:
        now += (character in "([{") - (character in ")]}")
        deepest = max(deepest, now)
    return deepest


def _has_symbolic_sizes(region: Region) -> bool:
    values = [v for node in walk(region.nodes) for v in (*node.values, *node.results)]
    return any(is_symbolic(d) for v in values for d in v.type.shape)


def _types(types: Sequence[TensorType]) -> str:
    inner = ", ".join(f'"{t}"' for t in types)
    return f"[{inner}]"


def shape_text(type_: TensorType) -> str:
    """A type in a comment: the shape, and the element type unless it is float32."""
    dims = [str(d) if len(str(d)) <= LONGEST_SIZE else "..." for d in type_.shape]
    shape = f"[{', '.join(dims)}]"
    return shape if type_.dtype == "float32" else f"{type_.dtype}{shape}"


def literal_constant(value: Value) -> str | None:
    """A constant written out where it is used: a number, a short list of whole numbers, or words. None for a parameter."""
    weight = value.node.weight
    assert weight is not None
    kind, count = DTYPES[weight.dtype].kind, value.type.elements
    if not isinstance(count, int):
        return None
    if kind == "string":  # weight files hold numbers
        return f"burn.constant({_nested_list(weight.array().tolist(), 'string')})" if count else None
    if kind not in ("float", "int", "uint", "bool") or (DTYPES[weight.dtype].bits < 8 and kind != "bool"):
        return None
    if not count and value.type.rank > 1:  # brackets do not say the sizes that come after a 0
        return f"burn.zeros({literal(value.type.shape)}, dtype={quoted(weight.dtype)})"
    if count > 16 or (kind == "float" and count > 1):
        return None
    return f"burn.constant({_nested_list(weight.array().tolist(), weight.dtype)}, {quoted(weight.dtype)})"


def _nested_list(elements, dtype: str) -> str:
    if isinstance(elements, list):
        return f"[{', '.join(_nested_list(e, dtype) for e in elements)}]"
    return repr(elements) if dtype == "string" else number(elements, dtype)
