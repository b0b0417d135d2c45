"""A C body of a custom op inside of a compiled library, beside the same function called directly.

    python -m benchmarks.custom_body --rounds 40

The library is `burn-compile`'s for a program that is the op alone. Both are called through ctypes in one process, in interleaved
rounds, on one thread, with memory that is aligned to 64 bytes: the library writes to such memory without a copy. Times are CPU
seconds of the thread. The script refuses to print times if the results differ. It ends with status 1 if a body is slower than the
limit of `--limit` percent. The cost of a call, whatever its body, is printed apart.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import burn
from burn import toolchain
from burn.custom import CustomOp
from burn.custom.native import CBody
from burn.deploy.build import build
from burn.runtime.dtypes import CODES
from burn.toolchain import platforms
from burn.tracing.trace import trace

HEAD = '#include "burn_custom.h"\n#include <math.h>\n'

STREAM = f"""{HEAD}
int body(const burn_custom_call *call) {{ /* bound by memory */
    const float *x = (const float *)call->input[0].data;
    float *y = (float *)call->output[0].data;
    for (int64_t i = 0; i < call->input[0].elements; i++)
        y[i] = 2 * x[i] + 1;
    return 0;
}}"""

ITERATED = f"""{HEAD}
int body(const burn_custom_call *call) {{ /* bound by arithmetic: the logistic map */
    const float *x = (const float *)call->input[0].data;
    float *y = (float *)call->output[0].data;
    for (int64_t i = 0; i < call->input[0].elements; i++) {{
        float v = x[i];
        for (int k = 0; k < 64; k++)
            v = 3.7f * v * (1 - v);
        y[i] = v;
    }}
    return 0;
}}"""

GATHERED = f"""{HEAD}
int body(const burn_custom_call *call) {{ /* bound by latency: loads at random */
    const float *x = (const float *)call->input[0].data;
    float *y = (float *)call->output[0].data;
    int64_t n = call->input[0].elements;
    for (int64_t i = 0; i < n; i++)
        y[i] = x[(int64_t)(x[i] * (float)n) % n];
    return 0;
}}"""

BODIES = {"2x + 1": STREAM, "logistic map": ITERATED, "loads at random": GATHERED}
SIZES = (1 << 18, 1 << 20, 1 << 22)

EMPTY = f"{HEAD}int body(const burn_custom_call *call) {{ return !call; }}"

Run = Callable[[], Any]


class Tensor(ctypes.Structure):
    """`burn_custom_tensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("elements", ctypes.c_int64),
    )


class Call(ctypes.Structure):
    """`burn_custom_call`."""

    _fields_ = (
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("input", ctypes.POINTER(Tensor)),
        ("output", ctypes.POINTER(Tensor)),
        ("attributes", ctypes.POINTER(ctypes.c_int64)),
        ("parallel", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
    )


def direct(source: str, folder: Path) -> Callable[[np.ndarray, np.ndarray], Run]:
    """The function alone, with the flags that burn compiles it with."""
    (folder / "alone").mkdir()
    chain = toolchain.find(platforms.find())
    objects = CBody.of("bench::alone", source, "body").objects("burn_alone", chain, folder / "alone")
    chain.shared(objects, folder / "alone.so", ["burn_alone"])
    function = ctypes.CDLL(str(folder / "alone.so")).burn_alone

    def prepared(x: np.ndarray, y: np.ndarray) -> Run:
        sizes = (ctypes.c_int64 * 1)(x.size)
        tensors = [Tensor(a.ctypes.data, CODES.index("float32"), 1, sizes, x.size) for a in (x, y)]
        nothing = (ctypes.c_int64 * 1)(0)
        call = Call(1, 1, ctypes.pointer(tensors[0]), ctypes.pointer(tensors[1]), nothing, None, None)
        return lambda: function(ctypes.byref(call))

    return prepared


def inside(source: str, folder: Path) -> Callable[[np.ndarray, np.ndarray], Run]:
    """The function in a library that burn-compile made."""
    op: CustomOp = burn.custom_op("bench::body", "float32[n] -> float32[n]").c(source, "body")
    made = build("shared", trace(lambda x: op(x), {"x": "float32[n]"}), folder / "model")
    library = ctypes.CDLL(str(made[0]))
    model = ctypes.c_void_p()
    assert library.model_create(ctypes.byref(model), None) == 0

    def prepared(x: np.ndarray, y: np.ndarray) -> Run:
        arguments = (model, ctypes.c_int64(x.size), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
        return lambda: library.model_run(*arguments)

    return prepared


def aligned(size: int) -> np.ndarray:
    """float32[size] at a multiple of 64 bytes."""
    memory = np.zeros(size * 4 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size * 4].view(np.float32)


def ratio(engines: Sequence[Run], rounds: int, seconds: float = 0.01) -> tuple[float, float]:
    """CPU seconds of the first engine in its fastest round, and the second's fastest round over it. Other processes only
    add to times. Engines alternate which begins."""
    start = time.thread_time()
    engines[0]()
    count = max(1, round(seconds / max(time.thread_time() - start, 1e-6)))
    found: list[list[float]] = [[], []]
    for number in range(rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            begin = time.thread_time()
            for _ in range(count):
                engines[which]()
            found[which].append((time.thread_time() - begin) / count)
    alone, within = map(min, found)
    return alone, within / alone


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.custom_body", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=40, help="interleaved rounds (default 40)")
    parser.add_argument("--limit", type=float, default=3.0, help="percent that a body may be slower (default 3)")
    options = parser.parse_args()
    burn.set_num_threads(1)
    slowest = 0.0
    print("| body | elements | alone, us | in the library |", "| --- | --- | --- | --- |", sep="\n")
    for name, source in BODIES.items():
        with tempfile.TemporaryDirectory() as scratch:
            engines = [make(source, Path(scratch)) for make in (direct, inside)]
            for size in SIZES:
                x, *results = (aligned(size) for _ in range(1 + len(engines)))
                x[:] = np.random.default_rng(size).random(size, np.float32)
                runs = [engine(x, y) for engine, y in zip(engines, results, strict=True)]
                assert all(run() == 0 for run in runs)
                np.testing.assert_array_equal(results[1], results[0])
                runs = [engine(x, results[0]) for engine in engines]
                alone, found = ratio(runs, options.rounds)
                slowest = max(slowest, found)
                print(f"| {name} | {size} | {alone * 1e6:.1f} | {found:.3f} |", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        x, y = aligned(64), aligned(64)
        alone, found = ratio([make(EMPTY, Path(scratch))(x, y) for make in (direct, inside)], options.rounds)
    print(f"\na call with an empty body: {alone * 1e6:.2f} us alone, {alone * found * 1e6:.2f} us in the library")
    print(f"slowest: {(slowest - 1) * 100:+.1f} %, the limit is {options.limit} %")
    return int(slowest > 1 + options.limit / 100)


if __name__ == "__main__":
    sys.exit(main())
