"""Custom ops as torch's: `bound`, through `torch.library`. Eagerly they run burn's program on CPU tensors."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from burn.custom.foreign import inferred
from burn.custom.signature import Text
from burn.dialect import custom
from burn.dialect.custom import REQUIRED
from burn.dialect.dims import symbol
from burn.dialect.types import TensorType
from burn.errors import Problem, TypeMismatch
from burn.tensors import Tensor, constant

if TYPE_CHECKING:
    from burn.custom.op import CustomOp

BACKWARD = "_backward"
"""Suffix of the op that computes the derivative of another: (cotangents, operands, results) -> cotangents of float operands."""

_KINDS = {bool: "bool", int: "int", float: "float", str: "str"}
_bound: dict[str, Any] = {}


def of_torch(namespace: str, name: str) -> custom.Definition | None:
    """The newest version of the custom op that is torch's namespace::name."""
    for known in custom.names():
        if _torch_name(known) == f"{namespace}::{name}":
            return custom.named(known)
    return None


def _torch_name(name: str) -> str:
    return name.replace(".", "_")


def bound(op: CustomOp) -> Any:
    """torch's op for a custom op, made at the first call. It runs the op's newest version. Raises TypeMismatch for an attribute
    whose type is not known: one without default and annotation."""
    from burn.custom.op import find

    version = op.version
    name = _torch_name(op.name)
    schema = _schema(op)
    key = f"{name}{schema}"
    if key in _bound:
        return _bound[key]
    attributes = ", ".join(_attribute(op, each, default) for each, default in version.attributes.items())
    extra = f", *, {attributes}" if attributes else ""

    def flat(args: Sequence[Any]) -> list[Any]:  # None for an optional operand that the call lacks
        return [x for a in args for x in (a if isinstance(a, (list, tuple)) else [a])]

    def run(*args: Any, **settings: Any) -> Any:
        made = find(op.name)(*(None if x is None else _given(x) for x in flat(args)), **settings)
        tensors = [_taken(t) for t in (made if isinstance(made, tuple) else (made,))]
        return tensors[0] if len(tensors) == 1 else tuple(tensors)

    def fake(*args: Any, **settings: Any) -> Any:
        made = _faked(find(op.name), flat(args), settings)
        return made[0] if len(made) == 1 else tuple(made)

    def derived(cotangents: Any, operands: Any, results: Any, absent: Any, **settings: Any) -> list[torch.Tensor]:
        return _derived(find(op.name), cotangents, operands, results, absent, settings)

    forward = torch.library.custom_op(name, run, mutates_args=(), schema=schema)
    forward.register_fake(fake)
    if op.version.has_derivative:
        back = torch.library.custom_op(
            f"{name}{BACKWARD}",
            derived,
            mutates_args=(),
            schema=f"(Tensor[] cotangents, Tensor[] operands, Tensor[] results, int[] absent{extra}) -> Tensor[]",
        )
        back.register_fake(
            lambda g, xs, ys, absent, **settings: [torch.empty_like(x) for x in xs if x.is_floating_point()]
        )
        _differentiate(forward, back, flat)
    _bound[key] = forward
    return forward


def _differentiate(forward: Any, back: Any, flat: Any) -> None:
    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        given = flat(inputs)
        operands = [x for x in given if x is not None]
        ctx.absent = [number for number, x in enumerate(given) if x is None]
        ctx.save_for_backward(*operands, *outputs)
        ctx.count, ctx.settings = len(operands), dict(keyword_only_inputs or {})
        ctx.groups = [len(a) if isinstance(a, (list, tuple)) else None for a in inputs]

    def backward(ctx: Any, *cotangents: Any) -> Any:
        saved = list(ctx.saved_tensors)
        operands, results = saved[: ctx.count], saved[ctx.count :]
        pairs = [(g, y) for g, y in zip(cotangents, results, strict=True) if y.is_floating_point()]
        given = [torch.zeros_like(y) if g is None else g for g, y in pairs]
        found = iter(back(given, operands, results, ctx.absent, **ctx.settings))
        gradients = iter([next(found) if x.is_floating_point() else None for x in operands])
        count = len(operands) + len(ctx.absent)
        every = iter([None if number in ctx.absent else next(gradients) for number in range(count)])
        made = [next(every) if n is None else [next(every) for _ in range(n)] for n in ctx.groups]
        return made[0] if len(made) == 1 else tuple(made)

    forward.register_autograd(backward, setup_context=setup)


