"""Whole programs on WebGPU give the CPU's numbers: every kind of kernel, odd sizes, failures, copies, profiles."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.adapters.onnx import load_onnx
from burn.compiler import executable
from burn.errors import DeviceError, IndexRunError, RunError
from burn.options import Options
from burn.runtime.device import device
from tests.dialect.adjoint.extreme_windows import OPTIONS, expected, infinite, pulled_back
from tests.kernels.interpreting import sizes_of
from tests.passes.cases import Case, cases, random, random_weights, read
from tests.passes.test_random import Maker

pytestmark = pytest.mark.usefixtures("webgpu")

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def both(function: Callable[..., Any], *arrays: np.ndarray, dynamic: Any = None, tolerance: float = 1e-5) -> Any:
    """Runs a function on WebGPU and on the CPU, three times: the last runs are recordings. Returns the executable for WebGPU."""
    made, on_cpu = (burn.compile(function, arrays, dynamic, cache=False, device=where) for where in ("wgpu", "cpu"))
    want = on_cpu(*arrays)
    for _ in range(3):
        got = made(*arrays)
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            if a.dtype.kind in "fc":
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(a, b)
    return made


def on_host(made: Any) -> list[str]:
    return [k.name for k in made.artefact.kernels if k.kind == "host"]


# ---- kinds of kernels -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 7])
def test_named_sizes(n: int) -> None:
    both(lambda x: burn.softmax(x * 2 + 1, axis=1) @ x.T.reshape(5, -1), floats(n, 5), dynamic={"x": {0: "n"}})


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (2, 257), (300, 7), (1, 20000), (5, 9000)])
def test_reductions(rows: int, columns: int) -> None:
    def function(x: Any) -> Any:
        return x.sum(axis=1), x.max(axis=0), burn.argmax(x, axis=1), burn.argmin(x, axis=0), x.sum(), x.mean(axis=0)

    assert not on_host(both(function, floats(rows, columns), tolerance=1e-4))


@pytest.mark.parametrize(
    "shape", [(1, 8, 1), (5, 16, 7), (64, 33, 65), (130, 100, 50), (17, 300, 200), (0, 9, 4), (9, 0, 4)]
)
def test_matmuls(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    made = both(lambda x, w: burn.tanh(x @ w + 1), floats(2, m, k), floats(k, n, seed=1), tolerance=1e-4)
    assert not on_host(made)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int8", "int64"])
def test_matmuls_of_other_types(dtype: str) -> None:
    import ml_dtypes  # noqa: F401  names bfloat16

    x, w = (np.round(floats(20, 20, seed=s) * 3).astype(dtype) for s in (1, 2))
    both(lambda x, w: x @ w, x, w, tolerance=0)


@pytest.mark.parametrize(("stride", "groups", "kernel"), [(1, 1, 3), (2, 1, 5), (1, 4, 3), (3, 8, 1)])
def test_convolutions(stride: int, groups: int, kernel: int) -> None:
    x, w = floats(2, 8, 11, 13), floats(16, 8 // groups, kernel, kernel, seed=1)
    pads = (kernel // 2,) * 2

    def function(x: Any, w: Any) -> Any:
        return ops.conv(x, w, strides=(stride, stride), dilations=(1, 1), low=pads, high=pads, groups=groups)

    made = both(function, x, w, tolerance=1e-4)
    assert not on_host(made)


@pytest.mark.parametrize(
    ("queries", "keys", "causal"), [(1, 1, False), (7, 70, False), (65, 65, True), (3, 200, False)]
)
def test_attention(queries: int, keys: int, causal: bool) -> None:
    q, k, v = floats(2, 3, queries, 20), floats(2, 3, keys, 20, seed=1), floats(2, 3, keys, 24, seed=2)
    made = both(lambda q, k, v: ops.attention(q, k, v, scale=0.3, causal=causal), q, k, v)
    assert not on_host(made)


@pytest.mark.untuned
@pytest.mark.parametrize("operand", range(3))
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_attention_of_nan_and_infinity(operand: int, value: float) -> None:
    """A value with the weight zero counts: 0 * inf is NaN."""
    arrays = [floats(1, 2, 7, 20, seed=s) for s in range(3)]
    arrays[operand][0, 1, 5, 3] = value
    both(lambda q, k, v: ops.attention(q, k, v, scale=0.3, causal=True), *arrays)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("options", OPTIONS[1:3], ids=["odd", "uneven"])
def test_gradients_of_infinite_windows(options: dict[str, Any], kind: str) -> None:
    drawn = np.random.default_rng(2)
    x = infinite(kind, drawn)
    found, g = pulled_back(x, options, kind, drawn, device="wgpu")
    np.testing.assert_array_equal(found, expected(x, g, kind, options))


def test_scans_and_sequences() -> None:
    assert not on_host(both(lambda x: (burn.cumsum(x, axis=1), burn.cumsum(x, axis=0)), floats(6, 90), tolerance=1e-4))


def test_gathers_and_scatters() -> None:
    rng = np.random.default_rng(0)
    x, index = floats(50, 4), rng.integers(-50, 50, 200)

    def function(x: Any, i: Any) -> Any:
        return x[i], burn.zeros((50, 4)).at[i].add(x[i])

    assert not on_host(both(function, x, index, tolerance=1e-4))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 17, 1001])
def test_elements_smaller_than_a_word(size: int) -> None:
    """Neighbouring elements share words, which different workgroups write."""
    rng = np.random.default_rng(size)
    a, b = rng.integers(-128, 128, (2, size)).astype(np.int8)
    h = floats(size).astype(np.float16)

    def function(a: Any, b: Any, h: Any) -> Any:
        return a + b, a < b, h * h, burn.concat([a, b, a[: size // 2]], axis=0), (h > 0)[::-1]

    both(function, a, b, h)


def test_random_numbers_have_the_same_bits() -> None:
    def draw(where: str) -> list[np.ndarray]:
        burn.random.manual_seed(3)
        made = burn.jit(lambda: (burn.random.uniform((77,)), burn.random.randint(0, 1000, (33,))), device=where)
        return [np.asarray(x) for x in (*made(), *made())]

    for a, b in zip(draw("wgpu"), draw("cpu"), strict=True):
        np.testing.assert_array_equal(a, b)


def test_doubles_run_on_the_host() -> None:
    made = both(lambda x: burn.exp(x).sum(axis=0), floats(9, 9).astype(np.float64), tolerance=1e-12)
    assert on_host(made)


def test_a_whole_model() -> None:
    on_gpu, on_cpu = (load_onnx(DIGITS, device=device(name)) for name in ("wgpu", "cpu"))
    (spec,) = on_cpu.inputs
    shape = [d if isinstance(d, int) else 3 for d in spec.dims]
    image = np.random.default_rng(0).integers(0, 255, shape).astype(spec.dtype)
    (got,), (want,) = (tuple(made.run({spec.name: image}).values()) for made in (on_gpu, on_cpu))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert not on_host(on_gpu)


# ---- the device -------------------------------------------------------------------------------------------------------------
def test_an_index_out_of_range_is_an_error_and_the_program_works_again() -> None:
    made = burn.compile(lambda x, i: x[i] * 2, (floats(5), np.array([1, 2])), cache=False, device="wgpu")
    for _ in range(3):
        with pytest.raises(IndexRunError, match="5"):
            made(floats(5), np.array([1, 5]))
        np.testing.assert_array_equal(made(floats(5), np.array([1, -1])), floats(5)[[1, -1]] * 2)


def test_a_profile_of_more_launches_than_a_set_of_timestamps_has() -> None:
    """A launch has two timestamps, a set 4096."""
    x = np.ones(8, np.float32)
    made = burn.compile(
        lambda x: burn.fori_loop(0, 2100, lambda i, s: burn.tanh(s), x), (x,), cache=False, device="wgpu"
    )
    made(x)
    began = time.perf_counter()
    events = [event for event in made.profile(x).events if event.on_gpu]
    passed = time.perf_counter() - began
    assert len(events) >= 2100
    assert sum(event.seconds for event in events) <= passed
    assert all(event.seconds >= 0 for event in events)


def test_tensors_stay_on_the_device() -> None:
    x = burn.tensor(floats(40, 30)).to("wgpu")
    y = burn.relu(x @ x.T).sum(axis=0)
    assert str(y.device) == "wgpu:0"
    np.testing.assert_allclose(np.asarray(y), np.maximum(floats(40, 30) @ floats(40, 30).T, 0).sum(0), rtol=1e-4)


def test_memory_grows_and_runs_out_with_a_named_error() -> None:
    """The heap grows from 16 MB; its limit is the device's largest binding."""
    facts = device("wgpu").facts()
    x = np.arange(6 << 20, dtype=np.float32)
    np.testing.assert_array_equal(burn.compile(lambda x: x + 1, (x,), cache=False, device="wgpu")(x), x + 1)
    elements = facts["memory"] // 4
    wide = burn.compile(lambda x: burn.broadcast_to(x, (elements,)) * 2, (x[:1],), cache=False, device="wgpu")
    with pytest.raises((RunError, DeviceError), match="out of memory"):
        wide(x[:1])
    np.testing.assert_array_equal(burn.compile(lambda x: x + 1, (x,), cache=False, device="wgpu")(x), x + 1)


