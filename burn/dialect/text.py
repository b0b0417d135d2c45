"""Prints and parses programs in MLIR's syntax, without the bytes of weights.

    func.func @main(%x: tensor<?x4xf32, ["batch", "4"]> {burn.name = "x"}) -> (tensor<?x4xf32, ["batch", "4"]>) {
      %0 = "burn.exp"(%x) : (tensor<?x4xf32, ["batch", "4"]>) -> tensor<?x4xf32, ["batch", "4"]>
      "burn.return"(%0) : (tensor<?x4xf32, ["batch", "4"]>) -> ()
    }

MLIR cannot parse this with the dialect registered (IRDL gives all variadic operands one type). So a context without the
dialect parses it, and each op is rebuilt with every name, attribute and count checked. Enter at `to_text` and
`parse_text`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from burn.dialect.mlir import context, func, ir, new_context
from burn.dialect.op import REGISTRY, Op
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.types import RANDOM_STATE, Container, TensorType
from burn.dialect.weights import Weight, WeightStore
from burn.errors import ModelError, Problem

RANDOM_STATE_MARK = "burn.random_state"
"""The attribute of the last argument if it is the run's random state."""

GIVEN_UP_MARK = "burn.given_up"
"""The attribute of donated arguments."""

NAME = "burn.name"
"""The attribute of an argument or a result that holds its name, a string."""

KEYS = "burn.keys"
"""The attribute of a result that callers receive as dicts, one for each row: their keys."""

CONTAINER = "burn.container"
"""The attribute of a list argument or result: its element type."""

MAX_DEPTH = 64  # regions inside regions
MAX_NESTING = 1000  # nested brackets: MLIR's parser is recursive
_BRACKETS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[(\[{<]|[)\]}>]')
_AT = re.compile(r'loc\(".*":(\d+):(\d+)\)')
_NO_CLASS = "Can't cast unknown"
_TOKEN = re.compile(r'"[^"]*"|[%@#!^]?[\w.$-]+|\S')
_foreign: ir.Context | None = None


def to_text(program: Program, locations: bool = False) -> str:
    """The program in MLIR's syntax, with the names of its inputs and outputs as attributes `burn.name`."""
    function = program.function
    with context():
        named = {"arg_attrs": program.input_names, "res_attrs": program.output_names}
        containers = {"arg_attrs": program.input_containers, "res_attrs": program.output_containers}
        for attribute, names in named.items():
            entries = [{NAME: ir.StringAttr.get(name)} for name in names]
            for i, container in containers[attribute].items():
                entries[i][CONTAINER] = ir.StringAttr.get(str(container))
            for i, keys in program.output_keys.items() if attribute == "res_attrs" else ():
                entries[i][KEYS] = ir.ArrayAttr.get([_key(key) for key in keys])
            if attribute == "arg_attrs" and program.random_state:
                entries[-1][RANDOM_STATE_MARK] = ir.UnitAttr.get()
            for index in program.given_up if attribute == "arg_attrs" else ():
                entries[index][GIVEN_UP_MARK] = ir.UnitAttr.get()
            function.attributes[attribute] = ir.ArrayAttr.get([ir.DictAttr.get(entry) for entry in entries])
        try:
            return program.module.operation.get_asm(assume_verified=True, enable_debug_info=locations)
        finally:
            for attribute in named:
                del function.attributes[attribute]


def parse_text(text: str, weights: Mapping[str, Weight] | None = None, file: str = "") -> Program:
    """Parses a program. `weights` holds the constants that `burn.weight` ops name; they are optional.

    file: the name of the text in errors. Raises ModelError listing every op that is unknown or malformed, with its
    file, line and column. Types are not inferred again: `verify` does that.
    """
    module = _foreign_module(text, file)
    functions = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
    others = [str(op.operation.name) for op in module.body.operations if not isinstance(op, func.FuncOp)]
    if len(functions) != 1 or others or len(functions[0].regions[0].blocks) != 1:
        raise ModelError("not a program", ["the module must hold one function of one block, 'main'"])
    with context():
        try:
            return _Reader(weights or {}, file).program(functions[0])
        except (
            TypeError
        ) as error:  # MLIR's Python bindings have no class for some of its attributes, for example array<i56>
            if not str(error).startswith(_NO_CLASS):
                raise
            raise ModelError("the program's text is malformed", [str(error)]) from None


