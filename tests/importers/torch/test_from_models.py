"""Operators and forms of graphs that models of transformers and timm use: torch.compile beside eager torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
import burn.adapters.torch  # noqa: E402, F401
from burn.importers.torch.decompositions import for_autograd  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def gradients(function: Any, tensors: Any) -> Any:
    given = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in tensors]
    out = function(*given)
    weights = torch.linspace(-1, 1, out.numel()).reshape(out.shape)
    return out, torch.autograd.grad(out, [t for t in given if t.requires_grad], weights)


@pytest.mark.parametrize("way", ["complex", "polar"])
def test_complex_numbers_made_of_real_ones(way: str) -> None:
    """torch's own decomposition writes to views, which a functional graph excludes (Llama 4, DeepSeek-V2)."""

    def function(x: Any, angle: Any, z: Any) -> Any:
        made = torch.polar(x, angle) if way == "polar" else torch.complex(x, angle)
        return torch.view_as_real(made * torch.view_as_complex(z)).flatten(-2)

    tensors = (torch.randn(3, 4).abs(), torch.randn(3, 4), torch.randn(3, 4, 2))
    got, want = (gradients(f, tensors) for f in (torch.compile(function, backend="burn", fullgraph=True), function))
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_no_decomposition_writes_in_place() -> None:
    """AOTAutograd requires functional graphs: an operator that assigns to a tensor's parts has a builder."""
    import inspect
    import re

    writes = re.compile(r"\.(real|imag) = |\.copy_\(|\.(fill|zero|mul|add|scatter|index_add|masked_fill|triu|tril)_\(")
    for op, function in for_autograd().items():
        if op._schema.is_mutable or "out" in op._overloadname or op._overloadname == "grad_input":
            continue  # these write by their contract, and functional graphs have none
        source = inspect.getsource(inspect.unwrap(function)) if inspect.isfunction(inspect.unwrap(function)) else ""
        assert not writes.search(source), op


@pytest.mark.parametrize("chosen", [0, 3, 12])
@pytest.mark.parametrize("length", [12, 20])
def test_masked_scatter_has_a_gradient(chosen: int, length: int) -> None:
    """The gradient is 0 for elements of `source` beyond the number of true elements of the mask."""
    mask = torch.zeros(12, dtype=torch.bool)
    mask[torch.randperm(12)[:chosen]] = True
    mask = mask.view(3, 4)

    def function(x: Any, source: Any) -> Any:
        return (x * 2).masked_scatter(mask, source * source)

    tensors = (torch.randn(3, 4), torch.randn(length))
    got, want = (gradients(f, tensors) for f in (torch.compile(function, backend="burn", fullgraph=True), function))
    torch.testing.assert_close(got, want)


def test_masked_scatter_of_a_mask_that_broadcasts() -> None:
    def function(x: Any, source: Any) -> Any:
        return x.masked_scatter((torch.arange(4) % 2 == 0)[None, :], source)

    tensors = (torch.randn(3, 4), torch.randn(2, 5))
    got, want = (gradients(f, tensors) for f in (torch.compile(function, backend="burn", fullgraph=True), function))
    torch.testing.assert_close(got, want)


DRAWS = {
    "rand": lambda x: torch.rand(x.shape, generator=None),
    "randn": lambda x: torch.randn(x.shape, generator=None, dtype=torch.float64),
    "randint": lambda x: torch.randint(x.shape[0], (5,), generator=None),
    "randint from a size": lambda x: torch.randint(-x.shape[0], x.shape[1], (50,)),
    "randperm": lambda x: torch.randperm(x.shape[0], generator=None),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_without_a_generator_of_their_own(name: str) -> None:
    dynamic = name not in ("rand", "randn")  # torch refuses sizes that vary there
    made = torch.compile(DRAWS[name], backend="burn", fullgraph=True, dynamic=dynamic)
    x = torch.zeros(7, 11)
    got, want = made(x), DRAWS[name](x)
    assert got.shape == want.shape and got.dtype == want.dtype
    if "int" in name:
        low = -7 if "from" in name else 0
        assert low <= got.min() and got.max() < (11 if "from" in name else 7)
    if name == "randperm":
        assert sorted(got.tolist()) == list(range(7))