PAGES = """
import numpy as np, burn
from burn.runtime.device import device
assert device("wgpu").facts()["memory"] == 8 << 20
rng = np.random.default_rng(0)
weights = [rng.standard_normal((300, 300)).astype(np.float32) for _ in range(6)]  # 360 kB each: two in a page
flags = rng.random(300000) < 0.5
def function(x, flags, index):
    for w in weights:
        x = burn.tanh(x @ burn.constant(w) / 16)
    return x, ~flags, burn.zeros((300,)).at[index].add(x[0]), burn.concat([flags, flags[:1001]], axis=0)
x, index = rng.standard_normal((200, 300)).astype(np.float32), rng.integers(0, 300, 300)
made, want = (burn.compile(function, (x, flags, index), cache=False, device=d) for d in ("wgpu", "cpu"))
for _ in range(3):
    for a, b in zip(made(x, flags, index), want(x, flags, index), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
for bad in (300, -301):
    index[7] = bad
    try:
        made(x, flags, index)
    except burn.errors.IndexRunError as error:
        assert str(bad) in str(error)
    else:
        raise AssertionError("no error")
print("agrees")
"""


ACROSS = """
import numpy as np, burn
from burn.runtime.device import device
rng = np.random.default_rng(0)
weight = rng.standard_normal((700, 1000)).astype(np.float32)  # 2.8 MB: three pages
flags = rng.random(1200001) < 0.5  # not in words
def function(x, flags):
    return x @ burn.constant(weight), ~flags
x = rng.standard_normal((9, 700)).astype(np.float32)
made, want = (burn.compile(function, (x, flags), cache=False, device=d) for d in ("wgpu", "cpu"))
for _ in range(3):
    for a, b in zip(made(x, flags), want(x, flags), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    del a
large = burn.tensor(weight.ravel()[:300000]).to("wgpu")
assert (np.asarray(large) == weight.ravel()[:300000]).all()
try:
    burn.tensor(np.zeros(2200000, np.float32)).to("wgpu")
    raise AssertionError("no error")
except (RuntimeError, MemoryError) as error:
    assert "a storage binding of" in str(error) and "has at most 1048576 bytes" in str(error), error
del large
assert (np.asarray(made(x, flags)[1]) == ~flags).all()
print("agrees")
"""


