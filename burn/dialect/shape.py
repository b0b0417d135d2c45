"""Primitives that create or move elements without arithmetic: constants, views, slices, pad, concat.

Sizes, starts and pads are dims: numbers or symbolic expressions. Sizes that are tensor values enter the program through
`ReadDim`.
"""

from __future__ import annotations

from typing import Any

from burn.dialect.batching.rules import broadcast, joined, padded, reshaped, sliced, transposed
from burn.dialect.dims import RELATIONS, Dim, Expr, at_most, ceildiv, dim_max, dim_min, floordiv, non_negative, product
from burn.dialect.op import Agreement, DTypeName, Op, Operand, Variadic, normalize_axis
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, is_symbolic, type_of


class Full(Op, name="full", traits=Trait.CONSTANT | Trait.GENERATED):
    """A tensor of one repeated number. Shapes: -> shape. `value` is read as a float64; integers beyond 2^53 use `bits`."""

    shape: tuple[Dim, ...]
    dtype: DTypeName
    value: float = 0.0
    bits: int | None = None  # the exact integer value, where a float64 would round it

    @classmethod
    def infer(cls, shape: tuple[Dim, ...], dtype: str, value: float, bits: int | None) -> TensorType:
        return TensorType(dtype, shape)


class Constant(Op, name="constant", traits=Trait.CONSTANT | Trait.STORED | Trait.GENERATED):
    """A tensor of at most a few numbers, stored in the IR. Shapes: -> shape."""

    values: tuple[float, ...]
    shape: tuple[Dim, ...]
    dtype: DTypeName
    bits: tuple[int, ...] | None = None  # exact integer values, for integer types

    @classmethod
    def infer(cls, values: Any, shape: tuple[Dim, ...], dtype: str, bits: Any) -> TensorType:
        if len(bits if bits is not None else values) != product(shape):
            cls.fail(f"{len(values)} values do not fill shape {list(shape)}")
        return TensorType(dtype, shape)


class Weight(Op, name="weight", traits=Trait.CONSTANT | Trait.STORED):
    """A constant kept in the weight store under `key`. Shapes: -> shape."""

    key: str
    shape: tuple[Dim, ...]
    dtype: DTypeName

    @classmethod
    def infer(cls, key: str, shape: tuple[Dim, ...], dtype: str) -> TensorType:
        return TensorType(dtype, shape)


class Iota(Op, name="iota", traits=Trait.CONSTANT | Trait.GENERATED):
    """0, 1, 2, ... along `axis`. Shapes: -> shape."""

    shape: tuple[Dim, ...]
    axis: int
    dtype: DTypeName = "int64"

    @classmethod
    def infer(cls, shape: tuple[Dim, ...], axis: int, dtype: str) -> TensorType:
        normalize_axis(cls, axis, len(shape))
        return TensorType(dtype, shape)


class DimValues(Op, name="dim_values", traits=Trait.CONSTANT | Trait.GENERATED):
    """Sizes as an int64 tensor. Shapes: -> [len(dims)], or [] when `scalar`."""

    dims: tuple[Dim, ...]
    scalar: bool = False

    @classmethod
    def infer(cls, dims: tuple[Dim, ...], scalar: bool) -> TensorType:
        return TensorType("int64", () if scalar else (len(dims),))


class ReadDim(Op, name="read_dim", pure=False, batching="a size cannot differ between examples"):
    """Defines the size `symbol` as element `position` (in memory order) of an integer tensor, read at run time. It must lie
    in [minimum, maximum]. Shapes: x [...] -> nothing."""

    x: Operand
    symbol: str
    position: int = 0
    minimum: int = 0

    @classmethod
    def infer(cls, x: TensorType, symbol: str, position: int, minimum: int) -> list[TensorType]:
        if x.dtype not in ("int64", "int32"):
            cls.fail(f"sizes are read from int64 or int32, not {x.dtype}")
        return []


class CheckSize(Op, name="check_size", pure=False):
    """Aborts the run unless `size` has the `relation` ("==", "!=", "<=", "<", ">=" or ">") to `bound`. `says` gives the
    user the reason. Conditions on inputs' sizes are checked before any computation. Shapes: -> nothing."""

    size: Dim
    relation: str
    bound: Dim
    says: str = ""

    @classmethod
    def infer(cls, size: Dim, relation: str, bound: Dim, says: str) -> list[TensorType]:
        if relation not in RELATIONS:
            cls.fail(f"there is no relation '{relation}', only {', '.join(RELATIONS)}", "relation")
        return []


