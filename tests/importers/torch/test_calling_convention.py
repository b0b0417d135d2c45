"""Calls of compiled modules: numbers among the results, and errors that name the argument."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
from burn.errors import InputError, ModelError  # noqa: E402


class Mixed(torch.nn.Module):
    def forward(self, x: Any, table: Any, mode: str = "a") -> tuple[Any, ...]:
        return x * table["k"][0] + (mode == "a"), x.shape[0], x.shape[0] * 0.5, x.shape[0] > 0


class Branch(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum().item() > 0 else -x  # the line that the error names


@pytest.fixture(scope="module")
def compiled() -> Any:
    example = (torch.randn(3, 2), {"k": [torch.randn(2), torch.randn(1)]})
    return burn.compile(Mixed(), example, kwargs={"mode": "b"}, dynamic={"x": {0: "rows"}})


def test_sizes_are_returned_as_numbers(compiled: Any) -> None:
    arguments = torch.randn(5, 2), {"k": [torch.randn(2), torch.randn(1)]}
    got, want = compiled(*arguments, mode="b"), Mixed()(*arguments, mode="b")
    torch.testing.assert_close(got[0], want[0])
    assert got[1:] == want[1:] == (5, 2.5, True)
    assert list(map(type, got[1:])) == [int, float, bool]


@pytest.mark.parametrize(
    ("x", "table", "mode", "message"),
    [
        (0, {"k": [0]}, "b", r"input 'table\['k'\]' is a list of 1, must be a list of 2"),
        (0, {"q": 0}, "b", "input 'table' is a dict of 'q', must be a dict of 'k'"),
        ([0], {"k": [0, 0]}, "b", "input 'x' is a list of 1, must be a tensor or number"),
        (0, {"k": [0, (0, 0)]}, "b", r"input 'table\['k'\]\[1\]' is a tuple of 2, must be a tensor or number"),
        (0, {"k": [0, 0]}, "c", "input 'mode' is 'c', was exported as 'b'"),
    ],
)
def test_errors_name_the_argument(compiled: Any, x: Any, table: Any, mode: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compiled(x, table, mode=mode)


@pytest.mark.parametrize("axes", ["batch", ["batch", None], {"inner": {0: "batch"}}])
def test_dynamic_sizes_that_name_no_axis_are_refused(axes: Any) -> None:
    with pytest.raises(ModelError, match="names no axis of a tensor in 'input'"):
        burn.compile(torch.nn.Linear(4, 3), (torch.randn(2, 4),), dynamic={"input": axes})


def test_an_error_of_torch_export_names_the_line_of_the_module() -> None:
    with pytest.raises(ModelError) as error:
        burn.compile(Branch(), (torch.ones(3),))
    assert "test_calling_convention.py" in str(error.value) and "questions.py" not in str(error.value)
