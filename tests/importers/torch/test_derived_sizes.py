"""Sizes of torch.export that are derived from another: `4 * Dim("k")`, `Dim("n") + 1`, `2 * Dim("k") + 1`."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
from burn.errors import BurnError, ModelError  # noqa: E402
from burn.importers.torch import import_exported, read_pt2  # noqa: E402


class Rows(torch.nn.Module):
    def forward(self, x: Any) -> tuple[Any, Any]:
        return x.reshape(-1, 4).sum(0), x + torch.arange(x.shape[0])[:, None]


class Shifted(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x[1:] + y


class Odd(torch.nn.Module):
    def forward(self, x: Any) -> tuple[Any, int]:
        return x[x.shape[0] // 2 :].cumsum(0), x.shape[0]


class Tail(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x[1:] * x[:-1]


class Apart(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> tuple[Any, int]:
        return x.sum(0) + y.sum(0), x.shape[0] - y.shape[0]


def dim(name: str, **limits: int) -> Any:
    return torch.export.Dim(name, **limits)


def flat(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


n = dim("n")
CASES = {
    "multiple": (Rows(), [(8, 3)], ({0: 4 * dim("k")},), [(4, 3)], [(20, 3)]),
    "shifted": (Shifted(), [(5, 3), (4, 3)], ({0: n + 1}, {0: n}), [(8, 3), (7, 3)], [(3, 3), (2, 3)]),
    "odd": (Odd(), [(7, 2)], ({0: 2 * dim("k") + 1},), [(5, 2)], [(13, 2)]),
    "alone": (Tail(), [(7, 2)], ({0: n + 1},), [(5, 2)], [(13, 2)]),
}


@pytest.mark.parametrize("name", CASES)
def test_derived_sizes_compile_and_load(name: str, tmp_path: Path) -> None:
    module, example, dynamic, *sizes = CASES[name]
    exported = torch.export.export(module, tuple(torch.randn(s) for s in example), dynamic_shapes=dynamic)
    torch.export.save(exported, tmp_path / "model.pt2")
    loaded, compiled = burn.load(tmp_path / "model.pt2"), burn.compile(exported)
    for shapes in sizes:
        inputs = [torch.randn(s) for s in shapes]
        want = module(*inputs)
        got = compiled(*inputs)
        torch.testing.assert_close(got, want)
        assert torch.utils._pytree.tree_structure(got) == torch.utils._pytree.tree_structure(want)
        for ours, theirs in zip(flat(loaded(*inputs)), flat(want), strict=True):
            torch.testing.assert_close(ours, torch.as_tensor(theirs))


@pytest.mark.parametrize(("name", "shapes"), [("multiple", [(6, 3)]), ("odd", [(4, 2)]), ("shifted", [(5, 3), (5, 3)])])
def test_a_size_that_does_not_fit_is_refused(name: str, shapes: list[tuple[int, ...]]) -> None:
    module, example, dynamic, *_ = CASES[name]
    run = burn.compile(torch.export.export(module, tuple(torch.randn(s) for s in example), dynamic_shapes=dynamic))
    with pytest.raises(BurnError, match="axis 0"):
        run(*(torch.randn(s) for s in shapes))


def test_a_derived_axis_can_be_fixed(tmp_path: Path) -> None:
    module, example, dynamic, *_ = CASES["multiple"]
    exported = torch.export.export(module, tuple(torch.randn(s) for s in example), dynamic_shapes=dynamic)
    assert "tensor<12x3xf32>" in str(import_exported(exported, dims={"x_0": 12}).module)
    with pytest.raises(ModelError, match=r"its size is 4\*s\d+, and cannot be 10"):
        import_exported(exported, dims={"x_0": 10})


def test_two_axes_that_are_derived_from_one_size() -> None:
    k = dim("k", min=2, max=50)
    example, dynamic = (torch.randn(8, 2), torch.randn(5, 2)), ({0: 4 * k}, {0: 2 * k + 1})
    run = burn.compile(torch.export.export(Apart(), example, dynamic_shapes=dynamic))
    inputs = torch.randn(12, 2), torch.randn(7, 2)
    torch.testing.assert_close(run(*inputs), Apart()(*inputs))
    for rows in ((12, 5), (13, 7), (14, 8)):
        with pytest.raises(BurnError, match=r"axis 0|does not hold"):
            run(*(torch.randn(count, 2) for count in rows))


def test_a_size_below_a_derived_axis_is_refused() -> None:
    module, example, dynamic, *_ = CASES["alone"]
    exported = torch.export.export(module, tuple(torch.randn(s) for s in example), dynamic_shapes=dynamic)
    assert "tensor<1x2xf32>" in str(import_exported(exported, dims={"x_0": 1}).module)
    with pytest.raises(ModelError, match=r"its size is s\d+ \+ 1, and cannot be 0$"):
        import_exported(exported, dims={"x_0": 0})
    with pytest.raises(BurnError, match="does not hold"):
        burn.compile(exported)(torch.randn(0, 2))


def test_hostile_names_of_sizes_are_refused(tmp_path: Path) -> None:
    module, example, dynamic, *_ = CASES["multiple"]
    exported = torch.export.export(module, tuple(torch.randn(s) for s in example), dynamic_shapes=dynamic)
    torch.export.save(exported, tmp_path / "model.pt2")
    for hostile in ("u999999999", "__import__('os')", "u1 + 1", "9**9**9*s0"):
        with zipfile.ZipFile(tmp_path / "model.pt2") as source, zipfile.ZipFile(tmp_path / "bad.pt2", "w") as target:
            for entry in source.namelist():
                content = source.read(entry)
                if entry.endswith("models/model.json"):
                    description = json.loads(content)
                    ranges = description["range_constraints"]
                    ranges[hostile] = ranges.pop(next(iter(ranges)))
                    content = json.dumps(description).encode()
                target.writestr(entry, content)
        with pytest.raises(ModelError, match="has a size called"):
            read_pt2(tmp_path / "bad.pt2")
