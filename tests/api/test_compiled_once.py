"""The disk cache of `burn.compile` and `burn.jit`: what is the same is compiled once, what differs in anything is not."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import burn
from burn import nn
from burn.dialect.weights import MappedFile, Weight, array_weight, mapped_weight
from burn.errors import InputError
from burn.runtime.cache import CacheWarning

pytestmark = pytest.mark.usefixtures("own_cache")

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)


def compilations(make: Callable[[], Any]) -> tuple[Any, int]:
    before = burn.compile_count()
    made = make()
    return made, burn.compile_count() - before


def matmul(w: np.ndarray, **options: Any) -> Any:
    return burn.compile(lambda x: x @ w, {"x": X}, **options)


def test_the_same_program_is_compiled_once(own_cache: Path) -> None:
    first, count = compilations(lambda: matmul(W))
    assert count >= 1  # constant folding also compiles
    second, count = compilations(lambda: matmul(W.copy()))
    assert count == 0
    for run in (first, second):
        np.testing.assert_allclose(run(X), X @ W, rtol=1e-5)
    assert compilations(lambda: matmul(W, cache=False))[1] >= 1
    assert all(stat.S_IMODE(os.stat(file).st_mode) == 0o600 for file in own_cache.rglob("*.burn"))


def test_what_differs_is_another_program() -> None:
    matmul(W)
    changed = W.copy()
    changed[-1, -1] += 1
    run, count = compilations(lambda: matmul(changed))
    assert count >= 1
    np.testing.assert_allclose(run(X), X @ changed, rtol=1e-5)
    variants: list[Callable[[], Any]] = [
        lambda: burn.compile(lambda y: y @ W, {"y": X}),
        lambda: burn.compile(lambda x: {"named": x @ W}, {"x": X}),
        lambda: matmul(W, dynamic={"x": {0: "n"}}),
        lambda: matmul(W, dynamic={"x": {0: "m"}}),
        lambda: matmul(W, target="generic"),
        lambda: burn.compile(lambda x: x @ W, {"x": "float16[2, 3]"}),
        lambda: burn.compile(lambda x: x + 1.0, {"x": X}),
        lambda: burn.compile(lambda x: x + np.nextafter(np.float32(1), np.float32(2)), {"x": X}),
        lambda: burn.compile(lambda x: x + 1.0, {"x": X}, donate=["x"]),
        lambda: burn.compile(lambda x, y: x + 1.0, {"x": X, "y": X}, donate=["x"]),
        lambda: burn.compile(lambda x, y: x + 1.0, {"x": X, "y": X}, donate=["y"]),
    ]
    for again in (False, True):
        for make in variants:
            assert (compilations(make)[1] == 0) == again
    assert matmul(W, dynamic={"x": {0: "m"}}).inputs[0].dims == ("m", 3)
    assert burn.compile(lambda x: {"named": x @ W}, {"x": X}).outputs[0].name == "named"


def test_what_is_given_up_is_remembered() -> None:
    for _ in range(2):
        run = burn.compile(lambda x, y: x * 2.0 + y, {"x": X, "y": X}, donate=["x"])
        with pytest.raises(InputError, match="'x' is donated but shares memory"):
            run(X, X)


def test_jitted_functions() -> None:
    layer = nn.Linear(3, 40)

    def run() -> np.ndarray:
        return np.asarray(burn.jit(layer)(X))

    first, count = compilations(run)
    assert count >= 1
    second, count = compilations(run)
    assert count == 0
    np.testing.assert_array_equal(first, second)
    layer.weight.assign(layer.weight.numpy() + 1)
    third, count = compilations(run)
    assert count >= 1
    np.testing.assert_allclose(third, X @ layer.weight.numpy().T + layer.bias.numpy(), rtol=1e-4, atol=1e-5)


def test_torch_modules() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(3, 40).eval()
    example = (torch.from_numpy(X),)
    counts = []
    for change in (0, 0, 1):
        with torch.no_grad():
            module.weight.add_(change)
            run, count = compilations(lambda: burn.compile(module, example))
            torch.testing.assert_close(run(*example), module(*example))
        counts.append(count > 0)
    assert counts == [True, False, True]


def test_a_damaged_entry_is_compiled_again(own_cache: Path) -> None:
    matmul(W)
    for file in own_cache.rglob("*.burn"):
        file.write_bytes(file.read_bytes()[:-1000])
        file.chmod(0o600)
    with pytest.warns(CacheWarning, match="damaged"):
        run, count = compilations(lambda: matmul(W))
    assert count >= 1
    np.testing.assert_allclose(run(X), X @ W, rtol=1e-5)


# ---- what stands for a constant --------------------------------------------------------------------------------------
def test_equal_constants_have_equal_digests(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"head" + W.tobytes())
    mapped = mapped_weight(MappedFile(tmp_path / "w"), 4, W.nbytes, "float32", W.shape)
    wide = np.zeros((3, 80), np.float32)
    wide[:, ::2] = W
    same = [array_weight(W), mapped, Weight("float32", W.shape, memoryview(W.tobytes())), array_weight(wide[:, ::2])]
    assert len({w.digest() for w in same}) == 1


def test_different_constants_have_different_digests() -> None:
    small = np.arange(4, dtype=np.int8)
    given = [
        *(small.astype(t) for t in ("int8", "uint8", "bool", "float32", ml_dtypes.bfloat16, np.float16)),
        small.reshape(2, 2),
        small.reshape(1, 4),
        small[::-1],
        np.zeros((0, 4), np.int8),
        np.zeros((4, 0), np.int8),
        np.array(1, np.int8),
        np.array([1], np.int8),
        *(np.array(words, object) for words in (["a", "b"], ["a, b"], ["ab", ""], ["a'", "'b"], [b"a", b"b"])),
    ]
    digests = {array_weight(array).digest() for array in given}
    digests |= {Weight("int4", (n,), memoryview(b"\1"), packed=True).digest() for n in (1, 2)}
    assert len(digests) == len(given) + 2
