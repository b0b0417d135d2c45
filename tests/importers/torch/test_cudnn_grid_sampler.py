"""Sampled images as AOTAutograd traces them on GPUs: cuDNN's operators. The graphs are made here and run on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from burn.adapters.torch.dynamo import compile_graph  # noqa: E402
from burn.importers.torch.decompositions import for_autograd  # noqa: E402


def test_results_and_gradients() -> None:
    def function(x: Any, grid: Any, g: Any) -> Any:
        y = torch.ops.aten.cudnn_grid_sampler(x, grid)
        return [y, *torch.ops.aten.cudnn_grid_sampler_backward(x, grid, g)]

    given = [torch.randn(2, 3, 5, 4), torch.randn(2, 4, 3, 2), torch.randn(2, 3, 4, 3)]
    with FakeTensorMode() as mode:
        graph = make_fx(function, decomposition_table=for_autograd())(*[mode.from_tensor(t) for t in given])
    assert "cudnn" not in graph.code
    x, grid, g = (t.double().requires_grad_() for t in given)
    y = F.grid_sample(x, grid, align_corners=True)
    want = [y, *torch.autograd.grad(y, (x, grid), g.detach())]
    for got, exact in zip(compile_graph(graph, given)(list(given)), want, strict=True):
        torch.testing.assert_close(got.double(), exact, rtol=1e-4, atol=1e-5)
