"""Packages for WebGPU in headless Chromium, on SwiftShader: the CPU's numbers, tensors and pictures, lost devices, pages."""

from __future__ import annotations

import os
import runpy
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.deploy.build import build
from burn.dialect.program import Program
from burn.loading import read_program
from burn.runtime.dtypes import numpy_dtype
from tests.deploy.browser import Browser, browser, served
from tests.deploy.making import DIGITS, scores, traced
from tests.deploy.test_web import PAGE, STROKES
from tests.deploy.test_webgpu_package import OPTIONS, wide
from tests.models import MODELS, Unavailable, model_path, random_inputs

pytest.importorskip("ziglang")

_HAS_ADAPTER = "navigator.gpu?.requestAdapter().then((adapter) => Boolean(adapter))"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Path]]:
    """An empty page, and the folder of its server."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "index.html").write_text("<!doctype html><title>test</title>")
    with browser(gpu=True) as opened, served(folder) as address:
        opened.visit(address)
        if not opened.awaits(f"return {_HAS_ADAPTER}"):
            pytest.skip("Chromium has no adapter of WebGPU here")
        yield opened, folder


def loaded(page: tuple[Browser, Path], program: Program, name: str, kernels: str = "software") -> Browser:
    """Loads a program's package as the page's `model`. kernels: for adapters of this kind."""
    opened, folder = page
    build("wasm", program, folder / name, OPTIONS)
    opened.awaits(
        f"""const {{ load }} = await import("/{name}/index.js");
        window.model?.close();
        window.model = await load(undefined, {{ fallback: "none", kernels: given[0] }});""",
        kernels,
        seconds=600,
    )
    return opened


def ran(page: Browser, feeds: dict[str, np.ndarray], calls: int = 1, seconds: int = 600) -> list[dict[str, np.ndarray]]:
    """The outputs of calls of the page's model."""
    given = {name: [str(array.dtype), list(array.shape), array.ravel().tolist()] for name, array in feeds.items()}
    told = page.awaits(
        """
        const [feeds, calls] = given;
        const values = (t, v) => t === "int64" ? BigInt64Array.from(v, BigInt) : new Float32Array(v);
        const each = (of, entry) => Object.fromEntries(Object.entries(of).map(([name, value]) => [name, entry(value)]));
        const inputs = each(feeds, ([t, dims, v]) => ({ data: values(t, v), dims })), made = [];
        for (let i = 0; i < calls; i++)
          made.push(each(await model.run(inputs), ({ data, dims }) => [dims, Array.from(data, (v) => Number(v))]));
        return [made, Object.fromEntries(model.outputs.map(({ name, dtype }) => [name, dtype]))];
        """,
        given,
        calls,
        seconds=seconds,
    )
    made, dtypes = told
    return [
        {name: np.array(data, numpy_dtype(dtypes[name])).reshape(dims) for name, (dims, data) in outputs.items()}
        for outputs in made
    ]


@pytest.mark.parametrize("kernels", ["software", pytest.param("gpu", marks=pytest.mark.slow)])
def test_tensors_in_and_out(page: tuple[Browser, Path], kernels: str) -> None:
    """Of sizes 0, 1 and more, several times; a buffer of the caller's in, one out; memory in many parts; a lost device."""
    opened = loaded(page, traced(scores, x="float32[n, 16]"), "scores", kernels)
    weight = np.arange(16 * 32, dtype=np.float64).reshape(16, 32)
    for n in (1, 0, 7, 33):
        x = np.random.default_rng(n).standard_normal((n, 16)).astype(np.float32)
        z = x.astype(np.float64) @ weight
        wanted = np.exp(z - z.max(-1, keepdims=True, initial=-np.inf))
        for outputs in ran(opened, {"x": x}, calls=3):
            np.testing.assert_allclose(outputs["output"], wanted / wanted.sum(-1, keepdims=True), rtol=5e-3, atol=1e-4)
    got = opened.awaits(
        """
        const { load } = await import("/scores/index.js");
        const x = new Float32Array(16 * 400).map((_, i) => Math.sin(i)), { device } = model;
        const wanted = (await model.run({ x })).output.data;
        const away = (data) => Math.max(...wanted.map((v, i) => Math.abs(v - data[i])));
        const buffer = device.createBuffer({ size: x.byteLength + 64, usage: 4 | 8 });
        device.queue.writeBuffer(buffer, 64, x);
        const { output } = await model.run({ x: { buffer, dims: [400, 16], offset: 64 } }, { outputs: "gpu" });
        const into = device.createBuffer({ size: output.bytes, usage: 1 | 8 });
        await model.run({ x }, { outputs: { output: into } });
        await into.mapAsync(1);
        const given = away(new Float32Array(into.getMappedRange()));
        const again = device.createBuffer({ size: output.bytes, usage: 1 | 8 }), encoder = device.createCommandEncoder();
        encoder.copyBufferToBuffer(output.buffer, 0, again, 0, output.bytes);
        device.queue.submit([encoder.finish()]);
        await again.mapAsync(1);
        const kept = away(new Float32Array(again.getMappedRange()));
        const running = model.run({ x });
        device.destroy();
        const lost = await running.then(() => "", (error) => error.name);
        await model.reload();
        return { given, kept, lost, after: away((await model.run({ x })).output.data) };
        """
    )
    assert got == {"given": 0, "kept": 0, "lost": "DeviceLostError", "after": 0}


