"""Updates that run in one launch take the memory of the state that they replace, unless another of them reads it."""

from __future__ import annotations

import pytest

from burn.codegen.triton.backend import GPU
from burn.dialect.text import parse_text
from burn.passes import pipeline
from burn.passes.environment import Environment

TEXT = """
func.func @main(%x: tensor<64x128xf32>, %y: tensor<64x128xf32>, %p: tensor<128xf32>, %q: tensor<128xf32>)
    -> (tensor<128xf32>, tensor<128xf32>) {{
  %0 = "burn.reduce"(%x) {{kind = "sum", axes = array<i64: 0>}} : (tensor<64x128xf32>) -> tensor<128xf32>
  %1 = "burn.sub"({first}, %0) : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
  %2 = "burn.reduce"(%y) {{kind = "max", axes = array<i64: 0>}} : (tensor<64x128xf32>) -> tensor<128xf32>
  %3 = "burn.sub"({second}, %2) : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
  "burn.return"(%1, %3) : (tensor<128xf32>, tensor<128xf32>) -> ()
}}
"""


@pytest.mark.parametrize(
    ("first", "second", "takes"), [("%p", "%q", [2, 3]), ("%q", "%q", [2, -1]), ("%q", "%p", [-1, -1])]
)
def test_memory_of_state(first: str, second: str, takes: list[int]) -> None:
    program = parse_text(TEXT.format(first=first, second=second))
    program.renews, program.given_up = {0: 2, 1: 3}, (2, 3)
    pipeline.run(pipeline.parse("fuse,release,donate"), program, Environment(GPU()))
    assert "foreach" in str(program.module)
    assert list(program.terminator.attributes["takes"]) == takes
