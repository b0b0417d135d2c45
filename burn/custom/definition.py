"""One version of a custom op: its types, bodies and derivative, as `burn.dialect.custom.Definition` has them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from burn.custom.digest import of_function
from burn.custom.native import CBody
from burn.custom.signature import Inference, Text
from burn.dialect import custom
from burn.dialect.compose import check_equal, reshape
from burn.dialect.copies import copy_ops
from burn.dialect.custom import Settings
from burn.dialect.deferred import Deferred
from burn.dialect.dims import Dim
from burn.dialect.locations import current_site
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import FLOATS, TensorType, type_of
from burn.errors import Problem, TypeMismatch
from burn.tensors import Tensor, constant
from burn.tensors.base import made
from burn.tensors.creation import zeros_like
from burn.tensors.gradients import vjp
from burn.tensors.tracer import Tracer, active, tracing

KEY = 32
"""Characters of a digest that names a version."""


@dataclass(frozen=True, eq=False)
class Version:
    """See `burn.dialect.custom.Definition`. parameters: the values of its tuning parameters. absent: the numbers of optional
    operands that the op lacks: such a version is an op of the other operands, and its bodies get None for these."""

    name: str
    types: Inference | Text
    parameters: Mapping[str, Any]
    functions: Callable[..., Any] | None = None
    c: CBody | None = None
    python: Callable[..., Any] | None = None
    triton: Callable[..., Any] | None = None
    derivative: Callable[..., Any] | None = None
    batching: Callable[..., Any] | None = None
    absent: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """The digest of its types, bodies, derivative and parameters."""
        return self._key

    @cached_property
    def _key(self) -> str:
        identity = self.types.identity
        parts = [self.name, identity if isinstance(identity, str) else of_function(identity)]
        parts += [repr(sorted(self.types.attributes.items(), key=str)), repr(sorted(self.parameters.items()))]
        for kind in ("functions", "python", "triton", "derivative", "batching"):
            function = getattr(self, kind)
            parts.append(f"{kind} {of_function(function) if function is not None else ''}")
        parts.append(f"c {self.c.digest if self.c is not None else ''}")
        parts += [f"absent {self.absent}"] * bool(self.absent)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:KEY]

    def lacking(self, operands: Sequence[Any]) -> Version:
        """The version for a call whose operands may be None, or end early. Raises TypeMismatch for one that is not optional."""
        absent = [number for number, x in enumerate(operands) if x is None]
        absent += [number for number in sorted(self.types.optional) if number >= len(operands)]
        return self.but(absent)

    def but(self, absent: Sequence[int]) -> Version:
        """The version without operands of these numbers."""
        if not absent:
            return self
        if wrong := sorted(set(absent) - self.types.optional):
            self._wrong(f"operand {wrong[0]} is not optional")
        made_ = replace(
            self,
            absent=tuple(absent),
            c=self.c and replace(self.c, absent=tuple(absent), operands=self.types.most or 0),
        )
        custom.define(made_)
        return made_

    def complete(self, operands: Sequence[Any]) -> list[Any]:
        """Operands with None for those that are absent."""
        rest = iter(operands)
        count = len(operands) + len(self.absent)
        return [None if number in self.absent else next(rest) for number in range(count)]

    @property
    def symbol(self) -> str:
        """The name of the C body's function in compiled code."""
        return f"burn_custom_{self.key}"

    @property
    def bodies(self) -> frozenset[str]:
        return frozenset(kind for kind in ("c", "triton", "functions", "python") if getattr(self, kind) is not None)

    @property
    def attributes(self) -> Mapping[str, Any]:
        return self.types.attributes

    @property
    def has_derivative(self) -> bool:
        return self.derivative is not None or self.functions is not None

    @property
    def has_rule(self) -> bool:
        return self.derivative is not None

    @property
    def has_batching(self) -> bool:
        return self.batching is not None

    def infer(self, operands: Sequence[TensorType], settings: Settings) -> list[TensorType]:
        return self.types.infer(self.complete(operands), settings)

    def agreements(self, operands: Sequence[TensorType]) -> list[tuple[Dim, Dim]]:
        return self.types.agreements(self.complete(operands))

    def recorded(self, operands: Sequence[Tensor], settings: Settings) -> list[Tensor]:
        """The op on tensors, as one op."""
        return [made(value) for value in custom.build(self, [t.value for t in operands], settings)]

    # ---- the body of burn functions ------------------------------------------------------------------------------------
    def called(self, operands: Sequence[Tensor], settings: Settings) -> list[Tensor]:
        """The results of the body of burn functions. Raises TypeMismatch unless they are of the op's types."""
        assert self.functions is not None
        result = self.functions(*self.complete(operands), **settings, **self.parameters)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        types = self.infer([t.type for t in operands], settings)
        if len(results) != len(types):
            self._wrong(f"its burn functions returned {len(results)} results; its types say {len(types)}")
        return [self._fitted(number, constant(r), t) for number, (r, t) in enumerate(zip(results, types, strict=True))]

    def _fitted(self, number: int, result: Tensor, type_: TensorType) -> Tensor:
        have = result.type
        pairs = list(zip(have.shape, type_.shape, strict=False))
        differ = any(a != b and isinstance(a, int) and isinstance(b, int) for a, b in pairs)
        if have.dtype != type_.dtype or have.rank != type_.rank or differ:
            self._wrong(f"its burn functions returned {have} as result {number}; its types say {type_}")
        if have.shape == type_.shape:
            return result
        check_equal(have.shape, type_.shape, f"a size of result {number} of {self.name}")
        return made(reshape(result.value, type_.shape))

    def _wrong(self, message: str) -> None:
        raise TypeMismatch(f"{self.name}: {message}", [Problem(message, node=current_site(self.name), op=self.name)])

    def expand(
        self, operands: Sequence[ir.Value], settings: Settings, program: Program, taken: set[str]
    ) -> list[ir.Value]:
        """See `Definition`."""
        return self._built(operands, lambda tensors: self.called(tensors, settings), program, taken)

    def _built(
        self,
        operands: Sequence[ir.Value],
        function: Callable[[Sequence[Tensor]], Sequence[Tensor | None]],
        program: Program | None,
        taken: set[str] | None = None,
    ) -> list[Any]:
        """Builds what a function of tensors records, at the insertion point. program: the one that it is built in, which holds
        constants of more than a few elements. taken: names of sizes; those of new sizes are added."""
        inputs = [(f"operand {i}", type_of(v)) for i, v in enumerate(operands)]
        tracer = Tracer(inputs, None if program is None else program.weights)
        tracer.reserve(taken or ())
        with tracing(tracer):
            found = [None if t is None else t.value for t in function(tuple(map(made, tracer.program.inputs)))]
        if taken is not None:
            taken |= tracer.reserved
        if tracer.parameters:
            self._wrong(f"its burn functions read the parameter '{tracer.parameters[0].name}': pass it as an operand")
        if tracer.program.random_state:
            self._wrong("its burn functions draw random numbers: pass these as an operand")
        if program is None and len(tracer.program.weights):
            self._wrong("its derivative holds an array of many elements: pass it as an operand")
        copies: dict[Any, ir.Value] = dict(zip(tracer.program.inputs, operands, strict=True))
        copy_ops([o.operation for o in tracer.program.block.operations], copies)
        return [None if v is None else copies[v] for v in found]

    def inlined(self, operands: Sequence[ir.Value], settings: Settings) -> list[ir.Value]:
        """See `Definition`."""
        tracer = active()
        assert tracer is not None
        taken = set(tracer.reserved)
        found = self._built(operands, lambda tensors: self.called(tensors, settings), tracer.program, taken)
        tracer.reserve(taken)
        return found

    # ---- batches -------------------------------------------------------------------------------------------------------
    def batched(
        self,
        size: Dim,
        mapped: Sequence[bool],
        operands: Sequence[Any],
        types: Sequence[TensorType],
        settings: Settings,
    ) -> list[Any]:
        """See `Definition`. Raises TypeMismatch unless the rule returns the results of all examples."""
        assert self.batching is not None
        flags = tuple(bool(flag) for flag in self.complete(mapped))
        made_ = self.batching(size, flags, *self.complete(list(map(made, operands))), **settings)
        found = list(made_) if isinstance(made_, (tuple, list)) else [made_]
        wanted = [type_.with_shape((size, *type_.shape)) for type_ in types]
        if len(found) != len(wanted):
            self._wrong(f"its batching rule returned {len(found)} results; its types say {len(wanted)}")
        tensors = [constant(each) for each in found]
        for number, (tensor, type_) in enumerate(zip(tensors, wanted, strict=True)):
            if tensor.type != type_:
                self._wrong(
                    f"its batching rule returned {tensor.type} as result {number}, which is {type_} of all examples"
                )
        return [tensor.value for tensor in tensors]

    # ---- the derivative ------------------------------------------------------------------------------------------------
    def transposed(
        self, operands: Sequence[Any], results: Sequence[Any], cotangents: Sequence[Any], settings: Settings
    ) -> list[Any]:
        """See `Definition`."""
        given = [g for g in cotangents if g is not None]

        def function(tensors: Sequence[Tensor]) -> list[Tensor | None]:
            rest = iter(tensors)
            mine, own = [next(rest) for _ in operands], [next(rest) for _ in results]
            return self.backward(mine, own, [None if g is None else next(rest) for g in cotangents], settings)

        values = [*operands, *results, *given]
        if active() is not None or any(isinstance(v, Deferred) for v in values):
            return [None if t is None else t.value for t in function(tuple(map(made, values)))]
        return self._built(values, function, None)

    def backward(
        self,
        operands: Sequence[Tensor],
        results: Sequence[Tensor],
        cotangents: Sequence[Tensor | None],
        settings: Settings,
    ) -> list[Tensor | None]:
        """The cotangents of operands. Raises TypeMismatch unless each has its operand's type."""
        if self.derivative is None:
            return self._derived(operands, cotangents, settings)
        every = tuple(g if g is not None else zeros_like(y) for g, y in zip(cotangents, results, strict=True))
        one = len(results) == 1
        made_ = self.derivative(
            every[0] if one else every, results[0] if one else tuple(results), *self.complete(operands), **settings
        )
        found = list(made_) if isinstance(made_, (tuple, list)) else [made_]
        count = len(operands) + len(self.absent)
        if len(found) != count:
            self._wrong(f"its derivative returned {len(found)} cotangents for {count} operands")
        found = [g for number, g in enumerate(found) if number not in self.absent]
        tensors: list[Tensor | None] = []
        for number, (g, x) in enumerate(zip(found, operands, strict=True)):
            g = None if g is None else constant(g)
            if g is not None and (g.type.dtype != x.type.dtype or g.type.shape != x.type.shape):
                self._wrong(f"its derivative returned {g.type} as the cotangent of operand {number}, which is {x.type}")
            tensors.append(g)
        return tensors

    def _derived(
        self, operands: Sequence[Tensor], cotangents: Sequence[Tensor | None], settings: Settings
    ) -> list[Tensor | None]:
        """By the body of burn functions."""
        floats = [number for number, x in enumerate(operands) if x.dtype in FLOATS]
        wanted = [number for number, g in enumerate(cotangents) if g is not None]

        def function(*given: Tensor) -> tuple[Tensor, ...]:
            of = list(operands)
            for number, tensor in zip(floats, given, strict=True):
                of[number] = tensor
            results = self.called(of, settings)
            return tuple(results[number] for number in wanted)

        _, back = vjp(function, *(operands[number] for number in floats))
        found: list[Tensor | None] = [None] * len(operands)
        for number, g in zip(floats, back(tuple(cotangents[n] for n in wanted)), strict=True):
            found[number] = g
        return found
