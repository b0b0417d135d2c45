"""Attributes of ops: one codec for each Python type that annotates them, and their values on an operation.

`CODECS` is the table; `Attr` is one attribute of an op class.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from burn.dialect.dims import Dim, parse, plain
from burn.dialect.mlir import ir
from burn.errors import TypeMismatch, WrongArgument


@dataclass(frozen=True)
class Codec:
    """Encodes a Python attribute value in MLIR, and decodes it."""

    encode: Callable[[Any], ir.Attribute]
    decode: Callable[[Any], Any]


DECODED = 1 << 16
"""The most decoded attribute values cached for each codec."""


def _kept(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Caches `decode`: MLIR uniques equal attributes, and decoding one calls the bindings for each of its elements. The
    values must not be mutable."""
    known: dict[ir.Attribute, Any] = {}

    def read(attribute: ir.Attribute) -> Any:
        value = known.get(attribute)
        if value is None:
            if len(known) >= DECODED:
                known.clear()
            value = known[attribute] = decode(attribute)
        return value

    return read


def _encoded(encode: Callable[[Any], ir.Attribute]) -> Callable[[Any], ir.Attribute]:
    """An `encode` that calls the bindings once for each value: a model's ops repeat theirs. Not for floats: -0.0 equals 0.0."""
    known: dict[Any, ir.Attribute] = {}

    def write(value: Any) -> ir.Attribute:
        try:
            attribute = known.get(value)
        except TypeError:  # a list
            return encode(value)
        if attribute is None:
            if len(known) >= DECODED:
                known.clear()
            attribute = known[value] = encode(value)
        return attribute

    return write


def _dims_attr(dims: Sequence[Dim]) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.StringAttr.get(str(d)) for d in dims])


def _int64(value: Any) -> int:
    if not -(2**63) <= int(value) < 2**63:
        raise TypeMismatch(f"{value} does not fit into 64 bits")
    return int(value)


_I64 = Codec(
    _encoded(lambda v: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _int64(v))),
    _kept(lambda a: ir.IntegerAttr(a).value),
)
CODECS: dict[Any, Codec] = {
    int: _I64,
    bool: Codec(_encoded(lambda v: ir.BoolAttr.get(bool(v))), _kept(lambda a: bool(ir.BoolAttr(a).value))),
    float: Codec(
        lambda v: ir.FloatAttr.get(ir.F64Type.get(), float(v)),
        _kept(lambda a: ir.FloatAttr(a).value),
    ),
    str: Codec(_encoded(ir.StringAttr.get), _kept(lambda a: ir.StringAttr(a).value)),
    tuple[int, ...]: Codec(
        _encoded(lambda v: ir.DenseI64ArrayAttr.get([_int64(x) for x in v])),
        _kept(lambda a: tuple(ir.DenseI64ArrayAttr(a))),
    ),
    tuple[float, ...]: Codec(
        lambda v: ir.DenseF64ArrayAttr.get([float(x) for x in v]), _kept(lambda a: tuple(ir.DenseF64ArrayAttr(a)))
    ),
    tuple[str, ...]: Codec(
        _encoded(lambda v: ir.ArrayAttr.get([ir.StringAttr.get(x) for x in v])),
        _kept(lambda a: tuple(ir.StringAttr(x).value for x in ir.ArrayAttr(a))),
    ),
    tuple[Dim, ...]: Codec(
        _encoded(_dims_attr), _kept(lambda a: tuple(parse(ir.StringAttr(x).value) for x in ir.ArrayAttr(a)))
    ),
    Dim: Codec(_encoded(lambda v: ir.StringAttr.get(str(v))), _kept(lambda a: parse(ir.StringAttr(a).value))),
}
_ONE_SIZE, _SIZES = CODECS[Dim], CODECS[tuple[Dim, ...]]
_F64, _TEXT, _INTEGERS = CODECS[float], CODECS[str], CODECS[tuple[int, ...]]
SEGMENTS = CODECS[tuple[int, ...]]
"""The codec of the numbers of operands in each group."""


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


@dataclass(frozen=True)
class Attr:
    """One attribute of an op class."""

    name: str
    codec: Codec
    annotation: str
    required: bool
    default: Any

    @cached_property
    def holds_sizes(self) -> bool:
        return self.codec is _ONE_SIZE or self.codec is _SIZES

    def plain(self, value: Any) -> Any:
        """A value for the attribute: sizes in the compiler's form, text without a user's subclass of str."""
        if self.codec is _ONE_SIZE:
            return plain(value)
        if self.codec is _SIZES:
            return None if value is None else tuple(map(plain, value))
        if isinstance(value, str) and type(value) is not str:  # `x.dtype` has a costly equality
            return str.__str__(value)
        return value if value is None else self._typed(value)

    def _typed(self, value: Any) -> Any:
        """The value. Raises WrongArgument for another type of Python's than the attribute has."""
        if self.codec is _I64:
            fits = type(value) is int or _is_integer(value)
        elif self.codec is _INTEGERS:
            fits = not isinstance(value, str) and all(type(each) is int or _is_integer(each) for each in value)
        elif self.codec is _F64:
            fits = not isinstance(value, (str, bytes)) and (type(value) is float or hasattr(value, "__float__"))
        elif self.codec is _TEXT:
            fits = isinstance(value, str)
        else:
            return value
        if not fits:
            raise WrongArgument(f"attribute '{self.name}' is {self.annotation}, not {value!r}")
        return value

    def read(self, operation: ir.Operation) -> Any:
        """Its value on an operation of the class."""
        written = operation.attributes.get(self.name)
        return self.default if written is None else self.codec.decode(written)
