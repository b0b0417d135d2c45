"""Tensors that torch makes of Python's numbers and writes into its graphs as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")

CASES: dict[str, Callable[[Any], Any]] = {
    "an integer under vmap": torch.vmap(lambda x: x * 2),
    "a float under two vmaps": torch.vmap(torch.vmap(lambda x: 0.1 * x + x / 3.0)),
    "a boolean under vmap": torch.vmap(lambda x: torch.where(x > 0, x, True)),
    "an imaginary factor": lambda x: torch.exp(1j * torch.angle(torch.fft.rfft(x))).imag,
    "a complex summand": lambda x: ((2 - 3j) * x + (1 + 2j)).abs(),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_and_gradients(name: str, dtype: Any) -> None:
    def results(function: Callable[[Any], Any]) -> tuple[Any, Any]:
        x = torch.randn(3, 5, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
        y = function(x)
        y.square().sum().backward()
        return y, x.grad

    torch._dynamo.reset()
    torch.testing.assert_close(results(torch.compile(CASES[name], backend="burn")), results(CASES[name]))
