"""A device with little memory: what fails raises an error, and what follows works.

Each test runs in a process of its own with a library that lets calls fail (failing_library.c).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from burn.runtime.device import library

pytestmark = pytest.mark.usefixtures("webgpu")

NATIVE = Path(__file__).parents[3] / "burn" / "runtime" / "native"

HEAD = """
import ctypes, os, numpy as np, burn
from burn.errors import BurnError
from burn.runtime.device import device
failing = ctypes.CDLL(os.environ["BURN_WGPU_LIBRARY"])
budget = ctypes.c_uint64.in_dll(failing, "failing_budget")
groups = ctypes.c_int.in_dll(failing, "failing_groups")
def tensor(mb): return burn.tensor(np.full(mb << 18, mb, np.float32)).to("wgpu")
def check(*tensors):
    for each in tensors:
        x = np.asarray(each)
        assert (x == x.size >> 18).all()
def fails(call, text):
    try:
        call()
    except (BurnError, MemoryError, RuntimeError) as error:
        assert text in str(error), error
    else:
        raise AssertionError("no error")
first = tensor(1)
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory, webgpu: None) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("failing") / "libfailing.so"
    source = Path(__file__).with_name("failing_library.c")
    real = library("wgpu")
    assert real is not None
    # functions that it does not have are found in the real library, on which it depends
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}", f'-DREAL="{real}"']
    subprocess.run([compiler, *flags, str(source), "-o", str(made), "-Wl,--no-as-needed", real], check=True)
    return made


def run(text: str, failing: Path, **further: str) -> None:
    env = {**os.environ, "BURN_WGPU_LIBRARY": str(failing), **further}
    made = subprocess.run(
        [sys.executable, "-c", f"{HEAD}{text}\nprint('done')"], env=env, capture_output=True, text=True
    )
    assert made.stdout == "done\n", made.stderr


def test_a_page_that_cannot_grow_is_followed_by_another(failing: Path) -> None:
    """32 MB are in use; to grow the page takes 32 + 50 MB, a second page 20 MB."""
    text = """
second = tensor(20)
budget.value = 70 << 20
third = tensor(20)
fails(lambda: tensor(40), "out of memory")
budget.value = 1 << 40
check(tensor(40), first, second, third)
"""
    run(text, failing, BURN_WGPU_BINDING=str(64 << 20))


def test_a_large_constant_finds_neighbouring_pages(failing: Path) -> None:
    """Four constants of 12 MB find blocks that an earlier program left, one in every second page. The last takes two pages."""
    text = """
kept = [tensor(mb) for mb in (9, 12) * 4]
del kept
draw = np.random.default_rng(0).random
weights = [draw((1024, columns), np.float32) for columns in (3072, 3072, 3072, 3072, 6144)]
x = draw((1, 1024), np.float32)
products = burn.compile(lambda x: tuple(x @ weight for weight in weights), (x,), cache=False, device="wgpu")
for got, weight in zip(products(x), weights, strict=True):
    np.testing.assert_allclose(got, x @ weight, rtol=1e-4)
check(first)
"""
    run(text, failing, BURN_WGPU_BINDING=str(16 << 20))


def test_memory_for_reading_fails_once(failing: Path) -> None:
    text = """
budget.value = 0
fails(lambda: np.asarray(first), "out of memory")
budget.value = 1 << 40
check(first, tensor(3), first)
"""
    run(text, failing)


def test_bindings_that_fail_are_made_later(failing: Path) -> None:
    """A page grows, but its bindings cannot be made: launches raise the error, and later ones work."""
    text = """
second = tensor(20)
groups.value = 1
double = burn.compile(lambda x: x * 2, (np.ones(1 << 20, np.float32),), cache=False, device="wgpu")
x = np.arange(1 << 20, dtype=np.float32)
fails(lambda: double(x), "out of memory")
np.testing.assert_array_equal(double(x), x * 2)
check(first, second)
"""
    run(text, failing)


def test_nothing_is_submitted_to_a_lost_device(failing: Path) -> None:
    """A submission to a lost device may end the process. A caller gets the error, and then a new session begins: tensors of the
    lost device raise it again, programs raise it once and are loaded anew."""
    text = """
double = burn.compile(lambda x: x * 2, (np.ones(300, np.float32),), cache=False, device="wgpu")
x = np.arange(300, dtype=np.float32)
np.testing.assert_array_equal(double(x), x * 2)
second = tensor(40)
failing.failing_lose()
submissions = ctypes.c_int.in_dll(failing, "failing_submissions")
before = submissions.value
fails(lambda: double(x), "the device was lost")
assert submissions.value == before > 0
for _ in range(3):
    np.testing.assert_array_equal(double(x), x * 2)
fails(lambda: np.asarray(first), "the device was lost")
check(tensor(1), tensor(40))
del first, second
profile = double.profile(x)
assert profile.rows
check(tensor(2), tensor(40))
failing.failing_lose()
fails(lambda: tensor(3), "the device was lost")
check(tensor(1))
fails(lambda: double(x), "the device was lost")  # each program raises it once
np.testing.assert_array_equal(double(x), x * 2)
"""
    run(text, failing)


def test_moments_and_recordings_of_a_lost_device_raise(failing: Path) -> None:
    text = """
native = device("wgpu").native
kernel = burn.jit(lambda x: burn.sin(x) @ x, device="wgpu")
x = np.ones((40, 40), np.float32)
for _ in range(4):  # recorded
    want = np.asarray(kernel(x))
moment = native.mark()
failing.failing_lose()
fails(lambda: np.asarray(kernel(x)), "the device was lost")
np.testing.assert_array_equal(np.asarray(kernel(x)), want)
fails(lambda: native.mark().since(moment), "the device was lost")
assert isinstance(native.mark().since(native.mark()), int)
"""
    run(text, failing)


