"""Models as modules of WebAssembly: the package, in Node."""

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

import burn
import burn.compiler
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.errors import CompileError
from burn.nn import Conv2d
from burn.runtime.abi import MESSAGES
from burn.toolchain import platforms
from tests.deploy.making import DIGITS, digits, traced

pytest.importorskip("ziglang")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wasm") / "digits"
    build("wasm", digits(), folder, Options(platforms.find("wasm32")))
    return folder


def node(folder: Path, script: str) -> Any:
    """The values that a script passes to `tell`, after it has imported `load` from the package."""
    if shutil.which("node") is None:
        pytest.skip("node is not here")
    head = f'import {{ load }} from "{folder / "index.js"}";\nconst tell = (x) => console.log(JSON.stringify(x));\n'
    told = ["node", "--input-type=module", "-e", head + script]
    done = subprocess.run(told, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_package(package: Path) -> None:
    assert sorted(path.name for path in package.iterdir()) == [
        "index.d.ts", "index.js", "model.wasm", "package.json", "weights.safetensors",
    ]  # fmt: skip
    about = json.loads((package / "package.json").read_text())
    assert (about["name"], about["type"], about["main"], about["types"]) == (
        "digits",
        "module",
        "index.js",
        "index.d.ts",
    )
    types = (package / "index.d.ts").read_text()
    assert '"image": Float32Array | Tensor<Float32Array>;' in types and '"logits": Tensor<Float32Array>;' in types
    assert len(gzip.compress((package / "model.wasm").read_bytes())) < 100_000


def test_numbers(package: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 1, 8, 8)).astype(np.float32)
    got = node(
        package,
        f"""
        let seen = [];
        const model = await load(undefined, {{ progress: (loaded, total) => seen.push([loaded, total]) }});
        const image = new Float32Array({x.ravel().tolist()});
        const all = model.run({{ image }}).logits;
        const one = model.run({{ image: {{ data: image.subarray(0, 64), dims: [1, 1, 8, 8] }} }}).logits;
        tell({{ dims: all.dims, data: [...all.data], one: [...one.data], last: seen.at(-1), inputs: model.inputs }});
        """,
    )
    want = burn.load(DIGITS)(x)
    assert got["dims"] == [3, 10]
    np.testing.assert_allclose(np.reshape(got["data"], (3, 10)), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got["one"], got["data"][:10])
    size = sum((package / name).stat().st_size for name in ("model.wasm", "weights.safetensors"))
    assert got["last"] == [size, size]
    assert got["inputs"][0]["dims"] == ["batch", 1, 8, 8]


def test_what_is_wrong(package: Path) -> None:
    said = node(
        package,
        """
        const model = await load(), image = new Float32Array(64);
        const wrong = [{}, { image: new Float64Array(64) }, { image: new Float32Array(65) }, { picture: image },
                       { image: { data: image, dims: [64] } }, { image: { data: image, dims: [-1, 1, 8, -8] } }];
        tell(wrong.map((inputs) => { try { model.run(inputs); return "" } catch (error) { return error.message } }));
        """,
    )
    assert [re.sub(r"\[.*?\]", "[]", text) for text in said] == [
        "input 'image' is missing: it is float32[]",
        "input 'image' is no Float32Array, which float32[] takes",
        "input 'image' has 65 elements, which are not float32[]",
        "there is no input 'picture': there are image",
        "input 'image' does not fit: it is float32[]",
        "input 'image' has 64 elements, which are not float32[]",
    ]


def test_every_failure_has_its_text(package: Path) -> None:
    described = json.loads(re.search(r"^const MODEL = (.*);$", (package / "index.js").read_text(), re.M)[1])  # type: ignore[index]
    assert described["messages"] == {str(int(status)): text for status, text in MESSAGES.items()}


def test_convolutions_at_points(tmp_path: Path) -> None:
    """Eight channels are enough for vectors of four floats; tiles hang over, and there may be no image."""
    layer = Conv2d(8, 16, 3, padding=1, bias=False)
    weight = np.random.default_rng(8).standard_normal((16, 8, 3, 3), np.float32)
    layer.weight.assign(weight)
    for name, exact in (("usual", False), ("exact", True)):
        program = traced(lambda x: {"y": burn.relu(layer(x))}, x="float32[n, 8, 13, 11]")
        build("wasm", program, tmp_path / name, Options(platforms.find("wasm32"), exact=exact))
    sizes = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("usual", "exact")]
    assert sizes[0] - sizes[1] > 4 * (36 - 9) * 8 * 16 - 128, (
        "the filter is there at 36 points, or nothing is shown here"
    )
    for images in (0, 1, 3):
        x = np.random.default_rng(images).standard_normal((images, 8, 13, 11)).astype(np.float32)
        got = node(
            tmp_path / "usual",
            f"""
            const model = await load(), data = new Float32Array({x.ravel().tolist()});
            const {{ y }} = model.run({{ x: {{ data, dims: {list(x.shape)} }} }});
            tell({{ dims: y.dims, data: [...y.data] }});
            """,
        )
        padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (1, 1), (1, 1)))
        under = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        want = np.maximum(np.einsum("nchwij,ocij->nohw", under, weight.astype("f8")), 0)
        assert got["dims"] == list(want.shape)
        np.testing.assert_allclose(np.reshape(got["data"], want.shape), want, rtol=1e-5, atol=1e-5 * 8)


