"""Attention of graphs for a GPU: kept whole, with masks, shared heads and dropout, forward and backward.

The graphs are traced by torch's shape functions, and run on the CPU. float64 decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from burn.adapters.torch.attention import attention, keep_attention  # noqa: E402
from burn.adapters.torch.dynamo import compile_graph  # noqa: E402
from burn.importers.torch.decompositions import for_autograd  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
HEADS, ROWS, KEYS, DEPTH = 4, 7, 9, 8


def drawn(heads: int = HEADS) -> list[Any]:
    torch.manual_seed(1)
    return [torch.randn(2, h, n, DEPTH) for h, n in ((HEADS, ROWS), (heads, KEYS), (heads, KEYS))]


def shown() -> Any:
    mask = torch.rand(2, 1, ROWS, KEYS, generator=torch.Generator().manual_seed(2)) > 0.4
    mask[0, 0, 3] = False  # a row without keys
    return mask


CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "plain": (HEADS, {}),
    "causal": (HEADS, {"is_causal": True, "scale": 0.3}),
    "keys that are shown": (HEADS, {"attn_mask": shown()}),
    "an added mask": (HEADS, {"attn_mask": torch.randn(ROWS, KEYS, generator=torch.Generator().manual_seed(3))}),
    "shared heads": (2, {"enable_gqa": True}),
}


def gradients(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    def run(g: Any, q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        out = function(q, k, v, **options)
        return [out.detach(), *torch.autograd.grad(out, (q, k, v), g)]

    return run


def traced(function: Callable[..., Any], given: list[Any]) -> Any:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return make_fx(function, decomposition_table=for_autograd())(*[mode.from_tensor(t) for t in given])


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    heads, options = CASES[name]
    given = [torch.randn(2, HEADS, ROWS, DEPTH), *drawn(heads)]
    graph = traced(gradients(attention, options), given)
    assert any("efficient_attention" in str(n.target) for n in graph.graph.nodes)
    wide = {k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in options.items()}
    wanted = gradients(F.scaled_dot_product_attention, wide)(*[t.double() for t in given])
    for got, exact in zip(compile_graph(graph, given)(list(given)), wanted, strict=True):
        torch.testing.assert_close(got.double(), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in CASES if n != "shared heads"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout(name: str, dtype: Any) -> None:
    """With the identity as values the result is the probabilities, with zeros for dropped ones, which gives the mask."""
    rate, options = 0.3, CASES[name][1]
    q, k, _ = drawn()
    v = torch.eye(KEYS).expand(2, HEADS, KEYS, KEYS).contiguous()
    given = [x.to(dtype) for x in (torch.randn(2, HEADS, ROWS, KEYS), q, k, v)]
    options = {
        n: o.to(dtype) if isinstance(o, torch.Tensor) and o.is_floating_point() else o for n, o in options.items()
    }
    graph = traced(gradients(attention, {**options, "dropout_p": rate}), given)
    assert not any(n.target is torch.ops.aten.bmm.dtype and dtype is torch.float32 for n in graph.graph.nodes)
    out, *found = compile_graph(graph, given)(list(given))
    kept = out != 0
    g, q, k, v = (x.double().requires_grad_() for x in given)
    scores = q @ k.mT * options.get("scale", DEPTH**-0.5)
    mask = options.get("attn_mask")
    if options.get("is_causal"):
        scores = scores.masked_fill(torch.ones(ROWS, KEYS).triu(1).bool(), -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask.double()
    p = torch.where((scores == -torch.inf).all(-1, keepdim=True), 0, scores.softmax(-1).nan_to_num())
    possible = (p > 1e-3).sum()
    assert abs((kept & (p > 1e-3)).sum() / possible - (1 - rate)) < 0.12
    exact = p * kept / (1 - rate) @ v
    bound = 1e-4 if dtype is torch.float32 else 3e-2
    torch.testing.assert_close(out.double(), exact, rtol=bound, atol=bound)
    for got, wanted in zip(found, torch.autograd.grad(exact, (q, k, v), g), strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=2 * bound, atol=2 * bound)


def test_dynamos_calls_are_replaced() -> None:
    graph = torch.fx.symbolic_trace(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    keep_attention(graph)
    assert [n.target for n in graph.graph.nodes if n.op == "call_function"] == [attention]


@pytest.mark.parametrize("name", ["plain", "shared heads"])
def test_sizes_that_vary(name: str) -> None:
    """The strides that Dynamo expects of a result are expressions that AOTAutograd cannot follow, as for two heads joined."""
    options = CASES[name][1]
    of_q, of_k, of_v = (torch.randn(DEPTH, DEPTH) / DEPTH for _ in range(3))

    def function(x: Any) -> Any:
        q, k, v = x @ of_q, x @ of_k, x @ of_v
        q = torch.cat([q, 2 * q], 1) if "enable_gqa" in options else q
        return F.scaled_dot_product_attention(q, k, v, **options).diff(dim=3)

    torch._dynamo.reset()
    run = torch.compile(lambda x: function(x[None]), backend=_keeping, dynamic=True)
    merged = torch.compile(
        lambda x: function(x.transpose(1, 2)).transpose(1, 2).flatten(2), backend=_keeping, dynamic=True
    )
    for heads, rows in ((2, ROWS), (3, 5), (2, 3)):
        x, y = torch.randn(heads, rows, DEPTH).requires_grad_(), torch.randn(2, rows, heads, DEPTH).requires_grad_()
        for given, call, exact in (
            (x, run, lambda x: function(x[None])),
            (y, merged, lambda x: function(x.transpose(1, 2)).transpose(1, 2).flatten(2)),
        ):
            got, want = call(given), exact(given)
            assert got.stride() == want.stride()
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
            g = torch.randn_like(want)
            (one,), (other,) = (torch.autograd.grad(y, given, g) for y in (got, want))
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()


def _keeping(graph: Any, examples: Any) -> Any:
    keep_attention(graph)
    compiler = aot_autograd(
        fw_compiler=compile_graph, bw_compiler=partial(compile_graph, backward=True), decompositions=for_autograd()
    )
    return compiler(graph, examples)
