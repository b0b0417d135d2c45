"""Packages for WebGPU in Node: files, requests to a device (fake_webgpu.mjs), errors by name, and the package for CPUs."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import burn
from burn.cli.compile import main as burn_compile
from burn.deploy import webgpu
from burn.deploy.build import build
from burn.deploy.gpus import find
from burn.deploy.options import Options
from burn.errors import CompileError
from burn.toolchain import platforms
from tests.deploy.making import DIGITS, scores, traced

pytest.importorskip("ziglang")
OPTIONS = Options(platforms.find("wasm32"), gpus=(find("wgpu:webgpu"),))
FAKE = Path(__file__).parent / "fake_webgpu.mjs"
SCRIPTS = ("index.js", "gpu.js", "picture.js", "errors.js")


def placed(x: burn.Tensor, indices: burn.Tensor) -> dict[str, burn.Tensor]:
    """A size that only a call can tell, which the module has to read from the GPU."""
    return {"positive": burn.nonzero(x > 0)[0], "taken": x[indices]}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("webgpu") / "scores"
    build("wasm", traced(scores, x="float32[n, 16]"), folder, OPTIONS)
    return folder


def wide(x: burn.Tensor) -> dict[str, burn.Tensor]:
    """A matmul with a constant of 640,000 bytes."""
    return {"y": x @ burn.tensor(np.sin(np.arange(16 * 10000, dtype=np.float32)).reshape(16, 10000))}


def node(folder: Path, script: str) -> Any:
    """The values that a script passes to `tell`, after it has imported all of a package, `install` and numbers for an input x."""
    if shutil.which("node") is None:
        pytest.skip("node is not here")
    head = f"""
        import * as errors from "{folder / "errors.js"}";
        import * as pictures from "{folder / "picture.js"}";
        import {{ load }} from "{folder / "index.js"}";
        import {{ install }} from "{FAKE}";
        const tell = (x) => console.log(JSON.stringify(x));
        const rows = (n) => ({{ x: Float32Array.from({{ length: 16 * n }}, (_, i) => Math.sin(i)) }});
        const said = (of) => Promise.resolve().then(of).then(() => "", ({{ name, message }}) => `${{name}}: ${{message}}`);
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", head + script], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_files(package: Path) -> None:
    about = json.loads((package / "package.json").read_text())
    assert {*SCRIPTS, "model.wasm", "kernels.wgsl", "weights.safetensors", "cpu"} <= {"index.js", *about["files"]}
    assert all((package / file).exists() for file in about["files"])
    for module in ("model.wasm", "model-software.wasm"):
        assert sum(len(gzip.compress((package / file).read_bytes())) for file in (*SCRIPTS, module)) < 150_000
    types = (package / "index.d.ts").read_text()
    assert '"x": Float32Array | Tensor<Float32Array> | GPUTensor | Picture | PictureSource;' in types
    assert "@INPUTS@" not in types and "@OUTPUTS@" not in types and '"output": Output<Float32Array>;' in types
    named = re.findall(r"export class (\w+)", (package / "errors.js").read_text())
    assert named == re.findall(r"export class (\w+)", types) and len(named) == 7
    (text,) = re.findall(r"const MODEL = (\{.*\});", (package / "index.js").read_text())
    model = json.loads(text)
    for version in (model["gpu"], model["software"]):
        for file, size in (version["module"], version["texts"], *version["weights"]):
            assert (package / file).stat().st_size == size
        kernels = (package / version["texts"][0]).read_text()
        assert sum(size for _, size in version["kernels"]) == len(kernels) == version["texts"][1]
        assert [name for name, _ in version["kernels"]] == re.findall(r"^// burn: (\w+)", kernels, re.MULTILINE)
        assert version["constants"][0][0] == 0 and not version["waits"]
        assert version["constants"][0][2:] == [16 * 32 * 4, "float32[16, 32]"]
    assert not (package / "weights-software.safetensors").exists()


