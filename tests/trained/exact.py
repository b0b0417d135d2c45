"""Models whose integer matmuls are computed without saturation.

On CPUs without VNNI, ONNX Runtime multiplies uint8 by int8 with instructions that add pairs in 16 bits and saturate. A reference
must not. Here MatMulInteger becomes a matmul of float64, which is exact for these operands. DynamicQuantizeLSTM becomes its
recurrence in float64, in a Scan. ONNX Runtime also rounds the float operand of each of its matmuls to 8 bits, by the range of one
thread's rows. Therefore its results depend on the number of threads. burn does not round it, and this reference rounds only
if `rounded` is set; then all rows have one range.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray
ATTRIBUTES = frozenset(("direction", "hidden_size"))


def exact(model: onnx.ModelProto, rounded: bool = False) -> bool:
    """Rewrites the nodes of the main graph in place. Returns False if there is none to rewrite. A DynamicQuantizeLSTM stays if it
    has more than directions, biases and initial states."""
    nodes: list[onnx.NodeProto] = []
    found = False
    weights = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        made = [node]
        if node.op_type == "MatMulInteger":
            made = _matmul(node)
        elif node.op_type == "DynamicQuantizeLSTM":
            made = _lstm(node, model.graph, weights, rounded)
        found |= made[0] is not node
        nodes += made
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return found


def _matmul(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """(a - a_zero) @ (b - b_zero). A zero point of a is per tensor or per row, one of b per tensor or per column."""
    made: list[onnx.NodeProto] = []
    operands: list[str] = []
    for number, name in enumerate(node.input[:2]):
        wide = f"{node.output[0]}/exact/{number}"
        made.append(helper.make_node("Cast", [name], [wide], to=TensorProto.DOUBLE))
        zero = node.input[2 + number] if len(node.input) > 2 + number else ""
        if zero:
            made.append(helper.make_node("Cast", [zero], [f"{wide}/zero"], to=TensorProto.DOUBLE))
            made.append(helper.make_node("Sub", [wide, f"{wide}/zero"], [f"{wide}/shifted"]))
            wide = f"{wide}/shifted"
        operands.append(wide)
    result = f"{node.output[0]}/exact/result"
    made.append(helper.make_node("MatMul", operands, [result]))
    made.append(helper.make_node("Cast", [result], [node.output[0]], to=TensorProto.INT32))
    return made


# ---- DynamicQuantizeLSTM -----------------------------------------------------------------------------------------------
def _lstm(
    node: onnx.NodeProto, graph: onnx.GraphProto, weights: Mapping[str, onnx.TensorProto], rounded: bool
) -> list[onnx.NodeProto]:
    """The weights [directions, inputs, 4 hidden] as float64 integers, and a Scan for each direction."""
    operands = [*node.input, *[""] * (12 - len(node.input))]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    direction = attributes.get("direction", b"forward").decode()
    if attributes.keys() - ATTRIBUTES or operands[4] or operands[7] or not operands[5] or not operands[6]:
        return [node]
    if not {operands[1], operands[2], *operands[8:], *filter(None, operands[3:4])} <= weights.keys():
        return [node]
    x, w, r, b, _, h, c, _, *parameters = operands
    prefix, made, parts = f"{node.name or node.output[0]}/exact", [], []
    arrays = [numpy_helper.to_array(weights[name]).astype(np.float64) for name in (w, r, *parameters)]
    bias = (
        numpy_helper.to_array(weights[b]).astype(np.float64)
        if b
        else np.zeros((len(arrays[0]), 8 * arrays[1].shape[1]))
    )
    for number in range(len(arrays[0])):
        backward = direction == "reverse" or number == 1
        own = f"{prefix}/{number}"
        scaled = [
            (q[number] - z[number]) * s[number] for q, s, z in zip(arrays[:2], arrays[2::2], arrays[3::2], strict=True)
        ]
        sums = np.add(*np.split(bias[number], 2))
        constants = {f"{own}/w": scaled[0], f"{own}/r": scaled[1], f"{own}/b": sums, f"{own}/at": np.array(number)}
        graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
        made += _rounded(x, f"{own}/x", rounded)
        made += [
            helper.make_node("MatMul", [f"{own}/x", f"{own}/w"], [f"{own}/xw"]),
            helper.make_node("Add", [f"{own}/xw", f"{own}/b"], [f"{own}/gates"]),
        ]
        for name, state in ((h, "h"), (c, "c")):
            made.append(helper.make_node("Gather", [name, f"{own}/at"], [f"{own}/{state}/first"], axis=0))
            made.append(helper.make_node("Cast", [f"{own}/{state}/first"], [f"{own}/{state}/0"], to=TensorProto.DOUBLE))
        made.append(
            helper.make_node(
                "Scan",
                [f"{own}/h/0", f"{own}/c/0", f"{own}/gates"],
                [f"{own}/h/last", f"{own}/c/last", f"{own}/y"],
                body=_step(own, arrays[1].shape[1], rounded),
                num_scan_inputs=1,
                scan_input_directions=[int(backward)],
                scan_output_directions=[int(backward)],
            )
        )
        parts.append(own)
    for output, name, axis in zip(node.output, ("y", "h/last", "c/last"), (1, 0, 0), strict=False):
        if output:
            made += _joined([f"{part}/{name}" for part in parts], output, axis, graph)
    return made


def _step(own: str, hidden: int, rounded: bool) -> onnx.GraphProto:
    """(h, c, gates of x) -> (h, c, h). The gates are in ONNX's order: input, output, forget, cell."""
    n = f"{own}/step"
    gates = [f"{n}/{gate}" for gate in "iofg"]
    starts = [numpy_helper.from_array(np.array([k * hidden]), f"{n}/at/{k}") for k in range(5)]
    axis = numpy_helper.from_array(np.array([1]), f"{n}/axis")
    nodes = [
        *_rounded(f"{n}/h", f"{n}/hq", rounded),
        helper.make_node("MatMul", [f"{n}/hq", f"{own}/r"], [f"{n}/hr"]),
        helper.make_node("Add", [f"{n}/x", f"{n}/hr"], [f"{n}/all"]),
        *(
            helper.make_node("Slice", [f"{n}/all", f"{n}/at/{k}", f"{n}/at/{k + 1}", f"{n}/axis"], [f"{gate}/sum"])
            for k, gate in enumerate(gates)
        ),
        *(helper.make_node("Sigmoid" if g[-1] != "g" else "Tanh", [f"{g}/sum"], [g]) for g in gates),
        helper.make_node("Mul", [gates[2], f"{n}/c"], [f"{n}/kept"]),
        helper.make_node("Mul", [gates[0], gates[3]], [f"{n}/new"]),
        helper.make_node("Add", [f"{n}/kept", f"{n}/new"], [f"{n}/c/next"]),
        helper.make_node("Tanh", [f"{n}/c/next"], [f"{n}/c/tanh"]),
        helper.make_node("Mul", [gates[1], f"{n}/c/tanh"], [f"{n}/h/next"]),
        helper.make_node("Identity", [f"{n}/h/next"], [f"{n}/y"]),
    ]
    inputs, outputs = (
        [helper.make_tensor_value_info(f"{n}/{name}", TensorProto.DOUBLE, None) for name in names]
        for names in (("h", "c", "x"), ("h/next", "c/next", "y"))
    )
    return helper.make_graph(nodes, "step", inputs, outputs, [*starts, axis])


