"""Custom ops as primitives of JAX: `bound`.

A call is one equation of a jaxpr, `burn_custom`, with the op's name, the digest of its version and its attributes. The importer
makes the op of it again. JAX itself runs a program of burn's on the host, by `jax.pure_callback`, which copies operands and
results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from burn.custom.foreign import inferred
from burn.dialect import custom
from burn.dialect.types import FLOATS
from burn.errors import Problem, TypeMismatch
from burn.runtime.dtypes import numpy_dtype
from burn.tensors import constant
from burn.tensors.creation import zeros_like

if TYPE_CHECKING:
    from burn.custom.op import CustomOp

FORWARD, BACKWARD = "burn_custom", "burn_custom_backward"
"""The primitives: operands -> results, and (operands, results, cotangents of float results) -> cotangents of float operands."""


def bound(op: CustomOp) -> Callable[..., Any]:
    """The op as a function of JAX's arrays. It has the derivative of the op in reverse mode, once."""

    def function(*operands: Any, **attributes: Any) -> Any:
        version = op.version.lacking(operands)
        settings = custom.encoded(custom.complete(version, attributes))
        params = {"called": op.name, "key": version.key, "settings": settings}
        results = _differentiable(params)(*(jax.numpy.asarray(x) for x in operands if x is not None))
        return results[0] if len(results) == 1 else tuple(results)

    function.__name__, function.__doc__ = op.__name__, op.__doc__
    return function


def bind(definition: custom.Definition, settings: str, operands: Sequence[Any]) -> list[Any]:
    """The results of a version of an op with attributes as JSON, of JAX's arrays."""
    return list(_differentiable({"called": definition.name, "key": definition.key, "settings": settings})(*operands))


def _differentiable(params: dict[str, Any]) -> Callable[..., list[Any]]:
    """The primitive with its derivative: what `jax.custom_vjp` needs besides is a rule for it alone."""

    def forward(*operands: Any) -> list[Any]:
        return list(_forward.bind(*operands, **params))

    version: Any = custom.version(params["called"], params["key"])
    if not version.has_derivative:
        return forward

    def kept(*operands: Any) -> tuple[list[Any], Any]:
        results = forward(*operands)
        return results, (operands, results)

    def backward(saved: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        operands, results = saved
        given = [g for g, y in zip(cotangents, results, strict=True) if _is_float(y)]
        found = iter(_backward.bind(*operands, *results, *given, operands=len(operands), **params))
        return tuple(next(found) if _is_float(x) else np.zeros(x.shape, jax.dtypes.float0) for x in operands)

    function = jax.custom_vjp(forward)
    function.defvjp(kept, backward)
    return function


def _is_float(x: Any) -> bool:
    return str(x.dtype) in FLOATS


# ---- types ---------------------------------------------------------------------------------------------------------------
def _types(*operands: Any, called: str, key: str, settings: str) -> list[Any]:
    version: Any = custom.version(called, key)
    given = [(str(x.dtype), x.shape) for x in operands]
    made = []
    for number, (dtype, shape) in enumerate(inferred(version, given, custom.decoded(settings), partial(_same, called))):
        wanted = np.dtype(numpy_dtype(dtype))
        if jax.dtypes.canonicalize_dtype(wanted) != wanted:
            hint = 'call jax.config.update("jax_enable_x64", True)'
            problem = Problem(f"result {number} is {dtype}, and JAX computes in 32 bits", op=called, hint=hint)
            raise TypeMismatch(f"{called} cannot be called from JAX", [problem])
        made.append(jax.core.ShapedArray(shape, wanted))
    return made


def _same(called: str, have: Any, want: Any) -> None:
    if have != want:
        raise TypeMismatch(f"{called}: sizes that must be equal are {have} and {want}")


def _types_backward(*values: Any, operands: int, **params: Any) -> list[Any]:
    return [jax.core.ShapedArray(x.shape, x.dtype) for x in values[:operands] if _is_float(x)]


# ---- JAX's own runs ------------------------------------------------------------------------------------------------------
def _run(*operands: Any, called: str, key: str, settings: str) -> list[np.ndarray]:
    tensors = [constant(np.asarray(x)) for x in operands]
    version: Any = custom.version(called, key)
    return [np.asarray(t.numpy()) for t in version.recorded(tensors, custom.decoded(settings))]


def _run_backward(*values: Any, operands: int, called: str, key: str, settings: str) -> list[np.ndarray]:
    version: Any = custom.version(called, key)
    tensors = [constant(np.asarray(x)) for x in values]
    count = len(version.infer([t.type for t in tensors[:operands]], custom.decoded(settings)))
    given, results, rest = tensors[:operands], tensors[operands : operands + count], iter(tensors[operands + count :])
    cotangents = [next(rest) if y.dtype in FLOATS else None for y in results]
    found = version.backward(given, results, cotangents, custom.decoded(settings))
    return [
        np.asarray((zeros_like(x) if g is None else g).numpy())
        for x, g in zip(given, found, strict=True)
        if x.dtype in FLOATS
    ]


def _made(name: str, types: Callable[..., list[Any]], run: Callable[..., list[np.ndarray]]) -> Primitive:
    made = Primitive(name)
    made.multiple_results = True
    made.def_abstract_eval(types)

    def called_back(*values: Any, **params: Any) -> Any:
        results = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types(*values, **params)]
        return jax.pure_callback(partial(run, **params), results, *values)

    def mapped(values: Sequence[Any], axes: Sequence[int | None], **params: Any) -> Any:
        """One example after the other."""
        moved = [x if a is None else jax.numpy.moveaxis(x, a, 0) for x, a in zip(values, axes, strict=True)]
        batched = [x for x, a in zip(moved, axes, strict=True) if a is not None]

        def one(rows: Sequence[Any]) -> Any:
            rest = iter(rows)
            return made.bind(*(x if a is None else next(rest) for x, a in zip(moved, axes, strict=True)), **params)

        results = jax.lax.map(one, batched)
        return results, [0] * len(results)

    made.def_impl(lambda *values, **params: jax.jit(partial(made.bind, **params))(*values))
    mlir.register_lowering(made, mlir.lower_fun(called_back, multiple_results=True))
    batching.primitive_batchers[made] = mapped
    return made


_forward = _made(FORWARD, _types, _run)
_backward = _made(BACKWARD, _types_backward, _run_backward)
