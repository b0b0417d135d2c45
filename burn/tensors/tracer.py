"""The program under construction, to which `Tensor` operations add ops. Start at `tracing` and `current`.

Nothing is computed while tracing. Parameters and literals become constants at the beginning of the program, so that every
region can use them. Each parameter is one constant, for any number of uses.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Protocol

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import signed
from burn.dialect.deferred import Deferred
from burn.dialect.dims import Expr, symbol, symbols
from burn.dialect.locations import PROGRAM, user_lines
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.types import DTYPES, TensorType
from burn.dialect.weights import Weight, WeightStore
from burn.errors import TypeMismatch
from burn.runtime.device import Device

SMALL = 16
"""Largest number of elements of a constant in the program's text; larger ones go to the weight store."""

_current: ContextVar[Tracer | None] = ContextVar("tracer", default=None)


class Owned(Protocol):
    """A parameter of a module. Its elements may change between runs."""

    name: str

    @property
    def type(self) -> TensorType: ...

    @property
    def weight(self) -> Weight: ...

    @property
    def placement(self) -> Device:
        """The device of its elements."""
        ...


class Called(Protocol):
    """A module."""

    def named_modules(self) -> Iterable[tuple[str, object]]: ...


class Tracer:
    """One program under construction. `names` has the paths of modules by identity.

    opens: parameters become inputs of the program, after the others, instead of constants. `parameters` are those
    that it uses, in order. `assigned` are those with new elements, which become further outputs. `modules` are the objects
    whose attributes the program depends on: called modules, optimizers."""

    def __init__(
        self, inputs: Sequence[tuple[str, TensorType]], weights: WeightStore | None = None, opens: bool = False
    ) -> None:
        self.program = Program.create(inputs, weights)
        self.names: dict[int, str] = {}
        self.opens = opens
        self.parameters: list[Owned] = []
        self.assigned: dict[int, tuple[Owned, ir.Value]] = {}
        self.modules: dict[int, object] = {}
        self._carried: set[int] = set()  # parameters carried by a surrounding loop
        self.ended = False  # its values may be deleted
        self.region: object = None  # identifies the region of control flow being built, if any
        self.outer: Tracer | None = None  # for a tracer of a region: that of the code around it
        self.holder: object = None  # keeps the region's values alive
        self._constants: dict[int, tuple[object, ir.Value]] = {}  # id -> (what keeps the id taken, the value)
        self._last_constant: ir.Operation | None = None
        self._sizes = {name for _, t in inputs for dim in t.shape for name in symbols(dim)}

    def constant(self, owner: object, weight: Weight, hint: str) -> ir.Value:
        """The constant of `owner` (for example a parameter), made at the first use."""
        known = self._constants.get(id(owner))
        if known is None:
            known = self._constants[id(owner)] = (owner, self.literal(weight, hint))
        return known[1]

    def input_name(self, value: ir.Value) -> str:
        """The name of the program's input that a value is; "" for another value."""
        pairs = zip(self.program.input_names, self.program.inputs, strict=False)  # the random state has no name
        return next((name for name, known in pairs if known == value), "")

    def captured(self, value: Deferred, weight: Callable[[], Weight]) -> ir.Value:
        """The value of a lazy tensor that the function uses: a constant of its elements."""
        return self.constant(value, weight(), "constant")

    def sees(self, other: Tracer | None) -> bool:
        """True if values of a tracer can be used: its own, and those of the code around it."""
        tracer: Tracer | None = self
        while tracer is not None:
            if tracer is other:
                return True
            tracer = tracer.outer
        return False

    def parameter(self, owner: Owned) -> ir.Value:
        """The value of a parameter: its last assigned value, else an input of the program or a constant, made at the first
        use."""
        if id(owner) in self.assigned:
            return self.assigned[id(owner)][1]
        known = self._constants.get(id(owner))
        if known is None:
            if self.opens:
                value = self.program.add_input(owner.name or "parameter", owner.type)
            else:
                value = self.literal(owner.weight, owner.name)
            known = self._constants[id(owner)] = (owner, value)
            self.parameters.append(owner)
        return known[1]

    def assign(self, owner: Owned, value: ir.Value) -> None:
        """Assigns a parameter, for the following ops and after the run. Raises TypeMismatch in a region."""
        if ir.InsertionPoint.current.block != self.program.block and id(owner) not in self._carried:
            raise TypeMismatch(
                "a parameter is not assigned inside of burn.cond, burn.scan, burn.vmap and the like",
                [f"'{owner.name}'; return its new elements, and assign them outside"],
            )
        self.parameter(owner)
        self.assigned[id(owner)] = (owner, value)

    @contextmanager
    def carrying(self, values: Sequence[tuple[Owned, ir.Value]]) -> Iterator[Callable[[Owned], ir.Value]]:
        """Inside of a loop's region: parameters have the values that the loop carries, and may be assigned. Yields a function
        that returns a parameter's present value."""
        before = dict(self.assigned), self._carried
        self.assigned |= {id(owner): (owner, value) for owner, value in values}
        self._carried = self._carried | {id(owner) for owner, _ in values}
        try:
            yield self.parameter
        finally:
            self.assigned, self._carried = before

    def literal(self, weight: Weight, hint: str = "constant") -> ir.Value:
        """A new constant."""
        last = self._last_constant
        point = ir.InsertionPoint.at_block_begin(self.program.block) if last is None else ir.InsertionPoint.after(last)
        with context(), ir.Location.name(hint or "constant"), point:
            value = _written_out(weight)
            if value is None:
                key = self.program.weights.add(weight, hint)
                value = ops.weight(key=key, shape=weight.shape, dtype=weight.dtype)
        self._last_constant = value.owner
        return value

    def new_size(self, name: str) -> Expr:
        """A size that the program defines. Raises TypeMismatch if the name is already used."""
        if name in self._sizes:
            raise TypeMismatch("a size is defined twice", [f"'{name}'"])
        self._sizes.add(name)
        return symbol(name)

    def fresh(self, hint: str) -> str:
        """An unused name for a size."""
        name, number = hint, 1
        while name in self._sizes:
            number += 1
            name = f"{hint}_{number}"
        return name

    def reserve(self, names: Iterable[str]) -> None:
        """Names that new sizes of the program must not have."""
        self._sizes.update(names)

    @property
    def reserved(self) -> frozenset[str]:
        """The names of sizes that it has."""
        return frozenset(self._sizes)

    def saw(self, owner: object) -> None:
        """Records that the program depends on an object's attributes besides its tensors: a module, an optimizer."""
        self.modules.setdefault(id(owner), owner)

    @contextmanager
    def scope(self, module: Called) -> Iterator[None]:
        """Ops built inside come from `module`."""
        self.saw(module)
        if id(module) not in self.names:  # called by a function, not by a module
            for path, part in module.named_modules():
                self.names.setdefault(id(part), path)
        with ir.Location.name(self.names[id(module)] or PROGRAM):
            yield


