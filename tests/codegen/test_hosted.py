"""The devices "reference" and "xla": programs, tensors and modules run on them as on others, and library ops agree with the C
runtime's.

BURN_SWEEP sets how many further random cases of library ops are drawn, BURN_SWEEP_SEED the first seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import call, compiled, same
from test_library import sample

import burn
from burn.codegen.host import library
from burn.codegen.reference.backend import PIPELINE
from burn.dialect import ops, regex
from burn.dialect.dims import symbol
from burn.dialect.library import FORMS
from burn.dialect.types import DTYPES, TensorType, numpy_dtype
from burn.errors import CompileError, IndexRunError, MemoryBudgetError, RunError, TimeBudgetError, TypeMismatch
from burn.runtime.device import device
from burn.runtime.executable import Executable

SEED = int(os.environ.get("BURN_SWEEP_SEED", random.SystemRandom().randrange(1 << 32)))
COUNT = int(os.environ.get("BURN_SWEEP", "0"))
HOSTED = ("reference", "xla")
each = pytest.mark.parametrize("other", HOSTED)
N, M, K = symbol("n"), symbol("m"), symbol("k")
NUMBERS = [d for d in library.DTYPES if DTYPES[d].kind not in ("string", "list")]
REAL = [d for d in NUMBERS if not d.startswith("complex")]


def on(device: str, function: Callable[..., Any], *types: str, **options: Any) -> Executable:
    made = burn.compile(function, list(types), device=device, cache=False, **options)
    assert isinstance(made, Executable) and str(made.device) == device
    return made


# ---- programs --------------------------------------------------------------------------------------------------------
def test_the_pipeline_of_the_reference_simplifies_nothing() -> None:
    assert str(PIPELINE) == "lower_complex,@precision,decompose,@layout,@memory,fuse,release"


PROGRAMS: dict[str, tuple[Callable[..., Any], list[str], list[tuple[int, ...]]]] = {
    "softmax": (lambda x: burn.softmax(x, axis=-1), ["float32[n, m]"], [(3, 5), (1, 1), (0, 4), (2, 0)]),
    "matmul": (lambda x: burn.gelu(x @ x.T), ["float64[n, 3]"], [(4, 3), (0, 3)]),
    "variance": (lambda x: burn.var(x, axis=0), ["bfloat16[n, m]"], [(7, 3)]),
    "views": (lambda x: burn.concatenate([x[::2], x[1::2]], axis=0).T, ["int64[6, n]"], [(6, 3), (6, 0)]),
    "cumulative": (lambda x: burn.cumsum(x, axis=1), ["float32[n, m]"], [(2, 7)]),
    "attention": (lambda x: burn.ops.attention(x, x, x, None, scale=0.5), ["float32[1, 2, n, 4]"], [(1, 2, 5, 4)]),
    "gradient": (lambda x: burn.grad(lambda y: (burn.tanh(y) ** 2).sum())(x), ["float32[n]"], [(5,)]),
}


@each
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_the_cpu(name: str, other: str) -> None:
    function, types, shapes = PROGRAMS[name]
    cpu, hosted = (on(device, function, *types) for device in ("cpu", other))
    for shape in shapes:
        x = np.random.default_rng(3).integers(-9, 9, shape) / (1 if types[0].startswith("int") else 8)
        x = x.astype(burn.tensor(0, dtype=types[0].split("[")[0]).numpy().dtype)
        got, want = hosted(x), cpu(x)
        assert got.shape == want.shape and got.dtype == want.dtype
        tolerance = 1e-2 if types[0].startswith("bfloat16") else 2e-6
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=tolerance, atol=tolerance)


@each
def test_control_flow(other: str) -> None:
    """Loops whose values grow, loops without an iteration, stacked results, branches of several sizes."""

    def grows(x: burn.Tensor, n: burn.Tensor) -> Any:
        total, squares = burn.scan(lambda s, r: (s + r, s * r), x[0], x)
        power = burn.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (burn.constant(0), x))[1]
        chosen = burn.cond(n > 2, lambda: x + 1, lambda: x - 1)
        return total, squares, power, chosen

    cpu, hosted = (on(device, grows, "float32[k, 3]", "int64[]") for device in ("cpu", other))
    for rows, n in ((4, 3), (1, 0), (2, 7)):
        x = np.random.default_rng(0).integers(-4, 5, (rows, 3)).astype("f4")
        same(hosted(x, np.array(n)), cpu(x, np.array(n)))


@each
def test_random_numbers_are_the_same_bits(other: str) -> None:
    results = []
    for name in ("cpu", other):
        made = on(name, lambda x: x + burn.random.uniform((4, 3)), "float32[4, 3]")
        made.seed(7)
        results.append([made(np.zeros((4, 3), "f4")), made(np.zeros((4, 3), "f4"))])
    same(results[1], results[0])
    assert (results[0][0] != results[0][1]).any()


# ---- errors ----------------------------------------------------------------------------------------------------------
@each
def test_an_index_out_of_range_names_its_node(other: str) -> None:
    picks = [
        compiled([TensorType("float32", (N,)), TensorType("int64", (M,))], lambda x, i: ops.gather(x, i, axis=0), d, d)
        for d in ("cpu", other)
    ]
    for made in picks:
        with pytest.raises(IndexRunError, match=rf"node '{made.device}': index 7 is out of range"):
            made(np.ones(3, "f4"), np.array([0, 7]))
        same([made(np.arange(3, dtype="f4"), np.array([0, -1]))], [np.array([0, 2], "f4")])


@each
def test_inputs_that_do_not_fit(other: str) -> None:
    made = on(other, lambda x, y: x + y, "float32[n, 2]", "float32[n, 2]")
    with pytest.raises(burn.InputError, match="'y'"):
        made(np.ones((3, 2), "f4"), np.ones((4, 2), "f4"))
    with pytest.raises(burn.InputError, match="float64"):
        made(np.ones((3, 2)), np.ones((3, 2), "f4"))
    assert made([[1, 2]], [[3, 4]]).tolist() == [[4, 6]]


def test_limits_of_the_reference() -> None:
    made = on("reference", lambda x: x.reshape(-1, 1) * x, "float32[n]")
    made.limit(max_seconds=1e-6)
    with pytest.raises(TimeBudgetError):
        made(np.ones(50, "f4"))
    made.limit(max_memory=100)
    with pytest.raises(MemoryBudgetError, match=r"its limit .max_memory. is 100"):
        made(np.ones(100, "f4"))
    made.limit()
    assert made(np.full(1, 3, "f4")) == 9 and made.arena_bytes > 0


def test_options_that_the_reference_refuses() -> None:
    with pytest.raises(CompileError, match="leave out target"):
        on("reference", lambda x: x + 1, "float32[2]", target="generic")
    with pytest.raises(CompileError, match="sort of complex64"):
        compiled([TensorType("complex64", (3,))], lambda x: ops.sort(x)[1], device="reference")
    half = on("reference", lambda x: x @ x.T, "float32[2, 2]", precision="bf16")
    assert half(np.full((2, 2), 1.001, "f4"))[0, 0] == 2.0


# ---- like any other device -------------------------------------------------------------------------------------------
@each
def test_tensors_live_there(other: str) -> None:
    x = burn.tensor([1.0, 2.0, 3.0]).to(other)
    y = x * 2 + 1
    assert y.device == other and y.tolist() == [3, 5, 7] and f"device={other}" in repr(y)
    assert burn.grad(lambda a: (a * a).sum())(x).device == other
    assert y.to("cpu").device == "cpu"
    with pytest.raises(TypeMismatch, match=f"one lies on {other}"):
        _ = x + burn.from_numpy(np.ones(3, "f4")).to("cpu")


@each
def test_functions_run_where_their_tensors_are(other: str) -> None:
    doubled = burn.jit(lambda a: a + a)
    x = burn.tensor([1.0, 2.0])
    assert doubled(x.to(other)).device == other
    assert str(doubled.executable.device) == other
    assert doubled(x).device == "cpu" and str(doubled.executable.device) == "cpu"


@each
def test_modules_train_there(other: str) -> None:
    losses = {}
    x, y = (np.random.default_rng(s).standard_normal((4, k)).astype("f4") for s, k in ((0, 3), (1, 2)))
    for name in ("cpu", other):
        burn.manual_seed(0)
        model = burn.nn.Linear(3, 2)
        model.to(name)
        step = burn.train.step(model, lambda m, x, y: ((m(x) - y) ** 2).mean(), burn.optim.Adam(model, lr=0.1))
        losses[name] = [float(step(x, y)) for _ in range(3)]
        assert {p.device for p in model.parameters()} == {name}
    np.testing.assert_allclose(losses[other], losses["cpu"], rtol=1e-6)


@each
def test_artefacts_are_text_that_any_machine_runs(tmp_path: Path, other: str) -> None:
    weight = np.random.default_rng(0).standard_normal((3, 40)).astype("f4")
    made = on(other, lambda x: burn.softmax(x @ weight), "float32[n, 3]")
    assert b"burn.dot_general" in bytes(made.artefact.code) and len(made.artefact.constants) == 1
    made.save(tmp_path / "m.burn")
    x = np.random.default_rng(1).standard_normal((2, 3)).astype("f4")
    again = burn.load(tmp_path / "m.burn")
    assert str(again.device) == other
    same([again(x)], [made(x)])
    with pytest.raises(RunError, match=f"compiled for {other} and the device is cuda"):
        burn.load(tmp_path / "m.burn", device="cuda")
    rows = made.profile(x, repeat=2).rows
    kinds = {"contract", "reduce"} if other == "reference" else {"module"}
    assert {row.kernel.kind for row in rows} >= kinds and all(row.seconds > 0 for row in rows)
    assert device(other).is_present and device(other).memory == device("cpu").memory


# ---- library ops: Python against C -----------------------------------------------------------------------------------
def both(other: str, types: Sequence[TensorType], build: Callable[..., Any], *arrays: np.ndarray) -> None:
    cpu, hosted = (compiled(types, build, device=device) for device in ("cpu", other))
    want: Any
    try:
        want = call(cpu, *arrays)
    except RunError as error:
        with pytest.raises(type(error)) as failure:
            call(hosted, *arrays)
        assert str(failure.value) == str(error)
        return
    same(call(hosted, *arrays), want)


def any_type(shape: Sequence[int], dtype: str) -> TensorType:
    return TensorType(dtype, tuple(symbol(f"d{i}") for i in range(len(shape))))


def texts(rng: np.random.Generator, shape: tuple[int, ...], alphabet: str) -> np.ndarray:
    made = np.empty(shape, object)
    for index in np.ndindex(*shape):
        made[index] = "".join(rng.choice(list(alphabet), rng.integers(0, 7)))
    return made


STRINGS = TensorType("string", (N,))


def draw_sort(other: str, rng: np.random.Generator) -> None:
    shape, dtype = tuple(rng.integers(0, 5, rng.integers(1, 4))), str(rng.choice(REAL))
    axis, descending = int(rng.integers(0, len(shape))), bool(rng.integers(2))
    x = sample(dtype, shape, int(rng.integers(1 << 30)))
    both(other, [any_type(shape, dtype)], lambda x: ops.sort(x, axis=axis, descending=descending), x)


def draw_nonzero(other: str, rng: np.random.Generator) -> None:
    shape, dtype = tuple(rng.integers(0, 5, rng.integers(0, 4))), str(rng.choice(NUMBERS))
    x = np.asarray(sample(dtype, shape, int(rng.integers(1 << 30))))
    both(other, [any_type(shape, dtype)], lambda x: ops.nonzero(x, count="c"), x)


def draw_unique(other: str, rng: np.random.Generator) -> None:
    shape, dtype = tuple(rng.integers(0, 5, rng.integers(1, 4))), str(rng.choice(NUMBERS))
    axis = None if rng.integers(2) else int(rng.integers(0, len(shape)))
    x, ordered = sample(dtype, shape, int(rng.integers(1 << 30))), bool(rng.integers(2))
    both(other, [any_type(shape, dtype)], lambda x: list(ops.unique(x, count="c", axis=axis, sorted=ordered)), x)


def draw_boxes(other: str, rng: np.random.Generator) -> None:
    batches, classes, n = (int(k) for k in rng.integers(0, (3, 3, 9)))
    dtype, form = str(rng.choice(["float32", "float64"])), str(rng.choice(FORMS))
    boxes = rng.integers(-3, 4, (batches, n, 4)).astype(dtype) / 2
    boxes[rng.random(boxes.shape) < 0.03] = np.nan
    scores = (rng.integers(-2, 6, (batches, classes, n)) / 4).astype(dtype)
    scores[rng.random(scores.shape) < 0.05] = np.nan
    numbers = [np.array(int(rng.integers(-1, 6))), *(np.array(float(rng.integers(-2, 5)) / 4) for _ in range(2))]
    types = [TensorType(dtype, (symbol("b"), N, 4)), TensorType(dtype, (symbol("b"), symbol("c"), N))]
    types += [TensorType("int64", ()), TensorType("float64", ()), TensorType("float64", ())]
    both(other, types, lambda *xs: ops.non_max_suppression(*xs, count="k", form=form), boxes, scores, *numbers)


def draw_strings(other: str, rng: np.random.Generator) -> None:
    x, n = texts(rng, (int(rng.integers(0, 5)),), "aA -é\u00a0\n_1"), int(rng.integers(-1, 4))
    delimiter = np.array(str(rng.choice(["", " ", "a", "A-"])), object)

    def build(x: Any, y: Any, d: Any) -> list[Any]:
        pieces, counts = ops.string_split(x, d, count="c", maximum=n)
        joined = ops.string_concat(x, y)
        return [pieces, counts, joined, ops.string_rank(joined), ops.string_find(x, y)]

    both(other, [STRINGS, STRINGS, TensorType("string", ())], build, x, rng.permutation(x), delimiter)


def draw_patterns(other: str, rng: np.random.Generator) -> None:
    pattern = str(rng.choice(["a+", "[^a]*", r"\bA", "(a|A-)+", "a{2}", "^.$", r"\w+", "", "é|\n", r"[ab]?-\z"]))
    x, program = texts(rng, (5,), "aA -é\n_1"), regex.compile(pattern)
    least, between = int(rng.integers(1, 3)), bool(rng.integers(2))

    def build(x: Any, p: Any) -> list[Any]:
        tokens, counts = ops.string_tokens(x, p, count="c", least=least, between=between)
        return [tokens, counts, ops.string_match(x, p)]

    both(other, [STRINGS, TensorType("int64", (K, 3))], build, x, program)


def draw_numbers(other: str, rng: np.random.Generator) -> None:
    bits = rng.integers(0, 1 << 63, 6, np.int64).view(np.float64)
    precision = str(rng.choice(["float64", "float32", "float16", "bfloat16"]))
    with np.errstate(all="ignore"):
        x = np.concatenate([bits, rng.integers(-999, 999, 4) / 8, [np.nan, np.inf, -0.0]]).astype(
            numpy_dtype(precision)
        )
    both(other, [TensorType("float64", (N,))], lambda x: ops.number_to_string(x, precision=precision), x.astype("f8"))
    spelled = [
        " 12 ",
        "-3",
        "+7",
        "1e3",
        ".5",
        "5.",
        "nan",
        "-Infinity",
        "",
        "1_0",
        "0x1",
        "18446744073709551615",
        "9" * 20,
    ]
    dtype = str(rng.choice(["float64", "int64", "uint64"]))
    chosen = np.array([str(rng.choice(spelled))], object)
    both(other, [STRINGS], lambda x: ops.string_to_number(x, dtype=dtype), chosen)


def draw_lists(other: str, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (int(rng.integers(0, 5)), 3)).astype("i4")
    parts = rng.integers(0, 3, int(rng.integers(0, 4)))
    if rng.integers(2) and len(parts):
        parts[-1] = max(0, len(x) - parts[:-1].sum())
    at, stack = np.array(int(rng.integers(-4, 5))), bool(rng.integers(2))

    def build(x: Any, parts: Any, at: Any) -> list[Any]:
        found = ops.list_insert(ops.list_split(x, parts, axis=0), x, None)
        found = ops.list_erase(found, at)
        item = ops.list_at(found, at, dtype="int32", sizes=(-1, 3), symbols=("r",))
        sizes, names = ((-1, -1, 3), ("a", "b")) if stack else ((-1, 3), ("a",))
        whole = ops.list_concat(found, axis=0, dtype="int32", sizes=sizes, symbols=names, stack=stack)
        return [ops.list_length(found), item, whole]

    both(other, [TensorType("int32", (N, 3)), TensorType("int64", (K,)), TensorType("int64", ())], build, x, parts, at)


DRAWN = (draw_sort, draw_nonzero, draw_unique, draw_boxes, draw_strings, draw_patterns, draw_numbers, draw_lists)


OF_STRINGS = (draw_strings, draw_patterns, draw_numbers)


@each
@pytest.mark.parametrize("draw", DRAWN, ids=lambda draw: draw.__name__)
def test_library_ops_agree_with_the_runtime(draw: Callable[[str, np.random.Generator], None], other: str) -> None:
    if other == "xla" and draw in OF_STRINGS:
        with pytest.raises(CompileError, match="string"):
            draw(other, np.random.default_rng(0))
        return
    fixed = 3 if other == "reference" else 1  # XLA compiles each for a second
    for seed in (*range(fixed), *range(SEED, SEED + COUNT // len(DRAWN))):
        try:
            draw(other, np.random.default_rng(seed))
        except (AssertionError, Exception) as error:
            raise AssertionError(f"{draw.__name__}, seed {seed}: {error}") from error


@each
def test_debugging_works_there(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[np.ndarray] = []

    def function(x: burn.Tensor) -> burn.Tensor:
        burn.debug.print("{n} rows, first {m:.2f}", n=x.shape[0], m=x[0])
        burn.debug.callback(seen.append, x)
        return burn.log(x)

    made = burn.jit(function, device=other)
    made(np.array([1, 2], "f4"))
    assert capsys.readouterr().out == "2 rows, first 1.00\n"
    same(seen, [np.array([1, 2], "f4")])
    with burn.debug.nans(), pytest.raises(RunError, match=r"is NaN .*, and no operand has one"):
        burn.jit(lambda x: burn.log(x) * 2, device=other)(np.array([1, -2], "f4"))