class BroadcastTo(
    Op, name="broadcast_to", traits=Trait.VIEW | Trait.REPEATABLE | Trait.FOLLOWS_PRECISION, batching=broadcast
):
    """Repeats axes of size 1 (and missing leading axes) to `shape`. Shapes: x -> shape."""

    x: Operand
    shape: tuple[Dim, ...]

    @classmethod
    def infer(cls, x: TensorType, shape: tuple[Dim, ...]) -> TensorType:
        if x.rank > len(shape):
            cls.fail(f"rank {x.rank} does not broadcast to rank {len(shape)}", "shape")
        for axis in range(-x.rank, 0):
            a, b = x.shape[axis], shape[axis]
            if a not in (1, b) and not is_symbolic(a) and not is_symbolic(b):
                cls.fail(f"size {a} does not broadcast to {b}", "shape")
        return x.with_shape(shape)

    def must_agree(self) -> list[Agreement]:
        have, want = type_of(self.x).shape, type_of(self.operation.results[0]).shape
        return [
            Agreement(d, t, "broadcast") for d, t in zip(have, want[len(want) - len(have) :], strict=True) if d != 1
        ]


class Reshape(
    Op, name="reshape", traits=Trait.VIEW | Trait.REPEATABLE | Trait.FOLLOWS_PRECISION | Trait.ALIAS, batching=reshaped
):
    """The same elements in row-major order with another shape. Shapes: x -> shape, of as many elements."""

    x: Operand
    shape: tuple[Dim, ...]

    @classmethod
    def infer(cls, x: TensorType, shape: tuple[Dim, ...]) -> TensorType:
        have, want = x.elements, product(shape)
        if have != want and isinstance(have, int) and isinstance(want, int):
            cls.fail(f"{have} elements ({x}) do not fill shape [{', '.join(map(str, shape))}] of {want}", "shape")
        return x.with_shape(shape)

    def must_agree(self) -> list[Agreement]:
        return [Agreement(type_of(self.x).elements, type_of(self.operation.results[0]).elements)]


class Transpose(
    Op, name="transpose", traits=Trait.VIEW | Trait.REPEATABLE | Trait.FOLLOWS_PRECISION, batching=transposed
):
    """Result axis i is operand axis `permutation[i]`."""

    x: Operand
    permutation: tuple[int, ...]

    @classmethod
    def infer(cls, x: TensorType, permutation: tuple[int, ...]) -> TensorType:
        if sorted(permutation) != list(range(x.rank)):
            cls.fail(f"{list(permutation)} is not a permutation of {x.rank} axes", "permutation")
        return x.with_shape(tuple(x.shape[p] for p in permutation))


class Slice(Op, name="slice", traits=Trait.VIEW | Trait.REPEATABLE | Trait.FOLLOWS_PRECISION, batching=sliced):
    """Elements start, start + step, ... (`sizes` of them) of every axis; negative steps walk backwards.
    Shapes: x [d0, ...] -> sizes. The caller has clamped starts and sizes into range."""

    x: Operand
    starts: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    steps: tuple[int, ...]

    @classmethod
    def infer(cls, x: TensorType, starts: Any, sizes: tuple[Dim, ...], steps: tuple[int, ...]) -> TensorType:
        if not len(starts) == len(sizes) == len(steps) == x.rank:
            cls.fail(f"starts, sizes and steps must have {x.rank} entries")
        for axis, (d, start, size, step) in enumerate(zip(x.shape, starts, sizes, steps, strict=True)):
            last = start + (size - 1) * step
            if not (isinstance(last, int) and isinstance(start, int) and isinstance(d, int)) or size == 0:
                continue
            if not (0 <= start < d and 0 <= last < d):
                cls.fail(f"axis {axis} of size {d} has no elements {start} to {last}", "starts")
        return x.with_shape(sizes)

    def must_agree(self) -> list[Agreement]:
        """Both ends are within the axis, unless the slice is empty."""
        needs: list[Agreement] = []
        for d, start, size, step in zip(type_of(self.x).shape, self.starts, self.sizes, self.steps, strict=True):
            last = start + (size - 1) * step
            low, high = (start, last) if step > 0 else (last, start)
            for end, limit in ((high + 1, d), (low * -1, 0)):
                if not at_most(end, limit, size):
                    some = dim_min(size, 1)
                    needs.append(Agreement(end * some, limit * some, "at most"))
        return needs


