"""Prints `burn.if` and `burn.loop` into the entry function.

Each carried value has two alternating buffers: an iteration reads one and writes the next value to the other. Both are
allocated before the loop starts, and grow if a size may change. A kernel that computes a carried value, or a slice of a
stacked result of known length, writes it directly (`Liveness.in_place`). All else is copied at the end of the
iteration, when the body's allocations are released.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from burn.codegen.host.emit import PTR, Value
from burn.codegen.host.emitters import emits
from burn.dialect.control import If, Loop, yielded
from burn.dialect.dims import Dim, Expr, Symbol, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op, full_name
from burn.dialect.types import type_of
from burn.kernels.liveness import is_stored, unchanged_values
from burn.runtime.abi import Status

if TYPE_CHECKING:
    from burn.codegen.host.entry import EntryBuilder


DEVICE_ALIGNMENT = 16
"""The alignment in bytes of every address passed to a GPU kernel."""


def own_symbol(dim: Dim, own: set[str]) -> str | None:
    """The name of a size that is one of the symbols an op defines."""
    atom = dim.terms[0][0][0] if isinstance(dim, Expr) and dim.is_symbol else None
    return atom.name if isinstance(atom, Symbol) and atom.name in own else None


# ---- if --------------------------------------------------------------------------------------------------------------


@emits("if")
def _if(entry: EntryBuilder, op: Op) -> None:
    """Each branch computes its values in its own buffers; the results are the addresses and sizes that it passes on."""
    assert isinstance(op, If)
    code = entry.code
    condition = entry.flag(op.condition)
    results = list(op.operation.results)
    outs = [code.fresh(type_) for type_ in [PTR] * len(results) + ["i64"] * len(op.symbols)]
    then, otherwise, joined = (code.label() for _ in range(3))
    entry.settle()
    code.branch_if(condition, then, otherwise)
    for region, label in ((op.then_region, then), (op.else_region, otherwise)):
        code.start(label)
        with entry.inside():
            entry.block(region.blocks[0])
            values = yielded(region)
            found = [entry.pointer(v) for v in values]
            found += [entry.sizes.value(_size_of(name, results, values)) for name in op.symbols]
            entry.settle()
            code.branch(joined, found)
    code.start(joined, outs)
    entry.pointers.update(zip(results, outs, strict=False))
    for name, size in zip(op.symbols, outs[len(results) :], strict=True):
        entry.bind(name, size)


def _size_of(name: str, results: list[ir.Value], values: list[ir.Value]) -> Dim:
    """The value of an `if`'s symbol in one branch: the size of the yielded value for the result with that dim."""
    return next(
        type_of(value).shape[axis]
        for result, value in zip(results, values, strict=True)
        for axis, dim in enumerate(type_of(result).shape)
        if own_symbol(dim, {name})
    )


# ---- loop ------------------------------------------------------------------------------------------------------------


@emits("loop")
def _loop(entry: EntryBuilder, op: Op) -> None:
    assert isinstance(op, Loop)
    _LoopPrinter(entry, op).print()


