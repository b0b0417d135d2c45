"""conv_general_dilated: convolutions with any order of axes, dilated operands, and groups of features or samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim, exact_div
from burn.dialect.types import DTYPES, type_of
from burn.errors import TypeMismatch
from burn.importers.lax.contraction import dot_general
from burn.importers.lax.conversion import convert_element_type
from burn.importers.lax.scalars import is_empty, like
from burn.importers.lax.shaping import pad, rev
from burn.importers.lax.windows import window_shape


@dataclass(frozen=True)
class Layout:
    """The axes of a convolution's operands and result: lhs (batch, feature, spatial..), rhs (output feature, input feature,
    spatial..), result (batch, feature, spatial..), as jax's `ConvDimensionNumbers`."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]


def conv_general_dilated(
    lhs: Value,
    rhs: Value,
    strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    layout: Layout,
    feature_groups: int = 1,
    batch_groups: int = 1,
    dtype: str | None = None,
    reversal: Sequence[bool] = (),
) -> Value:
    """A convolution (cross-correlation; a kernel axis in `reversal` is reversed). lhs_dilation puts zeros between the elements of
    lhs, rhs_dilation between those of the kernel. Padding may be negative. dtype: the result's element type."""
    dtype = dtype or type_of(lhs).dtype
    x, kernel = transpose(lhs, layout.lhs), transpose(rhs, layout.rhs)
    axes = [2 + i for i, turned in enumerate(reversal) if turned]
    kernel = rev(kernel, axes)
    computed = _computed_in(type_of(lhs).dtype, type_of(rhs).dtype, dtype)
    x, kernel = convert_element_type(x, computed), convert_element_type(kernel, computed)
    if batch_groups > 1:
        x = _as_features(x, batch_groups)
        feature_groups = batch_groups
    y = _first(x, kernel, tuple(strides), tuple(padding), tuple(lhs_dilation), tuple(rhs_dilation), feature_groups)
    back = tuple(layout.out.index(i) for i in range(len(layout.out)))
    return transpose(convert_element_type(y, dtype), back)


def _computed_in(lhs: str, rhs: str, result: str) -> str:
    if (
        DTYPES[result].kind == "float"
        and lhs == rhs
        and DTYPES[lhs].kind == "float"
        and DTYPES[lhs].bits >= DTYPES[result].bits
    ):
        return lhs
    if DTYPES[result].kind == "float":
        return "float32" if DTYPES[result].bits < 32 else result
    return result


def _as_features(x: Value, groups: int) -> Value:
    """Groups of samples side by side as features: [g n, c, d..] -> [n, g c, d..]."""
    n, c, *d = type_of(x).shape
    each = exact_div(n, groups)
    if each is None:
        raise TypeMismatch("groups of samples divide the batch", [f"{n} samples, {groups} groups"])
    apart = reshape(x, (groups, each, c, *d))
    rank = len(d) + 3
    return reshape(transpose(apart, (1, 0, 2, *range(3, rank))), (each, c * groups, *d))


