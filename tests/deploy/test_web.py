"""The page on which one draws a digit, in a browser."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

import pytest

from burn.deploy import platforms
from burn.deploy.build import Options, build
from burn.loading import read_program
from tests.deploy.browser import browser, served
from tests.deploy.making import DIGITS

pytest.importorskip("ziglang")
PAGE = Path(__file__).parents[2] / "examples" / "web"

_CIRCLE = [(0.5 + 0.22 * math.sin(a / 4), 0.5 - 0.35 * math.cos(a / 4)) for a in range(27)]
STROKES = {
    0: [_CIRCLE],
    1: [[(0.38, 0.3), (0.52, 0.12), (0.52, 0.5), (0.52, 0.88)]],
    4: [[(0.45, 0.1), (0.25, 0.6), (0.75, 0.6)], [(0.62, 0.35), (0.58, 0.9)]],
    7: [[(0.25, 0.15), (0.75, 0.15), (0.55, 0.5), (0.42, 0.9)]],
}


def test_drawn_digits(tmp_path: Path) -> None:
    shutil.copytree(PAGE, tmp_path / "web", ignore=shutil.ignore_patterns("model"))
    build("wasm", read_program(DIGITS, {"batch": 1}), tmp_path / "web" / "model", Options(platforms.find("wasm32")))
    with browser() as page, served(tmp_path / "web") as address:
        page.visit(address)
        page.waits_for("document.getElementById('state').textContent !== 'loading'")
        assert page.run("return document.getElementById('state').textContent") == "ready"
        for digit, strokes in STROKES.items():
            page.click("#clear")
            assert page.run("return document.getElementById('digit').value") == "?"
            page.draw("#board", strokes)
            page.waits_for("document.getElementById('digit').value !== '?'")
            if folder := os.environ.get("BURN_PICTURES"):
                page.picture(Path(folder) / f"digit-{digit}.png")
            assert page.run("return document.getElementById('digit').value") == str(digit)
            assert page.run("return document.querySelectorAll('.bar').length") == 10
        page.click("#clear")
        (tmp_path / "web" / "model" / "weights.safetensors").unlink()
        page.visit(address)
        page.waits_for("document.getElementById('state').textContent !== 'loading'")
        assert "weights.safetensors cannot be read: 404" in page.run(
            "return document.getElementById('state').textContent"
        )
