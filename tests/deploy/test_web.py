"""The pages of examples/web in a browser: one draws a digit, one picks a picture and sees the faces in it."""

from __future__ import annotations

import math
import os
import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image, ImageOps

import burn
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.loading import read_program
from burn.toolchain import platforms
from tests.deploy.browser import Browser, browser, served
from tests.deploy.making import DIGITS
from tests.models import Unavailable, model_path

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
    shutil.copytree(PAGE, tmp_path / "web", ignore=shutil.ignore_patterns("model", "ultraface"))
    build("wasm", read_program(DIGITS, {"batch": 1}), tmp_path / "web" / "model", Options(platforms.find("wasm32")))
    with browser() as page, served(tmp_path / "web") as address:
        page.visit(address)
        page.waits_for(_SAID)
        assert _state(page) == "ready"
        for digit, strokes in STROKES.items():
            page.click("#clear")
            assert page.run("return document.getElementById('digit').value") == "?"
            page.draw("#board", strokes)
            page.waits_for("document.getElementById('digit').value !== '?'")
            _keep_picture(page, f"digit-{digit}")
            assert page.run("return document.getElementById('digit').value") == str(digit)
            assert page.run("return document.querySelectorAll('.bar').length") == 10
        page.click("#clear")
        (tmp_path / "web" / "model" / "weights.safetensors").unlink()
        page.visit(address)
        page.waits_for(_SAID)
        assert "weights.safetensors cannot be read: 404" in _state(page)


FACE = (178, 60, 276, 186)
"""Of scikit-image's astronaut, by eye: chin to hairline."""


@pytest.mark.slow  # compiles ultraface for WebAssembly
def test_faces(tmp_path: Path) -> None:
    pictures = pytest.importorskip("skimage.data")
    try:
        model = model_path("ultraface")
    except Unavailable as reason:
        pytest.skip(str(reason))
    shutil.copytree(PAGE, tmp_path / "web", ignore=shutil.ignore_patterns("model", "ultraface"))
    build("wasm", read_program(model), tmp_path / "web" / "ultraface", Options(platforms.find("wasm32")))
    with browser() as page, served(tmp_path / "web") as address:
        page.visit(f"{address}/faces.html")
        page.waits_for(_SAID)
        assert _state(page) == "ready: choose a picture"
        astronaut = Image.fromarray(pictures.astronaut())
        _pick(page, astronaut, tmp_path / "one.png")
        assert _state(page).startswith("one face, ")
        (face,) = _faces(page)
        assert face["score"] > 0.95 and _shared(face, FACE) > 0.6
        _keep_picture(page, "face")

        two = Image.new("RGB", (1024, 512))
        two.paste(astronaut, (0, 0))
        two.paste(ImageOps.mirror(astronaut), (512, 0))
        left, top, right, bottom = FACE
        both = [FACE, (1024 - right, top, 1024 - left, bottom)]
        _pick(page, two, tmp_path / "two.png")
        found = sorted(_faces(page), key=lambda box: box["left"])
        assert len(found) == 2 and all(_shared(box, face) > 0.5 for box, face in zip(found, both, strict=True))
        _keep_picture(page, "two")
        _pick(page, astronaut.crop((0, 200, 512, 512)), tmp_path / "none.jpg")
        assert _state(page).startswith("no faces") and _faces(page) == []
        _pick(page, astronaut.rotate(90, expand=True), tmp_path / "turned.jpg", turned=6)
        (face,) = _faces(page)
        assert _shared(face, FACE) > 0.6
        (tmp_path / "no.png").write_bytes(b"no picture")
        page.run("document.getElementById('state').textContent = 'loading'")
        page.pick("#file", tmp_path / "no.png")
        page.waits_for(_SAID)
        assert _state(page).startswith("no.png cannot be shown: ")


def test_a_person_in_a_scene(tmp_path: Path) -> None:
    """segment.onnx is a network of segment.py, and separates a person from the background."""
    scenes: Any = runpy.run_path(str(PAGE / "segment.py"))
    burn.export(scenes["Network"](), tmp_path / "new.onnx", {"image": np.zeros((1, 3, 96, 128), np.float32)})
    here, new = (onnx.load(path).graph for path in (PAGE / "segment.onnx", tmp_path / "new.onnx"))
    assert [node.op_type for node in here.node] == [node.op_type for node in new.node]
    assert [list(w.dims) for w in here.initializer] == [list(w.dims) for w in new.initializer]
    model = burn.load(PAGE / "segment.onnx")
    for image, mask in zip(*scenes["frames"](5), strict=True):
        found, wanted = np.asarray(model(image[None]))[0] > 0.5, mask > 0.5
        assert (found & wanted).sum() > 0.85 * (found | wanted).sum()


_SAID = "!document.getElementById('state').textContent.startsWith('loading')"


def _state(page: Browser) -> str:
    return page.run("return document.getElementById('state').textContent")


def _faces(page: Browser) -> list[dict[str, float]]:
    return page.run("return JSON.parse(document.getElementById('picture').dataset.faces)")


def _pick(page: Browser, picture: Image.Image, path: Path, turned: int = 1) -> None:
    """Chooses a picture, which may say how the camera was held, and waits for the answer."""
    exif = Image.Exif()
    exif[0x0112] = turned
    picture.save(path, exif=exif)
    page.run("document.getElementById('state').textContent = 'loading'")
    page.pick("#file", path)
    page.waits_for(_SAID)


def _shared(box: dict[str, float], face: tuple[int, int, int, int]) -> float:
    """The part of the union that both have."""
    found = [box[side] for side in ("left", "top", "right", "bottom")]
    width = min(found[2], face[2]) - max(found[0], face[0])
    height = min(found[3], face[3]) - max(found[1], face[1])
    both = max(0.0, width) * max(0.0, height)
    return both / (_area(found) + _area(face) - both)


def _area(box: Any) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _keep_picture(page: Browser, name: str) -> None:
    if folder := os.environ.get("BURN_PICTURES"):
        page.picture(Path(folder) / f"{name}.png")
