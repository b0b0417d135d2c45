"""MLIR's generic form becomes a `Module`. Enter at `read_module`.

The text comes from a parser of MLIR (`file.py`), which has verified the program. This reader has no tables of ops. It ends
with one ModelError for text that is not generic form, and its cost is proportional to the text.
"""

from __future__ import annotations

import re
from typing import Any

from burn.errors import ModelError
from burn.importers.stablehlo.syntax.cursor import Cursor
from burn.importers.stablehlo.syntax.elements import dense, from_bytes
from burn.importers.stablehlo.syntax.module import (
    Block,
    DialectAttribute,
    Elements,
    Module,
    Operation,
    Ranked,
    SymbolRef,
)
from burn.importers.stablehlo.syntax.types import TypeReader

_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULT = re.compile(r"(%[\w$.-]+)(?::(\d+))?")
_BLOCK = re.compile(r"\^[\w$.-]+")
_KEY = re.compile(r"[A-Za-z_][\w$.-]*")
_WORD = re.compile(r"[A-Za-z_][\w$.]*")
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)")
_LOC_ALIAS = re.compile(r"loc\((#[\w$.-]+)\)")
_SYMBOL = re.compile(r"@[\w$.-]+")
_ALIAS = re.compile(r"([#!])([\w$.-]+)\s*=\s*")
_RESULTS = 1 << 16
_RESOURCE = re.compile(r'([\w$.-]+)\s*:\s*"0x([0-9A-Fa-f]*)"')


def read_module(text: str, what: str = "the program") -> Module:
    """what: how an error names the program. Raises ModelError."""
    return _Reader(Cursor(text, what)).module()