def drawn(x: burn.Tensor, indices: burn.Tensor) -> dict[str, burn.Tensor]:
    """Other types, a library call, a size that only a run can tell, and a place that may be wrong."""
    return {"sorted": burn.sort(x, -1), "positive": burn.nonzero(x > 0)[0], "taken": x.astype("float16")[indices]}


@pytest.mark.slow
def test_other_types_and_failures(tmp_path: Path) -> None:
    program = traced(drawn, x="float32[n, 3]", indices="int64[m]")
    here = burn.compiler.executable(traced(drawn, x="float32[n, 3]", indices="int64[m]"))
    build("wasm", program, tmp_path / "drawn", Options(platforms.find("wasm32")))
    x = np.random.default_rng(2).standard_normal((5, 3)).astype(np.float32)
    got = node(
        tmp_path / "drawn",
        f"""
        const model = await load(), x = new Float32Array({x.ravel().tolist()});
        const told = model.run({{ x, indices: new BigInt64Array([2n, -1n]) }});
        let failed;
        try {{ model.run({{ x, indices: new BigInt64Array([9n]) }}) }} catch (error) {{ failed = error.message }}
        tell({{ sorted: [...told.sorted.data], positive: [...told.positive.data].map(Number), failed,
               taken: [...told.taken.data], again: model.run({{ x, indices: new BigInt64Array() }}).taken.dims }});
        """,
    )
    want = here.run({"x": x, "indices": np.array([2, -1])})
    np.testing.assert_array_equal(np.array(got["sorted"], np.float32), want["sorted"].ravel())
    np.testing.assert_array_equal(got["positive"], want["positive"].ravel())
    np.testing.assert_array_equal(np.array(got["taken"], np.uint16), want["taken"].view(np.uint16).ravel())
    assert "index 9 is out of range" in got["failed"]
    assert got["again"] == [0, 3]


def test_comparisons_of_float16(tmp_path: Path) -> None:
    """LLVM's WebAssembly back end crashes on a comparison of float16 vectors, or does not end."""

    def compared(x: burn.Tensor, y: burn.Tensor) -> dict[str, burn.Tensor]:
        return {"positive": burn.relu(x), "equal": x == y, "largest": burn.maximum(x, y)}

    types = {"x": "float16[3, 8]", "y": "float16[1, 8]"}
    build("wasm", traced(compared, **types), tmp_path / "halves", Options(platforms.find("wasm32")))
    x = np.array(
        [[1, -1, 0, -0.0, np.inf, -np.inf, 6e-8, 65504], [1, 2, 3, 4, 5, 6, 7, 8], [-2, 0.1, 0, 0, 1, 1, -6e-8, 1]],
        "f2",
    )
    y = np.array([[1, -1, -0.0, 0, np.inf, 1, 6e-8, -65504]], "f2")
    got = node(
        tmp_path / "halves",
        f"""
        const model = await load();
        const x = new Uint16Array({x.view(np.uint16).ravel().tolist()});
        const y = new Uint16Array({y.view(np.uint16).ravel().tolist()});
        const made = model.run({{ x, y }});
        tell({{ positive: [...made.positive.data], equal: [...made.equal.data], largest: [...made.largest.data] }});
        """,
    )
    want = {"positive": np.maximum(x, np.float16(0)), "equal": x == y, "largest": np.maximum(x, y)}
    np.testing.assert_array_equal(np.array(got["equal"], bool), want["equal"].ravel())
    for name in ("positive", "largest"):
        np.testing.assert_array_equal(np.array(got[name], np.uint16).view("f2"), want[name].ravel())


def test_modules_are_for_webassembly(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="there are no modules of WebAssembly for"):
        build("wasm", digits(), tmp_path / "digits", Options(platforms.find("aarch64-linux")))
    with pytest.raises(CompileError, match="there are no executables on wasm32"):
        build("exe", digits(), tmp_path / "digits", Options(platforms.find("wasm32")))
