"""A JAX function as a function of burn's tensors. Enter at `wrapped`.

    f = burn.from_jax(jax_function)
    y = f(x) + 1                      # lazy, or part of a traced function: burn.compile, burn.jit, burn.grad take it

JAX traces the function for the tensors' types, and the jaxpr becomes ops (burn/importers/jax). Its derivative is JAX's: the
jaxprs of `jax.vjp`, with custom_vjp, custom_jvp and checkpoints in them.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import tree_util

from burn.adapters.jax.derivatives import Differentiable
from burn.adapters.jax.parameters import Parameters, separated
from burn.dialect.compose import convert, number
from burn.dialect.deferred import Value
from burn.dialect.types import numpy_dtype
from burn.errors import Problem, TypeMismatch
from burn.importers.jax.dtypes import dtype_name, further_shape, is_complex, is_key, part_dtype
from burn.importers.jax.evaluate import Evaluator
from burn.importers.jax.ops import calls  # noqa: F401  enters the rules
from burn.importers.jax.sizes import Sizes
from burn.importers.jax.tracing import Program, is_inexact, name_of, traced
from burn.tensors import Tensor, constant
from burn.tensors.base import Base, made

KEPT = 64
"""Programs that a function keeps."""


@dataclass(frozen=True, eq=False)
class Typed:
    """A tensor that has another type in JAX. For typed keys it has their words (uint32), for complex numbers their parts
    (float32[.., 2]). For a Python number `weak` is True: arrays decide the type of a result."""

    tensor: Tensor
    dtype: Any
    weak: bool = False

    @property
    def type(self) -> Any:
        return self.tensor.type

    @property
    def further(self) -> int:
        """The number of axes that a key's words or a complex number's parts have."""
        return len(further_shape(self.dtype))

    def numpy(self) -> Any:
        """The elements: of keys, their words."""
        return joined(self.tensor.numpy(), self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.numpy(), dtype)


@dataclass(frozen=True)
class _Kept:
    program: Program
    sizes: Sizes
    types: tuple[Any, ...]


class JaxFunction:
    """A JAX function that takes burn's tensors, alone or in pytrees, and returns them.

    function: takes `parameters.tree` first, if there are parameters. static: names of arguments that JAX is given as they are."""

    def __init__(self, function: Callable[..., Any], parameters: Parameters | None = None) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function, self.parameters = function, parameters
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    @property
    def signature(self) -> inspect.Signature:
        """Of the call, without the parameters. Raises TypeMismatch where Python does not tell."""
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            generic = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
            return inspect.Signature([generic])
        taken = 0 if self.parameters is None else self.parameters.form.taken
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        own = list(signature.parameters.values())
        for _ in range(taken):
            own = own[1:] if own and own[0].kind in kinds else own
        return signature.replace(parameters=own)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with tensors, arrays and numbers. Raises ModelError with everything that burn does not have, and
        where JAX refuses the call; TypeMismatch for a function that changes its state."""
        given = [] if self.parameters is None else list(self.parameters.arrays)
        result, changed = self.applied(given, args, kwargs)
        if self.parameters is not None and changed:
            hint = "compile it as it infers, such as after model.eval(); burn.compile(.., train=True) keeps its state"
            problems = [Problem(f"it changes '{self.parameters.names[i]}'", hint=hint) for i in changed]
            raise TypeMismatch(f"{name_of(self.function)} has a state", problems)
        return result

    def applied(
        self, parameters: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any], mode: bool | None = None
    ) -> tuple[Any, dict[int, Any]]:
        """The call with other parameters (tensors or arrays), in the order of `parameters.arrays`, and the new values of those
        that it changes, by number. mode: as for `Form.call`."""
        leaves, structure = tree_util.tree_flatten((tuple(args), dict(kwargs)), is_leaf=_is_tensor)
        arrays = [leaf for leaf in leaves if _is_array(leaf)]
        rest = tuple(None if _is_array(leaf) else leaf for leaf in leaves)
        moving = [_is_array(leaf) for leaf in leaves]
        count = len(parameters)

        def flat(*operands: Any) -> Any:
            own, found = operands[:count], iter(operands[count:])
            filled = [next(found) if m else r for m, r in zip(moving, rest, strict=True)]
            args, kwargs = tree_util.tree_unflatten(structure, filled)
            if self.parameters is None:
                return self.function(*args, **kwargs), {}
            return self.parameters.call(self.function, own, args, kwargs, mode)

        functools.update_wrapper(flat, self.function, updated=())
        operands = [_operand(leaf) for leaf in (*parameters, *arrays)]
        kept = self._program(flat, operands, (structure, rest, tuple(moving), mode))
        results = self._run(kept, operands)
        return tree_util.tree_unflatten(kept.program.results, results)

    def _program(self, flat: Callable[..., Any], operands: Sequence[Any], key: Any) -> _Kept:
        own = tuple(_identity(v) for v in operands)
        whole = (key, own, jax.config.read("jax_enable_x64"))
        try:
            known = self._kept.get(whole)
        except TypeError:  # an argument without a hash
            known, whole = None, None
        if known is not None:
            return known
        sizes = Sizes()
        types = tuple(_type(v, sizes) for v in operands)
        kept = _Kept(traced(flat, types, {}), sizes, types)
        if whole is not None:
            self._kept[whole] = kept
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return kept

    def _run(self, kept: _Kept, operands: Sequence[Any]) -> list[Any]:
        evaluator = Evaluator(kept.sizes, self._names())
        values = [_value(v, t, evaluator) for v, t in zip(operands, kept.types, strict=True)]
        if any(isinstance(v, (Base, Typed)) and is_inexact(t.dtype) for v, t in zip(operands, kept.types, strict=True)):
            results = Differentiable(evaluator, kept.program, kept.types, name_of(self.function))(values)
        else:
            results = list(map(made, evaluator.run(kept.program.jaxpr, values)))
        return [
            Typed(r, t.dtype) if further_shape(t.dtype) else r
            for r, t in zip(results, kept.program.shapes, strict=True)
        ]

    def _names(self) -> dict[int, str]:
        if self.parameters is None:
            return {}
        return {id(a): n for a, n in zip(self.parameters.arrays, self.parameters.names, strict=True)}

    def __repr__(self) -> str:
        return f"burn.from_jax({name_of(self.function)})"


