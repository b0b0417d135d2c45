"""The commands as a user runs them: what they print, what they write, how they fail."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console

import burn
from burn.bench import load
from burn.bench.roofline import Level, Roofline
from burn.cli.main import COMMANDS, main
from burn.cli.profile import profiled, show_profile
from burn.runtime.artefact import KernelInfo
from burn.runtime.profile import Profile

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


@pytest.fixture(autouse=True, scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """As for a user, what one command has compiled the next one finds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BURN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("BURN_CACHE_SIZE")
        yield


def command(*arguments: object) -> Result:
    """In this process, which has imported everything."""
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def succeeds(*arguments: object) -> Result:
    done = command(*arguments)
    assert done.exit_code == 0, done.stderr
    return done


def fails(*arguments: object, status: int = 1) -> str:
    """The message of a command that must fail: on stderr, and no traceback."""
    done = command(*arguments)
    assert done.exit_code == status, (done.exit_code, done.stdout, done.stderr)
    assert "Traceback" not in done.output
    assert done.stderr.strip()
    return done.stderr


def test_a_process_ends_as_its_command(tmp_path: Path) -> None:
    def process(*arguments: object) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "burn.cli.main", *map(str, arguments)]
        return subprocess.run(line, capture_output=True, text=True, timeout=300)

    done = process("import", DIGITS, "-o", tmp_path)
    assert done.returncode == 0 and "[3/3] writing" in done.stderr and "23,276 parameters" in done.stdout
    done = process("run", tmp_path / "absent.onnx")
    assert done.returncode == 1 and not done.stdout
    assert done.stderr == f"error: {tmp_path / 'absent.onnx'}: there is no such file\n"


def test_an_interrupt_during_the_import_is_no_traceback(tmp_path: Path) -> None:
    """The command's module signals this process while it is imported. Background processes of a shell
    ignore SIGINT, which their children inherit."""
    text = "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    (tmp_path / "burn_interrupted.py").write_text(f"{text}os.kill(os.getpid(), signal.SIGINT)\nmain = print\n")
    line = "from burn.cli import entry; entry.start('burn_interrupted')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 1 and done.stderr == "\nAborted!\n" and not done.stdout