def attended(x: burn.Tensor) -> dict[str, burn.Tensor]:
    """Attention: on GPUs its scale is a part of the weight, as kernels for them attend as a whole."""
    weight = burn.tensor(np.sin(np.arange(16 * 16, dtype=np.float32)).reshape(16, 16))
    q, k, v = ((x @ (weight + each)).reshape(1, 2, -1, 8) for each in range(3))
    return {"y": burn.ops.attention(q, k, v, scale=0.3)}


def test_versions(package: Path) -> None:
    """An adapter that runs on the CPU has its own kernels, unless the page names others."""
    got = node(
        package,
        """
        const seen = [];
        const software = { isFallbackAdapter: true };
        for (const [info, options] of [[{}, {}], [software, {}], [software, { kernels: "gpu" }]]) {
          const devices = install({ info });
          const model = await load(undefined, { fallback: "none", ...options });
          await model.run(rows(3));
          seen.push(devices[0].texts.some((text) => text.includes("var<workgroup>")));
          const { device } = model;
          const other = await load(undefined, { fallback: "none", device });
          await other.run(rows(3));
          seen.push(devices[0].texts.some((text) => text.includes("var<workgroup>")));
        }
        tell({ seen, refused: await said(() => load(undefined, { kernels: "cpu" })) });
        """,
    )
    assert got["seen"] == [True, True, False, False, True, True]
    assert got["refused"] == "TypeError: there are no kernels 'cpu': there are gpu and software"


def test_constants_of_one_version(tmp_path: Path) -> None:
    """Constants that only one version has are read by that one alone; equal ones are stored once."""
    build("wasm", traced(attended, x="float32[n, 16]"), tmp_path / "attended", OPTIONS)
    (text,) = re.findall(r"const MODEL = (\{.*\});", (tmp_path / "attended" / "index.js").read_text())
    model = json.loads(text)
    assert [file for file, _ in model["gpu"]["weights"]] == ["weights.safetensors"]
    both = ["weights.safetensors", "weights-software.safetensors"]
    assert [file for file, _ in model["software"]["weights"]] == both
    assert {file for file, *_ in model["software"]["constants"]} == {0, 1}
    got = node(
        tmp_path / "attended",
        """
        const dims = [];
        for (const kernels of ["gpu", "software"]) {
          install();
          const model = await load(undefined, { fallback: "none", kernels });
          dims.push((await model.run({ x: new Float32Array(48) })).y.dims);
        }
        tell(dims);
        """,
    )
    assert got == [[1, 2, 3, 8]] * 2


def test_without_webgpu(package: Path) -> None:
    """The CPU's package answers, and says why; or an error does."""
    got = node(
        package,
        """
        let why;
        const model = await load(undefined, { announce: (reason) => { why = reason.name; } });
        const { output } = await model.run(rows(3));
        const refused = [
          () => load(undefined, { fallback: "none" }), () => load(undefined, { fallback: "gpu" }),
          () => model.run(rows(3), { outputs: "gpu" }), () => model.run({ y: rows(1).x }), () => model.run({}),
        ];
        tell({ why, backend: model.backend, reason: model.reason.message, dims: output.dims, data: [...output.data],
               refused: await Promise.all(refused.map(said)) });
        """,
    )
    assert (got["why"], got["backend"]) == ("NoAdapterError", "cpu") and "no WebGPU" in got["reason"]
    x = np.sin(np.arange(48, dtype=np.float64)).reshape(3, 16).astype(np.float32)
    z = x.astype(np.float64) @ np.arange(512).reshape(16, 32)
    wanted = np.exp(z - z.max(-1, keepdims=True))
    np.testing.assert_allclose(
        np.reshape(got["data"], (3, 32)), wanted / wanted.sum(-1, keepdims=True), rtol=1e-3, atol=3e-5
    )
    assert [text.partition(":")[0] for text in got["refused"]] == [
        "NoAdapterError", "TypeError", "TypeError", "TypeError", "TypeError",
    ]  # fmt: skip


