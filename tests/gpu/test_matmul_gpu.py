"""Matmuls with warp specialisation and epilogues on a real GPU, against float64. Skipped without a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import burn
from burn import ops
from tests.gpu.tolerance import CLOSE, assert_near

pytest.importorskip("triton")


@dataclass(frozen=True)
class Case:
    """turned: the rhs is [n, k]; after: the epilogue; named: the rows have a name; b: rows are [b, m]."""

    m: int
    n: int
    k: int
    turned: bool = False
    after: str = ""
    dtype: str = "bfloat16"
    named: bool = False
    b: int = 1

    def shapes(self) -> list[tuple[int, ...]]:
        right = (self.n, self.k) if self.turned else (self.k, self.n)
        return [(self.b, self.m, self.k), right, (self.n,), (self.b, self.m, self.n)]

    def types(self) -> list[str]:
        def text(shape: tuple[int, ...]) -> str:
            named = ("m" if self.named and len(shape) == 3 and i == 1 else str(size) for i, size in enumerate(shape))
            return f"{self.dtype}[{', '.join(named)}]"

        return [text(shape) for shape in self.shapes()]


CASES = [
    Case(1024, 256, 256),
    Case(4096, 768, 3072, named=True),
    Case(4096, 3072, 768, turned=True, after="gelu", named=True),
    Case(2049, 3080, 776, turned=True, after="gelu", dtype="float16"),
    Case(1999, 1000, 1000, after="bias"),
    Case(3001, 5021, 264, turned=True, after="bias"),
    Case(1031, 520, 4096, after="residual"),
    Case(1024, 264, 328, turned=True, after="residual", named=True),
    Case(1024, 1536, 512, after="slope"),
    Case(515, 776, 776, turned=True, after="heads", b=8),
    Case(515, 776, 776, after="wide", b=3, named=True),
    Case(3071, 760, 4104, after="bias"),
    Case(0, 256, 256, named=True, after="bias"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matmul(torch: Any, case: Case) -> None:
    torch.manual_seed(0)
    dtype = getattr(torch, case.dtype)
    x, w, bias, other = (torch.randn(shape, device="cuda").to(dtype) for shape in case.shapes())
    w = (w.float() * case.k**-0.5).to(dtype)

    def forward(x: Any, w: Any, bias: Any, other: Any) -> Any:
        y = x @ (ops.transpose(w, permutation=(1, 0)) if case.turned else w)
        return _after(case, y, bias, other, BURN)

    got = burn.compile(forward, case.types(), cache=False, device="cuda")(x, w, bias, other)
    by_torch = Words(torch.nn.functional.gelu, lambda y: y, lambda y: y.reshape(*y.shape[:2], 8, -1).transpose(1, 2))
    y = x.double() @ (w.double().T if case.turned else w.double())
    want = _after(case, y, bias.double(), other.double(), by_torch)
    assert got.shape == want.shape
    if want.numel():
        assert_near(got, want)
        assert (got.double() - want).abs().mean() <= 0.4 * CLOSE * want.abs().mean()


@pytest.mark.parametrize(("m", "n", "k"), [(6304, 768, 768), (2049, 3080, 776), (4096, 768, 264), (1031, 520, 4096)])
@pytest.mark.parametrize("scaled", [False, True])
def test_matmul_before_a_residual(torch: Any, m: int, n: int, k: int, scaled: bool) -> None:
    """The epilogue reads a tensor of float32, and stores two results or one: a few columns at a time."""
    torch.manual_seed(0)
    x, w = (torch.randn(shape, device="cuda").to(torch.bfloat16) for shape in ((m, k), (k, n)))
    bias, scale, other = (torch.randn(shape, device="cuda") for shape in (n, n, (m, n)))

    def forward(x: Any, w: Any, bias: Any, scale: Any, other: Any) -> Any:
        y = ops.dot_general(x, w, lhs_contract=(1,), rhs_contract=(0,), dtype="float32") + bias
        return (y, other + scale * y) if scaled else other + y

    types = [f"bfloat16[{m}, {k}]", f"bfloat16[{k}, {n}]", *[f"float32[{n}]"] * 2, f"float32[{m}, {n}]"]
    got = burn.compile(forward, types, cache=False, device="cuda")(x, w, bias, scale, other)
    y = x.double() @ w.double() + bias.double()
    want = (y, other.double() + scale.double() * y) if scaled else (other.double() + y,)
    for ours, theirs in zip(got if scaled else (got,), want, strict=True):
        assert (ours.double() - theirs).abs().max() <= 1e-5 * theirs.abs().max()


@pytest.mark.parametrize(("m", "n", "k"), [(768, 3072, 4096), (776, 520, 8200), (1024, 1024, 333), (768, 768, 2048)])
@pytest.mark.parametrize("named", [False, True])
def test_matmul_along_rows(torch: Any, m: int, n: int, k: int, named: bool) -> None:
    """A weight's gradient: both operands have the contracted axis first, which may be split (split-K)."""
    torch.manual_seed(0)
    x, y = (torch.randn((k, size), device="cuda").to(torch.bfloat16) for size in (m, n))
    types = [f"bfloat16[{'k' if named else k}, {size}]" for size in (m, n)]
    program = burn.compile(_along_rows, types, cache=False, device="cuda")
    want = x.double().T @ y.double()
    assert_near(program(x, y), want)


def _along_rows(x: Any, y: Any) -> Any:
    return ops.transpose(x, permutation=(1, 0)) @ y


class Words(NamedTuple):
    """Names that differ between the two libraries."""

    gelu: Any
    widened: Any
    by_heads: Any


def _by_heads(y: Any) -> Any:
    b, m, n = y.shape
    return ops.transpose(ops.reshape(y, shape=(b, m, 8, n // 8)), permutation=(0, 2, 1, 3))


BURN = Words(burn.gelu, lambda y: ops.cast(y, dtype="float32"), _by_heads)


def _after(case: Case, y: Any, bias: Any, other: Any, words: Words) -> Any:
    match case.after:
        case "bias":
            return y + bias
        case "gelu":
            return words.gelu(y + bias)
        case "residual":
            return other + (y + bias)
        case "slope":
            return y * (other * 2 + bias)
        case "heads":
            return words.by_heads(y + bias)
        case "wide":
            return words.widened(y) + 1.0
    return y
