"""Autotuning of whole programs: results are noted, and what is noted is not timed again. Times here are made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import burn
from burn import ops
from burn.codegen.tuning import clock
from burn.dialect.program import Program
from burn.errors import BurnError, CompileError, TypeMismatch
from burn.runtime import versions
from tests.codegen.test_autotuning_forms import close, random

pytestmark = pytest.mark.untuned


@dataclass
class Counted:
    """A clock by which the first of some programs, which has the usual forms, is always the fastest; or the slowest, where
    `others` is less than 1."""

    calls: int = 0
    others: float = 10.0

    def __call__(self, program: Program, artefacts: Sequence[Any], device: Any) -> list[list[float]]:
        self.calls += 1
        return [[self.others**number] * len(artefact.kernels) for number, artefact in enumerate(artefacts)]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    made = Counted()
    monkeypatch.setattr(clock, "seconds", made)
    return made


TYPES = ["float32[90, 150]", "float32[150, 80]"]


def matmul(x: Any, w: Any) -> Any:
    return burn.tanh(x @ w)


def test_a_second_time_nothing_is_timed(own_cache: Path, counted: Counted) -> None:
    burn.compile(matmul, TYPES, autotune="fast")
    calls = counted.calls
    assert calls > 0
    burn.compile(matmul, TYPES, autotune="fast")
    burn.compile(matmul, TYPES, autotune="fast", cache=False)
    assert counted.calls == calls
    (folder,) = (own_cache / "tuned").iterdir()
    for file in folder.iterdir():
        file.write_text("damaged")
    burn.compile(matmul, TYPES, autotune="fast", cache=False)
    assert counted.calls > calls


@pytest.mark.parametrize("changed", ["installed", "native_runtime", "sources"])
def test_results_of_other_versions_are_timed_again(
    changed: str, own_cache: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    burn.compile(matmul, TYPES, autotune="fast", cache=False)
    calls = counted.calls
    monkeypatch.setattr(versions, changed, lambda *_: "another version")
    burn.compile(matmul, TYPES, autotune="fast", cache=False)
    assert counted.calls > calls
    calls = counted.calls
    burn.compile(matmul, TYPES, autotune="fast", cache=False)
    assert counted.calls == calls


def test_another_number_of_threads_is_another_machine(own_cache: Path, counted: Counted) -> None:
    from burn.runtime import _native

    threads = _native.num_threads()
    try:
        for number in (1, 2):
            burn.set_num_threads(number)
            before = counted.calls
            burn.compile(matmul, TYPES, autotune="fast")
            assert counted.calls > before
        assert len(list((own_cache / "tuned").iterdir())) == 2
    finally:
        burn.set_num_threads(threads)


def test_what_is_compiled_without_is_another_program(own_cache: Path, counted: Counted) -> None:
    usual = burn.compile(matmul, TYPES)
    assert not counted.calls
    tuned = burn.compile(matmul, TYPES, autotune="fast")
    assert counted.calls
    assert tuned.artefact.code == usual.artefact.code  # all others are slower
    assert burn.compile(matmul, TYPES, autotune="off").artefact.code == usual.artefact.code


def test_what_is_faster_is_compiled(own_cache: Path, counted: Counted) -> None:
    counted.others = 0.1
    x, w = random(90, 150), random(150, 80)
    usual, tuned = (burn.compile(matmul, TYPES, autotune=mode) for mode in ("off", "fast"))
    assert tuned.artefact.code != usual.artefact.code
    close(tuned(x, w), np.tanh(x.astype(np.float64) @ w))
    calls = counted.calls
    again = burn.compile(matmul, TYPES, autotune="fast", cache=False)
    assert counted.calls == calls and again.artefact.code == tuned.artefact.code


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_whole(mode: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the machine's own clock, a size with a name, an index, a convolution and random numbers."""
    monkeypatch.setattr(clock, "RUNS", 1)
    monkeypatch.setattr(clock, "LONG", 0.0)
    w, table = random(32, 48), random(5, 32)
    filters = random(8, 3, 3, 3)

    def function(i: Any, x: Any) -> Any:
        attrs = {"strides": (1, 1), "low": (1, 1), "high": (1, 1), "dilations": (1, 1), "groups": 1}
        image = ops.conv(x, burn.constant(filters), **attrs)
        return burn.tanh(ops.gather(burn.constant(table), i, axis=0)) @ burn.constant(w), image

    made = burn.compile(function, ["int64[n]", "float32[1, 3, 20, 20]"], autotune=mode)
    i = np.array([4, 0, 2, 2, 1])
    rows, _ = made(i, random(1, 3, 20, 20))
    close(rows, np.tanh(table[i].astype(np.float64)) @ w)


