"""`to_jax`: a program, a function of tensors, a module or a model's file as a function of JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from burn.codegen.stablehlo.elements import carrier
from burn.codegen.stablehlo.emitter import Disagreement, Emission
from burn.codegen.stablehlo.lowering import check, entering, leaving
from burn.codegen.stablehlo.ops.shape import carried
from burn.dialect.dims import Dim, Expr, Symbol, coefficient, symbols
from burn.dialect.mlir import context
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.errors import InputError, Problem
from burn.exporters.stablehlo.export import prepared
from burn.runtime.abi import MESSAGES


class Runs(Protocol):
    """A program that runs on JAX's arrays."""

    @property
    def program(self) -> Program: ...

    @property
    def names(self) -> list[str]:
        """Of the inputs, without the random state."""
        ...

    @property
    def types(self) -> list[TensorType]: ...

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs for arrays of the declared element types, the random state included. Raises InputError for shapes that do
        not fit."""
        ...


@dataclass(frozen=True)
class Lowered:
    """A program in primitive ops, and how it runs on arrays of JAX."""

    program: Program

    @staticmethod
    def of(program: Program, calls: bool = True) -> Lowered:
        """calls: custom ops become primitives of JAX. Raises CompileError that lists everything that StableHLO does not have."""
        program = prepared(program)
        check(program, calls)
        return Lowered(program)

    @cached_property
    def names(self) -> list[str]:
        """Of the inputs, without the random state."""
        return self.program.input_names[: len(self.program.inputs) - self.program.random_state]

    @cached_property
    def types(self) -> list[TensorType]:
        with context():
            return self.program.input_types

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs for arrays of the declared element types, the random state included. Raises InputError for shapes that do
        not fit."""
        return self._emitted(arrays, checks=False)[0]

    def checked(self, arrays: Sequence[Any]) -> tuple[list[Any], tuple[Any, Any] | None, Sequence[str]]:
        """The outputs, with the failure of the first check on data (see `Emission`) and the source nodes that it numbers. None
        if the program has no checks."""
        return self._emitted(arrays, checks=True)

    def _emitted(self, arrays: Sequence[Any], checks: bool) -> tuple[list[Any], tuple[Any, Any] | None, Sequence[str]]:
        from burn.adapters.to_jax.builder import LaxBuilder

        program, b = self.program, LaxBuilder(sizes_of(self.names, self.types, arrays))

        def weight(op: Op) -> Any:
            return b.dense(carried(program.weights.get(op.key), op.dtype), carrier(op.dtype))

        emission = Emission(b, weight, checks)
        with context():
            for value, array, type_ in zip(program.inputs, arrays, self.types, strict=True):
                emission.values[value] = entering(b, array, type_.dtype)
            try:
                emission.block([operation.opview for operation in program.block.operations])
            except Disagreement as error:
                text = MESSAGES[error.status].format(value=error.value, site=error.site)
                node = "" if "{site}" in MESSAGES[error.status] else error.site
                raise InputError("the inputs do not fit the program", [Problem(text, node=node)]) from None
            types = program.output_types
            outputs = [leaving(b, emission.values[v], t.dtype) for v, t in zip(program.outputs, types, strict=True)]
            return outputs, emission.failure, emission.sites


def sizes_of(names: Sequence[str], types: Sequence[TensorType], arrays: Sequence[Any]) -> dict[str, Any]:
    """The sizes of the inputs, numbers or symbolic sizes of JAX. Raises InputError."""
    sizes: dict[str, Any] = {}
    axes: list[tuple[str, Dim, Any]] = []
    for name, type_, array in zip((*names, "random_state"), types, arrays, strict=False):
        if len(array.shape) != type_.rank:
            raise InputError(
                "the inputs do not fit the program", [f"input '{name}' has {len(array.shape)} axes: {type_}"]
            )
        axes += [
            (f"input '{name}' axis {axis}", dim, size)
            for axis, (dim, size) in enumerate(zip(type_.shape, array.shape, strict=True))
        ]
    for _, dim, size in axes:
        if isinstance(dim, Expr) and dim.is_symbol:
            sizes.setdefault(str(dim), size)
    from burn.adapters.to_jax.builder import LaxBuilder

    for _, dim, size in axes:
        unknown = sorted(symbols(dim) - sizes.keys())
        if len(unknown) == 1:
            factor = coefficient(dim, Symbol(unknown[0]))
            if isinstance(factor, int):
                rest = LaxBuilder(sizes).size(dim - Expr.of(Symbol(unknown[0])) * factor)
                sizes[unknown[0]] = (size - rest) // factor
    for where, dim, size in axes:
        if symbols(dim) <= sizes.keys():
            wanted = LaxBuilder(sizes).size(dim)
            if isinstance(wanted, int) and isinstance(size, int) and wanted != size:
                raise InputError(
                    "the inputs do not fit the program", [f"{where} has size {size}, not {wanted} ({dim})"]
                )
    return sizes


