"""Sizes of a composite's operands that have to agree: what is refused with numbers is refused in a run with named sizes.

Every axis of every operand has a name of its own; then one axis at a time gets another size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    """function: of the operands. shapes: of operands, by name. free: (operand, axis, size) that are also valid. numbers: axes
    without a name, because the op requires a number there. dtypes: other than float32."""

    name: str
    function: Callable[..., Any]
    shapes: Shapes
    free: frozenset[tuple[str, int, int]] = frozenset()
    numbers: frozenset[tuple[str, int]] = frozenset()
    dtypes: dict[str, str] = field(default_factory=dict)

    def specs(self) -> tuple[str, ...]:
        """Types in which every axis has a name of its own."""
        return tuple(
            f"{self.dtypes.get(name, 'float32')}["
            + ", ".join(str(d) if (name, i) in self.numbers else f"{name}{i}" for i, d in enumerate(shape))
            + "]"
            for name, shape in self.shapes.items()
        )

    def inputs(self, shapes: Shapes) -> list[np.ndarray]:
        data = np.random.default_rng(3)
        return [
            (data.random(shape) + 0.5).astype(self.dtypes.get(name, "float32"))
            if "int" not in self.dtypes.get(name, "")
            else np.ones(shape, self.dtypes[name])
            for name, shape in shapes.items()
        ]

    def others(self) -> Iterator[tuple[tuple[str, int, int], Shapes]]:
        """One axis of other sizes."""
        for name, shape in self.shapes.items():
            for axis, d in enumerate(shape):
                for size in sorted({1, d - 1, d + 1} - {0, d}):
                    if (name, axis) not in self.numbers:
                        yield (name, axis, size), {**self.shapes, name: (*shape[:axis], size, *shape[axis + 1 :])}


def recurrent(kind: str, gates: int, direction: str) -> Case:
    ways, hidden = 2 if direction == "bidirectional" else 1, 3
    shapes: dict[str, tuple[int, ...]] = {
        "x": (2, 4, 5),
        "w": (ways, gates * hidden, 5),
        "r": (ways, gates * hidden, hidden),
        "b": (ways, 2 * gates * hidden),
        "l": (4,),
        "h": (ways, 4, hidden),
    }
    if kind == "lstm":
        shapes |= {"c": (ways, 4, hidden), "p": (ways, 3 * hidden)}
    return Case(
        f"{kind} {direction}",
        lambda *xs: getattr(ops, kind)(*xs, direction=direction),
        shapes,
        free=frozenset({("x", 0, 1), ("x", 0, 3)}),
        numbers=frozenset({("r", 2), ("x", 0)}),
        dtypes={"l": "int64"},
    )


def channels(name: str, count: int, x: tuple[int, ...] = (2, 4, 3), **options: Any) -> Case:
    """A norm whose parameters have an element for each channel."""
    free = frozenset({("x", 0, 1), ("x", 0, 3), ("x", 2, 1), ("x", 2, 2), ("x", 2, 4)})
    shapes = {"x": x, **{f"p{i}": x[1:2] for i in range(count)}}
    return Case(name, lambda *xs: getattr(ops, name)(*xs, **options), shapes, free)


def loss(name: str) -> Case:
    shapes: dict[str, tuple[int, ...]] = {"x": (2, 4, 3), "t": (2, 3), "w": (4,)}
    return Case(name, lambda x, t, w: getattr(ops, name)(x, t, w, reduction="none"), shapes, dtypes={"t": "int64"})


CASES = [
    *(
        recurrent(kind, gates, direction)
        for kind, gates in (("rnn", 1), ("gru", 3), ("lstm", 4))
        for direction in ("forward", "reverse", "bidirectional")
        if kind == "rnn" or direction == "bidirectional"
    ),
    channels("instance_norm", 2),
    channels("group_norm", 2, groups=1),
    channels("batch_norm", 4),
    Case(
        "layer_norm",
        lambda x, s, b: ops.layer_norm(x, s, b),
        {"x": (2, 4), "s": (4,), "b": (2, 4)},
        free=frozenset({("s", 0, 1), ("b", 0, 1), ("b", 1, 1)}),
    ),
    Case(
        "rms_norm", lambda x, s: ops.rms_norm(x, s), {"x": (3, 4), "s": (3, 4)}, frozenset({("s", 0, 1), ("s", 1, 1)})
    ),
    Case("prelu", lambda x, s: ops.prelu(x, s), {"x": (3, 4), "s": (3, 4)}, frozenset({("s", 0, 1), ("s", 1, 1)})),
    loss("nll_loss"),
    loss("cross_entropy"),
    Case("dft", lambda a, b: ops.dft(a, b), {"a": (3, 4), "b": (3, 4)}, numbers=frozenset({("a", 1), ("b", 1)})),
    Case(
        "quantize",
        lambda x, s: ops.quantize(x, s, None, dtype="int8", axis=1),
        {"x": (2, 4), "s": (4,)},
        free=frozenset({("x", 0, 1), ("x", 0, 3)}),
        numbers=frozenset({("s", 0)}),  # one element is a scale for the whole tensor
    ),
    Case(
        "dequantize in blocks",
        lambda x, s: ops.dequantize(x, s, None, dtype="float32", axis=1, block=2),
        {"x": (3, 4), "s": (3, 2)},
        free=frozenset({("x", 1, 3)}),
        dtypes={"x": "int8"},
    ),
    Case(
        "rotary_embedding",
        lambda x, c, s: ops.rotary_embedding(x, c, s),
        {"x": (2, 3, 4, 6), "c": (2, 4, 3), "s": (2, 4, 3)},
        free=frozenset({("c", 0, 1), ("s", 0, 1), ("x", 1, 1), ("x", 1, 2), ("x", 1, 4), ("x", 3, 7)}),
        numbers=frozenset({("c", 2), ("s", 2), ("x", 3)}),
    ),
    Case(
        "attention",
        lambda q, k, v, m, n: ops.attention(q, k, v, m, n, scale=0.5),
        {"q": (2, 3, 4, 5), "k": (2, 3, 6, 5), "v": (2, 3, 6, 7), "m": (2, 3, 4, 6), "n": (2,)},
        free=frozenset({("v", 3, 1), ("v", 3, 6), ("v", 3, 8), *(("m", i, 1) for i in range(4))}),
        numbers=frozenset({("q", 1), ("k", 1), ("v", 1)}),
        dtypes={"n": "int64"},
    ),
]


def results(values: Any) -> list[np.ndarray]:
    return [np.asarray(v) for v in (values if isinstance(values, (list, tuple)) else [values])]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_sizes_that_do_not_fit_are_refused(case: Case) -> None:
    named = burn.compile(case.function, case.specs())
    wanted = results(case.function(*map(burn.constant, case.inputs(case.shapes))))
    for got, want in zip(results(named(*case.inputs(case.shapes))), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    wrong = []
    for change, shapes in case.others():
        inputs = case.inputs(shapes)
        for way, run in (("numbers", lambda *xs: case.function(*map(burn.constant, xs))), ("names", named)):
            try:
                results(run(*inputs))
                fits = True
            except burn.BurnError:
                fits = False
            if fits != (change in case.free):
                wrong.append(f"{way}: {change} {'runs' if fits else 'is refused'}")
    assert not wrong, "\n".join(wrong)
