"""Custom ops in lazy and jitted code, with each kind of body, against numpy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.custom import CustomOp

SIZES = (0, 1, 2, 7, 13, 64)

SQUARES = r"""
#include "burn_custom.h"

/* y = gain * x^2 + offsets[0] + .. in the operand's type; counts the elements above zero. */
#define BODY(T)                                                                                                        \
    for (int64_t i = 0; i < x->elements; i++) {                                                                        \
        T v = ((const T *)x->data)[i];                                                                                 \
        ((T *)call->output[0].data)[i] = (T)(gain * v * v + offset);                                                   \
        above += v > 0;                                                                                                \
    }

int squares(const burn_custom_call *call) {
    const burn_custom_tensor *x = &call->input[0];
    int64_t count, above = 0;
    const int64_t *offsets = burn_custom_ints(call, "offsets", &count);
    double gain = burn_custom_float(call, "gain", 1.0), offset = 0;
    for (int64_t i = 0; i < count; i++)
        offset += (double)offsets[i];
    if (strcmp(burn_custom_text(call, "mode"), "plain") != 0 || burn_custom_int(call, "none", 5) != 5)
        return 3;
    switch (x->type) {
    case BURN_CUSTOM_FLOAT64: BODY(double) break;
    case BURN_CUSTOM_FLOAT32: BODY(float) break;
    case BURN_CUSTOM_INT64: BODY(int64_t) break;
    case BURN_CUSTOM_INT8: BODY(int8_t) break;
    default: return 4;
    }
    *(int64_t *)call->output[1].data = above;
    return 0;
}
"""


def squares(*kinds: str) -> CustomOp:
    @burn.custom_op("tests::squares")
    def op(x: Any, *, gain: float = 1.0, offsets: tuple[int, ...] = (0,), mode: str = "plain") -> Any:
        return x, "int64[]"

    if "c" in kinds:
        op.c(SQUARES, "squares")
    if "functions" in kinds:

        @op.functions
        def _(x: Any, *, gain: float, offsets: tuple[int, ...], mode: str) -> Any:
            wide = x.astype("float64")
            return (wide * wide * gain + float(sum(offsets))).astype(x.dtype), (x > 0).astype("int64").sum()

    if "python" in kinds:

        @op.python
        def _(x: np.ndarray, *, gain: float, offsets: tuple[int, ...], mode: str) -> Any:
            wide = x.astype(np.float64)
            return (wide * wide * gain + sum(offsets)).astype(x.dtype), np.int64((x > 0).sum())

    return op


@pytest.mark.parametrize("kind", ["c", "functions", "python"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8"])
def test_bodies_compute_the_same(kind: str, dtype: str) -> None:
    op = squares(kind)
    settings = {"gain": 2.0, "offsets": (1, -4), "mode": "plain"}
    compiled = burn.compile(lambda x: op(x + x - x, **settings), {"x": f"{dtype}[n, 3]"})
    for size in SIZES:
        x = np.random.default_rng(size).integers(-5, 6, (size, 3)).astype(dtype)
        want = (2 * x.astype(np.float64) ** 2 - 3).astype(dtype)
        for y, above in (compiled(x), *([op(x, **settings)] if size in (0, 7) else [])):
            assert y.dtype == dtype and above.shape == ()
            np.testing.assert_allclose(np.asarray(y), want, rtol=1e-6)
            assert above.item() == (x > 0).sum()


def test_named_sizes_compile_once() -> None:
    op = burn.custom_op("tests::matmul", "T[n, k], T[k, m] -> T[n, m]")
    op.c(
        """#include "burn_custom.h"
        int product(const burn_custom_call *c) {
            const float *a = c->input[0].data, *b = c->input[1].data;
            float *y = c->output[0].data;
            int64_t n = c->input[0].sizes[0], k = c->input[0].sizes[1], m = c->input[1].sizes[1];
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < m; j++) {
                    float sum = 0;
                    for (int64_t l = 0; l < k; l++) sum += a[i * k + l] * b[l * m + j];
                    y[i * m + j] = sum;
                }
            return 0;
        }""",
        "product",
    )
    program = burn.compile(lambda a, b: op(a, b) + 1, {"a": "float32[n, k]", "b": "float32[l, m]"})
    for n, k, m in ((1, 1, 1), (3, 7, 5), (0, 3, 2), (2, 0, 3)):
        rng = np.random.default_rng(n)
        a, b = rng.standard_normal((n, k), np.float32), rng.standard_normal((k, m), np.float32)
        np.testing.assert_allclose(program(a, b), a @ b + 1, rtol=1e-5, atol=1e-5)
    with pytest.raises(burn.RunError, match=r"tests::matmul.*a size is"):
        program(np.ones((2, 3), np.float32), np.ones((4, 2), np.float32))


def test_threads_share_the_work() -> None:
    op = burn.custom_op("tests::doubled", "float32[...] -> float32[...]")
    op.c(
        """#include "burn_custom.h"
        typedef struct { const float *x; float *y; } both;
        static void part(void *context, int64_t begin, int64_t end) {
            both *b = context;
            for (int64_t i = begin; i < end; i++) b->y[i] = 2 * b->x[i];
        }
        int doubled(const burn_custom_call *call) {
            both b = {call->input[0].data, call->output[0].data};
            call->parallel(call, part, &b, call->input[0].elements, 1000);
            return 0;
        }""",
        "doubled",
    )
    x = np.random.default_rng(0).standard_normal((101, 103), np.float32)
    np.testing.assert_array_equal(op(x).numpy(), 2 * x)


def test_functions_fuse_with_their_neighbours() -> None:
    op = burn.custom_op("tests::fused", "T[...] -> T[...]")
    op.functions(lambda x: burn.tanh(x) * 2)
    op.triton(lambda x, y: [])  # so that it stays one op until a device is chosen
    program = burn.compile(lambda x: op(x * 3) + 1, {"x": "float32[n]"})
    assert len(program.artefact.kernels) == 1
    x = np.linspace(-1, 1, 11, dtype=np.float32)
    np.testing.assert_allclose(program(x), np.tanh(x * 3) * 2 + 1, rtol=1e-5)


def test_functions_hold_constants_and_loops_and_sizes_of_their_own() -> None:
    table = burn.tensor(np.arange(50, dtype=np.float32))

    def body(x: Any) -> Any:
        total = burn.fori_loop(0, 3, lambda i, acc: acc + x * i.astype("float32"), x * 0)
        return total + table[:1] + burn.nonzero(x > 0)[0].astype("float32").sum()

    op = burn.custom_op("tests::inside", "float32[n] -> float32[n]")
    op.functions(body)
    op.triton(lambda x, y: [])
    x = np.array([1.0, -2.0, 3.0, 0.5, 0.0], np.float32)
    want = 3 * x + 5
    program = burn.compile(lambda x: op(op(x)), {"x": "float32[n]"})
    np.testing.assert_allclose(program(x), 3 * want + np.nonzero(want > 0)[0].sum(), rtol=1e-6)


def test_an_op_in_a_branch_and_in_a_loop() -> None:
    op = squares("c")
    x = np.arange(4, dtype=np.float32)

    @burn.jit
    def f(x: Any) -> Any:
        y = burn.cond(x.sum() > 0, lambda: op(x)[0], lambda: x)
        return burn.fori_loop(0, 2, lambda i, acc: op(acc, gain=0.5)[0], y)

    np.testing.assert_allclose(f(x), 0.5 * (0.5 * x**4) ** 2, rtol=1e-6)
    np.testing.assert_allclose(f(-x), 0.5 * (0.5 * x**2) ** 2, rtol=1e-6)


def test_cpp_files_and_objects(tmp_path: Path) -> None:
    (tmp_path / "factor.h").write_text("static const float FACTOR = 3;\n")
    source = tmp_path / "triple.cpp"
    source.write_text(
        '#include "burn_custom.h"\n#include "factor.h"\n#include <algorithm>\n'
        'extern "C" int triple(const burn_custom_call *call) {\n'
        "    const float *x = static_cast<const float *>(call->input[0].data);\n"
        "    float *y = static_cast<float *>(call->output[0].data);\n"
        "    int64_t n = call->input[0].elements;\n"
        "    std::transform(x, x + n, y, [](float v) { return FACTOR * v; });\n"
        "    std::sort(y, y + n);\n"
        "    return 0;\n}\n"
    )
    x = np.array([3, 1, 2], np.float32)
    op = burn.custom_op("tests::triple", "float32[n] -> float32[n]").c(source, "triple")
    np.testing.assert_array_equal(op(x).numpy(), [3, 6, 9])
    (tmp_path / "factor.h").write_text("static const float FACTOR = 4;\n")
    changed = burn.custom_op("tests::triple", "float32[n] -> float32[n]").c(source, "triple")
    np.testing.assert_array_equal(changed(x).numpy(), [4, 8, 12])

    from burn import toolchain
    from burn.custom.native import HEADER
    from burn.toolchain import platforms

    plain = tmp_path / "plain.c"
    plain.write_text(COUNT.format("0.5f").replace("count", "half"))
    (made,) = toolchain.find(platforms.find()).compile([plain], tmp_path, [f"-I{HEADER.parent}"])
    made = made.rename(tmp_path / "half.o")
    assert burn.custom_op("tests::half", "float32[] -> float32[]").c(made, "half")(1.0).item() == 0.5


def test_tuning_parameters() -> None:
    op = burn.custom_op("tests::by", "float32[n] -> float32[n]", parameters={"BY": (2, 3)})
    op.c(
        '#include "burn_custom.h"\nint by(const burn_custom_call *c) {\n'
        "    for (int64_t i = 0; i < c->input[0].elements; i++)\n"
        "        ((float *)c->output[0].data)[i] = BY * ((const float *)c->input[0].data)[i];\n    return 0;\n}",
        "by",
    )
    x = np.arange(3, dtype=np.float32)
    jitted = burn.jit(lambda x: op(x))
    assert jitted(x).tolist() == [0, 2, 4]
    op.set_parameters(BY=3)
    assert jitted(x).tolist() == op(x).numpy().tolist() == [0, 3, 6]
    chosen = op.tune(x, repeat=1)
    assert chosen == op.parameters and chosen["BY"] in (2, 3)
    with pytest.raises(burn.TypeMismatch, match="no parameter BY=4"):
        op.set_parameters(BY=4)


def test_a_profile_shows_the_ops() -> None:
    native, python = squares("c"), squares("python")
    program = burn.compile(lambda x: python(native(x)[0])[0], {"x": "float32[n]"})
    assert [(kernel.name, kernel.kind) for kernel in program.artefact.kernels] == [
        ("tests::squares", "library"),
        ("python: tests::squares", "host"),
    ]


# ---- versions ----------------------------------------------------------------------------------------------------------
COUNT = (
    '#include "burn_custom.h"\nint count(const burn_custom_call *c) {{ *(float *)c->output[0].data = {}; return 0; }}'
)


def test_a_changed_source_counts_at_once() -> None:
    op = burn.custom_op("tests::count", "float32[] -> float32[]").c(COUNT.format(1), "count")
    jitted = burn.jit(lambda x: op(x) + 0)
    assert op(0.0).item() == jitted(burn.tensor(0.0)).item() == 1
    op.c(COUNT.format(2), "count")
    assert op(0.0).item() == jitted(burn.tensor(0.0)).item() == 2
    op = burn.custom_op("tests::count", "float32[] -> float32[]").c(COUNT.format(3), "count")
    assert op(0.0).item() == jitted(burn.tensor(0.0)).item() == 3


PROGRAM = """
import sys, burn
number = sys.argv[1]
GAIN = float(number)
def outer(x): return x * GAIN
START = '#include "burn_custom.h"\\nint f(const burn_custom_call *c) { *(float *)c->output[0].data = '

