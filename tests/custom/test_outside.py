"""Custom ops in ONNX files, PyTorch programs, packages and binaries."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import burn
from burn.custom import CustomOp
from burn.deploy.build import build
from burn.tracing.trace import trace

LOOKUP = r"""#include "burn_custom.h"
int lookup(const burn_custom_call *call) {
    const burn_custom_tensor *table = &call->input[0], *index = &call->input[1];
    int64_t width = table->sizes[1];
    float scale = (float)burn_custom_float(call, "scale", 1);
    for (int64_t i = 0; i < index->elements; i++) {
        int64_t row = ((const int64_t *)index->data)[i];
        if (row < 0 || row >= table->sizes[0])
            return 3;
        for (int64_t k = 0; k < width; k++)
            ((float *)call->output[0].data)[i * width + k] = scale * ((const float *)table->data)[row * width + k];
    }
    return 0;
}"""
TYPES = {"table": "float32[v, d]", "index": "int64[n]"}
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def lookup() -> CustomOp:
    op = burn.custom_op("tests.shop::lookup", "float32[v, d], int64[n] -> float32[n, d]", attributes={"scale": 1.0})
    op.c(LOOKUP, "lookup")
    op.vjp(lambda g, y, table, index, *, scale: ((table * 0).at[index].add(g * scale), None))
    return op


# ---- ONNX --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["c", "functions", "python"])
def test_onnx_round_trip(kind: str, tmp_path: Path) -> None:
    @burn.custom_op("tests.shop::Mix")
    def mix(*xs: Any, gain: float = 1.0, by: tuple[int, ...] = (1, 2), text: str = "a", flag: bool = False) -> Any:
        return xs[0], "int64[]"

    def compute(*xs: Any, gain: float, by: tuple[int, ...], text: str, flag: bool) -> Any:
        return sum(xs[1:], xs[0]) * gain + float(sum(by) + flag), len(text)

    if kind == "c":
        source = """#include "burn_custom.h"
        int mix(const burn_custom_call *c) {
            int64_t count, offset = burn_custom_int(c, "flag", 0);
            const int64_t *by = burn_custom_ints(c, "by", &count);
            for (int64_t i = 0; i < count; i++) offset += by[i];
            for (int64_t i = 0; i < c->output[0].elements; i++) {
                float sum = 0;
                for (int64_t k = 0; k < c->inputs; k++) sum += ((const float *)c->input[k].data)[i];
                ((float *)c->output[0].data)[i] = sum * (float)burn_custom_float(c, "gain", 0) + (float)offset;
            }
            *(int64_t *)c->output[1].data = (int64_t)strlen(burn_custom_text(c, "text"));
            return 0;
        }"""
        mix.c(source, "mix")
    elif kind == "functions":
        mix.functions(lambda *xs, **a: (compute(*xs, **a)[0], burn.constant(compute(*xs, **a)[1])))
    else:
        mix.python(lambda *xs, **a: (compute(*xs, **a)[0].astype(np.float32), np.int64(compute(*xs, **a)[1])))

    def f(x: Any) -> Any:
        return mix(x, x * 2, x + 1, gain=0.1, by=(4, 5, 6), text="four", flag=True)

    model = burn.export(f, tmp_path / "m.onnx", {"x": "float32[n]"})
    (node,) = [node for node in model.graph.node if node.domain]
    assert (node.domain, node.op_type) == ("tests.shop", "Mix") and len(node.attribute) == 4
    loaded = burn.load(tmp_path / "m.onnx")
    again = burn.export(trace(f, {"x": "float32[n]"}), tmp_path / "again.onnx")
    assert [n.op_type for n in again.graph.node if n.domain] == (["Mix"] if kind != "functions" else [])
    for size in (0, 1, 7):
        x = np.linspace(-1, 1, size, dtype=np.float32)
        y, length = loaded(x)
        np.testing.assert_allclose(y, (x + 2 * x + x + 1) * 0.1 + 16, rtol=1e-5)
        assert length == 4


def test_a_changed_op_changes_a_loaded_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("BURN_CACHE_SIZE", raising=False)
    op = lookup()
    burn.export(lambda t, i: op(t, i, scale=2.0), tmp_path / "m.onnx", {"t": "float32[v, d]", "i": "int64[n]"})
    index = np.array([1])
    assert burn.load(tmp_path / "m.onnx")(TABLE, index).tolist() == [[6, 8, 10]]
    op.c(LOOKUP.replace("scale *", "10 * scale *"), "lookup")
    assert burn.load(tmp_path / "m.onnx")(TABLE, index).tolist() == [[60, 80, 100]]


@pytest.mark.parametrize(
    ("operator", "attributes", "message"),
    [
        ("lokup", {}, r"unknown operator of domain 'tests.shop' \(did you mean 'tests.shop::lookup'\?\)"),
        ("lookup", {"other": 1}, "attribute 'other': the attribute is not supported here"),
        ("lookup", {"scale": "a"}, "attribute 'scale' is 'a'; it takes float"),
        ("lookup", {"scale": helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0])}, "is a TENSOR"),
    ],
)
def test_nodes_that_do_not_fit(operator: str, attributes: dict[str, Any], message: str, tmp_path: Path) -> None:
    lookup()
    node = helper.make_node(operator, ["t", "i"], ["y"], domain="tests.shop", **attributes)
    values = [("t", TensorProto.FLOAT, ["v", 3]), ("i", TensorProto.INT64, ["n"]), ("y", TensorProto.FLOAT, ["n", 3])]
    infos = [helper.make_tensor_value_info(*value) for value in values]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("tests.shop", 1)]
    onnx.save(
        helper.make_model(helper.make_graph([node], "g", infos[:2], infos[2:]), opset_imports=imports),
        tmp_path / "m.onnx",
    )
    with pytest.raises(burn.ModelError, match=message):
        burn.load(tmp_path / "m.onnx")


# ---- PyTorch -----------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_torch_programs() -> None:
    import torch

    op = lookup().torch()
    assert op is burn.custom.find("tests.shop::lookup").torch()
    table, index = torch.tensor(TABLE, requires_grad=True), torch.tensor([3, 0, 3])
    torch.library.opcheck(op, (table, index))

    def f(table: Any, index: Any) -> Any:
        return (op(table * 2, index, scale=3.0) * torch.arange(3.0)).sum()

    want = f(table, index)
    want.backward()
    gradient, table.grad = table.grad, None
    assert gradient is not None
    assert gradient.tolist() == [[0, 6, 12], [0, 0, 0], [0, 0, 0], [0, 12, 24]]
    compiled = torch.compile(f, backend="burn", dynamic=True)
    found = compiled(table, index)
    found.backward()
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(table.grad, gradient)
    torch.testing.assert_close(compiled(table, index[:1]), f(table, index[:1]))


# ---- packages and binaries ---------------------------------------------------------------------------------------------
def test_a_package_holds_the_function(tmp_path: Path) -> None:
    op = lookup()
    program = burn.compile(lambda table, index: op(table, index, scale=2.0), TYPES)
    program.artefact.save(tmp_path / "p.burn")
    code = "import sys, numpy as np, burn; p = burn.load(sys.argv[1])\n"
    code += "print(p(np.ones((2, 2), np.float32), np.array([1])).tolist())"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "p.burn"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[2.0, 2.0]]"


def test_a_command_and_a_library(tmp_path: Path) -> None:
    op = lookup()
    program = trace(lambda table, index: op(table, index, scale=2.0) + 1, TYPES)
    (command,) = build("exe", program.copy(), tmp_path / "command")
    np.savez(tmp_path / "in.npz", table=TABLE, index=np.array([3, 0]))
    subprocess.run([command, tmp_path / "in.npz", "-o", tmp_path / "out.npz"], check=True, capture_output=True)
    assert np.load(tmp_path / "out.npz")["output"].tolist() == [[19, 21, 23], [1, 3, 5]]
    np.savez(tmp_path / "bad.npz", table=TABLE, index=np.array([4]))
    failed = subprocess.run([command, tmp_path / "bad.npz"], capture_output=True, text=True)
    assert failed.returncode == 1 and "tests.shop::lookup" in failed.stderr and "returned 3" in failed.stderr
    made = build("shared", program, tmp_path / "shared")
    assert (
        made[0].suffix == ".so"
        and b"burn_custom_" not in subprocess.run(["nm", "-D", made[0]], capture_output=True).stdout
    )


def test_functions_of_one_name(tmp_path: Path) -> None:
    """Two ops whose functions in C have the same name."""
    body = (
        '#include "burn_custom.h"\nint f(const burn_custom_call *c) {{ *(float *)c->output[0].data = {}; return 0; }}'
    )
    first, second = (burn.custom_op(f"tests::of{n}", "float32[] -> float32[]").c(body.format(n), "f") for n in (1, 2))
    (command,) = build("exe", trace(lambda x: first(x) + 10 * second(x), {"x": "float32[]"}), tmp_path / "both")
    np.savez(tmp_path / "in.npz", x=np.float32(0))
    subprocess.run([command, tmp_path / "in.npz", "-o", tmp_path / "out.npz"], check=True)
    assert np.load(tmp_path / "out.npz")["output"].item() == 21


def test_what_binaries_refuse(tmp_path: Path) -> None:
    python = burn.custom_op("tests::inpython", "float32[n] -> float32[n]")
    python.python(lambda x: x)
    refused = r"tests::inpython.*test_outside.py:\d+.*its body is a Python function"
    for kind in ("exe", "wasm"):
        with pytest.raises(burn.CompileError, match=refused):
            platform = {"wasm": "wasm32"}.get(kind)
            _build(kind, trace(lambda x: python(x) + 1, {"x": "float32[n]"}), tmp_path / kind, platform)
    with pytest.raises(burn.RunError, match="the custom op tests::inpython calls a Python function"):
        burn.compile(lambda x: python(x), {"x": "float32[n]"}).artefact.save(tmp_path / "p.burn")
    op = lookup()
    with pytest.raises(burn.CompileError, match=r"tests.shop::lookup: an object file does not hold its function"):
        build("object", trace(lambda table, index: op(table, index), TYPES), tmp_path / "p.o")


def _build(kind: str, program: Any, output: Path, platform: str | None) -> None:
    from burn.deploy.options import Options
    from burn.toolchain import platforms

    build(kind, program, output, Options(platforms.find(platform) if platform else platforms.find()))


def test_commands_take_files_with_ops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from burn.cli.compile import main as compile_
    from burn.cli.import_ import main as import_

    monkeypatch.chdir(tmp_path)
    Path("ops.py").write_text(
        'import burn\nop = burn.custom_op("tests.files::twice", "T[n] -> T[n]")\nop.functions(lambda x: x + x)\n'
    )
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    node = helper.make_node("twice", ["x"], ["y"], domain="tests.files")
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("tests.files", 1)]
    onnx.save(helper.make_model(helper.make_graph([node], "g", infos[:1], infos[1:]), opset_imports=imports), "m.onnx")
    refused = CliRunner().invoke(compile_, ["m.onnx", "-o", "m.burn"])
    assert refused.exit_code == 1 and 'burn.custom_op("tests.files::twice") defines it' in refused.output
    done = CliRunner().invoke(compile_, ["m.onnx", "--ops", "ops.py", "-o", "m.burn"])
    assert done.exit_code == 0, done.output
    assert burn.load("m.burn")(np.ones(2, np.float32)).tolist() == [2, 2]
    done = CliRunner().invoke(import_, ["m.onnx", "--ops", "ops.py", "-o", "source"])
    assert done.exit_code == 0, done.output
    assert 'burn.custom.find("tests.files::twice")(x)' in Path("source/model.py").read_text()