SUBSETS = """
import numpy as np, burn
rng = np.random.default_rng(0)
arrays, tensors, fill = [], [], []
for _ in range(6):  # a page each: 200 kB, and what is left
    arrays.append(rng.standard_normal(50000).astype(np.float32))
    tensors.append(burn.tensor(arrays[-1]).to("wgpu"))
    fill.append(burn.tensor(np.zeros(210000, np.float32)).to("wgpu"))
def total(*xs):
    return sum((i + 1) * x for i, x in enumerate(xs))
for count in range(1, 7):  # and a page for the result
    made = burn.compile(total, tuple(arrays[:count]), cache=False, device="wgpu")
    for _ in range(3):
        chosen = rng.permutation(6)[:count]
        got = np.asarray(made(*(tensors[i] for i in chosen)))
        np.testing.assert_allclose(got, total(*(arrays[i] for i in chosen)), rtol=1e-4, atol=1e-4)
print("agrees")
"""


@pytest.mark.parametrize(
    "text", [PAGES, ACROSS, SUBSETS], ids=["tensors in pages", "tensors of several pages", "subsets"]
)
def test_a_device_with_small_bindings(text: str) -> None:
    """The heap has several pages, and kernels select among them."""
    run = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "BURN_WGPU_BINDING": str(1 << 20)},
        capture_output=True,
        text=True,
    )
    assert run.stdout == "agrees\n", run.stderr


def test_training_on_the_device() -> None:
    """Gradients of a matmul, a softmax and gathers."""
    x, w, labels = floats(20, 12), floats(12, 5, seed=1), np.arange(20) % 5

    def loss(w: Any, x: Any, labels: Any) -> Any:
        return -burn.log(burn.softmax(x @ w, axis=1))[burn.arange(20), labels].mean()

    for a, b in zip(
        *(burn.jit(burn.value_and_grad(loss), device=where)(w, x, labels) for where in ("wgpu", "cpu")), strict=True
    ):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-6)


# ---- drawn programs ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("seed", range(3))
def test_random_program(seed: int, n: int) -> None:
    check(lambda: Maker(seed + 2000).make(), {"n": n}, seed)


KINDS = ("casts", "indexing", "one_hot", "reductions", "views")


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in cases() if c.name.startswith(KINDS)], ids=lambda c: c.name)
def test_case(case: Case) -> None:
    def make() -> Any:
        found = random_weights(read(case))
        return read(case, found)

    check(make, dict.fromkeys(sizes_of(make()), 3), 100)


def check(make: Callable[[], Any], sizes: dict[str, int], seed: int) -> None:
    """A program of the dialect on both devices."""
    arrays = [random(t, sizes, seed + i) for i, t in enumerate(make().input_types)]
    got, want = (executable(make(), Options(device=device(where)))(*arrays) for where in ("wgpu", "cpu"))
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        if a.dtype.kind == "f":
            np.testing.assert_allclose(
                a.astype(float), b.astype(float), rtol=2e-3 if a.itemsize == 2 else 2e-5, atol=1e-5
            )
        else:
            np.testing.assert_array_equal(a, b)
