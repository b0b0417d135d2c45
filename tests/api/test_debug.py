"""burn.debug: printing, callbacks and NaN checks in lazy, traced, looped and differentiated code."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import burn
from burn import nn, optim, toolchain
from burn.deploy import build
from burn.deploy.options import Options as DeployOptions
from burn.dialect.text import to_text
from burn.tracing.trace import trace

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def twice(x: burn.Tensor) -> burn.Tensor:
    burn.debug.print("sum {s:.1f}", s=x.sum())
    return x * 2.0


# ---- print -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("compiled", [False, True], ids=["lazy", "jit"])
def test_print(compiled: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: burn.Tensor, name: str) -> burn.Tensor:
        burn.debug.print("{} {n}: {x} {x:.2e} {{}} {k:>3}", name, n=x.shape[0], x=x[0, :2], k=7)
        return x + 1

    run = burn.jit(f) if compiled else f
    run(burn.constant(X), "row")
    assert capsys.readouterr().out == "row 2: [0. 1.] [0.00e+00 1.00e+00] {}   7\n"


def test_prints_are_in_order_and_count_iterations(capsys: pytest.CaptureFixture[str]) -> None:
    @burn.jit
    def f(x: burn.Tensor) -> burn.Tensor:
        burn.debug.print("first")

        def body(i: burn.Tensor, carried: burn.Tensor) -> burn.Tensor:
            burn.debug.print("{i} {c}", i=i, c=carried)
            return carried + 1.0

        total = burn.fori_loop(0, 3, body, x.sum())
        burn.fori_loop(0, 1, body, x.sum())  # whose result nothing reads
        burn.cond(total > 0, lambda: twice(total), lambda: total)
        burn.debug.print("last")
        return x

    f(burn.zeros(2))
    assert capsys.readouterr().out.split("\n") == ["first", "0 0.0", "1 1.0", "2 2.0", "0 0.0", "sum 3.0", "last", ""]


def test_a_branch_prints_in_its_turn(capsys: pytest.CaptureFixture[str]) -> None:
    """Fusion joins `a * y` with `x + 1`, for which the branch would run before the print that precedes it."""

    @burn.jit
    def f(x: burn.Tensor) -> burn.Tensor:
        a = x + 1.0
        burn.debug.print("first {}", a.sum())
        y = burn.cond(x.sum() > 0, lambda: twice(x), lambda: x)
        return a * y

    f(burn.ones(3))
    assert capsys.readouterr().out == "first 6.0\nsum 3.0\n"


def test_named_sizes_and_element_types(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: burn.Tensor) -> burn.Tensor:
        for dtype in ("float64", "float16", "bfloat16", "int8", "uint64", "bool"):
            burn.debug.print("{x}", x=x.astype(dtype))
        burn.debug.print("{n}", n=x.shape[0] * 2)
        return x

    run = burn.compile(f, ("float32[n]",))
    run(np.array([0.0, 1.5], np.float32))
    assert capsys.readouterr().out.split("\n") == [
        "[0.  1.5]",
        "[0.  1.5]",
        "[0 1.5]",
        "[0 1]",
        "[0 1]",
        "[False  True]",
        "4",
        "",
    ]
    run(np.zeros(0, np.float32))
    assert capsys.readouterr().out.count("[]") == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{y}", "{y} names no value; there are x"),
        ("nothing", "no field names the value 'x'"),
        ("{x:d}", "is no precision"),
        ("{x!r}", "is no precision"),
        ("{x", "expected '}'"),
        ("\1{x}", "control characters"),
    ],
)
def test_wrong_texts_are_refused_where_they_stand(text: str, message: str) -> None:
    with pytest.raises(burn.TypeMismatch, match=re.escape(message)):
        burn.debug.print(text, x=burn.ones(2))


def test_what_cannot_be_printed_is_refused_by_name() -> None:
    with pytest.raises(burn.TypeMismatch, match=r"debug_print.*int4|int4 is not supported"):
        burn.jit(lambda x: (burn.debug.print("{x}", x=x.astype("int4")), x)[1])(burn.ones(2))


# ---- gradients ---------------------------------------------------------------------------------------------------------
def looped(x: burn.Tensor) -> burn.Tensor:
    def body(i: burn.Tensor, c: burn.Tensor) -> burn.Tensor:
        burn.debug.print("iteration {i}", i=i)
        return burn.cond(i > 0, lambda: twice(c), lambda: c * c)

    return burn.fori_loop(0, 2, body, x).sum()


@pytest.mark.parametrize("compiled", [False, True], ids=["lazy", "jit"])
def test_the_backward_pass_prints_nothing_again(compiled: bool, capsys: pytest.CaptureFixture[str]) -> None:
    gradient = burn.grad(looped)
    run = burn.jit(gradient) if compiled else gradient
    assert run(burn.constant([1.0, 3.0])).tolist() == [4.0, 12.0]
    assert capsys.readouterr().out.split("\n") == ["iteration 0", "iteration 1", "sum 10.0", ""]


@pytest.mark.parametrize("compiled", [False, True], ids=["lazy", "jit"])
def test_checkpoints_print_once(compiled: bool, capsys: pytest.CaptureFixture[str]) -> None:
    gradient = burn.grad(lambda x: burn.checkpoint(twice)(x).sum())
    run = burn.jit(gradient) if compiled else gradient
    assert run(burn.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert capsys.readouterr().out == "sum 3.0\n"


def test_training_in_parts_prints_once_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    """The step calls the loss once more, to weigh the parts."""

    def loss(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
        burn.debug.print("{x}", x=x[:, 0])
        return nn.CrossEntropyLoss()(model(x), y)

    model = nn.Linear(2, 2)
    step = burn.train.step(model, loss, optim.SGD(model, lr=0.1), accumulate=2)
    step(np.array([[1.0, 0], [2, 0], [3, 0]], np.float32), np.array([0, 1, 0]))
    assert capsys.readouterr().out == "[1. 2.]\n[3.]\n"


# ---- callback ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("compiled", [False, True], ids=["lazy", "jit"])
def test_callback(compiled: bool) -> None:
    seen: list[tuple] = []

    def f(x: burn.Tensor) -> burn.Tensor:
        y = burn.exp(x)
        burn.debug.callback(lambda a, b, c: seen.append((a, b, c)), y, {"n": [x.shape[0]]}, c=2.5)
        return y

    y = (burn.jit(f) if compiled else f)(burn.constant(X))
    ((a, b, c),) = seen
    assert np.array_equal(a, y.numpy()) and a.dtype == np.float32 and a.flags.writeable
    assert b["n"][0] == 2 and float(c) == 2.5


def test_callback_may_run_programs_of_its_own() -> None:
    seen = []
    run = burn.jit(
        lambda x: (burn.debug.callback(lambda a: seen.append(float(burn.exp(burn.constant(a)).sum())), x), x)[1]
    )
    run(burn.zeros(3))
    assert seen == [3.0]


def test_the_error_of_a_callback_is_the_calls(tmp_path: Path) -> None:
    def fail(array: np.ndarray) -> None:
        raise LookupError(f"no {array[0]}")

    run = burn.jit(lambda x: (burn.debug.callback(fail, x), x)[1])
    with pytest.raises(LookupError, match=r"no 1\.0"):
        run(burn.ones(2))
    executable = burn.compile(lambda x: (burn.debug.callback(fail, x), x)[1], ("float32[2]",))
    for save in (lambda: executable.save(tmp_path / "x.burn"), lambda: pickle.dumps(executable)):
        with pytest.raises(burn.RunError, match=r"burn\.debug\.callback calls a Python function"):
            save()
    with pytest.raises(LookupError):
        copy.deepcopy(executable)(np.ones(2, np.float32))


def test_programs_with_callbacks_are_not_cached(own_cache: Path) -> None:
    """Another process would call another function."""
    for _ in range(2):
        seen: list[float] = []
        call = lambda a, seen=seen: seen.append(float(a))  # noqa: E731
        burn.compile(lambda x, call=call: (burn.debug.callback(call, x.sum()), x)[1], ("float32[2]",))(
            np.ones(2, np.float32)
        )
        assert seen == [2.0]


# ---- nans ----------------------------------------------------------------------------------------------------------------
def line_of(text: str) -> int:
    return next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith(text))


def bad(x: burn.Tensor) -> burn.Tensor:
    y = x - 1.0
    z = burn.sqrt(y)  # here
    return (z * 2.0).sum()


@pytest.mark.parametrize("compiled", [False, True], ids=["lazy", "jit"])
def test_nans_name_the_op_and_the_line(compiled: bool) -> None:
    run = burn.jit(bad) if compiled else bad
    assert np.isnan(float(run(burn.zeros(2))))
    with (
        burn.debug.nans(),
        pytest.raises(burn.RunError, match=rf"sqrt.*\(test_debug\.py:{line_of('# here')}\).*element 0"),
    ):
        float(run(burn.zeros(2)))
    with burn.debug.nans():
        assert float(run(burn.ones(2))) == 0.0
    assert np.isnan(float(run(burn.zeros(2))))


def test_nans_of_inputs_are_passed_on_and_infinities_are_asked_for() -> None:
    f = burn.jit(lambda x: burn.log(x).sum())
    with burn.debug.nans():
        assert np.isnan(float(f(burn.constant([1.0, np.nan]))))
        assert float(f(burn.constant([1.0, 0.0]))) == -np.inf
    with burn.debug.nans(infs=True), pytest.raises(burn.RunError, match="log"):
        float(f(burn.constant([1.0, 0.0])))
    with burn.debug.nans(infs=True):  # masks hold infinities on purpose
        scores = burn.where(burn.constant([True, False]), burn.zeros(2), float("-inf"))
        assert burn.softmax(scores, -1).tolist() == [1.0, 0.0]


def test_nans_of_gradients_and_loops() -> None:
    def rooted(x: burn.Tensor) -> burn.Tensor:
        return (burn.sqrt(x) * 0.0).sum()  # gradient

    with burn.debug.nans(), pytest.raises(burn.RunError, match=rf"\(test_debug\.py:{line_of('# gradient')}\)"):
        burn.jit(burn.grad(rooted))(burn.zeros(3)).numpy()
    with burn.debug.nans(), pytest.raises(burn.RunError, match=rf"log.*\(test_debug\.py:{line_of('# looped')}\)"):
        burn.jit(lambda x: burn.fori_loop(0, 4, lambda i, c: burn.log(c), x))(burn.ones(2)).numpy()  # looped


def test_nans_of_models() -> None:
    """The name of a module, and of a node of an imported model."""
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    model[2].weight.assign(burn.full((2, 2), np.inf))
    model[2].bias.assign(burn.full((2,), -np.inf))
    with burn.debug.nans():
        run = burn.compile(model.eval(), ("float32[batch, 2]",))
        with pytest.raises(burn.RunError, match="node '2"):
            run(np.ones((1, 2), np.float32))


def test_nans_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_DEBUG_NANS", "1")
    with pytest.raises(burn.RunError, match="sqrt"):
        float(burn.jit(bad)(burn.zeros(2)))
    with pytest.raises(burn.RunError, match="sqrt"):
        float(bad(burn.zeros(2)))


# ---- the op ----------------------------------------------------------------------------------------------------------------
def test_equal_prints_are_both_in_the_program() -> None:
    program = trace(lambda x: twice(x) + twice(x), {"x": "float32[2]"})
    assert to_text(program).count("burn.debug_print") == 2


def test_export_refuses_it_by_name(tmp_path: Path) -> None:
    with pytest.raises(burn.BurnError, match="debug_print"):
        burn.export(twice, tmp_path / "x.onnx", ("float32[2, 3]",))


def test_binaries_print_to_standard_error(tmp_path: Path, common_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_CACHE_DIR", str(common_cache))
    monkeypatch.delenv("BURN_CACHE_SIZE")

    def f(x: burn.Tensor) -> burn.Tensor:
        burn.debug.print("x {x} mean {m:.3f} {h} {b} {n}", x=x, m=x.mean(), h=x.half() / 3, b=x > 1, n=x.shape[0])
        burn.debug.print("long {x}", x=burn.arange(2000))
        return x

    try:
        toolchain.find(build.platforms.find())
    except burn.BurnError:
        pytest.skip("no C compiler")
    program = trace(f, {"x": "float32[2, 2]"})
    (made, *_) = build.build("exe", program, tmp_path / "f", DeployOptions(build.platforms.find()))
    np.save(tmp_path / "x.npy", np.array([[0.5, 1], [2, 3]], np.float32))
    done = subprocess.run([made, f"x={tmp_path / 'x.npy'}"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "x [[0.5, 1.0], [2.0, 3.0]] mean 1.625 [[0.1666, 0.3333], [0.6665, 1.0]] [[False, False], [True, True]] 2",
        "long [0, 1, 2, ..., 1997, 1998, 1999]",
    ]


def test_webassembly_refuses_it_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.delenv("CC", raising=False)
    platform = build.platforms.find("wasm32")
    with pytest.raises(burn.BurnError, match=r"burn\.debug\.print writes to standard error"):
        build.build("wasm", trace(twice, {"x": "float32[2]"}), tmp_path / "web", DeployOptions(platform))