def _foreign_module(text: str, file: str) -> ir.Module:
    """Parses the text in a context that allows unregistered ops."""
    global _foreign
    if _nesting(text) > MAX_NESTING:
        raise ModelError("not a program", [f"more than {MAX_NESTING} brackets stand inside each other"])
    foreign = _foreign = _foreign or new_context()
    foreign.allow_unregistered_dialects = True
    try:
        return ir.Module.parse(text, foreign)
    except ir.MLIRError as error:
        problems = [_diagnosed(d, text, file) for d in error.error_diagnostics]
        raise ModelError(f"{file} is not MLIR text" if file else "not MLIR text", problems or [str(error)]) from None


def _diagnosed(diagnostic: Any, text: str, file: str) -> Problem:
    """The error of MLIR's parser, with the token that it stopped at."""
    message = diagnostic.message.strip()
    found = _AT.fullmatch(str(diagnostic.location))
    if not found:
        return Problem(message)
    line, column = int(found[1]), int(found[2])
    lines = text.splitlines()
    token = _TOKEN.match(lines[line - 1], column - 1) if 0 < line <= len(lines) and column else None
    return Problem(f"{_spot(file, line, column)}: {message}" + (f": {token[0]}" if token else ""))


def missing_weights(program: Program) -> list[str]:
    """The keys of constants that a program's text names without given bytes."""
    known = {key for key, _ in program.weights.items()}
    with context():
        ops = [op.operation for block in blocks(program.block) for op in block.operations]
        keys = [ir.StringAttr(op.attributes["key"]).value for op in ops if op.name == "burn.weight"]
    return [key for key in dict.fromkeys(keys) if key not in known]


def _nesting(text: str) -> int:
    """The largest depth of nested brackets."""
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        token = match[0]
        if token in "([{<":
            depth += 1
            deepest = max(deepest, depth)
        elif token in ")]}>":
            depth -= 1
    return deepest


def _location(location: ir.Location, file: str = "") -> str:
    if isinstance(location, ir.NameLoc):
        return location.name_str
    return _spot(file, location.start_line, location.start_col) if isinstance(location, ir.FileLineColLoc) else ""


def _spot(file: str, line: int, column: int) -> str:
    return f"{file}:{line}:{column}" if file else f"line {line}, column {column}"


