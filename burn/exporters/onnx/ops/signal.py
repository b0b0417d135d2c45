"""The discrete Fourier transform: ONNX keeps real and imaginary part in a last axis of two."""

from __future__ import annotations

from burn.dialect.dims import product
from burn.exporters.onnx.emitters import Site, emits


@emits("dft", operator="DFT")
def dft(site: Site) -> list[str]:
    type_ = site.types[0]
    dtype = "float64" if type_.dtype == "float64" else "float32"
    n = type_.shape[-1]
    rows = (product(type_.shape[:-1]), n, 1)
    parts = [site.reshape(site.cast(p, dtype), type_.shape, rows) for p in site.inputs if p is not None]
    x = parts[0] if len(parts) == 1 else site.node("Concat", *parts, axis=2)
    inverse = 1 if site.attrs["inverse"] else None
    if site.graph.opset >= 20:
        y = site.node("DFT", x, None, site.number(1, "int64"), inverse=inverse)
    else:
        y = site.node("DFT", x, axis=1, inverse=inverse)
    shape = (product(type_.shape[:-1]), n)
    results = [site.node("Gather", y, site.number(i, "int64"), axis=2) for i in (0, 1)]
    return [site.cast(site.reshape(r, shape, type_.shape), type_.dtype) for r in results]
