"""Lazy tensors: recording, evaluation, the number of kernels, and the number of compilations."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import burn
from burn import ops
from burn.errors import RunError, TypeMismatch
from burn.lazy import statistics

RANDOM = np.random.default_rng(11)


def draw(*shape: int) -> burn.Tensor:
    return burn.constant(RANDOM.standard_normal(shape, np.float32))


def gelu(x: burn.Tensor) -> burn.Tensor:
    return 0.5 * x * (1 + ops.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def softmax(x: burn.Tensor) -> burn.Tensor:
    exponentials = ops.exp(x - x.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


@pytest.mark.parametrize("function", [gelu, softmax])
def test_a_function_of_several_ops_is_one_kernel(function) -> None:
    x = draw(7, 65)
    assert len(burn.explain(function(x))) == 1
    y = function(x).evaluate()
    assert len(burn.explain(y)) == 1
    wide = x.numpy().astype(np.float64)
    want = {
        "gelu": 0.5 * wide * (1 + np.tanh(0.7978845608 * (wide + 0.044715 * wide**3))),
        "softmax": np.exp(wide) / np.exp(wide).sum(-1, keepdims=True),
    }[function.__name__]
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-6)


def test_nothing_is_computed_before_elements_are_asked_for() -> None:
    x = draw(3, 5)
    before = statistics()
    y = gelu(x)
    assert not y.is_evaluated and y.shape == (3, 5) and y.dtype == "float32"
    assert statistics() == before
    y.numpy()
    assert y.is_evaluated


def test_the_same_structure_is_compiled_once() -> None:
    gelu(draw(3, 11)).evaluate()
    before = statistics()
    for _ in range(5):
        gelu(draw(3, 11)).evaluate()
    after = statistics()
    assert after.compiled == before.compiled and after.hits == before.hits + 5
    gelu(draw(3, 13)).evaluate()
    assert statistics().compiled == after.compiled + 1


def test_numbers_that_change_become_inputs() -> None:
    x = draw(17)
    before = statistics().compiled
    for step in range(1, 12):
        y = x * (1 / step) + 3.0
        np.testing.assert_allclose(y.numpy(), x.numpy() * np.float32(1 / step) + 3, rtol=1e-6)
    assert statistics().compiled == before + 3
    for step in range(1, 5):
        np.testing.assert_array_equal((burn.constant([5, 6]) * 2**60 // step).numpy(), np.array([5, 6]) * 2**60 // step)


def test_what_the_caller_holds_is_kept() -> None:
    x = draw(4, 4)
    middle = x @ x
    y = middle + 1.0
    y.evaluate()
    assert middle.is_evaluated
    np.testing.assert_allclose(y.numpy(), middle.numpy() + 1)
    z = (x @ x) * 2.0
    application = z._value.application
    assert application is not None
    dropped = application.values()[0]
    z.evaluate()
    assert dropped.array is None


def test_both_results_of_an_op_are_computed_together() -> None:
    values, order = ops.sort(draw(9))
    values.evaluate()
    assert order.is_evaluated


def test_captured_tensors_are_constants_of_a_traced_function() -> None:
    weight = draw(5, 3) + 1.0
    run = burn.compile(lambda x: x @ weight, ("float32[n, 5]",))
    x = draw(2, 5)
    got = run(x)
    assert isinstance(got, burn.Tensor)
    np.testing.assert_allclose(got.numpy(), x.numpy() @ weight.numpy(), rtol=1e-5, atol=1e-6)


def test_jit_gives_what_it_was_given() -> None:
    double = burn.jit(lambda x: x * 2.0)
    assert isinstance(double(draw(3)), burn.Tensor)
    assert isinstance(double(np.ones(3, np.float32)), np.ndarray)


def test_a_traced_tensor_is_of_no_use_afterwards() -> None:
    kept = []
    burn.compile(lambda x: kept.append(x) or x + 1.0, ("float32[3]",))
    with pytest.raises(TypeMismatch, match="has ended"):
        _ = kept[0] + 1.0
    with pytest.raises(TypeMismatch, match="has ended"):
        kept[0].numpy()


def test_a_long_history_is_computed_on_the_way() -> None:
    x = burn.constant(np.zeros(3, np.float32))
    for _ in range(2500):
        x = x + 1.0
    np.testing.assert_array_equal(x.numpy(), np.full(3, 2500, np.float32))


def test_sizes_that_the_data_decide() -> None:
    x = burn.constant(np.array([0.0, 2.0, 0.0, 3.0], np.float32))
    order = ops.nonzero(x, count="n")
    assert order.shape == (1, 2)
    np.testing.assert_array_equal(order.numpy(), [[1, 3]])


def test_the_empty_tensor_and_the_scalar() -> None:
    assert (draw(0, 3) + 1.0).numpy().shape == (0, 3)
    assert float(draw(0, 3).sum()) == 0.0
    assert (burn.constant(2.0) * 3.0).item() == 6.0


def test_python_reads_elements() -> None:
    x = burn.constant([[1.5, 2.0], [3.0, 4.0]])
    assert bool((x > 0).all()) and not (x > 2).all()
    assert int(x[0, 1]) == 2 and float(x[1, 0]) == 3.0 and [10, 20, 30][burn.constant(1)] == 20
    assert x.tolist() == [[1.5, 2.0], [3.0, 4.0]]
    assert repr(x) == "tensor([[1.5, 2. ],\n        [3. , 4. ]], dtype=float32)" or "1.5" in repr(x)
    assert [row.sum().item() for row in x] == [3.5, 7.0]
    with pytest.raises(TypeMismatch, match="many elements"):
        bool(x > 0)
    with pytest.raises(TypeMismatch, match="one element"):
        x.item()


def test_errors_are_raised_where_the_op_is_written() -> None:
    with pytest.raises(TypeMismatch, match="one size"):
        _ = draw(2, 3) @ draw(2, 3)
    y = draw(4).take(burn.constant([9]))
    with pytest.raises(RunError, match="index 9 is out of range"):
        y.numpy()


def test_arrays_are_copied_when_recorded_and_results_are_read_only() -> None:
    array = np.ones(4, np.float32)
    y = burn.constant(array) + array
    array[:] = 7
    np.testing.assert_array_equal(y.numpy(), np.full(4, 2, np.float32))
    with pytest.raises(ValueError, match="read-only"):
        y.numpy()[0] = 1


def test_tensors_may_be_shared_by_threads() -> None:
    x = draw(33, 5)
    middle = gelu(x)
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda i=i: results.append((middle * float(i)).numpy())) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    total = sum(r.astype(np.float64) for r in results)
    np.testing.assert_allclose(total, middle.numpy().astype(np.float64) * 15, rtol=1e-5, atol=1e-5)


def test_memory_goes_with_the_last_tensor() -> None:
    x = draw(8)
    y = (x + 1.0).evaluate()
    entry = y._value
    assert entry.application is None  # nothing keeps the history alive
    del y
    gc.collect()
    assert entry.held == 0


def test_explain_of_what_was_compiled_and_of_what_was_not() -> None:
    run = burn.compile(gelu, ("float32[n, 3]",))
    assert len(burn.explain(run)) == 1 and "1 kernel" in str(burn.explain(run))
    matmul = draw(4, 4) @ draw(4, 4)
    assert "128 operations" in str(burn.explain([matmul, matmul + 1.0]))
    with pytest.raises(TypeMismatch, match="made from their elements"):
        burn.explain(draw(3))
    with pytest.raises(TypeMismatch, match="takes lazy tensors"):
        burn.explain(3)


def test_numbers_that_are_equal_and_not_the_same() -> None:
    x = draw(5)
    for zero in (0.0, -0.0, 0.0, -0.0, 0.0):
        signs = np.signbit(burn.full((3,), zero).numpy())
        assert signs.all() == np.signbit(zero)
        padded = ops.pad(x, low=(1,), high=(0,), value=zero).numpy()
        assert np.signbit(padded[0]) == np.signbit(zero)
    before = statistics().compiled
    for _ in range(4):
        (x + float("nan")).evaluate()
    assert statistics().compiled == before + 1


def test_tensors_of_an_ended_trace_are_never_touched() -> None:
    kept: list[burn.Tensor] = []
    keep = burn.jit(lambda x: kept.append(x * 2.0) or x + 1.0)
    keep(draw(2))
    assert repr(kept[0]) == "Tensor(of a traced function that has ended)"
    for touch in (
        lambda: kept[0].shape,
        lambda: draw(2) + kept[0],
        lambda: keep(kept[0]),
        lambda: burn.jit(lambda x: x + kept[0])(draw(2)),
        lambda: kept[0].numpy(),
        lambda: bool(kept[0]),
    ):
        with pytest.raises(TypeMismatch, match="has ended"):
            touch()


def test_unsigned_numbers_that_vary() -> None:
    x = burn.constant(np.array([1, 2], np.uint64))
    for number in (5, 2**64 - 1, 2**64 - 2, 2**64 - 3, 7):
        np.testing.assert_array_equal((x ^ number).numpy(), np.array([1, 2], np.uint64) ^ np.uint64(number))


def test_buffers_are_copied() -> None:
    import array

    numbers = array.array("q", [1, 2, 3])
    x = burn.tensor(numbers)
    numbers[0] = 99
    assert x.tolist() == [1, 2, 3]
