"""Cases of attention's backward pass, and its gradients by the definition in float64, for the tests of all back ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.adjoint import gradients
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype


@dataclass(frozen=True)
class Case:
    """b, h and g: batch, query heads, key heads. s and t: queries and keys. d and e: features of a key and a value.

    mask: the element type of a mask, which has one row without any key. bias: the shape of an additive mask whose gradient
    is computed as well; it hides a few keys."""

    name: str
    b: int = 1
    h: int = 2
    g: int = 2
    s: int = 19
    t: int = 19
    d: int = 5
    e: int = 5
    dtype: str = "float32"
    mask: str = ""
    lengths: tuple[int, ...] = ()
    causal: bool = False
    offset: int = 0
    left: int = -1
    right: int = -1
    softcap: float = 0.0
    symbolic: bool = False
    turned: bool = False
    bias: tuple[int, ...] = ()

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(self.b, self.h, self.s, self.d), (self.b, self.g, self.t, self.d), (self.b, self.g, self.t, self.e)]

    def settings(self) -> dict[str, Any]:
        return {
            "scale": 0.4, "causal": self.causal, "offset": self.offset, "left": self.left, "right": self.right,
            "softcap": self.softcap,
        }  # fmt: skip

    def program(self) -> Program:
        """The gradients of queries, keys, values and the bias; turned: the first three are [b, s, h, d]."""
        s, t = (symbol("s"), symbol("t")) if self.symbolic else (self.s, self.t)
        shapes = [(self.b, self.h, s, self.d), (self.b, self.g, t, self.d), (self.b, self.g, t, self.e)]
        if self.turned:
            shapes = [(b, n, h, d) for b, h, n, d in shapes]
        given = [(name, TensorType(self.dtype, shape)) for name, shape in zip("qkv", shapes, strict=True)]
        given.append(("g", TensorType(self.dtype, (self.b, self.h, s, self.e))))
        given += [("mask", TensorType(self.mask, (self.s, self.t)))] if self.mask else []
        given += [("mask", TensorType(self.dtype, self.bias))] if self.bias else []
        given += [("lengths", TensorType("int64", (self.b,)))] if self.lengths else []
        program = Program.create(given)
        inputs = dict(zip((name for name, _ in given), program.inputs, strict=True))
        operands = [inputs[name] for name in "qkv"]
        of_bias = [inputs["mask"]] if self.bias else []
        with program.building("node"):
            turned = [ops.transpose(x, permutation=(0, 2, 1, 3)) for x in operands] if self.turned else operands
            y = ops.attention(*turned, inputs.get("mask"), inputs.get("lengths"), **self.settings())
            found = [x for x in gradients([y], [inputs["g"]], [*operands, *of_bias]) if x is not None]
        program.finish([(f"d{number}", x) for number, x in enumerate(found)])
        return program


CASES = [
    Case("plain"),
    Case("more than a block", h=1, g=1, s=150, t=131, dtype="bfloat16"),
    Case("causal", s=70, t=70, causal=True),
    Case("causal in float16", s=70, t=70, causal=True, dtype="float16"),
    Case("causal behind a prefix", s=21, t=70, causal=True, offset=49),
    Case("rows that see no key", s=40, t=40, causal=True, offset=-7),
    Case("grouped queries", h=6, g=2, s=37, t=41, causal=True, offset=4),
    Case("grouped queries in bfloat16", b=2, h=4, g=2, s=35, t=35, causal=True, dtype="bfloat16"),
    Case("blocks that begin between those of the other side", h=1, g=1, s=256, t=256, causal=True, dtype="bfloat16"),
    Case("a window to the left alone, in whole blocks", s=64, t=64, left=9),
    Case("a window", s=67, t=67, causal=True, left=9),
    Case("a window to the left and the right", s=67, t=67, left=5, right=3),
    Case("an additive mask", mask="float32"),
    Case("a boolean mask", mask="bool", causal=True),
    Case("lengths", b=2, s=9, t=23, lengths=(23, 11), causal=True),
    Case("a cap", softcap=2.0, causal=True, t=23, offset=4),
    Case("values of other features", d=7, e=3),
    Case("one query", s=1, t=33),
    Case("one key", s=33, t=1),
    Case("no query", s=0, t=17),
    Case("no key", s=17, t=0),
    Case("sizes that are known late", h=1, g=1, s=37, t=37, causal=True, symbolic=True),
    Case("features side by side with heads", s=37, t=35, turned=True),
    Case("copied by maps", h=2, g=2, s=70, t=67, d=16, e=8, dtype="bfloat16"),
    Case("copied by maps, causal", b=2, h=1, g=1, s=131, t=131, d=24, e=24, causal=True, dtype="float16"),
    Case("copied by maps, shared keys", h=4, g=2, s=35, t=70, d=8, e=8, causal=True, offset=35, dtype="float16"),
    Case("copied by maps, a window", s=67, t=67, d=8, e=16, left=5, right=3, dtype="bfloat16"),
    Case("copied by maps, rows apart", s=37, t=35, d=16, e=16, turned=True, dtype="bfloat16"),
    Case(
        "copied by maps, sizes that are known late", s=37, t=37, d=16, e=16, causal=True, symbolic=True, dtype="float16"
    ),
]

BIASED = [
    Case("a bias of every score", b=2, bias=(2, 2, 19, 19)),
    Case("a bias of heads", b=2, bias=(1, 2, 19, 19)),
    Case("a bias of heads alone", b=2, bias=(2, 1, 1)),
    Case("a bias of queries and keys", b=3, s=37, t=41, bias=(37, 41)),
    Case("a bias of keys", b=2, s=37, t=41, bias=(2, 1, 1, 41), causal=True),
    Case("a bias of keys of heads", b=2, h=4, g=2, s=37, t=41, bias=(2, 4, 1, 41), causal=True, offset=4),
    Case("a bias of queries", b=2, s=33, t=35, bias=(1, 2, 33, 1)),
    Case("one bias", s=9, t=11, bias=(1,)),
    Case("a bias, a cap", b=2, s=21, t=23, softcap=2.0, bias=(1, 1, 21, 23), left=4, right=3),
    Case("a bias, lengths", b=2, s=9, t=23, lengths=(23, 11), causal=True, bias=(2, 9, 23)),
    Case("a bias, rows that see no key", s=70, t=70, causal=True, offset=-7, bias=(1, 2, 70, 70)),
    Case("a bias, a window over blocks", h=1, g=1, s=70, t=131, left=20, right=3, bias=(70, 131), dtype="bfloat16"),
    Case("a bias, one query", s=1, t=33, bias=(1, 2, 1, 33)),
    Case("a bias, one key", s=33, t=1, bias=(2, 33, 1)),
    Case("a bias, no query", s=0, t=17, bias=(1, 2, 1, 17)),
    Case("a bias, all keys in a program", b=2, h=4, g=2, s=37, t=41, d=16, e=8, dtype="bfloat16", bias=(1, 4, 37, 41)),
    Case("a bias, all keys in a program, causal", s=70, t=70, d=16, e=16, causal=True, dtype="float16", bias=(1, 70)),
    Case("a bias, more keys than a program has", h=1, g=1, s=70, t=150, d=16, e=16, dtype="float16", bias=(1, 70, 150)),
    Case("a bias, more keys, causal", h=1, g=1, s=150, t=150, d=16, e=16, dtype="float16", bias=(1, 150), causal=True),
]


def attended(
    case: Case, operands: Sequence[np.ndarray], mask: np.ndarray | None = None, lengths: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities by the definition, the derivatives of scores, and the values of every head, in float64."""
    q, k, v = (x.astype(np.float64) for x in operands)
    k, v = (np.repeat(x, case.h // case.g, axis=1) for x in (k, v))
    score = 0.4 * q @ k.swapaxes(2, 3)
    score_derivative = np.full_like(score, 0.4)
    if case.softcap:
        bent = np.tanh(score / case.softcap)
        score, score_derivative = case.softcap * bent, 0.4 * (1 - bent**2)
    key = np.arange(case.t)
    ends = np.full(case.b, case.t) if lengths is None else lengths
    position = np.arange(case.s)[None, :] + (case.offset if lengths is None else ends[:, None] - case.s)
    position, key = position[:, None, :, None], key[None, None, None, :]
    seen = key < ends[:, None, None, None]
    if case.causal:
        seen = seen & (key <= position)
    if case.left >= 0:
        seen = seen & (position - key <= case.left)
    if case.right >= 0:
        seen = seen & (key - position <= case.right)
    if mask is not None and mask.dtype == bool:
        seen = seen & mask
    elif mask is not None:
        score = score + mask
    score = np.where(seen, score, -np.inf)
    top = score.max(-1, keepdims=True, initial=-1e30)
    p = np.exp(score - top)
    return p / np.maximum(p.sum(-1, keepdims=True), 1e-300), score_derivative, v


def reference(case: Case, operands: Sequence[np.ndarray], g: np.ndarray, **extra: np.ndarray) -> list[np.ndarray]:
    """The gradients by the definition, in float64."""
    p, score_derivative, v = attended(case, operands, **extra)
    share, g = case.h // case.g, g.astype(np.float64)
    q, k = (x.astype(np.float64) for x in operands[:2])
    slope = g @ v.swapaxes(2, 3)
    slope = p * (slope - (p * slope).sum(-1, keepdims=True))
    of_bias = [summed_to(slope, case.bias)] if case.bias else []
    slope = slope * score_derivative
    dk, dv = slope.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ g
    dk, dv = (x.reshape(case.b, case.g, share, case.t, -1).sum(2) if case.t else x[:, : case.g] for x in (dk, dv))
    return [slope @ np.repeat(k, share, axis=1), dk, dv, *of_bias]


def summed_to(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The sums over the axes along which an operand of that shape broadcasts."""
    aligned = (1,) * (x.ndim - len(shape)) + shape
    axes = tuple(axis for axis, size in enumerate(aligned) if size == 1)
    return x.sum(axes, keepdims=True).reshape(shape)


def arrays_of(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = [*case.shapes, (case.b, case.h, case.s, case.e)]
    arrays = [rng.standard_normal(s).astype(numpy_dtype(case.dtype)) for s in shapes]
    if case.mask == "bool":
        mask = rng.random((case.s, case.t)) < 0.7
        mask[2] = False
        arrays.append(mask)
    elif case.mask:
        arrays.append(rng.standard_normal((case.s, case.t)).astype(case.mask))
        arrays[-1][3] = -np.inf
    if case.bias:
        arrays.append(rng.standard_normal(case.bias).astype(numpy_dtype(case.dtype)))
        arrays[-1].reshape(-1)[1::7] = -np.inf
    if case.lengths:
        arrays.append(np.array(case.lengths))
    return arrays


def extras(case: Case, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The mask and the lengths among a case's arrays, by name."""
    names = ["mask"] * bool(case.mask or case.bias) + ["lengths"] * bool(case.lengths)
    return dict(zip(names, arrays[4:], strict=False))


def check(got: list[np.ndarray], want: list[np.ndarray], close: float, case: Case) -> None:
    """The gradient of a bias is a sum of as many rounded terms as it has fewer elements than scores."""
    for name, a, b in zip(("q", "k", "v", "bias"), got, want, strict=False):
        a, exact = a.astype(np.float64), case.dtype == "float32"
        many = 1.0 if name != "bias" or exact else max(1.0, np.sqrt(case.b * case.h * case.s * case.t / max(1, b.size)))
        turned = a.swapaxes(1, 2) if case.turned and name != "bias" else a
        np.testing.assert_allclose(turned, b, rtol=close, atol=close * many, err_msg=name)
    assert len(got) == len(want)