# ---- the schema --------------------------------------------------------------------------------------------------------
def _schema(op: CustomOp) -> str:
    version = op.version
    types = version.types
    names: list[str]
    if isinstance(types, Text):
        names = [f"Tensor? x{i}=None" if p.optional else f"Tensor x{i}" for i, p in enumerate(types.operands)]
        if any(a.optional and not b.optional for a, b in pairwise(types.operands)):
            hint = "optional operands come last for torch"
            raise TypeMismatch(f"{op.name} cannot be bound to torch", [Problem(types.text, op=op.name, hint=hint)])
    elif types.most is None:
        names = ["Tensor[] operands"]
    else:
        names = [f"Tensor x{i}" for i in range(types.least)]
        names += [f"Tensor? x{i}=None" for i in range(types.least, types.most)]
    attributes = [_attribute(op, name, default) for name, default in version.attributes.items()]
    given = ", ".join([*names, *(["*", *attributes] if attributes else [])])
    count = _results(op)
    result = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    return f"({given}) -> {result}"


def _results(op: CustomOp) -> int:
    """How many results it has. A function of types says that for operands, so it is called with ones of a few ranks."""
    types = op.version.types
    if isinstance(types, Text):
        return len(types.results)
    settings = {name: default for name, default in types.attributes.items() if default is not REQUIRED}
    for rank in range(5):
        for dtype in ("float32", "int64"):
            operand = TensorType(dtype, tuple(symbol(f"d{axis}") for axis in range(rank)))
            try:
                return len(types.infer([operand] * max(types.least, 1), settings))
            except TypeMismatch:
                continue
    hint = "write its types as text: burn.custom_op(name, 'T[n], int64[m] -> T[m]')"
    raise TypeMismatch(
        f"{op.name} cannot be bound to torch", [Problem("its number of results is not known", hint=hint)]
    )


def _attribute(op: CustomOp, name: str, default: Any) -> str:
    kind = _kind(op, name, default)
    if default is REQUIRED:
        return f"{kind} {name}"
    written = (
        f'"{default}"' if isinstance(default, str) else str(list(default) if isinstance(default, tuple) else default)
    )
    return f"{kind} {name}={written}"


def _kind(op: CustomOp, name: str, default: Any) -> str:
    if isinstance(default, tuple):
        return "float[]" if any(isinstance(item, float) for item in default) else "int[]"
    if type(default) in _KINDS:
        return _KINDS[type(default)]
    function = getattr(op.version.types, "function", None)
    annotation = inspect.signature(function).parameters[name].annotation if function else None
    for type_, text in _KINDS.items():
        if annotation in (type_, type_.__name__):
            return text
    hint = "give it a default, or an annotation: bool, int, float or str"
    problem = Problem(f"the type of the attribute '{name}' is not known", op=op.name, hint=hint)
    raise TypeMismatch(f"{op.name} cannot be bound to torch", [problem])


# ---- tensors -----------------------------------------------------------------------------------------------------------
def _given(x: torch.Tensor) -> Tensor:
    return constant(x.detach().contiguous())


def _taken(tensor: Tensor) -> torch.Tensor:
    return torch.from_dlpack(tensor).clone()


def _faked(op: CustomOp, operands: Sequence[torch.Tensor | None], settings: dict[str, Any]) -> list[torch.Tensor]:
    """Results without elements. torch's symbolic sizes become named ones."""
    version = op.version.lacking(operands)
    operands = [x for x in operands if x is not None]
    given = [(str(x.dtype).removeprefix("torch."), tuple(x.shape)) for x in operands]
    found = inferred(version, given, settings, lambda have, want: torch._check(have == want))
    device = operands[0].device if operands else None
    return [torch.empty(shape, dtype=getattr(torch, dtype), device=device) for dtype, shape in found]


def _derived(
    op: CustomOp,
    cotangents: Sequence[torch.Tensor],
    operands: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
    absent: Sequence[int],
    settings: dict[str, Any],
) -> list[torch.Tensor]:
    rest = iter(cotangents)
    every = [_given(next(rest)) if y.is_floating_point() else None for y in results]
    given, version = [_given(x) for x in operands], op.version.but(absent)
    found = version.backward(given, [_given(y) for y in results], every, custom.complete(version, settings))
    return [
        torch.zeros_like(x) if g is None else _taken(g)
        for g, x in zip(found, operands, strict=True)
        if x.is_floating_point()
    ]
