"""`burn.<name>(x, ...)`: the methods of `Tensor` as functions, and the functions that are not methods.

    burn.exp(x)           burn.maximum(0.0, x)          burn.concat([x, y], axis=1)

A function made here converts its first argument (a tensor, a number, a list or an array) to a tensor,
and calls the method of the same name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from burn.tensors import Tensor, attending, complexes, concatenation, creation, grids, promotion, signals, special
from burn.tensors.aliases import accepting
from burn.tensors.promotion import first_operand

NO_FUNCTIONS = frozenset({
    "numpy", "item", "tolist", "evaluate",  # about the tensor itself
    "to", "to_device", "cpu", "float", "double", "half", "bfloat16", "int", "bool",
    "where", "trace",  # arguments in another order (below); burn.linalg.trace, since burn.tracing.trace makes programs
})  # fmt: skip
"""Methods that are not functions of this module."""

FREE: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        creation.full, creation.zeros, creation.ones, creation.full_like, creation.zeros_like, creation.ones_like,
        creation.arange, creation.linspace, creation.logspace, creation.eye, creation.tri, creation.meshgrid,
        creation.one_hot, creation.asarray, promotion.from_dlpack, creation.broadcast_tensors, concatenation.concat,
        concatenation.stack, concatenation.hstack, concatenation.vstack, concatenation.where, concatenation.einsum,
        attending.scaled_dot_product_attention, complexes.complex, complexes.polar, complexes.real, complexes.imag,
        complexes.is_complex, special.erfc, special.erfinv, special.lgamma, special.digamma, special.polygamma, signals.var_mean,
        signals.cov, signals.corrcoef, signals.histogram, signals.interp, signals.convolve, signals.cdist, signals.segment_sum,
        grids.grid_sample, grids.affine_grid,
    )
} | {"concatenate": concatenation.concat, "cat": concatenation.concat}  # fmt: skip
"""Functions that are not methods."""


def methods() -> list[str]:
    """The methods of `Tensor` that are functions here, sorted."""
    return sorted(n for n in dir(Tensor) if not n.startswith("_") and inspect.isfunction(getattr(Tensor, n)))


NAMES = tuple(sorted({name for name in methods() if name not in NO_FUNCTIONS} | FREE.keys()))
"""Every function here."""


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in NAMES:
        raise AttributeError(f"there is no function burn.{name}")
    made = globals()[name] = accepting(FREE[name]) if name in FREE else _function(name)
    return made


def __dir__() -> list[str]:
    return list(NAMES)


def _function(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def function(x: Any, *arguments: Any, **options: Any) -> Any:
        return method(first_operand(x, arguments), *arguments, **options)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "burn"
    function.__doc__ = method.__doc__
    own, *rest = inspect.signature(method).parameters.values()
    first = own.replace(name="x", annotation="Tensor", kind=inspect.Parameter.POSITIONAL_ONLY)
    function.__signature__ = inspect.signature(method).replace(parameters=[first, *rest])  # type: ignore[attr-defined]
    return function
