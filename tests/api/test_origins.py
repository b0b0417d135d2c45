"""Errors, profiles and `burn.explain` name the line of the user's code and the module's path."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import burn
from burn import nn, optim, train
from burn.dialect.op import full_name
from burn.errors import RunError
from burn.runtime import origins
from burn.tracing.trace import trace
from tests.deploy.making import make, refusal, traced

HERE = Path(__file__).name


class Words(nn.Module):
    def __init__(self) -> None:
        self.words = nn.Embedding(5, 4)
        self.positions = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, i: burn.Tensor, j: burn.Tensor) -> burn.Tensor:
        known = self.words(i)
        placed = self.positions(j)
        return self.head(known + placed)


def line_of(function: Callable[..., object], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def failing(call: Callable[[], object]) -> str:
    with pytest.raises(RunError) as caught:
        call()
    return caught.value.problems[0].node


def ints(*values: int) -> np.ndarray:
    return np.array(values)


SOURCES = [
    ((ints(1, 9), ints(0, 1)), "words", "self.words(i)"),
    ((ints(1, 2), ints(0, 9)), "positions", "self.positions(j)"),
]


@pytest.mark.parametrize(("arguments", "module", "text"), SOURCES)
@pytest.mark.parametrize("way", ["compile", "jit", "step"])
def test_the_layer_and_the_line(way: str, arguments: Sequence[np.ndarray], module: str, text: str) -> None:
    net = Words()
    run: Callable[..., object]
    if way == "compile":
        run = burn.compile(net, ("int64[n]", "int64[n]"))
    elif way == "jit":
        run = burn.jit(lambda i, j: net(i, j))
    else:
        loss = nn.CrossEntropyLoss()
        step = train.step(net, lambda m, i, j, y: loss(m(i, j), y), optim.SGD(net, lr=0.1))
        run = lambda i, j: step(i, j, ints(0, 1))  # noqa: E731
    assert failing(lambda: run(*arguments)) == f"{module} ({HERE}:{line_of(Words.forward, text)})"


def test_a_function_without_modules() -> None:
    @burn.jit
    def pick(x: burn.Tensor, i: burn.Tensor) -> burn.Tensor:
        y = burn.exp(x)
        return y[i]

    assert failing(lambda: pick(np.ones(3, np.float32), ints(7))) == f"gather ({HERE}:{line_of(pick, 'return y[i]')})"


def test_recorded_tensors_of_one_structure_have_lines_of_their_own() -> None:
    x, i = burn.tensor(np.ones(4, np.float32)), burn.tensor(ints(1, 5))

    def first() -> np.ndarray:
        return burn.exp(x).take(i, 0).numpy()

    def second() -> np.ndarray:
        return burn.exp(x).take(i, 0).numpy()

    for function in (first, second, first):
        assert failing(function) == f"gather ({HERE}:{line_of(function, 'take')})"


def test_derivatives_have_the_line_of_the_op() -> None:
    def chosen(x: burn.Tensor, i: burn.Tensor) -> burn.Tensor:
        return x.take(i, 0).sum()

    program = trace(burn.grad(chosen), {"x": "float32[4]", "i": "int64[2]"})
    names = {full_name(op) for op in program.block.operations if op.operation.name == "burn.scatter_nd"}
    assert names and all("chosen+1" in name for name in names)


def test_explain_and_profile() -> None:
    net = Words()
    run = burn.compile(net, ("int64[n]", "int64[n]"))
    want = f"head ({HERE}:{line_of(Words.forward, 'self.head(')})"
    assert want in str(burn.explain(run))
    assert any(want in row.kernel.sources for row in run.profile(ints(1), ints(2)).rows)
    y = burn.exp(burn.tensor(np.ones(3, np.float32)))
    text = str(burn.explain(y))
    assert f"exp ({HERE}:{line_of(test_explain_and_profile, 'burn.exp(')})" in text


def test_imported_nodes_keep_their_names_where_they_are_called() -> None:
    assert origins.resolved("conv1") == "conv1"
    assert origins.named("", "a.py:3") == "(a.py:3)"


SOURCE = """
import burn


@burn.jit
def pick(x, i):
    return burn.exp(x)[i]
"""


def loaded(path: Path, text: str) -> ModuleType:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


@pytest.mark.usefixtures("own_cache")
def test_a_line_added_above_compiles_nothing_and_moves_the_line(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    arguments = (np.ones(3, np.float32), ints(7))
    assert failing(lambda: loaded(path, SOURCE).pick(*arguments)) == "gather (model.py:7)"
    before = burn.compile_count()
    assert failing(lambda: loaded(path, "# a line\n" + SOURCE).pick(*arguments)) == "gather (model.py:8)"
    assert burn.compile_count() == before


def test_two_functions_of_one_name_in_files_of_one_name(tmp_path: Path) -> None:
    """No line is better than that of another file."""
    for folder, head in (("a", ""), ("b", "#\n#\n")):
        (tmp_path / folder).mkdir()
        module = loaded(tmp_path / folder / "twin.py", head + SOURCE)
        node = failing(lambda module=module: module.pick(np.ones(3, np.float32), ints(7)))
        assert node == ("gather (twin.py:7)" if folder == "a" else "gather (twin.py:pick, line 3 of it)")


def test_a_name_in_parentheses_is_no_line() -> None:
    assert origins.resolved("layer (2+3)") == "layer (2+3)"


def test_a_command_names_the_line(tmp_path: Path) -> None:
    def pick(x: burn.Tensor, i: burn.Tensor) -> burn.Tensor:
        return burn.exp(x).take(i, 0)

    command = make("exe", traced(pick, x="float32[3]", i="int64[1]"), tmp_path / "pick")
    np.savez(tmp_path / "in.npz", x=np.ones(3, np.float32), i=ints(7))
    _, text = refusal(command, tmp_path / "in.npz")
    assert f"gather ({HERE}:{line_of(pick, 'take')})" in text