def test_submissions(package: Path) -> None:
    """A call is one submission, whose input is written to memory that stays, and makes no pipeline, bind group or buffer."""
    got = node(
        package,
        """
        const devices = install(), seen = [];
        const model = await load(undefined, { fallback: "none", compiled: (done, total) => seen.push([done, total]) });
        const [{ counts }] = devices, steps = [], sizes = [3, 3, 3, 3, 1, 0, 40, 3];
        for (const n of sizes) {
          const before = { ...counts };
          const { output } = await model.run(rows(n));
          steps.push([output.dims, output.data.length, ...Object.keys(counts).map((key) => counts[key] - before[key])]);
        }
        const several = await Promise.all([1, 2, 3].map((n) => model.run(rows(n))));
        tell({ seen, steps, kinds: Object.keys(counts), pipelines: counts.pipelines, used: model.usedBytes,
               several: several.map(({ output }) => output.dims), devices: devices.length });
        """,
    )
    assert got["pipelines"] == len(got["seen"]) and got["seen"][-1] == [len(got["seen"])] * 2
    steps = [dict(zip(["dims", "length", *got["kinds"]], step, strict=True)) for step in got["steps"]]
    assert [step["dims"] for step in steps] == [[n, 32] for n in (3, 3, 3, 3, 1, 0, 40, 3)]
    assert all(step["length"] == step["dims"][0] * 32 for step in steps)
    assert steps[3] == {"dims": [3, 32], "length": 96, "submits": 1, "dispatches": steps[0]["dispatches"], "groups": 0,
                        "pipelines": 0, "later": 0, "buffers": 0}  # fmt: skip
    assert [step["submits"] for step in steps[1:4]] == [1, 1, 1] and steps[3]["dispatches"] > 0
    assert got["several"] == [[1, 32], [2, 32], [3, 32]] and got["devices"] == 1
    assert got["used"] < 64 << 10


def test_errors_have_names(package: Path) -> None:
    """Features and limits that an adapter lacks, a lost device, and a lack of memory: `reload` starts again."""
    got = node(
        package,
        """
        const lacking = [
          { gone: true }, { limits: { maxStorageBufferBindingSize: 1024 } }, { limits: { maxComputeInvocationsPerWorkgroup: 8 } },
        ];
        const refused = [];
        for (const adapter of lacking) {
          install(adapter);
          refused.push(await said(() => load(undefined, { fallback: "none" })));
        }
        const devices = install(), model = await load(undefined, { fallback: "none" }), states = [];
        const tries = async () => states.push(await said(() => model.run(rows(2))));
        await tries();
        devices.at(-1).destroy();
        await tries();
        await tries();
        await model.reload();
        await tries();
        devices.at(-1).errors["out-of-memory"] = new GPUOutOfMemoryError("no room");
        await tries();
        await tries();
        await model.reload();
        await tries();
        devices.at(-1).errors.validation = { message: "no such thing" };
        await tries();
        globalThis.document = { visibilityState: "hidden" };
        await model.reload();
        devices.at(-1).destroy();
        await tries();
        model.close();
        await tries();
        const small = await load(undefined, { fallback: "none", memory: 1 << 16 });
        const large = await said(() => small.run(rows(100000)));
        tell({ refused, states, large, then: await said(() => small.run(rows(2))), devices: devices.length });
        """,
    )
    assert got["refused"] == [
        "NoAdapterError: the browser has WebGPU, but no adapter for it",
        "LimitError: the memory of a model needs 65536; the adapter's maxStorageBufferBindingSize is 1024",
        "LimitError: a workgroup of this model's kernels needs 256; the adapter's maxComputeInvocationsPerWorkgroup is 8",
    ]
    lost = "DeviceLostError: the GPU device was lost: it was destroyed; model.reload() starts again"
    full = "OutOfMemoryError: the GPU has no memory left: no room; model.reload() starts again"
    refused = "RefusedError: the browser refuses a command: no such thing; model.reload() starts again"
    assert got["states"] == [
        "", lost, lost, "", full, full, "", refused,
        lost.replace("was lost:", "was lost while the page was hidden:"), "Error: the model has been closed",
    ]  # fmt: skip
    assert got["large"].startswith("OutOfMemoryError: ") and got["then"] == "" and got["devices"] == 5


