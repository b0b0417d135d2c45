"""Errors of custom ops name the op, and the user's line where there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn

X = np.arange(4, dtype=np.float32)
LINEAR = burn.nn.Linear(4, 4)
HEAD = '#include "burn_custom.h"\nint f(const burn_custom_call *c) { int64_t n = c->input[0].elements; (void)n; '


def typed(types: Any) -> Any:
    op = burn.custom_op("tests::typed")(types)
    op.python(lambda *xs, **settings: xs[0])
    return op


def in_c(body: str, types: str = "float32[n] -> float32[n]") -> Any:
    return burn.custom_op("tests::inc", types).c(f"{HEAD}{body} }}", "f")


def in_python(function: Any) -> Any:
    op = burn.custom_op("tests::inpython", "float32[n] -> float32[n]")
    op.python(function)
    return op


def in_functions(function: Any) -> Any:
    op = burn.custom_op("tests::infunctions", "float32[n] -> float32[n]")
    op.functions(function)
    op.triton(lambda x, y: [])
    return op


CALLS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "name": (lambda: burn.custom_op("scale"), burn.TypeMismatch, "no name of an op"),
    "no results": (lambda: burn.custom_op("a::b", "T[n]"), burn.TypeMismatch, "names no results"),
    "unknown size": (lambda: burn.custom_op("a::b", "T[n] -> T[m]"), burn.TypeMismatch, r"T\[m\] names"),
    "malformed": (lambda: burn.custom_op("a::b", "T[n -> T[n]"), burn.TypeMismatch, "malformed types"),
    "default": (lambda: typed(lambda x, y=1: x), burn.TypeMismatch, "keyword-only"),
    "no body": (lambda: burn.custom_op("a::b", "T[n] -> T[n]")(X), burn.TypeMismatch, "a::b has no body"),
    "operands": (lambda: typed(lambda x, y: x)(X), burn.TypeMismatch, "takes 2 operands, not 1"),
    "types raise": (lambda: typed(lambda x: x.none)(X), burn.TypeMismatch, "function of types raised AttributeError"),
    "no type": (lambda: typed(lambda x: 3)(X), burn.TypeMismatch, "returned 3 as result 0, which is no type"),
    "bad type": (lambda: typed(lambda x: "float32[")(X), burn.TypeMismatch, r"returned 'float32\['"),
    "attribute": (lambda: typed(lambda x, *, a=1: x)(X, b=1), burn.TypeMismatch, "no attribute 'b'"),
    "attribute's kind": (lambda: typed(lambda x, *, a=1: x)(X, a="1"), burn.TypeMismatch, "it takes int"),
    "attribute's value": (lambda: typed(lambda x, *, a: x)(X, a=X), burn.TypeMismatch, "no number, text or list"),
    "missing attribute": (lambda: typed(lambda x, *, a: x)(X), burn.TypeMismatch, "attribute 'a' is missing"),
    "mixed list": (lambda: typed(lambda x, *, a: x)(X, a=(1, "b")), burn.TypeMismatch, "numbers of one kind"),
    "status": (lambda: in_c("return 7;")(X).numpy(), burn.RunError, r"tests::inc \(test_errors.py:\d+\).*returned 7"),
    "syntax": (lambda: in_c("return 7 +;")(X).numpy(), burn.CompileError, r"test_errors.py:\d+:2:\d+: error: expected"),
    "undefined": (
        lambda: in_c("extern int none(void); return none();")(X).numpy(),
        burn.CompileError,
        "undefined (symbol: none|reference to `none)",
    ),
    "no file": (lambda: in_c("").c(Path("none.c"), "f"), burn.CompileError, "there is no file none.c"),
    "suffix": (lambda: in_c("").c(Path("none.f90"), "f"), burn.CompileError, "the suffix is none of"),
    "language": (lambda: in_c("").c("", "f", language="rust"), burn.CompileError, "'rust' is none of"),
    "a text": (
        lambda: in_c("return 0;", "string[n] -> float32[n]")(np.array(["a"])).numpy(),
        burn.CompileError,
        "tests::inc has an operand or result of string",
    ),
    "result's type": (
        lambda: in_python(lambda x: x.astype(np.float64))(X).numpy(),
        burn.RunError,
        r"test_errors.py:\d+.*returned float64\[4\] as result 0; its types say float32\[4\]",
    ),
    "result's size": (lambda: in_python(lambda x: x[:2])(X).numpy(), burn.RunError, r"returned float32\[2\]"),
    "number of results": (lambda: in_python(lambda x: (x, x))(X).numpy(), burn.RunError, "returned 2 results"),
    "nothing": (lambda: in_python(lambda x: None)(X).numpy(), burn.RunError, "returned nothing"),
    "exception": (lambda: in_python(lambda x: {}["mine"])(X).numpy(), KeyError, "mine"),
    "functions' type": (
        lambda: in_functions(lambda x: x.astype("int32"))(X).numpy(),
        burn.TypeMismatch,
        r"returned int32\[4\] as result 0",
    ),
    "functions' count": (
        lambda: in_functions(lambda x: (x, x))(X).numpy(),
        burn.TypeMismatch,
        "2 results; its types say 1",
    ),
    "random": (
        lambda: in_functions(lambda x: x + burn.random.normal(x.shape))(X).numpy(),
        burn.TypeMismatch,
        "draw random numbers",
    ),
    "parameter": (
        lambda: in_functions(lambda x: LINEAR(x))(X).numpy(),
        burn.TypeMismatch,
        "pass it as an operand",
    ),
    "device": (
        lambda: burn.compile(in_c("return 0;"), ["float32[n]"], device="reference"),
        burn.CompileError,
        r"tests::inc.*it has no body for the target reference, only a function in C",
    ),
    "find": (lambda: burn.custom.find("tests::nowhere"), burn.TypeMismatch, "no custom op 'tests::nowhere'"),
}


@pytest.mark.parametrize("case", list(CALLS))
def test_errors(case: str) -> None:
    call, error, message = CALLS[case]
    with pytest.raises(error, match=f"(?s){message}"):
        call()


BOUNDS = {
    "behind a result": ("((float *)c->output[0].data)[n] = 1;", 1),
    "before a result": ("((float *)c->output[0].data)[-1] = 1;", 1),
    "behind an operand": ("((float *)c->input[0].data)[n + 3] = 1;", 0),
    "an operand": ("((float *)c->input[0].data)[0] = 9;", 0),
}


@pytest.mark.parametrize("case", list(BOUNDS))
def test_writes_out_of_bounds(case: str) -> None:
    body, tensor = BOUNDS[case]
    op = in_c(f"memcpy(c->output[0].data, c->input[0].data, n * 4); {body} return 0;")
    with burn.debug.bounds(), pytest.raises(burn.RunError, match=f"tests::inc.*wrote outside of tensor {tensor}"):
        op(X).numpy()


def test_bounds_leave_right_results_alone() -> None:
    op = in_c("memcpy(c->output[0].data, c->input[0].data, n * 4); return 0;")
    program = burn.compile(lambda x: op(op(x) * 2) + 1, ["float32[n]"])
    for size in (0, 1, 1000):
        x = np.arange(size, dtype=np.float32)
        with burn.debug.bounds(), burn.debug.bounds():
            np.testing.assert_array_equal(program(x), 2 * x + 1)
    silent = in_c("return 0;")
    with burn.debug.bounds():
        assert np.isnan(silent(X).numpy()).all()  # elements that nothing wrote


def test_a_program_with_an_op_of_another_process() -> None:
    from burn.dialect.text import parse_text

    text = """func.func @main(%arg0: tensor<?xf32, ["n"]>) -> tensor<?xf32, ["n"]> {
      %0 = "burn.custom"(%arg0) {called = "tests::elsewhere", key = "00"} : (tensor<?xf32, ["n"]>) -> tensor<?xf32, ["n"]>
      "burn.return"(%0) : (tensor<?xf32, ["n"]>) -> ()
    }"""
    with pytest.raises(burn.BurnError, match="tests::elsewhere is not defined in this process"):
        from burn.compiler import executable

        executable(parse_text(text, file="elsewhere"))
