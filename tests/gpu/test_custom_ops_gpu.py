"""Custom ops on a real GPU: the GPU column of tests/custom/table.py, and a training step that stays there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import burn
from burn.runtime.device_array import to_device

pytest.importorskip("triton")

from tests.codegen.gpu.test_custom_ops import attention, rows
from tests.custom.table import GAIN, KINDS, ON_GPU, made, on_gpu, recorded, step_on_gpu


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_column_of_gpus(kind: str) -> None:
    assert recorded(on_gpu(kind)) == (kind in ON_GPU)


def test_a_training_step_is_one_recorded_call_without_copies_to_the_host() -> None:
    losses = step_on_gpu(64, 30)
    assert losses[-1] < losses[0] / 2


STEPS = 10


def _activities(torch: Any, kind: str) -> Counter[str]:
    """CUPTI's activities of ten recorded training steps with the op, through torch's profiler."""
    from torch.profiler import ProfilerActivity, profile

    from burn import nn, optim

    op, net = made(kind), nn.Linear(64, 8)
    step = burn.train.step(
        net, lambda net, x: op(net(x).reshape(-1), gain=GAIN).mean(), optim.SGD(net, 0.01), device="cuda"
    )
    x = to_device(np.ones((32, 64), np.float32), "cuda")
    results = [step(x) for _ in range(5)]  # the first run kernel by kernel, and are recorded
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        results += [step(x) for _ in range(STEPS)]
        torch.cuda.synchronize()
    assert float(results[-1].numpy()) < float(results[0].numpy())
    return Counter(event.name for event in found.events() or ())


def test_a_kernel_adds_no_copies_and_no_submissions(torch: Any) -> None:
    """A step copies its status to the host without waiting for it. The step with the user's kernel has the same copies and
    submissions as that with burn functions."""
    own, fused = (_activities(torch, kind) for kind in ("Triton kernel", "burn functions"))
    assert sum(n for name, n in own.items() if "custom_square_kernel" in name) == STEPS
    for text in ("DtoH", "HtoD", "GraphLaunch"):
        counts = [sum(n for name, n in found.items() if text in name) for found in (own, fused)]
        assert counts[0] == counts[1], (text, own, fused)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (257, 129)])
def test_launches_with_scratch_memory(shape: tuple[int, int]) -> None:
    program = burn.compile(lambda x: rows()(x) + 1, {"x": "float32[n, k]"}, device="cuda")
    x = np.random.default_rng(0).random(shape, np.float32) + 1
    np.testing.assert_allclose(program(x), x / x.sum(1, keepdims=True) + 1, rtol=1e-5)


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 16), (3, 77)])
def test_attention(batch: int, length: int) -> None:
    program = burn.compile(attention(), ["float32[b, n, 64]"] * 3, device="cuda")
    q, k, v = np.random.default_rng(length).standard_normal((3, batch, length, 64)).astype(np.float32)
    scores = q.astype(np.float64) @ k.transpose(0, 2, 1) / 8
    share = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(program(q, k, v), share / share.sum(-1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)
