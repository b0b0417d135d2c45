"""Dropout inside of attention in training: how often, how large, and the same mask in the backward pass.

With the identity as values the result is the probabilities, with zeros for dropped ones, which gives the mask. Attention with
that mask in float64 gives the expected results and gradients."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
import burn.adapters.torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

RATE, LENGTH, DEPTH = 0.3, 9, 5
SHAPE = (2, 4, LENGTH, DEPTH)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "mask": {"attn_mask": torch.randn(LENGTH, LENGTH, generator=torch.Generator().manual_seed(2))},
    "scaled": {"scale": 0.7},
}


class Attention(torch.nn.Module):
    """With one weight, so that there is something to train."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.scale = torch.nn.Parameter(torch.tensor(1.25))

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        options = {"dropout_p": RATE if self.training else 0.0, **KINDS[self.kind]}
        return torch.nn.functional.scaled_dot_product_attention(q * self.scale, k, v, **options)


def drawn() -> list[Any]:
    random = torch.Generator().manual_seed(1)
    q, k = (torch.randn(SHAPE, generator=random) for _ in range(2))
    return [q, k, torch.eye(LENGTH).expand(*SHAPE[:2], LENGTH, LENGTH).contiguous()]


def exact(kind: str, tensors: Any, mask: Any, weights: Any) -> tuple[Any, list[Any]]:
    """Attention with this mask in float64, and its gradients: of the scale, the queries, the keys and the values."""
    scale = torch.tensor(1.25, dtype=torch.float64, requires_grad=True)
    q, k, v = (t.detach().double().requires_grad_() for t in tensors)
    options = KINDS[kind]
    scores = (q * scale) @ k.mT * options.get("scale", DEPTH**-0.5)
    if options.get("is_causal"):
        scores = scores.masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), -torch.inf)
    out = (scores + options.get("attn_mask", torch.zeros(())).double()).softmax(-1) * mask / (1 - RATE) @ v
    return out, list(torch.autograd.grad(out, (scale, q, k, v), weights.double()))


def seen(kind: str, out: Any) -> Any:
    """The mask: the nonzero elements among those that a causal mask leaves."""
    kept = out != 0
    allowed = torch.ones(LENGTH, LENGTH).tril().bool() if KINDS[kind].get("is_causal") else torch.ones(()).bool()
    share = (kept & allowed).sum() / allowed.expand(kept.shape).sum()
    assert abs(share - (1 - RATE)) < 5 * (RATE * (1 - RATE) / kept.numel()) ** 0.5 * (2 if allowed.ndim else 1)
    heads = kept.flatten(0, 1)
    assert not any(torch.equal(heads[0], other) for other in heads[1:])
    return kept


@pytest.mark.parametrize("kind", KINDS)
def test_through_torch_compile(kind: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(4)
    module = Attention(kind).train()
    made = torch.compile(module, backend="burn", fullgraph=True)
    given = [t.requires_grad_() for t in drawn()]
    weights = torch.randn(*SHAPE[:2], LENGTH, LENGTH, generator=torch.Generator().manual_seed(3))
    out = made(*given)
    assert not torch.equal(out, made(*given))  # drawn anew at every call
    mask = seen(kind, out.detach())
    want, slopes = exact(kind, given, mask, weights)
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-6)
    for got, slope in zip(torch.autograd.grad(out, (module.scale, *given), weights), slopes, strict=True):
        torch.testing.assert_close(got.double(), slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["plain", "causal"])
def test_trained_by_burn(kind: str) -> None:
    """The program of `burn.compile(train=True)` is differentiated by burn, with the mask that it drew."""
    given = drawn()
    made = burn.compile(Attention(kind).train(), tuple(given), train=True).train()
    weights = torch.randn(*SHAPE[:2], LENGTH, LENGTH, generator=torch.Generator().manual_seed(3))

    def loss(model: Any) -> Any:
        out = model(*(t.numpy() for t in given))
        return (out * weights.numpy()).sum(), out

    (_, out), slopes = burn.value_and_grad(loss, has_aux=True)(made)
    out = torch.tensor(out.numpy())
    want, (slope, *_) = exact(kind, given, seen(kind, out), weights)
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(torch.tensor(slopes["scale"].numpy()).double(), slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_layers_of_burn(causal: bool) -> None:
    """burn.nn.MultiheadAttention of one head, whose values and output projection are the identity."""
    kind = "causal" if causal else "plain"
    layer = burn.nn.MultiheadAttention(LENGTH, 1, bias=False, dropout=RATE).train()
    eye = torch.eye(LENGTH).numpy()
    layer.value.weight.assign(eye)
    layer.output.weight.assign(eye)
    random = torch.Generator().manual_seed(6)
    q, k = (torch.randn(3, LENGTH, LENGTH, generator=random) for _ in range(2))
    values, weights = torch.eye(LENGTH).expand(3, -1, -1), torch.randn(3, LENGTH, LENGTH, generator=random)

    def loss(model: Any) -> Any:
        tensors = (burn.tensor(t.contiguous().numpy()) for t in (q, k, values))
        out = model(*tensors, causal=causal, dropout_key=burn.random.key(5))
        return (out * weights.numpy()).sum(), out

    (_, out), slopes = burn.value_and_grad(loss, has_aux=True)(layer)
    out = torch.tensor(out.numpy())
    mask = seen(kind, out[:, None])[:, 0]
    wq, wk = (torch.tensor(p.numpy()).double().requires_grad_() for p in (layer.query.weight, layer.key.weight))
    scores = (q.double() @ wq.T) @ (k.double() @ wk.T).mT * LENGTH**-0.5
    if causal:
        scores = scores.masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), -torch.inf)
    want = scores.softmax(-1) * mask / (1 - RATE)
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-6)
    for name, slope in zip(
        ("query.weight", "key.weight"), torch.autograd.grad(want, (wq, wk), weights.double()), strict=True
    ):
        torch.testing.assert_close(torch.tensor(slopes[name].numpy()).double(), slope, rtol=1e-4, atol=1e-5)
