"""One node of a vendor's operator: its operands and attributes, the model around it, and the comparison with ONNX Runtime.

Enter at `judge`. `Draw` draws operands and attributes from a seed; the draws themselves are in draws_*.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from burn.errors import BurnError
from burn.importers.onnx import import_onnx
from tests.fuzz.runner import Outcome
from tests.importers.reference import evaluate

MICROSOFT = "com.microsoft"
OPSETS = (helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1))

Array = np.ndarray


@dataclass
class Case:
    """One node.

    `operands`: None for an absent one. `outputs`: their number, or the used ones.
    `constant`: operands that are initializers.
    `tolerance`: of floats, relative to the largest element or 1. `steps`: by how many a quantised element may differ, in
    `share` of the elements at most.
    `runtime_tolerance`: of the runtime's floats, if it rounds more than `truth` does.
    `truth`: the results in float64, from operands and attributes. It or the runtime must agree; with `both`, each one that
    exists.
    `shared`: outputs that the runtime writes over operands, by their indices.
    `types, result_types`: ONNX element types that do not follow from numpy's, by operand and by output.
    `may`: words of an acceptable refusal.
    `instead`: operands of equal meaning, for a runtime that crashes without them.
    `open`: the axes of operands that may be symbolic; by default all may, and a refusal is then acceptable."""

    op: str
    operands: Sequence[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int | Sequence[bool] = 1
    constant: Collection[int] = ()
    tolerance: float = 2e-5
    steps: int = 0
    share: float = 1.0
    domain: str = MICROSOFT
    truth: Callable[..., Sequence[Array]] | None = None
    types: Mapping[int, int] = field(default_factory=dict)
    may: Collection[str] = ()
    instead: dict[int, Array] = field(default_factory=dict)
    open: Mapping[int, Collection[int]] | None = None
    both: bool = False
    runtime_tolerance: float | None = None
    shared: dict[int, int] = field(default_factory=dict)
    result_types: Mapping[int, int] = field(default_factory=dict)

    @property
    def wanted(self) -> list[bool]:
        return [True] * self.outputs if isinstance(self.outputs, int) else list(self.outputs)

    def model(self, sizes: str = "fixed", **extra: Any) -> onnx.ModelProto:
        """The node alone in a graph. sizes: "fixed", "named" (equal sizes share a name), or "apart" (every axis has its own)."""
        names = [f"i{i}" if a is not None else "" for i, a in enumerate(self.operands)]
        results = [f"o{i}" if wanted else "" for i, wanted in enumerate(self.wanted)]
        given = {k: v for k, v in self.attributes.items() if v is not None}
        node = helper.make_node(self.op, names, results, "node", domain=self.domain, **given, **extra)
        inputs, weights = [], []
        for index, array in enumerate(self.operands):
            if array is None:
                continue
            type_ = self.types.get(index, None) or helper.np_dtype_to_tensor_dtype(array.dtype)
            if index in self.constant:
                weights.append(_tensor(array, f"i{index}", type_))
            else:
                free = range(array.ndim) if self.open is None else self.open.get(index, ())
                shape = [_size(sizes, index, axis, d) if axis in free else d for axis, d in enumerate(array.shape)]
                inputs.append(helper.make_tensor_value_info(f"i{index}", type_, shape))
        outputs = [onnx.ValueInfoProto(name=name) for name in results if name]
        for value in outputs:
            if (type_ := self.result_types.get(int(value.name[1:]))) is not None:
                value.type.tensor_type.elem_type = type_
        graph = helper.make_graph([node], "g", inputs, outputs, weights)
        opsets = [*OPSETS] if self.domain == MICROSOFT else [*OPSETS, helper.make_opsetid(self.domain, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def feeds(self) -> dict[str, Array]:
        return {f"i{i}": a for i, a in enumerate(self.operands) if a is not None and i not in self.constant}

    def __str__(self) -> str:
        shapes = ", ".join("-" if a is None else f"{a.dtype}{list(a.shape)}" for a in self.operands)
        return f"{self.op}({shapes}) {self.attributes} -> {self.outputs}"


def _size(sizes: str, index: int, axis: int, size: int) -> int | str:
    if sizes == "fixed":
        return size
    return f"s{size}" if sizes == "named" else f"i{index}_{axis}"


def _tensor(array: Array, name: str, type_: int) -> TensorProto:
    if type_ == helper.np_dtype_to_tensor_dtype(array.dtype):
        return numpy_helper.from_array(array, name)
    return helper.make_tensor(name, type_, array.shape, array.reshape(-1).tolist())


class Refused(Exception):
    """ONNX Runtime does not take the case."""


def runtime(model: onnx.ModelProto, feeds: dict[str, Array], shared: dict[str, str] | None = None) -> list[Array]:
    """ONNX Runtime's results, without its own rewriting of the graph. Raises Refused."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return [np.asarray(a) for a in (_run_in_place(session, feeds, shared) if shared else session.run(None, feeds))]
    except Exception as error:  # the runtime's exceptions have no common class of their own
        raise Refused(str(error).strip().splitlines()[-1]) from error


