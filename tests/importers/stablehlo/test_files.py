"""StableHLO files: text, bytecode, artefacts of jax.export with symbolic sizes; names; errors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import BurnError, ModelError
from burn.importers.stablehlo.build import import_stablehlo
from burn.importers.stablehlo.recognition import recognise
from burn.importers.stablehlo.syntax.locations import read_location
from tests.importers.stablehlo.tools import NEEDS_TORCH_MLIR_OPT

TEXT = """
module {
  func.func @main(%arg0: tensor<?x4xf32>, %arg1: tensor<4x3xf32>) -> tensor<?x3xf32> {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
    %1 = chlo.erf %0 : tensor<?x3xf32> -> tensor<?x3xf32>
    return %1 : tensor<?x3xf32>
  }
}
"""


def written(folder: Path, text: str, name: str = "m.mlir") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def body(lines: str, takes: str = "%x: tensor<3xf32>", gives: str = "tensor<3xf32>", result: str = "%r") -> str:
    return f"module {{\n func.func @main({takes}) -> {gives} {{\n {lines}\n return {result} : {gives}\n }}\n}}"


@NEEDS_TORCH_MLIR_OPT
@pytest.mark.parametrize("name", ["m.mlir", "m.stablehlo"])
def test_text_needs_no_jaxlib(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from burn.importers.stablehlo import parsing

    monkeypatch.setattr(parsing, "_has_jaxlib", lambda: False)
    program = import_stablehlo(written(tmp_path, TEXT, name))
    assert program.input_names == ["arg0", "arg1"]
    assert [str(t) for t in program.input_types] == ["float32[arg0_0, 4]", "float32[4, 3]"]
    assert [str(t) for t in program.output_types] == ["float32[arg0_0, 3]"]


def test_load_runs_text_for_every_size(tmp_path: Path) -> None:
    model = burn.load(written(tmp_path, TEXT))
    w = np.random.default_rng(0).standard_normal((4, 3)).astype("f4")
    for n in (1, 5):
        x = np.random.default_rng(n).standard_normal((n, 4)).astype("f4")
        import math

        want = np.vectorize(math.erf)((x @ w).astype("f8"))
        np.testing.assert_allclose(np.asarray(model(x, w)), want, atol=1e-6)


def test_sizes_can_be_given(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)
    assert str(import_stablehlo(path, dims={"arg0_0": 7}).input_types[0]) == "float32[7, 4]"
    with pytest.raises(ModelError, match=r"no size 'arg0_1' \(did you mean 'arg0_0'\?\)"):
        import_stablehlo(path, dims={"arg0_1": 7})


def test_text_of_burn_is_not_taken_for_stablehlo() -> None:
    assert not recognise(b'module { "burn.return"() : () -> () loc("stablehlo.add") }', "m.mlir")
    assert recognise(b"module { func.func @main() { stablehlo.constant } }", "m.mlir") == "text"
    assert not recognise(b"\x08\x07 an ONNX model", "m.onnx")


# ---- errors ------------------------------------------------------------------------------------------------------------
def test_everything_unsupported_is_listed_with_its_location(tmp_path: Path) -> None:
    text = body(
        '%a = stablehlo.custom_call @my_kernel(%x) : (tensor<3xf32>) -> tensor<3xf32> loc("model.py":12:4)\n'
        " %t = stablehlo.create_token : !stablehlo.token\n"
        ' %b:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token) loc("feed")\n'
        " %r = stablehlo.add %a, %b#0 : tensor<3xf32>"
    )
    with pytest.raises(ModelError) as error:
        import_stablehlo(written(tmp_path, text))
    said = str(error.value)
    assert "@my_kernel is not supported" in said and "model.py:12" in said
    assert "stablehlo.infeed: exchanges data with a host" in said and "feed" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("module {", "line 1"),
        (body("%r = stablehlo.tanh %y : tensor<3xf32>"), "line 3: use of undeclared SSA value name"),
        (body("%r = stablehlo.add %x, %x : tensor<4xf32>"), "line 3"),
        (body("%r = stablehlo.frobnicate %x : tensor<3xf32>"), "line 3: "),
        (body("%r = stablehlo.tanh %x : tensor<3xf32>").replace("@main", "private @other"), "has no function @main"),
        (
            body("%r = stablehlo.tanh %x : tensor<3xcomplex<f32>>").replace("tensor<3xf32>", "tensor<3xcomplex<f32>>"),
            "input 'arg0' is of complex64 elements",
        ),
        (body("%r = func.call @main(%x) : (tensor<3xf32>) -> tensor<3xf32>"), "@main calls itself"),
        (
            body('%r = "stablehlo.tanh"(%x) {strange = 1 : i64} : (tensor<3xf32>) -> tensor<3xf32>'),
            "attribute 'strange' is not supported",
        ),
        (
            body(
                '%r = "stablehlo.all_reduce"(%x) ({^bb0(%a: tensor<f32>, %b: tensor<f32>): stablehlo.return %a : tensor<f32>})'
                " {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3xf32>) -> tensor<3xf32>"
            ),
            "computes with several devices",
        ),
    ],
)
def test_errors_name_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ModelError) as error:
        burn.load(written(tmp_path, text, "m.stablehlo"))
    assert says in str(error.value)


def test_calls_that_double_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from burn.importers.stablehlo import build

    monkeypatch.setattr(build, "MOST_OPS", 500)
    functions = [
        f" func.func private @f{i}(%x: tensor<f32>) -> tensor<f32> {{\n"
        f" %a = func.call @f{i + 1}(%x) : (tensor<f32>) -> tensor<f32>\n"
        f" %b = func.call @f{i + 1}(%a) : (tensor<f32>) -> tensor<f32>\n return %b : tensor<f32>\n }}"
        for i in range(30)
    ]
    last = " func.func private @f30(%x: tensor<f32>) -> tensor<f32> {\n return %x : tensor<f32>\n }"
    text = body("%r = func.call @f0(%x) : (tensor<f32>) -> tensor<f32>").replace("3xf32", "f32")
    text = text[: text.rindex("}")] + "\n".join([*functions, last]) + "\n}"
    with pytest.raises(ModelError, match="more than 500 ops"):
        import_stablehlo(written(tmp_path, text))


def test_it_cannot_be_trained(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be trained"):
        burn.load(written(tmp_path, TEXT, "m.stablehlo"), train=True)


def test_a_collective_of_one_device_is_the_identity(tmp_path: Path) -> None:
    text = body(
        '%r = "stablehlo.all_reduce"(%x) ({^bb0(%a: tensor<f32>, %b: tensor<f32>): stablehlo.return %a : tensor<f32>})'
        " {replica_groups = dense<0> : tensor<1x1xi64>} : (tensor<3xf32>) -> tensor<3xf32>"
    )
    model = burn.load(written(tmp_path, text))
    np.testing.assert_array_equal(np.asarray(model(np.arange(3, dtype="f4"))), [0, 1, 2])


def test_locations() -> None:
    aliases = {"#a": 'loc("/home/x/model.py":3:4 to :9)', "#b": 'loc("outer"(#a))', "#c": "loc(callsite(#b at #d))"}
    aliases["#d"] = 'loc("caller.py":8:1)'
    found = read_location("#c", aliases)
    assert (found.names, found.file, found.line) == (("outer",), "/home/x/model.py", 3)
    assert str(read_location("#missing", aliases)) == ""
    assert str(read_location("#loop", {"#loop": "loc(#loop)"})) == ""


# ---- quantized types, and what a size must be --------------------------------------------------------------------------------
@NEEDS_TORCH_MLIR_OPT
def test_quantized_tensors(tmp_path: Path) -> None:
    q = "tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>"
    lines = (
        f"%q = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> {q}\n"
        f" %r = stablehlo.uniform_dequantize %q : ({q}) -> tensor<4xf32>"
    )
    model = burn.load(written(tmp_path, body(lines, "%x: tensor<4xf32>", "tensor<4xf32>")))
    x = np.array([0.3, -1.25, 200.0, -200.0], "f4")
    want = (np.clip(np.rint(x / np.float32(0.5)) + 3, -128, 127) - 3) * 0.5
    np.testing.assert_array_equal(np.asarray(model(x)), want)


def test_sizes_that_the_data_give(tmp_path: Path) -> None:
    lines = "%r = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>"
    model = burn.load(written(tmp_path, body(lines, "%n: tensor<1xi32>", "tensor<?xf32>")))
    for n in (0, 4):
        np.testing.assert_array_equal(np.asarray(model(np.array([n], "i4"))), np.arange(n, dtype="f4"))


# ---- artefacts of jax.export ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def exported() -> Any:
    jax = pytest.importorskip("jax")
    from jax import export

    (batch,) = export.symbolic_shape("batch")
    spec = jax.ShapeDtypeStruct

    def function(params: Any, x: Any, unused: Any) -> Any:
        y = jax.numpy.tanh(x @ params["dense"]["kernel"])
        doubled = jax.numpy.concatenate([y, y], 0)[1:].reshape(-1)
        order = jax.numpy.argsort(x[:, 0])
        return {"y": y, "rest": (doubled, y[order], jax.numpy.cumsum(x, 0), jax.numpy.argmax(x, 1))}

    params = {"dense": {"kernel": spec((4, 3), "float32")}}
    return export.export(jax.jit(function))(params, spec((batch, 4), "float32"), spec((2,), "int32"))


def test_symbolic_sizes_stay_exact(exported: Any) -> None:
    program = import_stablehlo(bytes(exported.serialize()))
    assert program.input_names == ["params.dense.kernel", "x", "unused"]
    assert [str(t) for t in program.input_types] == ["float32[4, 3]", "float32[batch, 4]", "int32[2]"]
    assert program.output_names == ["rest.0", "rest.1", "rest.2", "rest.3", "y"]
    assert [str(t) for t in program.output_types] == [
        "float32[6*batch - 3]",
        "float32[batch, 3]",
        "float32[batch, 4]",
        "int32[batch]",
        "float32[batch, 3]",
    ]


def test_one_program_serves_all_sizes(exported: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.jax_export"
    path.write_bytes(exported.serialize())
    model = burn.load(path)
    kernel = np.random.default_rng(0).standard_normal((4, 3)).astype("f4")
    for n in (1, 7):
        x = np.random.default_rng(n).standard_normal((n, 4)).astype("f4")
        want = exported.call({"dense": {"kernel": kernel}}, x, np.zeros(2, "i4"))
        have = model(kernel, x, np.zeros(2, "i4"))
        for a, b in zip(have, [*want["rest"], want["y"]], strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=2e-6)
    with pytest.raises(BurnError, match="Expected value >= 1 for dimension variable 'batch'"):
        model(kernel, np.zeros((0, 4), "f4"), np.zeros(2, "i4"))


def test_an_exported_object_bytecode_and_text(exported: Any, tmp_path: Path) -> None:
    names = import_stablehlo(bytes(exported.mlir_module_serialized))
    assert [str(t) for t in names.input_types] == ["float32[4, 3]", "float32[batch, 4]", "int32[2]"]
    text = import_stablehlo(written(tmp_path, exported.mlir_module()))
    assert text.input_names == ["params.dense.kernel", "x", "unused"]
    assert [str(t) for t in text.output_types] == [str(t) for t in names.output_types]


def test_damaged_bytecode_is_one_error(exported: Any, tmp_path: Path) -> None:
    data = bytes(exported.mlir_module_serialized)
    path = tmp_path / "m.mlirbc"
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelError, match="is not a StableHLO program"):
        burn.load(path)


def test_bytecode_without_jaxlib_names_the_extra(
    exported: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from burn.importers.stablehlo import parsing

    monkeypatch.setattr(parsing, "_has_jaxlib", lambda: False)
    path = tmp_path / "m.mlirbc"
    path.write_bytes(exported.mlir_module_serialized)
    with pytest.raises(ModelError, match=r"bytecode needs jaxlib \(pip install 'burn-mlir\[jax\]'\)"):
        import_stablehlo(path)


def test_modules_beside_the_file_are_not_imported(
    exported: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file named as a library's, in the folder of the model, is no part of the reader."""
    (tmp_path / "jaxlib.py").write_text("raise SystemExit('code of the model ran')")
    shutil.copy(tmp_path / "jaxlib.py", tmp_path / "json.py")
    path = tmp_path / "m.mlirbc"
    path.write_bytes(exported.mlir_module_serialized)
    monkeypatch.chdir(tmp_path)
    assert import_stablehlo(path).output_names


