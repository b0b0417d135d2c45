"""`burn.vmap`: functions of one example become functions of a batch of examples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from burn.dialect.batching.rules import Item, moved
from burn.dialect.batching.walk import RANDOMNESS
from burn.dialect.compose import check_size
from burn.dialect.copies import Copies
from burn.dialect.deferred import Value, make_kin
from burn.dialect.dims import Dim, decide
from burn.errors import Problem, TypeMismatch
from burn.tensors import Tensor, constant, trees
from burn.tensors.base import made
from burn.tracing.foreign import explained
from burn.transforms.region import batched

Axes: TypeAlias = Any
"""An axis, None for values that all examples share, or a container of them in the structure of the arguments."""


def vmap(
    function: Callable[..., Any], in_axes: Axes = 0, out_axes: Axes = 0, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Maps a function of one example over an axis of its arguments: all examples are computed by one batched program.

        predictions = burn.vmap(model)(images)                                   # [B, 28, 28] -> [B, 10]
        gradients = burn.vmap(burn.grad(loss), in_axes=(None, 0, 0))(w, xs, ys)  # a gradient for each example

    in_axes: the mapped axis of each positional argument, negative ones from the end; None for an argument that all examples share
    (modules are always shared). An argument that is a container takes one axis for all its tensors, or a container of axes. The
    function sees tensors without the mapped axis. Keyword arguments are mapped over axis 0. out_axes: the mapped axis of the
    results, in the same form; None requires a result that all examples share. All mapped axes have one size, which may be 0 or
    symbolic.

    vmap, `grad`, `jit`, `cond`, `scan` and the other functions of burn combine in any order. A condition that differs between
    examples makes both branches of `cond` run for all of them, and a loop run until it has ended for each of them.

    randomness: draws without a key raise an error ("error"), give each example numbers of its own ("different"), or give all
    examples the same ("same"). Draws with a key depend on the key alone, so that mapped keys give each example its own.

    Raises TypeMismatch for arguments that do not fit, for an op that cannot be mapped (the error names the op and the line), and
    if the function assigns parameters."""
    if randomness not in RANDOMNESS:
        raise TypeMismatch(f"randomness is not {randomness!r}", [f"it is one of {', '.join(RANDOMNESS)}"])
    _axes_only(in_axes, "in_axes")
    _axes_only(out_axes, "out_axes")

    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = trees.flatten((args, kwargs))
        axes = _of_arguments(in_axes, args, kwargs, structure)
        names = [path.split(".", 1)[1] if "." in path else path for path in trees.paths(structure)]
        tensors = [leaf if axis is None else constant(leaf) for leaf, axis in zip(leaves, axes, strict=True)]
        rows = [(n, t, a) for n, t, a in zip(names, tensors, axes, strict=True) if a is not None]
        operands = [Item(moved(t.value, _within(a, t.ndim, n, t), 0), True) for n, t, a in rows]
        size = _common([(n, t.type.shape[a]) for n, t, a in rows])
        structures: list[trees.Structure] = []

        def one(values: Sequence[Any], copies: Copies) -> list[Value]:
            own = iter(values)
            given = [t if axis is None else Tensor(next(own)) for t, axis in zip(tensors, axes, strict=True)]
            positional, named = trees.unflatten(structure, given)
            with explained(function):
                result = function(*positional, **named)
            found, of_result = trees.flatten(result, lambda v: trees.is_leaf(v) or isinstance(v, bool))
            structures[:] = [of_result]
            return [constant(leaf).value for leaf in found]

        results = batched(one, operands, size, randomness)
        (of_result,) = structures
        wanted = _matched(out_axes, of_result, "out_axes", "the result")
        outputs = zip(trees.paths(of_result), results, wanted, strict=True)
        values = [_placed(item, axis, size, path) for path, item, axis in outputs]
        make_kin(values)
        return trees.unflatten(of_result, map(made, values))

    return functools.update_wrapper(mapped, function, updated=())


