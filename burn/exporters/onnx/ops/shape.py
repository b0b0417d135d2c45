"""Constants, views, slices, padding and joining."""

from __future__ import annotations

import numpy as np

from burn.dialect.constants import constant_array
from burn.dialect.dims import Dim, dim_min
from burn.dialect.locations import source_name
from burn.dialect.types import DTYPES, numpy_dtype
from burn.dialect.weights import array_weight
from burn.exporters.onnx.emitters import Site, emits
from burn.exporters.onnx.kernels import computed_in
from burn.exporters.onnx.ops.pointwise import scalar_value

FAR = 2**63 - 1  # a slice's end that no axis reaches


@emits("full")
def full(site: Site) -> str:
    value, shape = scalar_value(site.op), site.attrs["shape"]
    if not shape:
        return site.graph.literal(value)
    kind = DTYPES[site.attrs["dtype"]].kind
    if kind in ("float", "int", "uint", "bool") and DTYPES[site.attrs["dtype"]].bits not in (2, 4):
        return site.node("ConstantOfShape", site.vector(shape), value=_tensor(value), to=site.attrs["dtype"])
    return site.node("Expand", site.graph.literal(value), site.vector(shape))


def _tensor(value: np.ndarray):
    from burn.exporters.onnx.tensors import to_proto

    return to_proto("", array_weight(value.reshape(1)))


@emits("constant")
def constant(site: Site) -> str:
    array = constant_array(site.op.operation.results[0], site.weights)
    if not site.attrs["shape"]:
        return site.graph.literal(array)
    source = source_name(site.op)
    return site.graph.initializer(array_weight(array), "" if source == "program" else source)


@emits("weight")
def weight(site: Site) -> str:
    return site.graph.initializer(site.weights.weight(site.attrs["key"]), site.attrs["key"])


@emits("iota")
def iota(site: Site) -> str:
    shape, dtype = site.results[0].shape, site.attrs["dtype"]
    axis = site.attrs["axis"] % len(shape)
    counted = dtype if computed_in("Range", dtype) else "int64"
    size = site.sizes.scalar(shape[axis])
    if isinstance(shape[axis], int):
        values = np.arange(shape[axis])
        line = site.graph.literal(values.astype(numpy_dtype(dtype))) if values.size <= 16 else None
    else:
        line = None
    if line is None:
        end = site.cast(size, counted)
        line = site.node("Range", site.number(0, counted), end, site.number(1, counted), shared=True)
        line = site.cast(line, dtype)
    along = tuple(d if i == axis else 1 for i, d in enumerate(shape))
    return site.expand(site.reshape(line, (shape[axis],), along), along, shape)


@emits("dim_values")
def dim_values(site: Site) -> str:
    dims = site.attrs["dims"]
    return site.sizes.scalar(dims[0]) if site.attrs["scalar"] else site.vector(dims)


@emits("read_dim")
def read_dim(site: Site) -> list[str]:
    """Only the definition: its limits, which burn's own programs check, have no counterpart in ONNX."""
    x, type_, position = site.inputs[0], site.types[0], site.attrs["position"]
    flat = site.reshape(x, type_.shape, (type_.elements,))
    if type_.elements != 1:
        flat = site.node("Slice", flat, site.ints([position]), site.ints([position + 1]))
    result = site.cast(flat, "int64")
    site.sizes.define(site.attrs["symbol"], lambda: result)
    return []


@emits("check_size")
def check_size(site: Site) -> list[str]:
    """A guard of the graph that the check is in: its outputs go through a node that fails where the size does not fit, named
    for what is asked."""
    size, relation, bound, says = (site.attrs[name] for name in ("size", "relation", "bound", "says"))
    have, want = site.sizes.of(size), site.sizes.of(bound)
    operator, fails = _FAILS[relation]
    holds = site.node(operator, have, want)
    failed = site.cast(holds if fails else site.node("Not", holds), "int64")
    site.graph.scopes[-1].guards[failed] = f"{size} {relation} {bound}" + (f", {says}" if says else "")
    return []


