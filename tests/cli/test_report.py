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
from burn.cli.report import _memory, layer
from burn.dialect.program import SourceModule
from burn.runtime.artefact import Artefact, Signature, Target

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    options = ["--dim", "batch=3", "--report", str(path), "--verify", "onnxruntime"]
    result = CliRunner().invoke(main, ["run", str(DIGITS), *options])
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
    assert found["seconds"] == pytest.approx(sum(kernel["seconds"] for kernel in kernels))
    assert all(kernel["least"] <= kernel["seconds"] <= kernel["most"] for kernel in kernels)
    assert found["gain"] == pytest.approx(sum(kernel["gain"] or 0 for kernel in kernels))
    assert matmul["layer"] == "hidden" and matmul["gain"] <= matmul["seconds"]
    assert found["run"]["least"] <= found["run"]["seconds"] <= found["run"]["most"]
    assert found["checks"]["with"] == "onnxruntime" and all(row["same"] for row in found["checks"]["outputs"])


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
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert "CONSOLE" not in shown.stderr, shown.stderr
    kernels = data(page)["kernels"]
    assert shown.stdout.count('<g class="kernel') == len(kernels)
    assert shown.stdout.count("<circle") == sum(1 for k in kernels if k["flops"] and k["bytes"] and k["seconds"])
    assert shown.stdout.count("<tr") == len(kernels) + 1 + 2  # and the table of compared outputs
    assert shown.stdout.count('class="track"') == len({k["layer"] for k in kernels}) + len({k["kind"] for k in kernels})
    assert 'class="memory"' in shown.stdout and shown.stdout.count('class="edge') >= len(kernels) - 1


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_search_sorting_and_keys(page: Path, tmp_path: Path) -> None:
    """A script at the end of the page uses it as a reader does, and leaves its results in the title."""
    steps = """
      const rows = () => [...document.querySelectorAll("#kernels tr")], found = [];
      find("search").value = "hidden";
      find("search").dispatchEvent(new Event("input"));
      found.push(rows().length);
      find("search").value = "";
      find("search").dispatchEvent(new Event("input"));
      document.querySelectorAll("#columns button")[0].click();
      const names = rows().map(row => row.cells[0].textContent);
      found.push(names.join() === [...names].sort((a, b) => a.localeCompare(b, "en", {numeric: true})).join());
      rows()[0].focus();
      rows()[0].dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true}));
      found.push(document.activeElement === rows()[1] && rows()[1].classList.contains("chosen"));
      document.querySelector("#layers button").click();
      found.push(rows().length < data.kernels.length);
      const box = find("graph").querySelector("svg").getAttribute("viewBox");
      find("closer").click();
      found.push(box !== find("graph").querySelector("svg").getAttribute("viewBox"));
      document.title = JSON.stringify(found);
    """
    copy = tmp_path / "page.html"
    copy.write_text(page.read_text().replace("</body>", f"<script>{steps}</script></body>"))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=3000",
    ]
    shown = subprocess.run(
        ["chromium", *options, "--dump-dom", copy.as_uri()], capture_output=True, text=True, timeout=300
    )
    title = re.findall(r"<title>(.*?)</title>", shown.stdout)[0]
    assert json.loads(title) == [1, True, True, True, True]


@pytest.mark.parametrize(
    ("source", "path", "expected"),
    [
        ("/encoder/layer.0/attention/query/MatMul", None, "encoder.layer.0"),
        ("/layer1/layer1.0/conv1/Conv", None, "layer1.0"),
        ("/head/Gemm", None, "head"),
        ("MatMul_3", None, ""),
        ("node_linear", "model.h.2.attn.c_attn", "model.h.2"),
        ("node_add", "", ""),
    ],
)
def test_layers(source: str, path: str | None, expected: str) -> None:
    modules = {} if path is None else {source: (SourceModule("", "Net"), SourceModule(path, "Linear"))}
    assert layer([source], modules) == expected


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
