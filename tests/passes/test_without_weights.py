"""Passes on programs whose weights' bytes are not there: they do without what the bytes would tell, or refuse by name.

`burn-import` hides a model's parameters so, and a program can be read as text alone. The programs are those of `cases/` and the
attentions of `test_recognise.py`; inputs of fixed shapes become weights, one at a time and all together.
"""

from __future__ import annotations

import numpy as np
import pytest

from burn.compiler import environment
from burn.dialect import ops
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.types import type_of
from burn.errors import BurnError
from burn.exporters.python.generate import generate
from burn.passes import pipeline
from burn.passes.environment import Environment
from tests.passes.cases import Case, cases, random_weights, read
from tests.passes.test_recognise import ATTENTIONS, KEYS, QUERIES, c, mixed, program, scores

CASES = cases()


def hide(made: Program, chosen: list[int]) -> None:
    """Puts weights that the store does not know in the place of inputs and of constants of several elements."""
    with context():
        found = [made.inputs[i] for i in chosen]
        for block in blocks(made.block):
            found += [
                operation.results[0]
                for operation in block.operations
                if operation.operation.name == "burn.constant" and type_of(operation.results[0]).elements != 1
            ]
        for number, value in enumerate(found):
            type_ = type_of(value)
            with ir.Location.name("node"), ir.InsertionPoint.at_block_begin(made.block):
                weight = ops.weight(key=f"hidden {number}", shape=type_.shape, dtype=type_.dtype)
            value.replace_all_uses_with(weight)
    for key in [key for key, _ in made.weights.items()]:
        made.weights.remove(key)


def choices(made: Program) -> list[list[int]]:
    fixed = [i for i, t in enumerate(made.input_types) if t.is_static and i < len(made.input_names) - made.random_state]
    return [[], *([i] for i in fixed), *([fixed] if len(fixed) > 1 else [])]


def run(made: Program, passes: str) -> None:
    try:
        pipeline.run(pipeline.parse(passes), made, Environment(None, environment().evaluate))
    except BurnError as error:
        assert "without their weights" in str(error), error


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case) -> None:
    for chosen in choices(read(case)):
        made = read(case, random_weights(read(case)))
        hide(made, chosen)
        run(made, case.passes)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str) -> None:
    build, types = ATTENTIONS[name]
    static = [type(t)(t.dtype, tuple(d if isinstance(d, int) else 7 for d in t.shape)) for t in types]
    for chosen in choices(program(build, *static)):
        made = program(build, *static)
        hide(made, chosen)
        run(made, "simplify{absorb=false},recognise,simplify{absorb=false}")


def test_a_mask_that_is_a_parameter_is_written_as_source() -> None:
    """An attention's bias of the model's own, as EfficientFormer and TinyViT have it."""
    made = Program.create([("q", QUERIES), ("k", KEYS), ("v", KEYS)])
    bias = np.random.default_rng(0).standard_normal((4, 6), np.float32)
    with made.building("bias"):
        key = made.weights.add_array(bias, "attention.bias")
        mask = ops.weight(key=key, shape=bias.shape, dtype="float32")
    with made.building("node"):
        q, k, v = made.inputs
        result = mixed(ops.softmax(ops.add(ops.mul(scores(q, k), c(q, 0.3)), mask)), v)
    source = generate(made.finish([("y", result)]), plain=False)
    assert "burn.scaled_dot_product_attention(" in source.text
    assert [w.array().tolist() for w in source.tensors.values()] == [bias.tolist()]
