"""Pages that load a model, in Node: no reports after an error, and the texts of examples/web/loading.js."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from burn.deploy.build import build
from tests.deploy.making import scores, traced
from tests.deploy.test_webgpu_package import FAKE, OPTIONS, node

pytest.importorskip("ziglang")
LOADING = Path(__file__).parents[2] / "examples" / "web" / "loading.js"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaded") / "scores"
    build("wasm", traced(scores, x="float32[n, 16]"), folder, OPTIONS)
    return folder


_SERVED = """
const { readFile } = await import("node:fs/promises");
const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
const signals = [];
/** A server whose files arrive in four parts, without one of them. */
const serve = (missing) => {
  globalThis.fetch = async (url, { signal } = {}) => {
    signals.push(signal);
    if (url.pathname.endsWith(missing)) return new Response("", { status: 404 });
    const bytes = await readFile(FOLDER + url.pathname), part = Math.ceil(bytes.length / 4);
    let at = 0;
    const pull = async (stream) => {
      await pause(10);
      if (at < bytes.length) stream.enqueue(bytes.subarray(at, at += part));
      else stream.close();
    };
    return new Response(new ReadableStream({ pull }));
  };
};
/** A load's error, and how often it reports before the error and after it. */
const reported = async (load, options) => {
  const counts = [0, 0];
  let failed = 0;
  const report = () => { counts[failed]++; };
  const error = await said(() => load({ progress: report, compiled: report, ...options }));
  failed = 1;
  await pause(200);
  return { error, counts, read: signals.splice(0).filter((signal) => !signal?.aborted).length };
};
"""


@pytest.mark.parametrize("kind", ["webgpu", "wasm"])
def test_a_missing_file_ends_the_reports(package: Path, kind: str) -> None:
    """Other files are not read further, so that a page's text about the error stays."""
    folder = package if kind == "webgpu" else package / "cpu"
    missing = "kernels.wgsl" if kind == "webgpu" else "weights.safetensors"
    got = node(
        package,
        f"const FOLDER = {json.dumps(str(folder))};{_SERVED}"
        f"""install();
        serve("{missing}");
        const {{ load: started }} = await import("{folder / "index.js"}");
        tell(await reported((options) => started("http://models/", options), {{ fallback: "none", threads: 1 }}));""",
    )
    assert f"{missing} cannot be read: 404" in got["error"]
    assert got["counts"][1] == got["read"] == 0


def test_a_refused_kernel_ends_the_reports(package: Path) -> None:
    got = node(
        package,
        f"const FOLDER = {json.dumps(str(package))};{_SERVED}"
        f"""install();
        serve("no file");
        const {{ Device }} = await import("{FAKE}");
        let made = 0;
        Device.prototype.createComputePipelineAsync = async function (descriptor) {{
          const number = made++;
          await pause(number ? 150 : 10);
          if (!number) throw new Error("refused");
          return descriptor;
        }};
        const found = await reported((options) => load("http://models/", options), {{ fallback: "none" }});
        tell({{ made, ...found }});""",
    )
    assert got["made"] > 1 and got["error"].startswith("RefusedError") and got["counts"][0] > 2
    assert got["counts"][1] == 0


def _page(script: str) -> Any:
    """The values that a script tells after it has imported loading.js, with a document of two elements and a button."""
    if shutil.which("node") is None:
        pytest.skip("node is not here")
    head = f"""
        const elements = {{ state: {{}}, progress: {{}} }}, button = {{ disabled: true }};
        globalThis.document = {{ getElementById: (id) => elements[id], querySelectorAll: () => [button] }};
        const {{ called, duration, failed, ready, shown, stopped }} = await import("{LOADING}");
        const {{ state, progress }} = elements, tell = (x) => console.log(JSON.stringify(x));
        console.warn = () => {{}};
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", head + script], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_progress_of_the_package_for_cpus() -> None:
    """It begins anew if the GPU cannot run the model: kernels that were compiled before are no part of it."""
    got = _page(
        """const options = shown(), seen = [];
        const note = () => seen.push([progress.value, state.textContent]);
        options.progress(4e6, 4e6); options.compiled(1, 4); note();
        options.announce(new Error("refused")); options.progress(1e6, 2e6); note();
        ready({ backend: "cpu", reason: new Error("refused") }, "draw"); note();
        tell({ seen, button, hidden: progress.hidden, times: [0.0123, 3.21, 12.7].map(duration) });"""
    )
    assert got["seen"] == [
        [0.25, "loading: 4.0 of 4.0 MB, 1 of 4 kernels"],
        [0.5, "loading: 1.0 of 2.0 MB"],
        [0.5, "ready, on the CPU (refused): draw"],
    ]
    assert got["button"] == {"disabled": False} and got["hidden"]
    assert got["times"] == ["12 µs", "3.2 ms", "13 ms"]


@pytest.mark.parametrize(
    ("errors", "text", "steps"),
    [
        ({}, "ready", ["run"]),
        ({1: "DeviceLostError"}, "on the GPU, with a new device", ["run", "reload", "run"]),
        ({1: "DeviceLostError", 2: "OutOfMemoryError"}, "the model cannot be called: 2", ["run", "reload"]),
        ({1: "DeviceLostError", 3: "DeviceLostError"}, "the model cannot be called: 3", ["run", "reload", "run"]),
        ({1: "RangeError"}, "the model cannot be called: 1", ["run"]),
    ],
)
def test_a_lost_device(errors: dict[int, str], text: str, steps: list[str]) -> None:
    """errors: the names of errors, by the number of the step that they end."""
    got = _page(
        f"""const errors = {json.dumps(errors)}, steps = [];
        const step = (name) => async () => {{
          const number = steps.push(name);
          if (errors[number]) throw Object.assign(new Error(number), {{ name: errors[number] }});
          return {{ number }};
        }};
        state.textContent = "ready";
        const found = await called({{ run: step("run"), reload: step("reload") }}, {{}}).catch(stopped);
        tell({{ found: found?.number, text: state.textContent, steps }});"""
    )
    assert got == {"text": text, "steps": steps, **({} if "cannot" in text else {"found": len(steps)})}
