"""Control flow: cond, switch, while and scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.complexes.pair import Complex, each, leaves, rebuilt
from burn.dialect.compose import reshape
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim, dim_max
from burn.dialect.types import type_of
from burn.importers.jax.complexes import zeros
from burn.importers.jax.dtypes import is_complex
from burn.importers.jax.equation import Equation, primitive
from burn.importers.lax.reduction import reduce
from burn.importers.lax.scalars import full, like
from burn.importers.lax.shaping import rev
from burn.tensors.base import made
from burn.tensors.control import cond as if_
from burn.tensors.control import loop


def _tensors(values: Sequence[Any]) -> list[Any]:
    """The values as tensors; complex ones are two."""
    return [made(v) for v in leaves(values)]


def _values(tensors: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """The values of variables of a jaxpr."""
    return rebuilt([t.value for t in tensors], [is_complex(v.aval.dtype) for v in variables])


@primitive("cond")
def cond(eqn: Equation, index: Value, *operands: Value, branches: Sequence[Any], **params: Any) -> list[Value]:
    """Branch number `index`, clamped. A bool chooses between two."""
    if type_of(index).dtype == "bool":
        index = ops.cast(index, dtype="int32")
    return _values(_chosen(eqn, index, branches, operands, 0), eqn.eqn.outvars)


def _chosen(eqn: Equation, index: Value, branches: Sequence[Any], operands: Sequence[Value], first: int) -> list[Any]:
    def here() -> tuple[Any, ...]:
        return tuple(_tensors(eqn.inner(branches[0], operands)))

    def rest() -> tuple[Any, ...]:
        return tuple(_chosen(eqn, index, branches[1:], operands, first + 1))

    if len(branches) == 1 or not eqn.eqn.outvars:
        return list(here())
    return list(if_(made(ops.le(index, like(first, index))), here, rest))


@primitive("platform_index")
def platform_index(eqn: Equation, **params: Any) -> Value:
    """`jax.lax.platform_dependent`: the branch of the CPU, or the default."""
    platforms = params.get("platforms", ())
    found = [number for number, names in enumerate(platforms) if names is None or "cpu" in names]
    if not found:
        eqn.fail("it has no branch for the CPU and no default")
    return full(eqn.type_of(eqn.aval()), found[0])


@primitive("while")
def while_(
    eqn: Equation, *operands: Value, cond_nconsts: int, cond_jaxpr: Any, body_nconsts: int, body_jaxpr: Any
) -> list[Value]:
    of_cond = operands[:cond_nconsts]
    of_body = operands[cond_nconsts : cond_nconsts + body_nconsts]
    state = operands[cond_nconsts + body_nconsts :]
    variables = eqn.eqn.outvars

    def holds(values: Sequence[Value]) -> Value:
        return eqn.inner(cond_jaxpr, [*of_cond, *values])[0]

    def going(values: Sequence[Value]) -> Any:
        """True while the condition holds for any of the loops that vmap made one."""
        condition = holds(values)
        return made(reduce(condition, "or", range(type_of(condition).rank)))

    def step(iteration: Any, go_on: Any, *carried: Any) -> tuple[Any, ...]:
        before = _values(carried, variables)
        new = eqn.inner(body_jaxpr, [*of_body, *before])
        if cond_jaxpr.out_avals[0].shape:  # a loop that has ended keeps its state
            condition = holds(before)
            pairs = zip(leaves(new), leaves(before), strict=True)
            return going(new), *(made(ops.select(_spread(condition, n), n, b)) for n, b in pairs)
        return going(new), *_tensors(new)

    if not state:
        return []
    return _values(loop(step, _tensors(state), condition=going(state)), variables)


def _spread(condition: Value, x: Value) -> Value:
    """A condition of the leading axes, for all of x."""
    shape = type_of(condition).shape
    return reshape(condition, (*shape, *(1,) * (type_of(x).rank - len(shape))))


@primitive("scan")
def scan(
    eqn: Equation,
    *operands: Value,
    length: Any,
    jaxpr: Any,
    reverse: bool,
    num_consts: int = 0,
    num_carry: int = 0,
    ft_in: Any = None,
    ft_out: Any = None,
) -> list[Value]:
    if ft_in is not None:  # from JAX 0.11 on: the operands' structure (constants, carry, rows)
        num_consts, num_carry = (len(part) for part in ft_in.unpack()[:2])
    consts = operands[:num_consts]
    carry = operands[num_consts : num_consts + num_carry]
    xs = operands[num_consts + num_carry :]
    count: Dim = eqn.sizes((length,))[0]
    if reverse:
        xs = tuple(_each(x, lambda part: rev(part, (0,))) for x in xs)
    variables = eqn.eqn.outvars
    if count == 0:
        return [*carry, *(zeros(eqn, v.aval) for v in variables[num_carry:])]

    def step(iteration: Any, going: Any, *carried: Any) -> tuple[Any, ...]:
        rows = [_each(x, lambda part: ops.gather(part, iteration.value, axis=0)) for x in xs]
        before = _values(carried, variables[:num_carry])
        return going, *_tensors(eqn.inner(jaxpr, [*consts, *before, *rows]))

    results = _values(loop(step, _tensors(carry), trips=dim_max(0, count), scans=None), variables)
    ys = results[num_carry:]
    return [*results[:num_carry], *((_each(y, lambda part: rev(part, (0,))) for y in ys) if reverse else ys)]


def _each(value: Any, function: Callable[[Value], Value]) -> Any:
    return each(value, function) if isinstance(value, Complex) else function(value)
