"""Compiled JAX functions: called as the function is, with JAX's arrays, they return what it would. Enter at
`compile_function`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import tree_util

from burn.adapters.jax.function import JaxFunction, Typed, apart, joined
from burn.adapters.jax.parameters import named
from burn.caching import executable
from burn.dialect.program import Program
from burn.dialect.spec import spec
from burn.dialect.types import PARTS, TensorType, numpy_dtype
from burn.errors import InputError, Problem, TypeMismatch
from burn.importers.jax.dtypes import is_complex, is_key
from burn.options import Options
from burn.runtime import Executable
from burn.runtime.arrays import Array
from burn.tensors import Tensor, trees
from burn.tensors.base import Base, made
from burn.tensors.tracer import Tracer, tracing
from burn.tracing.arguments import Arguments, bound, described, donated_names

Dynamic = Mapping[Any, Any]


@dataclass(frozen=True)
class Called:
    """One kind of call: its tensors' types by name, and what it is made of."""

    types: dict[str, TensorType]
    structure: Any
    """Of (args, kwargs)."""
    fixed: tuple[Any, ...]
    """The leaves that are no tensors; `ARRAY` at tensors."""
    owners: tuple[str, ...]
    """The argument that each tensor is in."""
    kinds: tuple[tuple[Any, bool] | None, ...]
    """JAX's element type of a `Typed` tensor, and whether it is weak; None for other tensors."""

    def filled(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        found = iter(tensors)
        leaves = [next(found) if leaf is ARRAY else leaf for leaf in self.fixed]
        return tree_util.tree_unflatten(self.structure, leaves)


ARRAY: Any = object()


def called(function: JaxFunction, examples: Any, kwargs: Mapping[str, Any] | None, dynamic: Dynamic | None) -> Called:
    """The call that examples describe: arrays, types ("float32[batch, 3]"), numbers, in pytrees; by position or by name.
    Raises TypeMismatch."""
    signature = function.signature
    if examples is None and any(p.default is p.empty for p in signature.parameters.values()) and not kwargs:
        hint = 'give example_inputs, such as ("float32[batch, 3]",)'
        raise TypeMismatch("what inputs the function takes is not known", [hint])
    if isinstance(examples, Mapping):
        args, by_name = (), {**examples, **(kwargs or {})}
    elif isinstance(examples, (tuple, list)) and not hasattr(examples, "_fields"):
        args, by_name = tuple(examples), dict(kwargs or {})
    else:
        args, by_name = () if examples is None else (examples,), dict(kwargs or {})
    given = bound(signature, args, by_name, getattr(function, "__name__", "the function"))
    if not args:  # as JAX's functions are called: by position where that is possible
        args, by_name = _by_position(signature, by_name)
    kinds: list[Any] = []
    for name, value in given.items():
        _refuse_types(name, value)
    nested = {name: _nested(value, kinds) for name, value in given.items()}
    described_ = described(signature, nested, dynamic or {}, _is_input)
    leaves, structure = tree_util.tree_flatten((args, by_name), is_leaf=_is_input)
    fixed = tuple(ARRAY if _is_input(leaf) else leaf for leaf in leaves)
    return Called(described_.types, structure, fixed, _owners(described_), tuple(kinds))


def _refuse_types(name: str, value: Any) -> None:
    """Raises TypeMismatch for float64 or complex128 that is asked for while JAX computes in 32 bits, and for complex tensors of
    burn's, which are not computed with."""
    for leaf in tree_util.tree_leaves(value, is_leaf=_is_input):
        dtype = leaf.partition("[")[0].strip() if isinstance(leaf, str) else str(getattr(leaf, "dtype", ""))
        if isinstance(leaf, Base) and dtype in PARTS:
            problem = Problem("a complex tensor", node=name, hint="give an array of JAX or numpy")
            raise TypeMismatch("a JAX function cannot be compiled", [problem])
        narrow = {"float64": "float32", "complex128": "complex64"}.get(dtype)
        if narrow and isinstance(leaf, (str, TensorType)) and not jax.config.read("jax_enable_x64"):
            hint = f'call jax.config.update("jax_enable_x64", True), or say {narrow}'
            problem = Problem(f"{dtype}, and JAX computes in 32 bits", node=name, hint=hint)
            raise TypeMismatch("a JAX function cannot be compiled", [problem])


def _by_position(signature: inspect.Signature, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, rest = [], dict(given)
    for name, parameter in signature.parameters.items():
        if name not in rest or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            break
        args.append(rest.pop(name))
    return tuple(args), rest


def _owners(arguments: Arguments) -> tuple[str, ...]:
    return tuple(n for n, s in zip(arguments.names, arguments.structures, strict=True) for _ in trees.paths(s))


def _is_input(value: Any) -> bool:
    if isinstance(value, str):
        return "[" in value
    return isinstance(value, (TensorType, Base, np.ndarray, np.generic, jax.Array, jax.ShapeDtypeStruct)) or (
        isinstance(value, (int, float, complex)) and not isinstance(value, bool)
    )


def _nested(value: Any, kinds: list[Any]) -> Any:
    """A pytree as dictionaries by the names of its keys, with the types of its leaves."""
    pairs, _ = tree_util.tree_flatten_with_path(value, is_leaf=_is_input)
    if len(pairs) == 1 and not pairs[0][0]:
        return _typed(value, kinds)
    whole: dict[str, Any] = {}
    for path, leaf in pairs:
        inner = whole
        parts = [named((key,)) for key in path]
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
        inner[parts[-1]] = _typed(leaf, kinds)
    return whole


def _typed(leaf: Any, kinds: list[Any]) -> Any:
    """An input's type: keys are their words, complex numbers their parts, and wide numbers are narrow unless x64 is on."""
    if not _is_input(leaf):
        return leaf
    dtype = getattr(leaf, "dtype", None)
    if dtype is not None and isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)) and is_key(dtype):
        kinds.append((dtype, False))
        return TensorType("uint32", (*leaf.shape, *dtype._impl.key_shape))
    if isinstance(leaf, (int, float, complex)) and not isinstance(leaf, np.generic):
        name = _narrow(np.result_type(type(leaf)))
        kinds.append((np.dtype(name), True))
        return _real(TensorType(name, ()))
    if isinstance(leaf, (np.ndarray, np.generic, jax.Array, jax.ShapeDtypeStruct)):
        type_ = TensorType(_narrow(np.dtype(dtype)), tuple(leaf.shape))
    elif isinstance(leaf, TensorType) or (isinstance(leaf, str) and leaf.strip().startswith(tuple(PARTS))):
        type_ = spec(leaf)
    else:
        kinds.append(None)
        return leaf.type if isinstance(leaf, Base) else leaf
    kinds.append((np.dtype(type_.dtype), False) if type_.dtype in PARTS else None)
    return _real(type_)