def test_a_constant_beyond_all_bindings(tmp_path: Path) -> None:
    build("wasm", traced(wide, x="float32[n, 16]"), tmp_path / "wide", OPTIONS)
    got = node(
        tmp_path / "wide",
        """
        install({ limits: { maxStorageBufferBindingSize: 65536 } });
        const refused = await said(() => load(undefined, { fallback: "none" }));
        const devices = install({ limits: { maxStorageBufferBindingSize: 131072 } });
        const model = await load(undefined, { fallback: "none" });
        tell({ refused, dims: (await model.run(rows(2))).y.dims, large: await said(() => model.run(rows(4))),
               least: await said(() => load(undefined, { fallback: "none", memory: 1000 })) });
        """,
    )
    assert got["refused"] == (
        "LimitError: the constant '0', float32[16, 10000], in 7 bindings needs 640000; "
        "the adapter's maxStorageBufferBindingSize is 65536"
    )
    assert got["dims"] == [2, 10000]
    assert got["large"] == "LimitError: output 'y' needs 160000; the adapter's maxStorageBufferBindingSize is 131072"
    assert got["least"] == "RangeError: memory is at least 65536 bytes, not 1000"


def test_features(package: Path, tmp_path: Path) -> None:
    """Extensions of WGSL in the kernels are features of the adapter, which is asked for them."""
    assert webgpu.features(b"// burn: a n\nenable f16, subgroups;\n// enable dual;\n") == ["shader-f16", "subgroups"]
    shutil.copytree(package, tmp_path / "half")
    script = (package / "index.js").read_text()
    assert script.count('"features":[]') == 2
    (tmp_path / "half" / "index.js").write_text(script.replace('"features":[]', '"features":["shader-f16"]'))
    got = node(
        tmp_path / "half",
        """
        install();
        const refused = await said(() => load(undefined, { fallback: "none" }));
        const devices = install({ features: ["shader-f16"] });
        const model = await load(undefined, { fallback: "none" });
        tell({ refused, backend: model.backend, features: [...devices[0].features] });
        """,
    )
    assert got["refused"] == "MissingFeatureError: the adapter has no 'shader-f16', which this model's kernels use"
    assert (got["backend"], got["features"]) == ("webgpu", ["shader-f16"])


def test_a_model_that_waits(tmp_path: Path) -> None:
    """It needs a browser that suspends WebAssembly, and is not started in others."""
    build("wasm", traced(placed, x="float32[n]", indices="int64[m]"), tmp_path / "placed", OPTIONS)
    got = node(
        tmp_path / "placed",
        """
        delete WebAssembly.Suspending;
        install();
        const x = new Float32Array([1, -1, 3]), indices = new BigInt64Array([2n]);
        const model = await load(undefined, { announce: () => {} });
        const { positive, taken } = await model.run({ x, indices });
        tell({ refused: await said(() => load(undefined, { fallback: "none" })), feature: model.reason.feature,
               positive: [...positive.data].map(Number), taken: [...taken.data] });
        """,
    )
    assert got["refused"].startswith("MissingFeatureError: the browser lacks JavaScript Promise Integration (JSPI)")
    assert (got["feature"], got["positive"], got["taken"]) == ("JSPI", [0, 2], [3])