class _Reader:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.types = TypeReader()
        self.aliases: dict[str, str] = {}  # of attributes, as text
        self.locations: dict[str, str] = {}
        self.resources: dict[str, str] = {}
        self.count = 0

    def module(self) -> Module:
        cursor = self.cursor
        self._find_aliases()
        top: list[Operation] = []
        while not cursor.ended:
            if cursor.at("{-#"):
                break
            if cursor.at("#") or cursor.at("!"):
                self._pass_alias()
                continue
            top.append(self.operation())
        modules = [op for op in top if op.name == "builtin.module"]
        if len(modules) != 1 or len(top) != 1:
            raise ModelError(f"{cursor.what} cannot be read", [f"it has {len(modules)} modules, not one"])
        functions: dict[str, Operation] = {}
        for region in modules[0].regions:
            for block in region:
                for op in block.ops:
                    name = op.attributes.get("sym_name")
                    if op.name == "func.func" and isinstance(name, str):
                        functions[name] = op
                    elif op.name not in IGNORED:
                        raise ModelError(f"{cursor.what} cannot be read", [f"it has a {op.name} beside its functions"])
        return Module(functions, self.locations, modules[0].attributes)

    # ---- aliases -----------------------------------------------------------------------------------------------------
    def _find_aliases(self) -> None:
        """Aliases stand on lines of their own, before or after their uses."""
        for found in re.finditer(r"^([#!])([\w$.-]+) = (.*)$", self.cursor.text, re.MULTILINE):
            sign, name, value = found.groups()
            if value.startswith("loc("):
                self.locations["#" + name] = value
            elif sign == "#":
                self.aliases[name] = value
            else:
                self.types.aliases[name] = self.types.read(Cursor(value, self.cursor.what))
        start = self.cursor.text.rfind("\n{-#")
        if start >= 0:
            self.resources = dict(_RESOURCE.findall(self.cursor.text, start))

    def _pass_alias(self) -> None:
        self.cursor.expect(_ALIAS, "a definition")
        end = self.cursor.text.find("\n", self.cursor.position)
        self.cursor.position = len(self.cursor.text) if end < 0 else end

    # ---- ops ---------------------------------------------------------------------------------------------------------
    def operation(self) -> Operation:
        cursor = self.cursor
        results: list[str] = []
        while cursor.at("%"):
            found = cursor.expect(_RESULT, "a result")
            count = int(found[2][:9]) if found[2] else 1
            if count > _RESULTS:
                cursor.fail(f"an op has more than {_RESULTS} results")
            results += [found[1]] if found[2] is None else [f"{found[1]}#{i}" for i in range(count)]
            if not cursor.accept(","):
                cursor.take("=")
                break
        if not cursor.at('"'):
            cursor.fail("an op in generic form is missing")
        name = cursor.string()
        cursor.take("(")
        operands: list[str] = []
        while not cursor.accept(")"):
            operands.append(cursor.expect(_VALUE, "an operand").group())
            cursor.accept(",")
        if cursor.at("["):
            cursor.fail(f"{name} has successors; programs of StableHLO have none")
        attributes: dict[str, Any] = {}
        if cursor.accept("<{"):
            attributes = self._entries("}")
            cursor.take(">")
        regions: list[list[Block]] = []
        if cursor.at("("):
            cursor.take("(")
            while not cursor.accept(")"):
                with cursor.nested():
                    regions.append(self._region())
                cursor.accept(",")
        if cursor.accept("{"):
            attributes |= self._entries("}")
        cursor.take(":")
        type_ = self.types.function(cursor)
        self.count += 1
        if len(operands) != len(type_.inputs) or len(results) not in (0, len(type_.results)):
            cursor.fail(f"the type of {name} does not fit its {len(operands)} operands and {len(results)} results")
        return Operation(name, results, operands, attributes, regions, type_, self._location(), self.count)

    def _region(self) -> list[Block]:
        cursor = self.cursor
        cursor.take("{")
        blocks: list[Block] = []
        while not cursor.accept("}"):
            if cursor.at("^"):
                cursor.expect(_BLOCK, "a block")
                blocks.append(Block(self._arguments()))
                cursor.take(":")
                continue
            if not blocks:
                blocks.append(Block())
            blocks[-1].ops.append(self.operation())
        return blocks

    def _arguments(self) -> list[tuple[str, Any, str]]:
        cursor = self.cursor
        found: list[tuple[str, Any, str]] = []
        if not cursor.accept("("):
            return found
        while not cursor.accept(")"):
            name = cursor.expect(_VALUE, "an argument").group()
            cursor.take(":")
            type_ = self.types.read(cursor)
            found.append((name, type_, self._location()))
            cursor.accept(",")
        return found

    def _location(self) -> str:
        """The text of a location at the cursor, "" if there is none."""
        cursor = self.cursor
        alias = cursor.match(_LOC_ALIAS)
        if alias is not None:
            return alias[1]
        if not cursor.at("loc("):
            return ""
        cursor.position += len("loc")
        return f"loc({cursor.balanced()})"

    # ---- attributes --------------------------------------------------------------------------------------------------
    def _entries(self, closes: str) -> dict[str, Any]:
        cursor = self.cursor
        found: dict[str, Any] = {}
        while not cursor.accept(closes):
            key = cursor.string() if cursor.at('"') else cursor.expect(_KEY, "an attribute's name").group()
            found[key] = self._attribute() if cursor.accept("=") else True
            cursor.accept(",")
        return found

    def _attribute(self) -> Any:
        with self.cursor.nested():
            return self._of_kind()

    def _of_kind(self) -> Any:
        cursor = self.cursor
        cursor.skip()
        first = cursor.text[cursor.position : cursor.position + 1]
        if first == '"':
            text = cursor.string()
            if cursor.accept(":"):
                self.types.read(cursor)
            return text
        if first == "[":
            cursor.take("[")
            return self._rest_of_list()
        if first == "{":
            cursor.take("{")
            return self._entries("}")
        if first == "@":
            return self._symbol()
        if first == "#":
            return self._dialect()
        if first and first in "!(":
            return self.types.read(cursor)
        if first.isdigit() or first == "-":
            return self._number()
        return self._word()

    def _rest_of_list(self) -> list[Any]:
        items: list[Any] = []
        while not self.cursor.accept("]"):
            items.append(self._attribute())
            self.cursor.accept(",")
        return items

    def _symbol(self) -> SymbolRef:
        cursor = self.cursor
        if cursor.text.startswith('@"', cursor.position):
            cursor.position += 1
            name = cursor.string()
        else:
            name = cursor.expect(_SYMBOL, "a symbol").group()[1:]
        while cursor.accept("::"):
            name += "::" + self._symbol().name
        return SymbolRef(name)

    def _dialect(self) -> Any:
        cursor = self.cursor
        name = cursor.dialect_name()
        if cursor.at("<"):
            return DialectAttribute(name, cursor.balanced().strip())
        if name not in self.aliases:
            cursor.fail(f"there is no attribute '#{name}'")
        inner = _Reader(Cursor(self.aliases[name], cursor.what))
        inner.cursor._depth = cursor._depth
        inner.aliases = {key: value for key, value in self.aliases.items() if key != name}
        inner.types, inner.resources = self.types, self.resources
        return inner._attribute()

    def _number(self) -> Any:
        cursor = self.cursor
        text = cursor.expect(_NUMBER, "a number").group()
        type_ = self.types.read(cursor) if cursor.accept(":") else None
        kind = str(type_ or "")
        if kind.startswith(("f", "bf")):
            return float(dense(cursor, text, Ranked(_FLOATS.get(kind, kind), ())).array[0])
        if re.fullmatch(r"-?\d+|-?0x[0-9a-fA-F]+", text):
            if len(text) > 40:
                cursor.fail("a number is too long")
            return int(text, 0) if "x" in text else int(text)
        return float(text)

    def _word(self) -> Any:
        cursor = self.cursor
        start = cursor.position
        word = cursor.expect(_WORD, "an attribute").group()
        if word in ("true", "false"):
            if cursor.accept(":"):
                self.types.read(cursor)
            return word == "true"
        if word == "unit":
            return True
        if word == "dense" and cursor.at("<"):
            return self._dense()
        if word == "dense_resource" and cursor.at("<"):
            return self._resource()
        if word == "array" and cursor.at("<"):
            return self._array()
        if word in ("affine_map", "affine_set", "sparse", "opaque", "strided", "distinct", "loc"):
            body = cursor.balanced() if cursor.at("<") or cursor.at("(") or cursor.at("[") else ""
            return DialectAttribute(word, body)
        cursor.position = start
        return self.types.read(cursor)

    def _array(self) -> tuple[Any, ...]:
        body = self.cursor.balanced()
        kind, _, rest = body.partition(":")
        words = [word.strip() for word in rest.split(",") if word.strip()]
        try:
            if kind.strip() == "i1":
                return tuple(word in ("true", "1", "-1") for word in words)
            return tuple(float(w) for w in words) if kind.strip().startswith("f") else tuple(int(w) for w in words)
        except ValueError:
            self.cursor.fail("an array has an element that is none")

    def _dense(self) -> Elements:
        cursor = self.cursor
        cursor.take("<")
        body = cursor.until(">")
        return dense(cursor, body, self._tensor_type())

    def _resource(self) -> Elements:
        cursor = self.cursor
        name = cursor.balanced().strip().strip('"')
        type_ = self._tensor_type()
        if name not in self.resources:
            cursor.fail(f"the file does not hold the elements of '{name}'")
        data = bytes.fromhex(self.resources[name])
        return from_bytes(cursor, data[4:], type_)  # the first four bytes are the alignment

    def _tensor_type(self) -> Ranked:
        self.cursor.take(":")
        type_ = self.types.read(self.cursor)
        if not isinstance(type_, Ranked):
            self.cursor.fail(f"a constant has the type {type_}, which is no tensor of a known rank")
        return type_


IGNORED = frozenset(("sdy.mesh",))
"""Ops beside the functions: `sdy.mesh` names devices, and the program is for one."""


_FLOATS = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