def test_every_script_starts_its_command() -> None:
    scripts = re.findall(r'^([\w-]+) = "(burn\.cli\.entry:\w+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    modules = {"burn": "burn.cli.main", **{f"burn-{name}": module for name, (module, _) in COMMANDS.items()}}
    assert len(scripts) == 6
    for name, target in scripts:
        module, _, function = target.partition(":")
        (started,) = getattr(import_module(module), function).args
        assert started == modules[name] and callable(import_module(started).main)


def save(path: Path, nodes: list, inputs: dict, outputs: dict, weights: dict | None = None) -> Path:
    """A model, unchecked: it may be wrong on purpose."""

    def infos(values: dict) -> list:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in values.items()]

    tensors = [numpy_helper.from_array(np.asarray(a, np.float32), n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def test_names_of_c_functions(tmp_path: Path) -> None:
    for name in ("9 x", "a-b", "int", "burn", "a__b", "é"):
        text = fails("compile", DIGITS, "--emit", "shared", "-o", tmp_path / "out", "--name", name, status=2)
        assert f"'{name}' cannot begin the names of C functions; " in text
    assert text.rstrip().endswith("; value can")
    for output in ("model", "model.ll", "model.burn"):
        assert "--name is for libraries" in fails("compile", DIGITS, "-o", tmp_path / output, "--name", "net", status=2)
    assert not list(tmp_path.iterdir())


# ---- import ------------------------------------------------------------------------------------------------------------


def test_import_writes_source_and_weights_that_run(tmp_path: Path) -> None:
    done = succeeds("import", DIGITS, "-o", tmp_path / "a" / "b", "--name", "Digits")
    assert "[1/3] importing" in done.stderr and "[3/3] writing" in done.stderr
    assert "input   image   float32[batch, 1, 8, 8]" in done.stdout and "23,276 parameters" in done.stdout
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == ["model.py", "model.safetensors"]
    spec = importlib.util.spec_from_file_location("digits", tmp_path / "a" / "b" / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run = burn.compile(module.Digits.from_file(tmp_path / "a" / "b" / "model.safetensors"))
    x = np.random.default_rng(0).random((5, 1, 8, 8), np.float32)
    np.testing.assert_array_equal(run(x), burn.load(DIGITS, cache=False)(x))


def test_import_reports_in_json(tmp_path: Path) -> None:
    report = json.loads(succeeds("import", DIGITS, "-o", tmp_path, "--json").stdout)
    assert report["inputs"] == [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}]
    assert report["outputs"][0]["shape"] == ["batch", 10]
    assert report["ops"]["conv"] == 3 and report["parameters"] == 23276
    per_image = 2 * 64 * 9 * 16 + 2 * 64 * 9 * 16 * 32 + 2 * 16 * 9 * 32 * 32 + 2 * 128 * 64 + 2 * 64 * 10
    assert report["flops"] == f"{per_image}*batch"
    assert Path(report["source"]).exists() and Path(report["weights"]).exists()


def test_import_fixes_sizes(tmp_path: Path) -> None:
    succeeds("import", DIGITS, "-o", tmp_path, "--dim", "batch=4")
    assert '"float32[4, 1, 8, 8]"' in (tmp_path / "model.py").read_text()


def test_import_does_not_overwrite_unless_told(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("mine")
    message = fails("import", DIGITS, "-o", tmp_path)
    assert "model.py" in message and "--force" in message
    assert (tmp_path / "model.py").read_text() == "mine" and not (tmp_path / "model.safetensors").exists()
    succeeds("import", DIGITS, "-o", tmp_path, "--force")
    assert "class Model" in (tmp_path / "model.py").read_text()


def bad_models(folder: Path) -> dict[str, tuple[Path, list[str]]]:
    """Kind of error -> a bad file, and the words that the message must contain."""
    node = helper.make_node
    (folder / "bytes.onnx").write_bytes(b"\xff" * 100)
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "cut.onnx").write_bytes(DIGITS.read_bytes()[:5000])
    x = {"x": ["n", 4]}
    two = [
        node("NoSuchOperator", ["x"], ["a"], name="first"),
        node("Softmax", ["a"], ["b"], name="fine", axis=-1),
        node("AlsoUnknown", ["x"], ["y"], name="third"),
    ]
    return {
        "bytes": (folder / "bytes.onnx", ["not an ONNX model"]),
        "empty": (folder / "empty.onnx", ["empty"]),
        "cut off": (folder / "cut.onnx", ["not an ONNX model"]),
        "absent": (folder / "absent.onnx", ["no such file"]),
        "a folder": (folder, ["folder"]),
        "operators": (save(folder / "ops.onnx", two, x, x), ["NoSuchOperator", "'first'", "AlsoUnknown", "'third'"]),
        "undefined": (save(folder / "u.onnx", [node("Relu", ["q"], ["y"])], x, {"y": ["n", 4]}), ["q"]),
        "shapes": (
            save(folder / "s.onnx", [node("MatMul", ["x", "w"], ["y"], name="m")], x, {"y": ["n", 3]}, {"w": np.ones((5, 3))}),
            ["MatMul", "'m'"],
        ),
        "attribute": (
            save(folder / "a.onnx", [node("Softmax", ["x"], ["y"], name="s", axis=9)], x, {"y": ["n", 4]}), ["axis 9", "'s'"],
        ),
    }  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["bytes", "empty", "cut off", "absent", "a folder", "operators", "undefined", "shapes", "attribute"]
)
def test_bad_models_fail_with_a_message_and_leave_nothing(kind: str, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    model, parts = bad_models(tmp_path / "models")[kind]
    message = fails("import", model, "-o", tmp_path / "out" / "deep")
    for part in parts:
        assert part in message, message
    assert not (tmp_path / "out").exists()
    message = fails("run", model)
    assert all(part in message for part in parts)


def test_import_of_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where the folder should be")
    assert "not a folder" in fails("import", DIGITS, "-o", tmp_path / "out")
    assert "Not a directory" in fails("import", DIGITS, "-o", tmp_path / "out" / "deeper")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


def test_usage_errors_have_status_2(tmp_path: Path) -> None:
    assert "--output" in fails("import", DIGITS, status=2)
    assert "not a Python name" in fails("import", DIGITS, "-o", tmp_path, "--name", "a b", status=2)
    for taken in ("nn", "ops", "burn", "print"):
        assert "means something else" in fails("import", DIGITS, "-o", tmp_path, "--name", taken, status=2)
    assert "NAME=NUMBER" in fails("run", DIGITS, "--dim", "batch", status=2)
    assert "--per-node" in fails("run", DIGITS, "--per-node", status=2)
    assert "No such command" in fails("nonsense", status=2)


# ---- run ---------------------------------------------------------------------------------------------------------------


def test_run_on_files_and_random_inputs(tmp_path: Path) -> None:
    x = np.random.default_rng(3).random((2, 1, 8, 8), np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", image=x)
    results = []
    for source in ("x.npy", "x.npz"):
        done = succeeds("run", DIGITS, "--input", f"image={tmp_path / source}", "--save", tmp_path / "y.npz")
        assert "logits  float32[2, 10]" in done.stdout
        results.append(np.load(tmp_path / "y.npz")["logits"])
    np.testing.assert_array_equal(*results)
    np.testing.assert_array_equal(results[0], burn.load(DIGITS)(x))
    reports = [json.loads(succeeds("run", DIGITS, "--dim", "batch=3", "--seed", s, "--json").stdout) for s in (1, 1, 2)]
    assert reports[0]["outputs"] == reports[1]["outputs"] != reports[2]["outputs"]
    assert reports[0]["sizes"] == {"batch": 3}


def test_run_verifies_against_onnxruntime_node_by_node() -> None:
    pytest.importorskip("onnxruntime")
    done = succeeds("run", DIGITS, "--dim", "batch=2", "--verify", "onnxruntime", "--per-node")
    assert "same" in done.stdout and "every node's result is the same" in done.stdout


def test_opt_prints_statistics(tmp_path: Path) -> None:
    model = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 3]}, {"y": [2, 3]})
    done = succeeds("opt", model, "--passes", "simplify,fuse", "--stats")
    rows = [line.split()[0] for line in done.stderr.splitlines()]
    assert rows == ["pass", "simplify", "fuse"] and "rounds: " in done.stderr


