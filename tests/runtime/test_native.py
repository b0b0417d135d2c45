"""The C runtime: loading object code, launching kernels, many callers, planning memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burn.runtime import _native
from tests.runtime.programs import compile_object, scale_object
from tests.runtime.sanitizers import NATIVE, compiler_with

F32 = np.dtype(np.float32)


@pytest.fixture(scope="module")
def scale() -> bytes:
    return scale_object()


def program(code: bytes, **options: Any) -> _native.Program:
    """Of one float32[n] input and output, with the constant 3."""
    defaults: dict[str, Any] = {
        "constants": [np.array([3], np.float32)],
        "live_ranges": [],
        "inputs": [(F32, [-1])],
        "outputs": [F32],
        "kernel_count": 1,
    }
    return _native.Program(code, "burn_entry", **(defaults | options))


@pytest.fixture
def threads() -> Iterator[None]:
    before = _native.num_threads()
    yield
    _native.set_num_threads(before)


# ---- running -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 1024, 1025, 100_003])
@pytest.mark.parametrize("number", [1, 2, 5])
def test_every_iteration_runs_once(scale: bytes, threads: None, count: int, number: int) -> None:
    _native.set_num_threads(number)
    assert _native.num_threads() == number
    x = np.arange(count, dtype=np.float32)
    (y,) = program(scale).run([x])
    np.testing.assert_array_equal(y, x * 3 + 1)
    assert y.ctypes.data % 64 == 0


def test_concurrent_callers_get_their_own_results(threads: None) -> None:
    _native.set_num_threads(3)
    shared = program(scale_object(grain=64))
    wrong: list[int] = []

    def call(seed: int) -> None:
        x = np.random.default_rng(seed).random(5000 + seed, dtype=np.float32)
        for _ in range(200):
            if not np.array_equal(shared.run([x])[0], x * np.float32(3) + np.float32(1)):
                wrong.append(seed)

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    for index in range(20):  # changing the number of threads during runs is also safe
        _native.set_num_threads(1 + index % 4)
        time.sleep(0.002)
    for caller in callers:
        caller.join()
    assert not wrong


def test_outputs_outlive_the_program(scale: bytes) -> None:
    x = np.ones(300_000, np.float32)
    outputs = [program(scale).run([x])[0] for _ in range(3)]
    assert all((y == 4).all() for y in outputs)


def test_failure_names_code_site_and_value(scale: bytes) -> None:
    x = np.ones(10, np.float32)
    x[7] = -1
    with pytest.raises(_native.RunFailure) as failure:
        program(scale).run([x])
    assert failure.value.args == (2, 1, 7, "")


@pytest.mark.parametrize(
    "value",
    [np.ones(3), np.ones((3, 1), np.float32), np.ones(6, np.float32)[::2], [1.0], np.ones(3, ml_dtypes.bfloat16)],
    ids=["dtype", "rank", "strides", "list", "bfloat16"],
)
def test_inputs_are_checked(scale: bytes, value: object) -> None:
    with pytest.raises(_native.InputMismatch):
        program(scale).run([value])


def test_fixed_and_repeated_sizes_are_checked(scale: bytes) -> None:
    with pytest.raises(_native.InputMismatch):
        program(scale, inputs=[(F32, [4])]).run([np.ones(3, np.float32)])
    same = program(scale, inputs=[(F32, [-2]), (F32, [-2])])
    with pytest.raises(_native.InputMismatch):
        same.run([np.ones(3, np.float32), np.ones(4, np.float32)])
    assert same.run([np.ones(3, np.float32)] * 2)[0].shape == (3,)


def test_profile_counts_launches_and_time(scale: bytes) -> None:
    start = time.perf_counter_ns()
    outputs, rows, events = program(scale).run([np.ones(100_000, np.float32)], profile=True)
    passed = time.perf_counter_ns() - start
    assert outputs[0][0] == 4
    ((calls, nanoseconds),) = rows
    assert calls == 1
    assert 0 < nanoseconds <= passed
    ((kernel, began, took, on_gpu),) = events
    assert (kernel, took, on_gpu) == (0, nanoseconds, False) and began >= 0


def test_donated_input_becomes_the_output(scale: bytes) -> None:
    donating = program(scale, aliases=[0])
    x = donating.run([np.ones(1000, np.float32)])[0]  # aligned, as every output is
    (y,) = donating.run([x], donated=[0])
    assert y.ctypes.data == x.ctypes.data
    assert (y == 13).all()
    (z,) = donating.run([y])
    assert z.ctypes.data != y.ctypes.data
    with pytest.raises(IndexError):
        donating.run([y], donated=[1])
    y.flags.writeable = False
    with pytest.raises(_native.InputMismatch, match="read-only"):
        donating.run([y], donated=[0])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads have no affinity here")
def test_a_thread_leaves_a_cpu(tmp_path: Path) -> None:
    """And its affinity is otherwise what it was, or what someone else has made of it since."""
    source = str(Path(__file__).parent / "affinity.c")
    flags = compiler_with("address,undefined", tmp_path)
    program = str(tmp_path / "affinity")
    subprocess.run([*flags, source, str(NATIVE / "system.c"), "-lpthread", "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("one CPU")
    first, second = done.stdout.splitlines()[0].split()[1:]
    assert done.stdout.splitlines()[1:] == [
        f"avoids first: {second}",
        f"runs on: {second}",
        f"avoids second: {first}",
        f"only second: {second}",
        f"no such CPU: {second}",
    ]


@pytest.mark.sanitized
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_callers_and_thread_changes_under_a_sanitizer(tmp_path: Path, sanitizer: str) -> None:
    """The C sources alone, with stress.c for a main program."""
    flags = compiler_with(sanitizer, tmp_path)
    names = ("cpu", "half", "heap", "memory", "plan", "pool", "program", "system")
    files = [NATIVE / f"{name}.c" for name in names]
    families = ("run*.c", "device*.c", "driver*.c", "communicator*.c", "lib*.c")
    sources = [*files, *(file for pattern in families for file in NATIVE.glob(pattern))]
    stress = str(Path(__file__).parent / "stress.c")
    libraries = ["-lpthread", "-ldl", "-lm"]
    subprocess.run([*flags, stress, *sources, *libraries, "-o", str(tmp_path / "stress")], check=True)
    run = subprocess.run([str(tmp_path / "stress")], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(("text", "threads"), [("3", "3"), ("abc", None), ("0", None), ("4x", None), ("99999", None)])
def test_the_number_of_threads_comes_from_the_environment(text: str, threads: str | None) -> None:
    script = "from burn.runtime import _native; print(_native.num_threads(), _native.cpu_cores())"
    environment = os.environ | {"BURN_NUM_THREADS": text}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    number, cores = run.stdout.split()
    assert number == (threads or cores)
    assert ("which is no number of threads" in run.stderr) == (threads is None)


def test_a_forked_child_can_run(scale: bytes, tmp_path: Path) -> None:
    """Threads do not survive a fork; the pool must notice."""
    script = """
