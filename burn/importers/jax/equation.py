"""The argument of a primitive's rule: one equation of a jaxpr. Enter at `Equation` and `primitive`.

    @primitive("reduce_sum")
    def reduce_sum(eqn: Equation, x: Value, *, axes: Sequence[int], out_sharding: Any) -> Value:
        return reduce(x, "sum", axes)

A rule takes the equation, its operands as values, and the primitive's parameters by name. Every parameter must be named: one
that a rule does not name is refused, unless it is in `IRRELEVANT`, or says nothing (None, False, an empty tuple). It returns one
value, or a list for a primitive with several results. Typed keys are uint32 values with the axes of a key's words at the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.types import TensorType
from burn.errors import ModelError, Problem
from burn.importers.jax.dtypes import dtype_name, is_key, key_shape
from burn.importers.jax.locations import source_line

if TYPE_CHECKING:
    from burn.importers.jax.evaluate import Evaluator

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
"""A primitive's name -> its rule."""

SKIPPED: dict[str, frozenset[str]] = {}
"""A primitive's name -> its parameters with jaxprs that are not run."""

IRRELEVANT = frozenset({"precision", "accuracy", "name", "unroll", "indices_are_sorted", "unique_indices", "is_stable"})
"""Parameters that ask for speed, or for no less accuracy than there is; sorts are stable."""

SUMMARY = "the JAX program cannot be imported"


def primitive(*names: str) -> Callable[[Rule], Rule]:
    """Enters a rule into the table under one or more primitives."""

    def register(rule: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has two rules")
            RULES[name] = rule
        return rule

    return register


@dataclass
class Equation:
    """One equation: JAX's own (`eqn`), and the evaluator that runs it."""

    eqn: Any
    evaluator: Evaluator

    @property
    def op(self) -> str:
        return self.eqn.primitive.name

    @property
    def name(self) -> str:
        """The module that the call is in, such as encoder.Dense_0."""
        return self.evaluator.scope(self.eqn)

    def problem(self, message: str, hint: str = "") -> Problem:
        where = ": ".join(filter(None, (self.name, source_line(self.eqn) or self.evaluator.caller)))
        return Problem(message, node=where, op=self.op, hint=hint)

    def located(self, problem: Problem) -> Problem:
        return problem if problem.op == self.op else self.problem(problem.message, problem.hint)

    def fail(self, message: str, hint: str = "") -> NoReturn:
        raise ModelError(SUMMARY, [self.problem(message, hint)])

    # ---- types -------------------------------------------------------------------------------------------------------
    def aval(self, index: int = 0) -> Any:
        """JAX's type of a result."""
        return self.eqn.outvars[index].aval

    def operand(self, index: int) -> Any:
        """JAX's type of an operand."""
        return self.eqn.invars[index].aval

    def type_of(self, aval: Any) -> TensorType:
        return self.evaluator.type_of(aval)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Of the first result, with the axes of keys."""
        return self.type_of(self.aval()).shape

    @property
    def dtype(self) -> str:
        return dtype_name(self.aval().dtype)

    def sizes(self, sizes: Any) -> tuple[Dim, ...]:
        return self.evaluator.sizes.shape(sizes)

    def key_axes(self, index: int = 0) -> tuple[int, ...]:
        """The sizes of the axes that the words of an operand's keys have; () unless it holds keys."""
        dtype = self.operand(index).dtype
        return key_shape(dtype) if is_key(dtype) else ()

    # ---- other programs ----------------------------------------------------------------------------------------------
    def expand(self, function: Callable[..., Any], *operands: Value) -> Any:
        """Traces a function of JAX's arrays for the operands' types, and returns the list of its results."""
        return self.evaluator.expand(function, [v.aval for v in self.eqn.invars], operands)

    def inner(self, jaxpr: Any, operands: Any) -> list[Value]:
        """The results of another jaxpr of the program."""
        return self.evaluator.closed(jaxpr, operands, self.name)

    def elementwise(self, jaxpr: Any, operands: Any, consts: Any = ()) -> list[Value]:
        """The results of a jaxpr of scalars for the elements of operands of one shape."""
        return self.evaluator.elementwise(jaxpr, consts, operands, self.name)

    def with_parameters(self, **changed: Any) -> Equation:
        """The equation with other values of some parameters."""
        return Equation(self.eqn.replace(params={**self.eqn.params, **changed}), self.evaluator)

    def call(self, rule: Rule, operands: Any) -> Any:
        """Calls a rule with the parameters. Raises ModelError for one that it does not take."""
        params = dict(self.eqn.params)
        signature = inspect.signature(rule).parameters
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.values()):
            for name in [n for n in params if n not in signature]:
                value = params.pop(name)
                if name not in IRRELEVANT and not _says_nothing(value):
                    self.fail(f"the parameter {name}={value!r} is not supported")
        return rule(self, *operands, **params)


def _says_nothing(value: Any) -> bool:
    return (
        value is None or value is False or (isinstance(value, (tuple, list)) and not any(v is not None for v in value))
    )
