"""Modules of WebAssembly with threads: in Node and in a browser they give the numbers of one thread."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import burn
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.toolchain import platforms
from tests.deploy.browser import browser, served
from tests.deploy.making import DIGITS, digits, traced
from tests.deploy.test_wasm import node

pytest.importorskip("ziglang")
THREADS = Options(platforms.find("wasm32-threads"))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("threads") / "digits"
    build("wasm", digits(), folder, THREADS)
    return folder


IMAGES = "const images = (n) => ({ data: Float32Array.from({ length: n * 64 }, (_, i) => (i * 7) % 17), dims: [n, 1, 8, 8] });"
BITS = "const bits = ({ logits }) => [...new Uint32Array(logits.data.buffer)].join();"


def test_the_package(package: Path) -> None:
    about = json.loads((package / "package.json").read_text())
    assert {"model.wasm", "model-threads.wasm", "worker.js"} <= set(about["files"])
    assert all((package / file).is_file() for file in about["files"])
    types = (package / "index.d.ts").read_text()
    assert "threads?: number;" in types and "close(): void;" in types


def test_the_bits_of_one_thread(package: Path) -> None:
    """Of many calls of several sizes; by several models at once; and the program ends though its threads have not."""
    got = node(
        package,
        f"""
        {IMAGES} {BITS}
        const sizes = [1, 40, 0, 300, 7, 64, 300];
        const one = await load(undefined, {{ threads: 1 }});
        const wanted = sizes.map((n) => bits(one.run({{ image: images(n) }})));
        const some = await Promise.all([3, 2, 5].map((threads) => load(undefined, {{ threads }})));
        let wrong = 0;
        for (let turn = 0; turn < 10; turn++)
          for (const model of some)
            sizes.forEach((n, i) => {{ wrong += bits(model.run({{ image: images(n) }})) !== wanted[i]; }});
        const usual = await load();
        tell({{ wrong, threads: [one, ...some].map((m) => m.threads), usual: usual.threads,
               first: wanted[0].split(",").map(Number) }});
        """,
    )
    assert got["wrong"] == 0
    assert got["threads"] == [1, 3, 2, 5]
    assert 1 <= got["usual"] <= 16
    x = (np.arange(64) * 7 % 17).astype(np.float32).reshape(1, 1, 8, 8)
    first = np.array(got["first"], np.uint32).view(np.float32)
    np.testing.assert_allclose(first, burn.load(DIGITS)(x)[0], rtol=1e-5, atol=1e-5)


def test_where_memory_cannot_be_shared(package: Path) -> None:
    got = node(
        package,
        f"""
        {IMAGES} {BITS}
        globalThis.crossOriginIsolated = false; // as a page says that is not isolated
        const alone = await load(undefined, {{ threads: 4 }});
        delete globalThis.crossOriginIsolated;
        const Memory = WebAssembly.Memory; // a system with little room for addresses
        WebAssembly.Memory = function (wanted) {{
          if (wanted.maximum > 4096) throw new RangeError("could not allocate memory");
          return new Memory(wanted);
        }};
        const small = await load(undefined, {{ threads: 2 }});
        const failed = async (threads) => {{ try {{ await load(undefined, {{ threads }}); }} catch (e) {{ return e.message; }} }};
        const wrong = [await failed(0), await failed(1.5)];
        small.close();
        let closed;
        try {{ small.run({{ image: images(1) }}); }} catch (error) {{ closed = error.message; }}
        const some = bits(alone.run({{ image: images(3) }})).length > 0;
        tell({{ alone: alone.threads, small: small.threads, wrong, closed, some }});
        """,
    )
    assert got == {
        "alone": 1,
        "small": 2,
        "wrong": ["0 is no number of threads", "1.5 is no number of threads"],
        "closed": "the model has been closed",
        "some": True,
    }


def taken(x: burn.Tensor, indices: burn.Tensor) -> burn.Tensor:
    return burn.exp(x)[indices].sum(-1)


def test_failures_in_a_thread(tmp_path: Path) -> None:
    """The thread that finds an index out of range reports it; and the next call is right."""
    build("wasm", traced(taken, x="float32[n, 64]", indices="int64[m]"), tmp_path / "taken", THREADS)
    got = node(
        tmp_path / "taken",
        """
        const model = await load(undefined, { threads: 3 }), m = 40000;
        const x = new Float32Array(5 * 64), indices = BigInt64Array.from({ length: m }, (_, i) => BigInt(i % 5));
        const failed = [];
        for (const wrong of [0, m - 1, 17000]) {
          const spoiled = indices.slice();
          spoiled[wrong] = 5n;
          try { model.run({ x, indices: spoiled }); } catch (error) { failed.push(error.message); }
          const { data } = Object.values(model.run({ x, indices }))[0];
          failed.push(data.length === m && data.every((sum) => sum === 64));
        }
        tell(failed);
        """,
    )
    assert got[1::2] == [True] * 3
    assert all("index 5 is out of range" in text for text in got[::2])


def test_a_thread_that_cannot_start(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / "digits")
    (tmp_path / "digits" / "worker.js").unlink()
    got = node(
        tmp_path / "digits",
        "let failed; try { await load(undefined, { threads: 2 }); } catch (error) { failed = error.message; } tell(failed);",
    )
    assert "worker.js" in got


PAGE = """<!doctype html><script type="module">
import { load } from "./digits/index.js";
const model = await load(undefined, { threads: 3 });
const { logits } = model.run({ image: Float32Array.from({ length: 64 * 300 }, (_, i) => (i * 7) % 17) });
window.told = { threads: model.threads, isolated: crossOriginIsolated, bits: [...new Uint32Array(logits.data.buffer)].join() };
</script>"""


def test_in_a_page(package: Path, tmp_path: Path) -> None:
    """Threads where the page is isolated from other origins; one where it is not, with the same bits."""
    shutil.copytree(package, tmp_path / "digits")
    (tmp_path / "index.html").write_text(PAGE)
    told = []
    with browser() as page:
        for isolated in (True, False):
            with served(tmp_path, isolated) as address:
                page.visit(address)
                page.waits_for("window.told !== undefined")
                told.append(page.run("return window.told"))
    assert [(each["threads"], each["isolated"]) for each in told] == [(3, True), (1, False)]
    assert told[0]["bits"] == told[1]["bits"] and told[0]["bits"].count(",") == 2999
