"""Trainings as modules of WebAssembly: the steps of Python, checkpoints, and the page of examples/web that trains."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.deploy import trainers, training
from burn.deploy.options import Options
from burn.toolchain import platforms
from tests.deploy.browser import browser, served
from tests.deploy.training import CASES

pytest.importorskip("ziglang")
pytestmark = pytest.mark.slow  # ziglang's compiler takes ten seconds for each module
PAGE = Path(__file__).parents[2] / "examples" / "web"
WASM = Options(platforms.find("wasm32"), name="net")


def _node(folder: Path, script: str) -> Any:
    """The values that a script passes to `tell`."""
    if shutil.which("node") is None:
        pytest.skip("node is not here")
    head = 'import { load } from "./index.js";\nimport { readFileSync, writeFileSync } from "node:fs";\n'
    (folder / "script.mjs").write_text(head + "const tell = (x) => console.log(JSON.stringify(x));\n" + script)
    done = subprocess.run(["node", "script.mjs"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_steps_and_checkpoints(tmp_path: Path) -> None:
    burn.manual_seed(0)
    case = CASES["classifier"]
    step = case.make()
    folder = tmp_path / "net"
    trainers.build("wasm", training.of(step, case.inputs), folder, WASM)
    rng = np.random.default_rng(0)
    batches = [case.batch(rng, n) for n in (16, 16, 5)]
    texts = [{"x": b["x"].ravel().tolist(), "y": b["y"].tolist()} for b in batches]
    (folder / "batches.json").write_text(json.dumps(texts))
    losses, later, found = _node(
        folder,
        """
        const trainer = await load();
        const batches = JSON.parse(readFileSync("batches.json")).map(
          ({ x, y }) => ({ x: Float32Array.from(x), y: BigInt64Array.from(y, BigInt) }));
        const losses = batches.map((batch) => trainer.step(batch).loss);
        const checkpoint = trainer.save();
        writeFileSync("net.safetensors", checkpoint);
        const later = batches.map((batch) => trainer.step(batch).loss);
        trainer.load(checkpoint);
        const again = batches.map((batch) => trainer.step(batch).loss);
        const errors = [];
        const fails = (call) => { try { call(); } catch (error) { errors.push(error.message); } };
        fails(() => trainer.step({ x: batches[0].x }));
        fails(() => trainer.step({ ...batches[0], y: batches[0].y.map(() => 7n) }));
        fails(() => trainer.step({ ...batches[0], z: 1 }));
        fails(() => trainer.load(checkpoint.slice(0, 500)));
        fails(() => trainer.read("model.tail"));
        trainer.write("model.head.bias", new Float32Array([1, 2, 3]));
        const bias = [...trainer.read("model.head.bias").data], { dims } = trainer.predict({ x: batches[2].x }).output;
        tell([losses, later, { same: again.join() === later.join(), steps: trainer.steps, bias, dims, errors }]);
        """,
    )
    np.testing.assert_allclose(losses, [float(step(*batch.values())) for batch in batches], rtol=1e-5)
    step.load(folder / "net.safetensors")
    np.testing.assert_allclose(later, [float(step(*batch.values())) for batch in batches], rtol=1e-5)
    assert (found["same"], found["steps"], found["bias"], found["dims"]) == (True, 6, [1, 2, 3], [5, 3])
    missing, label, unknown, damaged, tensor = found["errors"]
    assert "'y' is missing" in missing and "out of range" in label and "no input 'z'" in unknown
    assert "damaged" in damaged and "no tensor 'model.tail'" in tensor


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the page, with the module that its train.py makes."""
    folder = tmp_path_factory.mktemp("page") / "web"
    ignored = shutil.ignore_patterns("model", "ultraface", "trainer", "digits.json", "__pycache__")
    shutil.copytree(PAGE, folder, ignore=ignored)
    shutil.copytree(PAGE.parent / "digits", folder.parent / "digits")
    spec = importlib.util.spec_from_file_location("web_train", folder / "train.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()
    inputs = {"image": "float32[batch, 1, 8, 8]", "label": "int64[batch]"}
    trainers.build("wasm", training.of(module.step, inputs), folder / "trainer", WASM)
    return folder


def test_the_page_learns_digits(page: Path) -> None:
    """The page's own functions, in Node, with fixed random numbers."""
    accuracy = _node(
        page / "trainer",
        """
        import { accuracy, divided, epoch } from "../learn.js";
        const { train, held } = divided(JSON.parse(readFileSync("../digits.json")));
        let state = 1;
        const random = () => { state = (state * 1103515245 + 12345) & 0x7fffffff; return state / 0x80000000; };
        const trainer = await load();
        const found = [accuracy(trainer, held)];
        for (let done = 0; done < 40; done++) for (const loss of epoch(trainer, train, random)) if (!(loss < 10)) throw loss;
        tell([...found, accuracy(trainer, held), held.length, trainer.steps]);
        """,
    )
    assert accuracy[0] < 0.3 and accuracy[1] >= 0.95 and accuracy[2:] == [100, 600]


def test_the_page_in_a_browser(page: Path) -> None:
    with browser() as shown, served(page) as address:
        shown.visit(f"{address}/train.html")
        shown.waits_for("document.getElementById('state').textContent === 'ready'")
        shown.click("#train")
        shown.waits_for("document.getElementById('state').textContent.startsWith('epoch 40 of 40')", seconds=120)
        assert float(shown.run("return document.getElementById('accuracy').value")) >= 95
        shown.draw("#board", [[(0.5, 0.1), (0.5, 0.9)]])
        shown.waits_for("document.getElementById('digit').value !== '?'")
        before = shown.run("return document.getElementById('state').textContent")
        shown.click("#labels button:nth-child(2)")
        assert shown.run("return document.getElementById('state').textContent") != before
        assert shown.run("return document.getElementById('digit').value") == "1"
