"""`burn-bench` alternates between engines, measures the programs that ran, and reports what it cannot measure."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from burn.bench import cold, interleave, pauses, report
from burn.bench.interleave import Plan, Timing
from burn.bench.subject import find, from_file
from burn.cli.bench import main
from burn.errors import BurnError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = x + x over a dynamic batch."""
    node = helper.make_node("Add", ["x", "x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    graph = helper.make_graph([node], "double", [x], [y])
    path = tmp_path / "double.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_turns_alternate_and_first_runs_are_dropped() -> None:
    calls: list[str] = []
    engines = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    measured = interleave.interleave(engines, Plan(runs=4, rounds=2, block=0))
    last = "".join(calls)[-12:]
    assert last == "aaa" + "bbb" + "bbb" + "aaa"  # two counted runs and one dropped in each block
    assert all([len(one) for one in timing.rounds] == [2, 2] for timing in measured.timings.values())


def test_times_are_those_of_the_engine() -> None:
    """By a clock that only the engines advance: the machine may be busy."""
    now = 0.0

    def run(seconds: float) -> None:
        nonlocal now
        now += seconds

    engines = {"slow": lambda: run(0.5), "fast": lambda: run(0.125)}
    plan = Plan(runs=6, rounds=3, block=0, clock=lambda: now)
    timings = interleave.interleave(engines, plan).timings
    assert set(timings["slow"].all) == {0.5} and set(timings["fast"].all) == {0.125}
    assert timings["slow"].median == 0.5 and timings["slow"].ratio(timings["fast"]) == 4.0


def test_a_run_takes_as_long_as_it_lasts() -> None:
    assert interleave.once(lambda: time.sleep(0.004)) >= 0.004


def test_ratio_is_of_rounds_taken_together() -> None:
    mine, theirs = Timing([[2.0], [20.0], [4.0]]), Timing([[1.0], [10.0], [2.0]])
    assert mine.ratio(theirs) == 2.0


def test_short_runs_fill_a_block() -> None:
    plan = Plan(runs=30, rounds=6, block=0.1)
    assert plan.runs_per_block(1.0) == 5
    assert plan.runs_per_block(0.001) == 100


def test_difference_is_relative_to_each_output() -> None:
    want = {"p": np.array([100.0, 1.0], np.float32), "q": np.array([0.5], np.float32)}
    got = {"p": np.array([100.0, 2.0], np.float32), "q": np.array([0.55], np.float32)}
    assert report.difference(got, want) == pytest.approx(0.1, rel=1e-5)
    with pytest.raises(ValueError, match="shape"):
        report.difference({"p": want["p"][:1], "q": want["q"]}, want)


def test_geometric_mean_needs_every_model() -> None:
    results = [report.Result("m", "", [report.Row("a", ratio=ratio)]) for ratio in (2.0, 8.0)]
    assert report.geomean(results, "a") == pytest.approx(4.0)
    results.append(report.Result("n", "", [report.Row("a", error="failed")]))
    assert np.isnan(report.geomean(results, "a"))


def test_inputs_come_from_the_signature(model: Path) -> None:
    subject = from_file(model, {"batch": 3, "seq": 9})
    assert subject.feeds["x"].shape == (3, 4)
    assert subject.sizes == {"batch": 3}


def test_every_missing_size_is_named(model: Path) -> None:
    with pytest.raises(BurnError, match="--dim 'batch=NUMBER'"):
        from_file(model, {})


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(BurnError, match="light_resnet50"):
        find("no_such_model", {})


def test_command_times_a_peer(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    figures = tmp_path / "figures.json"
    code, output = run(model, "--peers", "onnxruntime,torch", "--batch", 2, "--runs", 3, "--json", figures, "--cold")
    assert code == 0, output
    assert "not timed: torch on double.onnx batch=2: the model has no torch module" in output
    result = json.loads(figures.read_text())["models"][0]["engines"]
    assert result["onnxruntime"]["median"] > 0
    assert result["onnxruntime"]["cold"]["empty"] > 0
    assert result["torch"] == {"absent": "the model has no torch module"}


def test_calls_follow_their_pause() -> None:
    events: list[float] = []

    def run() -> None:
        events.append(time.perf_counter())

    timings = pauses.after_pauses({"a": run, "b": run}, (0.0, 0.003), beside=lambda: None)
    assert list(timings) == ["a", "b"] and list(timings["a"]) == [0.0, 0.003]
    assert sum(map(len, timings["a"][0.0].rounds)) == pauses.CALLS
    gaps = np.diff(events)
    assert (gaps >= 0.003).sum() >= 2 * pauses.CALLS


@pytest.mark.parametrize("beside", [[], ["--beside", "busy"], ["--beside", "onnxruntime"]])
def test_command_times_pauses(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: list[str]) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(pauses, "CALLS", 4)
    monkeypatch.setattr(pauses, "FEWEST", 4)
    monkeypatch.setattr(pauses, "CALL_SECONDS", 0.0)
    figures = tmp_path / "figures.json"
    arguments = ("--peers", "burn,onnxruntime", "--batch", 2, "--runs", 2, "--pauses", "--json", figures, *beside)
    code, output = run(model, *arguments)
    assert code == 0 and "after a pause" in output, output
    engines = json.loads(figures.read_text())["models"][0]["engines"]
    assert all([len(r) for r in engine["pauses"]["0.2"]] == [1] * pauses.ROUNDS for engine in engines.values())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere.onnx"], 1, "no such file"),
        (["double.onnx", "--peers", "abacus"], 2, "the engines are"),
        (["double.onnx", "--dim", "batch"], 2, "not NAME=NUMBER"),
        (["double.onnx", "--batch", "2", "--dim", "depth=3"], 1, "no model has a size named depth"),
        (["double.onnx", "--batch", "2", "--roofline", "--device", "cuda"], 1, "--roofline is for the CPU"),
        (["double.onnx", "--batch", "2", "--pauses", "--device", "cuda"], 1, "--pauses is for the CPU"),
        (["double.onnx", "--batch", "2", "--beside", "busy"], 1, "add --pauses"),
        (["double.onnx", "--batch", "2", "--runs", "2", "--pauses", "--beside", "torch"], 1, "no torch module"),
    ],
)
def test_bad_usage(model: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str) -> None:
    monkeypatch.chdir(model.parent)
    got, output = run(*arguments)
    assert got == code
    assert message in output


def test_a_broken_file_fails_in_its_row(model: Path) -> None:
    pytest.importorskip("onnxruntime")
    broken = onnx.load(model)
    broken.graph.node[0].op_type = "NoSuchOperator"
    onnx.save(broken, model)
    code, output = run(model, "--peers", "onnxruntime", "--batch", 2)
    assert code == 1
    assert "onnxruntime failed" in output


def test_peak_memory_is_the_child_s_own(model: Path) -> None:
    pytest.importorskip("onnxruntime")
    block = np.ones(600 << 20, np.uint8)
    figures = cold.measure("onnxruntime", from_file(model, {"batch": 1}), threads=1, repeats=1)
    assert figures.peak < block.nbytes


def test_matmuls_in_half_precision(model: Path, tmp_path: Path) -> None:
    """ONNX Runtime is left out: it would compute something else."""
    figures = tmp_path / "figures.json"
    options = ("--batch", 2, "--runs", 3, "--precision", "bf16", "--json", figures)
    code, output = run(model, "--peers", "burn,onnxruntime", *options)
    assert code == 0 and "fp32 only" in figures.read_text(), output
    code, output = run(model, "--batch", 2, "--precision", "bf16", "--cold")
    assert code != 0