import os, sys
import numpy as np
from burn.runtime import _native
_native.set_num_threads(3)
F32 = np.dtype(np.float32)
p = _native.Program(open(sys.argv[1], "rb").read(), "burn_entry", constants=[np.array([3], np.float32)], live_ranges=[],
                    inputs=[(F32, [-1])], outputs=[F32], kernel_count=1)
x = np.ones(100_000, np.float32)
assert (p.run([x])[0] == 4).all()
child = os.fork()
ok = (p.run([x])[0] == 4).all()
if child == 0:
    os._exit(0 if ok else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    path = tmp_path / "scale.o"
    path.write_bytes(scale)
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=300)


# ---- loading -------------------------------------------------------------------------------------------------------


def test_missing_functions_are_all_named() -> None:
    code = compile_object(
        """
llvm.func @nowhere_to_be_found()
llvm.func @nor_is_this()
llvm.func @burn_entry(%run: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i32
  llvm.call @nowhere_to_be_found() : () -> ()
  llvm.call @nor_is_this() : () -> ()
  llvm.return %zero : i32
}
""",
        extra_symbols=("nowhere_to_be_found", "nor_is_this"),
    )
    with pytest.raises(ValueError, match="does not have") as error:
        program(code)
    assert "nowhere_to_be_found" in str(error.value)
    assert "nor_is_this" in str(error.value)


