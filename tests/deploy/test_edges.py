"""Edge cases of the C interface: no inputs, scalars, odd names, all element types, inputs that are outputs."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import burn
from burn.codegen.cpu.target import TARGETS
from burn.compiler import executable
from burn.dialect.program import Program
from burn.errors import CompileError
from burn.importers.onnx import import_onnx
from burn.options import Options
from burn.runtime.dtypes import numpy_dtype
from burn.runtime.host import features
from tests.deploy.making import Array, Failed, Library, feeds_of, make, run, traced


def _same(program: Program, feeds: dict[str, Array], folder: Path) -> Path:
    """Compares a shared library with the program in this process; gives the library."""
    reference = executable(program.copy())
    path = make("shared", program.copy(), folder / "edge")
    model = Library(path, "edge", reference.outputs)
    for got, want in zip(model.run(feeds_of(reference.inputs, feeds)), reference.run(feeds).values(), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8)) if got.ndim else None
        assert got.tobytes() == want.tobytes()
    model.close()
    return path


def test_no_inputs(tmp_path: Path) -> None:
    program = traced(lambda: burn.arange(5) * 2)
    _same(program.copy(), {}, tmp_path)
    command = make("exe", program, tmp_path / "counts", beside=True)
    assert b"[5]: 0 2 4 6 8" in run(command)


def test_scalars_and_what_is_given_back(tmp_path: Path) -> None:
    program = traced(lambda x, y: (x, y, x, x + y), x="float32[]", y="float32[n]")
    _same(program, {"x": np.array(3, np.float32), "y": np.arange(4, dtype=np.float32)}, tmp_path)


TYPES = (
    "float64",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "int4",
    "uint2",
    "int8",
    "uint16",
    "uint64",
    "bool",
    "complex64",
    "complex128",
)


def test_every_kind_of_element(tmp_path: Path) -> None:
    inputs = {f"x{i}": f"{dtype}[n]" for i, dtype in enumerate(TYPES)}
    program = traced(lambda **x: tuple(burn.cat([v, v], 0) for v in x.values()), **inputs)
    values = np.array([0, 1, 1, 0, 1])
    feeds = {f"x{i}": values.astype(numpy_dtype(dtype)) for i, dtype in enumerate(TYPES)}
    path = _same(program.copy(), feeds, tmp_path)
    header = (path.parent / "edge.h").read_text()
    assert "const uint16_t *x1" in header and "x1: float16[n], bits of IEEE half precision" in header
    command = make("exe", program, tmp_path / "command")
    np.savez(tmp_path / "in.npz", **feeds)  # type: ignore[arg-type]
    run(command, tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as made:
        for got, feed in zip(made.values(), feeds.values(), strict=True):
            assert got.tobytes() == np.concatenate([feed, feed]).tobytes()


NAMES = ('a b"\\', "a?b", "class", "größe*/", "x\n", "model", "in", "burn_in")


def test_odd_names(tmp_path: Path) -> None:
    of = helper.make_tensor_value_info
    values = [of(name, TensorProto.FLOAT, ["n"]) for name in NAMES]
    node = helper.make_node("Sum", list(NAMES), ["out"], name='??/ */ %s "')
    graph = helper.make_graph([node], "g", values, [of("out", TensorProto.FLOAT, ["n"])])
    program = import_onnx(helper.make_model(graph).SerializeToString())
    path = _same(program, {name: np.full(3, i, np.float32) for i, name in enumerate(NAMES)}, tmp_path)
    header = (path.parent / "edge.h").read_text()
    assert all(f"float *{name}" in header for name in ("class_1", "in", "burn_in_1", "out")), header


def test_strings_inside(tmp_path: Path) -> None:
    """Strings among the constants and between the ops are no matter of the interface."""
    of = helper.make_tensor_value_info
    domain = "ai.onnx.ml"
    nodes = [
        helper.make_node(
            "LabelEncoder", ["x"], ["t"], domain=domain, keys_int64s=[1, 2, 3], values_strings=["a", "bb", "ccc"]
        ),
        helper.make_node(
            "LabelEncoder", ["t"], ["y"], domain=domain, keys_strings=["a", "bb", "ccc"], values_int64s=[7, 8, 9]
        ),
    ]
    graph = helper.make_graph(nodes, "g", [of("x", TensorProto.INT64, ["n"])], [of("y", TensorProto.INT64, ["n"])])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, 4)]
    program = import_onnx(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    _same(program, {"x": np.array([3, 1, 2, 2])}, tmp_path)


def test_versions_for_several_cpus(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((40, 70)).astype(np.float32)
    program = traced(lambda x: burn.softmax(x @ burn.constant(weight), -1), x="float32[n, 40]")
    names = ["avx2", "avx512", "generic"]
    chosen = next(t for t in TARGETS.values() if t.name in names and set(t.features) <= features())
    reference = executable(program.copy(), Options(target=chosen.name))
    path = make("shared", program.copy(), tmp_path / "wide", cpu=",".join(names), beside=True)
    model = Library(path, "wide", reference.outputs, path.parent / "wide.safetensors")
    x = np.random.default_rng(1).standard_normal((5, 40)).astype(np.float32)
    np.testing.assert_array_equal(model.run([(x, "float32")])[0], reference(x))
    lacking = [name for name in ("amx", "avx512") if not set(TARGETS[name].features) <= features()]
    for name in lacking:
        with pytest.raises(Failed, match="which this one lacks"):
            Library(make("shared", program.copy(), tmp_path / name, cpu=name), name, reference.outputs)
    with pytest.raises(CompileError, match="several CPUs"):
        make("object", program, tmp_path / "wide.o", cpu="avx2,avx512")


@pytest.mark.slow  # the runtime is compiled anew, by a compiler that keeps nothing
def test_the_systems_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (compiler := shutil.which("cc")):
        pytest.skip("there is no cc")
    monkeypatch.setenv("CC", compiler)
    weight = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    program = traced(lambda x: burn.softmax(x @ burn.constant(weight), -1), x="float32[n, 8]")
    _same(program, {"x": np.ones((3, 8), np.float32)}, tmp_path)


def test_image_files_need_python(tmp_path: Path) -> None:
    of = helper.make_tensor_value_info
    node = helper.make_node("ImageDecoder", ["file"], ["pixels"], pixel_format="RGB")
    values = [of("file", TensorProto.UINT8, ["n"])], [of("pixels", TensorProto.UINT8, ["h", "w", 3])]
    graph = helper.make_graph([node], "g", *values)
    program = import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
    with pytest.raises(CompileError, match="decodes image files"):
        make("exe", program, tmp_path / "pixels")


def test_too_many_axes(tmp_path: Path) -> None:
    program = traced(lambda x: x + 1, x=f"float32[{', '.join(['1'] * 17)}]")
    with pytest.raises(CompileError, match="17 axes"):
        make("static", program, tmp_path / "deep")
