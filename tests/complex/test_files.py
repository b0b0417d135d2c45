"""Complex tensors at the edges: ONNX files, command-line packages, torch modules, and checkpoints."""

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

import burn
from burn.exporters.onnx import export
from burn.tracing.trace import trace
from tests.complex.test_tensors import drawn


def test_onnx_export_of_complex_numbers_inside() -> None:
    program = trace(lambda x: burn.fft.irfft(burn.fft.rfft(x) * (2 - 1j), 6), {"x": "float32[3, 6]"})
    model = export(program)
    onnx.checker.check_model(model)
    x = drawn(3, 6).real.astype(np.float32)
    (got,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(got, np.fft.irfft(np.fft.rfft(x) * (2 - 1j), 6), rtol=1e-4, atol=1e-5)


def test_onnx_export_of_a_complex_input_is_refused() -> None:
    with pytest.raises(burn.BurnError, match="cannot be written as ONNX"):
        export(trace(lambda z: z.real, {"z": "complex64[3]"}))


class Rotated(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.turn = torch.nn.Parameter(torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return z * self.turn, torch.fft.fft(z).abs(), (z @ z.mH).sum(), torch.view_as_real(z.conj().resolve_conj())


def test_torch_module_takes_and_gives_complex_tensors() -> None:
    module, z = Rotated(), torch.from_numpy(drawn(2, 4, dtype=np.complex64))
    for got, expected in zip(burn.compile(module, (z,))(z), module(z), strict=True):
        torch.testing.assert_close(
            torch.as_tensor(np.asarray(got)), expected.detach().resolve_conj(), rtol=1e-4, atol=1e-5
        )