# ---- axes --------------------------------------------------------------------------------------------------------------
def _is_axis(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _axes_only(axes: Axes, name: str) -> None:
    structure = trees.flatten(axes, _is_axis)[1]
    stack = [structure]
    while stack:
        part = stack.pop()
        if isinstance(part, trees.Node):
            stack += part.children
        elif isinstance(part, trees.Fixed):
            raise TypeMismatch(f"{name} are integers and None", [f"not {part.value!r}"])


def _of_arguments(
    in_axes: Axes, args: tuple[Any, ...], kwargs: dict[str, Any], structure: trees.Structure
) -> list[int | None]:
    """The mapped axis of each leaf of (args, kwargs)."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise TypeMismatch("in_axes has an axis for each positional argument", [f"{len(in_axes)} for {len(args)}"])
    assert isinstance(structure, trees.Node)
    positional, named = structure.children
    assert isinstance(positional, trees.Node)
    found: list[int | None] = []
    for i, (argument, part) in enumerate(zip(args, positional.children, strict=True)):
        own = in_axes[i] if isinstance(in_axes, tuple) else in_axes
        if own is not None and hasattr(argument, "named_parameters"):
            hint = "give None for it in in_axes, or map a function that uses it from outside"
            raise TypeMismatch("a module is shared by all examples", [Problem(f"argument {i} is one", hint=hint)])
        found += _matched(own, part, f"in_axes of argument {i}", f"argument {i}")
    return found + [0] * len(trees.paths(named))


def _matched(axes: Axes, structure: trees.Structure, name: str, what: str) -> list[int | None]:
    """The axis of each leaf of a structure. One axis goes for all leaves of a container."""
    given, own = trees.flatten(axes, _is_axis)
    rest = iter(given)

    def match(part: trees.Structure, of: trees.Structure) -> list[int | None]:
        if isinstance(part, trees.Leaf):
            return [next(rest)] * len(trees.paths(of))
        assert isinstance(part, trees.Node)
        fits = isinstance(of, trees.Node) and len(of.children) == len(part.children) and set(of.keys) == set(part.keys)
        if not fits:
            raise TypeMismatch(f"{name} have another structure than {what}", [f"{axes!r}, at '{_path(of)}'"])
        assert isinstance(of, trees.Node)
        if not of.keys:
            return [axis for pair in zip(part.children, of.children, strict=True) for axis in match(*pair)]
        by_key = {
            key: match(child, of.children[of.keys.index(key)])
            for key, child in zip(part.keys, part.children, strict=True)
        }
        return [axis for key in of.keys for axis in by_key[key]]

    return match(own, structure)


def _path(structure: trees.Structure) -> str:
    found = trees.paths(structure)
    return found[0] if found else "a value without tensors"


def _within(axis: int, rank: int, name: str, tensor: Tensor) -> int:
    if not -rank <= axis < rank:
        raise TypeMismatch(
            "burn.vmap maps an axis that is not there", [f"axis {axis} of argument {name}, {tensor.type}"]
        )
    return axis % rank


def _common(sizes: Sequence[tuple[str, Dim]]) -> Dim:
    """The size of all mapped axes."""
    if not sizes:
        raise TypeMismatch("burn.vmap maps no argument", ["in_axes names no axis of a tensor"])
    size = sizes[0][1]
    if any(decide(n, "==", size) is False for _, n in sizes):
        raise TypeMismatch("the mapped axes differ in size", [f"{name}: {n}" for name, n in sizes])
    for name, n in sizes[1:]:
        check_size(n, "==", size, f"burn.vmap maps axes of one size, argument {name} among them")
    return next((n for _, n in sizes if isinstance(n, int)), size)


def _placed(item: Item, axis: int | None, size: Dim, path: str) -> Value:
    """A result with the mapped axis where `out_axes` says."""
    if axis is None:
        if item.mapped:
            raise TypeMismatch(
                "out_axes is None for a result that differs between examples",
                [f"{path or 'the result'} is {item.type}"],
            )
        return item.value
    rank = item.type.rank + 1
    if not -rank <= axis < rank:
        raise TypeMismatch(
            "out_axes names an axis that is not there", [f"axis {axis} of {rank}{path and f', at {path}'}"]
        )
    return moved(item.all(size), 0, axis % rank)
