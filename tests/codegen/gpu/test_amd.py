"""Programs on a simulated GPU of AMD's, and what its kernels may not use."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import burn
from burn.codegen.triton import functions
from burn.codegen.triton.abilities import Abilities, warp_of
from burn.codegen.triton.backend import GPU, for_options
from burn.errors import DeviceError
from burn.options import Options
from burn.runtime.device import count, device
from burn.runtime.dtypes import numpy_dtype
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.codegen.gpu.sources import sources_of
from tests.codegen.gpu.test_triton_compiles import CASES
from tests.passes.cases import read

pytest.importorskip("triton")

NVIDIA = ("gluon", "tl.float8e4nv", "tl.float8e5", "make_tensor_descriptor", "warp_specialize", "max_num_imprecise")
ARCHITECTURES = ("gfx90a", "gfx942", "gfx1100")


def test_programs(amd: SimulatedGPU) -> None:
    """A matmul with a softmax, and a reduction with a named size: called twice, so that the second call is recorded."""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype("float32") for shape in ((5, 16), (16, 24)))
    compiled = burn.compile(
        lambda x, w: [burn.softmax(x @ w), (x * x).sum(-1)], ("float32[n, 16]", "float32[16, 24]"), device="hip"
    )
    scores = np.exp(x.astype("float64") @ w)
    for _ in range(3):
        soft, squares = compiled(x, w)
        np.testing.assert_allclose(soft, scores / scores.sum(-1, keepdims=True), rtol=1e-4)
        np.testing.assert_allclose(squares, (x.astype("float64") ** 2).sum(-1), rtol=1e-5)
    assert compiled.artefact.target.architecture == "gfx942"
    assert {image.threads % 64 for image in compiled.artefact.images} == {0}
    assert count("hip") == 2 and burn.tensor(x).to("hip").device == "hip:0"


def test_without_amd_s_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_HIP_DRIVER", "/nowhere/libamdhip64.so")
    assert count("hip") == 0
    with pytest.raises(DeviceError, match="there is no AMD driver: /nowhere/libamdhip64"):
        device("hip").facts()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_wavefront_is_the_architecture_s(architecture: str) -> None:
    made = for_options(Options(device=device("hip"), architecture=architecture))
    assert isinstance(made, GPU)
    assert made.warp == warp_of("hip", architecture) == (32 if architecture == "gfx1100" else 64)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_of_nvidia_s_alone(architecture: str) -> None:
    """No 8-bit floats on matrix units, no tensor maps, no warp specialisation, in any kind of kernel."""
    abilities = Abilities.of("hip", architecture)
    assert not (abilities.eights or abilities.maps or abilities.warp_specialised)
    for case in CASES:
        for source in sources_of(read(case), abilities, case.passes):
            assert not [word for word in NVIDIA if word in source.text], case.name
            assert not source.registers


def test_8_bit_floats_are_widened(amd: SimulatedGPU) -> None:
    """A matmul of 8-bit floats computes in float32."""
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(shape).astype("float32") for shape in ((3, 32), (32, 5))]

    def function(x: burn.Tensor, w: burn.Tensor) -> burn.Tensor:
        x, w = (burn.ops.cast(t, dtype="float8_e4m3fn") for t in (x, w))
        return burn.ops.dot_general(x, w, lhs_contract=(1,), rhs_contract=(0,), dtype="float32")

    compiled = burn.compile(function, ("float32[3, 32]", "float32[32, 5]"), device="hip", cache=False)
    narrow = [array.astype(numpy_dtype("float8_e4m3fn")).astype("float64") for array in arrays]
    np.testing.assert_allclose(compiled(*arrays), narrow[0] @ narrow[1], rtol=1e-4, atol=1e-4)


def test_device_functions_exist_for_both_makers() -> None:
    """Triton's library of one maker lacks functions of the other's."""
    import triton

    extra = Path(triton.__file__).parent / "language" / "extra"
    texts = [rule.floats or "" for rule in functions.FUNCTIONS.values()]
    texts.append((Path(functions.__file__).parent / "library.py").read_text())
    used = {word.split("(")[0] for text in texts for word in text.split("libdevice.")[1:]}
    assert len(used) > 12
    for maker in ("cuda", "hip"):
        body = ast.parse((extra / maker / "libdevice.py").read_text()).body
        assert used <= {node.name for node in body if isinstance(node, ast.FunctionDef)}, maker
