"""Packed contractions: the encoding of a rhs, types, agreements, and what they have in common with the logical ops."""

from __future__ import annotations

import numpy as np
import pytest

from burn.compiler import environment
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.encoding import Encoding
from burn.dialect.mlir import context
from burn.dialect.op import Agreement, Op, full_name
from burn.dialect.packed import Packed, PackedConv, PackedDot
from burn.dialect.program import Program
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType
from burn.errors import BurnError, TypeMismatch
from burn.exporters.onnx import write
from burn.passes import pipeline

N = symbol("n")


def built(function, *types: TensorType) -> tuple[Program, Op]:
    program = Program.create([(f"x{i}", t) for i, t in enumerate(types)])
    with program.building("node"):
        result = function(*program.inputs)
    program.finish([("y", result)])
    with context():
        return program, next(op.opview for op in program.block.operations if isinstance(op.opview, Packed))


def test_encodings_go_back_to_the_logical_shape() -> None:
    assert Encoding(21).logical((2, 7, 16), 0) == (7, 21)
    assert Encoding(21, 4).logical((3, 2, 5, 2, 16, 4), 1) == (3, 5, 8, 21)
    assert Encoding(21, 4).depth((3, 2, 5, 2, 16, 4), 1) == (5, 8)
    assert Encoding(21).width_axis == -1 and Encoding(21, 4).width_axis == -2


def test_types_are_those_of_the_logical_ops() -> None:
    x, panels = TensorType("uint8", (4, N, 8)), TensorType("int8", (4, 2, 2, 16, 4))
    attrs = {"columns": 21, "lhs_batch": (0,), "lhs_contract": (2,), "dtype": "int32", "interleaved": 4}
    _, op = built(lambda a, b: ops.packed_dot(a, b, **attrs), x, panels)
    assert isinstance(op, PackedDot) and op.has(Trait.PACKED) and op.encoding == Encoding(21, 4)
    assert str(TensorType.from_mlir(op.operation.results[0].type)) == str(TensorType("int32", (4, N, 21)))
    assert op.flops() == 4 * N * 21 * 8 * 2
    assert op.must_agree() == [Agreement(4, 4), Agreement(8, 8)]
    image, weight = TensorType("float32", (N, 9, 7, 6)), TensorType("float32", (2, 1, 3, 3, 3, 16))
    window = {"strides": (2, 2), "dilations": (1, 1), "low": (1, 0), "high": (0, 2), "groups": 2}
    _, conv = built(lambda a, b: ops.packed_conv(a, b, columns=10, **window), image, weight)
    assert isinstance(conv, PackedConv) and conv.encoding == Encoding(10)
    assert str(TensorType.from_mlir(conv.operation.results[0].type)) == str(TensorType("float32", (N, 4, 4, 10)))
    assert conv.must_agree()[0] == Agreement(6, 6) and conv.flops() == N * 4 * 4 * 10 * 27 * 2


@pytest.mark.parametrize(
    ("shape", "attrs", "wrong"),
    [
        ((2, 7), {}, "has not the panels of 0 batch axes and 1 depth axes"),
        ((2, 6, 16), {}, "axis 1 of float32.* must be of one size"),
        ((2, 7, 16), {"interleaved": 4}, "has not the panels"),
        ((2, 7, 16), {"sums": "slow"}, "sums are 'fast'"),
    ],
)
def test_operands_that_do_not_fit(shape: tuple[int, ...], attrs: dict, wrong: str) -> None:
    types = TensorType("float32", (3, 7)), TensorType("float32", shape)
    with pytest.raises(TypeMismatch, match=wrong):
        built(lambda a, b: ops.packed_dot(a, b, columns=21, lhs_contract=(1,), **attrs), *types)


def test_logical_passes_and_exporters_do_not_see_them(tmp_path) -> None:
    program = Program.create([("x", TensorType("float32", (N, 7)))])
    with program.building("node"):
        array = np.ones((7, 21), np.float32)
        weight = ops.weight(key=program.weights.add_array(array, "w"), shape=array.shape, dtype="float32")
        y = ops.dot_general(program.inputs[0], weight, lhs_contract=(1,), rhs_contract=(0,))
    program.finish([("y", y)])
    pipeline.run(pipeline.parse("pack,fold,simplify"), program, environment())
    with context():
        names = [op.opview.OP_NAME for op in program.block.operations]
        (packed,) = (op.opview for op in program.block.operations if op.opview.OP_NAME == "packed_dot")
        assert names == ["weight", "packed_dot", "return"] and full_name(packed) == "node"
        assert packed.SHOWN_AS == "dot_general" and not set(PackedDot.ATTRS) & {"rhs_batch", "rhs_contract"}
    with pytest.raises(BurnError, match="packed_dot"):
        write(program, tmp_path / "m.onnx")