def test_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeMismatch, match="no autotuning 'most'"):
        burn.compile(matmul, TYPES, autotune="most")
    with pytest.raises(CompileError, match="made-up inputs"):  # every index is 0, and the axis is empty
        burn.compile(lambda i, x: ops.gather(x, i, axis=0) @ x.T, ["int64[300]", "float32[0, 400]"], autotune="fast")
    monkeypatch.setenv("BURN_AUTOTUNE", "most")
    with pytest.raises(BurnError, match="BURN_AUTOTUNE is malformed"):
        burn.compile(matmul, TYPES)


def texts() -> bytes:
    """A model of strings."""
    node = helper.make_node("StringConcat", ["x", "x"], ["y"])
    inputs, outputs = ([helper.make_tensor_value_info(name, TensorProto.STRING, [2])] for name in "xy")
    graph = helper.make_graph([node], "texts", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()


def chains(first: int, second: int) -> Any:
    """So many launches of each of two kernels."""

    def function(x: Any, y: Any) -> Any:
        for _ in range(first):
            x = burn.tanh(x @ x)
        for _ in range(second):
            y = burn.tanh(y @ y)
        return x, y

    return function


def test_decisions_matter_by_their_launches(own_cache: Path, counted: Counted) -> None:
    """Two programs with the same decisions. Each leaves out the decision that only one of its launches depends on."""
    counted.others, types = 0.1, ["float32[96, 96]", "float32[101, 101]"]
    for first, second in ((21, 1), (1, 21)):
        calls = counted.calls
        burn.compile(chains(first, second), types, autotune="fast", cache=False)
        assert counted.calls > calls
    calls = counted.calls
    for first, second in ((21, 1), (1, 21)):
        burn.compile(chains(first, second), types, autotune="fast", cache=False)
    assert counted.calls == calls


def test_strings_are_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match="lists or strings"):
        burn.load(texts(), autotune="fast")
    monkeypatch.setenv("BURN_AUTOTUNE", "fast")  # which tunes only if it is possible
    assert burn.load(texts())(np.array(["a", "b"], object)).tolist() == ["aa", "bb"]


def test_the_environment_names_the_mode(own_cache: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_AUTOTUNE", "fast")
    burn.compile(matmul, TYPES, autotune="off")
    assert not counted.calls
    burn.compile(matmul, TYPES)
    assert counted.calls


def test_forms_are_drawn_by_a_seed(own_cache: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests: every one of them is right, and nothing is timed."""
    x, w = random(90, 150), random(150, 80)
    made = set()
    for seed in range(6):
        monkeypatch.setenv("BURN_AUTOTUNE", f"any:{seed}")
        run = burn.compile(matmul, TYPES)
        close(run(x, w), np.tanh(x.astype(np.float64) @ w))
        made.add(bytes(run.artefact.code))
        assert bytes(burn.compile(matmul, TYPES, cache=False).artefact.code) == bytes(run.artefact.code)
    assert len(made) > 2 and not counted.calls


def test_the_command(tmp_path: Path, own_cache: Path, counted: Counted) -> None:
    from click.testing import CliRunner

    from burn.cli.run import main

    weight = numpy_helper.from_array(random(150, 80), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [90, 150])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [90, 80])],
        [weight],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    done = CliRunner().invoke(main, [str(path), "--autotune", "fast", "--json"])
    assert done.exit_code == 0, done.output
    assert counted.calls and list((own_cache / "tuned").glob("*/*.json"))