def _real(type_: TensorType) -> TensorType:
    """A type of complex numbers as that of their parts [.., 2]; any other as it is."""
    return TensorType(PARTS[type_.dtype], (*type_.shape, 2)) if type_.dtype in PARTS else type_


def _narrow(dtype: Any) -> str:
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype)).name


# ---- programs --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Built:
    """A program, and the structure of its results. kinds: the element types of results that are typed keys or complex."""

    program: Program
    results: Any
    kinds: tuple[Any, ...]


def build(function: Callable[..., Any], call: Called) -> Built:
    """The program of a call. Raises ModelError with everything that cannot be imported."""
    tracer = Tracer(list(call.types.items()))
    with tracing(tracer):
        operands = [
            made(v) if k is None else Typed(made(v), *k) for v, k in zip(tracer.program.inputs, call.kinds, strict=True)
        ]
        args, kwargs = call.filled(operands)
        result = function(*args, **kwargs)
        pairs, structure = tree_util.tree_flatten_with_path(result, is_leaf=_is_tensor)
        kinds = tuple(leaf.dtype if isinstance(leaf, Typed) else None for _, leaf in pairs)
        tensors = [leaf.tensor if isinstance(leaf, Typed) else leaf for _, leaf in pairs]
        values = [t.value for t in tensors]
    names = [named(path) for path, _ in pairs]
    single = len(names) == 1 and not names[0]
    by_position = [f"output_{n}" if n.split(".")[0].isdigit() else n for n in names]
    outputs = ["output"] if single else by_position
    return Built(tracer.program.finish(list(zip(outputs, values, strict=True))), structure, kinds)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Base, Typed))


def program_of(function: JaxFunction, examples: Any, dynamic: Dynamic | None = None) -> Program:
    """The program of a JAX function for inputs that are described as for `compile_function`."""
    return build(function, called(function, examples, None, dynamic)).program


def compile_function(
    function: JaxFunction,
    examples: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Dynamic | None = None,
    options: Options | None = None,
    donate: Sequence[int | str] = (),
) -> CompiledJax:
    """Compiles a JAX function for examples or types. Parameters are constants. Raises ModelError with everything that cannot be
    imported."""
    call = called(function, examples, kwargs, dynamic)
    built = build(function, call)
    names = list(dict.fromkeys(call.owners))
    wanted = donated_names(donate, names)
    built.program.given_up = tuple(i for i, owner in enumerate(call.owners) if owner in wanted)
    return CompiledJax(executable(built.program, options), function, call, built)


