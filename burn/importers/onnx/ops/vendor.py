"""Operators of com.microsoft that optimised and quantised models use: fused activations, normalisations and matmuls.

Attention in that domain is in vendor_attention.py, quantised operators are in vendor_quantized.py.
"""

from __future__ import annotations

from collections.abc import Callable

from burn.dialect import ops
from burn.dialect.compose import convert, number_like, reshape, transpose
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.contract import convolve, matmul

DOMAIN = "com.microsoft"


def with_bias(node: Node, x: ir.Value, index: int) -> ir.Value:
    bias = node.input(index)
    return x if bias is None else ops.add(x, bias)


# ---- activations ----------------------------------------------------------------------------------------------------
@onnx_op("Gelu", domain=DOMAIN)
def gelu(node: Node) -> ir.Value:
    return ops.gelu(node.required(0))


@onnx_op("BiasGelu", domain=DOMAIN)
def bias_gelu(node: Node) -> ir.Value:
    return ops.gelu(with_bias(node, node.required(0), 1))


@onnx_op("FastGelu", domain=DOMAIN)
def fast_gelu(node: Node) -> ir.Value:
    return ops.gelu(with_bias(node, node.required(0), 1), approximate="tanh")


@onnx_op("QuickGelu", domain=DOMAIN)
def quick_gelu(node: Node) -> ir.Value:
    return ops.silu(node.required(0), alpha=node.float("alpha", 1.702))


ACTIVATIONS = {
    "Relu": lambda node, x: ops.relu(x),
    "Tanh": lambda node, x: ops.tanh(x),
    "Sigmoid": lambda node, x: ops.sigmoid(x),
    "HardSwish": lambda node, x: ops.hard_swish(x),
    "LeakyRelu": lambda node, x: ops.leaky_relu(x, alpha=_parameters(node, 1)[0]),
    "Clip": lambda node, x: ops.clip(x, *(number_like(v, x) for v in _parameters(node, 2))),
    "HardSigmoid": lambda node, x: ops.hard_sigmoid(
        x, **dict(zip(("alpha", "beta"), _parameters(node, 2), strict=True))
    ),
}


def _parameters(node: Node, count: int) -> tuple[float, ...]:
    values = node.floats("activation_params", ())
    if len(values) != count:
        node.fail(f"must hold {count} numbers, not {len(values)}", "activation_params")
    return values


def activated(node: Node, x: ir.Value) -> ir.Value:
    name = node.string("activation", "")
    if not name:
        node.no_effect("activation_params", because="there is no activation")
        return x
    if name not in ACTIVATIONS:
        node.fail(f"'{name}' is none of {', '.join(ACTIVATIONS)}", "activation")
    if name in ("Relu", "Tanh", "Sigmoid", "HardSwish"):
        node.no_effect("activation_params", because="the activation has none")
    return ACTIVATIONS[name](node, x)


# ---- matmuls --------------------------------------------------------------------------------------------------------
def _swapped(x: ir.Value, last: int, batch: int) -> ir.Value:
    """x with its last two axes exchanged, and its batch axes moved in front of the last, as the flags say."""
    rank = type_of(x).rank
    if batch and rank > 2:  # [m, batch.., k] as [batch.., m, k]
        x = transpose(x, (*range(1, rank - 1), 0, rank - 1))
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2)) if last and rank > 1 else x


