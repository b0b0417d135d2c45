"""burn-opt: text in, text out, errors on standard error with exit code 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from burn.cli.opt import main
from burn.dialect.weights import array_weight
from burn.importers.weights import safetensors

TEXT = """
func.func @main(%x: tensor<?x4xf32, ["n", "4"]> {burn.name = "x"}) -> tensor<?x4xf32, ["n", "4"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["4", "1"]} : () -> tensor<4x1xf32>
  %t = "burn.transpose"(%w) {permutation = array<i64: 1, 0>} : (tensor<4x1xf32>) -> tensor<1x4xf32>
  %e = "burn.exp"(%t) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %0 = "burn.add"(%x, %e) : (tensor<?x4xf32, ["n", "4"]>, tensor<1x4xf32>) -> tensor<?x4xf32, ["n", "4"]>
  "burn.return"(%0) : (tensor<?x4xf32, ["n", "4"]>) -> ()
}
"""


def run(*arguments: str, text: str | None = None):
    return CliRunner().invoke(main, list(arguments), input=text)


def test_standard_input() -> None:
    result = run("--passes", "simplify", "-", text=TEXT)
    assert result.exit_code == 0 and '"burn.reshape"' in result.output and 'burn.name = "x"' in result.output


def test_no_passes_prints_the_program() -> None:
    first = run("-", text=TEXT)
    assert run("-", text=first.output).output == first.output


def test_every_step_can_be_printed() -> None:
    result = run("--passes", "simplify,decompose", "--print-ir-after-all", "-", text=TEXT)
    assert "// ---- after simplify" in result.stderr and "// ---- after decompose" in result.stderr
    assert "// ----" not in result.stdout


def test_weights_lie_beside(tmp_path: Path) -> None:
    source, target = tmp_path / "m.mlir", tmp_path / "out.mlir"
    source.write_text(TEXT)
    values = np.arange(4, dtype="f4").reshape(4, 1)
    safetensors.write(source.with_suffix(".safetensors"), {"w": array_weight(values)})
    result = run("--passes", "fold", "--verify-each", "-o", str(target), str(source))
    assert result.exit_code == 0 and result.output == ""
    text = target.read_text()
    assert "burn.constant" in text and "burn.transpose" not in text
    again = run(str(target))
    assert again.exit_code == 0 and again.output == text


def test_large_results_are_written_beside(tmp_path: Path) -> None:
    source, target = tmp_path / "m.mlir", tmp_path / "out.mlir"
    source.write_text(TEXT.replace("x4x", "x40x").replace("<4x1", "<40x1").replace('"4"', '"40"'))
    values = np.linspace(0, 1, 40, dtype="f4").reshape(40, 1)
    safetensors.write(source.with_suffix(".safetensors"), {"w": array_weight(values)})
    assert run("--passes", "fold", "-o", str(target), str(source)).exit_code == 0
    (stored,) = safetensors.read(target.with_suffix(".safetensors")).values()
    np.testing.assert_allclose(stored.array(), np.exp(values.T), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--passes", "nope", "-"), "there is no pass 'nope'"),
        (("--passes", "fold", "-"), "weights"),
        (("missing.mlir",), "No such file"),
    ],
)
def test_errors(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments, text=TEXT)
    assert result.exit_code == 1 and words in result.stderr and "Traceback" not in result.stderr


def test_usage() -> None:
    assert run().exit_code == 2


def test_list() -> None:
    output = run("--list").output
    assert "fuse{max-ops=48}" in output and "absorb=true" in output
