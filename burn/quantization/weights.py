"""Weight-only quantisation: the weights of matmuls in 4 or 8 bits, everything else in float. No data is needed.

Use it for language models, which read all of their weights for one token. A weight is divided along its depth into blocks, each
with a scale, and written as MatMulNBits of com.microsoft, which burn and ONNX Runtime run.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from burn.errors import BurnError
from burn.quantization.dynamic import is_plain
from burn.quantization.graph import Contraction, Graph

KINDS = ("MatMul", "Gemm")

DOMAIN = "com.microsoft"

BITS = {"int4": 4, "int8": 8}
"""Of a number, by the name that users say."""

ROWS = 4096
"""Of a weight that are quantised at a time: temporary arrays stay small."""


@dataclass(frozen=True)
class Blocks:
    """A weight [n, k] in blocks along k.

    `values`: its bits as bytes [n, blocks, block * bits / 8], the first number in a byte's lowest bits. `scales`: [n, blocks].
    Zero points: uint8[n, blocks]; None if they are in the middle of the range."""

    values: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None


def quantize_weights(
    model: onnx.ModelProto,
    *,
    weights: str = "int4",
    block: int = 32,
    zero_points: bool = False,
    exclude: Collection[str] = (),
) -> onnx.ModelProto:
    """The model with MatMulNBits for every matmul with a constant weight. `weights`: int4 or int8. `block`: number of neighbours
    along the depth that share a scale, a power of 2 from 16 on. `zero_points`: adds a zero point for each block, for
    weights that are not centred at 0. `exclude`: names of nodes that stay in float. Raises BurnError if nothing can be
    quantised, or for an unknown node name."""
    if weights not in BITS:
        raise BurnError(f"weights cannot be '{weights}'", [f"they can be {', '.join(BITS)}"])
    if block < 16 or block & (block - 1):
        raise BurnError(f"a block has 16, 32, 64, .. numbers, not {block}")
    graph = Graph(model)
    graph.fold_transposes()
    contractions = {p.node.output[0]: p for p in graph.contractions(KINDS, exclude) if is_plain(p.node)}
    nodes: list[onnx.NodeProto] = []
    made: dict[tuple[str, int], list[str]] = {}
    for node in graph.graph.node:
        contraction = contractions.get(node.output[0]) if node.output else None
        if contraction is None:
            nodes.append(node)
            continue
        key = (contraction.weight, contraction.axis)
        if key not in made:
            made[key] = _constants(graph, contraction, BITS[weights], block, zero_points)
        nodes += _contraction(graph, contraction, made[key], BITS[weights], block)
    graph.replace(nodes)
    if all(o.domain != DOMAIN for o in graph.model.opset_import):
        graph.model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return graph.model


def in_blocks(weight: np.ndarray, bits: int, block: int, zero_points: bool) -> Blocks:
    """A float32 matrix [n, k], quantised. Where zero is in the middle, what lies farthest from it in a block is the lowest
    number: there is one more on that side."""
    parts = [_some_in_blocks(weight[i : i + ROWS], bits, block, zero_points) for i in range(0, len(weight), ROWS)]
    zeros = [p.zeros for p in parts if p.zeros is not None]
    return Blocks(
        np.concatenate([p.values for p in parts]),
        np.concatenate([p.scales for p in parts]),
        np.concatenate(zeros) if zeros else None,
    )


def _some_in_blocks(weight: np.ndarray, bits: int, block: int, zero_points: bool) -> Blocks:
    rows, depth = weight.shape
    count, half, most = -(-depth // block), 1 << (bits - 1), (1 << bits) - 1
    apart = np.pad(weight, ((0, 0), (0, count * block - depth))).reshape(rows, count, block)
    low, high = np.minimum(apart.min(-1), 0), np.maximum(apart.max(-1), 0)
    if zero_points:
        scales = (high - low) / np.float32(most)
    else:
        scales = np.where(-low >= high, low, high) / np.float32(-half)
    scales = np.where(np.abs(scales) >= np.finfo(np.float32).tiny, scales, np.float32(1)).astype(np.float32)
    zero = np.clip(np.rint(-low / scales), 0, most) if zero_points else np.full(scales.shape, half, np.float32)
    numbers = np.clip(np.rint(apart / scales[..., None]) + zero[..., None], 0, most).astype(np.uint8)
    values = packed(numbers, bits)
    return Blocks(values, scales, zero.astype(np.uint8) if zero_points else None)


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers uint8[.., n] as bytes [.., ceil(n * bits / 8)], the first in the lowest bits."""
    each = 8 // bits
    filled = np.pad(numbers, (*[(0, 0)] * (numbers.ndim - 1), (0, -numbers.shape[-1] % each)))
    apart = filled.reshape(*filled.shape[:-1], -1, each)
    return np.bitwise_or.reduce(apart << (np.arange(each, dtype=np.uint8) * np.uint8(bits)), axis=-1).astype(np.uint8)


def _constants(graph: Graph, contraction: Contraction, bits: int, block: int, zero_points: bool) -> list[str]:
    """The names of a weight's bytes, scales and zero points."""
    weight = graph.array(contraction.weight)
    assert weight is not None
    made = in_blocks(weight.T if contraction.axis == 1 else weight, bits, block, zero_points)
    parts = [
        graph.constant(f"{contraction.weight}_q{bits}", made.values),
        graph.constant(f"{contraction.weight}_scale", made.scales),
    ]
    if made.zeros is not None:
        parts.append(graph.constant(f"{contraction.weight}_zero_point", packed(made.zeros, bits)))
    return parts


def _contraction(
    graph: Graph, contraction: Contraction, parts: list[str], bits: int, block: int
) -> list[onnx.NodeProto]:
    node, (y,) = contraction.node, contraction.node.output
    weight = graph.array(contraction.weight)
    assert weight is not None
    bias = node.input[2] if node.op_type == "Gemm" and len(node.input) > 2 and node.input[2] else None
    name, result = node.name or y, graph.fresh(f"{y}_product") if bias else y
    sizes = {
        "N": weight.shape[contraction.axis],
        "K": weight.shape[1 - contraction.axis],
        "bits": bits,
        "block_size": block,
    }
    made = [helper.make_node("MatMulNBits", [node.input[0], *parts], [result], name=name, domain=DOMAIN, **sizes)]
    if bias:
        made.append(helper.make_node("Add", [result, bias], [y], name=f"{name}_bias"))
    return made
