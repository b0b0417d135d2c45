"""Random cases of com.microsoft's fused activations, matmuls and normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.vendor.case import Array, Case, Draw, draws
from tests.importers.vendor.draws_standard import window


def shape(d: Draw) -> list[int]:
    return [d.size() for _ in range(d.size(1, 2, 3))]


@draws("QuickGelu")
def quick_gelu(d: Draw) -> Case:
    x = d.f(*shape(d), scale=3)
    return Case("QuickGelu", [x], {"alpha": d.pick(None, 0.5)}, open={0: range(x.ndim)})


@draws("Gelu")
def gelu(d: Draw) -> Case:
    x = d.f(*shape(d), scale=3)
    return Case("Gelu", [x], open={0: range(x.ndim)})


@draws("BiasGelu", "FastGelu")
def bias_gelu(d: Draw) -> Case:
    x = d.f(*shape(d), d.size(), scale=3)
    return Case("BiasGelu", [x, d.f(x.shape[-1])], open={0: range(x.ndim - 1)})


def _swapped(a: Array, last: bool, batch: bool) -> Array:
    """The operand from which a transposing node makes `a`."""
    if last:
        a = np.swapaxes(a, -1, -2)
    return np.moveaxis(a, -2, 0) if batch else a


@draws("FusedMatMul")
def fused_matmul(d: Draw) -> Case:
    lead, m, k, n = d.pick((), (2,), (3, 2)), d.size(), d.size(), d.size()
    flips = {name: d.pick(0, 1) for name in ("transA", "transB")}
    batch = d.pick(0, 0, 1) if lead else 0
    a = _swapped(d.f(*lead, m, k), bool(flips["transA"]), bool(batch))
    b = _swapped(d.f(*lead, k, n), bool(flips["transB"]), False)
    attributes = {
        **flips,
        "alpha": d.pick(None, 0.5),
        "transBatchA": batch or d.pick(None, 0),
        "transBatchB": d.pick(None, 0),
    }
    return Case("FusedMatMul", [a, b], attributes)


@draws("TransposeMatMul")
def transpose_matmul(d: Draw) -> Case:
    case = fused_matmul(d)
    batched = bool(case.attributes.pop("transBatchA"))
    case.attributes.pop("transBatchB")
    a = np.moveaxis(case.operands[0], 0, -2) if batched else case.operands[0]
    return Case("TransposeMatMul", [np.ascontiguousarray(a), case.operands[1]], case.attributes)


GEMM_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"), ()),
    **dict.fromkeys(("LeakyRelu", "Elu", "ThresholdedRelu"), ("alpha",)),
    **dict.fromkeys(("HardSigmoid", "ScaledTanh"), ("alpha", "beta")),
    "Celu": ("alpha",),
    "Selu": ("alpha", "gamma"),
}


@draws("FusedGemm")
def fused_gemm(d: Draw) -> Case:
    m, k, n = d.size(), d.size(), d.size()
    flips = {name: d.pick(None, 0, 1) for name in ("transA", "transB")}
    a, b = d.f(m, k), d.f(k, n)
    c = d.pick(None, d.f(n), d.f(m, n), d.f(1, n), d.f(m, 1), d.f(1))
    name = d.pick(*GEMM_ACTIVATIONS)
    parameters = {f"activation_{p}": d.pick(0.2, 0.7) for p in GEMM_ACTIVATIONS[name]}
    attributes = {**flips, "alpha": d.pick(None, 0.5), "beta": d.pick(None, 2.0), "activation": name, **parameters}
    if d.flag():
        attributes.setdefault("activation_gamma", 0.5)
    operands = [a.T.copy() if flips["transA"] else a, b.T.copy() if flips["transB"] else b, c]
    return Case("FusedGemm", operands, attributes)


CONV_ACTIVATIONS = {"Relu": 0, "Tanh": 0, "Sigmoid": 0, "LeakyRelu": 1, "Clip": 2, "HardSigmoid": 2}


@draws("FusedConv")
def fused_conv(d: Draw) -> Case:
    spatial, groups = d.size(1, 2), d.size(1, 2)
    inputs, outputs = groups * d.size(1, 2), groups * d.size(1, 3)
    attributes = window(d, spatial)
    kernel = attributes["kernel_shape"]
    name = d.pick(None, *CONV_ACTIVATIONS)
    attributes.update(
        kernel_shape=d.pick(None, kernel),
        group=groups if groups > 1 else d.pick(None, 1),
        activation=name,
        activation_params=sorted(d.positive(CONV_ACTIVATIONS[name]).tolist()) if CONV_ACTIVATIONS.get(name) else None,
    )
    x = d.f(d.size(1, 2), inputs, *(d.size(5, 6, 7) for _ in range(spatial)))
    operands: list[Any] = [x, d.f(outputs, inputs // groups, *kernel), d.maybe(d.f(outputs))]
    if d.flag():  # as large as the result, which is easiest known of a convolution that keeps sizes
        attributes.update(pads=None, auto_pad="SAME_UPPER", strides=None, dilations=None)
        operands.append(d.f(x.shape[0], outputs, *x.shape[2:]))
    return Case("FusedConv", operands, attributes, open={0: (0,), 3: (0,)})


@draws("SkipLayerNormalization")
def skip_layer_normalization(d: Draw) -> Case:
    batch, length, width = d.size(1, 2), d.size(1, 3), d.size(1, 8, 17)
    x = d.f(batch, length, width)
    skip = d.f(*d.pick((batch, length, width), (1, length, width), (length, width)))
    operands = [x, skip, d.f(width), d.maybe(d.f(width)), d.maybe(d.f(width))]
    outputs = [True, False, False, d.flag()]
    free = {0: (0, 1), 1: range(skip.ndim - 1)}
    return Case("SkipLayerNormalization", operands, {"epsilon": d.pick(1e-5, 0.1)}, outputs, open=free)


@draws("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(d: Draw) -> Case:
    lead, width = d.pick((2, 3), (1, 1), (3,)), d.size(1, 8, 17)
    operands = [d.f(*lead, width), d.f(*lead, width), d.f(width), d.maybe(d.f(width))]
    outputs = [True, False, False, d.flag()]
    free = {0: range(len(lead)), 1: range(len(lead))}
    return Case("SkipSimplifiedLayerNormalization", operands, {"epsilon": d.pick(1e-5, 0.1)}, outputs, open=free)


@draws("EmbedLayerNormalization")
def embed_layer_normalization(d: Draw) -> Case:
    batch, length, width = d.size(1, 2), d.size(1, 3, 5), d.size(1, 8)
    segments = d.flag()
    flags = (np.arange(length) < d.ints(1, length + 1, batch, 1)).astype(np.int32)
    operands = [
        d.ints(0, 10, batch, length),
        d.ints(0, 2, batch, length) if segments else None,
        d.f(10, width),
        d.f(6, width),
        d.f(2, width) if segments else None,
        d.f(width),
        d.f(width),
        d.maybe(flags),
        d.maybe(d.ints(0, 6, d.pick(1, batch), length)),
    ]
    attributes = {"epsilon": d.pick(None, 1e-5), "mask_index_type": d.pick(None, 1)}
    outputs = [True, True, d.flag()]
    free: Any = dict.fromkeys((0, 1, 7), (0, 1))
    return Case("EmbedLayerNormalization", operands, attributes, outputs, open=free, tolerance=1e-4)