@pytest.mark.parametrize("device", ["reference", "xla"])
def test_run_verifies_against_another_device(device: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"], name="soft"),
        helper.make_node("Cast", ["a"], ["y"], name="cast", to=10),
    ]
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [value("x", 1)], [value("y", 10)])), model)
    done = succeeds("run", model, "--dim", "n=2", "--verify", device, "--per-node", "--json")
    report = json.loads(done.stdout)["verify"]
    assert report["with"] == device and report["same"] and report["first_difference"] is None
    done = command("run", model, "--dim", "n=2", "--verify", device, "--tolerance", "1e-12", "--json")
    assert done.exit_code in (0, 1) and json.loads(done.stdout)["verify"]["outputs"][0]["relative"] < 1e-2


def value(name: str, dtype: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, ["n", 6])


def test_a_difference_is_an_error_that_names_the_node(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="exact"),
        helper.make_node("Softmax", ["a"], ["b"], name="rounded"),
        helper.make_node("Neg", ["b"], ["y"], name="after"),
    ]
    model = save(tmp_path / "m.onnx", nodes, {"x": [8, 300]}, {"y": [8, 300]})
    done = command("run", model, "--verify", "onnxruntime", "--per-node", "--tolerance", "1e-12", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1 and "differ" in done.stderr
    assert report["verify"]["first_difference"]["node"] == "rounded" and not report["verify"]["same"]


def test_whole_numbers_are_drawn_from_what_they_choose_from(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["tokens"], ["wide"], to=onnx.TensorProto.INT64),
        helper.make_node("Gather", ["table", "wide"], ["y"]),
        helper.make_node("Identity", ["mask"], ["z"]),
        helper.make_node("Identity", ["bytes"], ["w"]),
    ]
    table = numpy_helper.from_array(np.arange(40, dtype=np.float32).reshape(40, 1), "table")
    inputs = [
        helper.make_tensor_value_info("tokens", onnx.TensorProto.INT32, [500]),
        helper.make_tensor_value_info("mask", onnx.TensorProto.INT64, [500]),
        helper.make_tensor_value_info("bytes", onnx.TensorProto.UINT8, [500]),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in "yzw"]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, [table]), ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    rows = json.loads(succeeds("run", tmp_path / "m.onnx", "--json").stdout)["outputs"]
    assert [row["max"] for row in rows] == [39, 1, 255]


