"""Attention on a real GPU, with warp specialisation and TMA copies, against float64. Skipped without a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import burn
from burn import ops
from tests.codegen.dropouts import kept
from tests.gpu.tolerance import assert_near

pytest.importorskip("triton")


@dataclass(frozen=True)
class Case:
    """s and t: queries and keys; d and e: features of a key and a value; turned: [b, s, h, d] comes in. bias: the shape of an
    additive mask with a gradient; rate: of dropout."""

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
    bias: tuple[int, ...] = ()
    rate: float = 0.0


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
    Case(128, 128, 64, b=3, causal=False, bias=(1, 2, 128, 128), rate=0.1),
    Case(128, 128, 128, b=2, bias=(2, 2, 1, 128)),
    Case(49, 49, 32, b=5, h=3, g=3, causal=False, bias=(1, 3, 49, 49)),
    Case(300, 517, 64, b=2, causal=False, bias=(2, 1, 1, 517), dtype="float16"),
    Case(301, 301, 128, h=4, g=2, turned=True, bias=(301, 301)),
    Case(300, 260, 80, offset=-70, bias=(1, 2, 300, 260), rate=0.3),
    Case(70, 45, 16, b=2, bias=(2, 1, 45), dtype="float32"),
    Case(2100, 2200, 128, offset=100, bias=(1, 2, 1, 2200)),
]

KEY = (3, 4_000_000_000)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_and_gradients(torch: Any, case: Case) -> None:
    torch.manual_seed(0)
    e = case.e or case.d
    shapes = [(case.b, case.h, case.s, case.d), (case.b, case.g, case.t, case.d), (case.b, case.g, case.t, e)]
    operands = [torch.randn(shape, device="cuda").to(getattr(torch, case.dtype)) for shape in shapes]
    cotangent = torch.randn((case.b, case.h, case.s, e), device="cuda").to(operands[0].dtype)
    given = [x.transpose(1, 2).contiguous() for x in operands] if case.turned else operands
    settings: dict[str, Any] = {"scale": case.d**-0.5, "causal": case.causal, "offset": case.offset, "rate": case.rate}
    if case.bias:
        bias = torch.randn(case.bias, device="cuda").to(operands[0].dtype)
        given, operands = [*given, bias], [*operands, bias]

    def forward(q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        q, k, v = (ops.transpose(x, permutation=(0, 2, 1, 3)) if case.turned else x for x in (q, k, v))
        key = burn.tensor(KEY, "uint32") if case.rate else None
        return ops.attention(q, k, v, bias, None, key, **settings)

    def both(g: Any, *operands: Any) -> Any:
        y, back = burn.vjp(forward, *operands)
        return (y, *back(g))

    types = [f"{case.dtype}[{', '.join(map(str, x.shape))}]" for x in (cotangent, *given)]
    y, *slopes = burn.compile(both, types, cache=False, device="cuda")(cotangent, *given)
    slopes = [x.transpose(1, 2) if case.turned and number < 3 else x for number, x in enumerate(slopes)]
    for got, want in zip((y, *slopes), _wanted(torch, case, operands, cotangent), strict=True):
        assert_near(got, want)
    alone = burn.compile(forward, types[1:], cache=False, device="cuda")(*given)
    assert_near(alone, y.double())


def _wanted(torch: Any, case: Case, operands: list[Any], cotangent: Any) -> tuple[Any, ...]:
    """By the definition, in float64; a row that sees no key gives zeros."""
    with torch.enable_grad():
        q, k, v, *bias = wide = [x.double().requires_grad_() for x in operands]
        keys, values = (x.repeat_interleave(case.h // case.g, 1) for x in (k, v))
        score = q @ keys.mT * case.d**-0.5
        row, key = (torch.arange(n, device="cuda") for n in (case.s, case.t))
        seen = key[None, :] <= row[:, None] + case.offset if case.causal else (key >= 0)[None, :].expand(case.s, -1)
        score = score + bias[0] if bias else score
        p = score.masked_fill(~seen, -1e300).softmax(-1) * seen
        if case.rate:
            p = p * torch.from_numpy(kept(KEY, tuple(p.shape), case.rate)).to("cuda") / (1 - case.rate)
        y = p @ values
        return (y.detach(), *torch.autograd.grad(y, wide, cotangent.double()))
