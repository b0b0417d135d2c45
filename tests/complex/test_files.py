"""Complex tensors at the edges: ONNX files, C libraries, torch modules, and checkpoints."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.numpy
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import burn
from burn.errors import ModelError
from burn.exporters.onnx import export
from burn.importers import weights
from burn.tracing.trace import trace
from tests.complex.test_tensors import drawn
from tests.deploy.making import Library, make, traced


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


# ---- ONNX import -------------------------------------------------------------------------------------------------------
Z64 = drawn(2, 3, dtype=np.complex64)
COMPLEX = TensorProto.COMPLEX64


def model_of(nodes: list[onnx.NodeProto], x: int, y: int, shape: list[int], constants: tuple = ()) -> onnx.ModelProto:
    of = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [of("x", x, [2, 3])], [of("y", y, shape)], list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


NODE = helper.make_node
MOVES = {
    "Identity": (model_of([NODE("Identity", ["x"], ["y"])], COMPLEX, COMPLEX, [2, 3]), Z64),
    "Concat of a constant": (
        model_of(
            [
                NODE("Constant", [], ["k"], value=numpy_helper.from_array(Z64)),
                NODE("Concat", ["x", "k"], ["y"], axis=0),
            ],
            COMPLEX,
            COMPLEX,
            [4, 3],
        ),
        np.concatenate([Z64, Z64]),
    ),
    "Concat of an initializer": (
        model_of(
            [NODE("Concat", ["k", "x"], ["y"], axis=1)], COMPLEX, COMPLEX, [2, 6], (numpy_helper.from_array(Z64, "k"),)
        ),
        np.concatenate([Z64, Z64], 1),
    ),
    "Transpose": (model_of([NODE("Transpose", ["x"], ["y"])], COMPLEX, COMPLEX, [3, 2]), Z64.T),
}


@pytest.mark.parametrize("name", MOVES)
def test_onnx_operators_that_the_standard_has_for_complex_tensors(name: str) -> None:
    model, want = MOVES[name]
    got = burn.load(model, cache=False)(Z64)
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("operator", ["Neg", "Abs", "Exp", "Relu"])
def test_onnx_operators_without_complex_tensors_are_refused(operator: str) -> None:
    """The standard has no arithmetic of complex tensors: DFT and STFT take and give pairs along the last axis."""
    with pytest.raises(ModelError, match=rf"{operator}.*complex64"):
        burn.load(model_of([NODE(operator, ["x"], ["y"])], COMPLEX, COMPLEX, [2, 3]))


# ---- C libraries and checkpoints ---------------------------------------------------------------------------------------
@pytest.mark.slow
def test_c_library_takes_and_gives_pairs(tmp_path: Path) -> None:
    """In memory a complex number is its real part, then its imaginary part: the header says so, for C's `float *`."""
    program = traced(lambda z, w: (z * w.conj(), z.abs()), z="complex64[n]", w="complex128[n]")
    path = make("shared", program.copy(), tmp_path / "turn")
    z, w = drawn(5, dtype=np.complex64), drawn(5, seed=3)
    reference = burn.compile(lambda z, w: (z * w.conj(), z.abs()), ("complex64[n]", "complex128[n]"))
    library = Library(path, "turn", reference.outputs)
    turned, size = library.run([(z, "complex64"), (w, "complex128")])
    np.testing.assert_allclose(turned, z * w.conj(), rtol=1e-12)
    np.testing.assert_allclose(size, np.abs(z), rtol=1e-6)
    library.close()
    header = (path.parent / "turn.h").read_text()
    assert "const float *z" in header and "const double *w" in header and "pairs of real and imaginary part" in header


ARRAYS = {
    "whole": drawn(3, 2, dtype=np.complex64),
    "empty": np.zeros((0, 2), np.complex64),
    "one": np.array(1 - 2j, np.complex64),
}


def files(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, Path]:
    paths = {kind: folder / f"w.{kind}" for kind in ("npz", "pt", "safetensors")}
    np.savez(paths["npz"], **arrays)  # type: ignore[arg-type]
    torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, paths["pt"])
    safetensors.numpy.save_file(arrays, paths["safetensors"])
    return paths


def test_checkpoints(tmp_path: Path) -> None:
    for kind, path in files(tmp_path, ARRAYS).items():
        found = weights.read(path)
        for name, array in ARRAYS.items():
            assert found[name].array().dtype == array.dtype, (kind, name)
            np.testing.assert_array_equal(found[name].array(), array, err_msg=f"{kind} {name}")


def test_checkpoints_of_double_precision(tmp_path: Path) -> None:
    """safetensors has no type for complex128."""
    array = drawn(3, 2)
    np.savez(tmp_path / "w.npz", z=array)
    torch.save({"z": torch.from_numpy(array)}, tmp_path / "w.pt")
    for name in ("w.npz", "w.pt"):
        np.testing.assert_array_equal(weights.read(tmp_path / name)["z"].array(), array)


class Turn(burn.nn.Module):
    def __init__(self) -> None:
        self.turn = burn.nn.Parameter(drawn(4, dtype=np.complex64))

    def forward(self, z: burn.Tensor) -> burn.Tensor:
        return z * self.turn


def test_modules_with_complex_parameters_are_saved_and_loaded(tmp_path: Path) -> None:
    first, second = Turn(), Turn()
    first.save(tmp_path / "turn.safetensors")
    second.turn = burn.nn.Parameter(np.zeros(4, np.complex64))
    second.load(tmp_path / "turn.safetensors")
    np.testing.assert_array_equal(np.asarray(second.turn), np.asarray(first.turn))
