"""Indices and gradients of max pools through `torch.compile`, against eager mode. BURN_SWEEP=300 draws so many, from
BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
COUNT = int(os.environ.get("BURN_SWEEP", "3"))
FIRST = int(os.environ.get("BURN_SWEEP_SEED", "0"))


def drawn(seed: int) -> tuple[dict[str, Any], Any]:
    """Arguments of a pool, and an image with ties and windows of the lowest number."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    n = rng.choice((2, 2, 3))
    kernel = [rng.choice((1, 2, 3, 3, 5)) for _ in range(n)]
    if rng.random() < 0.1:
        kernel = [9] * n  # a window with more elements than are written one by one
    options = {
        "kernel_size": kernel,
        "stride": [rng.choice((1, 2, 3)) for _ in range(n)],
        "padding": [rng.randint(0, k // 2) for k in kernel],
        "dilation": [rng.choice((1, 1, 2)) for _ in range(n)],
        "ceil_mode": rng.random() < 0.5,
    }
    sizes = [(k - 1) * d + 1 + rng.randint(0, 6) for k, d in zip(kernel, options["dilation"], strict=True)]
    x = torch.randint(-3, 4, (2, 3, *sizes)).float()
    x[0, 0] = -torch.inf
    if rng.random() < 0.5 and n == 2:
        x = x.contiguous(memory_format=torch.channels_last)
    return options, x


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_what_eager_does(seed: int) -> None:
    options, x = drawn(seed)
    pool = F.max_pool2d if x.dim() == 4 else F.max_pool3d

    def function(x: Any) -> Any:
        return pool(x, return_indices=True, **options)

    torch._dynamo.reset()
    results = []
    for run in (function, torch.compile(function, backend="burn")):
        given = x.clone().requires_grad_()
        best, indices = run(given)
        (best.nan_to_num(neginf=-9.0) * torch.arange(best.numel()).reshape(best.shape).remainder(7)).sum().backward()
        results.append((best.detach(), indices, given.grad))
    for got, wanted in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(got, wanted)
        assert got.stride() == wanted.stride()