@pytest.mark.slow
def test_memory_in_several_parts(page: tuple[Browser, Path]) -> None:
    """A heap whose bindings are small."""
    opened = loaded(page, traced(scores, x="float32[n, 16]"), "parts", "gpu")
    errors, used = opened.awaits(
        """
        const { load } = await import("/parts/index.js"), x = new Float32Array(16 * 400).map((_, i) => Math.sin(i)), errors = [];
        const limits = { maxStorageBufferBindingSize: 65536 }, wanted = (await model.run({ x })).output.data;
        const many = await load(undefined, { fallback: "none", kernels: "gpu", limits });
        for (let i = 0; i < 3; i++) {
          const { output } = await many.run({ x });
          errors.push(Math.max(...wanted.map((v, at) => Math.abs(v - output.data[at]))));
        }
        return [errors, many.usedBytes];
        """,
        seconds=300,
    )
    assert errors == [0, 0, 0] and used > 32 << 10


@pytest.mark.slow
def test_a_constant_in_several_bindings(page: tuple[Browser, Path]) -> None:
    opened = loaded(page, traced(wide, x="float32[n, 16]"), "wide", "gpu")
    errors = opened.awaits(
        """
        const { load } = await import("/wide/index.js"), x = new Float32Array(32).map((_, i) => Math.cos(i)), errors = [];
        const limits = { maxStorageBufferBindingSize: 524288, maxStorageBuffersPerShaderStage: 3 };
        const many = await load(undefined, { fallback: "none", kernels: "gpu", limits });
        const wanted = (await model.run({ x })).y.data;
        for (let i = 0; i < 3; i++) {
          const { y } = await many.run({ x });
          errors.push(Math.max(...wanted.map((v, at) => Math.abs(v - y.data[at]))));
        }
        return [errors, Math.max(...wanted)];
        """,
        seconds=300,
    )
    assert errors[0] == [0, 0, 0] and errors[1] > 0.5


@pytest.mark.slow
def test_a_hidden_page(page: tuple[Browser, Path]) -> None:
    """Calls go on while another tab is in front."""
    opened = loaded(page, traced(scores, x="float32[n, 16]"), "hidden")
    opened.run(
        """window.calls = []; window.going = (async () => {
          while (window.calls.length < 400 && !window.stopped) {
            await model.run({ x: new Float32Array(16) });
            window.calls.push(document.visibilityState);
          }
        })();"""
    )
    handle = opened.hide()
    try:
        time.sleep(3)
    finally:
        opened.show(handle)
    calls = opened.awaits("window.stopped = true; await window.going; return window.calls")
    assert calls.count("hidden") > 3


def drawn(x: burn.Tensor, indices: burn.Tensor) -> dict[str, burn.Tensor]:
    """A library op on the CPU, a size that only a call can tell, and an index that may be wrong."""
    return {"sorted": burn.sort(x, -1), "positive": burn.nonzero(x > 0)[0], "taken": x[indices]}