# ---- other readers -------------------------------------------------------------------------------------------------------------
def test_commands_read_the_same_files(tmp_path: Path) -> None:
    from burn.cli.opt import read

    assert read(str(written(tmp_path, TEXT, "m.stablehlo"))).output_names == ["result"]


def test_what_burn_exports_comes_back(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    path = tmp_path / "m.stablehlo"
    function = lambda x, y: ((x @ y).tanh(), x.sum(0))  # noqa: E731
    burn.export(function, path, ("float32[n, 4]", "float32[4, 3]"))
    program = import_stablehlo(path)
    assert [t.rank for t in program.output_types] == [2, 1]
    model, own = burn.load(path), burn.compile(function, ("float32[n, 4]", "float32[4, 3]"))
    x, y = np.random.default_rng(0).standard_normal((5, 4)).astype("f4"), np.ones((4, 3), "f4")
    for a, b in zip(model(x, y), own(x, y), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


# ---- ops of CHLO that XLA does not run -------------------------------------------------------------------------------
SCAN = """
"builtin.module"() ({
 "func.func"() <{function_type = (tensor<2x5xf32>, tensor<2xf32>) -> (tensor<2x5xf32>, tensor<2xf32>), sym_name = "main"}> ({
 ^bb0(%x: tensor<2x5xf32>, %c: tensor<2xf32>):
  %0, %1 = "chlo.scan"(%x, %c) <{dimension = 1 : i64, is_reverse = true, operandSegmentSizes = array<i32: 1, 1>,
      resultSegmentSizes = array<i32: 1, 1>}> ({
   ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    %s = "stablehlo.add"(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %t = "stablehlo.multiply"(%s, %s) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "stablehlo.return"(%t, %s) : (tensor<2xf32>, tensor<2xf32>) -> ()
  }) : (tensor<2x5xf32>, tensor<2xf32>) -> (tensor<2x5xf32>, tensor<2xf32>)
  "func.return"(%0, %1) : (tensor<2x5xf32>, tensor<2xf32>) -> ()
 }) : () -> ()
}) : () -> ()
"""


def test_scan_of_chlo(tmp_path: Path) -> None:
    pytest.importorskip("jax")  # text that is newer than torch-mlir
    x, carry = np.arange(10, dtype="f4").reshape(2, 5), np.ones(2, "f4")
    rows, last = burn.load(written(tmp_path, SCAN))(x, carry)
    want = np.zeros_like(x)
    for i in reversed(range(5)):
        carry = carry + x[:, i]
        want[:, i] = carry * carry
    np.testing.assert_array_equal(np.asarray(rows), want)
    np.testing.assert_array_equal(np.asarray(last), carry)


def test_ragged_dot_of_chlo(tmp_path: Path) -> None:
    axes = (
        "#chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], "
        "rhs_group_dimensions = [0]>"
    )
    takes, gives = "%x: tensor<6x3xf32>, %w: tensor<2x3x4xf32>, %n: tensor<2xi64>", "tensor<6x4xf32>"
    line = (
        f'%r = "chlo.ragged_dot"(%x, %w, %n) <{{ragged_dot_dimension_numbers = {axes}}}> : '
        f"(tensor<6x3xf32>, tensor<2x3x4xf32>, tensor<2xi64>) -> {gives}"
    )
    model = burn.load(written(tmp_path, body(line, takes, gives)))
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((6, 3)).astype("f4"), rng.standard_normal((2, 3, 4)).astype("f4")
    want = np.concatenate([x[:2] @ w[0], x[2:5] @ w[1], np.zeros((1, 4), "f4")])
    np.testing.assert_allclose(np.asarray(model(x, w, np.array([2, 3]))), want, atol=1e-6)