def test_run_profiles() -> None:
    report = json.loads(succeeds("run", DIGITS, "--dim", "batch=8", "--profile", "--json").stdout)
    rows = report["profile"]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert any("conv" in row["kernel"] and row["gflops"] for row in rows)
    assert "/hidden/Gemm" in {node for row in rows for node in row["nodes"]}
    assert all(row["of_peak"] > 0 for row in rows)
    assert report["roofline"]["gflops"]["vectors"] > 0 and report["roofline"]["gigabytes"]["memory"] > 0
    show_profile(Console(file=(file := io.StringIO()), width=120), report)
    shown = " ".join(file.getvalue().split())  # lines break where figures are long
    assert "GFLOP/s" in shown and "of peak" in shown and "GB/s from memory" in shown
    runs = report["profiled"]
    assert runs["count"] >= 5 and runs["least"] <= runs["seconds"] <= runs["most"] and runs["kernels"] <= runs["most"]
    assert sum(row["seconds"] for row in rows) == pytest.approx(runs["kernels"]) and "medians of 5 runs" in shown


def test_a_profile_says_that_the_machine_was_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = iter([(100.0, 10.0, 0.0), (101.0, 10.5, 0.5), (7.0, 7.0, 1.0), (7.0, 7.0, 1.05)])
    monkeypatch.setattr(load, "_now", lambda: next(figures))
    with load.Others() as others:
        pass
    assert others.cores == pytest.approx(1.0) and others.disturb == ((os.cpu_count() or 1) < 10)
    with load.Others() as short:
        pass
    assert short.cores is None and not short.disturb
    kernel = KernelInfo("k", flops="100")
    profile = Profile.of([kernel], [[(1, 1000)], [(1, 3000)], [(1, 2000)]], [4e-6, 4e-6, 4e-6], {})
    assert (profile.seconds, profile.rows[0].least, profile.rows[0].most) == pytest.approx((2e-6, 1e-6, 3e-6))
    above = Roofline(1, {"vectors": 1e6}, (Level("memory", 1e9, 1e12),))
    others.cores = 1e3
    warnings = profiled(profile, above, others)["warnings"]
    assert len(warnings) == 2 and "busy" in warnings[0] and "above the measured peak" in warnings[1]