def _first(
    x: Value,
    kernel: Value,
    strides: tuple[int, ...],
    padding: tuple[tuple[Dim, Dim], ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    groups: int,
) -> Value:
    """x [n, c, d..], kernel [o, c / groups, k..] -> [n, o, e..]."""
    n, c, *sizes = type_of(x).shape
    o, _, *window = type_of(kernel).shape
    whole = [k if isinstance(k, int) else 0 for k in window]
    if len(whole) != len([k for k in window if isinstance(k, int)]):
        raise TypeMismatch("a convolution's kernel has fixed sizes", [f"not {tuple(window)}"])
    spread = [low + high + _inner(d, s) for d, s, (low, high) in zip(sizes, lhs_dilation, padding, strict=True)]
    shape = (n, o, *window_shape(spread, whole, strides, rhs_dilation))
    if is_empty(shape) or is_empty(type_of(x).shape) or is_empty(type_of(kernel).shape):
        return broadcast_to(like(0, x), shape)
    if not sizes:
        return reshape(
            _matmul(reshape(x, (n, c, 1)), reshape(kernel, (o, *type_of(kernel).shape[1:], 1)), groups), (n, o)
        )
    is_float = DTYPES[type_of(x).dtype].kind == "float"
    if len(sizes) > 3 or not is_float:
        return _by_windows(x, kernel, strides, padding, lhs_dilation, rhs_dilation, groups)
    if any(s > 1 for s in lhs_dilation) and all(s == 1 for s in strides):
        return _transposed(x, kernel, padding, lhs_dilation, rhs_dilation, groups)
    plain = all(isinstance(p, int) and p >= 0 for pair in padding for p in pair) and all(s == 1 for s in lhs_dilation)
    if not plain:
        low, high = [p[0] for p in padding], [p[1] for p in padding]
        x = pad(x, like(0, x), (0, 0, *low), (0, 0, *high), (0, 0, *(s - 1 for s in lhs_dilation)))
        padding = ((0, 0),) * len(sizes)
    return ops.conv(
        x,
        kernel,
        strides=strides,
        dilations=rhs_dilation,
        low=tuple(p[0] for p in padding),
        high=tuple(p[1] for p in padding),
        groups=groups,
    )


def _inner(size: Dim, dilation: int) -> Dim:
    if dilation == 1 or (isinstance(size, int) and size == 0):  # nothing is between no elements
        return size
    return (size - 1) * dilation + 1


def _transposed(
    x: Value,
    kernel: Value,
    padding: tuple[tuple[Dim, Dim], ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    groups: int,
) -> Value:
    """A convolution of a dilated lhs is the transpose of a strided one, with the kernel reversed and its features exchanged."""
    o, each, *window = type_of(kernel).shape
    turned = rev(kernel, range(2, 2 + len(window)))
    grouped = reshape(turned, (groups, o // groups, each, *window))
    order = (0, 2, 1, *range(3, 3 + len(window)))
    weight = reshape(transpose(grouped, order), (each * groups, o // groups, *window))
    reach = [(k - 1) * n for k, n in zip(window, rhs_dilation, strict=True)]
    return ops.conv_transpose(
        x,
        weight,
        strides=lhs_dilation,
        dilations=rhs_dilation,
        low=tuple(r - p[0] for r, p in zip(reach, padding, strict=True)),
        high=tuple(r - p[1] for r, p in zip(reach, padding, strict=True)),
        extra=(0,) * len(window),
        groups=groups,
    )


def _by_windows(
    x: Value,
    kernel: Value,
    strides: tuple[int, ...],
    padding: tuple[tuple[Dim, Dim], ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    groups: int,
) -> Value:
    """As a contraction of all windows: for integers, and for more than three spatial axes."""
    low, high = [p[0] for p in padding], [p[1] for p in padding]
    x = pad(x, like(0, x), (0, 0, *low), (0, 0, *high), (0, 0, *(s - 1 for s in lhs_dilation)))
    o, _, *window = type_of(kernel).shape
    rank = len(window)
    found = ops.windows(x, axis=2, window=tuple(window), strides=strides, dilations=rhs_dilation)
    n, c, *rest = type_of(found).shape
    positions, inside = tuple(rest[:rank]), tuple(rest[rank:])
    count: Dim = 1
    for k in inside:
        count = count * k
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    spots: Dim = 1
    for e in positions:
        spots = spots * e
    columns = reshape(transpose(found, order), (n, c * count, spots))
    weights = reshape(kernel, (o, type_of(kernel).shape[1] * count, 1))
    return reshape(_matmul(columns, weights, groups), (n, o, *positions))


def _matmul(columns: Value, weights: Value, groups: int) -> Value:
    """columns [n, groups a, e] and weights [o, a, 1] -> [n, o, e]; each group of rows with its own outputs."""
    n, _, e = type_of(columns).shape
    o, each, _ = type_of(weights).shape
    a = reshape(columns, (n, groups, each, e))
    b = reshape(weights, (groups, o // groups, each))
    y = dot_general(b, a, ((2,), (2,)), ((0,), (1,)), type_of(columns).dtype)  # [g, o / g, n, e]
    return reshape(transpose(y, (2, 0, 1, 3)), (n, o, e))
