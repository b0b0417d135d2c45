"""`burn-run --report`: the page holds what was measured, and a browser draws all of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from burn.cli.main import main
from burn.cli.report import _memory
from burn.runtime.artefact import Artefact, Signature, Target

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    result = CliRunner().invoke(main, ["run", str(DIGITS), "--dim", "batch=3", "--report", str(path)])
    assert result.exit_code == 0, result.output
    return path


def data(page: Path) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(text)


def test_what_the_page_holds(page: Path) -> None:
    found = data(page)
    kernels = found["kernels"]
    assert sum(kernel["share"] for kernel in kernels) == pytest.approx(1)
    assert [kernels[number]["seconds"] for number in found["order"]] == sorted(
        (k["seconds"] for k in kernels), reverse=True
    )
    assert all(0 <= other < number for number, kernel in enumerate(kernels) for other in kernel["reads"])
    assert all(kernel["reads"] for kernel in kernels[1:])  # each reads the one before
    assert "/hidden/Gemm" in {node for kernel in kernels for node in kernel["nodes"]}
    matmul = next(kernel for kernel in kernels if "/hidden/Gemm" in kernel["nodes"])
    assert "contract" in matmul["text"] and matmul["flops"] > 0 and matmul["of_peak"] > 0
    assert max(found["memory"]) > 3 * 16 * 64 * 4  # what the first convolution gives
    assert ["sizes", "batch = 3"] in found["facts"]


def test_the_page_needs_nothing_else(page: Path) -> None:
    assert not re.search(r"(src|href)=|@import|url\(|fetch\(", page.read_text())


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_browser_draws_it(page: Path, tmp_path: Path) -> None:
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=5000",
    ]
    command = ["chromium", *options, "--enable-logging=stderr", "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in shown.stderr, shown.stderr
    kernels = data(page)["kernels"]
    assert shown.stdout.count('<g class="kernel') == len(kernels)
    assert shown.stdout.count("<circle") == sum(1 for k in kernels if k["flops"] and k["bytes"] and k["seconds"])
    assert shown.stdout.count("<tr") == len(kernels) + 1
    assert 'class="memory"' in shown.stdout and shown.stdout.count('class="edge"') >= len(kernels) - 1


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["run", str(DIGITS), "--dim", "batch=1", "--report", str(tmp_path / "no" / "r.html")]
    )
    assert result.exit_code == 1 and "cannot write" in result.output


def test_memory_step_by_step() -> None:
    artefact = Artefact(
        Signature((), ()), Target("any"), b"", live_ranges=((0, 1), (1, 3), (2, 2)), buffers=("4*n", "8", "unknown")
    )
    assert _memory(artefact, {"n": 5}) == [20, 28, 8, 8]
