"""Prints calls of custom ops (`burn.custom_op`): of a function in C, of a Python function of this process, or of GPU kernels."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burn.codegen.host.emit import PTR
from burn.codegen.host.emitters import emits
from burn.codegen.host.library import Call, refuse
from burn.codegen.host.records import ON_HOST, KernelRecord, moved
from burn.dialect.custom import Custom
from burn.dialect.mlir import ir
from burn.dialect.op import Op, full_name
from burn.dialect.types import type_of
from burn.runtime.artefact import PYTHON
from burn.runtime.dtypes import CODES as DTYPES

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder

MOST = 64
"""Operands and results that a function in C may have (lib_custom.c)."""

_INTS, _FLOATS, _TEXT = range(3)
_WORD = 8


def table(settings: dict[str, Any]) -> bytes:
    """Attributes as burn_custom.h reads them."""
    head, data = 1 + 4 * len(settings), bytearray()
    words = [len(settings)]

    def placed(values: bytes) -> int:
        data.extend(bytes(-len(data) % _WORD))
        at = head * _WORD + len(data)
        data.extend(values)
        return at

    for name, value in settings.items():
        at = placed(name.encode() + b"\0")
        if isinstance(value, str):
            text = value.encode()
            words += [at, _TEXT, len(text), placed(text + b"\0")]
            continue
        values = value if isinstance(value, tuple) else (value,)
        kind = _FLOATS if any(isinstance(v, float) for v in values) else _INTS
        packed = struct.pack(f"<{len(values)}{'d' if kind == _FLOATS else 'q'}", *values)
        words += [at, kind, len(values), placed(packed)]
    return struct.pack(f"<{head}q", *words) + bytes(data)


def _described(call: Call, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> Call:
    """The counts of tensors, and the words that describe them (lib_custom.c)."""
    entry = call.entry
    drafts = [(value, entry.draft(value)) for value in outputs]
    call._drafts += drafts
    addresses = [*(entry.operand(value) for value in inputs), *(draft for _, draft in drafts)]
    values = [*inputs, *outputs]
    first = word = call._reserve(sum(3 + type_of(value).rank for value in values))
    for value, address in zip(values, addresses, strict=True):
        for each in (address, DTYPES.index(type_of(value).dtype), type_of(value).rank):
            entry.set_word(word, each)
            word += 1
        for dim in type_of(value).shape:
            entry.set_word(word, entry.sizes.dim(dim))
            word += 1
    call.operands += [len(inputs), len(outputs), entry.code.gep(entry.words, first, "i64")]
    return call


@emits("custom")
def _custom(entry: EntryBuilder, op: Op) -> None:
    assert isinstance(op, Custom)
    for value in (*op.operation.operands, *op.operation.results):
        if type_of(value).dtype in ("string", "list"):
            refuse(op, f"{op.called} has an operand or result of {type_of(value).dtype}, which its body cannot read")
    if len(op.operation.operands) + len(op.operation.results) > MOST:
        refuse(op, f"{op.called} has more than {MOST} operands and results")
    entry.check_sizes(op)
    if op.body == "triton":
        entry.kernels.custom(entry, op)
    elif op.body in _CALLS:
        _CALLS[op.body](entry, op)
    else:
        refuse(op, f"{op.called} has no body for this device")


def _c(entry: EntryBuilder, op: Custom) -> None:
    code = entry.code
    definition: Any = op.definition
    entry.functions_of_user[definition.symbol] = op.called
    call = Call(entry, op).number(entry.site(full_name(op)))
    call.operands.append(code.raw(f"llvm.mlir.addressof @{definition.symbol} : {PTR}", PTR))
    call.operands.append(entry.text(table(op.shown), alignment=_WORD))
    _run(_described(call, list(op.operation.operands), list(op.operation.results)), op, "burn_lib_custom", op.called)


def _python(entry: EntryBuilder, op: Custom) -> None:
    from burn.custom.host import number_of

    call = Call(entry, op).number(entry.site(full_name(op)), number_of(op.definition, op.settings))
    _run(
        _described(call, list(op.operation.operands), list(op.operation.results)),
        op,
        "burn_lib_custom_host",
        PYTHON + op.called,
    )


_CALLS = {"c": _c, "python": _python}


def _run(call: Call, op: Custom, function: str, shown: str) -> None:
    entry = call.entry
    kind = "library" if entry.memory.is_host and op.body == "c" else ON_HOST
    number = entry.records.add(KernelRecord(shown, kind, (full_name(op),), 0, moved(op.operation)), op.operation)
    entry.call("burn_rt_enter", number)
    entry.call(function, *call.operands)
    entry.call("burn_rt_leave", number)
    call._send()
