"""Packages for WebGPU that a page uses wrongly, or at the same time: errors with names, and the model can be used afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from burn.deploy.build import build
from tests.deploy.making import scores, traced
from tests.deploy.test_webgpu_package import OPTIONS, node

pytest.importorskip("ziglang")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("misused") / "scores"
    build("wasm", traced(scores, x="float32[n, 16]"), folder, OPTIONS)
    return folder


def test_wrong_inputs_and_outputs(package: Path) -> None:
    """Each is refused by a TypeError or RangeError before anything runs. The next call is right, and nothing stays in memory."""
    got = node(
        package,
        """
        const devices = install(), model = await load(undefined, { fallback: "none" }), { device } = model, { x } = rows(2);
        await model.run({ x });
        const buffer = (usage, size = 128, more = {}) => Object.assign(device.createBuffer({ usage, size }), more);
        const mapped = { mapState: "mapped" }, dims = [2, 16], before = devices[0].alive.size;
        const given = [
          [null], [[1, 2]], [new Float64Array(32)], [new Float32Array(5)],
          [{ data: x, dims: "2, 16" }], [{ data: x, dims: [2, 8] }],
          [{ buffer: buffer(8), dims }], [{ buffer: buffer(4, 64), dims }], [{ buffer: buffer(4, 128, mapped), dims }],
          [{ buffer: buffer(4, 256), dims, offset: -4 }], [{ buffer: buffer(4, 256), dims, offset: 0.5 }],
          [{ buffer: buffer(4) }],
          [x, { outputs: "cpu" }], [x, { outputs: buffer(8, 256) }],
          [x, { outputs: { y: "gpu" } }], [x, { outputs: { output: 3 } }],
          [x, { outputs: { output: buffer(4, 256) } }], [x, { outputs: { output: buffer(8, 64) } }],
          [x, { outputs: { output: buffer(8, 256, mapped) } }],
        ];
        const made = devices[0].alive.size - before, found = [];
        for (const [input, options] of given) found.push(await said(() => model.run({ x: input }, options)));
        const { output } = await model.run({ x });
        tell({ errors: found, dims: output.dims, left: devices[0].alive.size - before - made });
        """,
    )
    assert [text.partition(":")[0] for text in got["errors"]] == [
        "TypeError", "TypeError", "TypeError", "RangeError", "TypeError", "RangeError", "TypeError", "RangeError", "TypeError",
        "RangeError", "RangeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "RangeError",
        "TypeError",
    ]  # fmt: skip
    assert all("input 'x'" in text or "output" in text for text in got["errors"]), got["errors"]
    assert got["dims"] == [2, 32] and got["left"] == 0


def test_a_refused_call_leaves_no_commands(package: Path) -> None:
    """A copy from a buffer of the caller's is dropped if a later check refuses the call: the buffer may be destroyed then."""
    got = node(
        package,
        """
        const devices = install(), model = await load(undefined, { fallback: "none" });
        const buffer = model.device.createBuffer({ usage: 4, size: 128 });
        const refused = await said(() => model.run({ x: { buffer, dims: [2, 16] } }, { outputs: { output: 5 } }));
        buffer.destroy();
        tell({ refused, then: await said(() => model.run(rows(2))) });
        """,
    )
    assert got["refused"].startswith("TypeError: output 'output'") and got["then"] == ""


def test_a_submission_with_a_destroyed_buffer(package: Path) -> None:
    """WebGPU drops the whole submission. The call says so, and does not give the results of an earlier one."""
    got = node(
        package,
        """
        const devices = install(), model = await load(undefined, { fallback: "none" }), dims = [2, 16];
        await model.run(rows(2));
        const [gone, full] = [4, 4].map((usage) => model.device.createBuffer({ usage, size: 128 }));
        const output = model.device.createBuffer({ usage: 8, size: 256 });
        gone.destroy();
        const refused = [await said(() => model.run({ x: { buffer: gone, dims } }))];
        await model.reload();
        output.destroy();
        refused.push(await said(() => model.run(rows(2), { outputs: { output } })));
        await model.reload();
        tell({ refused, then: await said(() => model.run(rows(2))) });
        """,
    )
    assert all(text.startswith("RefusedError: the browser refuses a command") for text in got["refused"]), got
    assert got["then"] == ""


def test_an_input_that_cannot_be_read_leaves_no_memory(package: Path) -> None:
    got = node(
        package,
        """
        const devices = install(), model = await load(undefined, { fallback: "none" });
        const { writeBuffer } = devices[0].queue, refused = [];
        const size = () => [...devices[0].alive].reduce((sum, buffer) => sum + buffer.size, 0);
        await model.run(rows(2000));
        const before = size();
        for (let i = 0; i < 3000; i++) {
          devices[0].queue.writeBuffer = () => { throw new TypeError("this array cannot be read"); };
          refused.push(await said(() => model.run(rows(2000))));
          devices[0].queue.writeBuffer = writeBuffer;
        }
        const grown = size() - before;
        tell({ refused: [...new Set(refused)], grown, then: await said(() => model.run(rows(2))) });
        """,
    )
    assert got["refused"] == ["TypeError: this array cannot be read"] and got["then"] == "" and got["grown"] == 0