def _rounded(x: str, result: str, rounded: bool) -> list[onnx.NodeProto]:
    """x in float64, rounded to 8 bits of its own range as DynamicQuantizeLinear has it if `rounded`."""
    if not rounded:
        return [helper.make_node("Cast", [x], [result], to=TensorProto.DOUBLE)]
    floats = f"{result}/float"
    return [
        helper.make_node("Cast", [x], [floats], to=TensorProto.FLOAT),
        helper.make_node("DynamicQuantizeLinear", [floats], [f"{result}/q", f"{result}/scale", f"{result}/zero"]),
        *(
            helper.make_node("Cast", [f"{result}/{name}"], [f"{result}/{name}/wide"], to=TensorProto.DOUBLE)
            for name in ("q", "scale", "zero")
        ),
        helper.make_node("Sub", [f"{result}/q/wide", f"{result}/zero/wide"], [f"{result}/steps"]),
        helper.make_node("Mul", [f"{result}/steps", f"{result}/scale/wide"], [result]),
    ]


def _joined(parts: list[str], output: str, axis: int, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The directions along an axis of their own, in float32."""
    graph.initializer.append(numpy_helper.from_array(np.array([axis]), f"{output}/axis"))
    return [
        *(helper.make_node("Unsqueeze", [part, f"{output}/axis"], [f"{part}/{axis}/wide"]) for part in parts),
        helper.make_node("Concat", [f"{part}/{axis}/wide" for part in parts], [f"{output}/joined"], axis=axis),
        helper.make_node("Cast", [f"{output}/joined"], [output], to=TensorProto.FLOAT),
    ]
