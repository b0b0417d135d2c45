"""F.unfold and F.fold: patches as columns, and the sum of patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import burn

CASES: list[tuple[tuple[int, ...], Any, Any, Any, Any]] = [
    ((2, 3, 7, 9), (3, 3), 1, 1, 1),
    ((2, 1, 8, 10), (2, 5), 1, (0, 2), (2, 3)),  # the stride divides no patch, and leaves rows out
    ((1, 2, 16, 16), 4, 1, 0, 4),  # patches do not overlap
    ((3, 9, 9), (3, 2), 2, 1, 1),  # without a batch
    ((2, 2, 11, 13), (3, 2), (2, 3), (2, 1), (2, 3)),
    ((3, 2, 10, 11), 5, 1, 2, 2),  # more taps than one kernel adds up
    ((1, 3, 6, 6), 1, 1, 0, 1),
    ((2, 2, 9, 9), 2, 1, 0, 4),  # gaps between patches
    ((0, 2, 5, 5), 3, 1, 1, 1),
]


class Module(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize(("shape", "kernel", "dilation", "padding", "stride"), CASES)
def test_both_directions(shape: tuple[int, ...], kernel: Any, dilation: Any, padding: Any, stride: Any) -> None:
    torch.manual_seed(1)
    images = torch.randn(shape, dtype=torch.float64)
    to_columns = Module(lambda x: F.unfold(x, kernel, dilation, padding, stride))
    columns = to_columns(images)
    if shape[0]:
        torch.testing.assert_close(burn.compile(to_columns, (images,))(images), columns)
    if columns.numel() or len(shape) == 3:
        to_images = Module(lambda y: F.fold(y, shape[-2:], kernel, dilation, padding, stride))
        torch.testing.assert_close(burn.compile(to_images, (columns,))(columns), to_images(columns))


def test_named_sizes() -> None:
    module = Module(lambda x: F.unfold(x, 3, padding=1, stride=2))
    sizes = {0: torch.export.Dim("n"), 2: torch.export.Dim("h", min=3), 3: torch.export.Dim("w", min=3)}
    compiled = burn.compile(module, (torch.randn(2, 3, 9, 8),), dynamic={"x": sizes})
    for shape in ((1, 3, 5, 6), (3, 3, 12, 7)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), module(x))
    back = Module(lambda y: F.fold(y, (9, 8), 3, padding=1, stride=2))
    compiled = burn.compile(back, (torch.randn(2, 27, 20),), dynamic={"x": {0: torch.export.Dim("n")}})
    for count in (1, 4):
        y = torch.randn(count, 27, 20)
        torch.testing.assert_close(compiled(y), back(y))


def test_gradients() -> None:
    """Each is the other's gradient."""
    x = torch.randn(2, 3, 8, 9, requires_grad=True)
    columns = torch.randn(2, 27, 20, requires_grad=True)
    for function, operand in (
        (lambda x: F.unfold(x, 3, padding=1, stride=2), x),
        (lambda y: F.fold(y, (8, 9), 3, padding=1, stride=2), columns),
    ):
        (want,) = torch.autograd.grad((function(operand) ** 2).sum(), operand)
        compiled = torch.compile(lambda x, f=function: (f(x) ** 2).sum(), backend="burn")
        (got,) = torch.autograd.grad(compiled(operand), operand)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
