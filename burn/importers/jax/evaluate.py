"""A jaxpr becomes ops: every equation, in order, through one table of rules. Enter at `Evaluator`.

In a traced function the ops are added to its program, elsewhere they are recorded. Before anything is built, `check` walks
through the jaxpr and all jaxprs in it, and raises one ModelError that lists every primitive without a rule, with the user's
lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.extend
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from burn.dialect.complexes.pair import Complex, each
from burn.dialect.compose import number, reshape
from burn.dialect.deferred import Value
from burn.dialect.mlir import context, ir
from burn.dialect.types import TensorType, numpy_dtype, type_of
from burn.dialect.weights import array_weight
from burn.errors import BurnError, ModelError, Problem
from burn.importers.core import SHOWN
from burn.importers.jax.complexes import computes_with_complex, rule_of
from burn.importers.jax.dtypes import dtype_name, is_complex, is_key, key_shape
from burn.importers.jax.equation import SKIPPED, SUMMARY, Equation
from burn.importers.jax.locations import module_path, source_line, source_location
from burn.importers.jax.refusals import REASONS
from burn.importers.jax.sizes import Sizes
from burn.importers.jax.tracing import told
from burn.tensors import constant
from burn.tensors.tracer import active


def _is_void(eqn: Any) -> bool:
    """True if all results are float0, the cotangents of integers: they have no elements, and no other op reads them."""
    return bool(eqn.outvars) and all(getattr(v.aval, "dtype", None) == jax.dtypes.float0 for v in eqn.outvars)


class Evaluator:
    """Runs jaxprs. names: paths of constant arrays, by identity."""

    def __init__(self, sizes: Sizes, names: Mapping[int, str] | None = None) -> None:
        self.sizes = sizes
        self._names = names or {}
        self._scope: list[str] = []
        self._lines: list[str] = []

    @property
    def caller(self) -> str:
        """The user's line of the innermost call that has one: JAX's own functions have none inside."""
        return next((line for line in reversed(self._lines) if line), "")

    def type_of(self, aval: Any) -> TensorType:
        """JAX's type in burn's terms; of complex numbers, that of a part. Raises ModelError."""
        words = key_shape(aval.dtype) if is_key(aval.dtype) else ()
        return TensorType(dtype_name(aval.dtype), (*self.sizes.shape(aval.shape), *words))

    # ---- jaxprs ------------------------------------------------------------------------------------------------------
    def run(self, program: ClosedJaxpr, operands: Sequence[Value]) -> list[Value]:
        """The results of a whole program. Raises ModelError with everything that cannot be imported."""
        check(program.jaxpr)
        return self.closed(program, operands)

    def closed(self, program: ClosedJaxpr, operands: Sequence[Value], scope: str = "") -> list[Value]:
        return self.open(program.jaxpr, [self.constant(c) for c in program.consts], operands, scope)

    def open(self, jaxpr: Jaxpr, consts: Sequence[Value], operands: Sequence[Value], scope: str = "") -> list[Value]:
        """Builds the equations of a jaxpr with values for its variables."""
        values: dict[Any, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, operands, strict=True))

        def read(atom: Any) -> Value:
            return self.literal(atom) if isinstance(atom, Literal) else values[atom]

        self._scope.append(scope)
        try:
            for eqn in jaxpr.eqns:
                if _is_void(eqn):
                    continue
                results = self._equation(eqn, [read(v) for v in eqn.invars])
                values.update(zip(eqn.outvars, results, strict=True))
            return [read(v) for v in jaxpr.outvars]
        finally:
            self._scope.pop()

    def scope(self, eqn: Any) -> str:
        """The path of modules around an equation, the callers' first."""
        return ".".join(filter(None, (self._scope[-1] if self._scope else "", module_path(eqn))))

    def _equation(self, eqn: Any, operands: Sequence[Value]) -> list[Value]:
        here = Equation(eqn, self)
        with self._located(here):
            self._lines.append(source_line(eqn))
            try:
                rule = rule_of(eqn)
                assert rule is not None, f"`check` let {eqn.primitive.name} pass"
                result = here.call(rule, operands)
                results = list(result) if isinstance(result, (list, tuple)) else [result]
                return [self._fit(here, v, a.aval) for v, a in zip(results, eqn.outvars, strict=True)]
            except BurnError as error:
                if any(p.op == here.op or (p.node and p.op) for p in error.problems):
                    raise
                raise ModelError(SUMMARY, [here.located(p) for p in error.problems]) from error
            finally:
                self._lines.pop()

    def _fit(self, here: Equation, value: Value, aval: Any) -> Value:
        """Holds a rule to what JAX says of the result: element type, rank, sizes."""
        if not hasattr(aval, "shape"):  # a token
            return value
        if isinstance(value, Complex) and is_complex(aval.dtype):
            return each(value, lambda part: self._fit(here, part, aval))
        have, want = type_of(value), self.type_of(aval)
        if have == want:
            return value
        differ = any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(have.shape, want.shape, strict=False)
        )
        if have.dtype != want.dtype or have.rank != want.rank or differ:
            here.fail(f"was built as {have}, JAX gives {want}")
        return reshape(value, want.shape)

    @contextmanager
    def _located(self, here: Equation) -> Iterator[None]:
        """The module and the primitive, with the line of Python inside."""
        if active() is None:
            yield
            return
        file, line = source_location(here.eqn)
        with context():
            inner = ir.Location.file(file.rsplit("/", 1)[-1], line, 0) if file else ir.Location.unknown()
            location = ir.Location.name(".".join(filter(None, (here.name, here.op))), inner)
        with location:
            yield

    # ---- constants ---------------------------------------------------------------------------------------------------
    def literal(self, atom: Any) -> Value:
        value = np.asarray(atom.val)
        if value.ndim:
            return self.constant(atom.val)
        dtype = dtype_name(atom.aval.dtype)
        if is_complex(atom.aval.dtype):
            whole = complex(value.item())
            return Complex(number(whole.real, dtype), number(whole.imag, dtype))
        return number(bool(value) if dtype == "bool" else value.item(), dtype)

    def constant(self, array: Any) -> Value:
        """A constant array; the program reads the array's own memory."""
        name = self._names.get(id(array), "")
        if hasattr(array, "dtype") and is_key(array.dtype):
            array = jax.random.key_data(array)
        elements = np.asarray(array)
        dtype_name(elements.dtype)  # refuses what burn does not have
        if is_complex(elements.dtype):
            return Complex(
                *(self.constant(np.ascontiguousarray(part)) for part in (np.real(elements), np.imag(elements)))
            )
        tracer = active()
        if tracer is None:
            return constant(elements).value
        weight = array_weight(np.require(elements, requirements="C"))
        return tracer.constant(array, weight, name or "constant")

    # ---- functions of JAX's arrays -----------------------------------------------------------------------------------
    def expand(self, function: Callable[..., Any], avals: Sequence[Any], operands: Sequence[Value]) -> list[Value]:
        """The results of a function of JAX's arrays. avals: the types that it is traced for."""
        given = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False)) for a in avals]
        program = told(lambda: jax.make_jaxpr(function)(*given), self.caller)
        check(program.jaxpr, self.caller)
        return self.closed(program, operands, self._scope[-1] if self._scope else "")

    def elementwise(self, jaxpr: Any, consts: Sequence[Any], operands: Sequence[Value], scope: str = "") -> list[Value]:
        """The results of a jaxpr of scalars for the elements of operands of one shape."""
        function = jax.extend.core.jaxpr_as_fun(jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, consts))
        avals = [self._type_in_jax(v) for v in operands]
        for _ in avals[0].shape:
            function = jax.vmap(function)
        self._scope.append(scope)
        try:
            return self.expand(function, avals, operands)
        finally:
            self._scope.pop()

    def _type_in_jax(self, value: Value) -> Any:
        pair = isinstance(value, Complex)
        type_ = type_of(value.real if pair else value)
        dtype = np.result_type(numpy_dtype(type_.dtype), np.complex64) if pair else numpy_dtype(type_.dtype)
        return jax.ShapeDtypeStruct(tuple(map(self.sizes.to_jax, type_.shape)), dtype)


