"""Attention on a real GPU, with warp specialisation and TMA copies, against float64. Skipped without a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import burn
from burn import ops
from tests.gpu.tolerance import assert_near

pytest.importorskip("triton")


@dataclass(frozen=True)
class Case:
    """s and t: queries and keys; d and e: features of a key and a value; turned: [b, s, h, d] comes in."""

    s: int
    t: int
    d: int
    e: int = 0
    b: int = 1
    h: int = 2
    g: int = 2
    causal: bool = True
    offset: int = 0
    turned: bool = False
    dtype: str = "bfloat16"


CASES = [
    Case(4096, 4096, 64, h=3, g=3),
    Case(4099, 4099, 64, b=2),
    Case(4200, 4200, 64, causal=False),
    Case(4100, 4100, 64, h=6, g=2, turned=True, dtype="float16"),
    Case(2048, 2048, 128, b=2),
    Case(2049, 2049, 128, dtype="float16"),
    Case(2111, 3001, 128, causal=False),
    Case(2048, 3000, 128, offset=952),
    Case(2300, 2100, 128, offset=-700),
    Case(2500, 2500, 80, h=4, g=2, turned=True),
    Case(2200, 2200, 64, e=128),
    Case(2200, 2200, 128, e=64),
    Case(1, 67, 64, causal=False),
    Case(67, 67, 64),
    Case(300, 300, 128),
    Case(130, 257, 72, causal=False),
    Case(190, 190, 24, h=4, g=4, turned=True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_and_gradients(torch: Any, case: Case) -> None:
    torch.manual_seed(0)
    e = case.e or case.d
    shapes = [(case.b, case.h, case.s, case.d), (case.b, case.g, case.t, case.d), (case.b, case.g, case.t, e)]
    operands = [torch.randn(shape, device="cuda").to(getattr(torch, case.dtype)) for shape in shapes]
    cotangent = torch.randn((case.b, case.h, case.s, e), device="cuda").to(operands[0].dtype)
    given = [x.transpose(1, 2).contiguous() for x in operands] if case.turned else operands
    settings: dict[str, Any] = {"scale": case.d**-0.5, "causal": case.causal, "offset": case.offset}

    def forward(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (ops.transpose(x, permutation=(0, 2, 1, 3)) if case.turned else x for x in (q, k, v))
        return ops.attention(q, k, v, None, None, **settings)

    def both(q: Any, k: Any, v: Any, g: Any) -> Any:
        y, back = burn.vjp(forward, q, k, v)
        return (y, *back(g))

    types = [f"{case.dtype}[{', '.join(map(str, x.shape))}]" for x in (*given, cotangent)]
    y, *slopes = burn.compile(both, types, cache=False, device="cuda")(*given, cotangent)
    slopes = [x.transpose(1, 2) for x in slopes] if case.turned else slopes
    for got, want in zip((y, *slopes), _wanted(torch, case, operands, cotangent), strict=True):
        assert_near(got, want)
    alone = burn.compile(forward, types[:3], cache=False, device="cuda")(*given)
    assert_near(alone, y.double())


def _wanted(torch: Any, case: Case, operands: list[Any], cotangent: Any) -> tuple[Any, ...]:
    """By the definition, in float64; a row that sees no key gives zeros."""
    with torch.enable_grad():
        q, k, v = (x.double().requires_grad_() for x in operands)
        keys, values = (x.repeat_interleave(case.h // case.g, 1) for x in (k, v))
        score = q @ keys.mT * case.d**-0.5
        row, key = (torch.arange(n, device="cuda") for n in (case.s, case.t))
        seen = key[None, :] <= row[:, None] + case.offset if case.causal else (key >= 0)[None, :].expand(case.s, -1)
        p = score.masked_fill(~seen, -1e300).softmax(-1) * seen
        y = p @ values
        return (y.detach(), *torch.autograd.grad(y, (q, k, v), cotangent.double()))
