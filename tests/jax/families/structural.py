"""Operations of jax.lax with many parameters, drawn at random: dot_general, convolutions, windows, pads, slices, gathers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.jax.case import Case
from tests.jax.draw import FLOATS, Draw
from tests.jax.families import entered


def _dot_general(draw: Draw) -> Case:
    sizes = {
        "b": draw.integer(1, 3),
        "c": draw.integer(0, 5),
        "k": draw.integer(1, 4),
        "m": draw.integer(1, 4),
        "n": draw.integer(1, 5),
    }
    shared = draw.pick(("b",), (), ("b",))
    summed = draw.pick(("c",), ("c", "k"), ())
    lhs, rhs = [*shared, *summed, "m"], [*shared, *summed, "n"]
    draw.random.shuffle(lhs)
    draw.random.shuffle(rhs)
    dtype = draw.pick(*FLOATS, "int32", "int8")
    preferred = draw.pick(None, None, "float32" if dtype in FLOATS else "int32")
    numbers = (
        (tuple(lhs.index(a) for a in summed), tuple(rhs.index(a) for a in summed)),
        (tuple(lhs.index(a) for a in shared), tuple(rhs.index(a) for a in shared)),
    )
    a = draw.any(tuple(sizes[x] for x in lhs), dtype)
    b = draw.any(tuple(sizes[x] for x in rhs), dtype)
    return Case(
        "lax.dot_general",
        lambda a, b: lax.dot_general(a, b, numbers, preferred_element_type=preferred),
        (a, b),
        True,
        4,
    )


def _contractions(draw: Draw) -> Case:
    function, left, right = draw.pick(
        (jnp.matmul, (3, 5), (5, 2)),
        (jnp.matmul, (2, 3, 5), (5, 4)),
        (jnp.matmul, (2, 1, 3, 5), (4, 5, 2)),
        (jnp.dot, (5,), (5,)),
        (jnp.dot, (2, 3, 4), (4, 5)),
        (jnp.vdot, (6,), (6,)),
        (jnp.inner, (3, 4), (5, 4)),
        (jnp.outer, (3,), (4,)),
        (jnp.kron, (2, 3), (3, 2)),
        (jnp.cross, (4, 3), (4, 3)),
        (lambda a, b: jnp.tensordot(a, b, 2), (2, 3, 4), (3, 4, 5)),
        (lambda a, b: jnp.tensordot(a, b, ((0, 2), (1, 0))), (2, 3, 4), (4, 2, 5)),
        (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5)),
        (lambda a, b: jnp.einsum("ij,kj->", a, b), (3, 4), (2, 4)),
        (lambda a, b: jnp.einsum("...ij,...kj->...ik", a, b), (2, 3, 4), (2, 5, 4)),
        (lambda a, b: jnp.einsum("ii,ij->j", a, b), (3, 3), (3, 4)),
        (jnp.convolve, (7,), (3,)),
        (lambda a, b: jnp.convolve(a, b, mode="same"), (7,), (4,)),
        (lambda a, b: jnp.correlate(a, b, mode="full"), (6,), (3,)),
        (jnp.vecdot, (3, 4), (3, 4)),
        (lambda a, b: jnp.linalg.multi_dot([a, b, a]), (3, 4), (4, 3)),
        (lambda a, b: jax.scipy.signal.convolve2d(a, b), (4, 5), (2, 3)),
    )
    dtype = draw.pick("float32", "float32", "bfloat16", "int32")
    return Case("jnp.contractions", function, (draw.any(left, dtype), draw.any(right, dtype)), True, 8)


def _conv(draw: Draw) -> Case:
    rank = draw.integer(1, 3) if draw.pick(True, True, True, False) else draw.pick(0, 1, 4)
    groups = draw.pick(1, 1, 2, 3)
    by_batch = groups > 1 and draw.pick(True, False)
    batch = (groups if by_batch else 1) * draw.integer(1, 2)
    each, out = draw.integer(1, 2), groups * draw.integer(1, 2)
    features = each if by_batch else each * groups
    window = tuple(draw.integer(1, 3) for _ in range(rank))
    sizes = tuple(draw.integer(3, 6) for _ in range(rank))
    strides = tuple(draw.integer(1, 2) for _ in range(rank))
    lhs_dilation = tuple(draw.pick(1, 1, 2) for _ in range(rank))
    rhs_dilation = tuple(draw.pick(1, 1, 2) for _ in range(rank))
    padding = tuple((draw.pick(0, 1, 2, -1), draw.pick(0, 1, 2)) for _ in range(rank))
    spatial = "HWDX"[:rank]
    lhs, rhs, result = draw.pick(
        ("NC" + spatial, "OI" + spatial, "NC" + spatial),
        ("N" + spatial + "C", spatial + "IO", "N" + spatial + "C"),
        (spatial + "NC", "I" + spatial + "O", "C" + spatial + "N"),
    )
    shapes = {"N": batch, "C": features, **dict(zip(spatial, sizes, strict=True))}
    kernels = {"O": out, "I": each, **dict(zip(spatial, window, strict=True))}
    dtype = draw.pick("float32", "float32", "bfloat16")
    x = draw.floats(tuple(shapes[a] for a in lhs), dtype)
    w = draw.floats(tuple(kernels[a] for a in rhs), dtype)
    count = {"batch_group_count" if by_batch else "feature_group_count": groups}

    def function(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, strides, padding, lhs_dilation, rhs_dilation, dimension_numbers=(lhs, rhs, result), **count
        )

    return Case("lax.conv_general_dilated", function, (x, w), True, 8)


def _conv_transpose(draw: Draw) -> Case:
    strides, padding = (draw.integer(1, 3), draw.integer(1, 2)), draw.pick("SAME", "VALID")
    flip = draw.pick(True, False)
    x, w = draw.floats((2, 4, 5, 3)), draw.floats((3, 2, 3, 4) if not flip else (3, 2, 4, 3))
    return Case(
        "lax.conv_transpose",
        lambda x, w: lax.conv_transpose(x, w, strides, padding, transpose_kernel=flip),
        (x, w),
        True,
        8,
    )


def _window(draw: Draw) -> dict[str, Any]:
    rank = draw.integer(1, 3)
    return {
        "window_dimensions": tuple(draw.integer(1, 3) for _ in range(rank)),
        "window_strides": tuple(draw.integer(1, 2) for _ in range(rank)),
        "padding": draw.pick("VALID", "SAME", tuple((draw.integer(0, 2), draw.integer(0, 1)) for _ in range(rank))),
    }


def _reduce_window(draw: Draw) -> Case:
    how = _window(draw)
    rank = len(how["window_dimensions"])
    start, operation = draw.pick((0.0, lax.add), (-jnp.inf, lax.max), (jnp.inf, lax.min), (1.0, lax.mul))
    plain = draw.pick(True, False)
    if not plain and operation is not lax.mul:
        how["window_dilation"] = tuple(draw.integer(1, 2) for _ in range(rank))
        how["base_dilation"] = tuple(draw.integer(1, 2) for _ in range(rank))
    x = draw.distinct(tuple(draw.integer(3, 6) for _ in range(rank)))
    x = x * 0.2 if operation is lax.mul else x
    return Case(
        "lax.reduce_window",
        lambda x: lax.reduce_window(x, jnp.float32(start), operation, **how),
        (x,),
        plain and operation is not lax.mul,
        4,
    )


def _reduce_window_by(draw: Draw) -> Case:
    how = _window(draw)
    x = draw.floats(tuple(draw.integer(3, 5) for _ in how["window_dimensions"]))
    return Case(
        "lax.reduce_window_by",
        lambda x: lax.reduce_window(x, jnp.float32(0), lambda a, b: a + b + 0.0 * a * b, **how),
        (x,),
    )


def _pad(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    config = tuple((draw.integer(-1, 3), draw.integer(-1, 2), draw.integer(0, 2)) for _ in shape)
    dtype = draw.pick(*FLOATS, "int32", "bool")
    value = draw.any((), dtype)
    if any(low + high + d + max(d - 1, 0) * inner < 0 for d, (low, high, inner) in zip(shape, config, strict=True)):
        config = tuple((abs(low), abs(high), inner) for low, high, inner in config)
    return Case("lax.pad", lambda x, v: lax.pad(x, v, config), (draw.any(shape, dtype), value), True)


def _slices(draw: Draw) -> Case:
    shape = draw.shape(1, 3, False)
    sizes = tuple(draw.integer(0, d) for d in shape)
    starts = draw.ints((len(shape),), draw.pick("int32", "uint8", "int8"), 0, 7) - draw.pick(0, 3)
    if draw.pick(True, False):
        function = lambda x, s: lax.dynamic_slice(x, [s[i] for i in range(len(shape))], sizes)  # noqa: E731
        return Case(
            "lax.dynamic_slice", function, (draw.any(shape, draw.pick("float32", "int32", "bool")), starts), True
        )
    update = draw.floats(sizes)
    function = lambda x, u, s: lax.dynamic_update_slice(x, u, [s[i] for i in range(len(shape))])  # noqa: E731
    return Case("lax.dynamic_update_slice", function, (draw.floats(shape), update, starts), True)


def _static(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    starts = tuple(draw.integer(0, d) for d in shape)
    limits = tuple(draw.integer(s, d) for s, d in zip(starts, shape, strict=True))
    strides = draw.pick(None, tuple(draw.integer(1, 3) for _ in shape))
    return Case(
        "lax.slice",
        lambda x: lax.slice(x, starts, limits, strides),
        (draw.any(shape, draw.pick(*FLOATS, "int32")),),
        True,
    )


def _shapes(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    rank = len(shape)
    axes = list(range(rank))
    draw.random.shuffle(axes)
    size = 1
    for d in shape:
        size *= d
    function = draw.pick(
        lambda x: lax.transpose(x, axes),
        lambda x: lax.rev(x, axes[:1]),
        lambda x: lax.broadcast_in_dim(x, (2, *shape, 3), tuple(range(1, rank + 1))),
        lambda x: lax.broadcast(x, (2, 1)),
        lambda x: lax.expand_dims(x, (0, rank)),
        lambda x: lax.concatenate([x, x, x], axes[0]),
        lambda x: lax.reshape(x, (size,), axes),
        lambda x: lax.collapse(x, 0, rank),
        lambda x: lax.squeeze(x[None], (0,)),
        lambda x: lax.broadcasted_iota(jnp.int32, (3, 4), 1) + x.sum().astype(jnp.int32),
        lambda x: lax.full_like(x, 2),
        lambda x: lax.split(lax.concatenate([x, x], axes[0]), [shape[axes[0]]] * 2, axes[0]),
    )
    return Case("lax.shapes", function, (draw.any(shape, draw.pick(*FLOATS, "int32", "bool")),), True)


def _gather(draw: Draw) -> Case:
    """XLA's gather with random dimension numbers, and its scatters of the same."""
    shape = draw.pick((4, 5), (3, 4, 2), (6,))
    rank = len(shape)
    addressed = tuple(sorted(draw.random.sample(range(rank), draw.integer(1, rank))))
    collapsed = tuple(a for a in addressed if draw.pick(True, False))
    sizes = tuple(1 if a in collapsed else draw.integer(1, d) if a in addressed else d for a, d in enumerate(shape))
    batch = draw.pick((3,), (2, 2), ())
    kept = [sizes[a] for a in range(rank) if a not in collapsed]
    offset = tuple(sorted(draw.random.sample(range(len(kept) + len(batch)), len(kept))))
    indices = draw.ints((*batch, len(addressed)), "int32", -2, 6)
    mode = draw.pick("clip", "fill")
    rows, columns = iter(batch), iter(kept)
    result = tuple(next(columns) if i in offset else next(rows) for i in range(len(kept) + len(batch)))
    if draw.pick(True, False):
        numbers = lax.GatherDimensionNumbers(offset, collapsed, addressed)
        return Case(
            "lax.gather", lambda x, i: lax.gather(x, i, numbers, sizes, mode=mode), (draw.floats(shape), indices), True
        )
    into = lax.ScatterDimensionNumbers(offset, collapsed, addressed)
    function = draw.pick(lax.scatter_add, lax.scatter_mul, lax.scatter_min, lax.scatter_max, lax.scatter_sub)
    updates = draw.floats(result)
    is_sum = function is lax.scatter_add
    return Case(
        f"lax.{function.__name__}",
        lambda x, i, u: function(x, i, u, into, mode=mode),
        (draw.floats(shape), indices, updates),
        is_sum,
        4,
    )


for _name, _builder, _count in (
    ("lax.dot_general", _dot_general, 30),
    ("jnp.contractions", _contractions, 24),
    ("lax.conv_general_dilated", _conv, 40),
    ("lax.conv_transpose", _conv_transpose, 6),
    ("lax.reduce_window", _reduce_window, 24),
    ("lax.reduce_window_by", _reduce_window_by, 4),
    ("lax.pad", _pad, 16),
    ("lax.dynamic", _slices, 16),
    ("lax.slice", _static, 8),
    ("lax.shapes", _shapes, 20),
    ("lax.gather", _gather, 30),
):
    for _number in range(_count):
        entered(f"{_name}_{_number}", _builder)
