"""Attention whose mask is differentiated too, with dropout, and its second derivatives, against torch in float64."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from tests.codegen.dropouts import kept

torch = pytest.importorskip("torch")

KEY = (5, 4_000_000_000)


@dataclass(frozen=True)
class Case:
    """b, h and g: batch, query heads, key heads. s and t: queries and keys. bias: the mask's shape."""

    bias: tuple[int, ...]
    b: int = 2
    h: int = 4
    g: int = 2
    s: int = 5
    t: int = 7
    d: int = 3
    e: int = 2
    causal: bool = False
    offset: int = 0
    softcap: float = 0.0
    rate: float = 0.0

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [
            (self.b, self.h, self.s, self.d),
            (self.b, self.g, self.t, self.d),
            (self.b, self.g, self.t, self.e),
            self.bias,
        ]

    def burn(self, q: Any, k: Any, v: Any, bias: Any) -> Any:
        settings = {"causal": self.causal, "offset": self.offset, "softcap": self.softcap, "rate": self.rate}
        key = burn.tensor(KEY, "uint32") if self.rate else None
        return ops.attention(q, k, v, bias, None, key, scale=0.6, **settings)

    def torch(self, q: Any, k: Any, v: Any, bias: Any) -> Any:
        """By the definition; a row that sees no key gives zeros."""
        k, v = (x.repeat_interleave(self.h // self.g, 1) for x in (k, v))
        score = q @ k.mT * 0.6
        score = self.softcap * torch.tanh(score / self.softcap) if self.softcap else score
        seen = torch.ones(self.s, self.t, dtype=torch.bool)
        if self.causal:
            seen = torch.arange(self.t)[None, :] <= torch.arange(self.s)[:, None] + self.offset
        p = (score + bias).masked_fill(~seen, -1e300).softmax(-1) * seen
        factor = kept(KEY, tuple(p.shape), self.rate) / (1 - self.rate) if self.rate else np.ones(p.shape)
        return p * torch.from_numpy(factor) @ v


BIASES = [
    (2, 4, 5, 7),
    (1, 4, 5, 7),
    (2, 1, 1, 7),
    (2, 4, 1, 7),
    (1, 1, 5, 7),
    (4, 1, 1),
    (5, 1),
    (7,),
    (1,),
    (2, 1, 5, 1),
]
CASES = [
    *(Case(bias, causal=n % 2 == 0, rate=0.3 if n % 3 == 0 else 0.0) for n, bias in enumerate(BIASES)),
    Case((1, 4, 5, 7), causal=True, offset=-2, rate=0.5),
    Case((2, 4, 1, 7), causal=True, softcap=1.5),
    Case((4, 1, 3), s=1, t=3, h=4, g=1),
    Case((1, 2, 5, 1), t=1, h=2, g=2),
]


def given(case: Case) -> tuple[list[np.ndarray], np.ndarray, list[np.ndarray]]:
    """The operands, a cotangent of the result, and weights of the gradients."""
    rng = np.random.default_rng(len(case.bias) + case.s)
    arrays, weights = ([rng.standard_normal(shape) for shape in case.shapes] for _ in range(2))
    return arrays, rng.standard_normal((case.b, case.h, case.s, case.e)), weights


@pytest.mark.parametrize("case", CASES, ids=str)
def test_first_and_second_derivatives(case: Case) -> None:
    """The second ones are the gradients of a weighted sum of the first ones."""
    arrays, cotangent, weights = given(case)
    wide = [torch.from_numpy(x).requires_grad_() for x in arrays]
    first = torch.autograd.grad((case.torch(*wide) * torch.from_numpy(cotangent)).sum(), wide, create_graph=True)
    total = sum((x * torch.from_numpy(w)).sum() for x, w in zip(first, weights, strict=True))
    want = [x.detach().numpy() for x in (*first, *torch.autograd.grad(total, wide))]

    def slopes(*operands: Any) -> Any:
        return burn.grad(
            lambda *xs: (case.burn(*xs) * burn.tensor(cotangent.astype(np.float32))).sum(), argnums=(0, 1, 2, 3)
        )(*operands)

    def both(*operands: Any) -> Any:
        def of(*xs: Any) -> Any:
            parts = zip(slopes(*xs), weights, strict=True)
            return sum((x * burn.tensor(w.astype(np.float32))).sum() for x, w in parts)

        return (*slopes(*operands), *burn.grad(of, argnums=(0, 1, 2, 3))(*operands))

    tensors = [burn.tensor(x.astype(np.float32)) for x in arrays]
    got = burn.compile(both, tensors, cache=False)(*tensors)
    for name, a, b in zip(itertools.product(("first", "second"), "qkvm"), got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=2e-4, atol=2e-4 * max(1.0, np.abs(b).max()), err_msg=str(name))


def test_one_tensor_as_queries_and_mask() -> None:
    """Its gradient is the sum of both."""
    case = Case((2, 4, 5, 7), t=7, d=7)
    arrays, cotangent, _ = given(case)
    x, k, v = (torch.from_numpy(a).requires_grad_() for a in arrays[:3])
    (want,) = torch.autograd.grad((case.torch(x, k, v, x) * torch.from_numpy(cotangent)).sum(), (x,))
    given_ = [burn.tensor(a.astype(np.float32)) for a in arrays[:3]]

    def loss(x: Any, k: Any, v: Any) -> Any:
        return (case.burn(x, k, v, x) * burn.tensor(cotangent.astype(np.float32))).sum()

    got = burn.compile(burn.grad(loss), given_, cache=False)(*given_).numpy()
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-4)
