"""Habits of numpy and PyTorch users: numpy's functions on tensors, torch's words for arguments, comparisons, bools, powers."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import TypeMismatch


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-6)


# ---- numpy's functions -------------------------------------------------------------------------------------------------
CALLS = {
    "sum": lambda x: np.sum(x, axis=0, keepdims=True), "mean": lambda x: np.mean(x, 1), "max": np.max, "min": np.min,
    "std": lambda x: np.std(x, axis=1, ddof=1), "var": np.var, "prod": lambda x: np.prod(x, axis=-1),
    "all": lambda x: np.all(x > 0), "any": lambda x: np.any(x > 0, axis=0), "median": lambda x: np.median(x, axis=0),
    "transpose": np.transpose, "transposed": lambda x: np.transpose(x, (1, 0)), "reshape": lambda x: np.reshape(x, (2, 6)),
    "ravelled": lambda x: np.reshape(x, -1), "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "stack": lambda x: np.stack([x, x]), "where": lambda x: np.where(x > 0, x, 0.0), "clip": lambda x: np.clip(x, -1, 1),
    "round": lambda x: np.round(x), "decimals": lambda x: np.round(x, 2), "squeeze": lambda x: np.squeeze(x[None], axis=0),
    "tile": lambda x: np.tile(x, (2, 1)), "pad": lambda x: np.pad(x, 1, constant_values=2.0), "dot": lambda x: np.dot(x, x.T),
    "cumsum": lambda x: np.cumsum(x, axis=1), "sort": lambda x: np.sort(x, axis=0), "argmax": lambda x: np.argmax(x, axis=1),
    "norm": np.linalg.norm, "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "expand_dims": lambda x: np.expand_dims(x, 1), "flip": lambda x: np.flip(x, 0), "zeros_like": np.zeros_like,
    "tril": np.tril, "trace": lambda x: np.trace(x @ x.T), "rfft": lambda x: np.fft.rfft(x).real,
    "typed": lambda x: np.sum(x > 0, dtype="int32"), "copy": np.copy,
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_functions_of_numpy_give_tensors(name: str) -> None:
    x = draw(3, 4)
    got = CALLS[name](burn.constant(x))
    assert isinstance(got, burn.Tensor)
    close(got, CALLS[name](x))
    if name != "rfft":
        close(burn.jit(CALLS[name])(x), CALLS[name](x))


def test_functions_that_ask_for_facts_or_read() -> None:
    x = burn.constant(draw(3, 4))
    assert np.shape(x) == (3, 4) and np.ndim(x) == 2 and np.size(x) == 12
    held = np.zeros((3, 4), np.float32)
    np.copyto(held, x)
    close(held, x)
    show: Any = np.array2string
    assert "[[" in show(x)


def test_functions_that_burn_has_not_are_refused_by_name() -> None:
    x = burn.constant(draw(3, 4))
    with pytest.raises(TypeMismatch, match=r"numpy's unwrap(.|\n)*np\.unwrap\(x\.numpy\(\)\)"):
        np.unwrap(x)
    with pytest.raises(TypeMismatch, match=r"numpy's sum takes other arguments(.|\n)*where"):
        np.sum(x, where=np.ones((3, 4), bool))


def test_arrays_are_added_to_in_place() -> None:
    array, x = draw(3, 4), burn.constant(draw(3, 4))
    want, same = array + x.numpy(), array
    array += x
    assert array is same
    close(array, want)
    array -= x
    array *= x
    close(array, draw(3, 4) * x.numpy())
    np.exp(x, out=array)
    close(array, np.exp(x.numpy()))
    whole = np.zeros((3, 4), np.int64)
    with pytest.raises(TypeError):
        whole += x


# ---- torch's words -----------------------------------------------------------------------------------------------------
def test_dim_is_axis_and_keepdim_is_keepdims() -> None:
    x: Any = burn.constant(draw(3, 4))  # their signatures name axis and keepdims alone
    close(x.sum(dim=0, keepdim=True), x.numpy().sum(0, keepdims=True))
    softmax: Any = burn.softmax
    close(softmax(x, dim=1), x.softmax(1))
    concat: Any = burn.concat
    close(concat([x, x], dim=1), np.concatenate([x.numpy()] * 2, 1))
    close(x.argmax(dim=-1), x.numpy().argmax(-1))
    close(x.transpose(dim0=0, dim1=1), x.numpy().T)
    close(x.std(0, correction=1), x.numpy().std(0, ddof=1))
    with pytest.raises(TypeError, match="both 'dim' and 'axis'"):
        x.sum(dim=0, axis=0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        x.sum(dimension=0)


def test_names_that_torch_users_look_for() -> None:
    x = burn.constant(draw(3, 4))
    close(x.t(), x.numpy().T)
    close(x[0].t(), x.numpy()[0])
    assert all((other == x).all() for other in (x.clone(), x.detach(), x.contiguous()))
    slope = burn.grad(lambda x: (x * x.detach() * 2).sum())(x)
    close(slope, 2 * x.numpy())
    close(round(x), np.round(x.numpy()))
    close(round(x, 1), np.round(x.numpy(), 1))
    with pytest.raises(TypeMismatch, match="t is of matrices"):
        x[None].t()


# ---- comparisons -------------------------------------------------------------------------------------------------------
def test_none_and_text_equal_no_tensor() -> None:
    x = burn.constant(draw(3))
    assert (x == None) is False and (x != None) is True  # noqa: E711
    assert (x == "a") is False
    assert x in [None, x] and None not in [x]


def test_element_types_equal_those_of_numpy_and_python() -> None:
    x = burn.constant(draw(3))
    assert x.dtype == np.float32 and np.float32 == x.dtype and x.dtype == np.dtype("float32") and x.dtype == "float32"
    assert x.dtype != np.float64 and x.dtype != "float64" and x.dtype != int and x.dtype != 3 and x.dtype is not None
    assert x.int().dtype == int and (x > 0).dtype == bool and (x > 0).dtype in (np.bool_, np.int8)
    table: dict[str, int] = {x.dtype: 1}
    assert table["float32"] == 1 and isinstance(x.dtype, str) and f"{x.dtype}" == "float32"
    assert pickle.loads(pickle.dumps(x.dtype)) == "float32"


# ---- bools and powers --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("symbol", ["+", "*", "/", "//", "%", "**"])
@pytest.mark.parametrize("traced", [False, True])
def test_arithmetic_of_bools_is_numpys(symbol: str, traced: bool) -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    if symbol in ("/", "//", "%"):
        b = np.ones(4, bool)

    def f(x: Any, y: Any) -> Any:
        return eval(f"x {symbol} y")

    got = burn.jit(f)(a, b) if traced else f(burn.constant(a), burn.constant(b)).numpy()
    want = f(a, b)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == (np.float32 if symbol == "/" else want.dtype)


def test_bools_are_not_subtracted() -> None:
    x = burn.constant([True, False])
    with pytest.raises(TypeError, match="bools are not subtracted"):
        _ = x - x


def test_integers_to_negative_powers() -> None:
    x: Any = burn.constant([1, 2])
    for exponent in (-1, np.array([1, -1]), np.int64(-2)):
        with pytest.raises(ValueError, match="negative powers"):
            _ = x**exponent
        with pytest.raises(ValueError, match="negative powers"):
            burn.compile(lambda y, e=exponent: y**e, ("int64[2]",))
    close(x.float() ** -1, [1, 0.5])
    close(x ** np.array([2, 3]), [1, 8])


def test_sums_of_small_integers_do_not_wrap() -> None:
    x = np.full(1000, 255, np.uint8)
    assert burn.constant(x).sum().item() == 255_000 and burn.jit(lambda y: y.sum())(x) == 255_000
    for dtype in ("uint8", "int8", "uint32", "int32", "bool"):
        y = np.ones(3, dtype)
        for name in ("sum", "prod", "cumsum", "cumprod"):
            assert getattr(burn.constant(y), name)().dtype == getattr(np, name)(y).dtype


# ---- masks -------------------------------------------------------------------------------------------------------------
X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
MASKS = {
    "short": np.ones(2, bool), "long": np.ones(4, bool), "plane": np.ones((3, 3), bool), "turned": np.ones((4, 3), bool),
    "cube": np.ones((3, 4, 1), bool),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("as_tensor", [False, True])
def test_masks_of_the_wrong_length(name: str, as_tensor: bool) -> None:
    mask = MASKS[name]
    with pytest.raises(IndexError):
        X[mask]
    given = burn.constant(mask) if as_tensor else mask
    for use in (
        lambda x, m: x[m],
        lambda x, m: x.at[m].set(0.0),
        lambda x, m: x.at[m].add(x[:1].ravel()[:1]),
    ):
        with pytest.raises(IndexError):
            use(burn.constant(X), given)
        with pytest.raises(IndexError):
            burn.compile(lambda x, u=use: u(x, burn.constant(mask)), ("float32[3, 4]",))
        named = (
            burn.compile(lambda x, m, u=use: u(x, m), ("float32[a, b]", f"bool[{', '.join('cde'[: mask.ndim])}]"))
            if (mask.ndim <= 2)
            else None
        )
        if named is not None:
            with pytest.raises(burn.BurnError):
                named(X, mask)


def test_masks_stand_for_the_axes_that_they_are_beside() -> None:
    x, rows, columns = burn.constant(X), np.array([True, False, True]), np.array([True, False, False, True])
    for index in (
        rows,
        (slice(None), columns),
        (..., columns),
        (None, rows),
        (rows, 1),
        (0, columns),
        (rows, slice(1, 3)),
    ):
        close(x[index], X[index])
    for index in (columns, (slice(None), rows), (..., rows), (None, columns), (0, rows)):
        with pytest.raises(IndexError):
            x[index]
    run = burn.compile(lambda x, m: x[:, m], ("float32[a, b]", "bool[c]"))
    close(run(X, columns), X[:, columns])
    with pytest.raises(burn.RunError, match="a mask of"):
        run(X, rows)
