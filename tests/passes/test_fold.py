"""Constant folding and the weight store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import burn
from burn import compiler
from burn.codegen.cpu import printer
from burn.codegen.host.object import compile_object
from burn.codegen.pipeline import FOLDING
from burn.compiler import compile_program, environment
from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.options import Options
from burn.passes.constants import full
from burn.passes.environment import Environment
from burn.passes.fold import Fold
from burn.passes.verify import Verify
from burn.runtime import Executable


def weight(program: Program, key: str) -> ir.Value:
    stored = program.weights.weight(key)
    return ops.weight(key=key, shape=stored.shape, dtype=stored.dtype)


def names(program: Program) -> list[str]:
    return [op.operation.name.removeprefix("burn.") for op in program.block.operations][:-1]


def test_old_weights_are_dropped() -> None:
    program = Program.create([("x", TensorType("float32", (30, 20)))])
    a = program.weights.add_array(np.arange(600, dtype="f4").reshape(20, 30), "a")
    kept = program.weights.add_array(np.ones((30, 20), "f4") * np.arange(20, dtype="f4"), "kept")
    program.weights.add_array(np.arange(100, dtype="f4"), "unused")
    with program.building("layer.weight"):
        (x,) = program.inputs
        turned = ops.transpose(weight(program, a), permutation=(1, 0))
        y = ops.add(ops.add(x, turned), weight(program, kept))
    program.finish([("y", y)])
    Fold().run(program, environment())
    Verify().run(program)
    keys = [key for key, _ in program.weights.items()]
    assert keys == [kept, "layer.weight"]
    np.testing.assert_array_equal(program.weights.get("layer.weight"), np.arange(600, dtype="f4").reshape(20, 30).T)
    assert names(program) == ["weight", "add", "weight", "add"] or names(program).count("weight") == 2


def test_reshaped_weight_stays_in_its_file(tmp_path: Path) -> None:
    data = np.arange(60, dtype="f4")
    (tmp_path / "w.bin").write_bytes(data.tobytes())
    program = Program.create([("x", TensorType("float32", (60,)))])
    key = program.weights.add_file(tmp_path / "w.bin", 0, 240, "float32", (20, 3), "w")
    with program.building("node"):
        (x,) = program.inputs
        y = ops.add(x, ops.reshape(weight(program, key), shape=(60,)))
    program.finish([("y", y)])
    Fold().run(program, environment())
    ((_, stored),) = program.weights.items()
    assert stored.file is not None and stored.shape == (60,)
    np.testing.assert_array_equal(stored.array(), data)


def test_equal_work_is_done_once() -> None:
    """A weight packed for two readers is packed once."""
    program = Program.create([("x", TensorType("float32", (4, 30)))])
    key = program.weights.add_array(np.random.default_rng(0).standard_normal((30, 30)).astype("f4"), "w")
    with program.building("node"):
        (x,) = program.inputs
        w = weight(program, key)
        for _ in range(2):
            turned = ops.transpose(ops.exp(w), permutation=(1, 0))
            x = ops.dot_general(x, turned, lhs_contract=(1,), rhs_contract=(0,))
    program.finish([("y", x)])
    Fold().run(program, environment())
    assert len(program.weights) == 1 and names(program).count("weight") == 1


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "bfloat16", "int8", "uint64", "int64", "bool"))
def test_element_types(dtype: str) -> None:
    """Uniform, small and large results come back as they were computed."""
    program = Program.create([])
    flag = dtype == "bool"
    with program.building("node"):
        one = ops.full(shape=(40,), dtype=dtype, value=1.0, bits=None if "int" not in dtype else 1)
        count = ops.cast(ops.iota(shape=(40,), axis=0), dtype=dtype)
        large = ops.not_(count) if flag else ops.add(count, one)
        small = ops.slice(large, starts=(0,), sizes=(5,), steps=(1,))
        uniform = ops.not_(one) if flag else ops.add(one, one)
    program.finish([("large", large), ("small", small), ("uniform", uniform)])
    Fold().run(program, environment())
    Verify().run(program)
    made = sorted(names(program))
    assert made == (["constant", "full", "weight"])
    outputs = Executable(compile_program(program, Options(passes=FOLDING.text)))()
    numbers = np.arange(40)
    want = [numbers == 0, numbers[:5] == 0, numbers < 0] if flag else [numbers + 1, numbers[:5] + 1, numbers * 0 + 2]
    for got, expected in zip(outputs, want, strict=True):
        np.testing.assert_array_equal(got.astype("f8"), np.asarray(expected).astype("f8"))


def test_weights_that_are_not_there() -> None:
    from burn.errors import CompileError

    program = Program.create([("x", TensorType("float32", (3,)))])
    with program.building("node"):
        (x,) = program.inputs
        y = ops.add(x, ops.exp(ops.weight(key="gone", shape=(3,), dtype="float32")))
    program.finish([("y", y)])
    with pytest.raises(CompileError, match="weights") as error:
        Fold().run(program, environment())
    assert "'gone'" in str(error.value)


def test_doublings_are_not_computed() -> None:
    """However small the file, what is folded stays in proportion to its constants."""
    program = Program.create([("x", TensorType("float32", (1,)))])
    key = program.weights.add_array(np.arange(100, dtype="f4"), "seed")
    with program.building("node"):
        (x,) = program.inputs
        value = ops.weight(key=key, shape=(100,), dtype="float32")
        for _ in range(34):
            value = ops.concat([value, value], axis=0)
        total = ops.reduce(value, kind="sum", axes=(0,))
        y = ops.add(x, ops.reshape(total, shape=(1,)))
    program.finish([("y", y)])
    Fold().run(program, environment())
    assert names(program).count("concat") == 34 - 11  # 100 floats double 11 times before they pass a megabyte
    assert sum(weight.nbytes for _, weight in program.weights.items()) < 4 << 20


def test_layers_alike_are_folded_by_one_program() -> None:
    program = Program.create([("x", TensorType("float32", (200,)))])
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((200, 200)).astype("f4") for _ in range(5)]
    keys = [program.weights.add_array(array, f"layer{i}") for i, array in enumerate(arrays)]
    with program.building("node"):
        (y,) = program.inputs
        for key in keys:
            turned = ops.transpose(ops.weight(key=key, shape=(200, 200), dtype="float32"), permutation=(1, 0))
            y = ops.dot_general(y, ops.exp(turned), lhs_contract=(0,), rhs_contract=(0,))
    program.finish([("y", y)])
    compiled = []

    def evaluate(cut: Program):
        compiled.append(cut)
        run = environment().evaluate
        assert run is not None
        return run(cut)

    Fold().run(program, Environment(None, evaluate))
    assert len(compiled) == 1 and names(program).count("weight") == 5
    folded = [weight.array() for _, weight in program.weights.items()]
    for array, got in zip(arrays, folded, strict=True):
        np.testing.assert_allclose(got, np.exp(array.T), rtol=1e-6)


def test_panels_are_stored_though_they_hold_one_number() -> None:
    """A kernel reads them from memory: filling and transposing them in every run takes longer than the matmul."""
    program = Program.create([("x", TensorType("float32", (64, 700)))])
    with program.building("product"):
        (x,) = program.inputs
        b = full(0.5, TensorType("float32", (700, 640)))
        y = ops.dot_general(x, b, lhs_contract=(1,), rhs_contract=(0,))
    program.finish([("y", y)])
    artefact = compile_program(program)
    assert [kernel.kind for kernel in artefact.kernels] == ["contract"]
    x = np.random.default_rng(0).standard_normal((64, 700)).astype("f4")
    np.testing.assert_allclose(
        Executable(artefact)(x), np.repeat(x.sum(1, keepdims=True) / 2, 640, 1), rtol=1e-4, atol=1e-4
    )


def test_sizes_that_only_a_run_gives() -> None:
    """Unique of a constant has results of a constant size beside those of a size that depends on its elements."""
    nodes = [
        helper.make_node("Unique", ["x"], ["distinct", "first", "inverse", "counts"], sorted=1),
        helper.make_node("Clip", ["inverse", "low"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(np.array([5.0, 1.0, 5.0], "f4"), "x"),
        numpy_helper.from_array(np.array(1), "low"),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, [3])
    graph = helper.make_graph(nodes, "unique", [], [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    np.testing.assert_array_equal(burn.load(model, cache=False).run({})["y"], [1, 1, 1])


def test_evaluation_leaves_out_the_ir_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluated program runs once, and its elements have the same bits with LLVM's IR passes and without."""

    def constants() -> list[bytes]:
        generator = np.random.default_rng(0)
        program = Program.create([("x", TensorType("float32", (64, 75)))])
        a = program.weights.add_array(generator.standard_normal((75, 61)).astype("f4"), "a")
        b = program.weights.add_array(generator.standard_normal((61, 67)).astype("f4"), "b")
        with program.building("node"):
            (x,) = program.inputs
            folded = ops.softmax(
                ops.tanh(ops.dot_general(weight(program, a), weight(program, b), lhs_contract=(1,), rhs_contract=(0,))),
                axis=-1,
            )
            y = ops.dot_general(x, folded, lhs_contract=(1,), rhs_contract=(0,))
        artefact = compile_program(program.finish([("y", y)]), Options(optimize="speed"))
        return [bytes(each.data) for each in artefact.constants]

    levels: list[bool] = []

    def recorded(functions: list[str], optimized: bool = True) -> bytes:
        levels.append(optimized)
        return compile_object(functions, optimized)

    monkeypatch.setattr(printer, "compile_object", recorded)
    fast = constants()
    assert levels[-1] and not any(levels[:-1]) and len(levels) > 1
    monkeypatch.setattr(compiler, "COMPILE_TIME", "speed")
    assert constants() == fast
