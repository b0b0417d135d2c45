"""One loop: run in one of burn's ways beside numpy, with drawn autotuning and costs. Enter at `case`."""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import burn
from burn.runtime.dtypes import name_of
from tests.fuzz.compilation import chosen
from tests.fuzz.loops.draw import Loop, drawn
from tests.fuzz.loops.namespaces import Burn, Numpy
from tests.fuzz.runner import Outcome

WAYS = ("recorded", "jit", "compile", "compile", "donated", "named", "named")
NEAR = {
    "float64": 1e-11,
    "complex128": 1e-11,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 3e-2,
    "bfloat16": 2e-1,
}
"""Differences for each element type, relative to the largest element; others must be equal."""


def case(seed: int) -> Outcome:
    chance = random.Random(f"way {seed}")
    loop, way = drawn(seed), chance.choice(WAYS)
    autotune = chance.choice((None, "any", "any", "full"))
    with np.errstate(all="ignore"), warnings.catch_warnings(), chosen(seed, autotune):
        warnings.simplefilter("ignore")
        return attempt(loop, way, seed)


def attempt(loop: Loop, way: str, seed: int) -> Outcome:
    about = f"# {way}, {loop.kind}, {', '.join(loop.dtypes)}, {list(loop.shape)}, {loop.trips} iterations\n{loop.text}"
    inputs = loop.inputs(seed)
    runs = [inputs, [array.copy() for array in inputs]]
    if way == "named":
        fixed = loop.kind == "scan" and not loop.xs  # burn.scan without slices needs a known length
        runs += [loop.inputs(seed + n, other_shape(loop, n), loop.trips if fixed else n) for n in (0, 1, 4)]
    try:
        run = prepared(loop, way, inputs)
    except burn.BurnError as error:
        kind = "refused" if way == "named" and "what a loop carries keeps its type" in str(error) else "refusal"
        return Outcome(kind, f"{type(error).__name__}: {error}\n{about}")
    except Exception:
        return Outcome("exception", f"{traceback.format_exc()}\n{about}")
    for given in runs:
        wanted = function(loop, Numpy())(*given)
        kept = [array.copy() for array in given]
        try:
            got = run([array.copy() for array in given] if way == "donated" else given)
        except burn.BurnError as error:
            return Outcome("refusal", f"{[list(a.shape) for a in given]}: {type(error).__name__}: {error}\n{about}")
        except Exception:
            return Outcome("exception", f"{traceback.format_exc()}\n{about}")
        for number, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
            if text := difference(np.asarray(ours), np.asarray(theirs)):
                return Outcome("different", f"{list(given[0].shape)}, result {number}: {text}\n{about}")
        if any(a.tobytes() != b.tobytes() for a, b in zip(given, kept, strict=True)):
            return Outcome("aliases", f"an input was changed\n{about}")
        for array in got:
            if isinstance(array, np.ndarray) and array.flags.writeable:
                array.fill(1)  # neither an input nor a constant of the program
        if any(a.tobytes() != b.tobytes() for a, b in zip(given, kept, strict=True)):
            return Outcome("aliases", f"a result is an input\n{about}")
    return Outcome("ok")


def other_shape(loop: Loop, number: int) -> tuple[int, ...]:
    """Equal sizes stay equal; 1 stays."""
    chance = random.Random(f"{loop.text} {number}")
    sizes = {d: chance.choice((0, 1, 2, 6, 19)) for d in sorted(set(loop.shape))}
    return tuple(d if d == 1 else sizes[d] for d in loop.shape)


def function(loop: Loop, side: Any) -> Callable[..., Any]:
    """Of carried tensors, captured ones, slices and the number of iterations."""
    body, count = eval(loop.text), len(loop.dtypes)

    def run(*given: Any) -> Any:
        xs = given[2 * count] if loop.xs else None
        return tuple(body(side, given[:count], given[count : 2 * count], xs, given[-1]))

    return run


def prepared(loop: Loop, way: str, inputs: Sequence[np.ndarray]) -> Callable[[Sequence[np.ndarray]], list[Any]]:
    of = function(loop, Burn())
    fixed = inputs[-1].item()

    def whole(*given: Any) -> Any:
        return of(*given[:-1], fixed if loop.kind == "scan" else given[-1])

    if way == "recorded":
        return lambda given: [t.numpy().copy() for t in whole(*map(burn.constant, given))]
    if way == "jit":
        compiled: Any = burn.jit(whole)
    else:
        examples = tuple(spec(a, a is inputs[-2] and loop.xs) for a in inputs) if way == "named" else tuple(inputs)
        donated = tuple(range(len(loop.dtypes))) if way == "donated" else ()
        compiled = burn.compile(whole, examples, donate=donated, cache=False)

    def run(given: Sequence[np.ndarray]) -> list[Any]:
        results = compiled(*given)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    return run


def spec(array: np.ndarray, sliced: bool) -> str:
    """The type with a name for every size but 1; equal sizes have one name. The first axis of slices has a name of its own."""
    dims = ["1" if d == 1 else f"n{d}" for d in array.shape]
    if sliced:
        dims[0] = "trips"
    return f"{name_of(array.dtype)}[{', '.join(dims)}]"


def difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype}{list(ours.shape)}, numpy {theirs.dtype}{list(theirs.shape)}"
    near = NEAR.get(theirs.dtype.name)
    if near is None:
        small = ours.dtype.name.startswith("float8")
        a, b = (x.astype(np.float32) if small else x for x in (ours, theirs))
        bad = np.asarray((a != b) & ~((a != a) & (b != b)))
    else:
        wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
        a, b = ours.astype(wide), theirs.astype(wide)
        finite = np.abs(b[np.isfinite(b)])
        bad = (
            ~(np.abs(a - b) <= near * max(1.0, float(finite.max(initial=0)))) & ~(a == b) & ~(np.isnan(a) & np.isnan(b))
        )
    if not bad.any():
        return ""
    return f"{int(bad.sum())} of {bad.size} elements differ: {ours.reshape(-1)[:6]}, numpy {theirs.reshape(-1)[:6]}"
