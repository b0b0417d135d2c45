"""Short code is made of programs that do little work whatever comes, and of no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import burn
from burn.codegen.cpu.target import host_target
from burn.codegen.host import object as object_file
from burn.codegen.host.compilation_cache import Recent
from burn.compiler import compile_program, executable
from burn.options import Options
from burn.runtime.host import features
from burn.tracing.trace import trace

pytestmark = pytest.mark.untuned

GIVEN: dict[str, tuple[Callable[..., burn.Tensor], dict[str, str], bool]] = {
    "a little": (lambda x: (x + 1).exp(), {"x": "float32[4, 5]"}, True),
    "in a branch": (lambda x: burn.cond(x.sum() > 0, lambda: x @ x, lambda: x), {"x": "float32[5, 5]"}, True),
    "many elements": (lambda x: (x + 1).exp(), {"x": "float32[40, 500]"}, False),
    "much in a branch": (lambda x: burn.cond(x.sum() > 0, lambda: x @ x, lambda: x), {"x": "float32[40, 40]"}, False),
    "a product of many steps": (lambda x: x @ x, {"x": "float32[24, 24]"}, False),
    "any number of elements": (lambda x: (x + 1).exp(), {"x": "float32[n]"}, False),
    "many times": (lambda x: burn.fori_loop(0, 10**6, lambda i, s: s * 0.5, x), {"x": "float32[4]"}, False),
}


@pytest.mark.parametrize("case", GIVEN)
def test_what_is_brief(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function, inputs, brief = GIVEN[case]
    monkeypatch.setenv("BURN_DUMP_MLIR", str(tmp_path / "text"))
    executable(trace(function, inputs))
    assert ("optsize" in (tmp_path / "text").read_text()) is brief


SAME: dict[str, Callable[[burn.Tensor], burn.Tensor]] = {
    "contraction": lambda x: (x @ x.T).softmax(-1),
    "normalised": lambda x: burn.gelu((x - x.mean(-1, keepdims=True)) * burn.rsqrt(x.var(-1, keepdims=True) + 1e-5)),
    "reductions": lambda x: burn.tanh(x.max(0) - x.min(0)) + x.sum(0) / burn.sqrt((x * x).sum(0)),
    "scans and sorts": lambda x: burn.sort(burn.cumsum(x, 0), 0) + burn.flip(x, (1,)),
    "integers": lambda x: ((x * 100).astype("int32") // 7 % 5).astype("float16").astype("float32") ** 2.0,
    "moved": lambda x: burn.concatenate([burn.pad(x[:, ::2], ((0, 0), (1, 2))), x], axis=1).astype("float64").T,
    "special": lambda x: burn.log(x) + 1.0 / burn.floor(x) + burn.where(x > 1, burn.erf(x), burn.sin(x)),
}


@pytest.mark.parametrize("case", SAME)
def test_short_code_computes_the_same(case: str) -> None:
    """The same bits without LLVM's IR passes as with them, which a program of any number of rows has."""
    x = np.linspace(-3, 3, 143, dtype=np.float32).reshape(11, 13)
    short, general = (executable(trace(SAME[case], {"x": f"float32[{n}, 13]"})) for n in (11, "n"))
    np.testing.assert_array_equal(np.asarray(short(x)), np.asarray(general(x)))


def _keeps_tiles() -> bool:
    """Code with tile registers is always optimized: LLVM allocates them in a pass."""
    return host_target(features()).tiles


@pytest.mark.parametrize("case", SAME)
def test_compile_time_gives_the_same_bits(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[int] = []
    compiled = object_file._compiled
    monkeypatch.setattr(object_file, "_compiled", lambda code, *how: levels.append(how[0]) or compiled(code, *how))
    monkeypatch.setattr(object_file, "_recent", Recent(1 << 20))
    x = np.linspace(-3, 3, 143, dtype=np.float32).reshape(11, 13)
    program = trace(SAME[case], {"x": "float32[n, 13]"})
    goals = ("none", "compile-time", "speed")
    none, fast, optimised = (executable(program.copy(), Options(optimize=goal)) for goal in goals)
    assert levels[-1] == 3 and levels.count(0) >= (1 if _keeps_tiles() else 2)
    np.testing.assert_array_equal(np.asarray(fast(x)), np.asarray(optimised(x)))
    np.testing.assert_array_equal(np.asarray(none(x)), np.asarray(optimised(x)))


@pytest.mark.skipif(_keeps_tiles(), reason="the CPU has tile registers")
def test_none_marks_functions_as_unoptimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function, beside no request for short code, which LLVM refuses. Text for other compilers has no such mark."""
    texts: list[str] = []
    compiled = object_file._compiled
    monkeypatch.setattr(
        object_file, "_compiled", lambda code, *how: texts.append("\n".join(code)) or compiled(code, *how)
    )
    monkeypatch.setattr(object_file, "_recent", Recent(1 << 20))
    for rows in ("2", "n"):  # a brief program, and one that might not be
        executable(trace(lambda x: burn.tanh(x) + 1, {"x": f"float32[{rows}, 13]"}), Options(optimize="none"))
    for text in texts:
        functions = [line for line in text.splitlines() if "passthrough = [" in line]
        assert functions and all(
            '"optnone"' in line and "size" not in line.split("passthrough")[1] for line in functions
        )
    assert len(texts) == 2
    text = compile_program(trace(lambda x: x + 1, {"x": "float32[n]"}), Options(optimize="none", as_text=True)).code
    assert b"optnone" not in text
