"""benchmarks/cpu_zoo.py prepares, times and tabulates a model that it has drawn."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cpu_zoo.py"


def zoo(*arguments: object) -> str:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=500).stdout


@pytest.mark.slow
def test_a_model_becomes_a_row(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    names, rows, page = tmp_path / "names.json", tmp_path / "rows.jsonl", tmp_path / "page.md"
    sizes = {"width": 8, "taps": 2, "layers": 2, "steps": 20}
    entries = [{"list": "temporal", "name": "small", **sizes}, {"list": "timm", "name": "no_such_model"}]
    names.write_text(json.dumps(entries))
    peers = ("--peer", "burn", "--peer", "onnxruntime")
    run = ("run", "--models", names, "--folder", tmp_path / "zoo", "--results", rows, "--threads", "2,1", *peers)
    zoo(*run)
    *good, bad, bad_alone = map(json.loads, rows.read_text().splitlines())
    assert [row["threads"] for row in good] == [2, 1]
    assert all(
        set(row["seconds"]) == {"burn", "onnxruntime"} and row["differs"] < 1e-5 and row["kernels"] for row in good
    )
    assert set(good[0]["peaks"]) == {"burn", "onnxruntime"}
    assert "Error" in bad["error"] and "Error" in bad_alone["error"]
    zoo(*run)  # nothing is left
    assert len(rows.read_text().splitlines()) == 4
    refilled = zoo("prepare", "--models", names, "--folder", tmp_path / "zoo", "--refill", *peers)
    assert "temporal small: {" in refilled and "'burn'" in refilled
    for number, method in enumerate(("burn", "qdq")):
        zoo(*run, "--int8", method)
        quantised = json.loads(rows.read_text().splitlines()[4 + 3 * number])
        assert quantised["int8"] == method and set(quantised["seconds"]) == {"burn", "onnxruntime"}
        assert set(quantised["rounding"]) == {"burn", "onnxruntime"} and quantised["rounding"]["burn"] < 0.05
    zoo("write", "--results", rows, "--output", page)
    assert "1 models" in page.read_text() and "temporal small" in page.read_text() and "int8" in page.read_text()
    assert "- timm no_such_model" in page.read_text()


@pytest.mark.slow
def test_training_steps_become_a_row(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    names, rows, page = tmp_path / "names.json", tmp_path / "rows.jsonl", tmp_path / "page.md"
    names.write_text(
        json.dumps([{"list": "temporal", "name": "small", "width": 8, "taps": 2, "layers": 2, "steps": 20}])
    )
    run = ("run", "--training", "--models", names, "--folder", tmp_path / "zoo", "--results", rows, "--batch", 3)
    zoo(*run, "--threads", 1, "--cpu")
    (row,) = map(json.loads, rows.read_text().splitlines())
    assert set(row["seconds"]) == {"burn", "torch", "torch.compile"} and not row["failed"] and not row["wrong"]
    assert row["kernels"] and row["training"] and 0 < row["errors"]["torch"]["gradients"] < 1e-5
    zoo(*run, "--threads", 1, "--cpu")  # nothing is left
    assert len(rows.read_text().splitlines()) == 1
    zoo("write", "--results", rows, "--output", page)
    assert "batch 3, training steps, float32, CPU seconds" in page.read_text() and "temporal small" in page.read_text()


def test_steps_with_other_results_have_no_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.cpu_tables import write

    rows, page = tmp_path / "rows.jsonl", tmp_path / "page.md"
    setting = {"list": "timm", "machine": "Zen", "threads": 1, "batch": 4, "int8": False, "training": True}
    errors = {engine: {"gradients": 1e-6} for engine in ("burn", "torch")}
    times = {"burn": 0.2, "torch": 0.5, "torch.compile": 0.4}
    good = {**setting, "name": "good", "seconds": times, "errors": errors, "wrong": []}
    wrong = {
        **setting,
        "name": "bad",
        "seconds": times,
        "errors": errors,
        "wrong": ["burn: gradients 1.0e-01, torch 1.0e-06"],
    }
    rows.write_text(json.dumps(good) + "\n" + json.dumps(wrong) + "\n")
    page.write_text("# Title\n\n## Zen: 2 threads, batch 1, float32\n\nkept\n")
    write(rows, page)
    text = page.read_text()
    assert (
        "1 models: geometric mean 2.00, 0 below 1.25" in text
        and "| timm good | 200.000 | 500.000 | 400.000 | 2.00 |" in text
    )
    assert "- timm bad: burn: gradients 1.0e-01" in text and "float32\n\nkept\n\n## Zen: 1 thread" in text


def test_gradients_are_judged_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.cpu_training import errors_of, judged

    rng = np.random.default_rng(0)
    exact = {"large": rng.standard_normal(1000), "small": 3e-2 * rng.standard_normal(10)}
    assert errors_of(exact, exact) == {"gradients": 0.0, "worst gradient": 0.0}
    found = errors_of({**exact, "small": 1.5 * exact["small"]}, exact)
    assert found["gradients"] < 5e-3 and found["worst gradient"] == pytest.approx(0.5)
    with pytest.raises(ValueError, match="no gradients of small"):
        errors_of({"large": exact["large"]}, exact)
    good = {"gradients": 1e-6, "worst gradient": 1e-6, "losses": 5e-3, "moved": 1e-3, "buffers": 1e-6}
    engines = {"torch": dict.fromkeys(good, 0.0) | {"worst gradient": 1e-3}, "torch.compile": {**good, "losses": 2e-3}}
    same = {"gradients": 0.0, "worst gradient": 0.0}  # perturbed parameters show no larger error
    assert judged({**engines, "burn": {**good, "worst gradient": 3e-3}}, same) == []
    assert judged({**engines, "burn": {**good, "gradients": 1e-3}}, same) == ["burn: gradients 1.0e-03, bound 1.0e-04"]
    assert judged({**engines, "burn": {**good, "losses": 9e-3}}, same) == ["burn: losses 9.0e-03, bound 8.0e-03"]
    assert len(judged({**engines, "burn": dict.fromkeys(good, float("nan"))}, same)) == 5
    jump = {**same, "worst gradient": 2e-3}
    assert judged({**engines, "burn": {**good, "worst gradient": 7e-3}}, jump) == []
    assert judged({**engines, "burn": {**good, "worst gradient": 7e-3}}, same) == [
        "burn: worst gradient 7.0e-03, bound 4.0e-03"
    ]


FAKE = """
import json, os, pathlib, sys, time
entry = json.loads(sys.argv[2])
if entry["name"] == "broken":
    raise SystemExit("it is broken")
