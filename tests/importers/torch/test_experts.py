"""Matmuls with a matrix for each group of rows, whose sizes are known only at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import burn.importers.torch  # noqa: E402, F401

pytestmark = pytest.mark.filterwarnings("ignore")
ENDS = ([2, 2, 5, 7], [0, 0, 7, 7], [1, 1, 1, 1], [0, 7, 7, 7])
"""The ends of groups: some are empty, and some rows follow the last group."""


def results(function: Callable[..., Any], tensors: list[Any], ends: list[int], gradients: bool) -> list[Any]:
    leaves = [t.clone().requires_grad_(gradients) for t in tensors]
    out = function(*leaves, torch.tensor(ends, dtype=torch.int32))
    if gradients:
        out.sin().sum().backward()
    return [out.detach(), *(t.grad for t in leaves if gradients)]


@pytest.mark.parametrize("gradients", [False, True])
def test_the_experts_of_transformers(gradients: bool) -> None:
    pytest.importorskip("transformers.integrations.moe")

    def experts(x: Any, weight: Any, ends: Any) -> Any:
        return torch.ops.transformers.grouped_mm_fallback(x, weight, ends)

    torch._dynamo.reset()
    compiled = torch.compile(experts, backend="burn")
    tensors = [torch.randn(7, 6), torch.randn(4, 6, 5)]
    for ends in ENDS:
        pairs = zip(*(results(f, tensors, ends, gradients) for f in (compiled, experts)), strict=True)
        for got, want in pairs:
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shapes", [((8, 16), (4, 16, 24)), ((16, 8), (8, 24)), ((4, 8, 16), (16, 8))])
def test_groups_of_rows_of_columns_and_of_what_is_summed(shapes: tuple[Any, Any]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(torch._grouped_mm, backend="burn")
    a, b = (torch.randn(s).bfloat16() for s in shapes)
    for ends in ([2, 2, 5, 8], [0, 0, 8, 8]):
        offs = torch.tensor(ends, dtype=torch.int32)
        want = torch._grouped_mm(a.float(), b.float(), offs=offs)
        torch.testing.assert_close(compiled(a, b, offs=offs).float(), want, rtol=1e-2, atol=1e-2)