# ---- operands --------------------------------------------------------------------------------------------------------------
def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Base, Typed))


def _is_array(value: Any) -> bool:
    return isinstance(value, (Base, Typed, np.ndarray, np.generic, jax.Array))


def _identity(value: Any) -> tuple[Any, ...]:
    """The part of a cache's key that an operand is."""
    if isinstance(value, Typed):
        return value.type, value.dtype, value.weak
    return (value.type,) if isinstance(value, Base) else (value.shape, value.dtype)


def _operand(value: Any) -> Any:
    return value._present() if isinstance(value, Base) else value


def _type(value: Any, sizes: Sizes) -> Any:
    """An operand's type in JAX's terms: int64 and float64 are 32 bits wide unless x64 is on."""
    if isinstance(value, Typed):
        shape = tuple(map(sizes.to_jax, value.type.shape[: value.type.rank - value.further]))
        return jax.ShapeDtypeStruct(shape, value.dtype, weak_type=value.weak)
    if isinstance(value, Base):
        shape = tuple(map(sizes.to_jax, value.type.shape))
        return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(numpy_dtype(value.dtype)))
    if is_key(value.dtype):
        return jax.ShapeDtypeStruct(value.shape, value.dtype)
    return jax.ShapeDtypeStruct(value.shape, jax.dtypes.canonicalize_dtype(value.dtype))


def _value(operand: Any, type_: Any, evaluator: Evaluator) -> Value:
    if isinstance(operand, Typed):
        operand = operand.tensor
    if isinstance(operand, Base):
        return convert(constant(operand).value, dtype_name(type_.dtype))
    if is_complex(operand.dtype):
        operand = apart(np.asarray(operand))
    return convert(evaluator.constant(operand), dtype_name(type_.dtype))


def apart(elements: Any) -> Any:
    """numpy's complex array as its parts [.., 2], over the same memory."""
    elements = np.require(elements, requirements="C")
    return elements.reshape(-1).view(part_dtype(elements.dtype)).reshape(*elements.shape, 2)


def joined(elements: Any, dtype: Any) -> Any:
    """The reverse of `apart` for an array of JAX's type; any other as it is."""
    if not is_complex(dtype):
        return elements
    return np.require(elements, requirements="C").reshape(-1).view(dtype).reshape(elements.shape[:-1])


def wrapped(function: Any, parameters: Any = None, state: Any = None) -> JaxFunction:
    """As `burn.from_jax`."""
    if isinstance(function, JaxFunction) and parameters is None and state is None:
        return function
    if not callable(function):
        problem = Problem(f"not a {type(function).__name__}", hint="give a function or a module")
        raise TypeMismatch("burn.from_jax takes a function of JAX's arrays", [problem])
    own, found = separated(function, parameters, state)
    return JaxFunction(own, found)


def as_function(function: Any) -> JaxFunction:
    return function if isinstance(function, JaxFunction) else wrapped(function)


def scalar(value: Any) -> Value:
    """A Python number as JAX's default type for it."""
    return number(value, dtype_name(jax.dtypes.canonicalize_dtype(np.result_type(type(value)))))
