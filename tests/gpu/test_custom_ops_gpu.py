"""Custom ops on a real GPU: the GPU column of tests/custom/table.py, and a training step that stays there."""

from __future__ import annotations

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


def test_copies_to_the_host_as_cupti_counts_them(torch: Any) -> None:
    """CUPTI's activities of ten steps, through torch's profiler: graph launches or kernels, and no copy from the device."""
    from torch.profiler import ProfilerActivity, profile

    op = made("Triton kernel")
    from burn import nn, optim

    net = nn.Linear(64, 8)
    step = burn.train.step(
        net, lambda net, x: op(net(x).reshape(-1), gain=GAIN).mean(), optim.SGD(net, 0.01), device="cuda"
    )
    x = to_device(np.ones((32, 64), np.float32), "cuda")
    results = [step(x) for _ in range(5)]
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        results += [step(x) for _ in range(10)]
        torch.cuda.synchronize()
    names = [event.name for event in found.events()]
    assert any("custom_square_kernel" in name for name in names), names[:40]
    assert not [name for name in names if "DtoH" in name or "Device -> Pageable" in name]
    assert sum("GraphLaunch" in name for name in names) == 10
    assert float(results[-1].numpy()) < float(results[0].numpy())


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