class Pad(Op, name="pad", traits=Trait.FOLLOWS_PRECISION, batching=padded):
    """`value` (a scalar tensor) before, after and, `interior` times, between the elements of every axis. Pads are >= 0.
    Shapes: x [d, ...], value [] -> [low + d + (d - 1) * interior + high, ...]."""

    x: Operand
    value: Operand
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    interior: tuple[int, ...] = ()

    @classmethod
    def infer(cls, x: TensorType, value: TensorType, low: Any, high: Any, interior: tuple[int, ...]) -> TensorType:
        interior = interior or (0,) * x.rank
        if not len(low) == len(high) == len(interior) == x.rank:
            cls.fail(f"pads must have {x.rank} entries")
        if value.rank or value.dtype != x.dtype:
            cls.fail(f"the value must be a scalar of {x.dtype}, not {value}")
        if any(isinstance(p, int) and p < 0 for p in (*low, *high, *interior)):
            cls.fail("pads must not be negative; slice instead")
        shape = [a + d + ((d - 1) * i if i else 0) + b for a, d, i, b in zip(low, x.shape, interior, high, strict=True)]
        return x.with_shape(tuple(shape))


class Concat(Op, name="concat", traits=Trait.FOLLOWS_PRECISION, batching=joined):
    """Concatenates the operands along `axis`. Shapes: [.., di, ..] -> [.., sum of di, ..]."""

    xs: Variadic
    axis: int

    @classmethod
    def infer(cls, xs: list[TensorType], axis: int) -> TensorType:
        if not xs:
            cls.fail("needs at least one operand")
        axis = normalize_axis(cls, axis, xs[0].rank)
        for x in xs[1:]:
            if x.dtype != xs[0].dtype or x.rank != xs[0].rank:
                cls.fail(f"operands {xs[0]} and {x} differ in element type or rank")
            for i, (a, b) in enumerate(zip(xs[0].shape, x.shape, strict=True)):
                if i != axis and a != b and isinstance(a, int) and isinstance(b, int):
                    cls.fail(f"operands {xs[0]} and {x} differ in axis {i}, which is not the joined one")
        total: Dim = 0
        for x in xs:
            total = total + x.shape[axis]
        shape = [min((x.shape[i] for x in xs), key=lambda d: isinstance(d, Expr)) for i in range(xs[0].rank)]
        return xs[0].with_shape((*shape[:axis], total, *shape[axis + 1 :]))

    def must_agree(self) -> list[Agreement]:
        out = type_of(self.operation.results[0]).shape
        axis = self.axis % len(out)
        sides = [i for i in range(len(out)) if i != axis]
        return [Agreement(type_of(x).shape[i], out[i]) for x in self.args[0] for i in sides]


def slice_bounds(dim: Dim, start: Dim | None, stop: Dim | None, step: int) -> tuple[Dim, Dim]:
    """(first, count) of numpy's `[start:stop:step]` on an axis of `dim` elements; None is an open end."""

    def wrapped(value: Dim) -> Dim:
        """A negative value counts from the end. On an axis without elements the slice is empty in any case."""
        if non_negative(value, dim):
            return value
        return value + dim * dim_min(1, dim_max(0, value * -1))

    def clamp(value: Dim, low: Dim, high: Dim) -> Dim:
        return dim_min(dim_max(wrapped(value), low), high)

    if step > 0:
        if step == 1 and stop is None and isinstance(start, int) and start < 0:
            return dim_max(0, dim + start), dim_min(-start, dim)
        first = 0 if start is None else dim_max(wrapped(start), 0)  # beyond the end the slice is empty
        last = dim if stop is None else clamp(stop, 0, dim)
        if isinstance(first, int) and isinstance(dim, int):
            first = min(first, dim)
        return first, dim_max(0, ceildiv(last - first, step))
    first = dim - 1 if start is None else clamp(start, -1, dim - 1)
    last = -1 if stop is None else clamp(stop, -1, dim - 1)
    return first, dim_max(0, floordiv(first - last - step - 1, -step))
