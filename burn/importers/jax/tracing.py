"""JAX functions become jaxprs: `traced`, and the derivative of one, `differentiated`.

Operands and results of these jaxprs are real: complex numbers are pairs [.., 2] there, which the jaxpr itself joins and takes
apart. A derivative with respect to a complex operand is therefore the pair of those with respect to both parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.extend
import numpy as np
from jax import lax, tree_util

from burn.errors import BurnError, ModelError, Problem
from burn.importers.jax.dtypes import is_complex, part_dtype


@dataclass(frozen=True)
class Program:
    """A jaxpr of flat operands, and the structure of its results. Complex numbers are pairs."""

    jaxpr: Any
    results: Any
    shapes: tuple[Any, ...]
    """JAX's types of the function's own results."""


SUMMARY = "the JAX function cannot be traced"


def traced(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Program:
    """The program of a call. Leaves of the arguments are types (`jax.ShapeDtypeStruct`), arrays or numbers; arguments that a
    jitted function declares static are used as they are. Raises ModelError with JAX's own message."""
    jitted = function if hasattr(function, "trace") else jax.jit(function)
    made = told(lambda: jitted.trace(*args, **kwargs), name_of(function))
    leaves, structure = tree_util.tree_flatten(made.out_info)
    operands = [jax.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t in made.jaxpr.in_avals]
    if not any(is_complex(t.dtype) for t in (*operands, *leaves)):
        return Program(made.jaxpr, structure, tuple(leaves))
    run = jax.extend.core.jaxpr_as_fun(made.jaxpr)

    def of_pairs(*pairs: Any) -> list[Any]:
        return list(map(paired, run(*(unpaired(x, t.dtype) for x, t in zip(pairs, operands, strict=True)))))

    jaxpr = told(lambda: jax.make_jaxpr(of_pairs)(*map(paired_type, operands)), name_of(function))
    return Program(jaxpr, structure, tuple(leaves))


def paired(x: Any) -> Any:
    """A complex array as its pairs [.., 2]; any other as it is."""
    return lax.stack([lax.real(x), lax.imag(x)], axis=x.ndim) if is_complex(x.dtype) else x


def unpaired(x: Any, dtype: Any) -> Any:
    """The reverse of `paired` for an array of this type."""
    if not is_complex(dtype):
        return x
    return lax.complex(*(lax.index_in_dim(x, i, axis=-1, keepdims=False) for i in (0, 1)))


def paired_type(type_: Any) -> Any:
    if not is_complex(type_.dtype):
        return type_
    return jax.ShapeDtypeStruct((*type_.shape, 2), part_dtype(type_.dtype))


def told(call: Callable[[], Any], name: str) -> Any:
    """Calls, and raises ModelError instead of JAX's errors."""
    try:
        return call()
    except BurnError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        short = text if len(text) < 400 else text[:400] + " .."
        raise ModelError(SUMMARY, [Problem(f"JAX raised {type(error).__name__}: {short}", node=name)]) from error


def name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


@dataclass(frozen=True)
class Derivative:
    """A function's programs for differentiation, as JAX makes them.

    forward: flat operands -> float results, other results, residuals. backward: residuals, cotangents of the float results ->
    cotangents of the float operands. floats: which results are floats."""

    forward: Any
    backward: Any
    floats: tuple[bool, ...]
    wanted: tuple[int, ...]
    """The numbers of the float operands."""


def is_float(dtype: Any) -> bool:
    return jax.dtypes.issubdtype(dtype, np.floating)


def is_inexact(dtype: Any) -> bool:
    """True for floats and complex numbers."""
    return is_float(dtype) or is_complex(dtype)


def differentiated(program: Program, types: Sequence[Any], name: str) -> Derivative:
    """The derivative of a program with respect to its float operands, by JAX's rules and the user's own. types: of the flat
    operands. Raises ModelError where JAX has no derivative."""
    types = [paired_type(t) for t in types]
    wanted = tuple(i for i, t in enumerate(types) if is_float(t.dtype))
    floats = tuple(is_float(t.dtype) for t in program.jaxpr.out_avals)
    run = jax.extend.core.jaxpr_as_fun(program.jaxpr)

    def parts(*operands: Any) -> tuple[list[Any], list[Any]]:
        results = run(*operands)
        return (
            [r for r, f in zip(results, floats, strict=True) if f],
            [r for r, f in zip(results, floats, strict=True) if not f],
        )

    kinds: list[Any] = []  # the structure of residuals, and their element types: they are pairs between the programs

    def forward(*operands: Any) -> Any:
        def of_floats(*own: Any) -> Any:
            given = list(operands)
            for i, x in zip(wanted, own, strict=True):
                given[i] = x
            return parts(*given)

        results, pull, rest = jax.vjp(of_floats, *(operands[i] for i in wanted), has_aux=True)
        kept, structure = tree_util.tree_flatten(pull)
        kinds[:] = [structure, *(x.dtype for x in kept)]
        return results, list(map(paired, kept)), rest

    forward_jaxpr, shapes = told(lambda: jax.make_jaxpr(forward, return_shape=True)(*types), name)
    results, residuals, _ = shapes
    structure, *dtypes = kinds

    def backward(kept: Any, cotangents: Any) -> Any:
        whole = [unpaired(x, dtype) for x, dtype in zip(kept, dtypes, strict=True)]
        return tree_util.tree_unflatten(structure, whole)(cotangents)

    backward_jaxpr = told(lambda: jax.make_jaxpr(backward)(residuals, results), name)
    return Derivative(forward_jaxpr, backward_jaxpr, floats, wanted)


@dataclass(frozen=True)
class Pullback:
    """A program of a jaxpr's operands and the cotangents of some results, for the cotangents of its float operands.

    wanted: the numbers of the float operands."""

    jaxpr: Any
    wanted: tuple[int, ...]


def pullback(jaxpr: Any, given: Sequence[bool], name: str) -> Pullback:
    """given: the results that have cotangents. Raises ModelError where JAX has no derivative."""
    wanted = tuple(i for i, t in enumerate(jaxpr.in_avals) if is_float(t.dtype))
    run, count = jax.extend.core.jaxpr_as_fun(jaxpr), len(jaxpr.in_avals)

    def function(*operands: Any) -> Any:
        def of_floats(*own: Any) -> list[Any]:
            filled = list(operands[:count])
            for i, x in zip(wanted, own, strict=True):
                filled[i] = x
            return [r for r, used in zip(run(*filled), given, strict=True) if used]

        return jax.vjp(of_floats, *(operands[i] for i in wanted))[1](list(operands[count:]))

    types = [*jaxpr.in_avals, *(t for t, used in zip(jaxpr.out_avals, given, strict=True) if used)]
    shapes = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types]
    return Pullback(told(lambda: jax.make_jaxpr(function)(*shapes), name), wanted)
