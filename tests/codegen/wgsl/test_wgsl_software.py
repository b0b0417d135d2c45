"""Kernels for adapters that run on the CPU: no workgroup memory, contractions with every tile, attention in parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import burn
from burn.codegen.wgsl import software
from burn.codegen.wgsl.heuristics import Tile
from burn.codegen.wgsl.limits import ARCHITECTURE, SOFTWARE
from burn.compiler import compile_program, executable, listing
from burn.dialect.program import Program
from burn.exporting import program_of
from burn.options import OFF, Options
from burn.runtime.device import Device, device
from burn.runtime.executable import Executable
from tests.codegen.wgsl.test_wgsl_tiles import contraction, floats

TEXT = Options(device=Device("wgpu"), architecture=SOFTWARE)


def ran(program: Program, *arrays: np.ndarray) -> list[np.ndarray]:
    """On this machine's adapter, of any kind."""
    artefact = compile_program(program, Options(device=device("wgpu"), architecture=SOFTWARE, autotune=OFF))
    got = Executable(replace(artefact, target=artefact.target._replace(architecture=ARCHITECTURE)))(*arrays)
    return [np.asarray(array) for array in (got if isinstance(got, tuple) else (got,))]


def test_no_workgroup_memory() -> None:
    """Not for matmuls, attention, or reductions that a GPU's workgroup shares; a deep contraction is not split."""

    def function(x: burn.Tensor, q: burn.Tensor) -> Any:
        attended = burn.ops.attention(q, q, q, scale=0.3, causal=True)
        return {"a": x @ x.T, "b": burn.softmax(x, -1), "c": attended, "d": x.sum()}

    made = program_of(function, {"x": "float32[48, 4608]", "q": "float32[1, 2, 64, 32]"})
    text = listing(made.copy(), TEXT)
    assert "@compute" in text and "arrier(" not in text and "var<workgroup>" not in text
    on_gpus = listing(made, replace(TEXT, architecture=ARCHITECTURE))
    assert "var<workgroup>" in on_gpus and on_gpus.count("@compute") != text.count("@compute")


def test_tiles_suit_sizes() -> None:
    def sizes(rows: int, columns: int, depth: int) -> tuple[int, int] | None:
        made = software.tile(contraction(rows, columns, depth))
        return None if made is None else (made.high, made.wide)

    assert sizes(1024, 1024, 1024) == (8, 8)
    assert sizes(16, 16, 64) == (4, 4)
    assert sizes(1, 1000, 64) is None and sizes(1000, 3, 64) is None


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize(
    "shape",
    [pytest.param(t, marks=[] if t.rows == 8 else [pytest.mark.slow]) for t, _ in software.TILES],
    ids=lambda t: f"{t.rows}x{t.columns}",
)
def test_contractions(shape: Tile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against float64: operands in any layout, a window with padding, integers, a batch."""
    monkeypatch.setattr(software, "SHAPES", replace(software.SHAPES, tile=lambda kernel: shape))
    x, y, z, q = floats(37, 29), floats(29, 41, seed=1), floats(41, 37, seed=2), floats(3, 13, 11, seed=6)
    image, window = floats(2, 5, 9, 11, seed=3), floats(7, 5, 3, 3, seed=4)
    ints, others = (np.random.default_rng(5).integers(-99, 99, (17, 17)).astype(np.int32) for _ in range(2))

    def function(x: Any, y: Any, z: Any, image: Any, window: Any, ints: Any, others: Any, q: Any) -> dict[str, Any]:
        xy = x @ y
        convolved = burn.ops.conv(image, window, strides=(2, 1), dilations=(1, 1), low=(1, 1), high=(1, 1))
        attended = burn.ops.attention(
            q.reshape(1, 3, 13, 11), q.reshape(1, 3, 13, 11), q.reshape(1, 3, 13, 11), scale=0.3
        )
        made = (
            burn.tanh(xy / 8),
            xy.T + z,
            x.T @ xy,
            z @ x,
            convolved,
            ints @ others,
            q @ q.transpose(1, 2),
            attended,
        )
        return {f"y{number}": each for number, each in enumerate(made)}

    arrays = (x, y, z, image, window, ints, others, q)

    def traced(arrays: tuple[np.ndarray, ...]) -> Program:
        names = ("x", "y", "z", "image", "window", "ints", "others", "q")
        types = {name: f"{a.dtype}[{', '.join(map(str, a.shape))}]" for name, a in zip(names, arrays, strict=True)}
        return program_of(function, types)

    got = ran(traced(arrays), *arrays)
    wide = tuple(a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays)
    want = executable(traced(wide), Options(autotune=OFF))(*wide)
    for a, b in zip(got, map(np.asarray, want), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * np.abs(b).max() if b.dtype.kind == "f" else 0)


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize("n", [0, 1, 7])
def test_named_sizes(n: int) -> None:
    x = floats(n, 5)
    (got,) = ran(program_of(lambda x: {"y": burn.softmax(x @ x.T, -1) @ x}, {"x": "float32[n, 5]"}), x)
    z = x.astype(np.float64) @ x.T
    z = np.exp(z - z.max(-1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(got, z / z.sum(-1, keepdims=True) @ x, rtol=0, atol=2e-5)
