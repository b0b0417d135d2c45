"""Rounding excuses what it can cause, and nothing else."""

from __future__ import annotations

import pytest
import torch

from tests.importers.torch.architectures import judged


def test_an_error_of_a_stable_program_is_not_excused() -> None:
    x = torch.randn(5, 7)
    with pytest.raises(AssertionError, match="rounding"):
        judged([x.softmax(1) * 1.001], [x.softmax(1)], lambda: [x.double().softmax(1)])


def test_cancellation_is_excused() -> None:
    """The float64 result is 1e-3 and each operand is 1e4: one rounding of an operand moves the result by its own size."""
    x = torch.tensor([1e4], dtype=torch.float64)

    def exact() -> list[torch.Tensor]:
        return [(x * 1.0 - (x + 1e-3)) * -1.0]

    judged([torch.tensor([2e-3])], [exact()[0].float()], exact)
    with pytest.raises(AssertionError, match="rounding"):
        judged([torch.tensor([1.0])], [exact()[0].float()], exact)