LOWEST = """
def function(x, y, index):
    z = burn.scaled_dot_product_attention(x[None], y[None], y[None])[0]
    return burn.softmax(x @ y.T, axis=1), burn.argmax(z, axis=1), burn.zeros((70,)).at[index].add(x[:, 0]), burn.sort(z, axis=0)
rng = np.random.default_rng(0)
x, y, index = (*(rng.standard_normal((70, 48)).astype(np.float32) for _ in range(2)), rng.integers(0, 70, 70))
made, want = (burn.compile(function, (x, y, index), cache=False, device=d) for d in ("wgpu", "cpu"))
for a, b in zip(made(x, y, index), want(x, y, index), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
assert made.profile(x, y, index).seconds > 0
assert device("wgpu").facts()["memory"] == MEMORY << 20
"""


@pytest.mark.parametrize("buffers", [1, 3, 8])
def test_the_least_limits_suffice(failing: Path, buffers: int) -> None:
    """WebGPU's default limits, fewer storage buffers, and no optional feature: neither timestamps nor f16."""
    limits = {"FAILING_WORKGROUP_MEMORY": "16384", "FAILING_INVOCATIONS": "256", "FAILING_FEATURES": "none"}
    text = LOWEST.replace("MEMORY", str(4 * buffers))
    run(text, failing, BURN_WGPU_BINDING=str(4 << 20), FAILING_STORAGE_BUFFERS=str(buffers), **limits)


def test_a_grid_has_more_workgroups_than_a_dimension(failing: Path) -> None:
    """Both kinds of loop, a matmul and a copy by words, with 100 workgroups in a dimension."""
    text = """
rng = np.random.default_rng(0)
x, y = rng.standard_normal(300001).astype(np.float32), rng.standard_normal((301, 700)).astype(np.float32)
def function(x, y): return x * 2, y.sum(axis=1), y @ y.T, burn.concat([x, x[:7]], axis=0)
made = burn.compile(function, (x, y), cache=False, device="wgpu")
for got, want in zip(made(x, y), (x * 2, y.sum(1), y @ y.T, np.concatenate([x, x[:7]])), strict=True):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
"""
    run(text, failing, FAILING_WORKGROUPS="100")


@pytest.mark.parametrize(("way", "count"), [("", 1), ("bits", 0)])
def test_float16_by_instructions_that_agree_with_arithmetic_on_bits(failing: Path, way: str, count: int) -> None:
    text = f"""
if "llvmpipe" not in device("wgpu").facts()["name"]:
    print("done")
    raise SystemExit
x = np.arange(100).astype(np.float16)
made = burn.compile(lambda x: x * 3, (x,), cache=False, device="wgpu")
assert (made(x) == x * 3).all()
found = ctypes.c_int.in_dll(failing, "failing_by_instructions").value
assert found == {count}, found
"""
    run(text, failing, BURN_WGPU_HALF=way)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("FAILING_WORKGROUP_MEMORY", "16380", "allows 16380 bytes of workgroup memory; kernels need 16384"),
        ("FAILING_INVOCATIONS", "128", "allows 128 invocations of a workgroup; kernels need 256"),
        ("FAILING_STORAGE_BUFFERS", "0", "allows 0 storage buffers of a stage; kernels need 1"),
    ],
)
def test_an_adapter_with_lower_limits_is_refused(failing: Path, name: str, value: str, text: str) -> None:
    """The error has the adapter's name and the limit."""
    code = """
import burn, os
try:
    burn.tensor([1.0]).to("wgpu")
except burn.errors.BurnError as error:
    print(error)
"""
    env = {**os.environ, "BURN_WGPU_LIBRARY": str(failing), name: value}
    made = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert text in made.stdout, made.stderr


def test_a_process_has_one_library(failing: Path) -> None:
    text = f"""
from burn.runtime import _native
for _ in range(2):
    try:
        _native.device_count("wgpu", {library("wgpu")!r})
    except RuntimeError as error:
        assert "this process uses another library of WebGPU" in str(error), error
    else:
        raise AssertionError("no error")
check(first, tensor(2))
"""
    run(text, failing)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("HALF", "bit", 'BURN_WGPU_HALF is "bit", and can only be bits'),
        ("CHECKS", "yes", 'BURN_WGPU_CHECKS is "yes", and can only be 0 or 1'),
        ("BINDING", "64MB", 'BURN_WGPU_BINDING is "64MB", and can only be a number of at least 65536 bytes'),
        ("BINDING", "-1", 'BURN_WGPU_BINDING is "-1", and can only be a number of at least 65536 bytes'),
        ("BINDING", "65535", 'BURN_WGPU_BINDING is "65535", and can only be a number of at least 65536 bytes'),
    ],
)
def test_an_environment_variable_without_meaning_is_refused(name: str, value: str, text: str) -> None:
    code = """
import burn
for _ in range(2):
    try:
        burn.tensor([1.0]).to("wgpu")
    except burn.errors.BurnError as error:
        print(error)
"""
    env = {**os.environ, f"BURN_WGPU_{name}": value}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert run.stdout.count(text) == 2, run.stdout + run.stderr


@pytest.mark.parametrize("name", ["HALF", "CHECKS", "BINDING"])
def test_an_empty_environment_variable_is_not_set(failing: Path, name: str) -> None:
    run("check(first)", failing, **{f"BURN_WGPU_{name}": ""})
