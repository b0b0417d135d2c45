"""Calling an executable: what it accepts, what it refuses and how it says so."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import burn
from burn.errors import InputError, RunError
from burn.runtime import sizes
from burn.runtime.arrays import Array, Unfit, to_numpy
from burn.runtime.artefact import Artefact, Constant, KernelInfo, Signature, Target, ValueSpec
from burn.runtime.executable import Executable
from tests.runtime.programs import scale_object

TARGET = Target("x86_64-unknown-linux-gnu", ("avx2",))


@pytest.fixture(scope="module")
def artefact() -> Artefact:
    """y[n] = 3 * x[n] + 1."""
    return Artefact(
        signature=Signature((ValueSpec("x", "float32", ("n",)),), (ValueSpec("y", "float32", ("n",)),)),
        target=TARGET,
        code=scale_object(),
        constants=(Constant.of(np.array([3], np.float32)),),
        kernels=(KernelInfo("scale", "pointwise", ("Mul_0",), "2*n", "8*n"),),
        sites=("Mul_0", "Check_1"),
    )


@pytest.fixture
def scale(artefact: Artefact) -> Executable:
    return Executable(artefact)


def with_inputs(artefact: Artefact, *inputs: ValueSpec) -> Executable:
    """The same program with a signature of more inputs than it reads."""
    return Executable(replace(artefact, signature=Signature(inputs, artefact.signature.outputs)))


X = np.array([1, 2, 5], np.float32)
Y = np.array([4, 7, 16], np.float32)


def test_by_position_by_name_and_as_a_mapping(scale: Executable) -> None:
    np.testing.assert_array_equal(scale(X), Y)
    np.testing.assert_array_equal(scale(x=X), Y)
    np.testing.assert_array_equal(scale.run({"x": X})["y"], Y)
    assert repr(scale) == "Executable(x: float32[n] -> y: float32[n])"


@pytest.mark.parametrize(
    "value",
    [
        np.repeat(X, 2)[::2],
        X.astype(">f4"),
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32),
        [1, 2, 5],
        [1.0, 2.0, 5.0],
        (1, 2, 5),
        Array(X),
    ],
    ids=["strided", "big-endian", "unaligned", "ints", "floats", "tuple", "Array"],
)
def test_what_can_be_converted_is(scale: Executable, value: object) -> None:
    np.testing.assert_array_equal(np.asarray(scale(value)), Y)


def test_every_problem_is_listed_at_once(artefact: Artefact) -> None:
    executable = with_inputs(
        artefact,
        ValueSpec("x", "float32", ("n",)),
        ValueSpec("a", "float32", ("n", 4)),
        ValueSpec("b", "int64", ()),
        ValueSpec("c", "float32", ("m", "m")),
        ValueSpec("d", "float32", ("2*n",)),
    )
    with pytest.raises(InputError) as error:
        executable(
            X, np.ones((5, 3), np.float32), np.float32(3), z=1, x=X, c=np.ones(3, np.float32), d=np.ones(5, np.float32)
        )
    text = str(error.value)
    for expected in (
        "there is no input 'z' (the inputs are 'x', 'a', 'b', 'c', 'd')",
        "input 'x' was given both by position and by name",
        "input 'b' has element type float32, must be int64",
        "input 'c' has shape [3], must have 2 axes: [m, m]",
        "input 'a' axis 0 is 5, must be n = 3 (n = 3 from input 'x' axis 0)",
        "input 'a' axis 1 is 3, must be 4",
        "input 'd' axis 0 is 5, must be 2*n = 6 (n = 3 from input 'x' axis 0)",
    ):
        assert expected in text, expected
    with pytest.raises(InputError, match="input 'a' is missing"):
        executable(X)
    with pytest.raises(InputError, match="6 inputs were given by position, there are 5"):
        executable(*[X] * 6)


def test_expressions_are_solved_and_checked() -> None:
    """By the compiled program itself, for hosts that know nothing of expressions."""

    def add_first(x: burn.Tensor, a: burn.Tensor) -> burn.Tensor:
        return x[: a.shape[0]] + a

    executable = burn.compile(add_first, ("float32[2*n + 1]", "float32[n]"))
    np.testing.assert_array_equal(executable(X, X[:1]), [2])
    with pytest.raises(InputError, match=r"axis 0 is 3, must be 2\*n \+ 1 = 5"):
        executable(X, X[:2])
    alone = burn.compile(lambda x: x[: (x.shape[0] - 1) // 2] * 2, ("float32[2*n + 1]",))
    np.testing.assert_array_equal(alone(X), [2])
    with pytest.raises(InputError, match="no possible value"):
        alone(X[:2])
    several = burn.compile(lambda x, y: x.sum() + y, ("float32[a*b, a]", "float32[b]"))
    np.testing.assert_array_equal(several(np.ones((6, 2), np.float32), X), X + 12)
    with pytest.raises(InputError, match=r"a\*b"):
        several(np.ones((5, 2), np.float32), X)


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        ([0.1], "float32", "cannot represent exactly"),
        ([1.5], "int64", "holds Python float64"),
        ([300], "uint8", "cannot represent exactly"),
        ([-1], "uint8", "cannot represent exactly"),
        ([2**24 + 1], "float32", "cannot represent exactly"),
        ([True], "int64", "holds Python bool"),
        ([1], "bool", "holds Python int64"),
        ([[1], [1, 2]], "int64", "not a regular array"),
        (["a"], "int64", "not an array of numbers"),
        ([9], "int4", "cannot represent exactly"),
        ("text", "int64", "is a str"),
        (None, "int64", "is a NoneType"),
        (np.ones(1), "float32", "has element type float64, must be float32"),
    ],
)
def test_inexact_values_are_refused(value: object, dtype: str, message: str) -> None:
    with pytest.raises(Unfit, match=message):
        to_numpy(value, dtype)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1.5, "bfloat16"), (7, "int4"), (True, "bool"), (2**63, "uint64"), (float("nan"), "float16"), ([], "float32")],
)
def test_exact_values_are_taken(value: Any, dtype: str) -> None:
    array = to_numpy(value, dtype)
    assert array.shape == np.shape(value)
    np.testing.assert_array_equal(array.astype(np.float64), np.asarray(value, np.float64))


def test_run_errors_name_the_node_and_the_value(scale: Executable) -> None:
    with pytest.raises(RunError, match=r"node 'Check_1': index 2 is out of range"):
        scale(np.array([1, 2, -1], np.float32))
    np.testing.assert_array_equal(scale(X), Y)  # and the executable still works


def test_threads_may_call_at_once(scale: Executable) -> None:
    wrong: list[int] = []

    def call(size: int) -> None:
        x = np.arange(size, dtype=np.float32)
        wrong.extend(size for _ in range(100) if not np.array_equal(scale(x), x * 3 + 1))

    threads = [threading.Thread(target=call, args=(size,)) for size in (10, 1000, 5000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_code_for_another_machine_is_refused(artefact: Artefact) -> None:
    for target, message in (
        (Target("aarch64-unknown-linux-gnu"), "compiled for aarch64"),
        (Target("x86_64-unknown-linux-gnu", ("avx2", "avx9000")), "this CPU lacks avx9000"),
    ):
        with pytest.raises(RunError, match=message):
            Executable(replace(artefact, target=target))
    with pytest.raises(RunError, match="cannot be loaded"):
        Executable(replace(artefact, code=b"no object"))


def test_donation(artefact: Artefact) -> None:
    executable = with_inputs(artefact, ValueSpec("x", "float32", ("n",), donated_to=0))
    x = executable(np.ones(4096, np.float32))
    y = executable.run({"x": x}, donate=["x"])["y"]
    assert y.ctypes.data == x.ctypes.data
    y.flags.writeable = False
    with pytest.raises(InputError, match="read-only"):
        executable.run({"x": y}, donate=["x"])
    with pytest.raises(InputError, match="no input 'q' to donate"):
        executable.run({"x": x}, donate=["q"])
    two = with_inputs(artefact, ValueSpec("x", "float32", ("n",), donated_to=0), ValueSpec("a", "float32", ("n",)))
    with pytest.raises(InputError, match="'x' is donated but shares memory"):
        two.run({"x": x, "a": x}, donate=["x"])


def test_profile(scale: Executable) -> None:
    profile = scale.profile(np.ones(50_000, np.float32), repeat=3)
    (row,) = profile.rows
    assert (row.kernel.name, row.calls, row.flops, row.bytes) == ("scale", 1, 100_000, 400_000)
    assert 0 < row.least <= row.seconds <= row.most
    assert len(profile.runs) == profile.inferences == 3 and profile.seconds <= max(profile.runs)
    assert row.gflops_per_second == pytest.approx(100_000 / row.seconds / 1e9)
    (event,) = profile.events
    assert event.kernel.name == "scale" and not event.on_gpu and event.began >= 0
    assert event.seconds <= row.most


def test_a_trace_is_a_file_that_viewers_read(scale: Executable, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    profile = scale.profile(np.ones(50_000, np.float32))
    profile.save_trace(path)
    host, gpu, event = json.loads(path.read_text())["traceEvents"]
    assert (host["args"]["name"], gpu["args"]["name"]) == ("host", "GPU")
    assert (event["ph"], event["name"], event["tid"]) == ("X", "scale", 0)
    assert event["dur"] == pytest.approx(profile.events[0].seconds * 1e6)
    with pytest.raises(OSError):
        profile.save_trace(tmp_path / "absent" / "trace.json")
    assert list(tmp_path.iterdir()) == [path]


class Foreign:
    """An array of another library: DLPack is all it has."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = Array(array)

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_dlpack_in_dlpack_out_without_a_copy(scale: Executable) -> None:
    y = scale(Foreign(X))
    assert isinstance(y, Array)
    assert (y.dtype, y.shape) == ("float32", (3,))
    back = np.from_dlpack(y)
    np.testing.assert_array_equal(back, Y)
    assert back.ctypes.data == y.numpy().ctypes.data
    assert to_numpy(Foreign(X), "float32").ctypes.data == X.ctypes.data
    half = np.array([1.5, -2], ml_dtypes.bfloat16)
    np.testing.assert_array_equal(to_numpy(Foreign(half), "bfloat16"), half)
    with pytest.raises(InputError, match="has element type bfloat16"):
        scale(Foreign(half))


