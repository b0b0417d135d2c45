"""Arrangements and indexing of jax.numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tests.jax.case import Case
from tests.jax.draw import FLOATS, Draw
from tests.jax.families import entered

DTYPES = (*FLOATS, "int32", "uint8", "bool")

MATRIX: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(-1, x.shape[0]) if x.size else x,
    "ravel": jnp.ravel,
    "transpose": jnp.transpose,
    "swapaxes": lambda x: jnp.swapaxes(x, 0, -1),
    "moveaxis": lambda x: jnp.moveaxis(x, 0, -1),
    "rollaxis": lambda x: jnp.rollaxis(x, 1),
    "expand_dims": lambda x: jnp.expand_dims(x, (0, 2)),
    "squeeze": lambda x: jnp.squeeze(x[None]),
    "flip": jnp.flip,
    "fliplr": jnp.fliplr,
    "flipud": jnp.flipud,
    "rot90": jnp.rot90,
    "roll_all": lambda x: jnp.roll(x, (1, -2), (0, 1)),
    "tile": lambda x: jnp.tile(x, (2, 1, 3)),
    "repeat": lambda x: jnp.repeat(x, 3, axis=1),
    "repeat_each": lambda x: jnp.repeat(x, jnp.arange(x.shape[0]) % 3, axis=0, total_repeat_length=7),
    "concatenate": lambda x: jnp.concatenate([x, x[:, ::-1], x], axis=1),
    "stack": lambda x: jnp.stack([x, x, x], axis=1),
    "vstack": lambda x: jnp.vstack([x, x]),
    "hstack": lambda x: jnp.hstack([x, x]),
    "dstack": lambda x: jnp.dstack([x, x]),
    "column_stack": lambda x: jnp.column_stack([x, x]),
    "block": lambda x: jnp.block([[x, x], [x, x]]),
    "split": lambda x: jnp.split(jnp.concatenate([x, x], 1), 2, axis=1),
    "array_split": lambda x: jnp.array_split(x, 3, axis=1),
    "unstack": lambda x: jnp.unstack(x),
    "broadcast_to": lambda x: jnp.broadcast_to(x, (2, *x.shape)),
    "tril": jnp.tril,
    "triu": lambda x: jnp.triu(x, 1),
    "diag": lambda x: jnp.diag(x),
    "diag_of": lambda x: jnp.diag(x[0], 1),
    "diagonal": lambda x: jnp.diagonal(x, -1),
    "trace": lambda x: jnp.trace(x),
    "fill_diagonal": lambda x: jnp.fill_diagonal(x, 1, inplace=False),
    "insert": lambda x: jnp.insert(x, 1, 1, axis=0),
    "delete": lambda x: jnp.delete(x, 0, axis=0),
    "append": lambda x: jnp.append(x, x, axis=0),
    "row": lambda x: x[1 % x.shape[0]],
    "last": lambda x: x[-1, ..., None],
    "step": lambda x: x[::2, 1::2],
    "backwards": lambda x: x[::-1, ::-1],
    "negative_step": lambda x: x[:, 3:0:-1],
    "mask_where": lambda x: jnp.where(x > 0, x, 0),
    "take": lambda x: jnp.take(x, jnp.array([0, 2, 1]), axis=1),
    "take_clip": lambda x: jnp.take(x, jnp.array([0, 9, -9]), axis=1, mode="clip"),
    "take_wrap": lambda x: jnp.take(x, jnp.array([0, 9, -9]), axis=1, mode="wrap"),
    "take_fill": lambda x: jnp.take(x, jnp.array([0, 99, -1]), axis=1, mode="fill"),
    "fancy": lambda x: x[jnp.array([0, 1]), jnp.array([1, 0])],
    "fancy_row": lambda x: x[jnp.array([[0, 1], [1, 0]])],
    "fancy_mixed": lambda x: x[:, jnp.array([1, 0, 2])],
    "take_along": lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1),
    "put_along": lambda x: jnp.put_along_axis(x, jnp.zeros((x.shape[0], 1), int), 1, axis=1, inplace=False),
    "choose": lambda x: jnp.choose(jnp.array([0, 1, 0]), [x[0, :3], x[1, :3]]),
    "select": lambda x: jnp.select([x > 1, x > 0], [x, x * 2], 0),
    "at_set": lambda x: x.at[0].set(1),
    "at_add": lambda x: x.at[jnp.array([0, 1, 0])].add(1),
    "at_mul": lambda x: x.at[:, 1].multiply(2),
    "at_max": lambda x: x.at[jnp.array([0, 1])].max(1),
    "at_min": lambda x: x.at[jnp.array([1, 0]), jnp.array([1, 1])].min(0),
    "at_apply": lambda x: x.at[jnp.array([0, 1])].apply(lambda v: v + v),
    "at_get": lambda x: x.at[:, jnp.array([0, 77])].get(mode="fill", fill_value=0),
    "at_drop": lambda x: x.at[jnp.array([0, 88])].set(1, mode="drop"),
    "at_power": lambda x: x.at[0].power(2),
    "at_divide": lambda x: x.at[0].divide(2),
    "meshgrid": lambda x: jnp.meshgrid(x[0], x[1]),
    "indices": lambda x: jnp.indices(x.shape) + x.astype(int),
    "eye": lambda x: x + jnp.eye(*x.shape, dtype=x.dtype),
    "tri": lambda x: x + jnp.tri(*x.shape, dtype=x.dtype),
    "ix": lambda x: x[jnp.ix_(jnp.array([0, 1]), jnp.array([2, 0]))],
    "apply_along": lambda x: jnp.apply_along_axis(lambda v: v[::-1], 1, x),
    "pad_constant": lambda x: jnp.pad(x, ((1, 2), (0, 3)), constant_values=1),
    "pad_edge": lambda x: jnp.pad(x, ((1, 2), (0, 3)), mode="edge"),
    "pad_reflect": lambda x: jnp.pad(x, ((1, 1), (2, 1)), mode="reflect"),
    "pad_symmetric": lambda x: jnp.pad(x, ((1, 2), (2, 3)), mode="symmetric"),
    "pad_wrap": lambda x: jnp.pad(x, ((1, 2), (2, 3)), mode="wrap"),
    "pad_maximum": lambda x: jnp.pad(x, ((1, 2), (2, 3)), mode="maximum"),
    "pad_ramp": lambda x: jnp.pad(x.astype(jnp.float32), ((1, 2), (2, 3)), mode="linear_ramp"),
    "array_equal": lambda x: jnp.array_equal(x, x),
    "astype": lambda x: x.astype(jnp.int32),
    "view": lambda x: x.view(x.dtype),
    "ediff1d": lambda x: jnp.ediff1d(x) if x.dtype != bool else x,
    "vmap_index": lambda x: jax.vmap(lambda r, i: r[i])(x, jnp.arange(x.shape[0])),
    "tree": lambda x: {"a": x, "b": (x[0], [x[1]])},
}

SHAPES = ((3, 5), (2, 4), (5, 3), (4, 4))


def _matrix(name: str, function: Callable[[Any], Any]) -> Callable[[Draw], Case]:
    def build(draw: Draw) -> Case:
        shape, dtype = draw.pick(*SHAPES), draw.pick(*DTYPES)
        return Case(f"jnp.{name}", function, (draw.any(shape, dtype),), differentiable=True)

    return build


for _name, _function in MATRIX.items():
    entered(f"array.{_name}", _matrix(_name, _function))
    entered(f"array.{_name}_again", _matrix(_name, _function))


def _slices(draw: Draw) -> Case:
    """Basic indexing with random starts, stops and steps."""
    shape = draw.shape(1, 3)
    index = tuple(
        slice(
            draw.pick(None, draw.integer(-9, 9)), draw.pick(None, draw.integer(-9, 9)), draw.pick(None, 1, 2, 3, -1, -2)
        )
        for _ in shape
    )
    return Case("array.slices", lambda x: x[index], (draw.any(shape, draw.pick(*DTYPES)),), True)


def _updates(draw: Draw) -> Case:
    """Indexed updates with random indices, duplicates and indices out of range among them."""
    shape = draw.pick((5,), (4, 3), (3, 2, 4))
    count = draw.integer(1, 6)
    mode = draw.pick("drop", "clip", None)
    kind, dtype = draw.pick("add", "max", "min", "multiply", "set"), draw.pick("float32", "int32", "bfloat16")
    high = 2 * shape[0] if mode else shape[0] - 1
    indices = draw.ints((count,), "int32", -shape[0], high)
    if kind == "set":  # of equal indices the last one counts on CPUs, but JAX leaves it open
        indices = jnp.unique(indices % shape[0], size=min(count, shape[0]))
        count = indices.shape[0]
    updates = draw.any((count, *shape[1:]), dtype)
    return Case(
        f"array.at_{kind}",
        lambda x, i, u: getattr(x.at[i], kind)(u, mode=mode),
        (draw.any(shape, dtype), indices, updates),
        (kind in ("add", "set", "multiply") and dtype == "float32" and mode != "clip") or kind == "set",
    )


def _reads(draw: Draw) -> Case:
    shape = draw.pick((5,), (4, 3), (3, 2, 4))
    mode = draw.pick("fill", "clip", "wrap", None)
    indices = draw.ints(draw.shape(0, 2), "int32", -2 * shape[0], 2 * shape[0])
    axis = draw.axis(shape)
    dtype = draw.pick("float32", "int32", "bool", "uint8")
    return Case(
        "array.take", lambda x, i: jnp.take(x, i, axis=axis, mode=mode), (draw.any(shape, dtype), indices), True
    )


def _segments(draw: Draw) -> Case:
    count = draw.integer(1, 9)
    kind = draw.pick("segment_sum", "segment_prod", "segment_max", "segment_min")
    ids = draw.ints((count,), "int32", 0, 4)
    x = draw.floats((count, 3))
    return Case(
        f"ops.{kind}", lambda x, i: getattr(jax.ops, kind)(x, i, num_segments=5), (x, ids), kind == "segment_sum"
    )


for _name, _builder in {"slices": _slices, "updates": _updates, "reads": _reads, "segments": _segments}.items():
    for _number in range(12):
        entered(f"array.{_name}_{_number}", _builder)
