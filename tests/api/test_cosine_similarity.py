"""`cosine_similarity` of vectors that broadcast, beside torch's."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from burn.errors import TypeMismatch

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 1), -1), ((4,), 0), ((2, 1, 4), 1), ((1,), -3), ((1, 3, 4), 2), ((), 1), ((5, 1, 1, 1), -1)],
)
def test_one_that_is_broadcast_along_the_axis(shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 3, 4)), np.asarray(rng.standard_normal(shape))
    want = torch.nn.functional.cosine_similarity(torch.tensor(a), torch.tensor(b), axis).numpy()
    for one, other in ((a, b), (b, a)):
        got = burn.constant(one).cosine_similarity(burn.constant(other), axis)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_vectors_that_do_not_broadcast() -> None:
    with pytest.raises(TypeMismatch, match="do not broadcast"):
        burn.ones((2, 4)).cosine_similarity(burn.ones((3,)))
