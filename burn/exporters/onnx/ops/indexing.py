"""Gathering and scattering. ONNX takes int32 and int64 indices."""

from __future__ import annotations

from burn.exporters.onnx.emitters import Site, emits


def _index(site: Site, name: str) -> str:
    return name if site.dtype(name) in ("int32", "int64") else site.cast(name, "int64")


@emits("from_start")
def from_start(site: Site) -> str:
    """The indices: ONNX has no operators that refuse a negative one."""
    name = site.inputs[0]
    return site.node("Identity", name) if site.dtype(name) == "int64" else site.cast(name, "int64")


@emits("gather")
def gather(site: Site) -> str:
    return site.node("Gather", site.inputs[0], _index(site, site.inputs[1]), axis=site.attrs["axis"])


@emits("gather_elements")
def gather_elements(site: Site) -> str:
    return site.node("GatherElements", site.inputs[0], _index(site, site.inputs[1]), axis=site.attrs["axis"])


@emits("gather_nd")
def gather_nd(site: Site) -> str:
    return site.node(
        "GatherND", site.inputs[0], site.cast(site.inputs[1], "int64"), batch_dims=site.attrs["batch_dims"] or None
    )


@emits("scatter_elements")
def scatter_elements(site: Site) -> str:
    x, indices, updates = site.inputs
    return _scattered(site, "ScatterElements", x, _index(site, indices), updates, axis=site.attrs["axis"])


@emits("scatter_nd")
def scatter_nd(site: Site) -> str:
    x, indices, updates = site.inputs
    return _scattered(site, "ScatterND", x, site.cast(indices, "int64"), updates)


def _scattered(site: Site, operator: str, x: str, indices: str, updates: str, **attributes: int) -> str:
    reduction, dtype = site.attrs["reduction"], site.types[0].dtype
    if reduction == "none":
        return site.node(operator, x, indices, updates, **attributes)
    working = "float32" if dtype == "bfloat16" else "uint8" if dtype == "bool" else dtype
    x, updates = site.cast(x, working), site.cast(updates, working)
    return site.cast(site.node(operator, x, indices, updates, reduction=reduction, **attributes), dtype)