# ---- what is missing -----------------------------------------------------------------------------------------------------
def check(jaxpr: Jaxpr, caller: str = "") -> None:
    """Raises ModelError that lists every primitive without a rule. caller: the user's line around it."""
    missing: dict[tuple[str, bool], list[tuple[Any, str]]] = {}
    for eqn, line in equations(jaxpr, caller):
        if rule_of(eqn) is None:
            missing.setdefault((eqn.primitive.name, computes_with_complex(eqn)), []).append((eqn, line))
    problems = [
        Problem(
            f"is not supported{' for complex numbers' * complex_}; used {_times(eqns)}",
            op=name,
            hint=REASONS.get(name, COMPLEX_HINT if complex_ else HINT),
        )
        for (name, complex_), eqns in missing.items()
    ]
    if problems:
        raise ModelError(SUMMARY, problems)


HINT = "write it in other functions, or register a rule with burn.importers.jax.primitive"
COMPLEX_HINT = "compute with real and imaginary parts"


def _times(eqns: Sequence[tuple[Any, str]]) -> str:
    """Twice in model.py:3, model.py:7."""
    sources = list(dict.fromkeys(": ".join(filter(None, (module_path(e), line))) or "JAX itself" for e, line in eqns))
    shown = ", ".join(sources[:SHOWN]) + (f" and {len(sources) - SHOWN} more" * (len(sources) > SHOWN))
    return f"{len(eqns)} time{'s' * (len(eqns) > 1)} in {shown}"


def equations(jaxpr: Jaxpr, caller: str = "") -> Iterator[tuple[Any, str]]:
    """Every equation of a jaxpr, and of the jaxprs in its parameters that are run, with the user's line: its own, or that of the
    innermost call around it."""
    for eqn in jaxpr.eqns:
        line = source_line(eqn) or caller
        yield eqn, line
        if rule_of(eqn) is not None:
            skipped = SKIPPED.get(eqn.primitive.name, frozenset())
            for name, value in eqn.params.items():
                if name not in skipped:
                    for inner in _jaxprs(value):
                        yield from equations(inner, line)


def _jaxprs(value: Any) -> Iterator[Jaxpr]:
    if isinstance(value, ClosedJaxpr):
        yield value.jaxpr
    elif isinstance(value, Jaxpr):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _jaxprs(each)
