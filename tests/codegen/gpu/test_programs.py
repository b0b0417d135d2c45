"""Programs run on a simulated GPU and give the CPU's numbers."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.adapters.onnx import load_onnx
from burn.codegen.triton import launches
from burn.deploy.build import build
from burn.deploy.gpus import find
from burn.deploy.options import Options
from burn.errors import DeviceError, IndexRunError, RunError
from burn.loading import read_program
from burn.runtime.device import device
from burn.toolchain import platforms

pytest.importorskip("triton")
pytest.importorskip("torch")

from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.runtime.simulation import simulation

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
CUDA = device("cuda")


def both(function: Any, *arrays: np.ndarray, dynamic: Any = None, tolerance: float = 1e-5) -> Any:
    """Runs a function on the GPU and on the CPU; returns the GPU's executable."""
    made = [burn.compile(function, arrays, dynamic, cache=False, device=where) for where in ("cuda", "cpu")]
    got, want = (m(*arrays) for m in made)
    for a, b in zip(
        got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
    ):
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(a, b)
    return made[0]


def test_a_whole_model(gpu: SimulatedGPU) -> None:
    on_gpu, on_host = (load_onnx(DIGITS, device=device(name)) for name in ("cuda", "cpu"))
    (spec,) = on_host.inputs
    name, shape = spec.name, [d if isinstance(d, int) else 3 for d in spec.dims]
    image = np.random.default_rng(0).integers(0, 255, shape).astype(spec.dtype)
    (got,), (want,) = (tuple(made.run({name: image}).values()) for made in (on_gpu, on_host))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert not [k for k in on_gpu.artefact.kernels if k.kind == "host"]


@pytest.mark.parametrize("n", [0, 1, 7])
def test_named_sizes(gpu: SimulatedGPU, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 5)).astype(np.float32)
    both(lambda x: burn.softmax(x * 2 + 1, axis=1) @ x.T.reshape(5, -1), x, dynamic={"x": {0: "n"}})


def test_indices_have_64_bits_if_sizes_require_them(gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "NARROW", 20)
    x, row = np.ones((7, 5), np.float32), np.arange(5, dtype=np.float32)
    made = burn.compile(lambda x, row: x * 2 + row, (x, row), {"x": {0: "n"}}, cache=False, device="cuda")
    for n in (1, 7, 0):
        np.testing.assert_array_equal(made(x[:n], row), x[:n] * 2 + row)
    assert [s.wide for s in gpu.launched] == [False, True]


def test_sizes_from_data_and_what_runs_on_the_host(gpu: SimulatedGPU) -> None:
    x = np.array([3.0, 0.0, -1.0, 0.0, 2.0], np.float32)
    made = both(lambda x: (burn.nonzero(x)[0] * 2, burn.sort(x) + 1, burn.unique(x)), x)
    kinds = [k.kind for k in made.artefact.kernels]
    assert "host" in kinds and set(kinds) != {"host"}


def test_strings_stay_on_the_host(gpu: SimulatedGPU) -> None:
    from onnx import TensorProto, helper

    nodes = [helper.make_node("StringConcat", ["a", "b"], ["c"]), helper.make_node("Add", ["x", "x"], ["y"])]
    text = [helper.make_tensor_value_info(name, TensorProto.STRING, ["n"]) for name in "abc"]
    number = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", [*text[:2], number[0]], [text[2], number[1]])
    made = load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), device=CUDA)
    words, doubled = made(np.array(["x", "y"], object), np.array(["1", ""], object), np.ones(2, np.float32))
    assert words.tolist() == ["x1", "y"]
    np.testing.assert_array_equal(doubled, [2, 2])


def test_loops(gpu: SimulatedGPU) -> None:
    def grow(x: burn.Tensor) -> Any:
        return burn.scan(lambda c, row: (c + row, c * 2), burn.zeros((3,)), x)

    both(grow, np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32))