class _Reader:
    """Rebuilds one function in burn's own context."""

    def __init__(self, weights: Mapping[str, Weight], file: str) -> None:
        self.given = weights
        self.file = file
        self.store = WeightStore()
        self.keys: dict[str, str] = {}
        self.values: dict[ir.Value, ir.Value | None] = {}  # None: could not be built
        self.problems: list[Problem] = []

    def program(self, function: func.FuncOp) -> Program:
        block = function.regions[0].blocks[0]
        types_ = [self.type(a.type, "the function's arguments") for a in block.arguments]
        self.finish()
        inputs = list(zip(self.names(function, "arg_attrs", "arg", len(types_)), types_, strict=True))
        self.finish()
        program = Program.create(inputs, self.store)
        program.random_state = self.random_state(function, types_)
        program.given_up = tuple(_marked(function, GIVEN_UP_MARK))
        program.input_containers = self.containers(function, "arg_attrs", len(types_))
        self.values.update(zip(block.arguments, program.inputs, strict=True))
        *body, end = block.operations
        if end.operation.name != "burn.return":
            self.problems.append(Problem("a program ends in burn.return", node=_location(end.location, self.file)))
        for operation in body:
            self.operation(operation.operation, program.block, 0)
        self.finish()
        program.output_containers = self.containers(function, "res_attrs", len(end.operation.operands))
        program.output_keys = self.result_keys(function, len(end.operation.operands))
        self.finish()
        returned = self.attributes(REGISTRY["return"], end.operation, _location(end.location, self.file))
        outputs = [v for operand in end.operation.operands if (v := self.values[operand]) is not None]
        names = self.names(function, "res_attrs", "out", len(outputs))
        self.finish()
        program.finish(list(zip(names, outputs, strict=True)))
        for name, attribute in returned.items():
            program.terminator.attributes[name] = attribute
        return program

    def names(self, function: func.FuncOp, attribute: str, default: str, count: int) -> list[str]:
        """The names of inputs or outputs; numbered defaults if the text has none."""
        names = [f"{default}{i}" for i in range(count)]
        entries = ir.ArrayAttr(function.attributes[attribute]) if attribute in function.attributes else []
        for i, entry in enumerate(entries):
            if i < count and NAME in ir.DictAttr(entry):
                try:
                    names[i] = self.string(entry, NAME)
                except ValueError as error:
                    self.problems.append(Problem(str(error)))
        return names

    def string(self, entry: ir.Attribute, name: str) -> str:
        """The string that an argument or result has under a name. Raises ValueError for another kind of attribute."""
        given = ir.DictAttr(entry)[name]
        if not isinstance(given, ir.StringAttr):
            raise ValueError(f"{name} is a string, not {given}")
        return given.value

    def containers(self, function: func.FuncOp, attribute: str, count: int) -> dict[int, Container]:
        """The element types of arguments or results marked as lists."""
        found: dict[int, Container] = {}
        entries = ir.ArrayAttr(function.attributes[attribute]) if attribute in function.attributes else []
        for i, entry in enumerate(entries):
            if CONTAINER in ir.DictAttr(entry) and i < count:
                try:
                    found[i] = Container.parse(self.string(entry, CONTAINER))
                except ValueError as error:
                    self.problems.append(Problem(str(error)))
        return found

    def result_keys(self, function: func.FuncOp, count: int) -> dict[int, tuple[int, ...] | tuple[str, ...]]:
        """The keys of results that callers receive as dicts."""
        found: dict[int, Any] = {}
        entries = ir.ArrayAttr(function.attributes["res_attrs"]) if "res_attrs" in function.attributes else []
        for i, entry in enumerate(entries):
            if KEYS in ir.DictAttr(entry) and i < count:
                given = ir.DictAttr(entry)[KEYS]
                keys = tuple(getattr(k, "value", None) for k in given) if isinstance(given, ir.ArrayAttr) else ()
                if not keys or {type(k) for k in keys} not in ({int}, {str}):
                    self.problems.append(Problem(f"{KEYS} holds integers or strings, not {given}"))
                else:
                    found[i] = keys
        return found

    def random_state(self, function: func.FuncOp, types_: Sequence[TensorType]) -> bool:
        """True if the last argument is marked as the random state."""
        marked = _marked(function, RANDOM_STATE_MARK)
        if marked and (marked != [len(types_) - 1] or types_[-1] != RANDOM_STATE):
            self.problems.append(Problem(f"{RANDOM_STATE_MARK} is for the last argument, which is {RANDOM_STATE}"))
        return bool(marked)

    def finish(self) -> None:
        if self.problems:
            raise ModelError("the program's text is malformed", self.problems)

    def type(self, type_: ir.Type, where: str) -> TensorType:
        try:
            return TensorType.from_mlir(ir.Type.parse(str(type_)))
        except (
            ValueError,
            LookupError,
            ir.MLIRError,
        ) as error:  # of another dialect, or sizes that are no list of strings
            reason = str(error).partition("\n")[0]
            self.problems.append(Problem(f"{where}: {type_} is not a type of burn ({reason})"))
            return TensorType("float32", ())

    def operation(self, source: ir.Operation, block: ir.Block, depth: int) -> None:
        """Rebuilds one op at the end of a block; what cannot be rebuilt becomes a problem."""
        own = _location(source.location) or "program"  # without the file's name: equal texts are one program
        at = _location(source.location, self.file)
        cls = REGISTRY.get(source.name.removeprefix("burn.")) if source.name.startswith("burn.") else None
        if cls is None or depth > MAX_DEPTH:
            self.problems.append(
                Problem("there is no such op" if cls is None else "nested too deeply", at, source.name)
            )
            self.values.update(dict.fromkeys(source.results))
            return
        with ir.Location.name(own):
            attributes = self.attributes(cls, source, at)
        wrong = _shape_problems(cls, source, attributes)
        self.problems += [Problem(text, at, source.name) for text in wrong]
        results = [self.type(r.type, f"the result of {source.name}").to_mlir() for r in source.results]
        operands = [self.values.get(v) for v in source.operands]
        if wrong or any(operand is None for operand in operands):
            self.values.update(dict.fromkeys(source.results))
            return
        with ir.Location.name(own), ir.InsertionPoint(block):
            made = ir.Operation.create(
                source.name, results=results, operands=operands, attributes=attributes, regions=len(cls.REGIONS)
            )
        self.values.update(zip(source.results, made.results, strict=True))
        for theirs, mine in zip(source.regions, made.regions, strict=True):
            self.region(theirs, mine, depth)

    def region(self, source: ir.Region, region: ir.Region, depth: int) -> None:
        (block,) = source.blocks
        types_ = [self.type(a.type, "a region's arguments").to_mlir() for a in block.arguments]
        made = region.blocks.append(*types_, arg_locs=[ir.Location.unknown()] * len(types_))
        self.values.update(zip(block.arguments, made.arguments, strict=True))
        for operation in block.operations:
            self.operation(operation.operation, made, depth + 1)

    def attributes(self, cls: type[Op], source: ir.Operation, at: str) -> dict[str, ir.Attribute]:
        """The op's attributes, rebuilt; unknown, missing and ill-typed ones become problems."""
        found: dict[str, ir.Attribute] = {}
        for name in source.attributes:
            text = str(source.attributes[name])
            if name == "segments":
                found[name] = ir.Attribute.parse(text)
            elif name not in cls.ATTRS:
                self.problems.append(Problem("there is no such attribute", at, source.name, attribute=name))
            else:
                codec = cls.ATTRS[name].codec
                try:
                    value = codec.decode(ir.Attribute.parse(text))
                except (ValueError, TypeError, ir.MLIRError):
                    message = f"{text} is not a value of type {cls.ATTRS[name].annotation}"
                    self.problems.append(Problem(message, at, source.name, attribute=name))
                    continue
                found[name] = codec.encode(self.key(value) if (cls.OP_NAME, name) == ("weight", "key") else value)
        for name, attr in cls.ATTRS.items():
            if attr.required and name not in source.attributes:
                self.problems.append(Problem("the attribute is missing", at, source.name, attribute=name))
        return found

    def key(self, key: str) -> str:
        """The key of a weight in the program's store; its own if its bytes are not given."""
        if key not in self.keys:
            self.keys[key] = self.store.add(self.given[key], key) if key in self.given else key
        return self.keys[key]


