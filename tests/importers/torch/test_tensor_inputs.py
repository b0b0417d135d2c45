"""Tensors as inputs of a compiled module: plain ones are passed to the executable directly, all others through numpy."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
import burn.adapters.torch.module as compiled_modules  # noqa: E402
from burn.errors import ModelError  # noqa: E402


class Doubled(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x + x


KINDS = {
    "contiguous": torch.randn(3, 4),
    "transposed": torch.randn(4, 3).t(),
    "every other element": torch.randn(3, 8)[:, ::2],
    "reversed copy": torch.randn(3, 4).flip(1),
    "bfloat16": torch.randn(3, 4).bfloat16(),
    "complex": torch.randn(3, 4, dtype=torch.complex64),
    "empty": torch.zeros(0, 4),
    "scalar": torch.tensor(2.5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_plain_tensors_are_not_converted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = KINDS[kind]
    compiled = burn.compile(Doubled(), (x,))
    monkeypatch.setattr(compiled_modules, "to_array", None)
    monkeypatch.setattr(compiled_modules, "to_tensor", None)
    got = compiled(x)
    assert type(got) is torch.Tensor
    torch.testing.assert_close(got, x + x, rtol=0, atol=0)


def test_tensors_with_lazy_signs_and_parameters_are_converted() -> None:
    x = torch.randn(3, 4, dtype=torch.complex64)
    compiled = burn.compile(Doubled(), (x,))
    for each in (x.conj(), torch.view_as_complex(torch.randn(3, 4, 2)), torch.empty_like(x).copy_(x)):
        torch.testing.assert_close(compiled(each), (each + each).resolve_conj(), rtol=0, atol=0)
    real = burn.compile(Doubled(), (x.real.contiguous(),))
    negated = x.conj().imag
    assert negated.is_neg()
    torch.testing.assert_close(real(negated), negated + negated, rtol=0, atol=0)
    with torch.no_grad():
        torch.testing.assert_close(real(torch.nn.Parameter(x.real)), 2 * x.real, rtol=0, atol=0)


def test_sparse_tensors_are_refused() -> None:
    compiled = burn.compile(Doubled(), (torch.ones(3, 4),))
    with pytest.raises(ModelError, match="only dense tensors"):
        compiled(torch.ones(3, 4).to_sparse())
