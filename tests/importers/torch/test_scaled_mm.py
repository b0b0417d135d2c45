"""torch's matmul of 8-bit floats with scales."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn

torch = pytest.importorskip("torch")


class Layer(torch.nn.Module):
    def __init__(self, scale_a: Any, scale_b: Any, bias: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(48, 64).to(torch.float8_e4m3fn), requires_grad=False)
        self.register_buffer("scale_a", scale_a)
        self.register_buffer("scale_b", scale_b)
        self.bias = torch.nn.Parameter(torch.randn(48).bfloat16()) if bias else None

    def forward(self, x: Any) -> Any:
        x = x.to(torch.float8_e4m3fn)
        parts = (x, self.weight.t(), self.scale_a, self.scale_b)
        return torch._scaled_mm(*parts, bias=self.bias, out_dtype=torch.bfloat16)


@pytest.mark.parametrize("rows", [False, True], ids=["of tensors", "of rows and columns"])
def test_scales(rows: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = Layer(
        *((torch.rand(16, 1), torch.rand(1, 48)) if rows else (torch.rand(()), torch.rand(()))), bias=not rows
    )
    x = torch.randn(16, 64)
    path = tmp_path / "layer.pt2"
    torch.export.save(torch.export.export(layer, (x,)), path)
    got = burn.load(path, cache=False)(x.numpy())
    a, b = (t.to(torch.float8_e4m3fn).double() for t in (x, layer.weight))
    want = (a @ b.T) * layer.scale_a.double() * layer.scale_b.double()
    if layer.bias is not None:
        want = want + layer.bias.double()
    np.testing.assert_allclose(np.asarray(got, np.float64), want.detach().numpy(), rtol=1e-2, atol=1e-2)


def test_a_scale_of_the_result_is_not_ignored(tmp_path: Path) -> None:
    """torch applies it to results of 8-bit floats alone."""

    class Scaled(torch.nn.Module):
        def forward(self, a: Any, b: Any, scale: Any) -> Any:
            a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
            return torch._scaled_mm(a, b.t(), scale, scale, scale_result=scale, out_dtype=torch.float8_e4m3fn)

    path = tmp_path / "scaled.pt2"
    given = (torch.randn(16, 32), torch.randn(16, 32), torch.tensor(0.5))
    torch.export.save(torch.export.export(Scaled(), given), path)
    with pytest.raises(burn.BurnError, match="scale_result"):
        burn.load(path, cache=False)