@pytest.mark.slow
def test_waits_and_failures(page: tuple[Browser, Path]) -> None:
    opened = loaded(page, traced(drawn, x="float32[n, 3]", indices="int64[m]"), "drawn")
    rng = np.random.default_rng(3)
    for n in (1, 5, 64):
        x, indices = rng.standard_normal((n, 3)).astype(np.float32), rng.integers(-n, n, 4)
        for outputs in ran(opened, {"x": x, "indices": indices}, calls=3):
            np.testing.assert_array_equal(outputs["sorted"], np.sort(x, -1))
            np.testing.assert_array_equal(outputs["positive"], np.nonzero(x > 0)[0])
            np.testing.assert_array_equal(outputs["taken"], x[indices])
        with pytest.raises(RuntimeError, match=f"index {n} is out of range"):
            ran(opened, {"x": x, "indices": np.array([n])})


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["1, 3, 5, 7", "1, h, w, 3"])
def test_pictures(page: tuple[Browser, Path], dims: str) -> None:
    """ImageData, ImageBitmap, a canvas and a VideoFrame give the elements of picture.js on the CPU."""
    name = "planes" if dims[3] == "3" else "rows"
    opened = loaded(page, traced(lambda x: {"y": x * 2.0}, x=f"float32[{dims}]"), name)
    pixels = np.random.default_rng(0).integers(0, 256, (9, 16, 4)).astype(np.uint8)
    pixels[..., 3] = 255
    for number, fit in enumerate(("stretch", "contain", "cover")):
        errors = opened.awaits(
            f"""
            const {{ elements, pictureOf, planOf }} = await import("/{name}/picture.js"), [pixels, fit, order] = given;
            const data = new ImageData(new Uint8ClampedArray(pixels), 16, 9), bitmap = await createImageBitmap(data);
            const canvas = new OffscreenCanvas(16, 9);
            canvas.getContext("2d").putImageData(data, 0, 0);
            const about = {{ fit, order, mean: [0.1, 0.2, 0.3], std: [0.5, 0.6, 0.7], pad: 9 }};
            const picture = pictureOf({{ image: data, ...about }}), plan = planOf(model.inputs[0], picture);
            const wanted = elements(pixels, picture, plan);
            const errors = [];
            for (const image of [data, bitmap, canvas, new VideoFrame(bitmap, {{ timestamp: 0 }})]) {{
              const {{ y }} = await model.run({{ x: {{ image, ...about }} }});
              errors.push(y.data.length === wanted.length ? Math.max(...y.data.map((v, i) => Math.abs(v / 2 - wanted[i]))) : 1e9);
            }}
            return errors;
            """,
            pixels.ravel().tolist(),
            fit,
            ("rgb", "bgr", "rgb")[number],
        )
        assert max(errors) < 1e-5, (fit, errors)


@pytest.mark.slow
def test_colour_spaces_and_alpha(page: tuple[Browser, Path]) -> None:
    """Pictures in Display P3 and with transparent pixels: the same on the GPU as on the CPU, in sRGB."""
    opened = loaded(page, traced(lambda x: {"y": x * 2.0}, x="float32[1, 9, 16, 3]"), "spaces")
    errors, moved = opened.awaits(
        """
        const { elements, pictureOf, pixelsOf, planOf } = await import("/spaces/picture.js");
        const made = (settings, alpha) => {
          const data = new ImageData(16, 9, settings);
          for (let i = 0; i < data.data.length; i++) data.data[i] = i % 4 === 3 ? alpha : (i * 37) % 256;
          return data;
        };
        const wide = made({ colorSpace: "display-p3" }, 255), plain = made({}, 255), clear = made({}, 100), errors = [];
        const onCPU = (image) => {
          const picture = pictureOf(image);
          return elements(pixelsOf(picture), picture, planOf(model.inputs[0], picture));
        };
        for (const image of [wide, plain, clear, await createImageBitmap(clear), await createImageBitmap(wide)]) {
          const wanted = onCPU(image), { y } = await model.run({ x: image });
          errors.push(Math.max(...y.data.map((v, i) => Math.abs(v / 2 - wanted[i]))));
        }
        const other = onCPU(plain);
        return [errors, Math.max(...onCPU(wide).map((v, i) => Math.abs(v - other[i])))];
        """
    )
    assert max(errors) < 3 / 255 and moved > 5 / 255, (errors, moved)


MODEL_SIZES: dict[str, list[dict[str, int]]] = {
    "mobilenet": [{"batch": 1}],
    "minilm": [{"batch": 1, "seq": 9}, {"batch": 2, "seq": 17}],
    "ultraface": [{}],
}


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["software", "gpu"])
@pytest.mark.parametrize("name", MODEL_SIZES)
def test_models(page: tuple[Browser, Path], name: str, kernels: str) -> None:
    """At most 2e-5 of each output's largest value from the CPU's numbers."""
    try:
        path = model_path(name)
    except Unavailable as reason:
        pytest.skip(str(reason))
    opened = loaded(page, read_program(path), name, kernels)
    here = burn.load(path)
    for seed, sizes in enumerate(MODEL_SIZES[name]):
        feeds = {k: np.asarray(v) for k, v in random_inputs(MODELS[name], seed=seed, **sizes).items()}
        wanted = here.run(feeds)
        for outputs in ran(opened, feeds, calls=3):
            for output, array in wanted.items():
                np.testing.assert_allclose(outputs[output], array, rtol=0, atol=2e-5 * max(1.0, np.abs(array).max()))