begun = time.monotonic()
row = {**entry, "batch": 1, "dtype": "float16", "training": False, "through": "burn.compile"}
if entry["name"] == "large":  # its first process finds the memory taken
    first = pathlib.Path(entry["folder"]) / "large"
    if not first.exists():
        first.touch()
        row["eager failed"] = "OutOfMemoryError: CUDA out of memory"
print("ready", flush=True)
sys.stdin.readline()
start = time.monotonic()
time.sleep(entry.get("sleep", 0))
if "meet" in entry:  # the first model of each GPU waits for that of the other one
    met = pathlib.Path(entry["meet"])
    (met / os.environ["CUDA_VISIBLE_DEVICES"]).touch()
    end = time.monotonic() + 50
    while len(os.listdir(met)) < 2 and time.monotonic() < end:
        time.sleep(0.01)
row |= {"begun": begun, "from": start, "to": time.monotonic(), "gpu": os.environ.get("CUDA_VISIBLE_DEVICES")}
print(json.dumps(row | {"cores": sorted(os.sched_getaffinity(0))}), flush=True)
"""


def spans(rows: Iterable[Mapping[str, Any]], first: str = "from") -> list[tuple[float, float]]:
    return sorted((row[first], row["to"]) for row in rows)


def do_not_overlap(found: Sequence[tuple[float, float]]) -> bool:
    return all(one[1] <= other[0] for one, other in itertools.pairwise(found))


def test_one_model_is_timed_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.schedule import Schedule
    from zoo.settings import Setting

    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    work = [({"list": "fake", "name": name, "sleep": 0.05}, Setting()) for name in ("a", "b", "broken", "c")]
    rows = {row["name"]: row for row in Schedule(script, 4, 600, 300).rows(work)}
    assert "it is broken" in rows.pop("broken")["failed"]
    assert len(rows) == 3 and do_not_overlap(spans(rows.values()))


def test_each_gpu_times_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo import schedule
    from zoo.settings import Setting

    mine, moved = sorted(os.sched_getaffinity(0)), []
    monkeypatch.setattr(schedule.Job, "move", lambda job, cores: moved.append(cores))
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    (tmp_path / "met").mkdir()
    entry = {"list": "fake", "meet": str(tmp_path / "met"), "sleep": 0.05}
    work = [({**entry, "name": name}, Setting()) for name in "abcd"]
    rows = list(schedule.Schedule(script, 2, 600, 300, ("0", "1")).rows(work))
    for gpu in ("0", "1"):
        assert do_not_overlap(spans(row for row in rows if row["gpu"] == gpu))
    assert {row["gpu"] for row in rows} == {"0", "1"} and len(rows) == 4
    assert not do_not_overlap(spans(rows))  # the GPUs do not wait for each other
    assert sorted(os.sched_getaffinity(0)) == mine and len(moved) == 4


def test_cores_that_time_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.schedule import SLICE, Cores

    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(3, 67)))
    cores = Cores(4)
    slices = [cores.slice() for _ in range(7)]
    assert [len(each) for each in cores.timing] == [2] * 4 and {len(each) for each in slices} == {SLICE}
    assert set.union(*slices) == set(range(11, 67)) and not set.union(*cores.timing) & set.union(*slices)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    few = Cores(1)
    assert few.timing == [{0, 1}] and few.slice() == {0, 1}


def test_a_model_without_memory_runs_again_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.schedule import Schedule
    from zoo.settings import Setting

    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    entry = {"list": "fake", "folder": str(tmp_path), "sleep": 0.05}
    work = [({**entry, "name": name}, Setting()) for name in ("large", "a", "b")]
    rows = list(Schedule(script, 3, 600, 300).rows(work))
    assert [row["name"] for row in rows][-1] == "large" and "eager failed" not in rows[-1] and len(rows) == 3
    assert max(row["to"] for row in rows[:2]) <= rows[-1]["begun"]


def test_training_steps_take_more_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.schedule import Schedule
    from zoo.settings import Setting

    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    work = [({"list": "fake", "name": name, "sleep": 0.05}, Setting(training=True)) for name in "ab"]
    rows = list(Schedule(script, 5, 600, 300).rows(work))
    assert len(rows) == 2 and do_not_overlap(spans(rows, "begun"))


def test_no_model_is_left_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo import schedule
    from zoo.settings import Setting

    monkeypatch.setattr(schedule, "LAST", 0.5)
    script = tmp_path / "fake.py"
    script.write_text("import time; time.sleep(60)")
    assert list(schedule.Schedule(script, 2, 1, 60).rows([({"list": "fake", "name": "slow"}, Setting())])) == []
    late = list(schedule.Schedule(script, 1, 60, 0.2).rows([({"list": "fake", "name": "slow"}, Setting())]))
    assert [row["failed"] for row in late] == ["took more than 0.2 s; "]


@pytest.mark.parametrize(
    "text",
    (
        "32,float16,burn.compile,reduce-overhead",
        "1,bfloat16,training,torch.compile,max-autotune",
        "32,float16,burn.compile,reduce-overhead,max-autotune,jax",
    ),
)
def test_settings_are_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.settings import Setting

    assert Setting.parse(text).text() == text
    with pytest.raises(ValueError, match="wrong"):
        Setting.parse(f"{text},wrong")
    entries = [{"list": kind, "name": str(i)} for kind in ("timm", "decode") for i in range(6)]
    assert [e["name"] for e in Setting.parse("1@timm:3").chosen(entries)] == ["0", "2", "4"]
    assert {e["list"] for e in Setting.parse("1,training").chosen(entries)} == {"timm"}


def test_other_engines_make_other_rows_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.settings import Setting, kind_of
    from zoo.tables import ratio, write

    old: dict[str, Any] = {
        "list": "timm",
        "name": "a",
        "batch": 32,
        "dtype": "float16",
        "training": False,
        "through": "burn.compile",
    }
    more: dict[str, Any] = {**old, **Setting.parse("32,float16,reduce-overhead,max-autotune,jax").row()}
    assert kind_of(old) == kind_of({**old, **Setting().row()}) != kind_of(more)
    with pytest.raises(ValueError, match="JAX"):
        Setting.parse("32,training,jax")
    old["seconds"] = {"burn": 1e-3, "eager": 4e-3, "reduce-overhead": 3e-3}
    more["seconds"] = {"burn": 1e-3, "eager": 4e-3, "reduce-overhead": 3e-3, "max-autotune": 2e-3, "jax": 5e-4}
    assert (ratio(old), ratio(more)) == (3.0, 2.0)
    results, page = tmp_path / "rows.jsonl", tmp_path / "page.md"
    results.write_text("".join(json.dumps(row) + "\n" for row in (old, more)))
    write(results, page)
    text = page.read_text()
    assert "beside reduce-overhead, max-autotune, jax" in text and "| timm a | 1.000 | 4.000 | 0.500 |" in text
    assert "geometric mean 3.00" in text and "geometric mean 2.00" in text
    results.write_text(json.dumps({**old, "seconds": {"burn": 1e-3, "eager": 4e-3, "reduce-overhead": 5e-3}}))
    write(results, page)  # the other section is kept
    assert "geometric mean 5.00" in page.read_text() and "geometric mean 2.00" in page.read_text()


def test_results_that_are_no_numbers_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    torch = pytest.importorskip("torch")
    from zoo.measured import difference
    from zoo.tables import is_wrong, ratio

    seconds = {"burn": 1e-3, "reduce-overhead": 2e-3}
    assert ratio({"seconds": seconds}) == 2 and ratio({"seconds": seconds, "differs": float("nan")}) is None
    one = torch.tensor([1.0, -2.0], dtype=torch.float16)
    assert is_wrong({"differs": difference(one * float("nan"), one)}) and is_wrong({"differs": difference(-one, one)})
    subnormal = one * 2**-22
    assert not is_wrong({"differs": difference(subnormal * 1.5, subnormal)})  # of two bits


def test_losses_may_differ_as_dropout_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.measured import beyond

    assert beyond(1.05, [1.0, 1.1]) == 0
    assert beyond(2.2, [1.0, 1.1]) == pytest.approx(1 / 1.1)
    assert beyond(1.5, [1.0, 1.0]) == 0.5


def test_constant_weights_get_values(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.weights import vary

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(288, 5)
    ).eval()
    torch.nn.init.zeros_(model[3].weight)
    scale = torch.nn.Parameter(torch.full((5,), 1e-6))
    model.register_parameter("scale", scale)
    kept, x = model[0].weight.clone(), 30 * torch.randn(4, 3, 8, 8) + 5
    vary(model, [x], "cpu")
    with torch.no_grad():
        normal = model[1](model[0](x))
    assert not model.training and model[1].momentum == 0.1
    assert torch.equal(model[0].weight, kept)
    assert 0.05 < scale.min() < scale.max() < 1
    assert 0.5 < normal.std() < 2 and normal.mean().abs() < 0.5
    assert 0.1 < model(x).std(0).mean() < 10
