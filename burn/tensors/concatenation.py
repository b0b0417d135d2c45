"""Functions of several tensors: concatenation, stacking, selection, Einstein sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burn.dialect import einsum as sums
from burn.dialect import ops as build
from burn.errors import TypeMismatch
from burn.tensors.base import Base, axis_number, made
from burn.tensors.promotion import Operand, constant, lift, together

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

MOST = 64
"""Number of tensors in one concat of recorded tensors. Longer lists are concatenated in groups, whose programs
have one structure for any length of the list."""


def _common(tensors: Sequence[Any], name: str) -> list[Tensor]:
    """The tensors in one element type."""
    if isinstance(tensors, Base):
        raise TypeMismatch(f"{name} takes its tensors as one list", [f"write burn.{name}([x, y])"])
    given = list(tensors)
    if not given:
        raise TypeMismatch(f"{name} needs at least one tensor")
    return together(*(constant(t) for t in given))


def concat(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors one after another along an axis; their other sizes are the same."""
    parts = _common(tensors, "concat")
    first = parts[0]
    if not first.ndim:
        raise TypeMismatch("concat is of tensors with axes", [f"not of {first.type}; see stack"])
    position = first._present_axis(axis)
    rest = [t.type.shape[:position] + t.type.shape[position + 1 :] for t in parts]
    for part, sizes in zip(parts, rest, strict=True):
        if part.ndim != first.ndim or any(
            a != b and isinstance(a, int) and isinstance(b, int) for a, b in zip(sizes, rest[0], strict=True)
        ):
            raise TypeMismatch(
                f"concat joins axis {axis}; the other sizes agree", [f"not {first.type} and {part.type}"]
            )
    while len(parts) > MOST and not any(p.is_traced for p in parts):
        groups = [parts[i : i + MOST] for i in range(0, len(parts), MOST)]
        parts = [_joined(group, position).evaluate() for group in groups]
    return _joined(parts, position)


concatenate = cat = concat


def _joined(parts: Sequence[Tensor], position: int) -> Tensor:
    return parts[0] if len(parts) == 1 else made(build.concat([t.value for t in parts], axis=position))


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors of one shape, one after another along a new axis."""
    parts = _common(tensors, "stack")
    position = axis_number(axis)
    position += parts[0].ndim + 1 if position < 0 else 0
    shapes = {t.type.shape for t in parts}
    if len(shapes) > 1:
        raise TypeMismatch("stack is of tensors of one shape", [f"not {', '.join(str(t.type) for t in parts[:8])}"])
    return concat([t.unsqueeze(position) for t in parts], position)


def hstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors side by side: along the second axis, vectors along their only one."""
    parts = [t if t.ndim else t.reshape(1) for t in _common(tensors, "hstack")]
    return concat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors one below another: along the first axis, vectors as rows."""
    parts = [t if t.ndim >= 2 else t.reshape(1, t.type.elements) for t in _common(tensors, "vstack")]
    return concat(parts, 0)


def where(condition: Any, on_true: Operand, on_false: Operand) -> Tensor:
    """`on_true` where the condition is true, `on_false` elsewhere; the three broadcast."""
    return lift(condition, "bool").where(on_true, on_false)


def einsum(equation: str, *operands: Any) -> Tensor:
    """Einstein summation: `einsum("bij,bjk->bik", x, y)`, with "..." and repeated labels as in numpy.
    Raises TypeMismatch for an invalid equation, or one that does not fit the operands."""
    if not isinstance(equation, str):
        raise TypeMismatch(
            "einsum takes an equation first", [f"a text such as 'ij,jk->ik', not a {type(equation).__name__}"]
        )
    tensors = _common(operands, "einsum")
    try:
        return made(sums.einsum(equation, [t.value for t in tensors]))
    except sums.Malformed as error:
        raise TypeMismatch(f"einsum: {error}", [f"'{equation}' of {', '.join(str(t.type) for t in tensors)}"]) from None
