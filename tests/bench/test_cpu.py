"""benchmarks/cpu.py: what it measures is kept and read again, and the tables say what the figures say."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("onnxruntime")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("cpu")


def test_a_part_is_added_to_the_figures(cpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = helper.make_node("Mul", ["x", "x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [5, 7]) for name in "xy")
    graph = helper.make_graph([node], "square", [x], [y])
    model, figures = tmp_path / "square.onnx", tmp_path / "figures.json"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    old = asdict(
        cpu.Figure("square.onnx", "generic", 1, "onnxruntime", "0", 1.0, 1.0, 1.0, False, "2000-01-01", "an old one")
    )
    figures.write_text(json.dumps([old, {**old, "threads": 2}]))
    monkeypatch.setattr(cpu, "bind", lambda threads: threads)  # this process runs other tests
    given = f"cpu.py --figures {figures} --models {model} --threads 1 --target generic --peers onnxruntime --runs 2"
    monkeypatch.setattr(sys, "argv", given.split())
    cpu.main()
    kept = cpu.read(figures)
    assert [figure.threads for figure in kept] == [1, 2]
    assert (
        kept[0].version != "0" and kept[0].machine != "an old one" and kept[0].burn != 1.0
    )  # what was there is replaced
    assert asdict(kept[1]) == {**old, "threads": 2}


def test_tables(cpu: ModuleType) -> None:
    one = cpu.Figure("minilm seq=128", "avx2", 2, "onnxruntime", "1", 0.01, 0.02, 0.5, False, "2026-01-02", "A (avx2)")
    figures = [
        one,
        replace(one, peer="openvino", theirs=0.0125, ratio=0.8),
        replace(one, model="seeded_vgg19", burn=0.1, theirs=0.05, ratio=2.0, disturbed=True),
        replace(one, model="yolo", day="2026-01-03"),
        replace(one, target="avx512", threads=1, machine="B (avx512)"),
    ]
    text = cpu.document(figures)
    first, second = text.split("## ")[1:]
    assert first.startswith("avx512, 1 thread\n") and second.startswith("avx2, 2 threads\n")
    assert "| minilm seq=128 | 10.00 ms | 20.00 ms (0.50) | 12.50 ms (0.80) | 0.80 |" in second
    assert "| seeded_vgg19* | 100.00 ms | 50.00 ms (2.00) |  | 2.00 |" in second
    assert second.index("seeded_vgg19") < second.index("minilm")  # in the order of MODELS
    assert "A (avx2); 2026-01-02 to 2026-01-03; onnxruntime 1, openvino 1." in second
    assert "B (avx512); 2026-01-02; onnxruntime 1." in first
    assert "Geometric mean 0.93, worst 2.00, of 3 models." in second
    assert "took part of the machine" in second and "took part of the machine" not in first


def test_a_page_keeps_other_tables(cpu: ModuleType) -> None:
    one = cpu.Figure("minilm", "avx2", 2, "onnxruntime", "1", 0.01, 0.02, 0.5, False, "2026-01-02", "A (avx2)")
    page = cpu.document([one, replace(one, threads=1), replace(one, target="vnni", machine="B (vnni)")])
    page = cpu.document([replace(one, precision="bf16", machine="C")], page)
    assert cpu.document([], page) == page
    newer = cpu.document([replace(one, burn=0.03, day="2026-01-04")], page)
    titles = [line for line in newer.splitlines() if line.startswith("## ")]
    assert titles == ["## vnni, 2 threads", "## avx2, 2 threads", "## avx2, 1 thread", "## avx2 bf16, 2 threads"]
    tables_of = importlib.import_module("pages").tables_of
    kept, changed = tables_of(page), tables_of(newer)
    assert [key for key in kept if kept[key] != changed[key]] == [("avx2", 2)]
    assert "30.00 ms" in changed["avx2", 2] and "2026-01-04" in changed["avx2", 2]


def test_sizes_in_a_name(cpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "find", lambda name, sizes: (name, sizes))
    assert cpu.subject("gpt2:seq=128,past=0") == ("gpt2", {"seq": 128, "past": 0})
    assert cpu.subject("yolo") == ("yolo", {})


def test_peers_find_an_older_cpu() -> None:
    """In a process of its own: the CPU features that a program queries are hidden, and the others stay."""
    program = """
import subprocess
import sys
sys.path.insert(0, "benchmarks")
import older
from burn.errors import BurnError
try:
    with older.seen_as("avx2"):
        import onnxruntime
        from burn.runtime.host import features
        if "older" in onnxruntime.__file__.split("/"):
            print("copied:", onnxruntime.__file__)
        print(sorted({"avx2", "fma", "avx512f", "amx-tile"} & set(features())))
except BurnError as error:
    print("cannot:", error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("cannot:"):
        pytest.skip(done.stdout)
    if done.stdout.startswith("copied:"):
        pytest.skip("the kernel does not intercept cpuid: only copies of the peers find an older CPU")
    assert "avx512f" not in done.stdout and "amx-tile" not in done.stdout and "'avx2'" in done.stdout
