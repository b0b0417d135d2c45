"""Random numbers: the distributions, and that keys decide them, in both modes and for any number of threads."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import random
from burn.errors import TypeMismatch

KEY = random.key(20260101)
COUNT = 20_000
Moments = tuple[float, float]


def phi(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


DISTRIBUTIONS: dict[str, tuple[Callable[..., burn.Tensor], Moments, Moments]] = {
    # what draws, (mean, deviation), (lowest, highest)
    "uniform": (lambda **o: random.uniform((COUNT,), low=-1.0, high=3.0, **o), (1.0, 4 / math.sqrt(12)), (-1, 3)),
    "uniform float64": (lambda **o: random.uniform((COUNT,), dtype="float64", **o), (0.5, 1 / math.sqrt(12)), (0, 1)),
    "uniform bfloat16": (lambda **o: random.uniform((COUNT,), dtype="bfloat16", **o), (0.5, 1 / math.sqrt(12)), (0, 1)),
    "normal": (lambda **o: random.normal((COUNT,), mean=2.0, std=3.0, **o), (2.0, 3.0), (-20, 20)),
    "truncated_normal": (lambda **o: random.truncated_normal((COUNT,), **o), (0.0, 0.87962566), (-2, 2)),
    "exponential": (lambda **o: random.exponential((COUNT,), scale=2.0, **o), (2.0, 2.0), (0, 60)),
    "gumbel": (lambda **o: random.gumbel((COUNT,), **o), (0.5772156649, math.pi / math.sqrt(6)), (-5, 30)),
    "randint": (lambda **o: random.randint(-3, 5, (COUNT,), **o), (0.5, math.sqrt(63 / 12)), (-3, 4)),
    "randint uint8": (lambda **o: random.randint(0, 256, (COUNT,), dtype="uint8", **o), (127.5, 73.9), (0, 255)),
    "bernoulli": (lambda **o: random.bernoulli(0.3, (COUNT,), **o), (0.3, math.sqrt(0.21)), (0, 1)),
    "bits": (lambda **o: random.bits((COUNT,), **o) >> 60, (7.5, math.sqrt(255 / 12)), (0, 15)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_moments_and_range(name: str) -> None:
    draw, (mean, deviation), (low, high) = DISTRIBUTIONS[name]
    x = draw(key=KEY).numpy().astype(np.float64)
    assert x.shape == (COUNT,) and low <= x.min() and x.max() <= high and np.isfinite(x).all()
    assert abs(x.mean() - mean) < 5 * deviation / math.sqrt(COUNT)
    assert abs(x.std() / deviation - 1) < 0.05


def test_truncated_normal_has_the_right_shape() -> None:
    x = random.truncated_normal((COUNT,), low=-1.0, high=2.0, key=KEY).numpy()
    for at in (-0.5, 0.0, 1.0):
        want = (phi(at) - phi(-1)) / (phi(2) - phi(-1))
        assert abs((x < at).mean() - want) < 0.02
    with pytest.raises(TypeMismatch, match="low < high"):
        random.truncated_normal((3,), low=2.0, high=1.0)


@pytest.mark.parametrize("name", ["uniform", "normal", "randint", "gumbel"])
def test_a_key_gives_the_same_numbers_traced_and_lazy(name: str) -> None:
    draw = DISTRIBUTIONS[name][0]
    traced = burn.compile(lambda key: draw(key=key), ("uint32[2]",))(KEY.numpy())
    np.testing.assert_array_equal(draw(key=KEY).numpy(), traced)


def test_keys_are_independent() -> None:
    first, second = random.split(KEY)
    keys = [KEY, first, second, random.fold_in(KEY, 0), random.fold_in(KEY, 1), random.key(20260102)]
    draws = np.stack([random.normal((COUNT,), key=k).numpy() for k in keys])
    correlation = np.corrcoef(draws) - np.eye(len(keys))
    assert np.abs(correlation).max() < 5 / math.sqrt(COUNT)
    assert random.split(KEY, 5).shape == (5, 2)
    np.testing.assert_array_equal(random.split(KEY, 5)[1].numpy(), second.numpy())
    np.testing.assert_array_equal(random.fold_in(KEY, burn.constant(1)).numpy(), keys[4].numpy())


def test_the_process_generator() -> None:
    burn.manual_seed(5)
    first = [random.uniform((3,)).tolist() for _ in range(2)]
    burn.random.manual_seed(5)
    assert [random.uniform((3,)).tolist() for _ in range(2)] == first and first[0] != first[1]
    drawn: list[Any] = []
    threads = [threading.Thread(target=lambda: drawn.append(tuple(random.uniform((3,)).tolist()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 6
    for seed in (-1, 2**64, 1.5):
        with pytest.raises(TypeMismatch, match="a seed is"):
            burn.manual_seed(seed)  # type: ignore[arg-type]


def test_a_traced_function_draws_anew_at_every_call() -> None:
    fast = burn.compile(lambda n: (random.normal((COUNT,)) + n, random.normal((COUNT,))), ("float32[]",))
    zero = np.float32(0)
    draws = np.stack([*fast(zero), *fast(zero)])
    assert np.abs(np.corrcoef(draws) - np.eye(4)).max() < 5 / math.sqrt(COUNT)
    for seed in (7, 2**64 - 1):
        fast.seed(seed)
        first, second = fast(zero), fast(zero)
        fast.seed(seed)
        np.testing.assert_array_equal(first, fast(zero))
        np.testing.assert_array_equal(second, fast(zero))
        assert not np.array_equal(first, second)
    with pytest.raises(TypeMismatch, match="a seed is"):
        fast.seed(-1)


def test_the_process_generator_seeds_compiled_functions() -> None:
    @burn.jit
    def noisy(x: burn.Tensor) -> burn.Tensor:
        return x + random.uniform(x.shape)

    x = np.zeros(5, np.float32)
    burn.manual_seed(3)
    first, second = noisy(x), noisy(x)
    burn.manual_seed(3)
    np.testing.assert_array_equal(noisy(x), first)
    assert not np.array_equal(first, second)


def test_draws_in_loops_differ_from_one_iteration_to_the_next() -> None:
    def rows(n: burn.Tensor) -> burn.Tensor:
        def step(carry: burn.Tensor, _: None) -> tuple[burn.Tensor, burn.Tensor]:
            inner = burn.fori_loop(0, 3, lambda i, total: total + random.uniform(()), burn.constant(0.0))
            return carry, burn.stack([random.uniform(()), inner])

        return burn.scan(step, n, length=200)[1]

    drawn = burn.compile(rows, ("float32[]",))(np.float32(0))
    assert len(np.unique(drawn[:, 0])) == len(np.unique(drawn[:, 1])) == 200
    assert abs(drawn[:, 1].mean() - 1.5) < 5 * 0.5 / math.sqrt(200)


def test_a_key_has_its_type() -> None:
    with pytest.raises(TypeMismatch, match=r"uint32\[2\]"):
        random.uniform((3,), key=burn.constant([1, 2]))


def test_permutation_and_choice() -> None:
    order = random.permutation(50, key=KEY)
    assert sorted(order.tolist()) == list(range(50)) != order.tolist()
    x = burn.arange(12).reshape(4, 3)
    assert sorted(map(tuple, random.permutation(x, key=KEY).tolist())) == sorted(map(tuple, x.tolist()))
    chances = [0.1, 0.2, 0.3, 0.4]
    for picked in (random.choice(4, (COUNT,), p=chances, key=KEY), random.choice(burn.arange(4), (COUNT,), p=chances)):
        share = np.bincount(picked.numpy(), minlength=4) / COUNT
        np.testing.assert_allclose(share, chances, atol=0.02)
    assert sorted(random.choice(6, (6,), replace=False, key=KEY).tolist()) == list(range(6))
    assert random.choice(6, (2, 2), replace=False, p=[0.0, 0.5, 0.5, 0.5, 0.5, 0.0]).shape == (2, 2)
    assert random.choice(4, (0,)).shape == (0,)
    with pytest.raises(TypeMismatch, match="not so much to choose from"):
        random.choice(3, (4,), replace=False)
    with pytest.raises(TypeMismatch, match="a probability for each"):
        random.choice(3, (4,), p=[0.5, 0.5])


def test_categorical() -> None:
    chances = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    drawn = random.categorical(burn.constant(np.log(chances)), shape=(COUNT, 2), key=KEY).numpy()
    for row in (0, 1):
        np.testing.assert_allclose(np.bincount(drawn[:, row], minlength=3) / COUNT, chances[row], atol=0.02)
    assert random.categorical(burn.zeros(5, 2, 3), axis=0).shape == (2, 3)
    with pytest.raises(TypeMismatch, match="must end in"):
        random.categorical(burn.zeros(5, 2), shape=(3,))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), 7])
def test_shapes(shape: Any) -> None:
    assert random.normal(shape).shape == (shape if isinstance(shape, tuple) else (shape,))


def test_what_is_refused() -> None:
    for bad in (
        lambda: random.uniform((3,), dtype="int32"),
        lambda: random.randint(5, 5),
        lambda: random.randint(0, 300, dtype="uint8"),
    ):
        with pytest.raises(TypeMismatch):
            bad()
