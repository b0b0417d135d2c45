"""Tensors from nothing and from other libraries: what the table cannot say."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn.errors import TypeMismatch


def test_shapes_by_arguments_or_as_one() -> None:
    assert burn.zeros(2, 3).shape == burn.zeros((2, 3)).shape == burn.zeros([2, 3]).shape == (2, 3)
    assert burn.ones().shape == () and burn.zeros(0, 4).shape == (0, 4)
    assert (
        burn.full(3, True).dtype == "bool"
        and burn.full((), 2).dtype == "int64"
        and burn.full(2, 0.5).dtype == "float32"
    )
    assert burn.full((2, 2), burn.constant(3.0)).tolist() == [[3, 3], [3, 3]]
    assert burn.full((), 2**63, "uint64").item() == 2**63


def test_arange_of_fractions() -> None:
    np.testing.assert_allclose(burn.arange(0.0, 1.0, 0.1).numpy(), np.arange(0.0, 1.0, 0.1), rtol=1e-6)
    assert burn.arange(5).dtype == "int64" and burn.arange(5.0).dtype == "float32"
    assert burn.arange(3, 3).shape == burn.arange(3, 1).shape == (0,)
    assert burn.arange(4, dtype="uint8").dtype == "uint8"


def test_from_dlpack_shares_memory_with_torch() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool):
        source = torch.arange(6).reshape(2, 3).to(dtype)
        x = burn.from_dlpack(source)
        assert x.dtype == str(dtype).removeprefix("torch.") and x.shape == (2, 3)
        assert x.numpy().__array_interface__["data"][0] == source.data_ptr() if dtype != torch.bfloat16 else True
        back = torch.from_dlpack(x)
        assert back.data_ptr() == source.data_ptr() and back.dtype == dtype and bool((back == source).all())
        assert torch.equal(torch.from_dlpack(burn.asarray(source) * 1 if dtype != torch.bool else x), source)
    turned = torch.arange(6).reshape(2, 3).T
    assert burn.from_dlpack(turned).tolist() == turned.tolist()  # not in row-major order: copied
    with pytest.raises(TypeMismatch, match="__dlpack__"):
        burn.from_dlpack([1, 2])
    with pytest.raises(TypeMismatch, match="cannot be taken over"):
        burn.from_dlpack(torch.ones(2, requires_grad=True))


def test_asarray_copies_numpy_and_takes_lists() -> None:
    array = np.ones(3, np.float32)
    x = burn.asarray(array)
    array[0] = 9
    assert x.tolist() == [1, 1, 1]
    assert burn.asarray([[1, 2], [3, 4]], "float16").dtype == "float16"
    y = burn.asarray(x)
    y[0] = 5
    assert x.tolist() == [1, 1, 1]


def test_one_hot_and_grids() -> None:
    assert burn.one_hot([0, 2], 3).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert [g.shape for g in burn.meshgrid(burn.arange(2), burn.arange(3))] == [(3, 2), (3, 2)]


@pytest.mark.parametrize(
    "bad",
    [
        lambda: burn.zeros(-1), lambda: burn.zeros(1.5), lambda: burn.zeros(2, dtype="float33"), lambda: burn.arange(0, 3, 0),
        lambda: burn.one_hot([0.5], 2), lambda: burn.meshgrid([1], indexing="yx"), lambda: burn.full(2, 1.5, "int32"),
        lambda: burn.constant([[1], [2, 3]]), lambda: burn.constant("text", "float32"),
    ],
)  # fmt: skip
def test_what_is_refused(bad) -> None:
    with pytest.raises(TypeMismatch):
        bad()


def test_sizes_may_be_symbolic() -> None:
    def function(x: burn.Tensor) -> list[burn.Tensor]:
        n = x.shape[0]
        return [burn.zeros(n, 2), burn.arange(n * 2), burn.eye(n), burn.linspace(0.0, 1.0, n), burn.full((n,), n)]

    run = burn.compile(function, ("float32[n]",))
    for n in (0, 1, 5):
        zeros, row, eye, line, sizes = run(np.ones(n, np.float32))
        assert zeros.shape == (n, 2) and row.tolist() == list(range(2 * n)) and sizes.tolist() == [n] * n
        np.testing.assert_array_equal(eye, np.eye(n))
        np.testing.assert_allclose(line, np.linspace(0, 1, n), atol=1e-6)
