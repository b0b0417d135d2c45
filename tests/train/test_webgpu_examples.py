"""The training examples on WebGPU: their results against those on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.wgsl.conftest import webgpu  # noqa: F401  the fixture that skips without a device
from tests.gpu.numbers import numbers
from tests.train.test_examples import BRIEFLY, example


@pytest.mark.slow  # llvmpipe takes a minute for each
@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize("name", BRIEFLY)
def test_same_as_on_the_cpu(name: str) -> None:
    """Losses, and accuracies: one of sixty examples may be classified differently."""
    want, got = (numbers(example(name).main(device=device, **BRIEFLY[name])) for device in ("cpu", "wgpu"))
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-2)
