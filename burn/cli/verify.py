"""Comparing a model's results with another engine's: output by output, or node by node to find where they part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from burn.errors import BurnError, Problem

Arrays = Mapping[str, np.ndarray]


def verify_outputs(
    model: Path, feeds: Arrays, outputs: Arrays, tolerance: float, peer: str = "onnxruntime"
) -> list[dict[str, Any]]:
    """A row for each output: the largest difference, absolute and relative to the largest value expected.

    If outputs of an ONNX model differ, they are compared with float64: one that is no further from it than the peer's is the
    same."""
    expected = _run_peer(model, feeds) if peer == "onnxruntime" else _on_device(model, feeds, peer)
    rows = [compare(name, outputs[name], expected[name], tolerance) for name in outputs]
    if not all(row["same"] for row in rows) and model.suffix == ".onnx":
        _judge(model, feeds, rows, outputs, expected, tolerance, peer)
    return rows


def as_array(output: Any) -> np.ndarray:
    """An output as an array; maps with the same keys (of ZipMap) as rows, in the order of the keys."""
    if isinstance(output, list) and output and all(isinstance(row, dict) for row in output):
        return np.array([[row[key] for key in sorted(row)] for row in output], np.float32)
    return np.asarray(output)


def _judge(
    model: Path,
    feeds: Arrays,
    rows: list[dict[str, Any]],
    outputs: Arrays,
    expected: Arrays,
    tolerance: float,
    peer: str,
) -> None:
    import onnx

    from burn.cli.truth import in_float64

    truth = in_float64(onnx.load(model), feeds)
    if truth is None:
        return
    for row in rows:
        name = row["name"]
        if (
            row["same"]
            or "reason" in row
            or outputs[name].dtype.kind != "f"
            or truth[name].shape != outputs[name].shape
        ):
            continue
        exact = truth[name].astype(np.float64)
        ours, theirs = (compare(name, x.astype(np.float64), exact, tolerance) for x in (outputs[name], expected[name]))
        row["float64"] = {"burn": ours["relative"], peer: theirs["relative"]}
        row["same"] = ours["relative"] <= max(tolerance, theirs["relative"])


def compare(name: str, got: np.ndarray, want: np.ndarray, tolerance: float) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "absolute": 0.0, "relative": 0.0, "same": True}
    if got.shape != want.shape or got.dtype != want.dtype:
        have, wanted = f"{got.dtype}{list(got.shape)}", f"{want.dtype}{list(want.shape)}"
        return {**row, "same": False, "reason": f"is {have}, expected {wanted}"}
    if not got.size:
        return row
    if got.dtype.kind in "OSU":
        return {**row, "same": bool((got == want).all())}
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        difference = np.where(alike, 0.0, np.abs(a - b))
    difference[np.isnan(difference)] = np.inf
    finite = np.abs(b[np.isfinite(b)])
    largest = float(finite.max()) if finite.size else 0.0
    absolute = float(difference.max())
    row["absolute"] = absolute
    row["relative"] = absolute / largest if largest else (0.0 if absolute == 0 else float("inf"))
    exact = got.dtype.kind in "iub"
    row["same"] = absolute == 0 if exact else row["relative"] <= tolerance or absolute == 0
    return row


def first_difference(model: Path, feeds: Arrays, tolerance: float, peer: str = "onnxruntime") -> dict[str, Any] | None:
    """The first node, in the model's order, whose result differs when every intermediate result is an output; None if
    all are the same. Raises BurnError for a model that is not in ONNX."""
    if model.suffix != ".onnx":
        raise BurnError(
            "nodes of this model cannot be compared", [Problem(f"--per-node reads ONNX models, not {model}")]
        )
    import onnx

    from burn.adapters.onnx import load_onnx, opened

    proto = onnx.load(model)
    produced = {output: node for node in proto.graph.node for output in node.output if output}
    constant = {o for node in proto.graph.node if node.op_type == "Constant" for o in node.output}
    wanted = [name for name in produced if name not in constant]
    tapped = _tapped(proto, wanted)
    if peer == "onnxruntime":
        session = _session(tapped.SerializeToString())
        kept = [o.name for o in session.get_outputs() if o.type.startswith("tensor") and o.name in produced]
        want = dict(zip(kept, session.run(kept, dict(feeds)), strict=True))
    else:
        program = opened(lambda inputs: load_onnx(tapped, inputs=inputs, device=peer), feeds)
        kept = [o.name for o in program.outputs if not o.containers and not o.keys and o.name in produced]
        want = program.run(dict(feeds))
    wanted_alone = _tapped(proto, kept)
    got = opened(lambda inputs: load_onnx(wanted_alone, inputs=inputs), feeds).run(dict(feeds))
    for name in kept:
        row = compare(name, got[name], np.asarray(want[name]), tolerance)
        if not row["same"]:
            node = produced[name]
            return {**row, "value": name, "node": node.name, "op": node.op_type}
    return None


def _tapped(proto: Any, names: list[str]) -> Any:
    """The model with these values as its outputs."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return copy


def _on_device(model: Path, feeds: Arrays, device: str) -> dict[str, np.ndarray]:
    """The outputs on another of burn's devices."""
    import burn
    from burn.adapters.onnx import opened

    program = opened(lambda inputs: burn.load(model, inputs=inputs, device=device, cache=False), feeds)
    return {name: as_array(output) for name, output in program.run(dict(feeds)).items()}


def _run_peer(model: Path, feeds: Arrays) -> dict[str, np.ndarray]:
    session = _session(str(model))
    names = [output.name for output in session.get_outputs()]
    try:
        return dict(zip(names, map(as_array, session.run(names, dict(feeds))), strict=True))
    except Exception as error:  # its own classes, which differ from one version to the next
        raise BurnError("onnxruntime cannot run this model", [Problem(str(error).splitlines()[0])]) from None


def _session(model: str | bytes) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise BurnError(
            "onnxruntime is not installed", [Problem("pip install onnxruntime, or 'burn-mlir[bench]'")]
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise BurnError("onnxruntime cannot load this model", [Problem(str(error).splitlines()[0])]) from None