def test_kernels_are_not_named_for_constants_that_were_merged(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), f"w{i}") for i in range(3)]
    nodes, x = [], "x"
    for i in range(3):
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"], name=f"block{i}/matmul"))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i}"], name=f"block{i}/relu"))
        x = f"r{i}"
    of = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [of("x", 1, ["n", 64])], [of("r2", 1, ["n", 64])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    profile = burn.load(model, cache=False).profile(np.ones((32, 64), np.float32))
    blocks = [{node.partition("/")[0] for node in row.kernel.sources} for row in profile.rows]
    assert blocks == [{"block0"}, {"block1"}, {"block2"}]


def test_run_writes_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    report = json.loads(succeeds("run", DIGITS, "--dim", "batch=8", "--trace", str(path), "--json").stdout)
    assert "profile" not in report
    names = {event["name"] for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"}
    assert any("conv" in name for name in names)
    assert "absent" in fails("run", DIGITS, "--dim", "batch=8", "--trace", str(tmp_path / "absent" / "t.json"))


def test_run_names_every_wrong_input(tmp_path: Path) -> None:
    message = fails("run", DIGITS, "--input", "picture=random")
    for part in ("no input 'picture'", "--dim batch=NUMBER"):
        assert part in message
    assert "depth" in fails("run", DIGITS, "--dim", "depth=3")
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    assert "float64" in fails("run", DIGITS, "--input", f"image={tmp_path / 'x.npy'}")
    (tmp_path / "bad.npy").write_text("nonsense")
    assert "image" in fails("run", DIGITS, "--input", f"image={tmp_path / 'bad.npy'}")
    assert "no such file" in fails("run", DIGITS, "--input", "image=absent.npy")
    assert ".npz" in fails("run", DIGITS, "--dim", "batch=1", "--save", tmp_path / "y.txt")


# ---- inspect and the group ---------------------------------------------------------------------------------------------


def test_inspect(tmp_path: Path) -> None:
    assert "3 conv" in succeeds("inspect", DIGITS).stdout
    assert json.loads(succeeds("inspect", DIGITS, "--json").stdout)["ops"]["relu"] == 4
    graph = succeeds("inspect", DIGITS, "--dot").stdout
    assert graph.startswith('digraph "digits.onnx" {') and graph.rstrip().endswith("}") and graph.count("->") >= 25
    burn.load(DIGITS).artefact.save(tmp_path / "digits.burn")
    assert "kernels" in succeeds("inspect", tmp_path / "digits.burn").stdout
    assert json.loads(succeeds("inspect", tmp_path / "digits.burn", "--json").stdout)["kernels"] > 0
    assert "compiled" in fails("inspect", tmp_path / "digits.burn", "--dot")


def test_the_group_lists_its_commands() -> None:
    text = succeeds("--help").stdout
    for name in ("import", "run", "inspect", "bench", "opt"):
        assert name in text
        assert succeeds(name, "--help").stdout
    assert succeeds("--version").stdout.startswith("burn, version")


def test_the_aliases_are_installed() -> None:
    folder = Path(sys.executable).parent
    for name in ("burn", "burn-import", "burn-run"):
        program = shutil.which(name, path=os.pathsep.join([str(folder), os.environ.get("PATH", "")]))
        assert program is not None, name
        done = subprocess.run([program, "--help"], capture_output=True, text=True)
        assert done.returncode == 0, name


def test_models_with_external_data(tmp_path: Path) -> None:
    model = onnx.load(DIGITS)
    onnx.save(model, tmp_path / "d.onnx", save_as_external_data=True, location="d.bin", size_threshold=0)
    succeeds("import", tmp_path / "d.onnx", "-o", tmp_path / "out")
    (tmp_path / "d.bin").unlink()
    assert "d.bin" in fails("import", tmp_path / "d.onnx", "-o", tmp_path / "other")
    assert not (tmp_path / "other").exists()


# ---- options that say nothing that could hold ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", -1], "-1 is not in the range"),
        (["--verify", "onnxruntime", "--tolerance", -1], "-1.0 is not in the range"),
        (["--verify", "onnxruntime", "--tolerance", "nan"], "nan is not a number"),
        (["--dim", "batch=3", "--dim", "batch=4"], "'batch' has several values"),
        (["--input", "image=a.npy", "--input", "image=b.npy"], "'image' has several values"),
    ],
)
def test_values_out_of_range_are_refused(options: list[object], message: str) -> None:
    assert message in fails("run", DIGITS, *options, status=2)


def test_strings_are_not_drawn_at_random(tmp_path: Path) -> None:
    kinds = [helper.make_tensor_value_info(name, TensorProto.STRING, ["n"]) for name in ("s", "c")]
    graph = helper.make_graph([helper.make_node("StringConcat", ["s", "s"], ["c"])], "g", kinds[:1], kinds[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "s.onnx")
    message = fails("run", tmp_path / "s.onnx", "--dim", "n=2")
    assert "input 's' holds strings, which cannot be drawn at random (--input s=FILE.npy)" in message
    np.save(tmp_path / "s.npy", np.array(["a", "é"]))
    succeeds("run", tmp_path / "s.onnx", "--input", f"s={tmp_path / 's.npy'}", "--verify", "onnxruntime")
