"""Attention as AOTAutograd traces it on GPUs: torch's flash, memory-efficient and cuDNN kernels, forward and backward.

The graphs are made here of torch's shape functions, and run on the CPU. float64 decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from burn.adapters.torch.dynamo import compile_graph  # noqa: E402
from burn.importers.torch.ops import load_builders  # noqa: E402

aten = torch.ops.aten
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def run(function: Callable[..., Any], *given: Any) -> list[Any]:
    load_builders()
    with FakeTensorMode() as mode:
        graph = make_fx(function)(*[mode.from_tensor(t) for t in given])
    return compile_graph(graph, given)(list(given))


def nothing(*shape: int, dtype: Any = torch.int64) -> Any:
    return torch.empty(shape, dtype=dtype)


def flash(causal: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def backward(g: Any, o: Any, n: Any, q: Any, k: Any, v: Any) -> Any:
        starts = nothing(0, dtype=torch.int32)
        most = (q.shape[2], k.shape[2], 0.0, causal)
        return aten._scaled_dot_product_flash_attention_backward(
            g, q, k, v, o, n, starts, starts, *most, nothing(2), nothing(0)
        )

    return lambda q, k, v: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[:2], backward


def efficient(causal: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(q: Any, k: Any, v: Any, *masks: Any) -> Any:
        mask = masks[0] if masks else None
        return aten._scaled_dot_product_efficient_attention(q, k, v, mask, True, 0.0, causal)[:2]

    def backward(g: Any, o: Any, n: Any, q: Any, k: Any, v: Any, *masks: Any) -> Any:
        mask = masks[0] if masks else None
        wanted = [True, True, True, mask is not None]
        given = torch.empty(0) if mask is None else mask
        found = aten._scaled_dot_product_efficient_attention_backward(
            g, q, k, v, given, o, n, nothing(), nothing(), 0.0, wanted, causal
        )
        return found if mask is not None else found[:3]

    return forward, backward


def cudnn(causal: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(q: Any, k: Any, v: Any, *masks: Any) -> Any:
        mask = masks[0] if masks else None
        return aten._scaled_dot_product_cudnn_attention(q, k, v, mask, True, 0.0, causal)[:2]

    def backward(g: Any, o: Any, n: Any, q: Any, k: Any, v: Any, *masks: Any) -> Any:
        mask = masks[0] if masks else None
        starts = nothing(0, dtype=torch.int32)
        rest = (nothing(), nothing(), mask, starts, starts, q.shape[2], k.shape[2], 0.0, causal)
        return aten._scaled_dot_product_cudnn_attention_backward(g, q, k, v, o, n, *rest)

    return forward, backward


@pytest.mark.parametrize("kind", [flash, efficient, cudnn])
@pytest.mark.parametrize("form", ["plain", "causal", "mask"])
def test_forward_and_backward(kind: Any, form: str) -> None:
    causal, masked = form == "causal", form == "mask"
    if kind is flash and masked:
        pytest.skip("it has no masks")
    generator = torch.Generator().manual_seed(0)
    s, t = (5, 5) if causal else (5, 7)
    shapes = [(2, 3, s, 8), (2, 3, t, 8), (2, 3, t, 8), *[(1, 3, s, t)] * masked]
    given = [torch.randn(shape, generator=generator) for shape in shapes]
    wide = [x.double().requires_grad_() for x in given]
    scores = wide[0] @ wide[1].mT * 8**-0.5 + (wide[3] if masked else 0)
    if causal:
        scores = scores.masked_fill(torch.ones(s, t).triu(1).bool(), -torch.inf)
    want = scores.softmax(-1) @ wide[2]
    grad = torch.randn(want.shape, generator=generator)
    forward, backward = kind(causal)
    out, norms = run(forward, *given)
    torch.testing.assert_close(out.double(), want, **CLOSE)
    torch.testing.assert_close(norms.reshape(2, 3, -1)[..., :s].double(), scores.logsumexp(-1), **CLOSE)
    found = run(backward, grad, out, norms, *given)
    wanted = torch.autograd.grad(want, wide, grad.double())
    assert len(found) >= 3
    for a, b in zip(found, wanted, strict=False):
        torch.testing.assert_close(a.double(), b, **CLOSE)
