"""A model's library as an addon of Node (examples/node): burn.load's bits, calls side by side, errors, Node's own threads."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.dialect.program import Program
from tests.deploy.making import DIGITS, digits, make, traced

pytestmark = pytest.mark.untuned  # results have the bits of `burn.load`, and deployed programs are not tuned

EXAMPLE = Path(__file__).parents[2] / "examples" / "node"


def _headers() -> Path:
    """Where node_api.h lies."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not here")
    for prefix in (Path(node).parents[1], Path(node).resolve().parents[1]):
        if (prefix / "include" / "node" / "node_api.h").is_file():
            return prefix / "include" / "node"
    pytest.skip("Node's headers are not here")


def addon(program: Program, folder: Path, name: str) -> Path:
    """The folder of the example, with the addon of a model."""
    headers, compiler = _headers(), shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = make("static", program, folder / "lib", name=name).parent
    for file in EXAMPLE.glob("*.mjs"):
        shutil.copy(file, folder)
    names = [f"-DMODEL={name}", f"-DMODEL_UPPER={name.upper()}", "-include", f"{name}.h"]
    links = [f"-I{library}", f"-L{library}", f"-l{name}", "-lpthread", "-lm", "-o", folder / f"{name}.node"]
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", f"-isystem{headers}"]
    subprocess.run([compiler, *strict, *names, EXAMPLE / "addon.c", *links], check=True)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return addon(digits(), tmp_path_factory.mktemp("node"), "digits")


def node(folder: Path, script: str, name: str = "digits") -> Any:
    """The values that a script with the model passes to `tell`."""
    head = f"""
    import {{ Model }} from "./model.mjs";
    const tell = (x) => console.log(JSON.stringify(x));
    const failed = async (f) => {{ try {{ await f(); }} catch (e) {{ return [e.code ?? e.constructor.name, e.message]; }} }};
    const model = new Model("{name}.node");
    """
    told = ["node", "--input-type=module", "-e", head + script]
    done = subprocess.run(told, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_example(folder: Path) -> None:
    said = subprocess.check_output(["node", "digits.mjs"], cwd=folder, text=True)
    assert said == "it is a 7\n"


def test_numbers_of_calls_side_by_side(folder: Path) -> None:
    got = node(
        folder,
        """
        const image = (n) => Float32Array.from({ length: n * 64 }, (_, i) => (i * 7) % 17);
        const given = (n) => (n % 2 ? image(n) : { data: image(n), dims: [n, 1, 8, 8] });
        const all = await Promise.all([1, 3, 0, 40, 5, 9, 2, 8].map((n) => model.run({ image: given(n) })));
        const bits = ({ logits: { data, dims } }) => [dims, [...new Uint32Array(data.buffer)]];
        tell({ about: model.about.sizes, all: all.map(bits) });
        """,
    )
    reference = burn.load(DIGITS)
    assert got["about"] == ["batch"]
    for batch, (dims, bits) in zip((1, 3, 0, 40, 5, 9, 2, 8), got["all"], strict=True):
        x = (np.arange(batch * 64) * 7 % 17).astype(np.float32).reshape(batch, 1, 8, 8)
        assert dims == [batch, 10]
        assert bits == reference(x).reshape(-1).view(np.uint32).tolist()


def test_several_of_nodes_threads(folder: Path) -> None:
    got = node(
        folder,
        """
        import { Worker } from "node:worker_threads";
        const code = `
          import { parentPort } from "node:worker_threads";
          import { Model } from "./model.mjs";
          const model = new Model("digits.node"), results = new Set();
          for (let turn = 0; turn < 20; turn++)
            results.add((await model.run({ image: new Float32Array(64 * 4).fill(3) })).logits.data.join());
          parentPort.postMessage([...results]);`;
        const one = () => new Promise((resolve, reject) =>
          new Worker(code, { eval: true }).on("message", resolve).on("error", reject));
        const { logits } = await model.run({ image: new Float32Array(256).fill(3) });
        tell([await Promise.all([one(), one(), one()]), logits.data.join()]);
        """,
    )
    workers, here = got
    assert workers == [[here]] * 3


def test_errors(folder: Path) -> None:
    said = node(
        folder,
        """
        const { createRequire } = await import("node:module");
        const addon = createRequire(process.cwd() + "/")("./digits.node");
        const image = new Float32Array(64), given = { element: 1, dims: [1, 1, 8, 8], data: new Uint8Array(256) };
        const made = addon.create();
        tell([
          await failed(() => model.run({ image: new Float64Array(64) })),
          await failed(() => model.run({ images: image })),
          await failed(() => model.run({})),
          await failed(() => model.run({ image: new Float32Array(65) })),
          await failed(() => model.run({ image: { data: image, dims: [1, 1, 64] } })),
          await failed(() => addon.run(made, [{ ...given, element: 0 }])),
          await failed(() => addon.run({}, [given])),
          await failed(() => addon.run(made, [])),
          await failed(() => addon.run(made, [{ ...given, dims: "8" }])),
          await failed(() => addon.run(made, [{ ...given, dims: Array(17).fill(1) }])),
          await failed(() => addon.run(made, [{ ...given, data: image }])),
          await failed(() => addon.run(made, [null])),
          (await addon.run(made, [given]))[0].dims,
        ]);
        """,
    )
    assert said[0] == ["TypeError", "input 'image' is no Float32Array, which float32 takes"]
    assert said[1] == ["TypeError", "there is no input 'images'"]
    assert said[2][0] == "TypeError" and "image" in said[2][1]
    assert said[3][0] == 10 and "input 'image' must be float32[batch, 1, 8, 8], and was given as" in said[3][1]
    assert said[4][0] == 10 and "given as [1, 1, 64]" in said[4][1]
    assert said[5][0] == 64 and "element type" in said[5][1]
    assert [code for code, _ in said[6:12]] == ["TypeError"] * 6
    assert said[12] == [1, 10]


def many(x: burn.Tensor, n: burn.Tensor, flags: burn.Tensor) -> dict[str, burn.Tensor]:
    return {
        "whole": n * 3,
        "halves": x.astype("float16"),
        "not": burn.logical_not(flags),
        "found": burn.nonzero(x > 0)[0],
    }


def test_many_types(tmp_path: Path) -> None:
    """Integers of 64 bits, float16 as bits, bools, several open sizes, and sizes that depend on data."""
    program = traced(many, x="float32[a, b]", n="int64[]", flags="bool[c]")
    got = node(
        addon(program, tmp_path, "many"),
        """
        const all = await model.run({
          x: { data: new Float32Array([1, -2, 3, -4, 5, -6]), dims: [2, 3] }, n: new BigInt64Array([-(2n ** 61n)]),
          flags: new Uint8Array([0, 1, 1]),
        });
        const told = ({ data, dims }) => [data.constructor.name, dims, [...data].map(String)];
        tell(Object.fromEntries(Object.entries(all).map(([name, tensor]) => [name, told(tensor)])));
        """,
        "many",
    )
    assert got["whole"] == ["BigInt64Array", [], [str(3 * -(2**61))]]
    half_bits = np.array([1, -2, 3, -4, 5, -6], np.float16).view(np.uint16)
    assert got["halves"] == ["Uint16Array", [2, 3], list(map(str, half_bits))]
    assert got["not"] == ["Uint8Array", [3], ["1", "0", "0"]]
    assert got["found"] == ["BigInt64Array", [3], ["0", "0", "1"]]
