"""Strides of results in torch.compile's graphs: those of eager mode, for every elementwise operator of ATen.

BURN_SWEEP=3000 draws so many operand layouts instead of a few, from BURN_SWEEP_SEED on."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from burn.importers.torch.decompositions import for_autograd  # noqa: E402
from burn.importers.torch.strides import is_elementwise  # noqa: E402
from tests.fuzz.runner import first_seed  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

CASES = 60
"""Pairs of an operator and layouts of its operands in every test run."""
LAYOUTS = ("contiguous", "permuted", "permuted", "permuted", "sliced", "expanded", "broadcast", "fewer axes")
DTYPES = (torch.float32, torch.int64, torch.bool)
NUMBERS = {"number": 2, "float": 0.5, "int": 1, "bool": True}


def operators() -> Iterator[Any]:
    """All of ATen's, as `dir(torch.ops.aten)` has those alone that the process has used. Random ones are not drawn."""
    names = {s.name.removeprefix("aten::") for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")}
    for name in sorted(names):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") and not name.startswith("_") else ():
            try:
                op = getattr(packet, overload)
            except RuntimeError:  # of TorchScript alone
                continue
            if is_elementwise(op) and torch.Tag.nondeterministic_seeded not in op.tags:
                yield op


OPERATORS = tuple(sorted(operators(), key=str))


def tensor(chance: random.Random, shape: list[int], dtype: Any, layout: str) -> Any:
    """An operand that broadcasts to the shape."""
    rank = len(shape)
    order = chance.sample(range(rank), rank) if layout in ("permuted", "sliced") else list(range(rank))
    sizes = list(shape)
    axis = chance.randrange(rank)
    if layout == "sliced":
        sizes[axis] *= 2
    elif layout == "expanded":
        sizes[axis] = 1
    elif layout == "broadcast":
        sizes = [1 if chance.random() < 0.4 else n for n in sizes]
    elif layout == "fewer axes":
        sizes, order = sizes[axis:], list(range(rank - axis))
    made = torch.ones([sizes[i] for i in order], dtype=dtype).permute([order.index(i) for i in range(len(order))])
    if layout == "sliced":
        made = made[tuple(slice(None, None, 2) if i == axis else slice(None) for i in range(rank))]
    return made.expand(shape) if layout == "expanded" else made


def arguments(chance: random.Random, op: Any, dtype: Any) -> tuple[list[Any], dict[str, Any]]:
    shape = [chance.choice((1, 2, 3, 4)) for _ in range(chance.choice((2, 2, 3, 4)))]
    if chance.random() < 0.05:
        shape[-1] = 0
    given: list[Any] = []
    named: dict[str, Any] = {}
    for argument in op._schema.arguments:
        kind = str(argument.type)
        if kind == "Tensor" or (kind == "Optional[Tensor]" and not given):
            given.append(tensor(chance, shape, dtype, chance.choice(LAYOUTS)))
        elif kind in NUMBERS and not argument.has_default_value():
            (given.append if not argument.kwarg_only else lambda v, n=argument.name: named.update({n: v}))(
                NUMBERS[kind]
            )
        elif kind == "Optional[str]":
            named[argument.name] = chance.choice(("floor", "trunc"))
        elif kind == "Optional[number]" and not argument.kwarg_only:
            given.append(2)
    return given, named


def strides(value: Any) -> list[Any]:
    """Strides of one result or several, along axes with a step to take."""
    if isinstance(value, (tuple, list)):
        return [strides(v) for v in value]
    value = value.meta["val"] if isinstance(value, torch.fx.Node) else value
    return [s if n > 1 else 0 for n, s in zip(value.shape, value.stride(), strict=True)] if value.numel() else []


def case(seed: int) -> str:
    """The difference for the operator and the operands of a seed; empty if there is none or eager mode refuses them."""
    op = OPERATORS[seed % len(OPERATORS)]
    for dtype in DTYPES:
        given, named = arguments(random.Random(seed), op, dtype)
        try:
            wanted = op(*given, **named)
            break
        except (RuntimeError, TypeError):
            continue
    else:
        return ""
    graph = make_fx(lambda *a: op(*a, **named), tracing_mode="fake", decomposition_table=for_autograd())(*given)
    made = next(n for n in graph.graph.nodes if n.op == "output").args[0]
    if strides(made) == strides(wanted):
        return ""
    operands = [(list(g.shape), list(g.stride())) if isinstance(g, torch.Tensor) else g for g in given]
    return f"seed {seed}: {op}{operands}: {strides(made)}, torch {strides(wanted)}"


def test_elementwise_results_have_the_strides_of_eager_mode() -> None:
    first = first_seed(os.environ.get("BURN_SWEEP_SEED", 0))
    found = [text for text in map(case, range(first, first + int(os.environ.get("BURN_SWEEP", CASES)))) if text]
    assert not found, "\n".join(found)


def test_every_elementwise_operator_is_drawn() -> None:
    """At least those that tests of numbers know."""
    assert len(OPERATORS) > 200
    assert {"aten.copysign.Tensor", "aten.floor_divide.default", "aten.xlogy.Tensor"} <= set(map(str, OPERATORS))


@pytest.mark.parametrize("name", ["copysign", "floor_divide", "ldexp", "logaddexp"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_flat_view_of_a_result_shares_its_memory(name: str, dynamic: bool) -> None:
    """A result that lies transposed has no flat view, and its transpose has one."""

    def run(x: Any, y: Any) -> Any:
        z = getattr(torch, name)(x, y)
        return z, z.t().reshape(-1), z.reshape(-1)

    x, y = torch.arange(1.0, 7).reshape(2, 3).t(), torch.arange(1.0, 7).reshape(3, 2)
    torch._dynamo.reset()
    wanted, made = run(x, y), torch.compile(run, backend="burn", dynamic=dynamic or None)(x, y)
    for ours, theirs in zip(made, wanted, strict=True):
        assert ours.stride() == theirs.stride()
        torch.testing.assert_close(ours, theirs)
        shares = [
            t.untyped_storage().data_ptr() == z.untyped_storage().data_ptr()
            for t, z in ((ours, made[0]), (theirs, wanted[0]))
        ]
        assert shares[0] == shares[1]
