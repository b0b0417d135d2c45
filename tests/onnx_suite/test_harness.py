"""The conformance harness itself: a wrong output, a crash and a hang are each seen as such, and harm no other case."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from . import sweep as sweep_module
from .cases import Case, load_cases
from .compare import Mismatch, compare
from .outcome import Outcome, reason, run_case
from .pool import Died, Pool
from .sweep import drift, report, write_failing

ONE = np.array([1.0, 2.0], np.float32)


@pytest.mark.parametrize(
    ("want", "got", "kind"),
    [
        ([ONE], [], "count"),
        ([ONE], [ONE.astype(np.float64)], "type"),
        ([ONE], [ONE.reshape(2, 1)], "shape"),
        ([ONE], [ONE * 1.01], "value"),
        ([ONE], [np.array([1.0, np.nan], np.float32)], "value"),
        ([ONE.astype(ml_dtypes.bfloat16)], [(ONE * 1.1).astype(ml_dtypes.bfloat16)], "value"),
        ([np.array([1, 2], ml_dtypes.int4)], [np.array([1, 3], ml_dtypes.int4)], "value"),
        ([np.array(["a"], object)], [np.array(["b"], object)], "value"),
        ([np.array(["a"], object)], [np.array([1.0])], "type"),
        ([[ONE]], [ONE], "type"),
        ([[ONE]], [[ONE, ONE]], "shape"),
        ([[ONE]], [[ONE + 1]], "value"),
        ([None], [ONE], "type"),
        ([ONE], [[1.0, 2.0]], "type"),
    ],
)
def test_a_wrong_output_is_seen(want: list[Any], got: list[Any], kind: str) -> None:
    with pytest.raises(Mismatch) as caught:
        compare(want, got, 1e-3, 1e-7)
    assert caught.value.kind == kind
    compare(want, want, 1e-3, 1e-7)


def test_nans_and_text_agree() -> None:
    compare([np.array([np.nan, np.inf])], [np.array([np.nan, np.inf])], 1e-3, 1e-7)
    compare([np.array(["ä"], object)], [np.array(["ä"])], 1e-3, 1e-7)
    compare([ONE.astype(ml_dtypes.bfloat16)], [(ONE * 1.01).astype(ml_dtypes.bfloat16)], 1e-3, 1e-7)


def misbehave(task: str) -> str:
    if task == "hang":
        time.sleep(60)
    if task == "crash":
        os.abort()
    if task == "exit":
        raise SystemExit(3)
    if task == "eat":
        np.zeros(2**40, np.uint8)
    return task * 2


def test_a_crash_or_a_hang_costs_one_case() -> None:
    tasks = ["a", "crash", "b", "hang", "c", "exit", "eat", "d"]
    pool = Pool[str, str](misbehave, jobs=1, timeout=300.0, memory=2**36)
    answers = {}
    for index, answer in pool.run(tasks):
        answers[index] = answer
        pool.timeout = 0.5 if tasks[index + 1 :][:1] == ["hang"] else 300.0  # of the next task
    assert [answers[index] for index in (0, 2, 4, 7)] == ["aa", "bb", "cc", "dd"]
    died = {tasks[index]: answer for index, answer in answers.items() if isinstance(answer, Died)}
    assert {task: answer.reason for task, answer in died.items()} == {
        "crash": "crash",
        "hang": "timeout",
        "exit": "crash",
        "eat": "crash",
    }
    assert "SIGABRT" in died["crash"].message
    assert "MemoryError" in died["eat"].message


def test_workers_share_the_cases() -> None:
    tasks = ["a", "crash", "b", "c", "exit", "eat", "d"]
    answers = dict(Pool(misbehave, jobs=2, timeout=300.0, memory=2**36).run(tasks))
    assert {tasks[index] for index, answer in answers.items() if isinstance(answer, Died)} == {"crash", "exit", "eat"}
    assert [answers[index] for index in (0, 2, 3, 6)] == ["aa", "bb", "cc", "dd"]


def test_cases_are_complete() -> None:
    cases = load_cases()
    assert len(cases) >= 2033 and len({case.name for case in cases}) == len(cases)
    assert all(case.data_sets and case.data_sets[0][1] for case in cases)


def relu_case(expected: np.ndarray) -> Case:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [info("x", TensorProto.FLOAT, [2])],
        [info("y", TensorProto.FLOAT, [2])],
    )
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    inputs = [np.array([-1.0, 2.0], np.float32)]
    return Case("test_mine", "node", "Relu", model.SerializeToString(), [(inputs, [expected])], 1e-3, 1e-7)


def test_outcomes_of_a_right_and_a_wrong_case() -> None:
    assert run_case(("reference", relu_case(np.array([0.0, 2.0], np.float32)))).passed
    assert run_case(("reference", relu_case(np.array([1.0, 2.0], np.float32)))).category == "value"
    assert run_case(("reference", relu_case(np.array([0.0, 2.0])))).category == "type"


def test_the_list_of_failures_drifts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "FAILING", tmp_path / "failing.txt")
    outcomes = [Outcome("test_a", "node", "A", "value", ["output 0: 3 differ"]), Outcome("test_b", "node", "B")]
    assert [outcome.name for outcome in drift(outcomes)[0]] == ["test_a"]
    write_failing(outcomes)
    assert drift(outcomes) == ([], [])
    mended = [Outcome("test_a", "node", "A"), Outcome("test_b", "node", "B", "crash", ["SIGSEGV"])]
    new, passing = drift(mended)
    assert [outcome.name for outcome in new] == ["test_b"] and passing == ["test_a"]
    assert "value: output N: N differ" in report(outcomes)


def test_messages_that_differ_in_detail_have_one_reason() -> None:
    first = "Conv (opset 11), node 'a/b': output [1, 3, 'n'] has rank 4"
    second = "Conv (opset 22), node 'c': output [7] has rank 5"
    assert reason(first) == reason(second)


def test_workers_are_spawned_after_jax_was_used() -> None:
    """A process that has a back end of JAX has threads, and a forked one would inherit their locks."""
    code = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
from tests.onnx_suite import pool
assert not pool.jax_was_used()
jax.numpy.zeros(3).block_until_ready()
assert pool.jax_was_used()
if __name__ == "__main__":
    made = pool.Pool(abs, jobs=1, timeout=300.0)
    worker = None
    assert [answer for _, answer in made.run([-1, -2])] == [1, 2]
"""
    pytest.importorskip("jax")
    done = subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "fork" not in done.stderr, done.stderr
