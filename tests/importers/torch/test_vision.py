"""torchvision's operators through `torch.compile` and `burn.compile`, with gradients, against their definitions in float64.

The definitions are those of tests/architectures/vision_ops.py, or the compiled ones of a torchvision that fits torch. Boxes are
drawn among special ones: of no extent, with exchanged corners, on pixel borders, outside of the image. BURN_SWEEP=300 draws so
many more sets of boxes for each operator, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
import burn.adapters.torch  # noqa: E402
from tests.architectures import vision_ops  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

COUNT = int(os.environ.get("BURN_SWEEP", "0"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "29"))
HEIGHT, WIDTH, BATCH = 7, 11, 2


@pytest.fixture(scope="module", autouse=True)
def _operators() -> None:
    vision_ops.define()


def _call(name: str, *numbers: Any) -> Callable[..., Any]:
    def function(*tensors: Any) -> Any:
        result = getattr(torch.ops.torchvision, name)(*tensors, *numbers)
        return result if isinstance(result, torch.Tensor) else result[0]

    return function


POOLS: dict[str, tuple[Callable[..., Any], int]] = {
    "roi_align": (_call("roi_align", 0.5, 2, 3, 2, False), 3),
    "roi_align aligned": (_call("roi_align", 1.0, 3, 2, 2, True), 2),
    "roi_align adaptive": (_call("roi_align", 1.0, 2, 2, -1, False), 2),
    "roi_pool": (_call("roi_pool", 1.0, 2, 3), 2),
    "roi_pool scaled": (_call("roi_pool", 0.5, 3, 1), 2),
    "ps_roi_align": (_call("ps_roi_align", 1.0, 2, 3, 2), 12),
    "ps_roi_align adaptive": (_call("ps_roi_align", 0.5, 1, 2, 0), 4),
    "ps_roi_pool": (_call("ps_roi_pool", 1.0, 2, 3), 12),
}
"""Operators of an image and boxes, and how many channels the image has."""
REFERENCES: dict[str, Callable[..., Any]] = {
    # the compiled gradient counts the last row and column, which the compiled forward pass leaves out
    "ps_roi_pool": lambda x, boxes: vision_ops.ps_roi_pool(x, boxes, 1.0, 2, 3)[0] + 0 * x.sum(),
}
"""Definitions of operators whose compiled gradient is not the derivative."""


def _boxes(random: Any, count: int, special: bool) -> Any:
    """[count, 5]: the image, two corners."""
    near = torch.rand(count, 4, generator=random, dtype=torch.float64) * 14 - 2
    if special:
        snapped = torch.randint(-6, 30, (count, 4), generator=random).double() / 2
        near = torch.where(torch.rand(count, 1, generator=random) < 0.5, near, snapped)
    low, high = torch.minimum(near[:, :2], near[:, 2:]), torch.maximum(near[:, :2], near[:, 2:])
    corners = torch.cat([low, high], 1)
    if special:
        same = torch.rand(count, 1, generator=random) < 0.2
        corners = torch.where(same, corners[:, [0, 1, 0, 1]], corners)
    image = torch.randint(0, BATCH, (count, 1), generator=random).double()
    return torch.cat([image, corners], 1)


@cache
def _compiled(name: str) -> Any:
    torch._dynamo.reset()
    return torch.compile(POOLS[name][0], backend="burn", fullgraph=True, dynamic=True)


def _agree(name: str, x: Any, boxes: Any) -> None:
    function = REFERENCES.get(name, POOLS[name][0])
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    got, want = _compiled(name)(ours, boxes.to(x.dtype)), function(theirs, boxes.double())
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if x.dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-11}
    torch.testing.assert_close(got.double(), want, equal_nan=True, **tolerance)
    back = torch.linspace(-1, 1, want.numel(), dtype=torch.float64).view(want.shape)
    if want.isnan().any():
        return  # 0 / 0 of position-sensitive bins without samples
    got.backward(back.to(x.dtype))
    want.backward(back)
    torch.testing.assert_close(ours.grad.double(), theirs.grad, **tolerance)


@pytest.mark.parametrize("name", POOLS)
def test_pooling_and_its_gradient(name: str) -> None:
    """Random boxes in float64, in which torchvision and burn round alike."""
    random = torch.Generator().manual_seed(SEED)
    shape = (BATCH, POOLS[name][1], HEIGHT, WIDTH)
    for count in (3, 7, *((3, 0, 1, 7, 2)[i % 5] for i in range(COUNT))):
        _agree(name, torch.randn(shape, generator=random, dtype=torch.float64), _boxes(random, count, special=True))


@pytest.mark.covering(pairs=False)
@pytest.mark.parametrize(("count", "dtype"), [(0, torch.float64), (1, torch.float64), (4, torch.float32)], ids=str)
@pytest.mark.parametrize("name", POOLS)
def test_pooling_that_torch_traces_again(name: str, count: int, dtype: Any) -> None:
    """Of no box, of one, and in another element type: each is a program of its own, and another one for the gradient."""
    _compiled.cache_clear()  # torch gives up a function that it has traced eight times
    random = torch.Generator().manual_seed(SEED)
    shape = (BATCH, POOLS[name][1], HEIGHT, WIDTH)
    x = torch.randn(shape, generator=random, dtype=dtype)
    _agree(name, x, _boxes(random, count, special=dtype == torch.float64).to(dtype))


def test_roi_pool_says_which_pixels_it_took() -> None:
    """The first of equal maxima in row-major order; -1 of an empty bin, and of one of NaN alone."""
    x = torch.zeros(1, 1, 4, 5)
    x[0, 0, 1, 3] = x[0, 0, 2, 1] = 2.0
    x[0, 0, 0, 0] = float("nan")
    boxes = torch.tensor([[0.0, 0, 0, 4, 3], [0, 0, 0, 0, 0], [0, 9, 9, 12, 12]])
    made = torch.compile(lambda *a: torch.ops.torchvision.roi_pool(*a, 1.0, 1, 1), backend="burn", fullgraph=True)
    values, pixels = made(x, boxes)
    assert pixels.flatten().tolist() == [8, -1, -1] and pixels.dtype == torch.int32
    assert values.flatten().tolist() == [2.0, pytest.approx(-3.4028234663852886e38), 0.0]


# ---- nms ------------------------------------------------------------------------------------------------------------------
def _detections(random: Any, count: int, dtype: Any) -> tuple[Any, Any]:
    """Boxes on a coarse grid, so that overlaps meet thresholds exactly; some have no area or exchanged corners; equal scores."""
    corners = torch.randint(0, 10, (count, 4), generator=random).to(dtype)
    ordered = torch.cat(
        [torch.minimum(corners[:, :2], corners[:, 2:]), torch.maximum(corners[:, :2], corners[:, 2:])], 1
    )
    boxes = torch.where(torch.rand(count, 1, generator=random) < 0.9, ordered, corners)
    scores = torch.randint(0, 6, (count,), generator=random).to(dtype) / 5
    scores[torch.rand(count, generator=random) < 0.1] = float("nan")
    scores[torch.rand(count, generator=random) < 0.1] = -float("inf")
    return boxes, scores


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.0, -0.5])
def test_nms(threshold: float, dtype: Any) -> None:
    torch._dynamo.reset()
    made = torch.compile(
        lambda *a: torch.ops.torchvision.nms(*a, threshold) * 1, backend="burn", fullgraph=True, dynamic=True
    )
    random = torch.Generator().manual_seed(SEED)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for i in range((COUNT or 3) * 5):
            boxes, scores = _detections(random, (40, 7, 0, 1, 150)[i % 5], dtype)
            want = torch.ops.torchvision.nms(boxes, scores, threshold)
            assert made(boxes, scores).tolist() == want.tolist()


def test_torchs_assumption_that_two_boxes_are_kept_is_none() -> None:
    """Before new_dynamic_size, fake results had at least two elements, and programs assert that."""

    class Kept(torch.nn.Module):
        def forward(self, boxes: Any, scores: Any) -> Any:
            kept = torch.ops.torchvision.nms(boxes, scores, 0.4)
            torch._check(kept.shape[0] >= 2)
            return kept * 1

    boxes = torch.tensor([[0.0, 0, 2, 2], [4, 4, 6, 6], [0, 0, 2, 2]])
    made = burn.compile(Kept(), (boxes, torch.tensor([0.5, 0.9, 0.7])))
    assert made(boxes, torch.tensor([0.5, 0.9, 0.7])).tolist() == [1, 2]
    assert made(boxes[[0, 0, 0]], torch.tensor([0.5, 0.9, 0.7])).tolist() == [1]


def test_nms_of_a_dynamic_export_selects() -> None:
    """Ops that depend on the number of kept boxes follow in the same program."""

    class Best(torch.nn.Module):
        def forward(self, boxes: Any, scores: Any) -> Any:
            kept = torch.ops.torchvision.nms(boxes, scores, 0.4)
            return boxes[kept], scores[kept].sum()

    random = torch.Generator().manual_seed(SEED)
    boxes = torch.rand(20, 2, generator=random) * 8
    boxes = torch.cat([boxes, boxes + torch.rand(20, 2, generator=random) * 4], 1)
    scores = torch.rand(20, generator=random)
    made = burn.compile(Best(), (boxes, scores), dynamic={"boxes": {0: "n"}, "scores": {0: "n"}})
    for n in (20, 3, 11):
        for got, want in zip(made(boxes[:n], scores[:n]), Best()(boxes[:n], scores[:n]), strict=True):
            torch.testing.assert_close(torch.as_tensor(got), want)


# ---- deformable convolutions ------------------------------------------------------------------------------------------------
CONVOLUTIONS = {
    # channels, outputs, kernel, strides, pads, dilations, groups, offset groups, masked
    "plain": (4, 3, (3, 2), (1, 1), (1, 0), (1, 1), 1, 1, True),
    "strides": (4, 2, (2, 3), (2, 1), (0, 2), (1, 2), 1, 2, False),
    "groups": (4, 6, (3, 3), (1, 2), (1, 1), (2, 1), 2, 4, True),
    "one tap": (2, 2, (1, 1), (1, 1), (0, 0), (1, 1), 1, 1, True),
}


@pytest.mark.covering
@pytest.mark.parametrize("still", [False, True], ids=["moved", "at pixels"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_deformable_convolution_and_its_gradients(name: str, still: bool) -> None:
    """At pixels, with offsets of 0 and of whole pixels: weights of 0 give such offsets in a new layer."""
    torch._dynamo.reset()
    channels, outputs, kernel, strides, pads, dilations, groups, shares, masked = CONVOLUTIONS[name]
    sizes = [
        (d + 2 * p - dil * (k - 1) - 1) // s + 1
        for d, p, dil, k, s in zip((6, 7), pads, dilations, kernel, strides, strict=True)
    ]
    random = torch.Generator().manual_seed(SEED)
    draw = partial(torch.randn, generator=random, dtype=torch.float64)
    taps = kernel[0] * kernel[1]
    x, weight, bias = draw(2, channels, 6, 7), draw(outputs, channels // groups, *kernel), draw(outputs)
    offset = draw(2, shares * taps * 2, *sizes) * 2
    mask = draw(2, shares * taps, *sizes) if masked else torch.zeros(2, 1, dtype=torch.float64)
    if still:
        offset = torch.where(torch.rand(offset.shape, generator=random) < 0.7, 0.0, offset.round())
    numbers = (*strides, *pads, *dilations, groups, shares, masked)
    function = _call("deform_conv2d", *numbers)
    made = torch.compile(function, backend="burn", fullgraph=True)
    tensors = (x, weight, offset, mask, bias)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        given = [t.detach().to(dtype).requires_grad_() for t in tensors]
        known = [t.detach().requires_grad_() for t in tensors]
        if dtype == torch.float32:  # positions are rounded: the same ones for both
            known[2] = given[2].detach().double().requires_grad_()
        got, want = made(*given), function(*known)
        torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance)
        back = draw(want.shape)
        got.backward(back.to(dtype))
        want.backward(back)
        for ours, theirs in zip(given, known, strict=True):
            if theirs.grad is not None and (masked or ours is not given[3]):
                torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=tolerance, atol=tolerance)


def test_a_module_with_both_is_trained_by_burn() -> None:
    """`burn.compile(train=True)` differentiates the same composites: a step's gradients are torch's."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(1)))

        def forward(self, x: Any, boxes: Any) -> Any:
            offset = torch.zeros(1, 18, 6, 7) + 0.25
            y = torch.ops.torchvision.deform_conv2d(
                x, self.weight, offset, torch.ones(1, 9, 6, 7), torch.zeros(4), 1, 1, 1, 1, 1, 1, 1, 1, True
            )
            pooled = torch.ops.torchvision.roi_align(y, boxes, 1.0, 2, 2, 2, True)
            best = torch.ops.torchvision.roi_pool(y, boxes, 1.0, 2, 2)[0]
            return (pooled * pooled).sum() + best.sum()

    net = Net()
    random = torch.Generator().manual_seed(SEED)
    x, boxes = torch.randn(1, 2, 6, 7, generator=random), torch.tensor([[0.0, 0.5, 1.0, 4.0, 5.0], [0, 2, 2, 6, 6]])
    made = burn.compile(net, (x, boxes), train=True)
    value, slopes = burn.value_and_grad(lambda model: model(x.numpy(), boxes.numpy()))(made)
    want = net(x, boxes)
    want.backward()
    torch.testing.assert_close(torch.tensor(value.numpy()), want.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.tensor(slopes["weight"].numpy()), net.weight.grad, rtol=1e-4, atol=1e-4)