# ---- pages -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """examples/web without its packages."""
    folder = tmp_path_factory.mktemp("pages") / "web"
    shutil.copytree(PAGE, folder, ignore=shutil.ignore_patterns("model", "ultraface", "segmenter", "trainer"))
    return folder


_SAID = "!document.getElementById('state').textContent.startsWith('loading')"


def _state(page: Browser) -> str:
    return page.run("return document.getElementById('state').textContent")


@pytest.mark.slow
def test_drawn_digits(pages: Path) -> None:
    build("wasm", read_program(DIGITS, {"batch": 1}), pages / "model", OPTIONS)
    with browser(gpu=True) as page, served(pages) as address:
        page.visit(address)
        page.waits_for(_SAID, 120)
        assert _state(page) == "ready, on the GPU"
        for digit in (1, 7):
            page.click("#clear")
            page.draw("#board", STROKES[digit])
            page.waits_for(f"document.getElementById('digit').value === '{digit}'", 60)
            _keep_picture(page, f"webgpu-digit-{digit}")


@pytest.mark.slow
def test_faces(pages: Path, tmp_path: Path) -> None:
    pictures = pytest.importorskip("skimage.data")
    image = pytest.importorskip("PIL.Image")
    try:
        model = model_path("ultraface")
    except Unavailable as reason:
        pytest.skip(str(reason))
    build("wasm", read_program(model), pages / "ultraface", OPTIONS)
    image.fromarray(pictures.astronaut()).save(tmp_path / "one.png")
    with browser(gpu=True) as page, served(pages) as address:
        page.visit(f"{address}/faces.html")
        page.waits_for(_SAID, 300)
        assert _state(page) == "ready, on the GPU: choose a picture"
        page.run("document.getElementById('state').textContent = 'loading'")
        page.pick("#file", tmp_path / "one.png")
        page.waits_for(_SAID, 120)
        assert _state(page).startswith("one face, ")
        _keep_picture(page, "webgpu-face")


@pytest.mark.slow
@pytest.mark.parametrize("source", ["camera", "file"])
def test_a_person_in_a_video(pages: Path, tmp_path: Path, source: str) -> None:
    """Frames of the camera, and of a file that the page has recorded: the person is in colours, the background in grey."""
    scenes: Any = runpy.run_path(str(PAGE / "segment.py"))
    images, masks = scenes["frames"](90)
    build("wasm", read_program(PAGE / "segment.onnx"), pages / "segmenter", OPTIONS)
    scenes["write_video"](tmp_path / "scene.y4m", images)
    with browser(gpu=True, camera=tmp_path / "scene.y4m") as page, served(pages) as address:
        page.visit(f"{address}/segment.html")
        page.waits_for(_SAID, 120)
        assert _state(page) == "ready, on the GPU"
        if source == "camera":
            page.click("#camera")
        else:
            page.awaits(_RECORD, seconds=60)
        page.waits_for("document.getElementById('view').dataset.frames >= 4", 180)
        page.waits_for("document.getElementById('rate').value.endsWith('frames a second')", 60)
        _keep_picture(page, f"webgpu-person-{source}")
        assert float(page.run("return document.getElementById('rate').value").split()[0]) > 0
        share = page.run(
            """const view = document.getElementById('view'), pen = view.getContext('2d');
            const { data } = pen.getImageData(0, 0, view.width, view.height);
            let coloured = 0;
            for (let at = 0; at < data.length; at += 4)
              coloured += Math.max(...data.subarray(at, at + 3)) - Math.min(...data.subarray(at, at + 3)) > 24;
            return coloured / (data.length / 4);"""
        )
        person = float(masks.mean())
        assert 0.6 * person < share < 1.5 * person, (share, person)
        assert _state(page) == "ready, on the GPU"


_RECORD = """
const stream = await navigator.mediaDevices.getUserMedia({ video: true });
const recorder = new MediaRecorder(stream, { mimeType: "video/webm" }), parts = [];
recorder.ondataavailable = ({ data }) => parts.push(data);
const stopped = new Promise((resolve) => { recorder.onstop = resolve; });
recorder.start();
setTimeout(() => recorder.stop(), 2000);
await stopped;
const files = new DataTransfer(), input = document.getElementById("file");
files.items.add(new File(parts, "scene.webm", { type: "video/webm" }));
input.files = files.files;
input.dispatchEvent(new Event("change"));
"""
"""Records the camera, and chooses the file."""


def _keep_picture(page: Browser, name: str) -> None:
    if folder := os.environ.get("BURN_PICTURES"):
        page.picture(Path(folder) / f"{name}.png")
