"""The fraction of the roofline that a kernel reaches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from burn.bench.roofline import Level, Roofline
from burn.cli.bench import main
from burn.codegen.cpu.peaks import arithmetic
from burn.codegen.cpu.target import TARGETS
from burn.runtime.artefact import KernelInfo
from burn.runtime.profile import ProfileRow

ROOF = Roofline(
    2, {"vectors": 100e9, "tiles": 200e9}, (Level("a cache", 1e6, 50e9), Level("memory", float("inf"), 10e9))
)


def row(seconds: float, flops: float | None, size: float | None, calls: float = 1) -> ProfileRow:
    return ProfileRow(KernelInfo("k"), calls, seconds, flops, size)


def test_a_share_of_what_bounds_it() -> None:
    assert ROOF.share(row(1e-3, 100e6, 1e3)) == pytest.approx(0.5)  # of the quicker arithmetic
    assert ROOF.share(row(1e-3, 1e3, 1e6)) == pytest.approx(0.02)  # of the cache
    assert ROOF.share(row(1e-3, 1e3, 5e6)) == pytest.approx(0.5)  # of the memory
    assert ROOF.share(row(1e-3, 1e3, 5e6, calls=5)) == pytest.approx(0.1)  # each fits the cache


def test_no_share_of_what_is_not_known() -> None:
    assert ROOF.share(row(1e-3, None, 1e6)) is None
    assert ROOF.share(row(1e-3, 1e6, None)) is None
    assert ROOF.share(row(0.0, 1e6, 1e6)) is None


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.is_compiled_here])
def test_peaks_compile_for_every_target(name: str) -> None:
    ways = {way.name: way.flops for way in arithmetic(TARGETS[name], 6)}
    assert list(ways) == (["vectors", "tiles"] if name == "amx" else ["vectors"])
    assert all(flops > 0 for flops in ways.values())


def test_the_command_shows_kernels(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    digits = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
    arguments = [str(digits), "--peers", "burn", "--batch", "2", "--runs", "1", "--rounds", "1", "--roofline"]
    result = CliRunner().invoke(main, [*arguments, "--threads", "1", "--json", str(figures)])
    assert result.exit_code == 0, result.output
    assert "of peak" in result.output
    ((_, profile),) = json.loads(figures.read_text())["profiles"].items()
    assert all(kernel["of_peak"] > 0 for kernel in profile["profile"])
