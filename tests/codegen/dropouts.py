"""The elements that dropout keeps, in numpy. Attention with dropout by its definition in float64, for tests of all back ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from burn.dialect import ops
from burn.dialect.adjoint import gradients
from burn.dialect.dims import symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from tests.codegen.attention_gradients import Case, attended, summed_to

KEY = (0x13198A2E, 0x243F6A88)


def kept(key: tuple[int, int], shape: tuple[int, ...], rate: float) -> np.ndarray:
    """The elements that dropout keeps."""
    *lead, columns = shape
    k = np.arange(columns, dtype=np.uint64)
    row = np.arange(int(np.prod(lead)), dtype=np.uint64)[:, None]
    groups = np.uint64((columns + 15) // 16)
    if 0.01 <= rate <= 0.99:
        call = row * groups * np.uint64(4) + k // np.uint64(16) * np.uint64(4) + (k // np.uint64(2)) % np.uint64(4)
        first, second = _threefry(key, call)
        word = np.where(k % np.uint64(16) >= 8, second, first)
        bits, most = np.where(k % np.uint64(2) == 1, word >> np.uint64(16), word & np.uint64(0xFFFF)), 2**16
    else:
        call = row * groups * np.uint64(8) + k // np.uint64(16) * np.uint64(8) + k % np.uint64(8)
        first, second = _threefry(key, call)
        bits, most = np.where(k % np.uint64(16) >= 8, second, first), 2**32
    return (bits >= np.uint64(min(max(round(rate * most), 1), most - 1))).reshape(shape)


def _threefry(key: tuple[int, int], call: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Threefry-2x32-20 (Salmon et al. 2011), with words in 64 bits."""
    mask = np.uint64(0xFFFFFFFF)
    keys = [np.uint64(k) for k in (*key, key[0] ^ key[1] ^ 0x1BD11BDA)]
    a, b = (call & mask) + keys[0] & mask, (call >> np.uint64(32)) + keys[1] & mask
    for i in range(20):
        left = np.uint64((13, 15, 26, 6, 17, 29, 16, 24)[i % 8])
        a = a + b & mask
        b = (b << left | b >> np.uint64(32) - left) & mask ^ a
        if i % 4 == 3:
            n = i // 4 + 1
            a, b = a + keys[n % 3] & mask, b + keys[(n + 1) % 3] + np.uint64(n) & mask
    return a, b


@dataclass(frozen=True)
class Dropped(Case):
    """The result of attention, as well as the gradients."""

    rate: float = 0.1

    def program(self) -> Program:
        """Attention with dropout, and the gradients of queries, keys, values and the bias."""
        s, t = (symbol("s"), symbol("t")) if self.symbolic else (self.s, self.t)
        shapes = [(self.b, self.h, s, self.d), (self.b, self.g, t, self.d), (self.b, self.g, t, self.e)]
        given = [(name, TensorType(self.dtype, shape)) for name, shape in zip("qkv", shapes, strict=True)]
        given.append(("g", TensorType(self.dtype, (self.b, self.h, s, self.e))))
        given += [("mask", TensorType(self.mask, (self.s, self.t)))] if self.mask else []
        given += [("mask", TensorType(self.dtype, self.bias))] if self.bias else []
        given += [("lengths", TensorType("int64", (self.b,)))] if self.lengths else []
        given.append(("key", TensorType("uint32", (2,))))
        program = Program.create(given)
        inputs = dict(zip((name for name, _ in given), program.inputs, strict=True))
        operands = [inputs[name] for name in "qkv"]
        of_bias = [inputs["mask"]] if self.bias else []
        with program.building("node"):
            y = ops.attention(
                *operands, inputs.get("mask"), inputs.get("lengths"), inputs["key"], rate=self.rate, **self.settings()
            )
            found = [x for x in gradients([y], [inputs["g"]], [*operands, *of_bias]) if x is not None]
        results = [next(op for op in program.block.operations if "attention_forward" in op.operation.name).results[0]]
        program.finish([(f"r{number}", x) for number, x in enumerate([*results, *found])])
        return program


