"""Random cases of com.microsoft's recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.importers.vendor.case import Array, Case, Draw, draws, runtime
from tests.importers.vendor.references import Operands


def recurrent_attributes(d: Draw, directions: int, hidden: int) -> dict[str, Any]:
    kinds = d.pick(None, None, ["Sigmoid", "Tanh", "Tanh"], ["HardSigmoid", "Tanh", "Relu"])
    hard = kinds is not None and kinds[0] == "HardSigmoid"
    return {
        "hidden_size": hidden,
        "direction": "bidirectional" if directions == 2 else d.pick(None, "forward", "reverse"),
        "activations": None if kinds is None else kinds * directions,
        "activation_alpha": [0.3] * directions if hard else None,
        "activation_beta": [0.4] * directions if hard else None,
        "clip": d.pick(None, None, 0.5),
        "input_forget": d.pick(None, 0),
    }


def dequantized_lstm(operands: Operands, attributes: dict[str, Any]) -> list[Array]:
    """ONNX's LSTM of the weights as floats, by ONNX Runtime."""

    def weight(index: int, scale: int) -> Array:
        w, s, z = operands[index].astype(np.float32), operands[scale], operands[scale + 1].astype(np.float32)
        s, z = (p.reshape(w.shape[0], 1, -1) for p in (s, z))
        return ((w - z) * s).transpose(0, 2, 1).copy()

    arrays = [operands[0], weight(1, 8), weight(2, 10), *operands[3:8]]
    names = [f"i{i}" if a is not None else "" for i, a in enumerate(arrays)]
    given = {k: v for k, v in attributes.items() if v is not None}
    node = helper.make_node("LSTM", names, ["y", "h", "c"], **given)
    feeds = {n: a for n, a in zip(names, arrays, strict=True) if n and a is not None}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()
    ]
    outputs = [onnx.ValueInfoProto(name=n) for n in ("y", "h", "c")]
    graph = helper.make_graph([node], "g", inputs, outputs)
    return runtime(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), feeds)


@draws("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(d: Draw) -> Case:
    steps, batch, width, hidden, directions = d.size(1, 3, 5), d.size(1, 2), d.size(1, 4), d.size(1, 3), d.size(1, 2)
    dtype, columns = d.pick(np.uint8, np.int8), d.pick((), (4 * hidden,))

    def parameters() -> list[Array]:
        zero = d.ints(-16, 16, directions, *columns) + (128 if dtype is np.uint8 else 0)
        return [d.positive(directions, *columns, low=0.004, high=0.01), zero.astype(dtype)]

    def weight(rows: int) -> Array:
        """Signed numbers that MLAS adds in 16 bits without reaching their bounds."""
        return (d.bytes(dtype, directions, rows, 4 * hidden) // (2 if dtype is np.int8 else 1)).astype(dtype)

    operands = [
        d.f(steps, batch, width),
        weight(width),
        weight(hidden),
        d.maybe(d.f(directions, 8 * hidden)),
        d.maybe(d.ints(1, steps + 1, batch)),
        d.maybe(d.f(directions, batch, hidden)),
        d.maybe(d.f(directions, batch, hidden)),
        d.maybe(d.f(directions, 3 * hidden)),
        *parameters(),
        *parameters(),
    ]
    fixed = (1, 2, 8, 9, 10, 11)
    attributes = recurrent_attributes(d, directions, hidden)
    free = {0: (0, 1), 4: (0,), 5: (1,), 6: (1,)}
    return Case(
        "DynamicQuantizeLSTM",
        operands,
        attributes,
        3,
        fixed,
        truth=dequantized_lstm,
        open=free,
        both=True,
        runtime_tolerance=0.1,
    )
