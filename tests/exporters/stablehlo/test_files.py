"""`burn.export` and `burn export` write StableHLO files: what JAX reads from them gives burn's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import burn
from burn.cli.main import main
from burn.codegen.stablehlo.emitter import EMITTERS
from burn.dialect.functions import FUNCTIONS
from burn.errors import CompileError, TypeMismatch

jax = pytest.importorskip("jax")

MODEL = """
import burn
from burn import nn

class Net(nn.Module):
    def __init__(self):
        self.linear = nn.Linear(4, 3)
        self.inputs = {"x": "float32[batch, 4]"}

    def forward(self, x):
        return burn.softmax(self.linear(x), axis=-1)
"""


def function(x: burn.Tensor, i: burn.Tensor) -> burn.Tensor:
    return burn.erf(x * 2)[i].sum(axis=0)


def sample(rows: int) -> list[np.ndarray]:
    return [np.linspace(-1, 1, rows * 3, dtype="f4").reshape(rows, 3), np.array([0, -1])]


def test_named_sizes_are_symbols_of_jax(tmp_path: Path) -> None:
    made = burn.export(function, tmp_path / "m.jax", ["float32[rows, 3]", "int64[k]"])
    assert [str(a) for a in made.in_avals] == ["float32[rows,3]", "int64[k]"]
    again = jax.export.deserialize(bytearray((tmp_path / "m.jax").read_bytes()))
    own = burn.compile(function, ["float32[rows, 3]", "int64[k]"])
    for rows in (2, 7):
        with jax.enable_x64(True):
            (got,) = again.call(*sample(rows))
        np.testing.assert_allclose(got, own(*sample(rows)), rtol=1e-6, atol=1e-6)


def test_sizes_that_are_expressions(tmp_path: Path) -> None:
    """JAX's syntax of sizes has no parentheses: a decoder's mask has past + seq columns."""
    pytest.importorskip("jax")

    def both(past: burn.Tensor, seq: burn.Tensor, mask: burn.Tensor) -> burn.Tensor:
        return burn.concatenate([past, seq]) * mask.sum(axis=0)

    types = ("float32[past]", "float32[seq]", "float32[2*seq - 1, past + seq]")
    burn.export(both, tmp_path / "m.mlir", types)
    run = burn.load(tmp_path / "m.mlir")
    for past, seq in ((3, 2), (1, 1)):
        given = [np.ones(past, np.float32), np.ones(seq, np.float32), np.ones((2 * seq - 1, past + seq), np.float32)]
        np.testing.assert_array_equal(run(*given), np.full(past + seq, 2 * seq - 1))


def test_text_of_fixed_sizes_needs_no_jax(tmp_path: Path) -> None:
    text = burn.export(function, tmp_path / "m.mlir", ["float32[2, 3]", "int64[2]"])
    assert (tmp_path / "m.mlir").read_text() == text and "func.func public @main(%arg0: tensor<2x3xf32>" in text
    dynamic = burn.export(function, tmp_path / "n.mlir", ["float32[n, 3]", "int64[2]"])
    assert "tensor<?x3xf32>" in dynamic


def test_portable_artefacts(tmp_path: Path) -> None:
    for types in (["float32[2, 3]", "int64[2]"], ["float32[n, 3]", "int64[2]"]):
        burn.export(function, tmp_path / "m.stablehlo", types)
        data = (tmp_path / "m.stablehlo").read_bytes()
        assert data.startswith(b"ML\xefR") and b"StableHLO_v" in data[:64]


def test_random_numbers_are_burns(tmp_path: Path) -> None:
    made = burn.export(lambda x: x + burn.random.normal((3,)), tmp_path / "m.jax", ["float32[3]"])
    with jax.enable_x64(True):
        drawn = jax.jit(made.call)
        (got,), (other,) = (drawn(np.zeros(3, "f4"), np.array([7, n], np.uint64)) for n in (1, 2))
    assert not np.array_equal(got, other)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    for name in ("net.mlir", "net.stablehlo", "net.jax"):
        done = CliRunner().invoke(main, ["export", f"{tmp_path / 'net.py'}:Net", "-o", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        assert (tmp_path / name).stat().st_size > 300
    done = CliRunner().invoke(
        main, ["export", f"{tmp_path / 'net.py'}:Net", "-o", str(tmp_path / "n.jax"), "--opset", "20"]
    )
    assert done.exit_code != 0 and "for ONNX files" in done.output


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeMismatch, match="of ONNX models"):
        burn.export(function, tmp_path / "m.mlir", ["float32[2, 3]", "int64[2]"], opset=20)
    with pytest.raises(CompileError, match="nonzero"):
        burn.export(lambda x: burn.nonzero(x), tmp_path / "m.jax", ["float32[n]"])
    assert not (tmp_path / "m.jax").exists() and not (tmp_path / "m.mlir").exists()


def test_a_function_without_a_rule_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {row.name for row in FUNCTIONS} <= EMITTERS.keys()
    monkeypatch.delitem(EMITTERS, "erf")
    with pytest.raises(CompileError, match=r"burn\.erf has no form in StableHLO"):
        burn.export(lambda x: burn.erf(x), tmp_path / "m.mlir", ["float32[3]"])


IREE = {
    "llvm-cpu": ["--iree-llvmcpu-target-cpu=generic"],
    "vulkan-spirv": [],
    "metal-spirv": [],
    "rocm": ["--iree-rocm-target=gfx942"],
}


@pytest.mark.parametrize("target", IREE)
def test_iree_compiles_a_training_step(target: str, tmp_path: Path) -> None:
    """From the portable artefact; where iree-base-compiler is installed."""
    compiler = pytest.importorskip("iree.compiler")

    def step(w: burn.Tensor, x: burn.Tensor, y: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor]:
        loss, gradient = burn.value_and_grad(lambda w: burn.nn.CrossEntropyLoss()(burn.gelu(x @ w), y))(w)
        return loss, w - 0.1 * gradient

    burn.export(step, tmp_path / "step.stablehlo", ["float32[4, 3]", "float32[8, 4]", "int64[8]"])
    options = {"input_type": "stablehlo", "target_backends": [target], "extra_args": IREE[target]}
    assert len(compiler.compile_file(str(tmp_path / "step.stablehlo"), **options)) > 1000
