"""The inputs' sizes in the entry function: binds each symbol, and checks axes that are expressions over symbols.

The runtime has already checked axes that are numbers or symbols, by a table of them (`burn_input_spec`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burn.codegen.host.emit import Value
from burn.codegen.host.sizes import linear_in
from burn.dialect.dims import Expr, Symbol, symbols
from burn.dialect.types import type_of
from burn.runtime.abi import Status

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder

Axis = tuple[int, int, Expr]


def bind(entry: EntryBuilder) -> None:
    """Binds symbols that are an axis themselves, then those that an axis depends on linearly (2*n + 1)."""
    composed: list[Axis] = []
    for i, value in enumerate(entry.program.inputs):
        for axis, dim in enumerate(type_of(value).shape):
            if isinstance(dim, Expr) and not dim.is_symbol:
                composed.append((i, axis, dim))
            elif isinstance(dim, Expr) and not entry.sizes.known(dim):
                entry.bind(str(dim), _size(entry, i, axis))
    for each in composed:
        _solve(entry, *each)
    for i, axis, dim in composed:
        if entry.sizes.known(dim):
            wanted = entry.sizes.value(dim)
            entry.settle()
            entry.fail_if(entry.code.cmp("ne", _size(entry, i, axis), wanted), Status.INPUT_MISMATCH, "", i)


def _size(entry: EntryBuilder, index: int, axis: int) -> Value:
    return entry.call("burn_rt_input_dim", index, axis)


def _solve(entry: EntryBuilder, index: int, axis: int, dim: Expr) -> None:
    unknown = [name for name in sorted(symbols(dim)) if Symbol(name) not in entry.sizes.bindings]
    line = linear_in(dim, unknown[0]) if len(unknown) == 1 else None
    if line is None:
        return
    factor, rest = line
    code = entry.code
    found = code.value(code.floordiv(code.sub(_size(entry, index, axis), entry.sizes.dim(rest)), factor))
    entry.fail_if(code.cmp("slt", found, 0), Status.INPUT_MISMATCH, "", index)
    entry.bind(unknown[0], found)
