"""One seed: a graph, burn's results, and what is to be said of them."""

from __future__ import annotations

import random
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import burn
from burn.errors import BurnError

from .compare import difference
from .cut import Cut, shrink, whole
from .generate import generate
from .graph import Graph
from .judge import ours_is_right
from .noise import HALF, of_precision
from .reference import free_names
from .shaken import rounding_decides
from .values import Array
from .ways import BACK, EXPORT_OPSETS, WAYS

FOUND = ("differs", "refused", "raised", "refused at run", "raised at run")


@dataclass(frozen=True)
class Plan:
    """How graphs are run."""

    mode: str = "load"
    target: str | None = None
    threads: int | None = None
    steps: frozenset[str] = frozenset()
    length: int | None = None
    save: Path | None = None  # where cut graphs go
    shrink: bool = True


@dataclass(frozen=True)
class Outcome:
    seed: int
    kind: str  # "same", "nothing" (no output), "theirs" (judged ONNX Runtime's fault), "rounding" decides, or one of FOUND
    text: str = ""
    ops: str = ""

    @property
    def failed(self) -> bool:
        return self.kind in FOUND


@dataclass(frozen=True)
class Failure:
    kind: str
    text: str
    at: int = 0  # the set of sizes
    results: dict[str, Any] | None = None


@dataclass
class Case:
    graph: Graph
    plan: Plan
    fixed: int | None  # the set of sizes that the model is written for, or None for named sizes
    opset: int  # to export to

    def model(self, cut: Cut) -> onnx.ModelProto:
        return self.graph.model(list(cut.outputs), list(cut.inputs), self.fixed)

    def failure(self, cut: Cut) -> Failure | None:
        model = self.model(cut)
        if not model.graph.node:
            return None
        try:
            run = WAYS[self.plan.mode](model, self.plan.target, self.opset)
        except BurnError as error:
            return Failure("refused", f"{type(error).__name__}: {error}")
        except Exception:
            return Failure("raised", _last(traceback.format_exc()))
        for at in self.sets:
            try:
                results = run(self.feed(model, at))
            except BurnError as error:
                return Failure("refused at run", f"sizes {self.graph.sizes[at]}: {type(error).__name__}: {error}", at)
            except Exception:
                return Failure("raised at run", _last(traceback.format_exc()), at)
            for value in cut.outputs:
                for name in (value.name, BACK + value.name):
                    told = name in results and difference(results[name], value.arrays[at], value.twins[at])
                    if told:
                        return Failure("differs", f"{name}, sizes {self.graph.sizes[at]}: {told}", at, results)
        return None

    @property
    def sets(self) -> range | list[int]:
        return range(self.graph.sets) if self.fixed is None else [self.fixed]

    def feed(self, model: onnx.ModelProto, at: int) -> dict[str, Array]:
        values = {value.name: value for value in self.graph.values}
        return {value.name: values[value.name].arrays[at] for value in model.graph.input}

    def judged(self, cut: Cut, failure: Failure) -> str:
        """The kind of a failure: also "theirs", where the specification says what burn says, or "rounding"."""
        if failure.kind != "differs" or failure.results is None:
            return failure.kind
        model = self.model(cut)
        feed, want = self.feed(model, failure.at), {value.name: value.arrays[failure.at] for value in cut.outputs}
        if ours_is_right(model, feed, failure.results, want):
            return "theirs"
        return "rounding" if rounding_decides(model, feed, failure.results, want) else failure.kind


def run(seed: int, plan: Plan) -> Outcome:
    """The graph of a seed. Modes of half precision have its noise."""
    with of_precision(plan.mode if plan.mode in HALF else None):
        return _run(seed, plan)


def _run(seed: int, plan: Plan) -> Outcome:
    graph = generate(seed, plan.steps, plan.length)
    draw = random.Random(seed)
    fixed = draw.randrange(graph.sets) if draw.random() < 0.35 else None
    read = set(free_names(graph.nodes)) | {name for node in graph.nodes for name in free_names([node])}
    outputs = [v for v in graph.values if v.name not in graph.inputs and (v.name not in read or draw.random() < 0.08)]
    outputs += [v for v in graph.values if outputs and v.name in graph.inputs and draw.random() < 0.04]
    if not outputs:
        return Outcome(seed, "nothing")
    if plan.threads:
        burn.set_num_threads(plan.threads)
    case = Case(graph, plan, fixed, draw.choice(EXPORT_OPSETS))
    cut = whole(graph, outputs)
    failure = case.failure(cut)
    if failure is None:
        return Outcome(seed, "same", f"{len(graph.nodes)} nodes")
    if plan.shrink:
        kind = alike(failure)
        cut = shrink(graph, cut, lambda smaller: (found := case.failure(smaller)) is not None and alike(found) == kind)
        failure = case.failure(cut) or failure
    if plan.save:
        save(case, cut, failure, plan.save / f"{plan.mode}-{plan.target or 'host'}-{seed}")
    model = case.model(cut)
    ops = " ".join(dict.fromkeys(node.op_type for node in model.graph.node))
    return Outcome(seed, case.judged(cut, failure), f"{failure.text}\n{told(model, graph.opset)}", ops)


def alike(failure: Failure) -> tuple[str, str]:
    """The kind of a failure, without names and numbers."""
    if failure.kind == "differs":
        return failure.kind, ""
    return failure.kind, " ".join(re.sub(r"'[^']*'|\[[^]]*\]|\d+|sizes \{.*?\}|at \S+", "", failure.text).split())[:110]


def told(model: onnx.ModelProto, opset: int) -> str:
    """The model in a few lines."""
    lines = [f"opset {opset}", *(" ".join(onnx.printer.to_text(node).split())[:600] for node in model.graph.node)]
    for value in model.graph.input:
        kind = value.type.tensor_type
        dims = [d.dim_param or d.dim_value for d in kind.shape.dim]
        lines.append(f"input {value.name} {onnx.TensorProto.DataType.Name(kind.elem_type).lower()} {dims}")
    for constant in model.graph.initializer:
        array = numpy_helper.to_array(constant)
        lines.append(
            f"constant {constant.name} {array.dtype}{list(array.shape)} {array.tolist() if array.size < 9 else '...'}"
        )
    return "\n".join(f"  {line}" for line in lines[:40])


def save(case: Case, cut: Cut, failure: Failure, path: Path) -> None:
    """The cut graph, and beside it its inputs, what ONNX Runtime gave, and the noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    model = case.model(cut)
    onnx.save(model, path.with_suffix(".onnx"))
    arrays = {f"in {name}": array for name, array in case.feed(model, failure.at).items()}
    arrays |= {f"out {value.name}": value.arrays[failure.at] for value in cut.outputs}
    arrays |= {f"twin {value.name}": value.twins[failure.at] for value in cut.outputs}
    np.savez(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]


def _last(text: str) -> str:
    return text.strip()[-900:]
