"""Attention as one kernel against float64: shapes of every kind, masks, windows, shared heads, half precision, fully masked
rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from burn.codegen.cpu.passes import PIPELINE
from burn.compiler import compile_program, environment, executable
from burn.dialect import ops
from burn.dialect.dims import symbol
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.kernels.preferences import Preferences
from burn.kernels.text import program_text
from burn.options import Options
from burn.passes import pipeline
from burn.runtime.executable import Executable
from tests.codegen.cpus import FLOAT_TARGETS
from tests.codegen.running import call, compiled
from tests.kernels.interpreting import interpreted

DEFAULTS: dict[str, Any] = {
    "causal": False, "offset": 0, "left": -1, "right": -1, "softcap": 0.0, "precision": None
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """b batches, h query heads, g key heads, s queries, t keys, d and e features; `mask` is a shape's kind."""

    b: int = 2
    h: int = 4
    g: int = 2
    s: int = 5
    t: int = 7
    d: int = 6
    e: int = 3
    mask: str = ""
    lengths: bool = False
    dtype: str = "float32"
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def attrs(self) -> dict[str, Any]:
        return {"scale": self.d**-0.5 if self.d else 1.0, **DEFAULTS, **dict(self.options)}

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.s * 100 + self.t)
        shapes = ((self.b, self.h, self.s, self.d), (self.b, self.g, self.t, self.d), (self.b, self.g, self.t, self.e))
        found = [rng.standard_normal(shape).astype(numpy_dtype(self.dtype)) for shape in shapes]
        if self.mask == "bool":
            mask = rng.random((self.b, 1, self.s, self.t)) < 0.6
            mask[:, :, : self.s // 2] &= rng.random((self.s // 2, 1)) < 0.5  # rows that see nothing
            found.append(mask)
        if self.mask == "added":
            found.append(np.where(rng.random((self.t,)) < 0.7, 0.5, -np.inf).astype(numpy_dtype(self.dtype)))
        if self.lengths:
            found.append(rng.integers(0, self.t + 1, self.b))
        return found

    def want(self, arrays: list[np.ndarray]) -> np.ndarray:
        q, k, v = (a.astype("f8") for a in arrays[:3])
        rest = arrays[3:]
        mask = rest.pop(0) if self.mask else None
        lengths = rest.pop(0) if self.lengths else None
        a = self.attrs
        k, v = (np.repeat(x, self.h // self.g, 1) for x in (k, v))
        scores = np.einsum("bhsd,bhtd->bhst", q, k) * a["scale"]
        if a["softcap"]:
            scores = a["softcap"] * np.tanh(scores / a["softcap"])
        if mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype("f8")
        position = np.arange(self.s)[None, :, None] + a["offset"]
        key = np.arange(self.t)
        if lengths is not None:
            position = np.arange(self.s)[None, :, None] + (lengths - self.s)[:, None, None]
        seen = np.ones((self.b, self.s, self.t), bool)
        if lengths is not None:
            seen &= key < lengths[:, None, None]
        if a["causal"]:
            seen &= key <= position
        if a["left"] >= 0:
            seen &= position - key <= a["left"]
        if a["right"] >= 0:
            seen &= position - key >= -a["right"]
        scores = np.where(seen[:, None], scores, -np.inf)
        top = scores.max(-1, keepdims=True, initial=-np.inf)
        e = np.exp(scores - np.where(np.isinf(top), 0, top))
        total = e.sum(-1, keepdims=True)
        return (e / np.where(total == 0, 1, total)) @ v

    def build(self, *values: ir.Value) -> ir.Value:
        q, k, v, *rest = values
        mask = rest.pop(0) if self.mask else None
        lengths = rest.pop(0) if self.lengths else None
        return ops.attention(q, k, v, mask, lengths, **self.attrs)


def options(**values: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(values.items())


CASES = {
    "plain": Case(),
    "one key, one query": Case(s=1, t=1),
    "one of everything": Case(b=1, h=1, g=1, s=1, t=1, d=1, e=1),
    "one feature": Case(s=70, t=30, d=1, e=1),
    "one query": Case(s=1, t=131, d=64, e=64),
    "two queries of shared heads": Case(s=1, t=37, d=20, e=17),
    "no keys": Case(t=0),
    "no queries": Case(s=0),
    "no batch": Case(b=0),
    "no depth": Case(d=0),
    "no features": Case(e=0),
    "several blocks": Case(b=1, h=2, g=2, s=71, t=263, d=32, e=48),
    "odd vectors": Case(b=1, h=1, g=1, s=13, t=127, d=17, e=33),
    "causal": Case(s=71, t=71, options=options(causal=True)),
    "causal behind a cache": Case(s=3, t=139, options=options(causal=True, offset=136)),
    "causal before anything": Case(s=5, t=7, options=options(causal=True, offset=-3)),
    "a window": Case(b=1, s=67, t=211, options=options(left=3, right=2)),
    "a window behind a cache": Case(b=1, s=5, t=211, options=options(causal=True, left=150, offset=206)),
    "boolean mask": Case(mask="bool"),
    "added mask": Case(s=19, t=150, mask="added"),
    "everything": Case(mask="bool", options=options(causal=True, offset=2, softcap=3.0, left=4)),
    "softcap": Case(options=options(softcap=2.0)),
    "lengths": Case(lengths=True, options=options(causal=True, left=3)),
    "float64": Case(s=9, t=70, d=11, dtype="float64"),
    "float16": Case(s=9, t=70, d=16, dtype="float16"),
    "bfloat16": Case(s=9, t=70, d=16, dtype="bfloat16"),
    "float16, several blocks": Case(b=1, h=3, g=1, s=150, t=140, d=16, e=20, dtype="float16"),
    "bfloat16, several blocks": Case(b=1, h=3, g=1, s=150, t=263, d=32, e=48, dtype="bfloat16"),
    "bfloat16, odd sizes": Case(b=1, h=1, g=1, s=13, t=127, d=17, e=33, dtype="bfloat16"),
    "bfloat16, one of everything but queries": Case(b=1, h=1, g=1, s=3, t=1, d=1, e=1, dtype="bfloat16"),
    "bfloat16, no keys": Case(t=0, dtype="bfloat16"),
    "bfloat16, no depth": Case(d=0, dtype="bfloat16"),
    "bfloat16, causal": Case(s=71, t=71, d=20, e=17, dtype="bfloat16", options=options(causal=True)),
    "bfloat16, a window": Case(b=1, s=67, t=211, d=33, dtype="bfloat16", options=options(left=3, right=2)),
    "bfloat16, boolean mask": Case(s=19, t=150, d=18, mask="bool", dtype="bfloat16"),
    "bfloat16, added mask": Case(s=19, t=151, d=18, mask="added", dtype="bfloat16"),
    "bfloat16, lengths": Case(lengths=True, dtype="bfloat16", options=options(causal=True, left=3)),
    "bfloat16, softcap": Case(dtype="bfloat16", options=options(softcap=2.0)),
    "bfloat16, one query": Case(s=1, t=70, g=4, d=40, e=40, dtype="bfloat16"),
    "float32 with a softmax of float64": Case(options=options(precision="float64")),
}
SLOW = ("several blocks", "float16, several blocks", "a window", "causal", "one query", "added mask",
        "bfloat16, several blocks", "bfloat16, causal", "bfloat16, a window", "bfloat16, added mask")  # fmt: skip
"""In plain Python."""
BOUNDS = {"float64": 1e-13, "float32": 3e-6, "float16": 2e-3, "bfloat16": 2e-2}


def program(case: Case, arrays: list[np.ndarray]) -> Program:
    made = Program.create([(f"x{i}", TensorType(a.dtype.name, a.shape)) for i, a in enumerate(arrays)])
    with made.building("attend"):
        result = case.build(*made.inputs)
    return made.finish([("y", result)])


def check(case: Case, got: np.ndarray, arrays: list[np.ndarray]) -> None:
    want = case.want(arrays)
    bound = BOUNDS[case.dtype]
    assert got.shape == want.shape and got.dtype == numpy_dtype(case.dtype)
    np.testing.assert_allclose(got.astype("f8"), want, rtol=bound, atol=bound)


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    """The compiled kernel and the interpreted one, for the widest target."""
    case = CASES[name]
    arrays = case.arrays()
    made = program(case, arrays)
    pipeline.run(pipeline.parse(PIPELINE.text), made, environment())
    if name not in SLOW:
        check(case, interpreted(made, arrays)[0], arrays)
    with context():
        assert "attention" in program_text(made, Preferences()) or 0 in (case.b, case.s, case.e)
    check(case, executable(made, Options(passes=""))(*arrays), arrays)


@pytest.mark.covering
@pytest.mark.parametrize(
    "name", ["several blocks", "odd vectors", "two queries of shared heads", "float64", "everything"]
)
@pytest.mark.parametrize("target", FLOAT_TARGETS[1:])
def test_targets(name: str, target: str) -> None:
    case = CASES[name]
    arrays = case.arrays()
    check(case, Executable(compile_program(program(case, arrays), Options(target=target)))(*arrays), arrays)


@pytest.fixture(scope="module")
def dynamic() -> Executable:
    """Sizes known at run time; heads are the third axis of inputs and outputs."""
    b, s, t = map(symbol, "bst")
    types = [TensorType("float32", (b, n, heads, 16)) for n, heads in ((s, 4), (t, 2), (t, 2))]

    def build(q: ir.Value, k: ir.Value, v: ir.Value) -> ir.Value:
        heads_first = [ops.transpose(x, permutation=(0, 2, 1, 3)) for x in (q, k, v)]
        y = ops.attention(*heads_first, None, None, **{**CASES["plain"].attrs, "causal": True, "offset": t - s})
        return ops.reshape(ops.transpose(ops.mul(y, y), permutation=(0, 2, 1, 3)), shape=(b, s, 64))

    return compiled(types, build)


@pytest.mark.parametrize(("s", "t"), [(1, 1), (1, 150), (2, 3), (7, 7), (9, 130), (0, 5), (0, 0), (65, 67), (3, 0)])
def test_sizes_at_run_time(dynamic: Executable, s: int, t: int) -> None:
    case = replace(CASES["plain"], s=s, t=t, d=16, e=16, options=options(causal=True, offset=t - s))
    case = replace(case, options=(*case.options, ("scale", CASES["plain"].attrs["scale"])))
    arrays = case.arrays()
    (got,) = call(dynamic, *(np.ascontiguousarray(a.transpose(0, 2, 1, 3)) for a in arrays))
    want = case.want(arrays) ** 2
    np.testing.assert_allclose(got, want.transpose(0, 2, 1, 3).reshape(2, s, 64), rtol=3e-6, atol=3e-6)


def test_heads_stay_where_they_are(dynamic: Executable) -> None:
    """Views before and behind it are no kernels of their own."""
    assert [kernel.kind for kernel in dynamic.artefact.kernels] == ["attention"]


def test_not_a_number_stays_in_its_row() -> None:
    case = Case(b=1, h=1, g=1, s=3, t=4)
    arrays = case.arrays()
    arrays[0][0, 0, 1, 0] = np.nan
    got = executable(program(case, arrays))(*arrays)
    assert np.isnan(got[0, 0, 1]).all() and np.isfinite(got[0, 0, [0, 2]]).all()


def test_a_wrong_length_ends_the_run() -> None:
    t, u = symbol("t"), symbol("u")
    types = [TensorType("float32", (1, 1, n, 4)) for n in (2, t, u)]
    attend = compiled(types, lambda q, k, v: ops.attention(q, k, v, None, None, **Case(d=4).attrs))
    arrays = [np.ones((1, 1, n, 4), "f4") for n in (2, 5, 3)]
    with pytest.raises(Exception, match=r"shape|size"):
        attend(*arrays)
