"""Kernels, and the text that is printed of them, are shared by programs; what refers to one program's source nodes is not."""

from __future__ import annotations

import numpy as np
import pytest

from burn.compiler import environment, executable, listing
from burn.dialect import ops
from burn.dialect.control import Group
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.errors import RunError
from burn.kernels.builders import kernels
from burn.kernels.preferences import Preferences
from burn.options import Options
from burn.passes import pipeline


def program(node: str, number: float, size: int = 33) -> Program:
    made = Program.create([("x", TensorType("float32", (5, size)))])
    with made.building(node):
        factor = ops.full(shape=(), dtype="float32", value=number)
        y = ops.softmax(ops.mul(made.inputs[0], factor), axis=-1)
    return made.finish([("y", y)])


def groups(made: Program) -> list[Group]:
    pipeline.run(pipeline.parse("decompose,fuse"), made, environment())
    with context():
        return [o.opview for o in made.block.operations if isinstance(o.opview, Group)]


def test_equal_groups_of_two_programs_have_the_same_kernels() -> None:
    first, second, other = program("a", 2.0), program("b", 2.0), program("a", 3.0)
    one, same, different = (
        [call.kernel for g in groups(p) for call in kernels(g, Preferences())] for p in (first, second, other)
    )
    assert all(a is b for a, b in zip(one, same, strict=True))
    assert not any(a is b for a in one for b in different)


def test_a_caller_may_change_its_list() -> None:
    made = program("a", 2.0)
    (group,) = groups(made)
    kernels(group, Preferences()).clear()
    assert kernels(group, Preferences())


@pytest.mark.parametrize("target", ["avx2", "generic"])
def test_text_is_the_same_whatever_was_printed_before(target: str) -> None:
    texts = {size: listing(program("a", 2.0, size), Options(target=target)) for size in (33, 64)}
    for size in (64, 33):
        assert listing(program("another", 2.0, size), Options(target=target)) == texts[size]
    assert texts[33] != texts[64]


def rows(first: str, second: str) -> Program:
    made = Program.create(
        [("x", TensorType("float32", (7, 3))), ("i", TensorType("int64", (4,))), ("j", TensorType("int64", (4,)))]
    )
    x, i, j = made.inputs
    with made.building(first):
        a = ops.gather(x, i, axis=0)
    with made.building(second):
        b = ops.gather(x, j, axis=0)
    return made.finish([("a", a), ("b", b)])


def test_each_program_reports_its_own_nodes() -> None:
    x, good, bad = np.zeros((7, 3), np.float32), np.arange(4), np.array([0, 9, 0, 0])
    for first, second in (("one", "two"), ("two", "one"), ("three", "two"), ("one", "two")):
        run = executable(rows(first, second))
        for indices, node in (((bad, good), first), ((good, bad), second)):
            with pytest.raises(RunError, match="index 9 is out of range") as caught:
                run(x, *indices)
            assert node in str(caught.value)
