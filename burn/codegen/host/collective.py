"""Prints collectives as calls of the runtime (burn/runtime/native/lib_collective.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burn.codegen.host.emit import Int, Value
from burn.codegen.host.emitters import emits
from burn.codegen.host.records import KernelRecord, moved
from burn.dialect.collective import REDUCTIONS
from burn.dialect.op import Op, full_name
from burn.dialect.types import type_of
from burn.runtime.dtypes import CODES

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "collective_broadcast")
"""In the order of burn_collective_kind (burn/runtime/native/communicator.h)."""

WORDS = 4
"""Words of a tensor: the operand's address, the result's, the operand's elements, its burn_dtype."""


@emits(*KINDS)
def _collective(entry: EntryBuilder, op: Op) -> None:
    """Tensors on a GPU stay there: the runtime sends them by a stream of its own."""
    sources, results = list(op.operation.operands), list(op.operation.results)
    site = entry.site(full_name(op))
    number = op.root if op.OP_NAME == "collective_broadcast" else REDUCTIONS.index(getattr(op, "reduction", "sum"))
    words: list[Int] = []
    for x, result in zip(sources, results, strict=True):
        type_ = type_of(x)
        elements = entry.sizes.dim(type_.elements)
        words += [entry.pointer(x), entry.define(result), elements, CODES.index(type_.dtype)]
    addresses = [_placed(entry, op.groups, 0), _placed(entry, words, len(op.groups))]
    record = KernelRecord(op.OP_NAME, "collective", (full_name(op),), 0, moved(op.operation))
    launch = entry.records.add(record, op.operation)
    operands = (KINDS.index(op.OP_NAME), number, op.size, len(op.groups), addresses[0], len(sources), addresses[1])
    if entry.memory.is_host:
        entry.call("burn_rt_enter", launch)
        entry.call("burn_lib_collective", site, *operands)
        entry.call("burn_rt_leave", launch)
    else:
        entry.call("burn_rt_device_collective", launch, *operands)


def _placed(entry: EntryBuilder, words: Sequence[Int], first: int) -> Value:
    """The address of words among the entry function's, from a position on."""
    for i, word in enumerate(words):
        entry.set_word(first + i, word)
    return entry.code.gep(entry.words, first, "i64")


@emits("collective_wait")
def _wait(entry: EntryBuilder, op: Op) -> None:
    """On the host a collective has ended when its call returns."""
    if not entry.memory.is_host:
        entry.call("burn_rt_device_await", entry.pointer(op.x))
