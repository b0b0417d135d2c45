"""Cases on processes of the engine "burn". Each case trains on a mesh and alone: `python -m tests.distributed.ranks CASE
...`, started by `burn.distributed.launch`. Rank 0 writes what it found as a line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import burn
from burn import nn, optim
from burn.dialect import ops
from burn.dialect.types import TensorType
from burn.distributed import processes
from burn.distributed.layout import Layout
from burn.distributed.spmd.engine import engine
from burn.errors import DistributedError
from tests.distributed.simulated import HEADS, TENSOR, Attending, Net, batches, loss, trained

CASES: dict[str, Callable[[], dict[str, Any]]] = {}
WITHIN = 1e-6


def case(function: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    CASES[function.__name__] = function
    return function


def mesh(axes: dict[str, int] | None = None, **options: Any) -> burn.Mesh:
    return burn.Mesh(axes or {"data": processes.count()}, engine="burn", **options)


def compared(make: Callable[[], nn.Module], on: burn.Mesh, **options: Any) -> dict[str, Any]:
    reference, wanted, theirs = trained(make, None, **options)
    step, losses, scores = trained(make, on, **options)
    np.testing.assert_allclose(losses, wanted, rtol=0, atol=WITHIN)
    assert losses[0] != losses[-1]
    for ours, other in zip(scores, theirs, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-3, atol=1e-4)
    layouts = {}
    known = dict(reference.model.named_parameters())
    for name, parameter in step.model.named_parameters():
        held = parameter.on_mesh
        if not held.layout.is_replicated:
            layouts[name] = str(held.layout)
        if "bias" not in name and "running_mean" not in name:  # gradients of rounding errors, which Adam scales up
            np.testing.assert_allclose(held.gathered(), known[name].numpy(), rtol=1e-3, atol=2e-5, err_msg=name)
    told = step.communication()
    return {"apart": float(np.abs(np.subtract(losses, wanted)).max()), "bytes": told.bytes, "layouts": layouts}


# ---- steps ---------------------------------------------------------------------------------------------------------------
@case
def data_parallel() -> dict[str, Any]:
    found = compared(Net, mesh())
    assert found["bytes"]["all-reduce"] and not found["layouts"]
    return found


@case
def fully_sharded() -> dict[str, Any]:
    found = compared(Net, mesh(fully_sharded="data"))
    assert found["layouts"] and found["bytes"]["reduce-scatter"] and found["bytes"]["all-gather"]
    return found


@case
def sharded_state() -> dict[str, Any]:
    found = compared(Net, mesh(sharded_state="data"))
    assert not found["layouts"] and found["bytes"]["reduce-scatter"]
    return found


@case
def attention() -> dict[str, Any]:
    return compared(Attending, mesh(fully_sharded="data"))


@case
def tensor_parallel() -> dict[str, Any]:
    axes = {"data": processes.count() // 2, "model": 2}
    found = compared(Net, mesh(axes=axes, rules=TENSOR))
    assert found["layouts"]["a.weight"] == "[model]"
    compared(Attending, mesh(axes=axes, rules=HEADS), sgd=True)
    return found


@case
def mixed() -> dict[str, Any]:
    return compared(Net, mesh(axes={"data": 2, "model": 2}, rules=TENSOR, fully_sharded="data"))


@case
def accumulated() -> dict[str, Any]:
    values = []
    for where in (None, mesh()):
        burn.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 8))
        cross = lambda m, x, y: nn.CrossEntropyLoss()(m(x), y)  # noqa: E731
        step = burn.train.step(model, cross, optim.SGD(model, lr=0.1), accumulate=2, mesh=where)
        values.append([float(step(x, y)) for x, _, y in batches()])
    np.testing.assert_allclose(values[0], values[1], atol=WITHIN)
    return {}


@case
def half_precision() -> dict[str, Any]:
    for precision in ("bfloat16", "float16"):
        values = []
        for where in (None, mesh()):
            burn.manual_seed(2)
            model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
            cross = lambda m, x, y: nn.CrossEntropyLoss()(m(x), y)  # noqa: E731
            step = burn.train.step(model, cross, optim.SGD(model, lr=0.1), precision=precision, mesh=where)
            values.append([float(step(x, y)) for x, _, y in batches()])
        np.testing.assert_allclose(values[0], values[1], atol=4e-3)
    return {}


class Convolving(nn.Module):
    def __init__(self) -> None:
        self.a, self.norm, self.drop = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Dropout(0.3)
        self.pool, self.b, self.head = nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, groups=2), nn.Linear(6, 4)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = self.drop(burn.relu(self.norm(self.a(x))))
        return self.head(burn.relu(self.b(self.pool(x))).mean((2, 3)))


@case
def convolutions() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 3, 8, 8)).astype("f4"), rng.integers(0, 4, 8)
    values = []
    for where in (None, mesh()):
        burn.manual_seed(3)
        model = Convolving()
        cross = lambda m, x, y: nn.CrossEntropyLoss()(m(x), y)  # noqa: E731
        step = burn.train.step(model, cross, optim.SGD(model, lr=0.1, momentum=0.9), mesh=where)
        values.append([float(step(x, y)) for _ in range(3)])
    np.testing.assert_allclose(values[0], values[1], rtol=0, atol=WITHIN)
    return {"apart": float(np.abs(np.subtract(*values)).max())}


# ---- errors --------------------------------------------------------------------------------------------------------------
@case
def refused() -> dict[str, Any]:
    """An index out of range on one process is an error of all, and training goes on. A batch that is not divided, and other
    programs, are errors before anything runs. The step is that of `fully_sharded`, which is compiled once."""
    burn.manual_seed(3)
    model = Net()
    optimizer, on = optim.AdamW(model, lr=0.01), mesh(fully_sharded="data")
    step = burn.train.step(model, loss, optimizer, has_aux=True, clip_norm=1.0, mesh=on)
    x, words, y = batches(1)[0]
    first = float(step(x, words, y)[0])
    before = {name: p.on_mesh.gathered().copy() for name, p in model.named_parameters()}
    wrong = words.copy()
    wrong[-1] = 99  # a row of the last process
    try:
        step(x, wrong, y)
        raise AssertionError("an index out of range is no error")
    except burn.RunError as error:
        assert isinstance(error, IndexError), repr(error)
        text = str(error)
        assert "99" in text and (
            processes.rank() == processes.count() - 1 or f"rank {processes.count() - 1}" in text
        ), text
    for name, p in model.named_parameters():
        if "running" not in name:
            np.testing.assert_array_equal(p.on_mesh.gathered(), before[name], err_msg=name)
    assert np.isfinite(float(step(x, words, y)[0]))
    try:
        step(x[:15], words[:15], y[:15])
        raise AssertionError("a batch of 15 rows is no error")
    except burn.InputError as error:
        assert "do not divide its 15 rows" in str(error)
    width = 3 + processes.rank()
    other = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, width))
    apart = burn.train.step(other, lambda m, x: m(x).sum(), optim.SGD(other, lr=0.1), mesh=mesh())
    try:
        apart(x)
        raise AssertionError("other programs are no error")
    except DistributedError as error:
        assert "the processes disagree" in str(error)
    return {"first": first}


@case
def apart() -> dict[str, Any]:
    """Meshes with another order of axes, and programs with other collectives, are errors before anything runs."""
    from dataclasses import replace

    from burn.distributed.spmd import engine

    count, rank = processes.count(), processes.rank()
    x = batches(1)[0][0]

    def told(axes: dict[str, int]) -> str:
        model = nn.Linear(8, 4)
        step = burn.train.step(model, lambda m, x: m(x).sum(), optim.SGD(model, lr=0.1), mesh=mesh(axes))
        try:
            step(x)
        except DistributedError as error:
            return str(error)
        raise AssertionError("that is no error")

    axes = {"data": count, "model": 1}
    patched: Any = engine
    assert "the program of a step" in told(axes if rank else dict(reversed(axes.items())))
    make = engine.of_one_device

    def other(*args: Any) -> Any:
        made = make(*args)
        return replace(made, described=made.described[rank:])

    patched.of_one_device = other
    try:
        assert "the processes disagree about the collectives of a step" in told(axes)
    finally:
        patched.of_one_device = make
    return {}


# ---- collectives ---------------------------------------------------------------------------------------------------------
def _run(
    kind: str,
    types: list[TensorType],
    arrays: list[np.ndarray],
    groups: tuple[int, ...] | None = None,
    **attributes: Any,
) -> list[np.ndarray]:
    """A collective of all processes, compiled."""
    from burn.compiler import executable
    from burn.dialect.program import Program
    from burn.distributed.spmd import communicators
    from burn.runtime.device import CPU

    communicators.of(CPU)
    count = processes.count()
    program = Program.create([(f"x{i}", t) for i, t in enumerate(types)])
    with program.building():
        made = getattr(ops, kind)(program.inputs, groups=groups or tuple(range(count)), size=count, **attributes)
    made = made if isinstance(made, list) else [made]
    program.finish([(f"y{i}", value) for i, value in enumerate(made)])
    found = executable(program)(*arrays)
    return list(found) if isinstance(found, tuple) else [found]


def _of(rank: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(100 * rank + len(dtype))
    from burn.dialect.types import numpy_dtype

    values = rng.integers(1, 5, shape) if "int" in dtype else rng.standard_normal(shape)
    return values.astype(numpy_dtype(dtype))


@case
def collectives() -> dict[str, Any]:
    """All reductions, in two precisions."""
    return _collectives(("float32", "bfloat16"))


@case
def other_collectives() -> dict[str, Any]:
    return _collectives(("int32", "float64", "float16", "int8", "int64", "uint8", "uint64"))


def _collectives(dtypes: Sequence[str]) -> dict[str, Any]:
    """Each against numpy, with sizes of 0, 1, primes, and more than a chunk. Sums have the order of the ranks, so their bits
    are known."""
    count, own = processes.count(), processes.rank()
    reductions = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
    checked = 0
    for dtype in dtypes:
        shapes = [(), (0, 3), (7,), (count, 3), (count * 331, 211) if dtype == "float32" else (count, 1)]
        types = [TensorType(dtype, shape) for shape in shapes]
        arrays = [[_of(rank, dtype, shape) for shape in shapes] for rank in range(count)]
        wide = np.float32 if dtype in ("float16", "bfloat16") else None
        for reduction, function in (
            reductions.items() if dtype in ("float32", "int32", "bfloat16") else [("sum", np.add)]
        ):
            want = []
            for i in range(len(shapes)):
                total = arrays[0][i].astype(wide) if wide else arrays[0][i]
                for rank in range(1, count):
                    total = function(total, arrays[rank][i].astype(wide) if wide else arrays[rank][i])
                want.append(np.asarray(total).astype(arrays[0][i].dtype))
            for got, expected in zip(_run("all_reduce", types, arrays[own], reduction=reduction), want, strict=True):
                np.testing.assert_array_equal(got, expected)
            scattered = _run("reduce_scatter", types[3:], arrays[own][3:], reduction=reduction)
            for got, expected in zip(scattered, want[3:], strict=True):
                np.testing.assert_array_equal(got, np.split(expected, count)[own])
            checked += 2
        gathered = _run("all_gather", types[1:], arrays[own][1:])
        for i, got in enumerate(gathered, 1):
            np.testing.assert_array_equal(got, np.concatenate([arrays[rank][i] for rank in range(count)]))
        sent = _run("collective_broadcast", types, arrays[own], root=count - 1)
        for got, expected in zip(sent, arrays[-1], strict=True):
            np.testing.assert_array_equal(got, expected)
        checked += 2
    return {"checked": checked}


@case
def sent_as_bytes() -> dict[str, Any]:
    """Elements that are not reduced have any type."""
    count, own = processes.count(), processes.rank()
    for dtype in ("bool", "int4", "uint4", "float8_e4m3fn", "float8_e5m2"):  # as bytes
        arrays = [[_of(rank, dtype, (3, 5))] for rank in range(count)]
        types = [TensorType(dtype, (3, 5))]
        np.testing.assert_array_equal(_run("all_gather", types, arrays[own])[0], np.concatenate([x for (x,) in arrays]))
        np.testing.assert_array_equal(_run("collective_broadcast", types, arrays[own], root=0)[0], arrays[0][0])
    return {}


@case
def gathered() -> dict[str, Any]:
    """A tensor of any type whose last axis is divided."""
    for dtype in ("complex64", "float8_e4m3fn", "int4", "float32"):
        whole = _of(0, dtype, (3, 2 * processes.count()))
        layout = Layout.of([None, "data"])
        held = engine().put(whole, dtype, mesh(), layout)
        np.testing.assert_array_equal(held.gathered(), whole)
    return {}


@case
def mixed_up() -> dict[str, Any]:
    """Processes that run other collectives of the same types: one bucket and two, and groups in another order."""
    from burn.distributed.spmd import communicators
    from burn.runtime.device import CPU

    own, count = communicators.of(CPU), processes.count()
    assert own is not None
    type_, x = TensorType("float32", (6,)), np.ones(6, np.float32)
    ranks = tuple(range(count))

    def buckets() -> None:
        for part in ([type_] * 2,) if processes.rank() else ([type_], [type_]):
            _run("all_reduce", part, [x] * len(part))

    def order() -> None:
        _run("all_gather", [type_], [x], groups=ranks[::-1] if processes.rank() else ranks)

    for run in (buckets, order):
        try:
            run()
            raise AssertionError("other collectives are no error")
        except DistributedError as error:
            assert "run different collectives" in str(error), error
        own.reset()
        np.testing.assert_array_equal(_run("all_reduce", [type_], [x])[0], x * count)
    return {}


def derivative(kind: str, shape: tuple[int, ...], **attributes: Any) -> np.ndarray:
    """The cotangent of a collective's operand, if that of its result is the elements' numbers times the rank plus one."""
    from burn.compiler import executable
    from burn.dialect.adjoint.reverse import gradients
    from burn.dialect.program import Program

    count = processes.count()
    program = Program.create([("x", TensorType("float64", shape)), ("factor", TensorType("float64", ()))])
    with program.building():
        x, factor = program.inputs
        y = getattr(ops, kind)([x], groups=tuple(range(count)), size=count, **attributes)
        from burn.dialect.types import type_of

        elements = type_of(y).elements
        g = ops.reshape(ops.iota(shape=(elements,), axis=0, dtype="float64"), shape=type_of(y).shape)
        (found,) = gradients([y], [ops.mul(g, factor)], [x])
    program.finish([("g", found)])
    return executable(program)(np.zeros(shape), np.float64(processes.rank() + 1))


@case
def derivatives() -> dict[str, Any]:
    """Of each collective, as the transpose of its map from all processes' operands to all results."""
    from burn.distributed.spmd import communicators
    from burn.runtime.device import CPU

    communicators.of(CPU)
    count, own = processes.count(), processes.rank()
    every = count * (count + 1) / 2
    iota = lambda *shape: np.arange(np.prod(shape), dtype=float).reshape(shape)  # noqa: E731
    np.testing.assert_array_equal(derivative("all_reduce", (3, 2)), every * iota(3, 2))
    np.testing.assert_array_equal(derivative("all_gather", (3, 2)), every * iota(count * 3, 2)[3 * own : 3 * own + 3])
    want = np.concatenate([(rank + 1) * iota(3, 2) for rank in range(count)])
    np.testing.assert_array_equal(derivative("reduce_scatter", (count * 3, 2)), want)
    at_root = every * iota(3, 2) if own == count - 1 else np.zeros((3, 2))
    np.testing.assert_array_equal(derivative("collective_broadcast", (3, 2), root=count - 1), at_root)
    return {}


if __name__ == "__main__":
    processes.initialize(engine="burn")
    for name in sys.argv[1:]:
        made = CASES[name]()
        if processes.rank() == 0:
            print(json.dumps({"case": name, **made}), flush=True)
