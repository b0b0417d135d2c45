"""Sorting, selecting and searching."""

from __future__ import annotations

from burn.exporters.onnx.emitters import Site, emits


@emits("sort")
def sort(site: Site) -> list[str]:
    """All of the axis's elements are its largest (or smallest); equal ones keep their order in both."""
    type_ = site.types[0]
    if not type_.rank:
        zero = site.number(0, "int64")
        return [site.node("Identity", site.inputs[0]), zero]
    axis = site.attrs["axis"] % type_.rank
    largest = 1 if site.attrs["descending"] else 0
    x, size = site.inputs[0], site.vector([type_.shape[axis]])
    if type_.dtype != "uint64":
        return site.node("TopK", x, size, outputs=2, axis=axis, largest=largest)
    values, indices = site.node("TopK", as_signed(site, x), size, outputs=2, axis=axis, largest=largest)
    return [as_unsigned(site, values), indices]


def as_signed(site: Site, x: str) -> str:
    """uint64 as int64 in the same order: the highest bit turned over."""
    return site.node("BitwiseXor", site.cast(x, "int64"), site.number(-(2**63), "int64"))


def as_unsigned(site: Site, x: str) -> str:
    return site.cast(site.node("BitwiseXor", x, site.number(-(2**63), "int64")), "uint64")


@emits("nonzero")
def nonzero(site: Site) -> str:
    type_ = site.types[0]
    x = site.inputs[0] if type_.rank else site.node("Reshape", site.inputs[0], site.ints([1]))
    found = site.node("NonZero", x if type_.dtype == "bool" else site.cast(x, "bool"))
    site.sizes.of_value(found, site.results[0])
    return found


@emits("unique")
def unique(site: Site) -> list[str]:
    axis = site.attrs["axis"]
    results = site.node(
        "Unique",
        site.inputs[0],
        outputs=4,
        axis=None if axis is None else axis % max(site.types[0].rank, 1),
        sorted=None if site.attrs["sorted"] else 0,
    )
    site.sizes.of_value(results[1], site.results[1])
    return results


@emits("non_max_suppression")
def non_max_suppression(site: Site) -> str:
    boxes, scores, maximum, overlap, threshold = site.inputs
    if site.attrs["form"] == "ordered" or site.types[0].dtype != "float32":
        site.refuse(
            "ONNX has boxes of float32 whose corners are in any order", "burn.load reads torchvision's own ONNX export"
        )
    limits = [maximum, *(None if n is None else site.cast(n, "float32") for n in (overlap, threshold))]
    vectors = [None if n is None else site.node("Reshape", n, site.ints([1])) for n in limits]
    center = 1 if site.attrs["form"] == "center" else None
    chosen = site.node("NonMaxSuppression", boxes, scores, *vectors, center_point_box=center)
    site.sizes.of_value(chosen, site.results[0])
    return chosen
