"""torch's sample inputs (OpInfo) through the TorchScript exporter: `python -m tests.importers.torch.traced [--count 50]`.

Each sample is traced and written as ONNX (`torch.onnx.export(.., dynamo=False)`), and loaded by burn.load. The source that burn
writes is also compiled. The results are compared with eager torch. A sample counts if ONNX Runtime takes the file and agrees
with torch; other failures are the exporter's. Operators are drawn by a seed. Needs the package expecttest. Not part of the
test run.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from burn.errors import BurnError
from tests.fuzz.onnx import ways
from tests.importers.torch.opinfo import DTYPES, Call, Operator, difference, eager, operators

OPSETS = (11, 13, 17, 20)
Run = Callable[[dict[str, np.ndarray]], dict[str, Any]]


class Traced(torch.nn.Module):
    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.call(*tensors))


def written(call: Call, opset: int) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        names = [f"x{i}" for i in range(len(call.tensors))]
        torch.onnx.export(
            Traced(call).eval(), tuple(call.copies()), str(path), dynamo=False, input_names=names, opset_version=opset
        )
        return onnx.load(path)


def peer(model: onnx.ModelProto, target: str | None, opset: int) -> Run:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(names, feed), strict=True))


def problem(model: onnx.ModelProto, way: Any, opset: int, call: Call, wanted: list[torch.Tensor]) -> str:
    """Why a way does not give what eager torch gives; '' where it does."""
    try:
        known = {f"x{i}": t.numpy() for i, t in enumerate(call.tensors)}
        results = way(model, None, opset)({value.name: known[value.name] for value in model.graph.input})
        got = [torch.from_numpy(np.array(results[output.name])) for output in model.graph.output]
    except BurnError as error:
        return f"refused: {' '.join(str(error).split())[:300]}"
    except Exception as error:
        return f"crash: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if len(got) != len(wanted):
        return f"wrong: {len(got)} results, not {len(wanted)}"
    differs = next(filter(None, (difference(*pair, False) for pair in zip(got, wanted, strict=True))), "")
    return f"wrong: {differs}" if differs else ""


def judged(call: Call, opset: int) -> tuple[str, str]:
    """(pass, random, torch's or ours; why)"""
    answer = eager(call)
    if answer is None or answer[1] or not call.tensors:
        return "random", ""
    try:
        model = written(call, opset)
    except Exception as error:
        return "torch's", type(error).__name__
    if why := problem(model, peer, opset, call, answer[0]):
        return "torch's", why
    for name in ("load", "import"):
        if why := problem(model, ways.WAYS[name], opset, call, answer[0]):
            return "ours", f"{name}: {why}"
    return "pass", ""


def drawn(only: str, seed: int) -> Iterator[tuple[Operator, Call, int]]:
    draw = random.Random(seed)
    found = list(operators(only, DTYPES, 50))
    draw.shuffle(found)
    for operator in found:
        try:
            calls = operator.calls()
        except Exception:
            continue
        if calls:
            yield operator, draw.choice(calls), draw.choice(OPSETS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators' names, with commas between")
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--count", type=int, default=50, help="samples, one of an operator and element type")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    totals: Counter[str] = Counter()
    for _, (operator, call, opset) in zip(range(options.count), drawn(options.only, options.seed), strict=False):
        kind, why = judged(call, opset)
        totals[kind] += 1
        if kind == "ours":
            print(f"{operator.title}, opset {opset}: {why}", flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in totals.most_common()))
    return int(totals["ours"] > 0)


if __name__ == "__main__":
    sys.exit(main())