class CompiledJax:
    """An executable with a JAX function's calling convention.

    JAX's arrays are passed through their own memory. If an argument is one, or none is an array at all, results are JAX's arrays
    over the executable's outputs. burn's tensors give tensors, and numpy's arrays numpy's. `executable` is the plain program:
    arrays in, arrays out, by the names of `inputs`."""

    def __init__(self, executable: Executable, function: JaxFunction, call: Called, built: Built) -> None:
        self.executable = executable
        self._function, self._call, self._built = function, call, built

    @property
    def inputs(self) -> tuple[Any, ...]:
        return self.executable.inputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        return self.executable.outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function. Raises InputError if the arguments differ in structure or type from the examples, and RunError."""
        leaves = self._leaves(args, kwargs)
        wanted = zip(leaves, self.executable.inputs, self._call.kinds, strict=True)
        arrays = [_array(leaf, spec, kind) for leaf, spec, kind in wanted]
        results = self.executable(*arrays)
        listed = results if isinstance(results, tuple) else (results,)
        as_jax = not any(isinstance(leaf, (np.ndarray, Base)) for leaf in leaves) or any(
            isinstance(leaf, jax.Array) for leaf in leaves
        )
        shown = [_shown(r, k, as_jax) for r, k in zip(listed, self._built.kinds, strict=True)]
        return tree_util.tree_unflatten(self._built.results, shown)

    def _leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors of a call, in the order of the inputs."""
        if not args or kwargs:
            given = dict(kwargs)
            try:
                given = bound(self._function.signature, args, kwargs)
            except TypeMismatch as error:
                raise InputError(error.summary, error.problems) from None
            args, kwargs = _by_position(self._function.signature, given)
        leaves, structure = tree_util.tree_flatten((tuple(args), dict(kwargs)), is_leaf=_is_tensor)
        if structure != self._call.structure or any(
            fixed is not ARRAY and fixed != leaf for fixed, leaf in zip(self._call.fixed, leaves, strict=False)
        ):
            text = f"the arguments are made as {structure}, the examples as {self._call.structure}"
            raise InputError("these arguments are not what the function was compiled for", [Problem(text)])
        return [leaf for leaf, fixed in zip(leaves, self._call.fixed, strict=True) if fixed is ARRAY]

    def _repr_html_(self) -> str:
        return self.executable._repr_html_()

    def __repr__(self) -> str:
        return f"CompiledJax({self.executable!r})"


def _array(leaf: Any, spec: Any, kind: Any) -> Any:
    """An argument as the executable takes it. Raises InputError for a real one that stands for complex numbers."""
    dtype = spec.dtype
    if kind is not None and is_complex(kind[0]):
        elements = np.asarray(leaf)
        if elements.dtype.kind != "c" and not kind[1]:
            problem = Problem(f"{elements.dtype} elements, not {kind[0]}", node=spec.name)
            raise InputError("these arguments are not what the function was compiled for", [problem])
        if kind[1] or _narrow(elements.dtype) == kind[0].name:  # as JAX narrows it
            elements = elements.astype(kind[0], copy=False)
        return apart(elements)
    if isinstance(leaf, jax.Array):
        if is_key(leaf.dtype):
            leaf = jax.random.key_data(leaf)
        return leaf if leaf.is_fully_addressable and leaf.dtype != bool else np.asarray(leaf)
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.name != dtype and _narrow(leaf.dtype) == dtype:
        return np.asarray(leaf).astype(numpy_dtype(dtype))  # as JAX narrows it
    return leaf


def _shown(result: Any, kind: Any, as_jax: bool) -> Any:
    if is_complex(kind):
        elements = joined(np.asarray(result.numpy() if isinstance(result, Tensor) else result), kind)
        return jax.numpy.asarray(elements) if as_jax else elements
    if not as_jax and kind is None:
        return result
    array = result if isinstance(result, jax.Array) else _as_jax(result)
    return jax.random.wrap_key_data(array, impl=kind._impl.name) if is_key(kind) else array


def _as_jax(result: Any) -> Any:
    """An output as a JAX array, over its own memory where DLPack has the type."""
    if isinstance(result, Tensor):
        result = result.numpy()
    try:
        given = result if isinstance(result, Array) else Array(np.asarray(result))
        return jax.dlpack.from_dlpack(given)
    except (BufferError, TypeError, ValueError, RuntimeError, jax.errors.JaxRuntimeError):
        return jax.numpy.asarray(np.asarray(result))
