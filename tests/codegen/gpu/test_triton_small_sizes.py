"""The front end of Triton's compiler accepts the kernels of every kind of op, for axes of no element, one, and a prime number.

Index expressions of such axes become numbers, which Triton treats unlike blocks. The interpreter accepts both, so these kernels
are compiled. The front end runs in a process of its own, without the functions that the interpreter replaces."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import burn
from burn.codegen.triton.images import Source
from burn.tracing.trace import trace
from tests.codegen.gpu.sources import USUAL, check_text, sources_of

pytest.importorskip("triton")

SIZES = (0, 1, 7)
SHAPES = [*((rows, columns) for rows in SIZES for columns in SIZES), ("n", 1), (1, "n")]
USUAL_SHAPES = [(1, 7), ("n", 1)]
"""Those of the default run."""
REDUCTIONS = (
    "sum",
    "prod",
    "mean",
    "max",
    "min",
    "any",
    "all",
    "argmax",
    "argmin",
    "count_nonzero",
    "var",
    "logsumexp",
    "median",
)
SCANS = ("cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "softmax", "log_softmax", "flip")
EMPTY = ("max", "min", "argmax", "argmin", "median", "logsumexp", "cummax", "cummin")
"""Functions that may refuse an axis of no element."""

PASSES = USUAL.pipeline.text.replace(",fold", "")
"""Constants are not computed at compile time."""

Function = Callable[[Any], Any]


def functions(rows: int, columns: int) -> Iterator[tuple[str, Function]]:
    """Functions of a matrix, by name."""
    for axis, size in enumerate((rows, columns)):
        for name in REDUCTIONS:
            yield f"{name} {axis}", lambda x, name=name, axis=axis: getattr(burn, name)(x, axis)
        for name in SCANS:
            yield f"{name} {axis}", lambda x, name=name, axis=axis: getattr(burn, name)(x, axis)
        yield f"last argmax {axis}", lambda x, axis=axis: burn.ops.arg_reduce(x, kind="max", axis=axis, last=True)
        yield f"topk {axis}", lambda x, axis=axis, size=size: burn.topk(x, min(size, 3), axis)
        yield (
            f"take {axis}",
            lambda x, axis=axis, size=size: burn.take(x, burn.zeros((min(size, 1),), dtype="int64"), axis),
        )
        yield f"gather {axis}", lambda x, axis=axis: x.gather(axis, burn.argsort(x, axis))
        yield f"roll {axis}", lambda x, axis=axis: burn.roll(x, 1, axis)
        yield f"concat {axis}", lambda x, axis=axis: burn.concat([x, x * 2.0], axis)
        yield f"gradient {axis}", lambda x, axis=axis: burn.grad(lambda v: (v.cumsum(axis) * v).sum())(x)
    yield "sum of all", lambda x: x.sum()
    yield "argmax of all", lambda x: x.argmax()
    yield "matmul", lambda x: x @ x.mT
    yield "matmul of columns", lambda x: x.mT @ x
    yield "pad", lambda x: burn.pad(x, [(1, 0), (0, 2)])
    yield "at", lambda x: x.at[:1].add(1.0)
    yield "tril", lambda x: burn.tril(x, -1)
    for causal in (False, True):  # a head for each row, of one feature
        yield (
            f"attention {causal}",
            lambda x, causal=causal: burn.scaled_dot_product_attention(*[x[None, :, :, None]] * 3, is_causal=causal),
        )
    yield "layer_norm", lambda x: burn.ops.layer_norm(x)
    yield "one_hot", lambda x: burn.one_hot(x.argmax(0), 3) if rows else x
    if rows and columns:
        yield "max_pool", lambda x: burn.nn.MaxPool2d(1, stride=(2, 1))(x[None, None])
        yield "conv", lambda x: burn.nn.Conv2d(1, 3, 1)(x[None, None])


def sources(shape: tuple[int | str, int | str], dtype: str = "float32") -> dict[Source, str]:
    """The kernels of all functions, with the name of the first one that each is for."""
    found: dict[Source, str] = {}
    rows, columns = (7 if size == "n" else int(size) for size in shape)
    for name, function in functions(rows, columns):
        if 0 in shape and name.split()[0] in EMPTY:
            continue
        program = trace(function, {"x": f"{dtype}[{shape[0]}, {shape[1]}]"})
        for source in sources_of(program, passes=PASSES):
            found.setdefault(source, f"{name} of {shape[0]} x {shape[1]}")
    return found


def errors(named: dict[Source, str]) -> list[str]:
    """The errors of Triton's front end, and the kernels' texts."""
    found = []
    for source, name in named.items():
        try:
            check_text(source)
        except Exception:
            found.append(f"{name}: {traceback.format_exc(limit=1)}\n{source.text}")
    return found


@pytest.mark.parametrize(
    "shape",
    [pytest.param(s, id=f"{s[0]}x{s[1]}", marks=() if s in USUAL_SHAPES else pytest.mark.slow) for s in SHAPES],
)
def test_kernels_of_every_kind(shape: tuple[int | str, int | str]) -> None:
    named = sources(shape)
    assert len(named) >= (10 if all(shape) else 1)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(errors, (named,))
    assert not found, "\n".join(found)
