"""Reductions, running reductions, orders."""

from __future__ import annotations

from tests.fuzz.gradients.draft import Draft, Texts
from tests.fuzz.gradients.steps.registry import both, step


@step(8)
def along(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0)
    axes: object = d.axis(x) if d.flag(0.6) else d.axes(x)
    keep = d.flag()
    name = d.among("sum", "mean", "max", "min", "logsumexp", "var", "std", "norm", "prod", "sum", "mean")
    if name in ("sum", "mean", "logsumexp"):
        return both(f"{x}.{name}({axes}, {keep})")
    if name in ("max", "min"):
        return f"{x}.{name}({axes}, {keep})", f"{x}.a{name}({axes}, {keep})"
    if name == "var":
        return f"{x}.var({axes}, 0, {keep})", f"{x}.var({axes}, correction=0, keepdim={keep})"
    if name == "std":  # has no derivative at 0
        return (
            f"({x}.var({axes}, 0, {keep}) + 0.1).sqrt()",
            f"({x}.var({axes}, correction=0, keepdim={keep}) + 0.1).sqrt()",
        )
    if name == "norm":
        p = d.among(1, 2, 3, "float('inf')", 2)
        return f"{x}.norm({p}, {axes}, {keep})", f"torch.linalg.vector_norm({x}, {p}, {axes}, {keep})"
    axis = d.axis(x)
    return f"{x}.prod({axis}, {keep})", f"{x}.prod({axis}, {keep})"


@step(3)
def of_all(d: Draft) -> Texts:
    x = d.value()
    scaled = d.among("sum", "mean", "amax", "amin", "prod")
    return both(
        d.among(
            f"{x}.{scaled}()",
            f"{x} * {x}.sum()",
            f"{x} - {x}.mean()",
            f"{x} / ({x}.square().sum() + 1.0).sqrt()",
        )
    )


@step(4)
def running(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0)
    axis = d.axis(x)
    name = d.among("cumsum", "cumprod", "cummax", "cummin", "cumulative")
    if name == "cumulative":
        options = f"kind='{d.among('sum', 'prod')}', axis={axis}, exclusive={d.flag()}, reverse={d.flag()}"
        return f"ops.cumulative({x}, {options})", f"t.running({x}, {options})"
    return f"{x}.{name}({axis})", f"{x}.{name}({axis}){'[0]' if name in ('cummax', 'cummin') else ''}"


@step(3)
def softmaxes(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0)
    return both(f"{x}.{d.among('softmax', 'log_softmax')}({d.axis(x)})")


@step(5)
def ordered(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    axis, down = d.axis(x), d.flag()
    k = d.chance.randint(1, x.shape[axis])
    s = f"torch.sort({x}, dim={axis}, stable=True, descending={down})[0]"
    return d.among(
        (f"{x}.sort({axis}, {down})", s),
        (f"{x}.topk({k}, {axis}, {down})[0]", f"{s}.narrow({axis}, 0, {k})"),
        both(f"{x}.gather({axis}, {x}.argmax({axis}, True))"),
        (f"{x}.gather({axis}, {x}.argsort({axis}))", f"{x}.gather({axis}, {x}.argsort({axis}, stable=True))"),
        both(f"{x}.quantile({d.among(0.3, 0.5, 0.75)}, {axis})"),
        (f"{x}.median({axis})", f"{x}.quantile(0.5, {axis})"),
        (f"{x}.diff(1, {axis})", f"{x}.diff(dim={axis})"),
        (f"{x}.diff(2, {axis})", f"{x}.diff(2, {axis})"),
    )


@step(2)
def weighted(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    axis = d.axis(x)
    w = d.positive((x.shape[axis],))
    laid = f"{w}.reshape({[-1 if i == axis % x.rank else 1 for i in range(x.rank)]})"
    return d.among(
        (f"{x}.average({axis}, {w})", f"({x} * {laid}).sum({axis}) / {w}.sum()"),
        (f"ops.variance({x}, axes=({axis},))", f"{x}.var({axis}, correction=0)"),
        (f"ops.lp_norm({x} + 0.0123, axis={axis}, p=2)", f"F.normalize({x} + 0.0123, dim={axis})"),
        (f"{x}.nansum({axis})", f"{x}.nansum({axis})"),
    )
