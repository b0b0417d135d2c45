"""Programs for other machines: compiled and linked here, and run where qemu or wine stands in for the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
import burn.compiler
from burn.deploy import trainers, training
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.errors import CompileError
from burn.toolchain import platforms
from burn.train import checkpoints
from tests.deploy.making import DIGITS, Array, digits, traced
from tests.deploy.training import CASES

pytest.importorskip("ziglang")

STANDS_IN = {
    "aarch64-linux-musl": ("qemu-aarch64",),
    "riscv64-linux-musl": ("qemu-riscv64", "-cpu", "rv64,v=true,vlen=128"),
    "x86_64-linux-musl": (),
    "x86_64-windows": ("wine",),
}
WEIGHT = np.random.default_rng(1).standard_normal((12, 21), np.float32)


def run(target: str, program: Path, folder: Path, inputs: dict[str, Array]) -> dict[str, Array]:
    machine = STANDS_IN[target]
    if machine and shutil.which(machine[0]) is None:
        pytest.skip(f"{machine[0]} is not here")
    np.savez(folder / "in.npz", **inputs)  # type: ignore[arg-type]
    quiet = os.environ | {"WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all"}
    done = subprocess.run(
        [*machine, program, folder / "in.npz", "-o", folder / "out.npz"], capture_output=True, text=True, env=quiet
    )
    assert done.returncode == 0, done.stderr
    with np.load(folder / "out.npz") as made:
        outputs = dict(made)
    data = (folder / "in.npz").read_bytes()
    piped = subprocess.run([*machine, program, "-", "-o", "-"], input=data, capture_output=True, env=quiet, check=True)
    assert all(array.tobytes() in piped.stdout for array in outputs.values())
    return outputs


@pytest.mark.slow  # a target's C library is first built: up to a minute; test_wasm.py runs another CPU's code each time
@pytest.mark.parametrize("target", STANDS_IN)
def test_a_network(target: str, tmp_path: Path) -> None:
    (program,) = build("exe", digits(), tmp_path / "digits", Options(platforms.find(target)))
    for batch in (1, 5):
        x = np.random.default_rng(batch).standard_normal((batch, 1, 8, 8)).astype(np.float32)
        got = run(target, program, tmp_path, {"image": x})["logits"]
        np.testing.assert_allclose(got, burn.load(DIGITS)(x), rtol=1e-5, atol=1e-5)


def mixed(x: burn.Tensor, indices: burn.Tensor) -> dict[str, burn.Tensor | tuple[burn.Tensor, ...]]:
    """Vectors, half precision, integers, library calls and sizes that depend on data."""
    small_floats = burn.exp(x.astype("float16")) * 0.3
    return {
        "product": burn.softmax(x @ burn.tensor(WEIGHT), -1),
        "halves": small_floats,
        "sorted": burn.sort(x, -1),
        "positive": burn.nonzero(x > 0),
        "taken": x[indices % 4],
        "whole": indices // 3 - indices * 7,
        "any": (x > 1).any(-1),
    }


@pytest.mark.parametrize(("target", "cpu"), [("aarch64-linux-musl", None), ("riscv64-linux-musl", "rvv")])
@pytest.mark.slow
def test_many_types(target: str, cpu: str | None, tmp_path: Path) -> None:
    signature = {"x": "float32[n, 12]", "indices": "int64[m]"}
    (program,) = build("exe", traced(mixed, **signature), tmp_path / "mixed", Options(platforms.find(target), cpu))
    here = burn.compiler.executable(traced(mixed, **signature))
    for n, m in ((4, 3), (17, 0), (64, 33)):
        rng = np.random.default_rng(n)
        x, indices = rng.standard_normal((n, 12), np.float32), rng.integers(-9, 9, m)
        got = run(target, program, tmp_path, {"x": x, "indices": indices})
        for name, want in here.run({"x": x, "indices": indices}).items():
            assert got[name].dtype == want.dtype
            np.testing.assert_allclose(got[name].astype(np.float64), want.astype(np.float64), rtol=2e-3, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("target", STANDS_IN)
def test_a_training(target: str, tmp_path: Path) -> None:
    """Epochs there and here, from each other's checkpoints: the same tensors up to rounding, and the same facts."""
    machine = STANDS_IN[target]
    if machine and shutil.which(machine[0]) is None:
        pytest.skip(f"{machine[0]} is not here")
    burn.manual_seed(0)
    case = CASES["convolutional"]  # Adam would amplify rounding where gradients are zero
    found = training.of(case.make(), case.inputs)
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
    there, here = (
        trainers.build("exe", found, tmp_path / name / "train", Options(platforms.find(platform), name="net"))[0]
        for name, platform in (("there", target), ("here", "host"))
    )
    rng = np.random.default_rng(0)
    rows = tmp_path / "rows.npz"
    np.savez(rows, x=rng.standard_normal((50, 1, 8, 8)).astype(np.float32), y=rng.integers(0, 3, 50))
    quiet = os.environ | {"WINEPREFIX": str(tmp_path / "wine"), "WINEDEBUG": "-all"}

    def train(command: list[Any], name: str, *words: str | Path) -> checkpoints.Saved:
        saved = tmp_path / f"{name}.safetensors"
        done = subprocess.run([*command, rows, *words, "--save", saved], capture_output=True, text=True, env=quiet)
        assert done.returncode == 0, done.stderr
        return checkpoints.read(saved)

    def same(a: checkpoints.Saved, b: checkpoints.Saved) -> None:
        assert a.facts == b.facts and a.tensors.keys() == b.tensors.keys()
        for name, weight in a.tensors.items():
            np.testing.assert_allclose(weight.array(), b.tensors[name].array(), rtol=1e-4, atol=1e-6, err_msg=name)

    same(train([*machine, there], "first"), train([here], "second"))
    mixed = train([*machine, there], "third", "--resume", tmp_path / "second.safetensors", "--epochs", "2")
    same(mixed, train([here], "fourth", "--resume", tmp_path / "first.safetensors", "--epochs", "2"))
    done = subprocess.run([*machine, there, rows, "--load", rows], capture_output=True, text=True, env=quiet)
    assert done.returncode == 1 and "no safetensors file" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("target", [name for name, where in platforms.PLATFORMS.items() if where.program])
@pytest.mark.parametrize("kind", ["exe", "shared", "static", "object"])
def test_everything_links(target: str, kind: str, tmp_path: Path) -> None:
    for path in build(kind, digits(), tmp_path / "digits", Options(platforms.find(target))):
        assert path.stat().st_size


def test_a_cpu_of_another_machine_is_refused() -> None:
    with pytest.raises(CompileError, match=r"avx2.*there are neon"):
        _ = Options(platforms.find("aarch64-linux"), "avx2").target


def test_which_code_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own object where it can be made fit for that; elsewhere, also on an ARM machine for itself, LLVM's text."""
    here, arm = platforms.find("x86_64-linux"), platforms.find("aarch64-linux")
    for host in (here, arm):
        monkeypatch.setattr(platforms, "host", lambda host=host: host)
        assert [Options(where).as_text for where in (here, arm)] == [host != here, True]
        assert [Options(where).is_foreign for where in (here, arm)] == [host != here, host != arm]
