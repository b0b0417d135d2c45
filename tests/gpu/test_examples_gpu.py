"""The training examples on a real GPU: their results against those on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.numbers import numbers
from tests.train.test_examples import BRIEFLY, example

pytest.importorskip("triton")


@pytest.mark.parametrize("name", BRIEFLY)
def test_same_as_on_the_cpu(name: str) -> None:
    """Losses, and accuracies: one of sixty examples may be classified differently."""
    want, got = (numbers(example(name).main(device=device, **BRIEFLY[name])) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-2)