def test_closing_and_reloading_during_calls(package: Path) -> None:
    """A closed model says so to calls under way, with a device of its own or the caller's. Reloads wait for calls and each
    other."""
    got = node(
        package,
        """
        const devices = install(), closed = [];
        const own = await load(undefined, { fallback: "none" });
        const other = await load(undefined, { fallback: "none", device: devices[0] });
        for (const model of [other, own]) {
          const calls = [said(() => model.run(rows(2))), said(() => model.run(rows(3)))];
          await new Promise((resolve) => { queueMicrotask(resolve); });
          model.close();
          closed.push(await Promise.all(calls));
        }
        const model = await load(undefined, { fallback: "none" }), count = devices.length;
        const both = [model.run(rows(2)), model.reload(), model.run(rows(3)), model.reload(), model.run(rows(1))];
        const dims = (await Promise.all(both)).filter(Boolean).map(({ output }) => output.dims);
        const alive = devices.slice(count - 1).filter((device) => !device.isLost).length;
        const reloading = model.reload();
        model.close();
        const again = await said(() => reloading);
        tell({ closed, dims, alive, again, left: devices.filter((device) => !device.isLost).length });
        """,
    )
    assert all(text in ("", "Error: the model has been closed") for calls in got["closed"] for text in calls)
    assert all("Error: the model has been closed" in calls for calls in got["closed"])
    assert got["dims"] == [[2, 32], [3, 32], [1, 32]] and got["alive"] == 1
    assert got["again"] == "Error: the model has been closed" and got["left"] == 0


def test_calls_after_a_reload_that_failed(package: Path) -> None:
    """They raise the reload's error, until another reload succeeds."""
    got = node(
        package,
        """
        install();
        const model = await load(undefined, { fallback: "none" });
        install({ gone: true });
        const found = [await said(() => model.reload()), await said(() => model.run(rows(2)))];
        install();
        found.push(await said(() => model.reload()), await said(() => model.run(rows(2))));
        tell(found);
        """,
    )
    assert got[0].startswith("NoAdapterError") and got[1] == got[0] and got[2:] == ["", ""]


def test_files_that_cannot_be_read(package: Path) -> None:
    """A file that is missing, cut, longer than it should be, or whose connection ends: the error has its address."""
    got = node(
        package,
        f"""
        install();
        const {{ readFile }} = await import("node:fs/promises");
        const of = (url) => readFile("{package}/" + url.pathname.split("/").at(-1));
        const found = [];
        const answer = (body, status = 200) => new Response(body, {{ status }});
        const broken = () => new ReadableStream({{ pull(to) {{ to.error(new TypeError("network error")); }} }});
        for (const spoil of [
          (bytes) => answer(bytes), (bytes) => answer(bytes.subarray(0, 100)), (bytes) => answer(Buffer.concat([bytes, bytes])),
          () => answer("", 404), () => answer(broken()), () => {{ throw new TypeError("Failed to fetch"); }},
        ]) {{
          globalThis.fetch = async (url) => {{
            const bytes = await of(url);
            return url.pathname.endsWith("weights.safetensors") ? spoil(bytes) : answer(bytes);
          }};
          found.push(await said(() => load("http://x.test/m/", {{ fallback: "none" }})));
        }}
        tell(found);
        """,
    )
    assert got[0] == "" and all("weights.safetensors" in text for text in got[1:]), got


def test_a_thousand_calls_keep_no_buffers(package: Path) -> None:
    """Of changing sizes, and refused ones among them."""
    got = node(
        package,
        """
        const devices = install(), model = await load(undefined, { fallback: "none" }), counts = [];
        for (let i = 0; i < 1000; i++) {
          const given = i % 10 === 9 ? { x: new Float32Array(3) } : rows(i % 7);
          await said(() => model.run(given));
          if (i % 100 === 99) counts.push([devices[0].alive.size, model.usedBytes]);
        }
        tell(counts);
        """,
    )
    assert len(got) == 10 and all(count == got[0] for count in got)


def test_a_picture_beyond_the_limit(tmp_path: Path) -> None:
    """It is refused by name, and the model can be called afterwards."""
    build("wasm", traced(lambda x: {"y": x * 2.0}, x="float32[1, h, w, 3]"), tmp_path / "twice", OPTIONS)
    got = node(
        tmp_path / "twice",
        """
        globalThis.ImageData = class { constructor(width, height) { Object.assign(this, { width, height }); } };
        install();
        const model = await load(undefined, { fallback: "none" });
        const refused = await said(() => model.run({ x: new ImageData(9000, 2) }));
        const { y } = await model.run({ x: { data: new Float32Array(6), dims: [1, 1, 2, 3] } });
        tell({ refused, dims: y.dims });
        """,
    )
    assert (
        got["refused"] == "LimitError: the picture of input 'x' needs 9000; the adapter's maxTextureDimension2D is 8192"
    )
    assert got["dims"] == [1, 1, 2, 3]
