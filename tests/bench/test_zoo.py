"""benchmarks/cpu_zoo.py prepares, times and tabulates a model that it has drawn."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

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
    zoo(*run, "--int8")
    quantised = json.loads(rows.read_text().splitlines()[4])
    assert quantised["int8"] and set(quantised["seconds"]) == {"burn", "onnxruntime"}
    zoo("write", "--results", rows, "--output", page)
    assert "1 models" in page.read_text() and "temporal small" in page.read_text() and "int8" in page.read_text()
    assert "- timm no_such_model" in page.read_text()


FAKE = """
import json, sys, time
entry = json.loads(sys.argv[2])
if entry["name"] == "broken":
    raise SystemExit("it is broken")
print("ready", flush=True)
sys.stdin.readline()
start = time.monotonic()
time.sleep(entry.get("sleep", 0))
row = {**entry, "batch": 1, "dtype": "float16", "training": False, "through": "burn.compile"}
print(json.dumps(row | {"from": start, "to": time.monotonic()}), flush=True)
"""


def test_one_model_is_timed_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo.schedule import Schedule
    from zoo.settings import Setting

    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    work = [({"list": "fake", "name": name, "sleep": 0.05}, Setting()) for name in ("a", "b", "broken", "c")]
    rows = {row["name"]: row for row in Schedule(script, 4, 60, 60).rows(work)}
    assert "it is broken" in rows.pop("broken")["failed"]
    spans = sorted((row["from"], row["to"]) for row in rows.values())
    assert len(spans) == 3 and all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


def test_no_model_is_left_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from zoo import schedule
    from zoo.settings import Setting

    monkeypatch.setattr(schedule, "LAST", 0.5)
    script = tmp_path / "fake.py"
    script.write_text("import time; time.sleep(60)")
    assert list(schedule.Schedule(script, 2, 1, 60).rows([({"list": "fake", "name": "slow"}, Setting())])) == []
    late = list(schedule.Schedule(script, 1, 60, 0.2).rows([({"list": "fake", "name": "slow"}, Setting())]))
    assert [row["failed"] for row in late] == ["took more than 0.2 s"]


@pytest.mark.parametrize(
    "text", ("32,float16,burn.compile,reduce-overhead", "1,bfloat16,training,torch.compile,max-autotune")
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
