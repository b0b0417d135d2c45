"""Tensors as arrays of the standard: namespace, devices, assignment of elements."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import TypeMismatch

xp = burn.array_api


def test_the_namespace() -> None:
    x = burn.ones(2)
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="no version 2020"):
        x.__array_namespace__(api_version="2020.01")
    found = []
    burn.jit(lambda t: found.append(t.__array_namespace__()) or xp.exp(t))(x)
    assert found == [xp]


def test_inspection() -> None:
    info = xp.__array_namespace_info__()
    assert info.default_device() in info.devices() and "cpu" in info.devices()
    assert info.default_dtypes()["real floating"] == xp.float32 == xp.zeros(2).dtype
    assert list(info.dtypes(kind="signed integer")) == ["int8", "int16", "int32", "int64"]
    assert {**info.dtypes(kind=("bool", "complex floating"))}.keys() == {"bool", "complex64", "complex128"}
    with pytest.raises(ValueError, match="no kind 'float'"):
        info.dtypes(kind="float")


def test_devices() -> None:
    x = xp.asarray([1.0], device="cpu")
    assert x.to_device(x.device).device == "cpu" and xp.zeros_like(x, device=x.device).shape == (1,)
    with pytest.raises(TypeMismatch, match="no stream"):
        x.to_device("cpu", stream=1)  # type: ignore[arg-type]
    with pytest.raises(TypeMismatch, match="takes a device"):
        x.to_device("float32")


def test_asarray_copies() -> None:
    array = np.zeros(3, np.float32)
    same, copied, shared = xp.asarray(array), xp.asarray(array, copy=True), xp.asarray(array, copy=False)
    array[0] = 5
    assert same.tolist() == copied.tolist() == [0, 0, 0] and shared.tolist() == [5, 0, 0]
    for wrong in (np.zeros((3, 2)).T, [1.0], 1.0):
        with pytest.raises(ValueError, match="cop"):
            xp.asarray(wrong, copy=False)
    with pytest.raises(ValueError, match="needs a copy"):
        xp.asarray(array, dtype=xp.float64, copy=False)
    x = burn.ones(2)
    y = xp.asarray(x, copy=True)
    y[0] = 3.0
    assert x.tolist() == [1, 1]


def test_dlpack() -> None:
    x = xp.arange(6)
    assert np.array_equal(np.from_dlpack(x), np.arange(6))
    assert xp.from_dlpack(np.ones(2)).dtype == xp.float64
    own = np.zeros(2)
    taken = xp.from_dlpack(own, copy=True)
    own[0] = 1
    assert taken.tolist() == [0, 0]


# ---- x[i] = v -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, 7.0), (-1, [1.0, 2.0, 3.0]), ((slice(None), 1), 0.0), (..., 2.0),
        ((slice(0, 2), slice(None, None, 2)), np.ones((2, 2))),
        (np.array([True, False, True, False]), 5.0), ([0, 2], np.arange(6.0).reshape(2, 3)), (slice(4, 4), 1.0), ((1, 2), -1.0),
    ],
)  # fmt: skip
def test_assigned_elements(index: Any, value: Any) -> None:
    want = np.arange(12.0).reshape(4, 3)
    x = burn.tensor(want)
    part, other, copies = x[:2], x + 0, (copy.copy(x), copy.deepcopy(x), x.clone(), +x, burn.tensor(x))
    same = x
    x[burn.tensor(index) if isinstance(index, np.ndarray) else index] = value
    before = want.copy()
    want[index] = value
    assert np.array_equal(x, want) and same is x and x.dtype == "float64"
    assert np.array_equal(part, before[:2]) and all(np.array_equal(c, before) for c in (other, *copies))


@pytest.mark.parametrize("value", [1.5, [1.5, 2.5], [1, 2.0], [1j, 0]])
def test_lists_are_held_or_refused_as_numbers_are(value: Any) -> None:
    x = burn.tensor([1, 2, 3])
    with pytest.raises(TypeMismatch, match="does not take"):
        x[0:2] = value
    assert x.tolist() == [1, 2, 3]
    x[0:2] = [7, 8]
    flags = burn.tensor([True, False])
    with pytest.raises(TypeMismatch, match="does not take"):
        flags[:] = [2, 0]
    flags[:] = [False, True]
    assert x.tolist() == [7, 8, 3] and flags.tolist() == [False, True]


def test_a_mask_of_a_tensor_assigns() -> None:
    x = burn.tensor([1.0, -2.0, 3.0, -4.0])
    x[x < 0] = 0.0
    x[x > 2] = burn.tensor([9.0])
    assert x.tolist() == [1, 0, 9, 0]


def test_element_types_of_assigned_values() -> None:
    x = burn.tensor([1, 2, 3], dtype="int32")
    x[0] = burn.tensor(5, dtype="int8")
    assert x.tolist() == [5, 2, 3]
    for wrong in (1.5, burn.tensor(1.0), burn.tensor(1, dtype="int64")):
        with pytest.raises(TypeMismatch, match="int32 does not take"):
            x[1] = wrong


def test_results_that_share_elements_with_an_operand_stay() -> None:
    """Functions that return their operand unchanged return another tensor."""
    x = burn.ones(3)
    others = [
        x.clone(), x.detach(), x.contiguous(), x.cpu(), x.to("cpu"), x.astype("float32"), x.reshape(3), x.real, x.conj(),
        x.permute(0), x.broadcast_to(3), x.relu().maximum(0.0), burn.asarray(x), burn.stop_gradient(x), x[...], x[:],
        x.squeeze(), x.ravel(), burn.concat([x]), xp.positive(x), xp.astype(x, xp.float32), x.roll(0), x.t(), x.tile(1),
        burn.cond(True, lambda t: t, lambda t: t, x), burn.broadcast_tensors(x)[0], x.floor(), x.round(), x.clip(None, 5.0),
        x.nan_to_num(), x.pad(0), x.flip(()),
    ]  # fmt: skip
    x[:] = 0.0
    assert [o.tolist() for o in others] == [[1.0] * 3] * len(others)


def test_recorded_operations_keep_the_old_elements() -> None:
    x = burn.ones(3).evaluate()
    y = x * 2
    x[0] = 5.0
    z = x * 2
    x[1] = 7.0
    assert (y.tolist(), z.tolist(), x.tolist()) == ([2, 2, 2], [10, 2, 2], [5, 7, 1])


def test_in_a_traced_function() -> None:
    def function(x: burn.Tensor) -> burn.Tensor:
        y = x * 2
        y[1:] = x[0]
        return y

    assert burn.jit(function)(burn.tensor([1.0, 2.0, 3.0])).tolist() == [2, 1, 1]
    assert burn.compile(function, ("float32[n]",))(burn.tensor([1.0, 2.0, 3.0])).tolist() == [2, 1, 1]
    assert burn.grad(lambda x: (function(x) * burn.tensor([1.0, 10.0, 100.0])).sum())(burn.ones(3)).tolist() == [
        112,
        0,
        0,
    ]


def _argument(x: burn.Tensor) -> burn.Tensor:
    x[0] = 1.0
    return x


def _outside(x: burn.Tensor) -> burn.Tensor:
    constant = burn.ones(3).evaluate() if OUTSIDE is None else OUTSIDE
    constant[0] = x[0]
    return constant


def _in_a_region(x: burn.Tensor) -> burn.Tensor:
    y = x + 1

    def body(i: burn.Tensor, total: burn.Tensor) -> burn.Tensor:
        y[0] = total[0]
        return total + y

    return burn.fori_loop(0, 3, body, x)


OUTSIDE = burn.ones(3)


@pytest.mark.parametrize(
    ("function", "says"),
    [(_argument, "arguments of a traced"), (_outside, "code around"), (_in_a_region, "code around")],
)
def test_tensors_that_others_see_are_refused(function: Any, says: str) -> None:
    with pytest.raises(TypeMismatch, match=says) as caught:
        burn.jit(function)(burn.ones(3))
    assert "clone" in str(caught.value)
    assert OUTSIDE.tolist() == [1, 1, 1]


def test_a_parameter_is_assigned_as_a_whole() -> None:
    with pytest.raises(TypeMismatch, match="as a whole"):
        nn.Linear(2, 2).bias[0] = 1.0


def test_a_module_with_a_changed_tensor_is_compiled_anew() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = burn.tensor([1.0, 2.0])

        def forward(self, x: burn.Tensor) -> burn.Tensor:
            return x * self.scale

    model = Scaled()
    run = burn.jit(model)
    assert run(burn.ones(2)).tolist() == [1, 2]
    model.scale[0] = 5.0
    assert run(burn.ones(2)).tolist() == [5, 2]


# ---- element types --------------------------------------------------------------------------------------------------------
def test_promotion_with_numbers() -> None:
    assert xp.result_type(xp.float64, 1) == xp.float64
    assert xp.result_type(xp.ones(2, dtype=xp.int8), xp.int16, 3) == xp.int16
    with pytest.raises(TypeMismatch, match="at least one"):
        xp.result_type(1.0)
    assert not xp.can_cast(xp.uint64, xp.int64) and xp.can_cast(xp.int8, xp.int16)


def test_a_variance_with_a_fraction_as_correction() -> None:
    x = np.random.default_rng(0).standard_normal((4, 5))
    want = x.var(1) * 5 / 3.5
    np.testing.assert_allclose(xp.var(xp.asarray(x), axis=1, correction=1.5).numpy(), want, rtol=1e-12)
    by_name = burn.compile(lambda x: x.var(1, ddof=1.5), ("float64[n, m]",))
    np.testing.assert_allclose(by_name(x), want, rtol=1e-12)
