"""Random programs over jax.numpy and jax.lax: 3 to 12 functions in a row, with control flow, vmap, jit and checkpoints, forward,
differentiated, and with a named batch size.

    python -m tests.jax.programs --count 300 -j 2
    python -m tests.jax.programs --one 1234       # one program again

A program is a seed. Its steps take values made before it, and are listed in the failure. Enter at `run`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import burn
from burn.errors import BurnError
from tests.fuzz.runner import Outcome
from tests.fuzz.runner import main as shell
from tests.jax.case import Case, Result, compared, derivative, outcome
from tests.jax.draw import Draw

Array = Any
Step = tuple[str, Callable[..., Array], tuple[int, ...]]
"""Its name, the function, and the numbers of the values that it takes."""

ALIKE: dict[str, Callable[[Array], Array]] = {
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "gelu": jax.nn.gelu,
    "softplus": jax.nn.softplus,
    "leaky": lambda x: jnp.where(x > 0, x, 0.1 * x),
    "relu": jax.nn.relu,
    "abs": jnp.abs,
    "square": lambda x: jnp.square(x) * 0.5,
    "root": lambda x: jnp.sqrt(jnp.abs(x) + 0.5),
    "exp": lambda x: jnp.exp(-jnp.abs(x)),
    "log1p": lambda x: jnp.log1p(x * x),
    "atan": jnp.arctan,
    "clip": lambda x: jnp.clip(x, -0.7, 0.9),
    "erf": jax.scipy.special.erf,
    "cbrt": lambda x: jnp.cbrt(x + 4),
    "logistic_power": lambda x: jax.nn.sigmoid(x) ** 1.7,
}
"""Functions of elements."""
ROWS: dict[str, Callable[[Array], Array]] = {
    "softmax": lambda x: jax.nn.softmax(x, -1),
    "log_softmax": lambda x: jax.nn.log_softmax(x, -1),
    "cumsum": lambda x: jnp.cumsum(x, -1) * 0.3,
    "cummax": lambda x: lax.cummax(x, axis=x.ndim - 1, reverse=True),
    "cumprod": lambda x: jnp.cumprod(jnp.tanh(x) + 0.5, -1),
    "cumlogsumexp": lambda x: lax.cumlogsumexp(x, axis=x.ndim - 1),
    "sort": lambda x: jnp.sort(x, -1),
    "flip": lambda x: jnp.flip(x, -1),
    "roll": lambda x: jnp.roll(x, 1, -1),
    "norm": lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 0.1),
    "by_sort": lambda x: jnp.take_along_axis(x, jnp.argsort(x, -1), -1),
    "differences": lambda x: jnp.diff(x, axis=-1, append=x[..., :1]),
    "top": lambda x: jnp.where(x >= jnp.max(x, -1, keepdims=True), x * 2, x),
    "associative": lambda x: lax.associative_scan(
        lambda a, b: a * 0.5 + b * 0.5 + a * b * 0.1, jnp.tanh(x), axis=x.ndim - 1
    ),
    "at_add": lambda x: x.at[..., 0].add(x[..., -1]),
    "at_set": lambda x: x.at[..., -1].set(jnp.tanh(x[..., 0])),
    "conv": lambda x: lax.conv_general_dilated(
        x.reshape(-1, 1, x.shape[-1]), jnp.array([[[0.2, 0.5, -0.3]]], x.dtype), (1,), "SAME"
    ).reshape(x.shape),
    "window": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1,) * (x.ndim - 1) + (2,), (1,) * x.ndim, "SAME"),
}
"""Functions that keep the shape and act along the last axis."""
REDUCED: dict[str, Callable[[Array], Array]] = {
    "sum": lambda x: x.sum(-1) * 0.5,
    "mean": lambda x: x.mean(-1),
    "max": lambda x: x.max(-1),
    "min": lambda x: x.min(-1),
    "logsumexp": lambda x: jax.nn.logsumexp(x, -1),
    "prod": lambda x: (jnp.tanh(x) + 0.8).prod(-1),
    "std": lambda x: jnp.sqrt(x.var(-1) + 0.1),
    "median": lambda x: jnp.median(x, -1),
    "last": lambda x: x[..., -1],
    "top_k": lambda x: lax.top_k(x, 1)[0][..., 0],
    "length": lambda x: jnp.linalg.norm(x, axis=-1),
}
"""Functions that take the last axis away."""
PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": lambda a, b: a * jnp.tanh(b),
    "div": lambda a, b: a / (1 + b * b),
    "max": jnp.maximum,
    "min": jnp.minimum,
    "atan2": lambda a, b: jnp.arctan2(a, jnp.abs(b) + 0.3),
    "hypot": lambda a, b: jnp.hypot(a, b + 5),
    "where": lambda a, b: jnp.where(a > b, a, b * 0.5),
    "logaddexp": jnp.logaddexp,
    "pow": lambda a, b: (jnp.abs(a) + 0.5) ** jnp.tanh(b),
    "select": lambda a, b: lax.select_n((a > 0).astype("int32") + (b > 0), a, b, a + b),
}
"""Functions of two arrays of one shape."""


def _custom(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """f, with half its derivative."""
    g = jax.custom_vjp(f)
    g.defvjp(lambda x: (f(x), x), lambda x, c: (0.5 * jax.vjp(f, x)[1](c)[0],))
    return g


def _inner(draw: Draw, count: int) -> tuple[str, Callable[[Array], Array]]:
    """A function that keeps the shape, of several."""
    names = [draw.pick(*ALIKE, *ROWS) for _ in range(count)]
    functions = [ALIKE.get(n) or ROWS[n] for n in names]

    def apply(x: Array) -> Array:
        for f in functions:
            x = f(x)
        return x

    return "(" + " ".join(names) + ")", apply


def _looped(draw: Draw, batched: bool) -> tuple[str, Callable[[Array], Array]]:
    """Control flow and transformations around a drawn function that keeps the shape."""
    name, f = _inner(draw, draw.integer(1, 3))
    other, g = _inner(draw, 1)
    count, flag = draw.integer(0, 4), draw.pick(True, False)
    kinds: dict[str, Callable[[Array], Array]] = {
        "fori": lambda x: lax.fori_loop(0, count, lambda i, v: f(v) * 0.7 + 0.1 * i, x),
        "scan_count": lambda x: lax.scan(lambda c, _: (f(c), jnp.sum(c)), x, None, length=count)[0],
        "while": lambda x: (
            lax.while_loop(
                lambda c: (c[0] < 5) & (jnp.sum(jnp.abs(c[1])) > 0.5),
                lambda c: (c[0] + 1, f(c[1]) * 0.6),
                (0, lax.stop_gradient(x)),
            )[1]
            + x
        ),
        "cond": lambda x: lax.cond(jnp.sum(x) > 0.123, f, g, x),
        "switch": lambda x: lax.switch(jnp.int32(jnp.sum(jnp.abs(x)) + 0.37) % 4, [f, g, lambda v: v, jnp.negative], x),
        "jit": lambda x: jax.jit(f)(x),
        "checkpoint": lambda x: jax.checkpoint(f)(x),
        "custom_vjp": lambda x: _custom(f)(x),
        "grad": lambda x: jax.grad(lambda v: jnp.sum(jnp.sin(f(v))))(x),
        "jvp": lambda x: jax.jvp(f, (x,), (jnp.cos(x),))[1],
        "nested": lambda x: lax.fori_loop(0, 2, lambda i, v: lax.cond(i == 0, f, g, v), x),
    }
    along: dict[str, Callable[[Array], Array]] = {
        "scan": lambda x: lax.scan(
            lambda c, r: (jnp.tanh(c + r), f(c * 0.5 + r)), jnp.zeros(x.shape[1:], x.dtype), x, reverse=flag
        )[1],
        "map": lambda x: lax.map(f, x),
        "vmap": lambda x: jax.vmap(f)(x),
        "vmap_cond": lambda x: jax.vmap(lambda r: lax.cond(jnp.sum(r) > 0.1, f, g, r))(x),
        "vmap_while": lambda x: jax.vmap(
            lambda r: lax.while_loop(lambda c: jnp.sum(jnp.abs(c)) > 0.7, lambda c: c * 0.5, lax.stop_gradient(r)) + r
        )(x),
        "vmap_scan": lambda x: jax.vmap(
            lambda r: lax.scan(lambda c, e: (c * 0.5 + e, jnp.sin(c)), x.dtype.type(0), r)[1]
        )(x.reshape(x.shape[0], -1)).reshape(x.shape),
        "scan_pairs": lambda x: lax.scan(
            lambda c, r: ({"a": c["a"] * 0.5 + r, "n": c["n"] + 1}, (r * c["a"], c["n"])),
            {"a": jnp.ones(x.shape[1:], x.dtype), "n": 0},
            x,
        )[1][0],
    }
    kinds |= along
    kind = draw.pick(*kinds)
    return f"{kind}{name}{other if kind in ('cond', 'switch', 'nested', 'vmap_cond') else ''}", kinds[kind]


def _step(draw: Draw, shapes: Sequence[tuple[Any, ...]], batched: bool) -> Step:
    """The next function, of values with these shapes. The first axis of the first value may be named."""
    at: int = draw.pick(len(shapes) - 1, draw.integer(0, len(shapes) - 1))
    shape: tuple[Any, ...] = shapes[at]
    rank = len(shape)
    kinds = ["alike", "alike", "pair"]
    if rank:
        kinds += ["rows", "rows", "reduced"]
    if rank > 1:
        kinds += ["looped", "looped", "looped", "contraction", "view"]
    kind = draw.pick(*kinds)
    if kind == "alike":
        name = draw.pick(*ALIKE)
        return name, ALIKE[name], (at,)
    if kind == "rows":
        name = draw.pick(*ROWS)
        return name, ROWS[name], (at,)
    if kind == "reduced":
        name = draw.pick(*REDUCED)
        return name, REDUCED[name], (at,)
    if kind == "pair":
        name = draw.pick(*PAIRS)
        return name, PAIRS[name], (at, draw.pick(*(i for i, s in enumerate(shapes) if s == shape)))
    if kind == "looped":
        return *_looped(draw, batched), (at,)
    if kind == "contraction":
        width = draw.integer(1, 4)
        weight = draw.numpy.normal(size=(shape[-1], width)).astype(np.float32) * 0.5
        return draw.pick(
            ("matmul", lambda x: x @ jnp.asarray(weight, x.dtype), (at,)),
            ("gram", lambda x: jnp.einsum("...ij,...ik->...jk", x, x) * 0.2, (at,)),
            ("attention", lambda x: jax.nn.softmax(x @ jnp.swapaxes(x, -1, -2), -1) @ x, (at,)),
            ("outer", lambda x: jnp.einsum("...i,...j->...ij", x, x[..., :2]), (at,)),
        )
    order = (*range(1, rank), 0)
    return draw.pick(
        ("transpose", lambda x: jnp.transpose(x, order) if not batched else jnp.swapaxes(x, -1, -1), (at,)),
        ("concatenate", lambda x: jnp.concatenate([x, x * 0.5], -1), (at,)),
        ("pad", lambda x: jnp.pad(x, [(0, 0)] * (rank - 1) + [(1, 2)], constant_values=0.3), (at,)),
        ("slice", lambda x: x[..., ::2], (at,)),
        ("dynamic", lambda x: lax.dynamic_slice_in_dim(x, jnp.int32(jnp.sum(jnp.abs(x))) % 3, 1, -1), (at,)),
        ("repeat", lambda x: jnp.repeat(x, 2, -1), (at,)),
        ("expand", lambda x: x[..., None] * jnp.arange(1, 3, dtype=x.dtype), (at,)),
        ("merge", lambda x: x.reshape(x.shape[0], -1), (at,)),
        ("tile", lambda x: jnp.tile(x, 2), (at,)),
        ("stack", lambda x: jnp.stack([x, -x], 1).sum(1) + x, (at,)),
    )


def drawn(seed: int, batched: bool) -> tuple[Case, str]:
    """A program as a case, and its steps in words."""
    draw = Draw(seed)
    shape = draw.pick((3, 4), (2, 5), (5, 3), (4, 2, 3), (1, 7), (7, 1))
    count = draw.pick(1, 2)
    x64 = draw.pick(False, False, True)
    dtype = "float64" if x64 else "float32"
    operands = tuple(draw.numpy.normal(size=shape).astype(dtype) for _ in range(count))
    steps: list[Step] = []
    shapes: list[tuple[Any, ...]] = [shape] * count
    for _ in range(draw.integer(3, 12)):
        step = _step(draw, shapes, batched)
        given = [jax.ShapeDtypeStruct(shapes[i], dtype) for i in step[2]]
        with jax.enable_x64(x64):
            try:
                result = jax.eval_shape(step[1], *given)
            except (TypeError, ValueError):  # a function that needs more elements
                continue
        if int(np.prod(result.shape)) > 300 or (batched and result.shape[:1] != shape[:1]):
            continue
        steps.append(step)
        shapes.append(result.shape)

    def program(*xs: Array) -> Any:
        values = list(xs)
        for _, function, at in steps:
            values.append(function(*(values[i] for i in at)))
        return values[-1], sum((jnp.mean(v) for v in values[count:-1]), jnp.zeros((), values[0].dtype))

    text = "; ".join(f"{len(at) and [*at]} {name}" for name, _, at in steps)
    return Case(f"program {seed}", program, operands, True, 8, x64=x64), text


def run(seed: int) -> Outcome:
    """One program: forward, its gradient, or with a named batch at two sizes."""
    how = ("forward", "gradient", "batch")[seed % 3]
    case, text = drawn(seed, how == "batch")
    if how == "batch":
        result = _with_named_batch(case)
    else:
        made = derivative(case) if how == "gradient" else case
        result = outcome(made) if made else None
    if result is None:
        return Outcome("skipped")
    kind = {"right": "ok", "refused": "a refusal"}.get(result.kind, result.kind)
    return Outcome(kind, f"{how} of {case!r}: {text}\n{result.detail}")


def _with_named_batch(case: Case) -> Result:
    """Compiled once for float32[batch, ..]. Skipped if JAX cannot trace the program for a named size."""
    types = tuple(f"{x.dtype}[{', '.join(['batch', *map(str, x.shape[1:])])}]" for x in case.operands)
    with jax.enable_x64(case.x64):
        (batch,) = jax.export.symbolic_shape("batch")
        given = [jax.ShapeDtypeStruct((batch, *x.shape[1:]), x.dtype) for x in case.operands]
        try:
            jax.jit(case.function).trace(*given).lower(lowering_platforms=("cpu",))
        except Exception as error:  # JAX's own limits of named sizes
            return Result("skipped", str(error)[:200])
        try:
            compiled = burn.compile(jax.jit(case.function), types, cache=False)
        except Exception as error:  # the sweep goes on
            return Result("refused" if isinstance(error, BurnError) else "error", str(error)[:600])
        for size in (case.operands[0].shape[0], 1, 5):
            operands = tuple(np.resize(x, (size, *x.shape[1:])) for x in case.operands)
            here = replace(case, operands=operands)
            want = jax.tree.leaves(jax.jit(case.function)(*operands))
            try:
                have = jax.tree.leaves(compiled(*operands))
            except Exception as error:  # the sweep goes on
                return Result("error", f"batch {size}: {type(error).__name__}: {str(error)[:600]}")
            result = compared(here, want, have)
            if result.kind != "right":
                return Result(result.kind, f"batch {size}: {result.detail}")
    return Result("right")


if __name__ == "__main__":
    sys.exit(shell(run, preload=("burn", "jax")))