def _marked(function: func.FuncOp, mark: str) -> list[int]:
    """The arguments that have an attribute."""
    entries = ir.ArrayAttr(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else []
    return [i for i, entry in enumerate(entries) if mark in ir.DictAttr(entry)]


def _shape_problems(cls: type[Op], source: ir.Operation, attributes: Mapping[str, Any]) -> list[str]:
    """Problems with the numbers of operands and regions."""
    problems: list[str] = []
    count = len(source.operands)
    kinds = [kind for _, kind in cls.OPERANDS]
    if "segments" in attributes:
        problems += _segment_problems(kinds, attributes["segments"], count)
    elif needs_segments(kinds):
        problems.append("the attribute 'segments', the number of operands in each group, is missing")
    elif "variadic" not in kinds and not kinds.count("single") <= count <= len(kinds):
        problems.append(f"takes {len(kinds)} operands, not {count}")
    elif "variadic" in kinds and count < len(kinds) - 1:
        problems.append(f"takes at least {len(kinds) - 1} operands, not {count}")
    regions = list(source.regions)
    if len(regions) != len(cls.REGIONS):
        problems.append(f"takes {len(cls.REGIONS)} regions, not {len(regions)}")
    for region in regions:
        blocks = list(region.blocks)
        if (
            len(blocks) != 1
            or not len(blocks[0].operations)
            or list(blocks[0].operations)[-1].operation.name != "burn.yield"
        ):
            problems.append("a region must be one block that ends in burn.yield")
    return problems


def needs_segments(kinds: Sequence[str]) -> bool:
    """True if the number of operands alone does not assign them to groups."""
    return any(kind != "single" for kind in kinds[:-1]) or (len(kinds) > 1 and kinds[-1] == "optional")


def _segment_problems(kinds: Sequence[str], attribute: ir.Attribute, count: int) -> list[str]:
    try:
        sizes = list(ir.DenseI64ArrayAttr(attribute))
    except (ValueError, TypeError):
        return [f"segments must be array<i64: ..>, not {attribute}"]
    if len(sizes) != len(kinds) or sum(sizes) != count or any(size < 0 for size in sizes):
        return [f"segments {sizes} do not divide {count} operands into {len(kinds)} groups"]
    limits = {"single": (1, 1), "optional": (0, 1), "variadic": (0, count)}
    fits = [limits[kind][0] <= size <= limits[kind][1] for kind, size in zip(kinds, sizes, strict=True)]
    return [] if all(fits) else [f"segments {sizes} do not fit operands that are {', '.join(kinds)}"]


def _key(key: int | str) -> ir.Attribute:
    return ir.StringAttr.get(key) if isinstance(key, str) else ir.IntegerAttr.get(ir.IntegerType.get_signless(64), key)