def _written_out(weight: Weight) -> ir.Value | None:
    kind = DTYPES[weight.dtype].kind
    if prod(weight.shape) > SMALL or kind not in ("float", "int", "uint", "bool") or weight.packed:
        return None
    elements = np.asarray(weight.array()).reshape(-1).tolist()
    if kind in ("int", "uint"):
        bits = tuple(signed(int(e)) for e in elements)
        return ops.constant(values=(), bits=bits, shape=weight.shape, dtype=weight.dtype)
    return ops.constant(values=tuple(float(e) for e in elements), shape=weight.shape, dtype=weight.dtype)


@contextmanager
def tracing(tracer: Tracer) -> Iterator[Tracer]:
    """Makes `tracer` the current one; ops built inside are appended to its program."""
    token = _current.set(tracer)
    tracer.ended = False
    try:
        with tracer.program.building(), user_lines():
            yield tracer
    finally:
        tracer.ended = True  # passes will rewrite the program
        _current.reset(token)


@contextmanager
def nested() -> Iterator[Tracer]:
    """A tracer of the same program, for a region whose ops are rewritten when it is complete. Tensors made inside cannot be used
    after it. Parameters cannot be assigned inside."""
    outer = current()
    tracer = copy.copy(outer)
    tracer.outer, tracer._carried = outer, set()
    token = _current.set(tracer)
    try:
        yield tracer
    finally:
        tracer.ended = True
        outer._last_constant = tracer._last_constant
        _current.reset(token)


def active() -> Tracer | None:
    """The program under construction, if there is one."""
    return _current.get()


def current() -> Tracer:
    """The program under construction. Raises TypeMismatch when there is none."""
    tracer = _current.get()
    if tracer is None:
        raise TypeMismatch(
            "no function is being traced", ["call this in a function that burn.compile or burn.jit traces"]
        )
    return tracer
