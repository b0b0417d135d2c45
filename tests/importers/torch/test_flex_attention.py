"""`torch.nn.attention.flex_attention` through `torch.compile(backend="burn")` against float64: scores and masks that are
functions of positions, captured tensors, shared heads, rows without keys, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
flex = pytest.importorskip("torch.nn.attention.flex_attention")

from burn.adapters.torch import compile_module  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
BATCH, HEADS, ROWS, KEYS, DEPTH, VALUES = 2, 4, 7, 11, 5, 3


def operands(key_heads: int = HEADS) -> list[Any]:
    torch.manual_seed(1)
    shapes = (HEADS, ROWS, DEPTH), (key_heads, KEYS, DEPTH), (key_heads, KEYS, VALUES)
    return [torch.randn(BATCH, *shape) for shape in shapes]


def relative(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return score * 2 + 0.1 * (i - j)


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def sometimes_nothing(b: Any, h: Any, i: Any, j: Any) -> Any:
    return (j < 3 + h) & (i != 2 + b)


CASES: dict[str, tuple[int, Any, Any, dict[str, Any]]] = {
    "plain": (HEADS, None, None, {}),
    "scores by positions": (HEADS, relative, None, {"scale": 0.3}),
    "causal": (HEADS, None, causal, {}),
    "rows without keys": (HEADS, relative, sometimes_nothing, {}),
    "shared heads": (2, relative, causal, {"enable_gqa": True}),
}


@pytest.fixture(autouse=True)
def gradients_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch has no kernel for them, and refuses operands that require gradients before Dynamo's graph is compiled."""
    monkeypatch.setattr(flex, "_validate_device", lambda *operands: None)


def dense(
    q: Any, k: Any, v: Any, score: Any = None, mask: Any = None, scale: Any = None, enable_gqa: bool = False
) -> tuple[Any, Any]:
    """The definition, with positions that broadcast against all scores."""
    k, v = (x.repeat_interleave(HEADS // x.shape[1], 1) for x in (k, v))
    b, h, i, j = torch.meshgrid(*(torch.arange(n) for n in (BATCH, HEADS, ROWS, KEYS)), indexing="ij")
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * (DEPTH**-0.5 if scale is None else scale)
    scores = scores if score is None else score(scores, b, h, i, j)
    shown = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask(b, h, i, j)
    weights = torch.where(shown, scores.exp(), 0)
    total = weights.sum(-1, keepdim=True)
    return weights @ v / torch.where(total == 0, 1, total), total.log().squeeze(-1)


def results(function: Callable[..., Any], given: list[Any]) -> list[Any]:
    """The results of a call, then the gradients of all operands."""
    leaves = [x.detach().clone().requires_grad_() for x in given]
    found = function(*leaves)
    generator = torch.Generator().manual_seed(2)
    loss = sum((x * torch.randn(x.shape, generator=generator).to(x.dtype)).sum() for x in found)
    return [*found, *torch.autograd.grad(loss, leaves)]


def check(function: Callable[..., Any], want: Callable[..., Any], given: list[Any]) -> None:
    torch._dynamo.reset()
    expected = results(want, [x.double() for x in given])
    got = results(torch.compile(function, backend="burn", fullgraph=True), given)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name: str) -> None:
    heads, score, mask, options = CASES[name]
    block = None if mask is None else flex.create_block_mask(mask, BATCH, HEADS, ROWS, KEYS, device="cpu")
    check(
        lambda q, k, v: [flex.flex_attention(q, k, v, score, block, **options)],
        lambda q, k, v: [dense(q, k, v, score, mask, **options)[0]],
        operands(heads),
    )


def test_gradients_of_captured_tensors_and_of_logarithms() -> None:
    def biased(table: Any, slopes: Any) -> Any:
        return lambda score, b, h, i, j: score + table[i - j + KEYS - 1] * slopes[h]

    def function(q: Any, k: Any, v: Any, table: Any, slopes: Any) -> Any:
        return flex.flex_attention(q, k, v, biased(table, slopes), return_lse=True)

    def want(q: Any, k: Any, v: Any, table: Any, slopes: Any) -> Any:
        return dense(q, k, v, biased(table, slopes))

    check(function, want, [*operands(), torch.randn(ROWS + KEYS - 1), torch.randn(HEADS)])


def test_a_mask_that_reads_a_tensor_and_rows_without_keys() -> None:
    document = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2])

    def mask(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (document[i] == document[j]) & (i != 2 + b)

    block = flex.create_block_mask(mask, BATCH, HEADS, ROWS, KEYS, device="cpu")
    got = torch.compile(flex.flex_attention, backend="burn")(*operands(), block_mask=block, return_lse=True)
    for a, b in zip(got, dense(*(x.double() for x in operands()), mask=mask), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


def test_the_result_has_the_strides_of_eager_mode() -> None:
    given = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in operands()]
    torch._dynamo.reset()
    got = torch.compile(lambda *x: flex.flex_attention(*x).transpose(1, 2), backend="burn")(*given)
    assert got.is_contiguous()


class Biased(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(ROWS + KEYS - 1))
        self.block = flex.create_block_mask(causal, None, None, ROWS, KEYS, device="cpu")

    def score(self, score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score + self.table[i - j + KEYS - 1] * 2

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return flex.flex_attention(q, k, v, self.score, self.block)


def test_an_exported_module() -> None:
    module, given = Biased().eval(), operands()
    with torch.no_grad():
        got = compile_module(module, tuple(given))(*given)
        want, _ = dense(*given, score=module.score, mask=causal)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