@pytest.mark.parametrize("fit", ["stretch", "contain", "cover"])
@pytest.mark.parametrize(("width", "height"), [(6, 4), (1, 1), (31, 17)])
def test_pictures(package: Path, fit: str, width: int, height: int) -> None:
    """On the CPU: means of the covered pixels, against the same in float64."""
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 4)).astype(np.uint8)
    mean, std, pad = [0.1, 0.2, 0.3], [0.5, 0.6, 0.7], 9.0
    got = node(
        package,
        f"""
        globalThis.ImageData = class {{ constructor(data, width, height) {{ Object.assign(this, {{ data, width, height }}); }} }};
        const image = new ImageData(new Uint8ClampedArray({pixels.ravel().tolist()}), {width}, {height});
        const given = {{ image, fit: "{fit}", mean: {mean}, std: {std}, pad: {pad} }};
        const dims = [1, 3, 5, 7], picture = pictures.pictureOf(given);
        const plan = pictures.planOf({{ name: "x", dtype: "float32", dims, type: "float32[1, 3, 5, 7]" }}, picture);
        const dtype = "float32", several = [2, 3, 5, 7], odd = [1, 4, 5, 7];
        const wrong = [{{ dtype, dims: odd }}, {{ dtype: "uint8", dims }}, {{ dtype, dims: several }}];
        const refused = wrong.map((spec) => said(() => pictures.planOf({{ name: "x", ...spec }}, picture)));
        tell({{ made: [...pictures.elements(image.data, picture, plan)], dims: plan.dims, wrong: await Promise.all(refused) }});
        """,
    )
    wanted = resampled(pixels[..., :3] / 255, fit)
    wanted = np.where(np.isnan(wanted), pad, (wanted - mean) / std).transpose(2, 0, 1)
    np.testing.assert_allclose(np.reshape(got["made"], (3, 5, 7)), wanted, atol=1e-5)
    assert got["dims"] == [1, 3, 5, 7] and all(text.startswith("TypeError: input 'x' is") for text in got["wrong"])


def resampled(pixels: np.ndarray, fit: str) -> np.ndarray:
    """float64[5, 7, 3] of pixels [h, w, 3]; NaN beside them. As two matrices, whose rows are integrals of a box over pixels."""
    height, width, _ = pixels.shape
    scales = (7 / width, 5 / height)
    scale = {"stretch": scales, "contain": (min(scales),) * 2, "cover": (max(scales),) * 2}[fit]

    def matrix(count: int, size: int, scale: float) -> np.ndarray:
        made = np.zeros((count, size))
        start, half = (count - size * scale) / 2, max(1 / scale, 1) / 2
        for row in range(count):
            centre = (row + 0.5 - start) / scale
            if not 0 <= centre <= size:
                made[row] = np.nan
                continue
            for pixel in range(-2 - int(half), size + 2 + int(half)):
                covered = min(pixel + 1, centre + half) - max(pixel, centre - half)
                made[row, min(max(pixel, 0), size - 1)] += max(covered, 0) / (2 * half)
        return made

    return np.einsum("yh,xw,hwc->yxc", matrix(5, height, scale[1]), matrix(7, width, scale[0]), pixels)


def test_refusals(tmp_path: Path) -> None:
    model, output = str(DIGITS), str(tmp_path / "made")
    for words, message in (
        (["--target", "wgpu:webgpu", "--emit", "shared"], "wgpu:webgpu is a target for packages with WebAssembly"),
        (["--target", "wgpu:webgpu"], "wgpu:webgpu is a target for packages with WebAssembly"),
        (["--target", "cuda:sm_90", "--emit", "wasm"], "cuda:sm_90 is a target for commands, libraries and packages"),
    ):
        told = CliRunner().invoke(burn_compile, [model, "-o", output, *words])
        assert told.exit_code and message in told.output, told.output
    with pytest.raises(CompileError, match="there are no modules of WebAssembly for cuda:sm_90"):
        build(
            "wasm",
            traced(scores, x="float32[n, 16]"),
            tmp_path / "made",
            Options(platforms.find("wasm32"), gpus=(find("cuda:sm_90"),)),
        )
    assert not (tmp_path / "made").exists()
