"""Triton's interpreter with less work for each launch, and with numbers as on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from burn.dialect.types import numpy_dtype


@contextmanager
def interpreting() -> Iterator[None]:
    """Triton's language is the interpreter's in here, and elsewhere the compiler's."""
    replaced = [(owner, name, vars(owner).get(name, _MISSING), value) for owner, name, value in _replacements()]
    for owner, name, _, value in replaced:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, original, _ in replaced:
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


_MISSING = object()


@cache
def _replacements() -> list[tuple[Any, str, Any]]:
    """The attributes, each as its owner, its name and its value, that differ in the interpreter. It would find them anew for each
    launch and for each call of a function of a kernel, which takes most of the time of small kernels."""
    import triton.experimental.gluon  # it looks at Triton's library when it is imported  # noqa: F401
    import triton.language as tl
    from triton.language import standard
    from triton.language.semantic import TritonSemantic
    from triton.runtime import interpreter
    from triton.runtime.jit import JITFunction

    builder: Any = interpreter.InterpreterBuilder
    create_dot, create_conversion = builder.create_dot, builder.create_fp_to_fp

    def dot(self: Any, a: Any, b: Any, total: Any, *rest: Any) -> Any:
        widened = [interpreter.TensorHandle(_widened(x), total.dtype) for x in (a, b)]
        return create_dot(self, *widened, total, *rest)

    def convert(self: Any, value: Any, to: Any, *rest: Any) -> Any:
        """As the instructions do: the interpreter's own conversion does not know float8_e4m3fn's NaN."""
        if not value.dtype.scalar.is_fp8() or to.scalar not in (tl.float16, tl.float32):
            return create_conversion(self, value, to, *rest)
        kind = np.float16 if to.scalar == tl.float16 else np.float32
        return interpreter.TensorHandle(_widened(value).astype(kind), to.scalar)

    sees_language = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    scope = interpreter._patch_lang(sees_language)
    language = [(owner, name, vars(owner)[name]) for owner, name, _ in scope._changes]
    scope.restore()
    # Triton's own library is compiled if it was imported while the environment did not ask for the interpreter
    library = [
        (owner, name, function)
        for owner in (tl, standard)
        for name, function in vars(owner).items()
        if isinstance(function, JITFunction)
    ]
    made = {id(function): interpreter.InterpretedFunction(function.fn) for _, _, function in library}
    replaced = [
        *language,
        *((owner, name, made[id(function)]) for owner, name, function in library),
        (tl.tuple, "__init__", _fill),
        (tl.tuple, "type", property(_type_of, _set_type)),
        (tl.block_type, "__init__", _shape),
        (tl.block_type, "name", property(lambda self: f"<{self.shape}, {self.element_ty}>")),
        # conditions of assertions, which the interpreter computes and does not check
        (TritonSemantic, "binary_op_sanitize_overflow_impl", lambda self, lhs, rhs, op: None),
        (tl.tensor, "__index__", lambda self: int(self.handle.data.item())),  # int takes only arrays without axes
        (interpreter, "_patch_lang", lambda function: interpreter._LangPatchScope()),
        (interpreter, "_get_np_dtype", _by_name(interpreter._get_np_dtype)),
        (interpreter.ReduceOps, "generic_reduce", _reduce),
        (builder, "create_dot", dot),
        (builder, "create_fp_to_fp", convert),
    ]
    return list({(id(owner), name): (owner, name, value) for owner, name, value in replaced}.values())


def _fill(self: Any, values: Sequence[Any], given: Any = None) -> None:
    """Stands for the constructor of Triton's tuples, which every shape is: their type is made on demand."""
    self.values = list(values)
    if given is not None:
        self.type = given


def _type_of(self: Any) -> Any:
    from triton.language import core

    if "type" not in vars(self):
        vars(self)["type"] = core._type_for_tuple_values(self.values)
    return vars(self)["type"]


def _set_type(self: Any, given: Any) -> None:
    from triton.language import core

    vars(self)["type"] = given if isinstance(given, core.tuple_type) else core.tuple_type(given)


def _shape(self: Any, element: Any, shape: Sequence[Any]) -> None:
    """Stands for the constructor of types of blocks, whose names are made on demand."""
    from triton._utils import validate_block_shape
    from triton.language import core

    sizes = core._unwrap_shape(shape)
    self.element_ty, self.shape, self.numel = element, core.tuple(sizes), validate_block_shape(sizes)
    if not self.shape:
        raise TypeError("0d block_type is forbidden")


def _by_name(kind_of: Callable[[Any], np.dtype]) -> Callable[[Any], np.dtype]:
    """numpy's type of the elements of a type of Triton's, looked up by the name of the element type."""
    import triton.language as tl

    known: dict[str, np.dtype] = {}

    def kind(type_: Any) -> np.dtype:
        element = type_.element_ty if isinstance(type_, tl.block_type) else type_
        if element.name not in known:
            known[element.name] = kind_of(element)
        return known[element.name]

    return kind


def _reduce(self: Any, given: tuple[Any, ...]) -> list[Any]:
    """Stands for the interpreter's `generic_reduce`, which calls the combining function for each single element. Here, as on a
    GPU, neighbours are combined until one is left, in a call for all pairs."""
    from triton.language.core import tensor

    inputs, axis = self.unravel(given, self.axis)
    rows = [np.moveaxis(x.handle.data, axis, 0) for x in inputs]
    while (count := len(rows[0]) // 2 * 2) > 0:
        neighbours = [
            self.to_tensor(row[n:count:2], x.dtype) for n in (0, 1) for row, x in zip(rows, inputs, strict=True)
        ]
        made = self.combine_fn.fn(*neighbours)
        pairs = [x.handle.data if isinstance(x, tensor) else x for x in (made if isinstance(made, tuple) else (made,))]
        rows = [np.concatenate([np.asarray(p, r.dtype), r[count:]]) for p, r in zip(pairs, rows, strict=True)]
    totals = [row[0] for row in rows]
    if self.keep_dims:
        axes = tuple(range(given[0].handle.data.ndim)) if self.axis is None else axis
        totals = [np.expand_dims(total, axes) for total in totals]
    return [
        self.to_tensor(total if total.shape else total.item(), x.dtype) for total, x in zip(totals, inputs, strict=True)
    ]


def _widened(handle: Any) -> np.ndarray:
    """The elements of an interpreter value; it stores bfloat16 and 8-bit floats as bits, and multiplies these."""
    if handle.dtype.is_bf16():
        return (handle.data.astype(np.uint32) << 16).view(np.float32)
    if handle.dtype.is_fp8():
        name = "float8_e4m3fn" if handle.dtype.is_fp8e4nv() else "float8_e5m2"
        return handle.data.view(numpy_dtype(name)).astype(np.float32)
    return handle.data
