"""Random programs of tensors in every test run. BURN_SWEEP=1000 adds so many new ones, in worker processes."""

from __future__ import annotations

import numpy as np
import pytest

import burn
from tests.fuzz.runner import check, sweep
from tests.fuzz.tensors.case import attempt, by_xla, case
from tests.fuzz.tensors.compare import difference
from tests.fuzz.tensors.numpy_side import Numpy
from tests.fuzz.tensors.program import Line, Program
from tests.fuzz.tensors.steps import drafted


@pytest.mark.parametrize("seed", range(12))
def test_programs_agree_with_numpy(seed: int) -> None:
    check(case, seed)


@pytest.mark.parametrize("seed", range(100, 102))
def test_programs_agree_with_numpy_by_xla(seed: int) -> None:
    check(by_xla, seed)


test_more_programs = sweep(case)
test_more_programs_by_xla = sweep(by_xla)


# ---- the harness itself ------------------------------------------------------------------------------------------------
def test_a_seed_is_a_program() -> None:
    texts = [drafted(5, False).program.text(["v0"]) for _ in range(2)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("way", ["lazy", "jit", "named"])
def test_wrong_numbers_are_seen(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(2).standard_normal((4, 6)).astype(np.float32)
    program = Program([array], [Line(("v0",), "m.op('+', x0, 1.0)"), Line(("v1",), "m.sum(v0, 1)")])
    assert attempt(program, ["v1"], way, [([array], "")], None).kind == "ok"
    real = burn.Tensor.__add__
    monkeypatch.setattr(burn.Tensor, "__add__", lambda x, y: real(x, y) * 1.001)
    assert attempt(program, ["v1"], way, [([array], "")], None).kind == "different"


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("m.sort(x0, 0)", [3, np.nan, 1, 2]),
        ("m.log_softmax(x0, 0)", [-300, 0, 1]),
        ("m.count_nonzero(m.log_softmax(x0, 0), None)", [-20, 0]),
        ("m.copysign(1.0 * m.ones(2), m.domain('signed', x0))", [np.nan, -0.0]),
        ("m.row('topk', m.ranked(x0, 2))[0]", [1, np.nan, 3, 2]),
        ("m.row('cosine_similarity', m.ranked(x0, 2), m.ranked(x0, 2))[0]", []),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_reference_says_what_numbers_and_not_libraries_decide(line: str, values: list[float], dtype: str) -> None:
    array = Numpy().astype(np.array(values), dtype)
    outcome = attempt(Program([array], [Line(("v0",), line)]), ["v0"], "lazy", [([array], "")], None)
    assert outcome.kind == "ok", outcome.detail


@pytest.mark.parametrize("line", ["m.row('fft.ifft', m.ranked(x0, 2))[0]", "m.einsum('a,b->b', x0, x0)"])
def test_transforms_and_matmuls_of_infinities_are_not_compared(line: str) -> None:
    array = np.array([1, np.inf], np.float32)
    with pytest.raises(ValueError, match="finite"):
        Program([array], [Line(("v0",), line)]).function(["v0"], Numpy())(array)


def test_noise_decides_nothing_of_what_is_exact() -> None:
    quiet, loud = Numpy(), Numpy(np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    assert np.array_equal(quiet.sort(x, 0), loud.sort(x, 0)) and np.array_equal(quiet.max(x, 1), loud.max(x, 1))
    assert not np.array_equal(quiet.sum(x, 1), loud.sum(x, 1))


def test_what_rounding_decides_is_no_difference() -> None:
    ours, theirs = np.array([1, 2]), np.array([1, 3])
    assert "1 of 2" in difference(ours, theirs, [theirs])
    assert not difference(ours, theirs, [theirs, np.array([1, 2])])
    one, other, near = (np.array([1, x], np.float32) for x in (2, 2.01, 2.00999))
    assert difference(one, other, [near])
    assert "float64" in difference(np.zeros(2), np.zeros(2, np.float32), [])
