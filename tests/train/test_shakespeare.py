"""The transformer of examples/training/shakespeare.py beside the same in PyTorch: same weights, same batches, same losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import data, optim
from tests.train.test_examples import example

TEXT = Path(__file__).parents[3] / "shared" / "data" / "tinyshakespeare.txt"


def twin(torch: Any, p: dict[str, Any], tokens: Any, heads: int, layers: int) -> Any:
    """The model in PyTorch's functions, with parameters by burn's names."""
    f = torch.nn.functional

    def linear(name: str, x: Any) -> Any:
        return f.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))

    def norm(name: str, x: Any) -> Any:
        return f.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"])

    x = p["embed.weight"][tokens] + p["place.weight"][: tokens.shape[1]]
    for i in range(layers):
        at = f"body.layers.{i}"
        y = norm(f"{at}.norm1", x)
        q, k, v = (
            linear(f"{at}.attention.{part}", y).unflatten(-1, (heads, -1)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(f"{at}.attention.output", mixed.transpose(1, 2).flatten(2))
        y = norm(f"{at}.norm2", x)
        x = x + linear(f"{at}.feed.outer", f.gelu(linear(f"{at}.feed.inner", y)))
    return linear("head", norm("body.norm", x))


@pytest.mark.slow
def test_losses_follow_pytorch() -> None:
    torch = pytest.importorskip("torch")
    shakespeare = example("shakespeare")
    text = TEXT.read_text() if TEXT.is_file() else shakespeare.SONNET * 100
    letters = shakespeare.Letters("".join(sorted(set(text))))
    rows = data.Memory(letters.encode(text[:400_000])).window(65, 64)
    batches = list(data.Loader(rows.take(3200), 32, shuffle=True))
    assert len(batches) >= 15

    burn.manual_seed(0)
    model = shakespeare.Gpt(len(letters.known), width=64, heads=4, layers=3, context=64)
    theirs = {name: torch.tensor(np.array(value), requires_grad=True) for name, value in model.state_dict().items()}
    adam = torch.optim.AdamW(theirs.values(), lr=1e-3, weight_decay=0.1)
    step = burn.train.step(model, shakespeare.loss, optim.AdamW(model, lr=1e-3, weight_decay=0.1), clip_norm=1.0)
    ours, wanted = [], []
    for number in range(100):
        batch = batches[number % len(batches)]
        ours.append(float(step(batch)))
        tokens = torch.tensor(batch.astype(np.int64))
        scores = twin(torch, theirs, tokens[:, :-1], 4, 3)
        value = torch.nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        adam.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(theirs.values(), 1.0)
        adam.step()
        wanted.append(value.item())
    apart = np.abs(np.array(ours) - wanted).max()
    print(f"loss {ours[0]:.4f} to {ours[-1]:.4f}; at most {apart:.2e} from PyTorch's in 100 steps")
    assert ours[-1] < ours[0] - 1.0 and apart < 1e-3