def reference(
    case: Dropped, operands: Sequence[np.ndarray], g: np.ndarray, key: np.ndarray, **extra: np.ndarray
) -> list[np.ndarray]:
    """Attention and its gradients by the definition, in float64."""
    p, score_derivative, v = attended(case, operands, **extra)
    share, g = case.h // case.g, g.astype(np.float64)
    q, k = (x.astype(np.float64) for x in operands[:2])
    factor = kept((int(key[0]), int(key[1])), p.shape, case.rate) / (1 - case.rate)
    slope = factor * (g @ v.swapaxes(2, 3))
    slope = p * (slope - (p * slope).sum(-1, keepdims=True))
    of_bias = [summed_to(slope, case.bias)] if case.bias else []
    slope = slope * score_derivative
    dropped = p * factor
    dk, dv = slope.swapaxes(2, 3) @ q, dropped.swapaxes(2, 3) @ g
    dk, dv = (x.reshape(case.b, case.g, share, case.t, -1).sum(2) if case.t else x[:, : case.g] for x in (dk, dv))
    return [dropped @ v, slope @ np.repeat(k, share, axis=1), dk, dv, *of_bias]


CASES = [
    Dropped("plain"),
    Dropped("more than a block", h=1, g=1, s=150, t=131, dtype="bfloat16"),
    Dropped("whole blocks in float16", h=1, g=1, s=128, t=128, d=16, e=16, dtype="float16"),
    Dropped("causal", s=70, t=70, causal=True, rate=0.5),
    Dropped("rows that see no key", s=40, t=40, causal=True, offset=-7),
    Dropped("grouped queries", b=2, h=6, g=2, s=37, t=41, causal=True, offset=4),
    Dropped("a window to the left", s=64, t=67, left=9),
    Dropped("an additive mask", mask="float32"),
    Dropped("a boolean mask", mask="bool", causal=True, rate=0.3),
    Dropped("lengths", b=2, s=9, t=23, lengths=(23, 11), causal=True),
    Dropped("a cap", softcap=2.0, causal=True, t=23, offset=4),
    Dropped("values of other features", d=7, e=3, rate=0.9),
    Dropped("a rate close to 0", s=33, t=64, rate=1e-3),
    Dropped("a rate close to 1", s=33, t=64, rate=0.995),
    Dropped("one query", s=1, t=33),
    Dropped("one key", s=33, t=1, rate=0.5),
    Dropped("no query", s=0, t=17),
    Dropped("no key", s=17, t=0),
    Dropped("sizes that are known late", b=2, s=37, t=37, causal=True, symbolic=True),
    Dropped("all keys in a program, causal", s=70, t=70, d=16, e=16, causal=True, offset=-7, dtype="float16"),
    Dropped("all keys in a program, shared", b=2, h=4, g=2, s=37, t=41, d=16, e=8, causal=True, dtype="bfloat16"),
    Dropped("all keys in a program, a mask", s=33, t=19, d=16, e=16, mask="bool", dtype="float16", rate=0.5),
    Dropped("copied by maps", h=2, g=2, s=70, t=67, d=16, e=8, dtype="bfloat16"),
    Dropped("a bias", b=2, s=37, t=41, bias=(1, 2, 37, 41)),
    Dropped("a bias of keys, causal", b=2, h=4, g=2, s=70, t=67, bias=(2, 1, 1, 67), causal=True, rate=0.4),
    Dropped("a bias, all keys in a program", h=4, g=2, s=70, t=70, d=16, e=16, bias=(4, 70, 70), dtype="bfloat16"),
]


def check(got: Sequence[np.ndarray], want: Sequence[np.ndarray], close: float) -> None:
    assert len(got) == len(want)
    for name, a, b in zip(("y", "dq", "dk", "dv", "bias"), got, want, strict=False):
        largest = max(1.0, float(np.abs(b).max(initial=0.0)))
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=close, atol=close * largest, err_msg=name)
