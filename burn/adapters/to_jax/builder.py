"""StableHLO's ops as calls of `jax.lax`: the builder for emitters (`burn.codegen.stablehlo`) that JAX can transform.

Sizes may be those of `jax.export.symbolic_shape`. Values have burn's element types: calls are inside of `jax.enable_x64(True)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from burn.codegen.stablehlo.builder import Builder, Convolution, GatherAxes
from burn.dialect.custom import Definition
from burn.dialect.dims import Atom, Dim, Symbol, interpret
from burn.dialect.types import DTYPES, numpy_dtype
from burn.errors import CompileError, Problem

Array = Any

UNARY: dict[str, Callable[[Array], Array]] = {
    "not": lax.bitwise_not,
    "negate": lax.neg,
    "abs": lax.abs,
    "sign": lax.sign,
    "floor": lax.floor,
    "ceil": lax.ceil,
    "round_nearest_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "sqrt": lax.sqrt,
    "rsqrt": lax.rsqrt,
    "exponential": lax.exp,
    "exponential_minus_one": lax.expm1,
    "log": lax.log,
    "log_plus_one": lax.log1p,
    "sine": lax.sin,
    "cosine": lax.cos,
    "tan": lax.tan,
    "tanh": lax.tanh,
    "logistic": lax.logistic,
    "chlo.asin": lax.asin,
    "chlo.acos": lax.acos,
    "chlo.atan": lax.atan,
    "chlo.sinh": lax.sinh,
    "chlo.cosh": lax.cosh,
    "chlo.asinh": lax.asinh,
    "chlo.acosh": lax.acosh,
    "chlo.atanh": lax.atanh,
    "chlo.erf": lax.erf,
}

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": lax.add,
    "subtract": lax.sub,
    "multiply": lax.mul,
    "divide": lax.div,
    "remainder": lax.rem,
    "power": lax.pow,
    "minimum": lax.min,
    "maximum": lax.max,
    "atan2": lax.atan2,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "shift_left": lax.shift_left,
    "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
}

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": lax.eq,
    "NE": lax.ne,
    "LT": lax.lt,
    "LE": lax.le,
    "GT": lax.gt,
    "GE": lax.ge,
}

SCATTERS: dict[str, Callable[..., Array]] = {
    "set": lax.scatter,
    "add": lax.scatter_add,
    "multiply": lax.scatter_mul,
    "minimum": lax.scatter_min,
    "maximum": lax.scatter_max,
}

CUMULATIVE: dict[str, Callable[..., Array]] = {
    "add": lax.cumsum,
    "multiply": lax.cumprod,
    "minimum": lax.cummin,
    "maximum": lax.cummax,
    "and": lax.cummin,
    "or": lax.cummax,
}

_SIZES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": lambda a, b: min(a, b) if isinstance(a, int) and isinstance(b, int) else jax.core.min_dim(a, b),
    "max": lambda a, b: max(a, b) if isinstance(a, int) and isinstance(b, int) else jax.core.max_dim(a, b),
}


class LaxBuilder(Builder):
    """sizes: an int or a symbolic size of JAX for each symbol."""

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        self.sizes = sizes

    # ---- sizes and types -----------------------------------------------------------------------------------------------
    def size(self, dim: Dim) -> Any:
        return interpret(dim, self._symbol, int, self._of_sizes)

    def _symbol(self, atom: Atom) -> Any:
        assert isinstance(atom, Symbol)
        return self.sizes[atom.name]

    @staticmethod
    def _of_sizes(op: str, a: Any, b: Any) -> Any:
        if op != "broadcast":
            return _SIZES[op](a, b)
        if isinstance(a, int) and a == 1:
            return b
        if (isinstance(b, int) and b == 1) or a == b:
            return a
        if isinstance(a, int) and isinstance(b, int):
            raise ValueError(f"sizes {a} and {b} do not broadcast")
        hint = "give both sizes one name in the inputs' shapes"
        raise CompileError("the program cannot be traced by JAX", [Problem(f"{a} and {b} may differ", hint=hint)])

    def shape_of(self, x: Array) -> tuple[Any, ...]:
        return x.shape

    def dtype_of(self, x: Array) -> str:
        return _name(x.dtype)

    # ---- constants -----------------------------------------------------------------------------------------------------
    def full(self, value: float | int | bool, shape: Sequence[Any], dtype: str) -> Array:
        return lax.full(tuple(shape), _number(value, dtype), numpy_dtype(dtype))

    def dense(self, array: np.ndarray, dtype: str) -> Array:
        return jax.numpy.asarray(array, numpy_dtype(dtype))

    def iota(self, shape: Sequence[Any], axis: int, dtype: str) -> Array:
        return lax.broadcasted_iota(numpy_dtype(dtype), tuple(shape), axis)

    def size_value(self, size: Any, dtype: str = "int64") -> Array:
        return jax.numpy.asarray(size, numpy_dtype(dtype))

    # ---- elementwise ---------------------------------------------------------------------------------------------------
    def unary(self, op: str, x: Array) -> Array:
        return UNARY[op](x)

    def binary(self, op: str, x: Array, y: Array) -> Array:
        return BINARY[op](x, y)

    def compare(self, relation: str, x: Array, y: Array) -> Array:
        return COMPARISONS[relation](x, y)

    def select(self, condition: Array, x: Array, y: Array) -> Array:
        return lax.select_n(condition, y, x)

    def convert(self, x: Array, dtype: str) -> Array:
        return lax.convert_element_type(x, numpy_dtype(dtype))

    def bitcast(self, x: Array, dtype: str) -> Array:
        return lax.bitcast_convert_type(x, numpy_dtype(dtype))

    def parts(self, x: Array) -> tuple[Array, Array]:
        return lax.real(x), lax.imag(x)

    def complex(self, re: Array, im: Array) -> Array:
        return lax.complex(re, im)

    def constant(self, x: Array) -> Array:
        return lax.stop_gradient(x)

    def custom(self, definition: Definition, settings: str, operands: Sequence[Array]) -> list[Array]:
        from burn.custom.jax_primitive import bind

        return bind(definition, settings, operands)

    # ---- movement ------------------------------------------------------------------------------------------------------
    def broadcast_in_dim(self, x: Array, shape: Sequence[Any], axes: Sequence[int]) -> Array:
        """A symbolic size that is another one within a bound, such as min(512, n) where n is at most 512, is taken for it."""
        for own, axis in enumerate(axes):
            have, want = x.shape[own], shape[axis]
            if not (isinstance(have, int) and isinstance(want, int)) and have != want and have != 1:
                x = jax.numpy.take(x, jax.numpy.arange(want), axis=own, mode="fill")
        return lax.broadcast_in_dim(x, tuple(shape), tuple(axes))

    def reshape(self, x: Array, shape: Sequence[Any]) -> Array:
        return lax.reshape(x, tuple(shape))

    def transpose(self, x: Array, permutation: Sequence[int]) -> Array:
        return lax.transpose(x, tuple(permutation))

    def slice(self, x: Array, starts: Sequence[Any], limits: Sequence[Any], strides: Sequence[int]) -> Array:
        return lax.slice(x, tuple(starts), tuple(limits), tuple(strides))

    def reverse(self, x: Array, axes: Sequence[int]) -> Array:
        return lax.rev(x, tuple(axes))

    def pad(self, x: Array, value: Array, low: Sequence[Any], high: Sequence[Any], interior: Sequence[int]) -> Array:
        return lax.pad(x, value, list(zip(low, high, interior, strict=True)))

    def concat(self, xs: Sequence[Array], axis: int) -> Array:
        return lax.concatenate(list(xs), axis)

    # ---- contractions and reductions -----------------------------------------------------------------------------------
    def dot_general(
        self,
        x: Array,
        y: Array,
        batch: tuple[Sequence[int], Sequence[int]],
        contract: tuple[Sequence[int], Sequence[int]],
        dtype: str,
    ) -> Array:
        numbers = ((tuple(contract[0]), tuple(contract[1])), (tuple(batch[0]), tuple(batch[1])))
        precision = lax.Precision.HIGHEST if self.dtype_of(x) == "float32" else None
        return lax.dot_general(x, y, numbers, precision=precision, preferred_element_type=numpy_dtype(dtype))

    def convolution(self, x: Array, weight: Array, form: Convolution, dtype: str) -> Array:
        spatial = "DHW"[-len(form.strides) :]
        if form.last:
            numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
        else:
            numbers = (f"NC{spatial}", f"OI{spatial}", f"NC{spatial}")
        return lax.conv_general_dilated(
            self.convert(x, dtype),  # JAX differentiates no convolution whose sums are wider than its operands
            self.convert(weight, dtype),
            form.strides,
            list(form.pads),
            rhs_dilation=form.dilations,
            dimension_numbers=numbers,
            feature_group_count=form.groups,
            precision=lax.Precision.HIGHEST if dtype == "float32" else None,
        )

    def reduce(self, op: str, x: Array, initial: float | int | bool, axes: Sequence[int]) -> Array:
        return lax.reduce(x, np.asarray(_number(initial, self.dtype_of(x)), x.dtype), BINARY[op], tuple(axes))

    def reduce_window(
        self,
        op: str,
        x: Array,
        initial: float | int | bool,
        window: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: Sequence[tuple[Any, Any]],
    ) -> Array:
        first = np.asarray(_number(initial, self.dtype_of(x)), x.dtype)
        sizes = tuple(window), tuple(strides), tuple(pads)
        return lax.reduce_window(x, first, BINARY[op], *sizes, window_dilation=tuple(dilations))

    def cumulative(self, op: str, x: Array, initial: float | int | bool, axis: int, reverse: bool) -> Array:
        if x.dtype != np.bool_:
            return CUMULATIVE[op](x, axis, reverse)
        return CUMULATIVE[op](x.astype(np.uint8), axis, reverse).astype(np.bool_)

    # ---- indexed -------------------------------------------------------------------------------------------------------
    def gather(self, x: Array, indices: Array, axes: GatherAxes, sizes: Sequence[Any]) -> Array:
        numbers = lax.GatherDimensionNumbers(axes.window, axes.collapsed, axes.indexed)
        last = [self.size_value(x.shape[axis] - size) for axis, size in enumerate(sizes) if axis in axes.indexed]
        limits = self.spread(jax.numpy.stack(last), indices.shape) if last else indices
        indices = lax.clamp(self.like(0, indices), indices, limits)
        return lax.gather(x, _index(indices), numbers, tuple(sizes), mode="promise_in_bounds")

    def scatter(self, op: str, x: Array, indices: Array, updates: Array, axes: GatherAxes) -> Array:
        numbers = lax.ScatterDimensionNumbers(axes.window, axes.collapsed, axes.indexed)
        indices = lax.clamp(self.like(-1, indices), indices, self.like((1 << 31) - 1, indices))
        return SCATTERS[op](x, _index(indices), updates, numbers, mode="drop")

    def update(self, x: Array, piece: Array, index: Array) -> Array:
        zero = np.zeros((), np.int32)
        return lax.dynamic_update_slice(x, piece, (_index(index), *[zero] * (x.ndim - 1)))

    def sort(self, xs: Sequence[Array], axis: int, keys: int = 1) -> list[Array]:
        return list(lax.sort(tuple(xs), dimension=axis, is_stable=True, num_keys=keys))

    # ---- control flow --------------------------------------------------------------------------------------------------
    def branch(
        self, condition: Array, on_true: Callable[[], Sequence[Array]], on_false: Callable[[], Sequence[Array]]
    ) -> list[Array]:
        return list(lax.cond(condition, lambda: list(on_true()), lambda: list(on_false())))

    def loop(
        self,
        going: Callable[[Sequence[Array]], Array],
        body: Callable[[Sequence[Array]], Sequence[Array]],
        carried: Sequence[Array],
        trips: int | None = None,
    ) -> list[Array]:
        """With a trip count it is differentiable in reverse mode."""
        if trips is not None:
            return lax.fori_loop(0, trips, lambda _, values: list(body(values)), list(carried))
        return lax.while_loop(going, lambda values: list(body(values)), list(carried))


_NAMES = {np.dtype(numpy_dtype(name)): name for name, d in DTYPES.items() if d.kind not in ("string", "list")}


def _index(x: Array) -> Array:
    """An index in 32 bits: JAX transforms and lowers functions when the user's setting holds, not the caller's."""
    return lax.convert_element_type(x, np.int32)


def _name(dtype: Any) -> str:
    return _NAMES[np.dtype(dtype)]


def _number(value: Any, dtype: str) -> Any:
    """A number in numpy's type: JAX reads Python's as 32 bits."""
    return np.asarray(value, np.uint64 if isinstance(value, int) and value >= 1 << 63 else None).astype(
        numpy_dtype(dtype)
    )