@dataclass(frozen=True)
class Backward:
    """burn's own derivative of a program. Its inputs are the forward program's first ones (`count`), the cotangents of its
    outputs numbered `outputs`, and the forward program's inputs numbered `parameters`. Its outputs are the gradients of the
    inputs numbered `wanted`."""

    lowered: Runs
    count: int
    outputs: Sequence[int]
    parameters: Sequence[int]
    wanted: Sequence[int]


def function_of(
    lowered: Runs, backward: Backward | None, shaped: Callable[[list[Any]], Any], parameters: Sequence[str] = ()
) -> Callable[..., Any]:
    """The function of JAX. It takes the program's inputs by position or name, or with `parameters` a dictionary of the last
    inputs, by these names, and then the others. shaped: what it returns for the outputs."""
    import jax

    names, types = lowered.names, lowered.types
    random = lowered.program.random_state
    count = len(names) - len(parameters)

    def forward(arrays: Sequence[Any]) -> list[Any]:
        with jax.enable_x64(True):
            return lowered(arrays)

    compute = forward if backward is None else _with_derivative(forward, lowered, backward)

    def run(given: Sequence[Any], state: Any) -> Any:
        arrays = [_array(v, n, t) for v, n, t in zip(given, names, types, strict=False)]
        if random:
            if state is None:
                hint = "random_state=(seed, number of the run), or an array of two integers"
                raise InputError("the program draws random numbers", [Problem("it takes a random state", hint=hint)])
            with jax.enable_x64(True):
                arrays.append(jax.numpy.asarray(state).astype(np.uint64).reshape(2))
        elif state is not None:
            raise InputError("the program draws no random numbers", ["leave out random_state"])
        return shaped([_canonical(x) for x in compute(arrays)])

    def called(*inputs: Any, random_state: Any = None, **by_name: Any) -> Any:
        return run(_ordered(names, inputs, by_name), random_state)

    def with_parameters(params: Mapping[str, Any], *inputs: Any, random_state: Any = None, **by_name: Any) -> Any:
        missing = [name for name in parameters if name not in params]
        if missing:
            raise InputError("parameters are missing", missing)
        given = _ordered(names[:count], inputs, by_name)
        return run([*given, *(params[name] for name in parameters)], random_state)

    return with_parameters if parameters else called


def _ordered(names: Sequence[str], args: tuple[Any, ...], by_name: dict[str, Any]) -> list[Any]:
    if len(args) > len(names):
        raise InputError("the inputs do not fit the program", [f"{len(args)} were given, there are {len(names)}"])
    given = dict(zip(names, args, strict=False))
    problems = [f"there is no input '{name}'" for name in by_name if name not in names]
    problems += [f"input '{name}' was given twice" for name in by_name if name in given]
    given |= by_name
    problems += [f"input '{name}' is missing" for name in names if name not in given]
    if problems:
        raise InputError("the inputs do not fit the program", problems)
    return [given[name] for name in names]


def _array(value: Any, name: str, type_: TensorType) -> Any:
    """An input in its declared element type. Where JAX holds 64-bit types in 32 bits, such an array is accepted for them."""
    import jax

    wanted = np.dtype(numpy_dtype(type_.dtype))
    if not hasattr(value, "dtype"):
        value = np.asarray(value, wanted)
    if value.dtype != wanted and value.dtype != jax.dtypes.canonicalize_dtype(wanted):
        raise InputError("the inputs do not fit the program", [f"input '{name}' is {value.dtype}, not {type_.dtype}"])
    with jax.enable_x64(True):
        return jax.numpy.asarray(value, wanted)


def _canonical(x: Any) -> Any:
    """A result in the type that JAX's setting has for its own."""
    import jax

    to = jax.dtypes.canonicalize_dtype(x.dtype)
    return x if to == x.dtype else jax.lax.convert_element_type(x, to)


# ---- burn's own derivative ---------------------------------------------------------------------------------------------
def _with_derivative(
    compute: Callable[[Sequence[Any]], list[Any]], lowered: Runs, backward: Backward
) -> Callable[[Sequence[Any]], list[Any]]:
    import jax

    def forward(arrays: Sequence[Any]) -> tuple[list[Any], Sequence[Any]]:
        return compute(arrays), arrays

    def back(arrays: Sequence[Any], cotangents: list[Any]) -> tuple[list[Any]]:
        state = arrays[len(lowered.names) :] if backward.lowered.program.random_state else []
        of_outputs = (cotangents[i] for i in backward.outputs)
        given = [*arrays[: backward.count], *of_outputs, *(arrays[i] for i in backward.parameters), *state]
        with jax.enable_x64(True):
            found = backward.lowered(given)[: len(backward.wanted)]  # next values of parameters may follow
        gradients = [_none(x) for x in arrays]
        for number, gradient in zip(backward.wanted, found, strict=True):
            gradients[number] = gradient
        return (gradients,)

    function = jax.custom_vjp(compute)
    function.defvjp(forward, back)
    return function


def _none(x: Any) -> Any:
    """The cotangent of a value that has no gradient."""
    import jax

    if jax.numpy.issubdtype(x.dtype, jax.numpy.floating):
        return jax.numpy.zeros(x.shape, x.dtype)
    return np.zeros(x.shape, jax.dtypes.float0)
