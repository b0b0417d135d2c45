"""`burn.associative_scan`: all prefixes of a reduction, in a logarithmic number of batched steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burn.errors import TypeMismatch
from burn.tensors.concatenation import concat
from burn.tensors.promotion import constant
from burn.tensors.tensor import Tensor
from burn.tensors.trees import flatten, unflatten

Leaves = list[Tensor]


def associative_scan(function: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """The running reduction of `elems` along `axis` by an associative function: element i of the result combines elements 0 to i.
    With `reverse`, it combines the last to i, in this order.

    function(a, b) combines two stacks of elements of equal shapes, a before b, index by index along `axis`. It is an elementwise
    function, or one that `burn.vmap` maps. elems is a tensor or a container of tensors whose `axis` has one size n, a number. The
    function is called O(log n) times on O(n) elements in all; `burn.scan` has n steps. Raises TypeMismatch if the sizes differ or
    are symbolic, or if the function changes structure, shape or element type. Source: Blelloch, Prefix sums and their
    applications (1990)."""
    leaves, structure = flatten(elems)
    given = [constant(leaf) for leaf in leaves]
    if not given:
        raise TypeMismatch("burn.associative_scan scans tensors", ["elems holds none"])
    axes = [t._present_axis(axis) for t in given]
    sizes = [t.type.shape[a] for t, a in zip(given, axes, strict=True) if t.ndim]
    if len(sizes) < len(given) or any(n != sizes[0] for n in sizes) or not isinstance(sizes[0], int):
        raise TypeMismatch(
            "burn.associative_scan goes over axes of one size, a number", [f"not {list(map(str, sizes))}"]
        )

    def combined(a: Leaves, b: Leaves) -> Leaves:
        found, own = flatten(function(unflatten(structure, a), unflatten(structure, b)))
        results = [constant(leaf) for leaf in found]
        if own != structure:
            raise TypeMismatch(
                "the function of burn.associative_scan returns another structure", [f"{own}, not {structure}"]
            )
        wrong = [f"{y.type}, not {x.type}" for x, y in zip(a, results, strict=True) if x.type != y.type]
        if wrong:
            raise TypeMismatch("the function of burn.associative_scan keeps shapes and element types", wrong)
        return results

    def part(xs: Leaves, start: int, stop: int | None, step: int = 1) -> Leaves:
        return [x[(*(slice(None),) * a, slice(start, stop, step))] for x, a in zip(xs, axes, strict=True)]

    def scanned(xs: Leaves, n: int) -> Leaves:
        """Pairs are combined and scanned; elements between them follow from the pair before."""
        if n < 2:
            return xs
        pairs = n // 2
        odd = scanned(combined(part(xs, 0, 2 * pairs, 2), part(xs, 1, 2 * pairs, 2)), pairs)
        rest = (n - 1) // 2  # even elements after the first
        even = part(xs, 0, 1)
        if rest:
            later = combined(part(odd, 0, rest), part(xs, 2, None, 2))
            even = [concat([a, b], i) for a, b, i in zip(even, later, axes, strict=True)]
        return [_interleaved(a, b, i, n) for a, b, i in zip(even, odd, axes, strict=True)]

    given = [x.flip(a) if reverse else x for x, a in zip(given, axes, strict=True)]
    results = scanned(given, sizes[0])
    return unflatten(structure, [x.flip(a) if reverse else x for x, a in zip(results, axes, strict=True)])


def _interleaved(even: Tensor, odd: Tensor, axis: int, n: int) -> Tensor:
    """even[0], odd[0], even[1] ... along an axis of n elements."""
    count = n // 2
    rest = even[(*(slice(None),) * axis, slice(count, None))]  # one more if n is odd
    pair = [x[(*(slice(None),) * axis, slice(0, count))].unsqueeze(axis + 1) for x in (even, odd)]
    shape = even.type.shape
    joined = concat(pair, axis + 1).reshape(*shape[:axis], 2 * count, *shape[axis + 1 :])
    return concat([joined, rest], axis) if n % 2 else joined