def test_missing_entry(scale: bytes) -> None:
    with pytest.raises(ValueError, match="no function 'elsewhere'"):
        _native.Program(scale, "elsewhere", constants=[], live_ranges=[], inputs=[], outputs=[], kernel_count=0)


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"\x7fELF" + bytes(200), bytes(1000), b"MZ" * 500])
def test_other_bytes_are_refused(code: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be loaded"):
        program(code)


def test_damaged_objects_never_crash_the_loader(scale: bytes, tmp_path: Path) -> None:
    """Bytes changed, cut off and repeated. In a process of its own: a crash is a failure, not the end of the tests."""
    script = """
import random, sys
import numpy as np
from burn.runtime import _native
F32 = np.dtype(np.float32)
code = open(sys.argv[1], "rb").read()
nothing = dict(constants=[], live_ranges=[], inputs=[], outputs=[], kernel_count=0)
random.seed(1)
loaded = 0
for trial in range(6000):
    damaged = bytearray(code)
    kind = trial % 4
    if kind == 0:
        del damaged[random.randrange(len(damaged)):]
    elif kind == 1:  # headers, where the offsets are
        at = random.choice([random.randrange(64), random.randrange(len(code) - 64 * 16, len(code))])
        damaged[at] = random.choice([0, 1, 127, 128, 255])
    elif kind == 2:
        at = random.randrange(len(code) - 8)
        extremes = [b"\\xff" * 8, bytes(8), b"\\x00\\x00\\x00\\x80" * 2, b"\\xff" * 7 + b"\\x7f"]
        damaged[at:at + 8] = random.choice(extremes)
    else:
        for _ in range(random.randrange(1, 30)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
    try:
        _native.Program(bytes(damaged), "burn_entry", **nothing)
        loaded += 1
    except ValueError:
        pass
print(loaded)
"""
    path = tmp_path / "scale.o"
    path.write_bytes(scale)
    run = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 6000  # some damage is to code or names that are not used; not all of it


def test_half_precision_conversions_round_to_nearest_even() -> None:
    """LLVM calls these for f64 -> f16 and bf16 on any x86-64: compared with numpy's and ml_dtypes' conversions."""
    body = """
llvm.func @kernel(%worker: !llvm.ptr, %args: !llvm.ptr, %begin: i64, %end: i64) {
  %step = arith.constant 1 : i64
  %y_slot = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %x = llvm.load %args : !llvm.ptr -> !llvm.ptr
  %y = llvm.load %y_slot : !llvm.ptr -> !llvm.ptr
  scf.for %i = %begin to %end step %step : i64 {
    %from = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f64
    %to = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, TYPE
    %v = llvm.load %from : !llvm.ptr -> f64
    %narrow = arith.truncf %v : f64 to TYPE
    llvm.store %narrow, %to : TYPE, !llvm.ptr
  }
  llvm.return
}
llvm.func @burn_entry(%run: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %n = llvm.call @burn_rt_input_dim(%run, %zero, %zero) : (!llvm.ptr, i64, i64) -> i64
  %bytes = arith.muli %n, %two : i64
  %dims = llvm.alloca %one x i64 : (i64) -> !llvm.ptr
  llvm.store %n, %dims : i64, !llvm.ptr
  %x = llvm.call @burn_rt_input(%run, %zero) : (!llvm.ptr, i64) -> !llvm.ptr
  %y = llvm.call @burn_rt_output(%run, %zero, %one, %dims, %bytes)
    : (!llvm.ptr, i64, i64, !llvm.ptr, i64) -> !llvm.ptr
  %args = llvm.alloca %two x i64 : (i64) -> !llvm.ptr
  %slot = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, i64
  llvm.store %x, %args : !llvm.ptr, !llvm.ptr
  llvm.store %y, %slot : !llvm.ptr, !llvm.ptr
  %f = llvm.mlir.addressof @kernel : !llvm.ptr
  %status = llvm.call @burn_rt_launch(%run, %zero, %f, %args, %n, %n)
    : (!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64, i64) -> i32
  llvm.return %status : i32
}
"""
    random = np.random.default_rng(0)
    scales = 2.0 ** random.integers(-150, 140, 20000)
    every_half = np.arange(65536, dtype=np.uint16).view(np.float16)
    every_half = every_half[np.isfinite(every_half)].astype(np.float64)
    ties = (every_half[:-1] + every_half[1:]) / 2
    x = np.concatenate([random.standard_normal(20000) * scales, every_half, ties, [0.0, -0.0, np.inf, -np.inf, 1e308]])
    for name, kind in (("f16", np.dtype(np.float16)), ("bf16", np.dtype(ml_dtypes.bfloat16))):
        narrow = program(
            compile_object(body.replace("TYPE", name)), inputs=[(np.dtype(np.float64), [-1])], outputs=[kind]
        )
        (y,) = narrow.run([x])
        with np.errstate(over="ignore"):
            if name == "f16":
                expected = x.astype(np.float16)
            else:  # ml_dtypes goes through float32 and rounds twice; numbers that float32 holds are rounded once
                x = x.astype(np.float32).astype(np.float64)
                (y,) = narrow.run([x])
                expected = x.astype(kind)
        np.testing.assert_array_equal(y.view(np.uint16), expected.view(np.uint16))
        (nan,) = narrow.run([np.array([np.nan])])
        assert np.isnan(nan.astype(np.float32)).all()


# ---- planning ------------------------------------------------------------------------------------------------------

ranges = st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda r: (r[0], r[0] + r[1]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(ranges, st.integers(0, 5000)), max_size=40))
def test_live_buffers_never_overlap(buffers: list[tuple[tuple[int, int], int]]) -> None:
    live, sizes = [b[0] for b in buffers], [b[1] for b in buffers]
    offsets, total = _native.plan(live, sizes)
    for i, ((first, last), size) in enumerate(buffers):
        assert offsets[i] % 64 == 0
        assert offsets[i] + size <= total
        for j in range(i):
            apart = live[j][1] < first or last < live[j][0]
            if not apart and size and sizes[j]:
                assert offsets[i] + size <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]
    padded = [-(-size // 64) * 64 for size in sizes]
    peak = max(
        (sum(p for p, (f, t) in zip(padded, live, strict=True) if f <= step <= t) for step in range(42)), default=0
    )
    assert peak <= total <= sum(padded)


def test_a_chain_needs_two_buffers() -> None:
    live = [(step, step + 1) for step in range(100)]
    offsets, total = _native.plan(live, [1 << 20] * 100)
    assert len(set(offsets)) == 2
    assert 2 << 20 <= total < (2 << 20) + 4096


def test_large_buffers_begin_at_different_offsets_of_a_page() -> None:
    offsets, _ = _native.plan([(0, 1)] * 5, [1 << 16] * 5)
    assert len({offset % 4096 for offset in offsets}) == 5
    assert all(offset % 64 == 0 for offset in offsets)


def test_ten_thousand_buffers_are_planned_quickly() -> None:
    random = np.random.default_rng(0)
    first = random.integers(0, 10_000, 10_000)
    live = [(int(f), int(f + d)) for f, d in zip(first, random.integers(0, 20, 10_000), strict=True)]
    sizes = [int(s) for s in random.integers(1, 1 << 24, 10_000)]
    began = time.thread_time()
    _native.plan(live, sizes)
    assert time.thread_time() - began < 5  # of its own, whatever else runs; 0.25 is usual


@pytest.mark.parametrize(("size", "code"), [(-1, 4), (2**62, 1), (2**63 - 1, 1)])
def test_impossible_sizes(size: int, code: int) -> None:
    with pytest.raises(_native.RunFailure) as failure:
        _native.plan([(0, 1), (0, 1)], [64, size])
    assert failure.value.args[0] == code


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_takes_few_pages_more_than_it_holds() -> None:
    """A parameter of 1 MiB is no two of them, and what is let go of goes back to the system."""
    before, page = _resident(), os.sysconf("SC_PAGE_SIZE")
    blocks = [_native.new_bytes(1 << 20) for _ in range(64)]
    for block in blocks:
        assert block.ctypes.data % 64 == 0
        block[:] = 1
    assert _resident() - before < 64 * ((1 << 20) + 4 * page) + (4 << 20)
    del blocks, block
    _native.trim_memory()
    assert _resident() - before < 4 << 20


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---- the machine ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_cpu_features_agree_with_the_operating_system() -> None:
    text = Path("/proc/cpuinfo").read_text()
    flags = set(next(line for line in text.splitlines() if line.startswith("flags")).split(":")[1].split())
    found = set(_native.cpu_features())
    for name in ("avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "bmi2", "gfni"):
        assert (name in found) == (name in flags)
    assert ("avx512bf16" in found) == ("avx512_bf16" in flags)
    assert ("avx512vnni" in found) == ("avx512_vnni" in flags)
    assert ("amx-tile" in found) <= ("amx_tile" in flags)  # the system may refuse to save its registers
    assert _native.cpu_name() in text
    assert 1 <= _native.cpu_cores() <= text.count("processor\t")