@onnx_op("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def fused_matmul(node: Node) -> ir.Value:
    a = _swapped(node.required(0), node.int("transA", 0), node.int("transBatchA", 0))
    b = _swapped(node.required(1), node.int("transB", 0), node.int("transBatchB", 0))
    result = matmul(node, a, b)
    alpha = node.float("alpha", 1.0)
    return result if alpha == 1.0 else ops.mul(result, number_like(alpha, result))


@onnx_op("FusedGemm", domain=DOMAIN)
def fused_gemm(node: Node) -> ir.Value:
    a, b = node.required(0), node.required(1)
    left, right = (0 if node.int("transA", 0) else 1), (1 if node.int("transB", 0) else 0)
    result = ops.dot_general(a, b, lhs_contract=(left,), rhs_contract=(right,))
    result = ops.mul(result, number_like(node.float("alpha", 1.0), result))
    if not node.has_input(2):
        node.no_effect("beta", because="it scales C")
    else:
        c = node.required(2)
        result = ops.add(result, ops.mul(c, number_like(node.float("beta", 1.0), c)))
    return _gemm_activated(node, result)


GEMM_ACTIVATIONS: dict[str, tuple[tuple[str, ...], Callable[..., ir.Value]]] = {
    "Relu": ((), ops.relu),
    "Sigmoid": ((), ops.sigmoid),
    "Tanh": ((), ops.tanh),
    "Softplus": ((), ops.softplus),
    "Softsign": ((), ops.softsign),
    "LeakyRelu": (("alpha",), ops.leaky_relu),
    "Elu": (("alpha",), ops.elu),
    "Celu": (("alpha",), ops.celu),
    "ThresholdedRelu": (("alpha",), ops.thresholded_relu),
    "HardSigmoid": (("alpha", "beta"), ops.hard_sigmoid),
    "Selu": (("alpha", "gamma"), ops.selu),
    "ScaledTanh": (
        ("alpha", "beta"),
        lambda x, alpha, beta: ops.mul(ops.tanh(ops.mul(x, number_like(beta, x))), number_like(alpha, x)),
    ),
}
"""FusedGemm's activations: their parameters, which the node must give as activation_NAME, and the function."""


def _gemm_activated(node: Node, x: ir.Value) -> ir.Value:
    name = node.string("activation", "")
    if name and name not in GEMM_ACTIVATIONS:
        node.fail(f"'{name}' is none of {', '.join(GEMM_ACTIVATIONS)}", "activation")
    names, function = GEMM_ACTIVATIONS[name] if name else ((), None)
    parameters = {p: node.float(f"activation_{p}") for p in names}
    unused = {"alpha", "beta", "gamma"} - set(names)
    node.no_effect(*(f"activation_{p}" for p in unused), because="the activation has no such parameter")
    return x if function is None else function(x, **parameters)


@onnx_op("FusedConv", domain=DOMAIN)
def fused_conv(node: Node) -> ir.Value:
    result = convolve(node, node.required(0), node.required(1))
    rank = type_of(result).rank
    if node.has_input(2):
        bias = node.required(2)
        result = ops.add(result, reshape(bias, (*type_of(bias).shape, *(1,) * (rank - 2))))
    return activated(node, with_bias(node, result, 3))


# ---- normalisations -------------------------------------------------------------------------------------------------
@onnx_op("SimplifiedLayerNormalization", domain=DOMAIN)
@onnx_op("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: Node) -> list[ir.Value | None]:
    axis = node.axis(node.int("axis", -1), node.type(0).rank)
    return [ops.rms_norm(node.required(0), node.input(1), axis=axis, epsilon=node.float("epsilon", 1e-5))]


def _skipped(node: Node, bias: int) -> ir.Value:
    """The input plus the residual branch, plus a bias."""
    return with_bias(node, ops.add(node.required(0), node.required(1)), bias)


@onnx_op("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(node: Node) -> list[ir.Value | None]:
    total = _skipped(node, 4)
    normal = ops.layer_norm(total, node.required(2), node.input(3), axis=-1, epsilon=node.float("epsilon", 1e-12))
    return [normal, None, None, total]


@onnx_op("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_simplified_layer_normalization(node: Node) -> list[ir.Value | None]:
    total = _skipped(node, 3)
    normal = ops.rms_norm(total, node.required(2), axis=-1, epsilon=node.float("epsilon", 1e-12))
    return [normal, None, None, total]


@onnx_op("EmbedLayerNormalization", domain=DOMAIN, ranks=(2, 2, 2, 2, 2))
def embed_layer_normalization(node: Node) -> list[ir.Value | None]:
    """Word, position and segment embeddings, added and normalised; and how many tokens of each row are not masked."""
    node.no_effect("mask_index_type", because="it says what the second output's shape is, not what it holds")
    words, positions, kinds = node.required(2), node.required(3), node.input(4)
    indices = node.input(8)
    return embedded(node, words, positions, kinds, (node.required(5), node.required(6)), indices)


def embedded(
    node: Node,
    words: ir.Value,
    positions: ir.Value,
    kinds: ir.Value | None,
    affine: tuple[ir.Value, ir.Value],
    indices: ir.Value | None,
) -> list[ir.Value | None]:
    """Rows of the three tables, added and normalised. Operands 0, 1 and 7 are the tokens, their kinds and a mask."""
    tokens, segments = node.required(0), node.input(1)
    batch, length = type_of(tokens).shape
    total = ops.gather(words, tokens, axis=0)
    if indices is not None:
        total = ops.add(total, ops.gather(positions, indices, axis=0))
    else:
        depth = type_of(positions).shape[1]
        first = ops.slice(positions, starts=(0, 0), sizes=(length, depth), steps=(1, 1))
        total = ops.add(total, first)
    if segments is not None and kinds is not None:
        total = ops.add(total, ops.gather(kinds, segments, axis=0))
    normal = ops.layer_norm(total, *affine, axis=-1, epsilon=node.float("epsilon", 1e-12))
    mask = node.input(7)
    if mask is None:
        lengths = ops.full(shape=(batch,), dtype="int32")
    else:
        lengths = ops.reduce(convert(mask, "int32"), kind="sum", axes=(1,))
    return [normal, lengths, total]


@onnx_op("QEmbedLayerNormalization", domain=DOMAIN, ranks=(2, 2, 2, 2, 2))
def q_embed_layer_normalization(node: Node) -> list[ir.Value | None]:
    """`EmbedLayerNormalization` of quantised tables; scales follow from operand 8 on, zero points from operand 13 on."""

    def real(index: int, operand: int) -> ir.Value:
        scale, zero = (reshape(node.required(i + operand), ()) for i in (8, 13))
        return ops.dequantize(node.required(index), scale, zero, dtype="float32", axis=0)

    words, positions = real(2, 0), real(3, 1)
    kinds = real(4, 2) if node.has_input(4) else None
    return embedded(node, words, positions, kinds, (real(5, 3), real(6, 4)), None)[:2]


@onnx_op("BiasAdd", domain=DOMAIN)
def bias_add(node: Node) -> ir.Value:
    return ops.add(ops.add(node.required(0), node.required(1)), node.required(2))
