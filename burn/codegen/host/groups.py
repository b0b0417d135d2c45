"""Prints `burn.group` into the entry function: its kernels, launched one after another."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from burn.codegen.host.calls import Address
from burn.codegen.host.emitters import emits
from burn.codegen.host.launches import Binding, Kernels, Launches
from burn.codegen.host.records import ON_HOST, KernelRecord, sum_dims
from burn.dialect.control import Group
from burn.dialect.dims import Dim, floordiv
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, Op, full_name
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.kernels.structural_key import structural_key
from burn.runtime.memory import MemorySpace

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder


@dataclass(frozen=True)
class Printed:
    """The shared parts of structurally equal groups. needs: sizes that must agree, each with the number of the op that
    requires it. launches, and the profile record of each, with the numbers of its ops."""

    needs: tuple[tuple[int, Agreement], ...]
    launches: Launches
    records: tuple[tuple[tuple[int, ...], KernelRecord], ...]


class Groups:
    """The groups of one program."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self._printed: dict[Hashable, Printed] = {}

    def printed(self, group: Group) -> Printed:
        """A group's kernels, printed unless a structurally equal group's were."""
        key = structural_key(group), self.kernels.variant(group)
        if key not in self._printed:
            ops, launches, memory = group.ops, self.kernels.group(group), self.kernels.memory
            positions = {op.operation: position for position, op in enumerate(ops)}
            self._printed[key] = Printed(
                tuple((position, need) for position, inner in enumerate(ops) for need in inner.must_agree()),
                launches,
                tuple(_record(group, ops, positions, launches, n, memory) for n in range(len(launches.calls))),
            )
        return self._printed[key]


def _record(
    group: Group,
    ops: Sequence[Op],
    numbers: Mapping[ir.Operation, int],
    launches: Launches,
    number: int,
    memory: MemorySpace,
) -> tuple[tuple[int, ...], KernelRecord]:
    """Returns the numbers of the ops that a launch computes, and its record for profiles. numbers: of the ops. memory: the
    memory space of the program's tensors."""
    section = launches.sections[number]
    mine = ops if section is None else section.ops
    positions = tuple(sorted({numbers[op.operation] for op in mine if op.operation in numbers}))
    kind = group.kind if section is None else section.kind
    name = "+".join(op.SHOWN_AS for op in mine[:4]) + ("+..." if len(mine) > 4 else "")
    sharers = launches.sharers[number]
    work = floordiv(flops(mine), sharers) if sharers else 0
    shown = kind if launches.memory == memory else ON_HOST
    return positions, KernelRecord(name, shown, (), work, _moved(group, launches, number))


def _moved(group: Group, launches: Launches, number: int) -> Dim:
    """Bytes of the operands, results and shared buffers that a launch reads or writes. Of a section, these are the results of its
    own. Scratch memory stays in caches."""
    section, sizes = launches.sections[number], list[Dim]()
    bound = dict.fromkeys(binding for binding in launches.calls[number][1] if binding is not None)
    for source, position in bound:
        if source == "shared":
            sizes.append(launches.shared[position])
        elif source == "in":
            sizes.append(type_of(group.operation.operands[position]).bytes)
        elif section is None:
            sizes.append(type_of(group.operation.results[position]).bytes)
    if section is not None and any(source == "out" for source, _ in bound):
        sizes += [type_of(value).bytes for value in section.yielded]
    return sum_dims(sizes)


@emits("group")
def _group(entry: EntryBuilder, op: Op) -> None:
    assert isinstance(op, Group)
    inside = list(op.operation.regions[0].blocks[0].operations)[:-1]
    names = [full_name(inner) for inner in inside]
    # Equal constants have become one, with the position of any of them: a kernel is not named for it.
    constants = {
        position for position, inner in enumerate(inside) if isinstance(inner, Op) and inner.has(Trait.CONSTANT)
    }
    printed = entry.groups.printed(op)
    for position, need in printed.needs:
        entry.require(need, names[position])
    launches, results = printed.launches, list(op.operation.results)
    made = entry.sizes.dim(sum_dims([type_of(r).elements for r in results]))
    copied = launches.memory != entry.memory  # operands and results are copied to and from the kernels' memory space
    reach = entry.operand if copied else entry.address
    addresses = [entry.draft(r) if copied else entry.made(r) for r in results]
    shared = [entry.shared_buffer(op, number, size) for number, size in enumerate(launches.shared)]
    records = [
        replace(record, sources=tuple(dict.fromkeys(names[position] for position in computed or positions)))
        for positions, record in printed.records
        for computed in [[position for position in positions if position not in constants]]
    ]
    given: dict[ir.Value, Address] = {}

    def buffer(binding: Binding) -> Address | None:
        if binding is None:
            return None
        source, position = binding
        if source != "in":
            return (shared if source == "shared" else addresses)[position]
        operand = op.operation.operands[position]
        if copied:  # once for all launches
            if operand not in given:
                given[operand] = reach(operand)
            return given[operand]
        return reach(operand)

    for (launch, bindings), record in zip(launches.calls, records, strict=True):
        launch.print(entry, [buffer(b) for b in bindings], entry.records.add(record, op.operation), made)
    for result, address in zip(results, addresses, strict=True):
        if copied:
            entry.deliver(result, entry.calls.reached(address))


def flops(ops: Iterable[Op]) -> Dim:
    """Floating-point operations of several ops; see `Op.flops`."""
    total: Dim = 0
    for op in ops:
        total = total + op.flops()
    return total
