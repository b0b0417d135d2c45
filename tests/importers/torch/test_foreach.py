"""Operators for lists of tensors, which optimizers call on GPUs, as calls for each tensor."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from burn.importers.torch.decompositions import for_autograd  # noqa: E402


def arguments(op: Any) -> tuple[list[Any], dict[str, Any]]:
    """Two tensors in each list, a number for each scalar."""
    generator = torch.Generator().manual_seed(0)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for argument in op._schema.arguments:
        kind, name = str(argument.type), argument.name
        value: Any = 2 if name == "ord" else 0.5
        if kind == "List[Tensor]":
            value = [torch.rand(shape, generator=generator) / 2 + 0.25 for shape in ((3, 2), (4,))]
        elif kind.startswith("List["):
            value = [0.5, 0.25]
        elif kind == "Tensor":
            value = torch.tensor([0.5, 0.25]) if name == "scalars" else torch.tensor(0.5)
        elif argument.has_default_value():
            continue
        if argument.kwarg_only:
            named[name] = value
        else:
            positional.append(value)
    return positional, named


def test_every_one() -> None:
    found = {op: f for op, f in for_autograd().items() if op._schema.name.startswith("aten::_foreach_")}
    done = 0
    for op, function in found.items():
        positional, named = arguments(op)
        try:
            wanted = op(*positional, **named)
        except RuntimeError:  # matrices that do not fit
            continue
        got = function(*positional, **named)
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b, msg=lambda text, op=op: f"{op}: {text}")
        done += 1
    assert done > 60