@pytest.mark.parametrize("shape", [(5, 7), (33, 1), (1, 130), (0, 4)])
def test_gradients_of_norms_compute_again_what_they_need(gpu: SimulatedGPU, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(shape[0])
    x, g = (random.standard_normal(shape).astype(np.float32) for _ in range(2))
    w, b = (random.standard_normal(shape[1]).astype(np.float32) for _ in range(2))

    def rms(x: burn.Tensor, w: burn.Tensor, u: burn.Tensor) -> burn.Tensor:
        return x * burn.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w * (u * burn.sigmoid(u))

    def layer(x: burn.Tensor, w: burn.Tensor, b: burn.Tensor) -> burn.Tensor:
        return ops.layer_norm(x, w, b, axis=-1, epsilon=1e-5)

    both(lambda x, w, b, g: burn.vjp(layer, x, w, b)[1](g), x, w, b, g, tolerance=1e-4)
    made = both(
        lambda x, w, u, g: (rms(x, w, u), *burn.vjp(rms, x, w, u)[1](g)), x, w, x[::-1].copy(), g, tolerance=1e-4
    )
    assert len(made.artefact.kernels) <= 5


@pytest.mark.slow  # the interpreter of Triton takes a minute for its blocks; tests/gpu does the same on a real GPU
def test_a_half_precision_step_rematerialises(gpu: SimulatedGPU) -> None:
    """Activations of convolutions and batch norms are converted, centred and masked by the kernels that read them."""

    class Network(burn.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = burn.nn.Conv2d(3, 8, 3, padding=1, bias=False), burn.nn.BatchNorm2d(8)
            self.second, self.last = burn.nn.Conv2d(8, 8, 1, bias=False), burn.nn.BatchNorm2d(8)

        def forward(self, x: burn.Tensor) -> burn.Tensor:
            y = burn.relu(self.norm(self.first(x)))
            return burn.relu(self.last(self.second(y)) + y)

    random = np.random.default_rng(7)
    x, target = (random.standard_normal((3, c, 7, 5)).astype(np.float32) for c in (3, 8))
    losses = {}
    for where in ("cuda", "cpu"):
        burn.manual_seed(1)
        model = Network()
        step = burn.train.step(
            model,
            lambda m, x, t: ((m(x) - t) ** 2).mean(),
            burn.optim.AdamW(model, lr=0.1),
            precision="bfloat16",
            device=where,
        )
        losses[where] = [float(step(burn.tensor(x).to(where), burn.tensor(target).to(where))) for _ in range(3)]
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=2e-2)


@pytest.mark.slow  # as above: align's numbers are among the passes' cases
def test_a_step_over_an_odd_number_of_words(gpu: SimulatedGPU) -> None:
    """The scores' rows have room behind them, which losses and gradients do not see."""
    random = np.random.default_rng(3)
    x, y = random.standard_normal((3, 8)).astype(np.float32), np.array([0, 2056, 7])
    losses, heads = [], []
    for where in ("cuda", "cpu"):
        burn.manual_seed(2)
        model = burn.nn.Linear(8, 2057)
        step = burn.train.step(
            model,
            lambda m, x, y: burn.nn.CrossEntropyLoss()(m(x), y),
            burn.optim.SGD(model, lr=0.1),
            device=where,
        )
        losses.append([float(step(burn.tensor(x).to(where), burn.tensor(y).to(where))) for _ in range(3)])
        heads.append({name: np.asarray(value) for name, value in model.state_dict().items()})
    np.testing.assert_allclose(*losses, rtol=1e-5)
    for name, values in heads[0].items():
        np.testing.assert_allclose(values, heads[1][name], rtol=1e-4, atol=1e-5)


def test_an_index_out_of_range_is_an_error_and_the_gpu_stays_usable(gpu: SimulatedGPU) -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    take = burn.compile(
        lambda t, i: burn.take(t, i, axis=0), (table, np.zeros(2, np.int64)), cache=False, device="cuda"
    )
    with pytest.raises(IndexRunError, match="index 9 is out of range"):
        take(table, np.array([1, 9]))
    np.testing.assert_array_equal(take(table, np.array([1, -1])), table[[1, 3]])


def test_calls_alike_are_recorded_and_replayed(gpu: SimulatedGPU) -> None:
    """The third call runs no entry function; other sizes have a recording of their own; results stay right."""
    model = burn.compile(lambda x: burn.softmax(x * 2 + 1, axis=1), ("float32[n, 5]",), cache=False, device="cuda")
    host = burn.compile(lambda x: burn.softmax(x * 2 + 1, axis=1), ("float32[n, 5]",), cache=False)
    before = simulation().alive("graph")
    random = np.random.default_rng(3)
    for n in (3, 3, 3, 2, 3, 2, 2, 700, 3, 3, 3):
        x = random.standard_normal((n, 5)).astype(np.float32)
        np.testing.assert_allclose(model(x), host(x), rtol=1e-5, atol=1e-6)
    assert simulation().alive("graph") > before
    del model
    assert simulation().alive("graph") == before


def test_a_profile_has_gpu_times(gpu: SimulatedGPU) -> None:
    made = burn.compile(lambda x: burn.softmax(x * 2 + 1, axis=1).sum(), ("float32[n, 5]",), cache=False, device="cuda")
    events = simulation().alive("event")
    profile = made.profile(np.ones((3, 5), np.float32), repeat=2)
    assert len(profile.events) == len(profile.rows) >= 1 and all(e.on_gpu for e in profile.events)
    assert sum(row.calls for row in profile.rows) == len(profile.events)
    assert simulation().alive("event") <= events + 1  # what waits for the results keeps one


def test_a_recorded_call_tells_of_an_index_out_of_range(gpu: SimulatedGPU) -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    take = burn.compile(
        lambda t, i: burn.take(t, i, axis=0), (table, np.zeros(2, np.int64)), cache=False, device="cuda"
    )
    for indices in ([0, 1], [1, 1], [2, 0], [3, 3]):
        np.testing.assert_array_equal(take(table, np.array(indices)), table[indices])
    with pytest.raises(IndexRunError, match="index -5 is out of range"):
        take(table, np.array([1, -5]))
    np.testing.assert_array_equal(take(table, np.array([1, -1])), table[[1, 3]])


def test_what_reads_in_mid_run_is_not_recorded(gpu: SimulatedGPU) -> None:
    model = burn.compile(lambda x: burn.nonzero(x)[0] * 2, (np.zeros(4, np.float32),), cache=False, device="cuda")
    before = simulation().alive("graph")
    for x in ([0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]):
        np.testing.assert_array_equal(model(np.array(x, np.float32)), np.nonzero(np.asarray(x))[0] * 2)
    assert simulation().alive("graph") == before


def test_no_such_gpu(gpu: SimulatedGPU) -> None:
    with pytest.raises(DeviceError, match="cuda:7"):
        burn.compile(lambda x: x + 1, (np.zeros(3, np.float32),), cache=False, device="cuda:7")
    with pytest.raises(DeviceError, match="no device 'tpu'"):
        burn.compile(lambda x: x + 1, (np.zeros(3, np.float32),), cache=False, device="tpu")


def test_a_package_for_several_gpus(gpu: SimulatedGPU, tmp_path: Path) -> None:
    """burn.load selects the program for the GPU that is present, with and without `device`."""
    targets = [find(f"cuda:sm_{number}") for number in (80, 90, 100)]
    (path,) = build(
        "package", read_program(DIGITS), tmp_path / "m.burn", Options(platforms.find(), gpus=tuple(targets))
    )
    image = np.random.default_rng(0).standard_normal((3, 1, 8, 8)).astype(np.float32)
    for asked, found in (("cuda:1", "cuda:1"), ("cpu", "cuda:0")):
        model = burn.load(path, device=asked)
        assert model.artefact.target.architecture == "sm_90" and str(model.device) == found
        np.testing.assert_allclose(model(image), burn.load(DIGITS)(image), rtol=1e-4, atol=1e-5)
    build("package", read_program(DIGITS), path, Options(platforms.find(), gpus=tuple(targets[::2])))
    with pytest.raises(RunError, match="compiled for sm_80 and cuda:0 is Simulated GPU 0, sm_90"):
        burn.load(path, device="cuda")


def test_a_small_value_that_two_groups_read(gpu: SimulatedGPU) -> None:
    """A mean's gradient is computed for every element of a larger sum, and then read by another kernel."""
    draws = np.random.default_rng(2)
    d, w = (draws.standard_normal(shape).astype(np.float32) for shape in ((6, 16), (16, 16)))
    mask = draws.random((6, 149, 16)) < 0.3

    def function(d: burn.Tensor, mask: burn.Tensor, w: burn.Tensor) -> tuple[burn.Tensor, burn.Tensor]:
        each = burn.where(mask, 0.0, (d / 149.0).reshape(6, 1, 16))
        total = each.sum((0, 1), keepdims=True)
        return total, (each + (each * total) @ w).sum((0, 1), keepdims=True)

    both(function, d, mask, w)


@pytest.mark.skipif(os.environ.get("BURN_POISON") != "90", reason="tests/runtime/test_poison.py runs it")
def test_poison(gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call runs kernel by kernel, the second is recorded, and the third replays the recording."""
    x = np.random.default_rng(4).standard_normal((40, 9)).astype(np.float32)
    made = burn.compile(lambda x: burn.softmax(x @ x.T, axis=0).sum(1), (x,), cache=False, device="cuda")
    launch, filled = gpu.launch, []

    def look(image: str, function: str, blocks: int, threads: int, shared: int, words: list[int]) -> None:
        memory = [bytes((ctypes.c_char * min(gpu.reach(w), 16)).from_address(w)) for w in words if w > 1 << 32]
        filled.append(any(m and not m.strip(b"Z") for m in memory))
        launch(image, function, blocks, threads, shared, words)

    simulation().on_launch(look)
    calls = []
    for _ in range(3):
        before = len(filled)
        got = made(x)
        np.testing.assert_allclose(
            got, burn.compile(lambda x: burn.softmax(x @ x.T, axis=0).sum(1), (x,))(x), rtol=1e-4
        )
        calls.append(any(filled[before:]))
    assert calls == [True] * 3


@pytest.mark.skipif(os.environ.get("BURN_GUARD") != "end", reason="tests/runtime/test_poison.py runs it")
@pytest.mark.parametrize("behind", [None, 0, 300])
def test_guard(gpu: SimulatedGPU, behind: int | None) -> None:
    """A kernel that writes so many bytes behind a planned buffer fails the run, and the error names it."""
    x = np.random.default_rng(4).standard_normal((40, 9)).astype(np.float32)

    def function(x: burn.Tensor) -> burn.Tensor:
        return burn.softmax(x @ x.T, axis=0).sum(1)

    made = burn.compile(function, (x,), cache=False, device="cuda")

    def stray(image: str, name: str, blocks: int, threads: int, shared: int, words: list[int]) -> None:
        gpu.launch(image, name, blocks, threads, shared, words)
        if behind is not None and len(gpu.launched) == 1:
            *_, written = (w for w in words if w > 1 << 32)
            ctypes.c_char.from_address(written + 40 * 40 * 4 + behind).value = b"\0"

    simulation().on_launch(stray)
    if behind is not None:
        with pytest.raises(
            RunError, match=rf"kernel_\w+ wrote behind a buffer of 6400 bytes, up to {behind + 1} bytes"
        ):
            made(x)
    for _ in range(3):
        np.testing.assert_allclose(made(x), np.asarray(burn.compile(function, (x,))(x)), rtol=1e-4)


@pytest.mark.parametrize(("depth", "columns"), [(600, 600), (16, 513), (512, 16)])
def test_attention_over_channels(gpu: SimulatedGPU, depth: int, columns: int) -> None:
    """Blocks of deep heads would not fit the shared memory: such attention is two matmuls and a softmax."""
    draws = np.random.default_rng(depth)
    q, k, v = (draws.standard_normal((1, 2, 5, d)).astype(np.float32) for d in (depth, depth, columns))
    made = both(lambda q, k, v: ops.attention(q, k, v, scale=0.04), q, k, v, tolerance=1e-4)
    kinds = {kernel.kind for kernel in made.artefact.kernels}
    assert ("attention" in kinds) == (max(depth, columns) <= 512)
