"""Budgets of bytes and seconds for loads and runs, and runs that are ended from another thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import burn
from burn.cli.main import main
from burn.errors import BudgetExceeded, MemoryBudgetError, RunCancelled, TimeBudgetError, TypeMismatch
from burn.runtime import _native
from burn.runtime.budget import Limits, allocated, limited

FLOAT = TensorProto.FLOAT
of = helper.make_tensor_value_info
N = np.ones(4, np.float32)


def model(nodes: list, inputs: list, outputs: list, constants: list = []) -> bytes:  # noqa: B006
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def endless() -> bytes:
    """A loop of 2^62 iterations."""
    body = [helper.make_node("Identity", ["ci"], ["co"]), helper.make_node("Sin", ["v"], ["vo"])]
    inner = [of("i", TensorProto.INT64, []), of("ci", TensorProto.BOOL, []), of("v", FLOAT, [4])]
    graph = helper.make_graph(body, "b", inner, [of("co", TensorProto.BOOL, []), of("vo", FLOAT, [4])])
    node = helper.make_node("Loop", ["m", "", "x"], ["y"], body=graph)
    return model([node], [of("m", TensorProto.INT64, []), of("x", FLOAT, [4])], [of("y", FLOAT, [4])])


def long_kernel() -> tuple[burn.Executable, tuple[np.ndarray, ...]]:
    """One kernel of 10^12 steps, which takes minutes."""
    executable = burn.compile(lambda x, y: (x[:, None] - y[None, :]).abs().sum(-1), ("float32[m]", "float32[n]"))
    rng = np.random.default_rng(0)
    return executable, tuple(rng.standard_normal(1_000_000).astype(np.float32) for _ in range(2))


@contextmanager
def again_and_again(act: Callable[[], object]) -> Iterator[None]:
    """Calls a function from another thread during the block. One call could come before the run that it is for."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.2):
            act()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def ended_in(call: Callable[[], object], error: type[BaseException]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_seconds_of_a_run() -> None:
    executable = burn.load(endless(), cache=False)
    executable.limit(max_seconds=0.2)
    said = ended_in(lambda: executable(np.int64(1 << 62), N), TimeBudgetError)
    assert "max_seconds" in said and "0.2 s" in said
    assert isinstance(TimeBudgetError("x"), (TimeoutError, BudgetExceeded))
    for _ in range(50):  # another run has its own time, which it exceeds only if the machine is busy
        with suppress(TimeBudgetError):
            executable(np.int64(3), N)
            break
    else:
        pytest.fail("every run is ended")
    executable.limit()
    executable(np.int64(100_000), N)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", ["limit", "cancel"])
def test_long_kernels_are_ended(way: str, threads: int) -> None:
    executable, inputs = long_kernel()
    before = _native.num_threads()
    burn.set_num_threads(threads)
    try:
        if way == "limit":
            executable.limit(max_seconds=0.3)
            ended_in(lambda: executable(*inputs), TimeBudgetError)
        else:
            with again_and_again(executable.cancel):
                assert "cancelled" in ended_in(lambda: executable(*inputs), RunCancelled)
    finally:
        burn.set_num_threads(before)


def test_cancelling_ends_the_runs_under_way_and_no_others() -> None:
    executable, other = burn.load(endless(), cache=False), burn.load(endless(), cache=False)
    ended: list[str] = []

    def work() -> None:
        with pytest.raises(RunCancelled):
            executable(np.int64(1 << 62), N)
        ended.append("cancelled")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    other.limit(max_seconds=0.5)
    ended_in(lambda: other(np.int64(1 << 62), N), TimeBudgetError)
    while len(ended) < 3:
        executable.cancel()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    executable(np.int64(3), N)
    executable.cancel()  # nothing is under way
    executable(np.int64(3), N)


def test_bytes_of_a_run() -> None:
    executable = burn.compile(lambda x: burn.concat([x @ x, x], axis=0), ("float32[n, n]",))
    executable.limit(max_memory="1MB")
    small, large = np.ones((100, 100), np.float32), np.ones((1000, 1000), np.float32)
    for _ in range(3):
        assert executable(small).shape == (200, 100)
        said = ended_in(lambda: executable(large), MemoryBudgetError)
        assert "max_memory" in said and "1,000,000" in said
    assert issubclass(MemoryBudgetError, MemoryError)
    executable.limit(max_memory=10_000)
    ended_in(lambda: executable(small), MemoryBudgetError)  # with a plan made before
    executable.limit()
    assert executable(large).shape == (2000, 1000)


def test_bytes_that_grow_in_a_loop() -> None:
    """The size of a stacked loop output is measured at run time."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["ci"], ["co"]), helper.make_node("Concat", ["v", "v"], ["vo"], axis=0)],
        "b",
        [of("i", TensorProto.INT64, []), of("ci", TensorProto.BOOL, []), of("v", FLOAT, None)],
        [of("co", TensorProto.BOOL, []), of("vo", FLOAT, None)],
    )
    node = helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)
    content = model([node], [of("m", TensorProto.INT64, []), of("x", FLOAT, [4])], [of("y", FLOAT, None)])
    executable = burn.load(content, cache=False, max_memory="50MB")
    assert executable(np.int64(10), N).size == 4096
    ended_in(lambda: executable(np.int64(40), N), MemoryBudgetError)


def many_nodes(count: int) -> bytes:
    """Each with a constant of its own, so that nothing is the same as anything else."""
    nodes = [helper.make_node(("Sin", "Cos", "Tanh", "Erf")[i % 4], [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [of("v0", FLOAT, ["n"])], [of(f"v{count}", FLOAT, ["n"])])


def test_seconds_of_a_load() -> None:
    said = ended_in(lambda: burn.load(many_nodes(20_000), cache=False, max_seconds=0.5), BudgetExceeded)
    assert "loading the model was ended" in said and "max_seconds" in said and "0.5 s" in said
    executable = burn.load(many_nodes(3), cache=False, max_seconds=300, max_memory="8GB")
    assert executable(N).shape == (4,)


def test_bytes_of_a_model_that_makes_much_of_nothing() -> None:
    """80 MB from three numbers, while it is loaded or while it runs."""
    nodes = [
        helper.make_node("Range", ["zero", "many", "one"], ["r"]),
        helper.make_node("CumSum", ["r", "axis"], ["c"]),
        helper.make_node("Gather", ["c", "i"], ["y"]),
    ]
    scalars = {"zero": 0, "many": 10_000_000, "one": 1}
    constants = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in scalars.items()]
    constants.append(numpy_helper.from_array(np.array(0, np.int32), "axis"))
    content = model(nodes, [of("i", TensorProto.INT64, ["n"])], [of("y", TensorProto.INT64, ["n"])], constants)
    said = ended_in(lambda: burn.load(content, cache=False, max_memory="40MB")(np.array([3])), BudgetExceeded)
    assert "max_memory" in said and "40,000,000" in said


def test_the_watch_over_python() -> None:
    def forever() -> None:
        with limited(Limits(seconds=0.1), "this"):
            while True:
                pass

    def hoard() -> None:
        with limited(Limits(bytes=50 << 20), "this"):
            kept = []
            while True:
                kept.append(np.ones(1 << 17))

    for _ in range(3):
        assert "this was ended" in ended_in(forever, BudgetExceeded)
    assert "(max_memory) is 52,428,800" in ended_in(hoard, BudgetExceeded)
    for _ in range(200):  # blocks that end when their time does
        try:
            with limited(Limits(seconds=0.002), "this"):
                time.sleep(0.00195)
        except BudgetExceeded:
            pass
    for _ in range(1000):
        assert allocated() > 0  # and nothing comes later
    with pytest.raises(ZeroDivisionError), limited(Limits(seconds=60, bytes=1 << 40), "this"):
        raise ZeroDivisionError


@pytest.mark.parametrize("wrong", [{"max_memory": 0}, {"max_memory": -1}, {"max_memory": 1.5}, {"max_memory": True}])
def test_limits_that_are_none(wrong: dict) -> None:
    for each in (wrong, {"max_seconds": 0}, {"max_seconds": -1.0}, {"max_seconds": float("nan")}, {"max_seconds": "1"}):
        with pytest.raises(TypeMismatch, match="max_"):
            Limits.of(**each)  # type: ignore[arg-type]
    with pytest.raises(burn.BurnError, match="max_memory is malformed"):
        Limits.of(max_memory="many")
    assert Limits.of("1KiB", 2) == Limits(1024, 2.0) and not Limits.of() and not Limits.of(max_seconds=float("inf"))


def test_commands(tmp_path) -> None:
    onnx.save(onnx.load_from_string(many_nodes(20_000)), tmp_path / "many.onnx")
    for command in (["inspect"], ["run", "--dim", "n=2", "--no-cache"]):
        done = CliRunner().invoke(main, [command[0], str(tmp_path / "many.onnx"), *command[1:], "--max-seconds", "0.5"])
        assert done.exit_code == 1 and "max_seconds" in done.output, done.output
    (tmp_path / "loop.onnx").write_bytes(endless())
    np.save(tmp_path / "m.npy", np.int64(1 << 62))
    given = ["--input", f"m={tmp_path / 'm.npy'}", "--max-seconds"]
    done = CliRunner().invoke(main, ["run", str(tmp_path / "loop.onnx"), *given, "3"])
    assert done.exit_code == 1 and "max_seconds" in done.output, done.output
