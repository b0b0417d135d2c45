"""Reductions over axes, running ones, and the place of an extreme."""

from __future__ import annotations

from typing import Any

import numpy as np

from burn.dialect.types import DTYPES, numpy_dtype
from burn.exporters.onnx.emitters import Site, emits
from burn.exporters.onnx.graph import CODES
from burn.exporters.onnx.ops.library import as_signed, as_unsigned
from onnx import helper

REDUCTIONS = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
STEPS = {"sum": "Add", "prod": "Mul", "max": "Max", "min": "Min", "any": "Or", "all": "And"}


@emits("reduce")
def reduce(site: Site) -> str:
    rank, kind, dtype = site.types[0].rank, site.attrs["kind"], site.types[0].dtype
    axes = sorted(a % rank for a in site.attrs["axes"])
    if not axes:
        return site.node("Identity", site.inputs[0])
    return reduced(site, site.inputs[0], kind, axes, site.attrs["keepdims"], dtype)


def reduced(site: Site, x: str, kind: str, axes: list[int], keepdims: bool, dtype: str) -> str:
    """Sums of 16-bit floats are taken in float32; truth values are counted as 0 and 1."""
    working = dtype
    if kind in ("any", "all"):
        working, kind = "uint8", {"any": "max", "all": "min"}[kind]
    elif kind in ("sum", "prod") and DTYPES[dtype].kind == "float" and DTYPES[dtype].bits == 16:
        working = "float32"
    elif dtype == "uint64" and kind in ("max", "min"):
        return as_unsigned(site, reduced(site, as_signed(site, x), kind, axes, keepdims, "int64"))
    elif dtype in ("uint64", "uint32"):
        working = "int64"
    result = site.node(REDUCTIONS[kind], site.cast(x, working), site.ints(axes), keepdims=int(keepdims))
    return site.cast(result, dtype)


@emits("arg_reduce")
def arg_reduce(site: Site) -> str:
    attrs = site.attrs
    return site.node(
        "ArgMax" if attrs["kind"] == "max" else "ArgMin",
        site.inputs[0],
        axis=attrs["axis"] % max(site.types[0].rank, 1),
        keepdims=int(attrs["keepdims"]),
        select_last_index=1 if attrs["last"] else None,
    )


@emits("cumulative")
def cumulative(site: Site) -> str:
    """Sums have an operator; what else runs along an axis is a Scan."""
    attrs = site.attrs
    dtype: str = site.types[0].dtype
    axis = attrs["axis"] % site.types[0].rank
    if attrs["kind"] == "sum":
        working = {"uint32": "int64", "uint64": "int64"}.get(dtype, dtype)
        if DTYPES[dtype].bits == 16 and DTYPES[dtype].kind == "float":
            working = "float32"
        flags: dict[str, Any] = {name: 1 if attrs[name] else None for name in ("exclusive", "reverse")}
        axis_of = site.graph.literal(np.array(axis, np.int64))
        return site.cast(site.node("CumSum", site.cast(site.inputs[0], working), axis_of, **flags), dtype)
    return _scan(site, axis)


def _scan(site: Site, axis: int) -> str:
    """A state of one slice that meets every slice in turn."""
    attrs, type_ = site.attrs, site.types[0]
    dtype, kind = type_.dtype, attrs["kind"]
    working = dtype if kind in ("any", "all") or dtype in ("float32", "float64", "int32", "int64") else _wider(dtype)
    x = site.cast(site.inputs[0], working)
    slice_shape = (*type_.shape[:axis], *type_.shape[axis + 1 :])
    state = site.node("Expand", site.graph.literal(identity(kind, working)), site.vector(slice_shape))
    graph = site.graph
    names = {n: graph.fresh(f"scan/{n}") for n in ("state", "slice", "next", "out")}
    code = CODES[working]
    sizes = [d if isinstance(d, int) else None for d in slice_shape]
    body = helper.make_graph(
        [
            helper.make_node(
                STEPS[kind], [names["state"], names["slice"]], [names["next"]], name=graph.fresh("scan/step")
            ),
            helper.make_node(
                "Identity",
                [names["state" if attrs["exclusive"] else "next"]],
                [names["out"]],
                name=graph.fresh("scan/slice"),
            ),
        ],
        graph.fresh("scan"),
        [helper.make_tensor_value_info(names[n], code, sizes) for n in ("state", "slice")],
        [helper.make_tensor_value_info(names[n], code, sizes) for n in ("next", "out")],
    )
    backwards = [1] if attrs["reverse"] else [0]
    _, result = site.node(
        "Scan",
        state,
        x,
        outputs=2,
        to=working,
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
        scan_input_directions=backwards,
        scan_output_directions=backwards,
    )
    return site.cast(result, dtype)


def _wider(dtype: str) -> str:
    return "float32" if DTYPES[dtype].kind == "float" else "int64" if dtype in ("uint32", "uint64") else "int32"


def identity(kind: str, dtype: str) -> np.ndarray:
    """The identity of a reduction."""
    values = {"sum": 0, "prod": 1, "any": False, "all": True}
    if kind in values:
        return np.array(values[kind], numpy_dtype(dtype))
    if DTYPES[dtype].kind == "float":
        return np.array(-np.inf if kind == "max" else np.inf, numpy_dtype(dtype))
    limits = np.iinfo(numpy_dtype(dtype))
    return np.array(limits.min if kind == "max" else limits.max, numpy_dtype(dtype))