def _run_in_place(session: Any, feeds: dict[str, Array], shared: dict[str, str]) -> list[Array]:
    """Runs with outputs that lie in the memory of inputs. shared: output -> input."""
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array.copy()) for name, array in feeds.items()}
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        if output.name in shared:
            binding.bind_ortvalue_output(output.name, values[shared[output.name]])
        else:
            binding.bind_output(output.name)
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def judge(case: Case, sizes: str = "fixed", run: Callable[..., list[Array]] | None = None) -> Outcome:
    """Compares burn's results with ONNX Runtime's and with `truth`. run: how burn computes; without a compiler by default."""
    model, feeds = case.model(sizes), case.feeds()
    try:
        program = import_onnx(model)
    except BurnError as error:
        right = any(words in str(error) for words in case.may) or (sizes != "fixed" and case.open is None)
        return Outcome("refused" if right else "not imported", f"{case}: {error}")
    try:
        results = run(model, feeds) if run else list(evaluate(program, feeds).values())
    except (BurnError, AssertionError) as error:
        return Outcome("run failed", f"{sizes} {case}: {error}")
    problems, peers = [], 0
    try:
        peer = replace(case, operands=[case.instead.get(i, a) for i, a in enumerate(case.operands)])
        theirs = runtime(peer.model(), peer.feeds(), {f"o{o}": f"i{i}" for o, i in case.shared.items()})
    except Refused as error:
        if case.truth is None:
            return Outcome("skipped", f"{case}: {error}")
    else:
        problems += [
            f"as ONNX Runtime: {text}" for text in (differ(case, results, theirs, case.runtime_tolerance),) if text
        ]
        peers += 1
    if case.truth is not None:
        wanted = [w for w, asked in zip(case.truth(case.operands, case.attributes), case.wanted, strict=False) if asked]
        problems += [f"in float64: {text}" for text in (differ(case, results, wanted),) if text]
        peers += 1
    wrong = bool(problems) if case.both else len(problems) == peers
    return Outcome("wrong" if wrong else "ok", f"{sizes} {case}: {'; '.join(problems)}" if wrong else "")


def compiled(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    import burn

    return [np.asarray(a) for a in burn.load(model).run(feeds).values()]


def differ(case: Case, have: Sequence[Array], want: Sequence[Array], tolerance: float | None = None) -> str:
    """How the results differ, or nothing."""
    if len(have) != len(want):
        return f"{len(have)} results, not {len(want)}"
    for index, (a, b) in enumerate(zip(have, want, strict=True)):
        if (a.dtype, a.shape) != (b.dtype, b.shape) and a.dtype != object:
            return f"output {index} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        if a.dtype == object or a.dtype.kind in "OU":
            if a.shape != b.shape or a.tolist() != b.tolist():
                return f"output {index} is {a.tolist()}, not {b.tolist()}"
        elif a.dtype.kind in "iub":
            apart = np.abs(a.astype(np.int64) - b.astype(np.int64))
            if apart.size and (apart.max() > case.steps or (apart > 0).mean() > case.share):
                return f"output {index} is off by {apart.max()} in {(apart > 0).mean():.0%}"
        else:
            a, b = a.astype(np.float64), b.astype(np.float64)
            bound = (tolerance or case.tolerance) * np.maximum(
                1.0, np.abs(np.where(np.isfinite(b), b, 0.0)).max(initial=0.0)
            )
            with np.errstate(invalid="ignore"):
                close = (np.abs(a - b) <= bound) | (a == b) | (np.isnan(a) & np.isnan(b))
            if not close.all():
                worst = np.nanmax(np.where(close, 0, np.abs(a - b)))
                return f"output {index} is off by {worst:.3g} in {(~close).mean():.0%}"
    return ""


class Draw:
    """The random choices of one case."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def f(self, *shape: int, scale: float = 1.0) -> Array:
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def positive(self, *shape: int, low: float = 0.01, high: float = 0.1) -> Array:
        return self.rng.uniform(low, high, shape).astype(np.float32)

    def ints(self, low: int, high: int, *shape: int, dtype: Any = np.int32) -> Array:
        """Integers in [low, high)."""
        return self.rng.integers(low, high, shape).astype(dtype)

    def bytes(self, dtype: Any, *shape: int) -> Array:
        """All values of an integer type of 8 or 16 bits."""
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def size(self, *choices: int) -> int:
        """A size: small, often 1 or odd."""
        return self.pick(*(choices or (1, 2, 3, 5, 7)))

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def maybe(self, array: Any) -> Any:
        """The array, or None."""
        return array if self.flag() else None


Drawer = Callable[[Draw], Case]
DRAWERS: dict[str, Drawer] = {}
"""Operator -> how its cases are drawn."""


def draws(*names: str) -> Callable[[Drawer], Drawer]:
    def register(drawer: Drawer) -> Drawer:
        for name in names:
            assert name not in DRAWERS
            DRAWERS[name] = drawer
        return drawer

    return register
