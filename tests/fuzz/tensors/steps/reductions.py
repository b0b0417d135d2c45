"""Steps that combine many elements: reductions, cumulative ones, variances, contractions."""

from __future__ import annotations

from tests.fuzz.tensors.draft import Draft, Unfit
from tests.fuzz.tensors.shared import words
from tests.fuzz.tensors.steps.registry import step


def _count(shape: tuple[int, ...], axes: object) -> int:
    """How many elements each result is made of."""
    chosen = range(len(shape)) if axes is None else (axes,) if isinstance(axes, int) else axes
    count = 1
    for axis in chosen:  # type: ignore[union-attr]
        count *= shape[axis]
    return count


@step(8)
def reduction(d: Draft) -> None:
    v = d.any()
    axes = d.axes(v)
    names = words("sum mean max min prod any all nansum nanmean nanmax count_nonzero")
    name = d.random.choice(names)
    if not _count(v.shape, axes) and name in ("mean", "max", "min", "nanmean", "nanmax"):
        raise Unfit
    if name == "prod" and v.is_float and _count(v.shape, axes) > 60:
        raise Unfit
    d.add(f"m.{name}({v.name}, {axes}, keepdims={d.random.random() < 0.4})")


@step(3)
def arg_reduction(d: Draft) -> None:
    v = d.pick(lambda v: v.ndim > 0 and v.size > 0)
    axis = d.random.choice([None, *range(-v.ndim, v.ndim)])
    d.add(f"m.{d.random.choice(['argmax', 'argmin'])}({v.name}, {axis}, keepdims={d.random.random() < 0.3})")


@step(4)
def running(d: Draft) -> None:
    v = d.any(1)
    name = d.random.choice(["cumsum", "cumprod", "cummax", "cummin"])
    axis = d.random.randrange(v.ndim)
    d.add(f"m.{name}({v.name}, {axis})")


@step(2)
def differences(d: Draft) -> None:
    v = d.pick(lambda v: v.ndim > 0 and v.shape[-1] > 0)
    d.add(f"m.diff({v.name})")


@step(3)
def spread(d: Draft) -> None:
    v = d.pick(lambda v: v.ndim > 0 and v.size > 1 and v.is_float)
    axis = d.random.choice([None, *range(v.ndim)])
    if not _count(v.shape, axis):
        raise Unfit
    x, keep = v.name, f"keepdims={d.random.random() < 0.4}"
    choices = [f"m.var({x}, {axis}, {keep})", f"m.std({x}, {axis}, {keep})"]
    if v.is_finite and v.dtype in ("float32", "float64"):
        choices.append(f"m.quantile({x}, {d.random.choice([0.5, 0.25, 0.9, 0.0, 1.0])}, {axis}, {keep})")
        choices.append(f"m.median({x}, {axis}, {keep})")
    d.add(d.random.choice(choices))


@step(3)
def softmax(d: Draft) -> None:
    v = d.pick(lambda v: v.ndim > 0 and v.size > 0 and v.is_float and v.is_finite)
    axis = d.axis(v)
    d.add(f"m.{d.random.choice(['softmax_by_hand', 'softmax', 'log_softmax', 'logsumexp'])}({v.name}, {axis})")


@step(6)
def matmul(d: Draft) -> None:
    v = d.pick(lambda v: v.ndim > 0 and v.dtype != "bool")
    if d.random.random() < 0.4:
        if v.ndim < 2:
            raise Unfit
        d.add(f"m.matmul({v.name}, m.swapaxes({v.name}, -1, -2))")
        return
    w = d.like(v, 1)
    name = d.random.choice(["matmul", "matmul", "dot", "inner"])
    if v.shape[-1] != (w.shape[-1] if name == "inner" or w.ndim == 1 else w.shape[-2]):
        if v.ndim == 2 and v.shape[0] == w.shape[-1] == w.shape[0]:
            raise Unfit
        w = d.input((v.shape[-1], d.random.choice(d.extents)), v.dtype)
        name = "matmul"
    d.add(f"m.{name}({v.name}, {w.name})")


@step(1)
def outer(d: Draft) -> None:
    v = d.pick(lambda v: v.ndim == 1 and v.dtype != "bool")
    w = d.like(v)
    d.add(f"m.{d.random.choice(['outer', 'kron'])}({v.name}, {w.name})")
