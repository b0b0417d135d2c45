"""The costs of a model: computed by hand, and as the command prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from burn.cli.compile import main
from burn.deploy.report import Report
from burn.runtime.artefact import Artefact, KernelInfo, Signature, Target
from tests.deploy.making import DIGITS

pytest.importorskip("ziglang")


def test_multiply_adds_are_half_of_the_operations() -> None:
    flops = ("0", "12", "6*n", "8*n*m + 4", "2*min(n, 3)", "3*n")
    kernels = tuple(KernelInfo(f"k{i}", flops=text) for i, text in enumerate(flops))
    report = Report.of(Artefact(Signature((), ()), Target(""), b"", kernels=kernels), 5)
    expected = [0, 6, "3*n", "4*n*m + 2", "(2*min(n, 3)) / 2", "(3*n) / 2"]
    assert [layer.multiply_adds for layer in report.layers] == expected
    assert report.multiply_adds == "3*n + 4*n*m + 2 + (2*min(n, 3)) / 2 + (3*n) / 2 + 6"
    assert report.described()["weights"] == 5


def test_the_command_prints_it(tmp_path: Path) -> None:
    """Multiplications of the compiled program: Winograd convolutions have fewer."""
    words = [str(DIGITS), "--emit", "wasm", "--report", "--dim", "batch=1", "-o", str(tmp_path / "digits")]
    plain, usual = (CliRunner().invoke(main, [*words, "--json", *more]) for more in (["--exact"], []))
    assert plain.exit_code == usual.exit_code == 0, plain.output + usual.output
    report = json.loads(plain.stdout)["report"]
    assert report["multiply_adds"] == 460_416
    assert len(report["layers"]) >= 5 and "flash" not in report
    assert json.loads(usual.stdout)["report"]["multiply_adds"] == 239_232
    told = CliRunner().invoke(main, [*words, "--exact"])
    assert "460,416 multiply-adds" in told.output
    told = CliRunner().invoke(main, [str(DIGITS), "--emit", "llvm", "--report", "-o", str(tmp_path / "x.ll")])
    assert told.exit_code == 2 and "--report is for" in told.output
