"""Sizes that a module was not written down for are refused at the call, from memory and from a `.pt2` file."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
from burn.errors import ModelError, RunError  # noqa: E402
from burn.importers.torch.guards import read_guard  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Branching(torch.nn.Module):
    """x twice where a question about its sizes is answered yes, else -x."""

    def __init__(self, question: Callable[[int, int], bool]) -> None:
        super().__init__()
        self.question = question

    def forward(self, x: Any) -> Any:
        return 2 * x if self.question(*x.shape) else -x


QUESTIONS = {
    "a limit": lambda rows, columns: rows > 4,
    "parity": lambda rows, columns: rows % 2 == 0,
    "of two sizes": lambda rows, columns: rows + columns <= 16,
    "a part, rounded": lambda rows, columns: math.floor(rows * 1.5) + math.ceil(columns * 0.25) > 8,
    "a quotient": lambda rows, columns: rows // 3 != columns // 4,
    "either": lambda rows, columns: torch.sym_not(torch.sym_not(rows > 3) & torch.sym_not(columns > 7)),
}
SIZES = [(2, 3), (3, 5), (4, 4), (5, 8), (6, 11), (9, 7), (12, 12)]


def dynamic() -> Any:
    return {"x": {0: "rows", 1: "columns"}}


@pytest.mark.parametrize("question", QUESTIONS)
def test_either_the_right_answer_or_an_error(question: str) -> None:
    module = Branching(QUESTIONS[question])
    compiled = burn.compile(module, (torch.randn(3, 5),), dynamic())
    taken = module.question(3, 5)
    for sizes in SIZES:
        x = torch.randn(sizes)
        if module.question(*sizes) == taken:
            assert torch.equal(compiled(x), module(x))
        else:
            with pytest.raises(
                RunError, match=r"does not hold.*written down for sizes|written down for sizes.*does not hold"
            ):
                compiled(x)


OF_0_AND_1: dict[str, Callable[[int, int], bool]] = {
    "is it 1": lambda rows, columns: rows == 1,
    "is it 1, after torch was": lambda rows, columns: (
        torch.ones(rows, columns).mT.reshape(-1).sum() is None or rows == 1
    ),
    "more than 1": lambda rows, columns: rows > 1,
    "less than 2": lambda rows, columns: rows < 2,
    "is it 0": lambda rows, columns: rows == 0,
    "is one of them 0": lambda rows, columns: not rows * columns,
    "a sum": lambda rows, columns: rows + columns > 3,
    "the larger": lambda rows, columns: max(rows, 2) == rows,
    "one of several": lambda rows, columns: rows in (0, 1),
}
"""Questions that torch answers by taking every size that varies for larger than 1."""


@pytest.mark.parametrize("question", OF_0_AND_1)
def test_questions_that_torch_takes_for_answered(question: str) -> None:
    module = Branching(OF_0_AND_1[question])
    compiled = burn.compile(module, (torch.randn(3, 5),), dynamic())
    taken = module.question(3, 5)
    for sizes in [(rows, columns) for rows in (0, 1, 2, 5) for columns in (0, 1, 2, 7)]:
        x = torch.randn(sizes)
        if module.question(*sizes) == taken:
            assert torch.equal(compiled(x), module(x)), sizes
        else:
            with pytest.raises(RunError, match="written down for sizes"):
                compiled(x)


def test_conditions_of_torch_itself_are_no_guards() -> None:
    class Broadcasts(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.layer_norm(x.mT.reshape(-1, 3) + 1, (3,)).expand(x.shape[1], 3)

    module = Broadcasts()
    compiled = burn.compile(module, (torch.randn(3, 5),), {"x": {1: "columns"}})
    for columns in (0, 1, 2, 7):
        x = torch.randn(3, columns)
        torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.parametrize("question", QUESTIONS)
def test_in_a_file(question: str, tmp_path: Path) -> None:
    module = Branching(QUESTIONS[question])
    auto = torch.export.Dim.AUTO
    torch.export.save(
        torch.export.export(module, (torch.randn(3, 5),), dynamic_shapes=({0: auto, 1: auto},)), tmp_path / "m.pt2"
    )
    run = burn.load(tmp_path / "m.pt2")
    taken = module.question(3, 5)
    for sizes in SIZES:
        x = torch.randn(sizes)
        if module.question(*sizes) == taken:
            assert torch.equal(torch.as_tensor(run(x.numpy())), module(x))
        else:
            with pytest.raises(RunError, match="written down for sizes"):
                run(x.numpy())


def test_limits_of_a_size(tmp_path: Path) -> None:
    rows = torch.export.Dim("rows", min=3, max=6)
    exported = torch.export.export(torch.nn.ReLU(), (torch.randn(4, 2),), dynamic_shapes=({0: rows},))
    torch.export.save(exported, tmp_path / "m.pt2")
    for run in (burn.compile(exported).executable, burn.load(tmp_path / "m.pt2")):
        for size in range(2, 9):
            x = torch.randn(size, 2).numpy()
            if 3 <= size <= 6:
                assert run(x).shape == x.shape
            else:
                with pytest.raises(RunError, match="written down for sizes"):
                    run(x)
    with pytest.raises(ModelError, match="written down for other sizes"):
        burn.load(tmp_path / "m.pt2", dims={"input_0": 7})


def test_containers_and_keywords_in_a_file(tmp_path: Path) -> None:
    class Module(torch.nn.Module):
        def forward(self, pair: Any, *, named: Any) -> Any:
            sizes = pair[1]["a"].shape[0], named.shape[1]
            return pair[0] * (2 if sizes[0] > sizes[1] else 3)

    auto = torch.export.Dim.AUTO
    shapes = {"pair": (None, {"a": {0: auto}}), "named": {1: auto}}
    examples = ((torch.ones(2), {"a": torch.ones(5)}),), {"named": torch.ones(2, 4)}
    torch.export.save(torch.export.export(Module(), *examples, dynamic_shapes=shapes), tmp_path / "m.pt2")
    run = burn.load(tmp_path / "m.pt2")
    one, a, named = (torch.ones(s).numpy() for s in (2, 9, (2, 8)))
    assert run(one, a, named).tolist() == [2, 2]
    with pytest.raises(RunError, match="written down for sizes"):
        run(one, a, torch.ones(2, 9).numpy())


@pytest.mark.parametrize(
    "text", ["__import__('os')", "L['x'].size()[0] > f(1)", "L['y'].size()[0] > 1", "1 if 1 else 2"]
)
def test_text_that_is_no_condition(text: str) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        read_guard(text, {("x",): torch.ones(2)})


class Variadic(torch.nn.Module):
    def forward(self, x: Any, *more: Any) -> Any:
        return x[: more[1].shape[0] // 2] @ more[0][: x.shape[1]]


def test_sizes_of_variadic_arguments(tmp_path: Path) -> None:
    def given(rows: int, columns: int, length: int) -> tuple[Any, ...]:
        return torch.randn(rows, columns), torch.randn(columns + 1, 3), torch.randn(length)

    auto = torch.export.Dim.AUTO
    shapes = {"x": {0: auto, 1: auto}, "more": ({0: auto}, {0: auto})}
    exported = torch.export.export(Variadic(), given(6, 4, 8), dynamic_shapes=shapes)
    assert "L['more'][1]" in " ".join(exported._guards_code)
    torch.export.save(exported, tmp_path / "m.pt2")
    run = burn.load(tmp_path / "m.pt2")
    for sizes in ((6, 4, 8), (9, 7, 4)):
        values = given(*sizes)
        torch.testing.assert_close(run(*values), Variadic()(*values))
