"""Tensors as Python objects: conversions, views, writing through .at, copies, printing, and what is refused."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import burn
from burn.errors import RunError, TypeMismatch
from burn.lazy import statistics
from tests.api.rows import CONVERSIONS

RANDOM = np.random.default_rng(5)


def draw(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


# ---- elements ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(name: str) -> None:
    # float double half bfloat16 int bool
    x = np.array([0.0, 1.5, -2.0], np.float32)
    converted = getattr(burn.constant(x), name)()
    wanted = x.astype(ml_dtypes.bfloat16 if name == "bfloat16" else CONVERSIONS[name])
    assert converted.dtype == CONVERSIONS[name] == converted.to(CONVERSIONS[name]).dtype
    np.testing.assert_array_equal(converted.numpy(), wanted)
    with pytest.raises(TypeMismatch, match="no element type 'float33'"):
        converted.to("float33")


def test_elements_leave_as_numpy_and_python() -> None:
    x = burn.constant([[1, 2], [3, 4]]) * 2
    assert x.tolist() == [[2, 4], [6, 8]] and x[0, 1].item() == 4 and x.evaluate() is x
    np.testing.assert_array_equal(x.numpy(), [[2, 4], [6, 8]])
    assert 6 in x and 5 not in x and len(x) == 2
    assert x.trace().item() == 10 and (x > 2).where(x, 0).tolist() == [[0, 4], [6, 8]]


def test_a_mask_has_the_size_of_its_axis() -> None:
    with pytest.raises(TypeMismatch, match="a mask of 2 elements"):
        burn.zeros(3).at[burn.constant([True, False])].set(1.0)


def test_copies_and_files() -> None:
    x = burn.constant(draw(3, 2)) + 1.0
    for other in (copy.copy(x), copy.deepcopy([x])[0]):
        assert other is not x and (other == x).all()
    back = pickle.loads(pickle.dumps(x.bfloat16()))
    assert back.dtype == "bfloat16" and back.tolist() == x.bfloat16().tolist()
    with pytest.raises(TypeMismatch, match="copy in a file"):
        burn.compile(lambda y: pickle.dumps(y) and y, ("float32[2]",))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int4", "bool", "int64"])
def test_printing(dtype: str) -> None:
    text = repr(burn.constant([[0, 1], [1, 0]]).astype(dtype))
    assert text.startswith("tensor([[") and f"dtype={dtype}" in text
    assert text.count("True" if dtype == "bool" else " 1") + text.count("[1") >= 2
    assert "..." in repr(burn.zeros(100, 100).astype(dtype))
    assert "shape=[0, 3]" in repr(burn.zeros(0, 3))
    assert f"{burn.constant(2.5):.2f}" == "2.50"


# ---- views -------------------------------------------------------------------------------------------------------------
def test_pieces_of_what_is_computed_are_views() -> None:
    x = burn.constant(draw(10_000, 3))
    before = statistics()
    rows = list(x)
    assert len(rows) == 10_000
    assert rows[7].is_evaluated and x[2:5].is_evaluated and x[4, 1].item() == x.numpy()[4, 1]
    assert statistics() == before
    assert rows[7].numpy().base is not None and np.shares_memory(rows[7].numpy(), x.numpy())
    np.testing.assert_array_equal((x[3:9] + 1.0).numpy(), x.numpy()[3:9] + 1)
    np.testing.assert_array_equal(x[:, 1].numpy(), x.numpy()[:, 1])  # not in one piece: computed


def test_columns_share_a_program() -> None:
    x = burn.constant(draw(5, 7, 2))
    x[:, 0].evaluate()
    before = statistics().compiled
    for i in range(-7, 7):
        np.testing.assert_array_equal(x[:, i].numpy(), x.numpy()[:, i])
    assert statistics().compiled == before
    np.testing.assert_array_equal(x[1, :, 1].numpy(), x.numpy()[1, :, 1])


INDICES: dict[str, Callable[[Any], Any]] = {
    "adjacent": lambda x: x[:, [0, 2], [1, 1]],
    "apart": lambda x: x[[0, 1], :, [1, 2]],
    "number and list apart": lambda x: x[0, :, [1, 2]],
    "number and list": lambda x: x[:, 1, [1, 2]],
    "broadcast": lambda x: x[np.array([[0], [1]]), np.array([0, 2])],
    "new axis between": lambda x: x[[0, 1], None, [1, 2]],
    "dots between": lambda x: x[[0, 1], ..., [1, 2]],
    "nothing": lambda x: x[[]],
    "negative": lambda x: x[..., [-1, -2]],
    "mask": lambda x: x[np.array([True, False, True])],
    "mask of two axes": lambda x: x[np.tri(3, 4, dtype=bool)],
    "mask and number": lambda x: x[:, np.array([True, False, True, True]), 1],
    "mask and slice": lambda x: x[1:, :, np.array([True, False, True, False, True])],
    "scalar array": lambda x: x[np.array(1)],
    "true": lambda x: x[True],
    "false": lambda x: x[False, 1],
    "backwards": lambda x: x[::-2, 2:0:-1, [0, 3]],
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("mode", ["view", "lazy", "traced", "named sizes"])
def test_indexing_is_numpys(name: str, mode: str) -> None:
    x = draw(3, 4, 5)
    wanted = INDICES[name](x)
    if mode in ("view", "lazy"):
        tensor = burn.constant(x) if mode == "view" else burn.constant(x) * 1.0
        got = INDICES[name](tensor).numpy()
    else:
        spec = "float32[3, 4, 5]" if mode == "traced" else "float32[a, b, c]"
        got = burn.compile(lambda t: INDICES[name](t), (spec,))(x)
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)


def test_indices_out_of_range() -> None:
    x = burn.constant(draw(3, 4))
    for bad in (lambda: x[3], lambda: x[-4], lambda: x[0, 4], lambda: (x * 2)[5]):
        with pytest.raises(TypeMismatch, match="out of range"):
            bad()
    for bad in (lambda: x[[0, 3]], lambda: x[:, burn.constant([-5])], lambda: x.at[[7]].set(0.0)):
        with pytest.raises(RunError, match="out of range"):
            bad().numpy()
    same, row = burn.zeros(2, 3), burn.constant(draw(3)).broadcast_to(5, 3)  # whose elements do not depend on the index
    for bad in (lambda: same[[0, 2]], lambda: row[[5]], lambda: same.take_along_axis(burn.constant([[3], [0]]), 1)):
        with pytest.raises(RunError, match=r"index [235] is out of range"):
            bad().numpy()
    np.testing.assert_array_equal(same[[1, -2]], np.zeros((2, 3)))
    for bad, message in {
        "too many": (lambda: x[0, 0, 0], "entries for 2 axes"),
        "dots": (lambda: x[..., ...], "entries"),
        "floats": (lambda: x[[0.5]], "integers and bools"),
        "text": (lambda: x["a"], "with a str"),
        "step": (lambda: (x * 1)[::0], "step cannot be 0"),
        "shapes": (lambda: x[[0, 1], [0, 1, 2]], "do not fit each other"),
    }.values():
        with pytest.raises(TypeMismatch, match=message):
            bad()


# ---- writing -----------------------------------------------------------------------------------------------------------
WRITTEN: dict[str, Any] = {
    "number": 1, "slice": slice(1, 3), "backwards": (slice(None, None, -1), 2), "list": [0, 2, 0],
    "both": (slice(None), [1, 3]), "apart": ([0, 1], slice(None), [1, 2]), "mask": np.array([True, False, True]),
    "dots": (..., 0), "whole": np.ones((3, 4, 5), bool),
}  # fmt: skip
UFUNCS = {"set": None, "add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("how", UFUNCS)
def test_writing_through_at(name: str, how: str) -> None:
    x, index = draw(3, 4, 5), WRITTEN[name]
    ufunc = UFUNCS[how]
    values: tuple[Any, ...] = (2.0, draw(*x[index].shape))
    for value in values:
        if name == "list" and how == "set" and not isinstance(value, float):
            value = np.broadcast_to(value[:1], value.shape)  # which of several stays is not for numpy to say
        wanted = x.copy()
        if ufunc is None:
            wanted[index] = value
        else:
            ufunc.at(wanted, index, value)
        got = getattr(burn.constant(x).at[index], how)(value)
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)
        np.testing.assert_array_equal(burn.constant(x).at[index].get().numpy(), x[index])


def test_writing_bools_and_integers() -> None:
    assert burn.constant([False, False, True]).at[[0, 0]].set(True).tolist() == [True, False, True]
    assert burn.constant([1, 2, 3]).at[burn.constant([0, 0, 2])].add(10).tolist() == [21, 2, 13]
    assert burn.zeros(2, dtype="bool").at[burn.constant([True, False])].max(True).tolist() == [True, False]


def test_writing_in_a_traced_function() -> None:
    run = burn.compile(lambda x: x.at[:, 1].set(0.0).at[x > 1].add(1.0), ("float32[n, 3]",))
    x = draw(4, 3) * 2
    wanted = x.copy()
    wanted[:, 1] = 0
    wanted[x > 1] += 1
    np.testing.assert_allclose(run(x), wanted)


# ---- element types -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shift", [0, 1, 7, 40])
def test_shifts(shift: int) -> None:
    for dtype in ("int8", "int32", "int64", "uint16"):
        x = burn.constant([5, 100]).astype(dtype) if dtype == "uint16" else burn.constant([-5, 100]).astype(dtype)
        exact = [v >> shift for v in x.tolist()]
        assert (x >> shift).tolist() == exact and burn.right_shift(x, shift).tolist() == exact
    assert (burn.constant([1, 3]) << 2).tolist() == [4, 12] and (2 << burn.constant([1, 2])).tolist() == [4, 8]


def test_numbers_and_arrays_as_first_arguments() -> None:
    x = burn.constant(np.array([-1.0, 2.0], np.float16))
    assert burn.maximum(0.0, x).dtype == "float16" and burn.maximum(0, x).tolist() == [0, 2]
    assert burn.exp([0.0, 0.0]).tolist() == [1, 1] and burn.sum(np.arange(4)).item() == 6
    assert burn.where(x > 0, x, 0).tolist() == [0, 2] and burn.sub(1, burn.constant(3)).item() == -2


def test_stack_of_many_is_compiled_in_groups() -> None:
    rows = [burn.constant(draw(2)) for _ in range(150)]
    np.testing.assert_array_equal(burn.stack(rows).numpy(), np.stack([r.numpy() for r in rows]))


# ---- refusals ----------------------------------------------------------------------------------------------------------
X = burn.constant(draw(2, 3))
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "axis": (lambda: X.sum(2), "axis 2 is out of range"),
    "axis twice": (lambda: X.sum((0, -2)), "named twice"),
    "squeeze": (lambda: X.squeeze(0), "size 1"),
    "reshape": (lambda: X.reshape(4, -1), "cannot reshape"),
    "unflatten": (lambda: X.unflatten(1, 2, -1), "cannot unflatten"),
    "T": (lambda: burn.zeros(2, 3, 4).T, "use mT"),
    "matmul": (lambda: X @ X, "must be of one size"),
    "matmul of a number": (lambda: X.matmul(burn.constant(2.0)), "vectors and matrices"),
    "concat": (lambda: burn.concat([X, X.T]), "the other sizes agree"),
    "concat of nothing": (lambda: burn.concat([]), "at least one"),
    "stack": (lambda: burn.stack([X, X.T]), "of one shape"),
    "split": (lambda: X.split(2, 1), "use chunk"),
    "pad": (lambda: X.pad(((1, 1),) * 3), "for each axis"),
    "pad mode": (lambda: X.pad(1, "mirror"), "reflect"),
    "topk": (lambda: X.topk(4), "not 4 elements"),
    "quantile": (lambda: X.quantile(1.5), "between 0 and 1"),
    "argmax of nothing": (lambda: burn.zeros(0, 3).argmax(0), "no argmax of no elements"),
    "einsum": (lambda: burn.einsum("ij,kj->il", X, X), "each be an operand's"),
    "einsum operands": (lambda: burn.einsum("ij,jk->ik", X), "names 2 operands"),
    "logic": (lambda: X & X, "integers and bools"),
    "shift": (lambda: X << 1, "shifts are of integers"),
    "where": (lambda: X.where(1.0, 0.0), "by bools"),
    "clip": (lambda: X.clip(), "give low, high or both"),
    "scatter": (lambda: X.scatter(0, [[0]], 1.0, "sub"), "no reduction 'sub'"),
    "sum of text": (lambda: burn.sum("x"), "reductions are of numbers"),
    "loose tensors": (lambda: cast(Any, burn.concat)(X, X), r"burn\.concat\(\[x, y\]\)"),
    "out of range": (lambda: burn.constant([1, 300], "uint8"), "300 is no uint8"),
    "negative": (lambda: burn.constant(-1, "uint64"), "-1 is no uint64"),
    "operand out of range": (lambda: burn.constant([1], "uint8") + 300, "300 is no uint8"),
    "negative operand": (lambda: burn.constant([1], "uint8") * -1, "-1 is no uint8"),
    "operand below": (lambda: -129 - burn.constant([1], "int8"), "-129 is no int8"),
    "percentile": (lambda: X.percentile(101), "between 0 and 100"),
    "weights": (lambda: X.average(0, [1.0] * 99), "weights are of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(TypeMismatch, match=message):
        function()


def test_names_of_other_libraries_are_explained() -> None:
    with pytest.raises(AttributeError, match="use reshape"):
        X.view(3, 2)  # type: ignore[attr-defined]
    assert not hasattr(X, "no_such_method") and hasattr(X, "reshape")


def test_operators_have_names() -> None:
    x, y = burn.constant(draw(3)), burn.constant(draw(3))
    for name, function in {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": operator.truediv,
    }.items():
        np.testing.assert_array_equal(getattr(burn, name)(x, y).numpy(), function(x, y).numpy())


def test_numpys_functions_are_burns() -> None:
    x = burn.tensor([[1.0, 2.0], [3.0, 4.0]])
    array = np.array([[4.0, 1.0], [2.0, 3.0]], np.float32)
    for got, want in (
        (np.exp(x), np.exp(x.numpy())),
        (array - x, array - x.numpy()),
        (np.float64(2) * x, 2 * x.numpy()),
        (array < x, array < x.numpy()),
        (np.arctan2(x, 2.0), np.arctan2(x.numpy(), np.float32(2))),
        (np.absolute(-x), x.numpy()),
    ):
        assert isinstance(got, burn.Tensor) and got.dtype == str(want.dtype)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert burn.jit(lambda x: np.tanh(x) + array)(array).shape == (2, 2)
    for refused in (lambda: np.add.reduce(x), lambda: np.exp(x, dtype="float64"), lambda: np.spacing(x)):
        with pytest.raises(burn.TypeMismatch, match="does not compute with tensors"):
            refused()


def test_quantiles_between_infinities() -> None:
    inf = float("inf")
    assert burn.tensor([1.0, inf, inf]).quantile(0.75).item() == inf
    assert burn.tensor([-inf, -inf, 1.0]).quantile([0.25, 0.5]).tolist() == [-inf, -inf]
    assert burn.tensor([inf, 1.0, float("nan")]).quantile(0.0).isnan().item()


def test_divmod_and_whole_arrays() -> None:
    x = burn.tensor([7, -7, 5])
    for ours, array in ((divmod(x, 3), divmod(x.numpy(), 3)), (divmod(17, x), divmod(17, x.numpy()))):
        assert [t.tolist() for t in ours] == [a.tolist() for a in array]
    assert burn.array_equal(x, [7, -7, 5]).item() and not burn.array_equal(x, [7, -7]).item()
    assert burn.array_equal([1.0], [1]).item() and burn.array_equal([], []).item()
    nan = burn.tensor([float("nan"), 1.0])
    assert not burn.array_equal(nan, nan).item() and burn.array_equal(nan, nan, equal_nan=True).item()
    with pytest.raises(TypeMismatch, match="known to agree"):
        burn.compile(lambda a, b: a.array_equal(b), ("int64[n]", "int64[m]"))
    assert [t.shape[0] for t in burn.arange(7).array_split(3)] == [3, 2, 2]


@pytest.mark.parametrize("count", range(9))
def test_array_split_of_a_size_that_data_says(count: int) -> None:
    indices = np.flatnonzero(np.arange(8) < count)
    ours = burn.tensor(np.arange(8) < count).nonzero()[0].array_split(3)
    for mine, numpys in zip(ours, np.array_split(indices, 3), strict=True):
        assert mine.tolist() == numpys.tolist()


def test_operands_at_the_ends_of_their_range() -> None:
    for dtype, low, high in (
        ("uint8", 0, 255),
        ("int8", -128, 127),
        ("uint64", 0, 2**64 - 1),
        ("int64", -(2**63), 2**63 - 1),
    ):
        x = burn.zeros(2, dtype=dtype)
        assert (x + low).tolist() == [low] * 2 and (x | high).tolist() == [high] * 2, dtype


def test_element_types_by_other_names() -> None:
    assert burn.zeros(2, dtype=np.int32).dtype == "int32" and burn.zeros(2, dtype=float).dtype == "float32"
    assert burn.tensor([1, 2], dtype=bool).dtype == "bool" and burn.ones(2).astype(np.dtype("f2")).dtype == "float16"
    for wrong in ("float33", object, None.__class__):
        with pytest.raises(burn.TypeMismatch, match="no element type"):
            burn.zeros(2, dtype=wrong)
    with pytest.raises(burn.TypeMismatch, match=r"burn\.tensor\(elements\)"):
        burn.Tensor([1.0])


def test_tensors_of_other_libraries_are_operands() -> None:
    torch = pytest.importorskip("torch")
    x = burn.tensor([1.0, 2.0])
    for got in (x + torch.ones(2), torch.ones(2) + x, x.maximum(torch.tensor([0.0, 5.0])) - 0.0):
        assert isinstance(got, burn.Tensor) and got.dtype == "float32"
    assert x.astype(torch.float64).dtype == "float64"


def test_einsum_broadcasts_axes_of_runtime_size_one() -> None:
    contracted = burn.compile(lambda a, b: burn.einsum("ie,ej->ij", a, b), ("float32[i, n]", "float32[m, j]"))
    paired = burn.compile(lambda a, b: burn.einsum("be,be->eb", a, b), ("float32[b, n]", "float32[c, n]"))
    for n, m in ((3, 3), (3, 1), (1, 3), (0, 1), (1, 0)):
        a, b, c, d = draw(2, n), draw(m, 5), draw(n, 4), draw(m, 4)
        np.testing.assert_allclose(contracted(a, b), np.einsum("ie,ej->ij", a, b), rtol=1e-5)
        np.testing.assert_allclose(paired(c, d), np.einsum("be,be->eb", c, d), rtol=1e-5)
    with pytest.raises(RunError, match="does not fit the other operands"):
        contracted(draw(2, 3), draw(4, 5))


def test_with_the_host() -> None:
    x = burn.tensor([1.0, 2.0])
    assert x.device == "cpu"
    for moved in (x.cpu(), x.to("cpu"), x.to_device("cpu"), (x * 2).cpu() / 2):
        np.testing.assert_array_equal(moved.numpy(), [1, 2])