def op(kind):
    return burn.custom_op("tests::versions_" + kind, "float32[] -> float32[]")

ops = [op("c").c(START + number + "; return 0; }", "f")]
ops += [op("flags").c(START + "N; return 0; }", "f", flags=["-DN=" + number])]
ops += [op("functions"), op("python")]
ops[2].functions(lambda x: outer(x))
ops[2].triton(lambda x, y: [])
ops[3].python(lambda x: (x * GAIN).astype("float32"))
x = burn.tensor(1.0)
for each in ops:
    before = burn.compile_count()
    print(each(x).item(), burn.jit(lambda x: each(x) * 2)(x).item(), burn.compile_count() - before)
"""


def test_new_processes_compile_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("BURN_CACHE_SIZE", raising=False)
    script = tmp_path / "versions.py"
    script.write_text(PROGRAM)

    def run(number: int) -> list[list[float]]:
        done = subprocess.run([sys.executable, script, str(number)], capture_output=True, text=True, check=True)
        return [[float(x) for x in line.split()] for line in done.stdout.splitlines()]

    assert run(3) == [[3, 6, 2]] * 4
    assert run(4) == [[4, 8, 2]] * 4
    assert run(3) == [[3, 6, 0]] * 3 + [[3, 6, 2]]  # programs with a Python body are not kept


@pytest.mark.parametrize("change", [lambda x, *, a=1: x, lambda x, *, a=1: x.with_shape(x.shape)])
def test_the_function_of_types_counts(change: Callable[..., Any]) -> None:
    first, second = (burn.custom_op("tests::types")(f) for f in (lambda x, *, a=2: x, change))
    for op in (first, second):
        op.python(lambda x, a: x)
    assert first.version.key != second.version.key


def test_bodies_that_name_ops_and_their_own_op() -> None:
    inner = burn.custom_op("tests::inner", "float32[] -> float32[]").c(COUNT.format(1), "count")
    outer = burn.custom_op("tests::outer", "float32[] -> float32[]")
    outer.python(lambda x: x if x > 0 else np.abs(outer(-x).numpy()))
    around = burn.custom_op("tests::around", "float32[] -> float32[]")
    around.functions(lambda x: inner(x) + outer(x))
    before = around.version.key
    assert around(2.0).item() == 3 and outer(-3.0).item() == 3
    inner.c(COUNT.format(5), "count")
    around.functions(lambda x: inner(x) + outer(x))
    assert around.version.key != before and around(2.0).item() == 7


@pytest.mark.untuned
@pytest.mark.parametrize("given", [(), (2.0,)])
def test_a_python_body_runs_at_each_call(given: tuple[float, ...]) -> None:
    """It is not folded, although its operands are constants. Autotuning calls it in timed runs."""
    calls: list[float] = []

    def count(*operands: np.ndarray) -> np.ndarray:
        calls.append(0.0)
        return np.asarray(len(calls) + sum(operands), np.float32)

    op = burn.custom_op("tests::counted", f"{'float32[]' if given else ''} -> float32[]")
    op.python(count)
    program = burn.compile(lambda x: x + op(*map(burn.constant, given)) * 2, ["float32[n]"])
    found = [program(np.zeros(1, np.float32))[0] for _ in range(3)]
    assert found == [2 * (n + sum(given)) for n in (1, 2, 3)]
