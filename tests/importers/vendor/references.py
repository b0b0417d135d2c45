"""Reference implementations of operators, in float64 and loops, for cases that ONNX Runtime's CPU provider lacks or rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Operands = Sequence[Any]


def operand(operands: Operands, index: int) -> Any:
    return operands[index] if index < len(operands) else None


def rotate(x: Array, cos: Array, sin: Array, positions: Sequence[int], interleaved: bool) -> Array:
    """x [heads, s, d] by the angles of its positions."""
    half = cos.shape[1]
    out = x.copy()
    for i, position in enumerate(positions):
        c, s = cos[position].astype(np.float64), sin[position].astype(np.float64)
        a = x[:, i, 0 : 2 * half : 2] if interleaved else x[:, i, :half]
        b = x[:, i, 1 : 2 * half : 2] if interleaved else x[:, i, half : 2 * half]
        first, second = a * c - b * s, a * s + b * c
        if interleaved:
            out[:, i, 0 : 2 * half : 2], out[:, i, 1 : 2 * half : 2] = first, second
        else:
            out[:, i, :half], out[:, i, half : 2 * half] = first, second
    return out


def grouped_attention(operands: Operands, attributes: dict[str, Any]) -> list[Array]:
    """GroupQueryAttention, row by row and query by query."""
    heads, groups = attributes["num_heads"], attributes["kv_num_heads"]
    query = operands[0].astype(np.float64)
    batch, length, width = query.shape
    if operands[1] is None:
        depth = width // (heads + 2 * groups)
        q, k, v = np.split(query, [heads * depth, (heads + groups) * depth], axis=2)
    else:
        depth = width // heads
        q, k, v = query, operands[1].astype(np.float64), operands[2].astype(np.float64)
    q, k, v = (x.reshape(batch, length, -1, depth).transpose(0, 2, 1, 3) for x in (q, k, v))
    for index in (14, 15):
        weight = operand(operands, index)
        if weight is not None:
            epsilon = np.float32(attributes.get("qk_norm_epsilon") or 1e-6)
            x = q if index == 14 else k
            x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * weight
            q, k = (x, k) if index == 14 else (q, x)
    total = int(operands[6])
    cache = operands[3]
    room = length if cache is None else max(cache.shape[2], total)
    scale = attributes.get("scale") or depth**-0.5
    softcap, window = attributes.get("softcap") or 0.0, attributes.get("local_window_size") or -1
    causal = attributes.get("causal") in (None, 1)
    sink = operand(operands, 11)
    smooth = attributes.get("smooth_softmax") == 1
    out = np.zeros((batch, heads, length, depth))
    present = [np.zeros((batch, groups, room, depth)) for _ in range(2)]
    mode = attributes.get("qk_output") or 0
    seen = np.zeros((batch, heads, length, total if cache is not None else length))
    for b in range(batch):
        ends = int(operands[5][b]) + 1
        old = 0 if cache is None or total == length else ends - length
        qs, ks = q[b], k[b]
        if attributes.get("do_rotary"):
            at = range(old, old + length)
            ids = operand(operands, 9)
            if ids is not None:
                at = range(ids[0, 0], ids[0, 0] + length) if total == length else ids[b]
            turn = attributes.get("rotary_interleaved") == 1
            qs, ks = (rotate(x, operands[7], operands[8], at, turn) for x in (qs, ks))
        for index, new in ((0, ks), (1, v[b])):
            if old:
                present[index][b, :, :old] = operands[3 + index][b, :, :old]
            present[index][b, :, old : old + length] = new
        for h in range(heads):
            keys, values = (present[i][b, h // (heads // groups)] for i in range(2))
            for i in range(length):
                position = old + i
                low = max(0, position + 1 - window) if window > 0 else 0
                high = position + 1 if causal else max(ends, old + length)
                s = keys[low:high] @ qs[h, i] * scale
                if softcap:
                    s = softcap * np.tanh(s / softcap)
                bias = operand(operands, 10)
                if bias is not None:
                    s = s + np.broadcast_to(bias, (batch, heads, *bias.shape[2:]))[b, h, i, low:high]
                extra = [float(sink[h])] if sink is not None else [0.0] if smooth else []
                e = np.exp(np.concatenate([s, extra]) - max([*s, *extra]))
                p = (e / e.sum())[: len(s)]
                out[b, h, i] = p @ values[low:high]
                seen[b, h, i, low:high] = s if mode == 1 else p
    results = [out.transpose(0, 2, 1, 3).reshape(batch, length, -1), *present, seen]
    return [r.astype(np.float32) for r in results]


def fields(packed: Array, bits: int, count: int) -> Array:
    """The first `count` numbers of `bits` bits in each row of bytes, low bits first."""
    shifts = np.arange(0, 8, bits)
    numbers = (packed[..., None].astype(np.int64) >> shifts) & (2**bits - 1)
    return numbers.reshape(*packed.shape[:-1], -1)[..., :count]


def matmul_n_bits_truth(operands: Operands, attributes: dict[str, Any]) -> list[Array]:
    """MatMulNBits with the weight written out."""
    x, packed, scales, zeros = operands[:4]
    k, n, bits, block = (attributes[name] for name in ("K", "N", "bits", "block_size"))
    bits = bits or 4
    blocks = -(-k // block)
    weight = fields(packed.reshape(n, blocks, -1), bits, block).astype(np.float64)
    middle: Any = 2.0 ** (bits - 1)
    if zeros is not None:
        middle = fields(zeros.reshape(n, -1), bits, blocks) if zeros.dtype == np.uint8 else zeros.reshape(n, blocks)
        middle = middle[..., None]
    weight = ((weight - middle) * scales.reshape(n, blocks, 1)).reshape(n, -1)[:, :k]
    result = x.astype(np.float64) @ weight.T
    bias = operand(operands, 5)
    return [(result if bias is None else result + bias).astype(np.float32)]


def quantized_softmax(operands: Operands, attributes: dict[str, Any]) -> list[Array]:
    """QLinearSoftmax in float64."""
    x, scale, zero, result_scale, result_zero = operands
    real = (x.astype(np.float64) - (0 if zero is None else int(zero))) * float(scale)
    axis = -1 if attributes["axis"] is None else attributes["axis"]
    axes = tuple(range(axis % x.ndim, x.ndim)) if attributes["opset"] < 13 else (axis,)
    e = np.exp(real - real.max(axes, keepdims=True))
    steps = np.rint(e / e.sum(axes, keepdims=True) / float(result_scale)) + int(result_zero)
    limits = np.iinfo(x.dtype)
    return [np.clip(steps, limits.min, limits.max).astype(x.dtype)]


def _activated(h: Array, attributes: dict[str, Any]) -> Array:
    kind = attributes.get("activation_type") or "relu"
    if kind == "swiglu":
        gate, factor = h[..., 0::2], h[..., 1::2]
        limit = attributes.get("swiglu_limit")
        if limit is not None:
            gate, factor = np.minimum(gate, limit), np.clip(factor, -limit, limit)
        alpha, beta = attributes.get("activation_alpha") or 1.0, attributes.get("activation_beta") or 0.0
        return gate / (1 + np.exp(-alpha * gate)) * (factor + beta)
    if kind == "gelu":
        return 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    return {"relu": np.maximum(h, 0), "silu": h / (1 + np.exp(-h)), "identity": h}[kind]


def experts(
    x: Array, router: Array, layers: list[tuple[Array, Any]], weights: Any, attributes: dict[str, Any]
) -> Array:
    """A mixture of experts, token by token."""
    rows = x.reshape(-1, x.shape[-1]).astype(np.float64)
    out = np.zeros_like(rows)
    for t, row in enumerate(rows):
        e = np.exp(router[t].astype(np.float64) - router[t].max())
        shares = e / e.sum() if weights is None else weights[t].astype(np.float64)
        chosen = np.argsort(-router[t], kind="stable")[: attributes.get("k") or 1]
        normal = attributes.get("normalize_routing_weights") or (weights is None and "expert_weight_bits" in attributes)
        total = shares[chosen].sum() if normal else 1.0
        for index in chosen:
            h = row
            for position, (weight, bias) in enumerate(layers):
                h = weight[index] @ h + (0 if bias is None else bias[index])
                h = _activated(h, attributes) if position == 0 else h
            out[t] += shares[index] / total * h
    return out.reshape(x.shape).astype(np.float32)


def mixture(operands: Operands, attributes: dict[str, Any]) -> list[Array]:
    x, router, w1, b1, w2, b2 = operands
    return [experts(x, router, [(w1, b1), (w2, b2)], None, attributes)]


def quantized_mixture(operands: Operands, attributes: dict[str, Any]) -> list[Array]:
    bits, block = attributes["expert_weight_bits"] or 4, attributes["block_size"]

    def layer(weight: Array, scale: Array, zero: Any) -> Array:
        numbers = fields(weight, bits, weight.shape[2] * 8 // bits).astype(np.float64)
        each = block or numbers.shape[2]
        blocks = numbers.shape[2] // each
        middle: Any = 2.0 ** (bits - 1)
        if zero is not None:
            middle = fields(zero, bits, blocks if block else numbers.shape[1])
            middle = np.repeat(middle, each, axis=2) if block else middle[..., None]
        return (numbers - middle) * np.repeat(scale.reshape(*scale.shape[:2], -1), each, axis=2)

    layers = [
        (layer(operands[2], operands[3], operands[11]), operands[4]),
        (layer(operands[5], operands[6], operands[12]), operands[7]),
    ]
    return [experts(operands[0], operands[1], layers, operands[14], attributes)]


def sparse_attention(operands: Operands, attributes: dict[str, Any]) -> list[Array]:
    """SparseAttention, row by row and query by query."""
    heads, groups, block = attributes["num_heads"], attributes["kv_num_heads"], attributes["sparse_block_size"]
    query = operands[0].astype(np.float64)
    batch, length, width = query.shape
    if operands[1] is None:
        depth = width // (heads + 2 * groups)
        q, k, v = np.split(query, [heads * depth, (heads + groups) * depth], axis=2)
    else:
        depth, q, k, v = width // heads, query, operands[1].astype(np.float64), operands[2].astype(np.float64)
    q, k, v = (x.reshape(batch, length, -1, depth).transpose(0, 2, 1, 3) for x in (q, k, v))
    rows, columns, total = operands[5], operands[6], int(operands[7][0])
    present = [operands[3].astype(np.float64), operands[4].astype(np.float64)]
    out = np.zeros((batch, heads, length, depth))
    for b in range(batch):
        old = 0 if total == length else int(operands[8][b]) - length
        qs, ks = q[b], k[b]
        if attributes.get("do_rotary"):
            turn = attributes.get("rotary_interleaved") == 1
            qs, ks = (rotate(x, operands[9], operands[10], range(old, old + length), turn) for x in (qs, ks))
        for index, new in ((0, ks), (1, v[b])):
            present[index][b, :, old : old + length] = new
        for h in range(heads):
            keys, values = (present[i][b, h // (heads // groups)] for i in range(2))
            layout = h % len(rows)
            for i in range(length):
                position = old + i
                row = position // block
                blocks = columns[layout, rows[layout, row] : rows[layout, row + 1]]
                seen = [t for t in range(position + 1) if t // block in blocks]
                s = keys[seen] @ qs[h, i] * (attributes.get("scale") or depth**-0.5)
                e = np.exp(s - s.max())
                out[b, h, i] = e / e.sum() @ values[seen]
    results = [out.transpose(0, 2, 1, 3).reshape(batch, length, -1), *present]
    return [r.astype(np.float32) for r in results]