_FAILS = {
    "==": ("Equal", False),
    "!=": ("Equal", True),
    "<=": ("LessOrEqual", False),
    "<": ("Less", False),
    ">=": ("GreaterOrEqual", False),
    ">": ("Greater", False),
}
"""The operator for each relation, and whether a check fails where it holds."""


@emits("broadcast_to")
def broadcast_to(site: Site) -> str:
    want = site.results[0].shape
    if site.types[0].shape == want:
        return site.node("Identity", site.inputs[0])
    return site.expand(site.inputs[0], site.types[0].shape, want)


@emits("reshape")
def reshape(site: Site) -> str:
    have, want = site.types[0].shape, site.results[0].shape
    return site.node("Identity", site.inputs[0]) if have == want else site.reshape(site.inputs[0], have, want)


@emits("transpose")
def transpose(site: Site) -> str:
    return site.node("Transpose", site.inputs[0], perm=list(site.attrs["permutation"]))


@emits("concat")
def concat(site: Site) -> str:
    return site.node("Concat", *site.inputs[0], axis=site.attrs["axis"])


@emits("slice")
def slice_(site: Site) -> str:
    """The axes that change. Walking backwards the end is counted from behind, where it cannot be taken for the last
    element."""
    attrs, shape = site.attrs, site.types[0].shape
    starts: list[Dim] = []
    ends: list[Dim] = []
    axes: list[int] = []
    steps: list[int] = []
    for axis, (dim, start, size, step) in enumerate(
        zip(shape, attrs["starts"], attrs["sizes"], attrs["steps"], strict=True)
    ):
        if step == 1 and start == 0 and size == dim:
            continue
        axes.append(axis)
        if size == 0:
            first, last, step = 0, 0, 1
        elif step > 0:
            first, last = start, FAR if step == 1 and start + size == dim else start + size * step
        else:
            first, last = start, dim_min(start + (size - 1) * step - 1 - dim, -1)
        starts.append(first)
        ends.append(last)
        steps.append(step)
    if not axes:
        return site.node("Identity", site.inputs[0])
    step_vector = None if set(steps) == {1} else site.ints(steps)
    return site.node("Slice", site.inputs[0], site.vector(starts), site.vector(ends), site.ints(axes), step_vector)


@emits("pad")
def pad(site: Site) -> str:
    x, value = site.inputs
    shape, interior = site.types[0].shape, site.attrs["interior"] or (0,) * site.types[0].rank
    for axis, (dim, gap) in enumerate(zip(shape, interior, strict=True)):
        if gap:
            x = _spread(site, x, value, shape, axis, gap)
            shape = (*shape[:axis], dim + (dim - 1) * gap, *shape[axis + 1 :])
    return padded(site, x, value, site.attrs["low"], site.attrs["high"])


def padded(site: Site, x: str, value: str, low: tuple[Dim, ...], high: tuple[Dim, ...]) -> str:
    if not any((*low, *high)):
        return site.node("Identity", x) if x == site.inputs[0] else x
    return site.node("Pad", x, site.vector((*low, *high)), value)


def _spread(site: Site, x: str, value: str, shape: tuple[Dim, ...], axis: int, gap: int) -> str:
    """`gap` values between the elements of an axis: behind every element, less those behind the last."""
    rank, dim = len(shape), shape[axis]
    apart = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    pads = [0] * (rank + 1), [gap if i == axis + 1 else 0 for i in range(rank + 1)]
    x = site.node("Pad", site.reshape(x, shape, apart), site.ints([*pads[0], *pads[1]]), value)
    wide = (*shape[:axis], dim, gap + 1, *shape[axis + 1 :])
    joined = (*shape[:axis], dim * (gap + 1), *shape[axis + 1 :])
    x = site.reshape(x, wide, joined)
    return site.node("Slice", x, site.ints([0]), site.ints([-gap]), site.ints([axis]))
