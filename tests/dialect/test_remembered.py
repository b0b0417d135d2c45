"""Ops and attributes that are remembered rather than read again: results must not depend on it."""

from __future__ import annotations

import math

import pytest

from burn.dialect import ops
from burn.dialect.attributes import CODECS
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import op_of, settled, splat
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType
from burn.errors import TypeMismatch


@pytest.fixture
def program() -> Program:
    return Program.create([("x", TensorType("float32", (2, 3)))])


def test_an_op_is_read_once_while_nothing_is_erased(program: Program) -> None:
    with program.building("node"):
        y = ops.tanh(program.inputs[0])
        with settled():
            assert op_of(y) is op_of(y)
            assert op_of(program.inputs[0]) is None
        assert op_of(y) is not op_of(y)


def test_a_view_shows_the_number_of_an_operand_that_it_is_given_later(program: Program) -> None:
    with program.building("node"):
        y = ops.reshape(program.inputs[0], shape=(3, 2))
        seven = ops.full(shape=(2, 3), dtype="float32", value=7.0)
        with settled():
            assert splat(y) is None
            y.owner.operation.operands[0] = seven
            assert splat(y) == splat(y) == 7.0


def test_settled_scopes_nest(program: Program) -> None:
    with program.building("node"):
        y = ops.tanh(program.inputs[0])
        with settled():
            outer = op_of(y)
            with settled():
                assert op_of(y) is not outer
            assert op_of(y) is outer


def test_equal_attributes_that_print_differently_stay_apart(program: Program) -> None:
    with program.building("node"):
        values = [ops.full(shape=(2,), dtype="float32", value=v) for v in (0.0, -0.0, 0.0)]
        signs = [math.copysign(1, op_of(v).value) for v in values]  # type: ignore[union-attr]
        assert signs == [1, -1, 1]
        whole = [ops.full(shape=(2,), dtype="int32", value=1.0, bits=bits) for bits in (1, True)]
        assert [op_of(v).bits for v in whole] == [1, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize("axes", [(0, 1), [0, 1]])
def test_attributes_may_be_lists(program: Program, axes: tuple[int, ...] | list[int]) -> None:
    with program.building("node"):
        for _ in range(2):
            total = ops.reduce(program.inputs[0], kind="sum", axes=axes)
            assert op_of(total).axes == (0, 1)  # type: ignore[union-attr]


def test_attributes_are_made_once() -> None:
    with context(), ir.Location.unknown():
        for kind, value in ((int, 5), (bool, True), (str, "sum"), (tuple[int, ...], (1, 2))):
            codec = CODECS[kind]
            assert codec.encode(value) is codec.encode(value)
            assert codec.decode(codec.encode(value)) == value


def test_a_size_that_is_wrong_is_refused_each_time(program: Program) -> None:
    with program.building("node"):
        for _ in range(2):
            with pytest.raises(TypeMismatch, match="negative size"):
                ops.full(shape=(-1, 3), dtype="float32", value=0.0)
            with pytest.raises(TypeMismatch, match="has no attribute axle"):
                ops.softmax(program.inputs[0], axle=1)
            with pytest.raises(TypeMismatch, match="operand 'rhs' is missing"):
                ops.add(program.inputs[0])


def test_has_takes_one_trait_or_several(program: Program) -> None:
    with program.building("node"):
        view = op_of(ops.reshape(program.inputs[0], shape=(6,)))
    assert view is not None
    assert view.has(Trait.VIEW) and view.has(Trait.VIEW | Trait.CONSTANT)
    assert not view.has(Trait.CONSTANT) and not view.has(Trait.NONE)


def test_text_attributes_lose_a_subclass_of_str(program: Program) -> None:
    """`x.dtype` is a str of its own kind; what an op keeps compares as plain text does."""

    class Named(str):
        __slots__ = ()

    with program.building("node"):
        complete = ops.cast.__self__._complete((program.inputs[0],), None, {"dtype": Named("float64")})[2]  # type: ignore[attr-defined]
    assert type(complete["dtype"]) is str