class _LoopPrinter:
    """`state` has the addresses and sizes that iterations carry in registers, by name."""

    def __init__(self, entry: EntryBuilder, op: Loop) -> None:
        self.entry, self.code, self.op = entry, entry.code, op
        self.own = set(op.symbols)
        self.body, self.initial = op.operation.regions[0].blocks[0], op.args[2]
        self.iteration, self.condition, *self.arguments = self.body.arguments
        self.go_on, *self.given = yielded(op.operation.regions[0])
        self.results = list(op.operation.results)
        count = len(self.arguments)
        kept = unchanged_values(op)
        self.carried = [i for i in range(count) if not kept[i]]
        self.stacked = list(range(count, len(self.results)))
        self.start: dict[Hashable, Value] = {}
        self.state: dict[Hashable, Value] = {}
        self.slices: dict[int, Value] = {}  # bytes of a slice, for stacked results of known size

    def print(self) -> None:
        code, entry = self.code, self.entry
        self._begin()
        limit = self._limit()
        entry.settle()
        head, body, end = (code.label() for _ in range(3))
        code.branch(head, list(self.start.values()))
        self.state = {key: code.fresh(value.type) for key, value in self.start.items()}
        code.start(head, list(self.state.values()))
        more = self.state["go on"]
        if limit is not None:
            with code.scope():
                more = code.op("arith.andi", more, code.cmp("slt", self.state["iteration"], limit))
        code.branch_if(more, body, end)
        code.start(body)
        with entry.inside():
            following = self._iterate()
            entry.settle()
            code.branch(head, [following[key] for key in self.start])
        code.start(end)
        self._end()

    def _limit(self) -> Value | None:
        """The trip count. If a stacked result has a known length, at most that, so that nothing is written past its end."""
        for i in self.stacked:
            length = type_of(self.results[i]).shape[0]
            if own_symbol(length, self.own) is None:
                return self.code.value(self.entry.sizes.dim(length))
        return None if self.op.trips is None else self.entry.read(self.op.trips)

    # ---- before ------------------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        """Allocates memory for carried values and stacked results; sets the initial state."""
        code, entry = self.code, self.entry
        self.start["iteration"] = code.const(0)
        self.start["go on"] = code.const(True, "i1")
        if self.op.condition is not None:
            self.start["go on"] = entry.flag(self.op.condition)
        for i in self.carried:
            initial = self.initial[i]
            if self._grows(i):
                buffers = [entry.call_in(entry.space(initial), "alloc", entry.size(initial)) for _ in range(2)]
            else:
                buffers = [entry.define(self.results[i]), entry.define(self.arguments[i])]
            entry.copy(initial, buffers[0], entry.pointer(initial), type_of(initial).bytes)
            self.start["current", i], self.start["next", i] = buffers
        for i, axis, _ in self._argument_sizes():
            self.start["size", i, axis] = code.value(entry.sizes.dim(type_of(self.initial[i]).shape[axis]))
        for i in self.stacked:
            type_ = type_of(self.results[i])
            if self._grows(i):
                self.start["stack", i] = entry.call_in(entry.space(self.results[i]), "alloc", 0)
                self.start |= {("size", i, axis): code.const(0) for axis, _ in self._slice_sizes(i)}
            else:
                self.slices[i] = code.value(entry.sizes.dim(product(type_.shape[1:]) * type_.element_bytes))
                entry.define(self.results[i])

    def _grows(self, i: int) -> bool:
        """True if the size of result i is known only after the loop."""
        return any(own_symbol(d, self.own) for d in type_of(self.results[i]).shape)

    def _argument_sizes(self) -> list[tuple[int, int, str]]:
        """(number, axis, symbol) of the sizes of carried values that iterations may change."""
        return [
            (i, axis, name)
            for i, argument in enumerate(self.arguments)
            for axis, dim in enumerate(type_of(argument).shape)
            if (name := own_symbol(dim, self.own))
        ]

    def _slice_sizes(self, i: int) -> list[tuple[int, str]]:
        """(axis, symbol) of the sizes of a slice that are known only in the body."""
        shape = type_of(self.results[i]).shape[1:]
        return [(axis, name) for axis, dim in enumerate(shape) if (name := own_symbol(dim, self.own))]

    # ---- an iteration ------------------------------------------------------------------------------------------------
    def _iterate(self) -> dict[Hashable, Value]:
        """Prints the body and the updates after it; returns the next state."""
        code, entry, state = self.code, self.entry, self.state
        mark = entry.call("burn_rt_mark")
        for i, axis, name in self._argument_sizes():
            entry.bind(name, state["size", i, axis])
        for i in self.carried:
            entry.pointers[self.arguments[i]] = state["current", i]
        entry.counters[self.iteration] = state["iteration"]
        for argument, value in ((self.iteration, state["iteration"]), (self.condition, state["go on"])):
            if is_stored(argument):
                number = code.cast("arith.extui", value, "i64")
                entry.call_in(
                    entry.space(argument), "write", entry.define(argument), number, type_of(argument).element_bytes
                )
        for i, value in enumerate(self.given):
            home = entry.live.home(value)
            if self._in_place(i):
                entry.pointers[home] = self._target(i)
        entry.block(self.body)
        following = dict(state)
        following["iteration"] = code.value(code.add(state["iteration"], 1))
        if self.go_on != self.condition:
            following["go on"] = entry.flag(self.go_on)
        self._sizes(following)
        for i in self.stacked:
            self._stack(i, following)
        for i in self.carried:  # values may swap buffers: current ones stay until the iteration has ended
            self._carry_over(i, following)
        entry.call("burn_rt_release", mark)
        return following

    def _in_place(self, i: int) -> bool:
        home = self.entry.live.home(self.given[i])
        if self.entry.live.in_place.get(home) != i or home.owner.operation.block != self.body:
            return False
        size = type_of(home).bytes
        whole = i not in self.slices or (isinstance(size, int) and size % DEVICE_ALIGNMENT == 0)
        return whole or self.entry.space(home).is_host

    def _target(self, i: int) -> Value:
        """The buffer of a carried value of fixed size."""
        if i not in self.slices:
            return self.state["next", i]
        offset = self.code.mul(self.state["iteration"], self.slices[i])
        return self.code.gep(self.entry.pointer(self.results[i]), offset, "i8")

    def _sizes(self, following: dict[Hashable, Value]) -> None:
        """The sizes after the iteration. All slices of a result must have the same sizes."""
        code, entry = self.code, self.entry
        for i, axis, _ in self._argument_sizes():
            following["size", i, axis] = code.value(entry.sizes.dim(type_of(self.given[i]).shape[axis]))
        for i in self.stacked:
            for axis, _ in self._slice_sizes(i):
                size = code.value(entry.sizes.dim(type_of(self.given[i]).shape[axis]))
                following["size", i, axis] = size
                later = code.cmp("sgt", self.state["iteration"], 0)
                differs = code.cmp("ne", size, self.state["size", i, axis])
                wrong = code.op("arith.andi", later, differs)
                entry.fail_if(wrong, Status.SHAPE_MISMATCH, full_name(self.op), size)

    def _stack(self, i: int, following: dict[Hashable, Value]) -> None:
        code, entry = self.code, self.entry
        if i in self.slices:
            if not self._in_place(i):
                entry.copy(self.given[i], self._target(i), entry.pointer(self.given[i]), type_of(self.given[i]).bytes)
            return
        size = entry.sizes.value(type_of(self.given[i]).bytes)
        offset = entry.sizes.times(self.state["iteration"], size)
        grown = entry.call_in(
            entry.space(self.results[i]), "grow", self.state["stack", i], entry.sizes.plus(offset, size)
        )
        following["stack", i] = grown
        target = code.gep(grown, offset, "i8")
        entry.copy(self.given[i], target, entry.pointer(self.given[i]), type_of(self.given[i]).bytes)

    def _carry_over(self, i: int, following: dict[Hashable, Value]) -> None:
        entry, state = self.entry, self.state
        target = state["next", i]
        if not self._in_place(i):
            size = type_of(self.given[i]).bytes
            if self._grows(i):
                target = entry.call_in(entry.space(self.given[i]), "grow", target, entry.sizes.dim(size))
            entry.copy(self.given[i], target, entry.pointer(self.given[i]), size)
        following["current", i], following["next", i] = target, state["current", i]

    # ---- after -------------------------------------------------------------------------------------------------------
    def _end(self) -> None:
        """Addresses and sizes of the results."""
        entry = self.entry
        for i in self.carried:
            entry.pointers[self.results[i]] = self.state["current", i]
        for i, argument in enumerate(self.arguments):
            for axis, dim in enumerate(type_of(self.results[i]).shape):
                if name := own_symbol(dim, self.own):
                    here = ("size", i, axis)
                    size = self.state[here] if here in self.state else entry.sizes.dim(type_of(argument).shape[axis])
                    entry.bind(name, self.code.value(size))
        for i in self.stacked:
            if ("stack", i) in self.state:
                entry.pointers[self.results[i]] = self.state["stack", i]
            if name := own_symbol(type_of(self.results[i]).shape[0], self.own):
                entry.bind(name, self.state["iteration"])
            for axis, name in self._slice_sizes(i):
                entry.bind(name, self.state["size", i, axis])
