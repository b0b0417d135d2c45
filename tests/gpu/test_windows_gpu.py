"""Depthwise and grouped convolutions and their gradients on a real GPU, against float64. Skipped without a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import burn
from burn import ops
from tests.gpu.tolerance import assert_near

pytest.importorskip("triton")


@dataclass(frozen=True)
class Case:
    """x: [N, C, d..]; weight: [O, C / groups, k..]. last: images are channels-last."""

    x: tuple[int, ...]
    weight: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dtype: str = "float16"
    last: bool = True
    dilation: int = 1


CASES = [
    Case((8, 96, 56, 56), (96, 1, 7, 7), padding=3),
    Case((4, 144, 57, 55), (144, 1, 3, 3), 2, 1, "bfloat16"),
    Case((2, 30, 17, 19), (30, 1, 5, 5), padding=2, dtype="float32"),
    Case((4, 64, 28, 28), (64, 1, 3, 3), padding=1, last=False),
    Case((2, 48, 31, 29), (48, 1, 5, 5), 2, 2, last=False),
    Case((2, 128, 1000), (128, 1, 31), padding=15),
    Case((2, 24, 5, 12, 13), (24, 1, 3, 3, 3), padding=1),
    Case((2, 64, 14, 14), (128, 1, 3, 3), padding=1),
    Case((4, 256, 28, 28), (256, 8, 3, 3), padding=1),
    Case((2, 96, 14, 14), (96, 3, 3, 3), padding=1),
    Case((1, 1024, 7, 7), (1024, 1, 7, 7), padding=3),
    Case((32, 72, 28, 27), (72, 1, 3, 3), padding=1, dtype="bfloat16"),
    Case((16, 24, 40, 33), (24, 1, 5, 5), 2, 2, "bfloat16"),
    Case((8, 64, 30, 31), (64, 1, 3, 3), padding=2, dilation=2),
    Case((8, 40, 50, 41), (40, 1, 7, 7), 2, 3),
    Case((4, 32, 26, 20), (32, 1, 5, 5), dtype="bfloat16"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(torch: Any, case: Case) -> None:
    """The result and both gradients."""
    torch.manual_seed(0)
    n, groups = len(case.x) - 2, case.x[1] // case.weight[1]
    dtype = getattr(torch, case.dtype)
    call = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[n - 1]
    x = torch.randn(case.x, device="cuda", dtype=dtype)
    w = torch.randn(case.weight, device="cuda", dtype=dtype)
    wide = [t.double().requires_grad_() for t in (x, w)]
    y = call(*wide, None, case.stride, case.padding, case.dilation, groups)
    g = torch.randn(y.shape, device="cuda", dtype=dtype)
    wanted = (y, *torch.autograd.grad(y, wide, g.double()))
    to_last, to_first = (0, *range(2, n + 2), 1), (0, n + 1, *range(1, n + 1))
    options: dict[str, Any] = {"strides": (case.stride,) * n, "dilations": (case.dilation,) * n, "groups": groups}
    options |= {"low": (case.padding,) * n, "high": (case.padding,) * n}

    def first(value: Any) -> Any:
        return ops.transpose(value, permutation=to_first) if case.last else value

    def ours(x: Any, w: Any, g: Any) -> Any:
        y, back = burn.vjp(lambda x, w: ops.conv(first(x), w, **options), x, w)
        of_x, of_weight = back(first(g))
        return y, of_x, of_weight

    given = [t.permute(to_last).contiguous() if case.last and t is not w else t for t in (x, w, g)]
    types = [f"{case.dtype}[{', '.join(map(str, t.shape))}]" for t in given]
    got = burn.compile(ours, types, device="cuda", cache=False)(*given)
    for each, want, images in zip(got, wanted, ("y", "x", "w"), strict=True):
        stored = want.permute(to_last) if images == "x" and case.last else want
        assert_near(torch.from_dlpack(each), stored.detach())
