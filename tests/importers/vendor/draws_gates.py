"""Random cases of com.microsoft's gates and norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.vendor.case import Array, Case, Draw, draws

HALF = 2e-3
"""Relative to the largest element: two roundings of float16."""


def kind(d: Draw) -> tuple[Any, float]:
    """An element type, and how exact its results are."""
    return d.pick((np.float32, 2e-5), (np.float32, 2e-5), (np.float16, HALF))


@draws("ScaledSiLU")
def scaled_silu(d: Draw) -> Case:
    dtype, tolerance = kind(d)
    scale = d.pick(None, np.array(0.7, np.float32), np.array(0.7, np.float16))
    attributes = {"alpha": d.pick(None, 0.5)}
    return Case(
        "ScaledSiLU", [d.f(d.size(), d.size()).astype(dtype), scale], attributes, tolerance=tolerance, open={0: (0, 1)}
    )


@draws("GatedAdd")
def gated_add(d: Draw) -> Case:
    dtype, tolerance = kind(d)
    lead = d.pick((3,), (2, 3))
    x, y, gate = d.f(*lead, 5), d.f(*lead, 5), d.f(*lead, 1)
    return Case(
        "GatedAdd", [a.astype(dtype) for a in (x, y, gate)], tolerance=tolerance, open={0: (0,), 1: (0,), 2: (0,)}
    )


@draws("BranchwiseRMSNorm")
def branchwise_rms_norm(d: Draw) -> Case:
    dtype, tolerance = kind(d)
    count, width = d.size(1, 2, 3), d.size(1, 8, 5)
    flat = d.flag()
    x = d.f(2, 3, *((count * width,) if flat else (count, width))).astype(dtype)
    scale = d.pick(None, d.f(count * width), d.f(count, width), d.f(width))
    attributes = {"num_branches": count if flat else d.pick(None, 0), "epsilon": d.pick(None, 0.1)}
    return Case("BranchwiseRMSNorm", [x, scale], attributes, tolerance=tolerance, open={0: (0, 1)})


@draws("GatedRMSNorm")
def gated_rms_norm(d: Draw) -> Case:
    dtype, tolerance = kind(d)
    groups, width = d.size(1, 2, 3), d.size(1, 8, 5)
    x, gate = d.f(2, 3, groups * width), d.f(2, 3, groups * width)
    attributes = {"activation": d.pick(None, "silu", "swish", "sigmoid"), "epsilon": d.pick(None, 0.1)}
    operands = [a.astype(dtype) for a in (x, d.f(width), gate)]
    return Case("GatedRMSNorm", operands, attributes, tolerance=tolerance, open={0: (0, 1), 2: (0, 1)})


@draws("EngramGate")
def engram_gate(d: Draw) -> Case:
    dtype, tolerance = kind(d)
    batch, length, count, width = d.size(1, 2), d.size(1, 3), d.size(1, 2), d.size(1, 8)
    normed = d.flag()
    arrays: list[Array | None] = [
        d.f(batch, length, count, width),
        d.f(batch, length, count, width),
        d.f(batch, length, width),
        d.f(count, width),
        d.f(count, width),
        d.f(count, width) if normed else d.maybe(d.f(count, width)),
    ]
    operands = [None if a is None else a.astype(dtype) for a in arrays]
    free = {0: (0, 1), 1: (0, 1), 2: (0, 1)}
    return Case("EngramGate", operands, {"epsilon": d.pick(None, 0.1)}, 1 + normed, tolerance=5 * tolerance, open=free)


def _streams(d: Draw, dtype: Any) -> tuple[Array, int, int, bool]:
    count, width, flat = d.size(1, 2, 3), d.size(1, 8, 5), d.flag()
    x = d.f(2, 3, *((count * width,) if flat else (count, width)))
    return x.astype(dtype), count, width, flat


def _gate(d: Draw, count: int, width: int, flat: bool) -> Array:
    shapes = [(count,), (count, 1), (count, width), *([(count * width,)] if flat else [])]
    return d.f(2, 3, *d.pick(*shapes))


@draws("HyperConnectionPreMix")
def hyper_connection_pre_mix(d: Draw) -> Case:
    dtype, tolerance = kind(d)
    x, count, width, flat = _streams(d, dtype)
    attributes = {"num_branches": count if flat else d.pick(None, 0), "reduction_scale": d.pick(None, 0.5)}
    return Case("HyperConnectionPreMix", [x, _gate(d, count, width, flat)], attributes, tolerance=tolerance)


@draws("HyperConnectionPostMix")
def hyper_connection_post_mix(d: Draw) -> Case:
    dtype, tolerance = kind(d)
    x, count, width, flat = _streams(d, dtype)
    gate = d.f(2, 3, *d.pick((count,), (count, 1), (count, width)))
    operands = [x, d.f(2, 3, width).astype(dtype), gate, d.maybe(d.f(2, 3, count, count))]
    attributes = {"num_branches": count if flat else d.pick(None, 0)}
    return Case("HyperConnectionPostMix", operands, attributes, tolerance=tolerance)


@draws("LinearAttentionGate")
def linear_attention_gate(d: Draw) -> Case:
    dtype, tolerance = kind(d)
    shape = (d.size(1, 2), d.size(1, 3), d.size(1, 2, 5))
    both = d.flag()
    b = d.f(*shape).astype(dtype)
    operands = [d.f(*shape, scale=3).astype(dtype), d.f(shape[2]), d.f(shape[2]), b if both else None]
    return Case("LinearAttentionGate", operands, outputs=1 + both, tolerance=tolerance, open={0: (0, 1), 3: (0, 1)})
