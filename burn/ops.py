"""`burn.ops.<name>`: every op of the dialect as a function of tensors, made from its class.

    y = ops.softmax(x, axis=-1)
    z = ops.select(x > 0, x, 0.0)           # a number takes the element type of the tensors beside it

Operands go by position or name, attributes by name. An op's docstring gives its meaning, shapes and attributes.
Names that Python keeps for itself end in an underscore (`and_`).
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable
from typing import Any

from burn.dialect.mlir import context
from burn.dialect.op import REGISTRY, Op
from burn.dialect.types import type_of
from burn.tensors import Tensor, lift, rounded

STRUCTURAL = frozenset(
    {
        "return",
        "yield",
        "group",
        "if",
        "loop",
        "weight",
        "read_dim",
        "check_size",
        "debug_print",
        "debug_call",
        "check_finite",
        "custom",
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "collective_broadcast",
        "collective_wait",
    }
)
"""Ops that are not functions of tensors: see burn.cond, burn.loop, burn.read_dim, burn.check_size, burn.debug,
burn.custom_op, burn.nn.Parameter and burn.Mesh."""

NUMBERS_LIKE: dict[str, tuple[str, ...]] = {"select": ("on_true", "on_false")}
"""Operands whose element type numbers take, where these are not all of the op's operands."""

INDICES = ("indices",)
"""Operands that are int64 when they are given as numbers."""


ELEMENTS: dict[str, tuple[str, ...]] = {
    "layer_norm": ("epsilon",), "rms_norm": ("epsilon",), "batch_norm": ("epsilon",), "instance_norm": ("epsilon",),
    "group_norm": ("epsilon",), "leaky_relu": ("alpha",), "elu": ("alpha",), "celu": ("alpha",),
    "selu": ("alpha", "gamma"), "hard_sigmoid": ("alpha", "beta"), "thresholded_relu": ("alpha",), "silu": ("alpha",),
}  # fmt: skip
"""Attributes that are a number of the tensor's own element type (16-bit floats: of float32, in which they are computed), and
are rounded to it as other numbers are."""


def names() -> list[str]:
    """Every function here, sorted."""
    context()
    return sorted(_spelled(name) for name in REGISTRY if name not in STRUCTURAL)


def _spelled(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)
    context()
    plain = name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name
    if plain not in REGISTRY or plain in STRUCTURAL:
        raise AttributeError(f"there is no burn.ops.{name}")
    function = globals()[name] = _function(name, REGISTRY[plain])
    return function


def __dir__() -> list[str]:
    return names()


def _function(name: str, cls: type[Op]) -> Callable[..., Any]:
    keys = [key for key, _ in cls.OPERANDS]

    def function(*operands: Any, **attributes: Any) -> Any:
        if len(operands) > len(keys):
            cls.fail(f"takes {len(keys)} operands by position ({', '.join(keys)}), not {len(operands)}")
        given = dict(zip(keys, operands, strict=False))
        for key in keys:
            if key in attributes:
                if key in given:
                    cls.fail(f"operand '{key}' is given both by position and by name")
                given[key] = attributes.pop(key)
        context()
        values = _lifted(cls, given)
        for name in ELEMENTS.get(cls.OP_NAME, ()):
            if hasattr(attributes.get(name), "__float__"):  # the op refuses others
                attributes[name] = element(attributes[name], type_of(values[0]).dtype)
        result = cls.build(*values, **attributes)
        return tuple(map(Tensor, result)) if isinstance(result, list) else Tensor(result)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = inspect.cleandoc(cls.__doc__ or "")
    function.__signature__ = _signature(cls)  # type: ignore[attr-defined]
    return function


def element(value: float, dtype: str) -> float:
    """A number as a tensor of the type reckons with it."""
    return rounded(float(value), "float64" if dtype == "float64" else "float32")


def _lifted(cls: type[Op], given: dict[str, Any]) -> list[Any]:
    """The operands as the builder takes them."""
    wanted = NUMBERS_LIKE.get(cls.OP_NAME, [key for key, _ in cls.OPERANDS])
    like = None
    for key in wanted:
        group = given.get(key)
        for operand in group if isinstance(group, (list, tuple)) else [group]:
            if like is None and isinstance(operand, Tensor):
                like = operand.dtype
    values = []
    for key, kind in cls.OPERANDS:
        operand = given.get(key)
        if kind == "variadic":
            if isinstance(operand, Tensor) or not isinstance(operand, (list, tuple)):
                cls.fail(f"operand '{key}' is a list of tensors")
            values.append([lift(each, like).value for each in operand])
        elif operand is None:
            values.append(None)
        else:
            values.append(lift(operand, "int64" if key in INDICES else like).value)
    return values


def _signature(cls: type[Op]) -> inspect.Signature:
    kinds = {"single": (inspect.Parameter.empty, "Tensor"), "optional": (None, "Tensor | None")}
    kinds["variadic"] = (inspect.Parameter.empty, "Sequence[Tensor]")
    parameters = []
    for key, kind in cls.OPERANDS:
        default, annotation = kinds[kind]
        parameters.append((key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default, annotation))
    for attr in cls.ATTRS.values():
        default = inspect.Parameter.empty if attr.required else attr.default
        parameters.append((attr.name, inspect.Parameter.KEYWORD_ONLY, default, attr.annotation))
    # An optional operand before one that must be given can have no default in a signature.
    seen_default = False
    made = []
    for index, (key, kind, default, annotation) in enumerate(parameters):
        later = any(
            d is inspect.Parameter.empty
            for _, k, d, _ in parameters[index + 1 :]
            if k is inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
        if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and (later and not seen_default):
            default = inspect.Parameter.empty
        made.append(inspect.Parameter(key, kind, default=default, annotation=annotation))
    return inspect.Signature(made, return_annotation="Tensor")