def test_strided_dlpack_is_copied_right() -> None:
    strided = np.arange(24, dtype=np.int32).reshape(4, 6).T

    class Strided(Foreign):
        def __dlpack__(self, **options: object) -> object:
            return strided.__dlpack__()

    np.testing.assert_array_equal(to_numpy(Strided(X), "int32"), strided)


def test_memory_of_dlpack_tensors_is_released() -> None:
    import gc
    import weakref

    class Owner(np.ndarray):
        pass

    owner = np.ones(1000, np.float32).view(Owner)
    alive = weakref.ref(owner)
    array = to_numpy(Foreign(owner), "float32")
    del owner
    gc.collect()
    assert alive() is not None
    del array
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "text",
    ["n +", "f(n)", "n ** 2", "n[0]", "1.5", "min()", "'a'", "n if n else 1", "(" * 5000, "-" * 3999 + "n", "True"],
)
def test_size_expressions_are_arithmetic_only(text: str) -> None:
    with pytest.raises(ValueError, match="size expression"):
        sizes.parse(text)


@pytest.mark.parametrize(
    ("text", "value"), [("n", 7), ("2*n - 1", 13), ("(n + 3) // 4", 2), ("min(n, m, 9) % 2", 1), ("-n + max(n, m)", 0)]
)
def test_size_expressions(text: str, value: int) -> None:
    assert sizes.parse(text).evaluate({"n": 7, "m": 5}) == value
