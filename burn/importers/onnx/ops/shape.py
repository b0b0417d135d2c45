"""Shapes and arrangement: views, transpositions, joining, cutting, repeating, padding.

Where sizes, bounds or axes are known while importing (folding) they become numbers and symbolic sizes of the
program. Where they come from data, the same is worked out on small integer tensors, and the resulting sizes are read
when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, check_size, dim_value, number, reshape, transpose
from burn.dialect.dims import Dim, Symbol, decide, dim_min, exact_div, floordiv, product, symbol, terms
from burn.dialect.mlir import ir
from burn.dialect.types import broadcast_shapes, type_of
from burn.importers.onnx.folding import slice_of_shape
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.runtime import as_int64, axis_mask, integers, known_axes, length, read_sizes, sizes_kept

MOST_OPTIONS = 64
"""Sets of axes that a Squeeze without axes may take away."""


@onnx_op("Shape")
def shape(node: Node) -> ir.Value:
    return ops.dim_values(dims=node.type(0).shape[slice_of_shape(node)])


@onnx_op("Size")
def size(node: Node) -> ir.Value:
    return ops.dim_values(dims=(node.type_only(0).elements,), scalar=True)


# ---- views -----------------------------------------------------------------------------------------------------------


@onnx_op("Reshape")
def reshape_(node: Node) -> ir.Value:
    x = node.required(0)
    if node.opset < 5:
        return reshape(x, _target(node, node.ints("shape")))
    target = node.dims(1)
    if target is None:
        return reshape(x, _runtime_target(node))
    shape = _target(node, target)
    if not node.int("allowzero", 0) and node.gives_output(0):
        _check_zeros(node, target)
    return reshape(x, shape)


def _check_zeros(node: Node, target: Sequence[Dim]) -> None:
    """Adds runtime checks for a zero in a target of named sizes. ONNX reads such a 0 as the operand's size at that axis. Next to
    a -1 or another 0, this gives a different shape with as many elements, and the run fails. Only outputs of the model are
    checked: other shapes hold no elements, and the later sizes follow the names."""
    shape = node.type(0).shape
    for i, size in enumerate(target):
        if isinstance(size, int) or i >= len(shape) or decide(size, ">=", 1) or _zero_with(shape[i], size):
            continue
        others = product(d for j, d in enumerate(target) if j != i)
        if others != 0 and -1 not in target and decide(others, ">=", 1):
            continue  # the shape that 0 stands for has more elements than there are
        least = dim_min(shape[i], 1) if -1 in target else dim_min(shape[i], 1) - dim_min(others, 1)
        says = f"size {i} of the target, {size}, is 0, which means size {i} of {node.type(0)}"
        check_size(dim_min(size, 1), ">=", least, says)


def _target(node: Node, target: Sequence[Dim]) -> tuple[Dim, ...]:
    """0 keeps the operand's size (unless `allowzero`), one -1 takes what is left."""
    x = node.type(0)
    result: list[Dim] = list(target)
    if not node.int("allowzero", 0):
        for i, d in enumerate(result):
            if d == 0:
                if i >= x.rank:
                    node.fail(f"size 0 at index {i} keeps a size that {x} does not have")
                result[i] = x.shape[i]
    inferred = [i for i, d in enumerate(result) if d == -1]
    if len(inferred) > 1 or any(isinstance(d, int) and d < -1 for d in result):
        node.fail(f"[{', '.join(map(str, target))}] is not a shape")
    if inferred:
        rest = product(d for d in result if d != -1)
        total = x.elements
        if rest == 0:
            node.fail(f"the size left open in [{', '.join(map(str, target))}] is not determined")
        whole = exact_div(total, rest)
        if whole is None and isinstance(total, int) and isinstance(rest, int):
            node.fail(f"{total} elements of {x} do not fill [{', '.join(map(str, target))}]")
        result[inferred[0]] = floordiv(total, rest) if whole is None else whole
    return tuple(result)


def _runtime_target(node: Node) -> tuple[Dim, ...]:
    x = node.type(0)
    count = length(node, 1)
    sizes = as_int64(node, 1)
    if not node.int("allowzero", 0):
        own = list(x.shape[:count]) + [0] * (count - x.rank)
        sizes = ops.select(ops.eq(sizes, number(0, "int64")), integers(node, own), sizes)
    left_open = ops.eq(sizes, number(-1, "int64"))
    given = ops.reduce(ops.select(left_open, number(1, "int64"), sizes), kind="prod", axes=(0,))
    rest = ops.div(dim_value(x.elements), given)
    return read_sizes(node, ops.select(left_open, rest, sizes))


def _zero_with(dim: Dim, size: Dim) -> bool:
    """True if `dim` is 0 whenever `size` is, as far as its monomials show."""
    monomials = [monomial for monomial, _ in terms(size)]
    names = monomials[0] if len(monomials) == 1 else ()
    return bool(names) and all(isinstance(n, Symbol) and exact_div(dim, symbol(n.name)) is not None for n in names)


@onnx_op("Flatten")
def flatten(node: Node) -> ir.Value:
    x = node.type(0)
    axis = node.int("axis", 1)
    axis = x.rank if axis == x.rank else node.axis(axis, max(x.rank, 1))
    return reshape(node.required(0), (product(x.shape[:axis]), product(x.shape[axis:])))


@onnx_op("Squeeze")
def squeeze(node: Node) -> ir.Value:
    x = node.type(0)
    if node.opset < 13:
        axes = node.ints("axes", None)
    elif node.has_input(1):
        axes = known_axes(node, 1)
        if axes is None:
            kept = _kept_sizes(node, 1, list(x.shape))
            return reshape(node.required(0), kept)
    else:
        axes = None
    if axes is None:
        at = _ones(node)
    else:
        at = node.axes(axes, x.rank)
        if wrong := [i for i in at if isinstance(x.shape[i], int) and x.shape[i] != 1]:
            node.fail(f"axis {wrong[0]} of {x} is not of size 1", "axes")
    return reshape(node.required(0), tuple(d for i, d in enumerate(x.shape) if i not in at))


def _ones(node: Node) -> tuple[int, ...]:
    """The axes that Squeeze removes if it names none: all of size 1. Axes of varying size are removed as far as the declared rank
    requires it, first those whose names the declaration drops. Without a declaration none are, or those that later nodes require.
    Every run checks that the removed sizes are 1 and the others are not."""
    x = node.type(0)
    certain = {i for i, d in enumerate(x.shape) if d == 1}
    varying = [i for i, d in enumerate(x.shape) if not isinstance(d, int)]
    if not varying:
        return tuple(sorted(certain))
    options = [set(chosen) for count in range(len(varying) + 1) for chosen in combinations(varying, count)][
        :MOST_OPTIONS
    ]
    declared = node.declared(0)
    if declared is not None:
        names = {d.dim_param for d in declared.dim}
        fit = [dropped for dropped in options if len(certain | dropped) == x.rank - len(declared.dim)]
        options = sorted(fit, key=lambda dropped: sum(str(x.shape[i]) in names for i in dropped)) or options
    dropped = options[node.pick(len(options))]
    for i in varying:
        is_one = i in dropped
        says = f"Squeeze without axes takes away {'' if is_one else 'no '}axis {i} of {x}: a program's ranks are fixed"
        check_size(x.shape[i], "==" if is_one else "!=", 1, f"{says}. Give the size to burn.load as dims=")
    return tuple(sorted(certain | dropped))


def _kept_sizes(node: Node, index: int, dims: list[Dim]) -> tuple[Dim, ...]:
    """The sizes of those axes that an operand does not list, read at run time."""
    chosen = axis_mask(node, node.required(index), len(dims))
    count = len(dims) - length(node, index)
    if count < 0:
        node.fail(f"there are more axes in operand {index} than in {node.type(0)}")
    return read_sizes(node, sizes_kept(integers(node, dims), chosen, count))


@onnx_op("Unsqueeze")
def unsqueeze(node: Node) -> ir.Value:
    x = node.type(0)
    axes = node.ints("axes") if node.opset < 13 else known_axes(node, 1)
    if axes is None:
        rank = x.rank + length(node, 1)
        added = axis_mask(node, node.required(1), rank)
        own = ops.sub(ops.cumulative(ops.cast(ops.not_(added), dtype="int64"), kind="sum", axis=0), number(1, "int64"))
        sizes = ops.gather(integers(node, [*x.shape, 1]), ops.max(own, number(0, "int64")), axis=0)
        return reshape(node.required(0), read_sizes(node, ops.select(added, number(1, "int64"), sizes)))
    rank = x.rank + len(axes)
    at = node.axes(axes, rank)
    rest = iter(x.shape)
    return reshape(node.required(0), tuple(1 if i in at else next(rest) for i in range(rank)))


@onnx_op("Transpose")
def transpose_(node: Node) -> ir.Value:
    rank = node.type(0).rank
    permutation = node.ints("perm", tuple(reversed(range(rank))))
    return transpose(node.required(0), node.axes(permutation, rank, "perm"))


@onnx_op("Expand")
def expand(node: Node) -> ir.Value:
    x, target = node.type(0), node.read_dims(1)
    if any(isinstance(d, int) and d < 0 for d in target):
        node.fail(f"[{', '.join(map(str, target))}] is not a shape: a size is at least 0; 1 keeps the operand's")
    try:
        return broadcast_to(node.required(0), broadcast_shapes(x.shape, target))
    except ValueError as error:
        node.fail(str(error))


@onnx_op("Tile")
def tile(node: Node) -> ir.Value:
    """Each axis becomes two, [repeats, size], that are then taken together."""
    x, shape = node.required(0), node.type(0).shape
    if node.opset < 6:
        count, axis = node.read_dims(1), node.read_dims(2)
        if not isinstance(axis[0], int):
            node.fail("the axis (operand 2) must be a constant")
        repeats: tuple[Dim, ...] = tuple(count[0] if i == axis[0] else 1 for i in range(len(shape)))
    else:
        repeats = node.read_dims(1)
    if len(repeats) != len(shape):
        node.fail(f"{len(repeats)} repeats do not fit {node.type(0)}")
    pairs = [d for r, d in zip(repeats, shape, strict=True) for d in ((r, d) if r != 1 else (d,))]
    ones = [d for r, d in zip(repeats, shape, strict=True) for d in ((1, d) if r != 1 else (d,))]
    whole = broadcast_to(reshape(x, tuple(ones)), tuple(pairs))
    return reshape(whole, tuple(r * d for r, d in zip(repeats, shape, strict=True)))


# ---- joining and cutting ---------------------------------------------------------------------------------------------


@onnx_op("Concat")
def concat(node: Node) -> ir.Value:
    axis = node.int("axis", 1 if node.opset < 4 else 0)
    parts = node.tensors()
    return parts[0] if len(parts) == 1 else ops.concat(parts, axis=node.axis(axis, node.type(0).rank))


@onnx_op("Split")
def split(node: Node) -> list[ir.Value]:
    x = node.type(0)
    axis = node.axis(node.int("axis", 0), x.rank)
    starts: list[Dim] = [0]
    for size in (sizes := _split_sizes(node, x.shape[axis])):
        starts.append(starts[-1] + size)
    total = x.shape[axis]
    if isinstance(starts[-1], int) and isinstance(total, int) and starts[-1] != total:
        node.fail(f"sizes {', '.join(map(str, sizes))} do not add up to {total}")
    return [_cut(node.required(0), axis, a, b) for a, b in zip(starts, sizes, strict=False)]


def _split_sizes(node: Node, total: Dim) -> list[Dim]:
    if node.opset < 13 and node.has("split"):
        sizes: Sequence[Dim] = node.ints("split")
    elif node.has_input(1):
        sizes = node.read_dims(1)
    else:
        count = node.int("num_outputs", len(node.outputs))
        if count != len(node.outputs):
            node.fail(f"{count} differs from the {len(node.outputs)} outputs that the node names", "num_outputs")
        whole = exact_div(total, count)
        chunk = floordiv(total + (count - 1), count) if whole is None else whole
        sizes = [chunk] * (count - 1) + [total - chunk * (count - 1)]
        if isinstance(total, int) and isinstance(chunk, int):
            sizes = [max(0, min(chunk, total - i * chunk)) for i in range(count)]
    if len(sizes) < len(node.outputs) or any(isinstance(s, int) and s < 0 for s in sizes):
        node.fail(f"{', '.join(map(str, sizes))} are not sizes of {len(node.outputs)} outputs")
    return list(sizes)


def _cut(x: ir.Value, axis: int, start: Dim, size: Dim) -> ir.Value:
    shape = type_of(x).shape
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    sizes = tuple(size if i == axis else d for i, d in enumerate(shape))
    return x if sizes == shape else ops.slice(x, starts=starts, sizes=sizes, steps=(1,) * len(shape))


# ---- rearranging -----------------------------------------------------------------------------------------------------


@onnx_op("DepthToSpace")
def depth_to_space(node: Node) -> ir.Value:
    x, (n, c, *spatial), block = _blocks(node)
    k = len(spatial)
    inner = _parts(node, c, block**k)
    if node.string("mode", "DCR") == "CRD":
        split = reshape(x, (n, inner, *[block] * k, *spatial))
        order = (0, 1, *(axis for i in range(k) for axis in (2 + k + i, 2 + i)))
    else:
        split = reshape(x, (n, *[block] * k, inner, *spatial))
        order = (0, k + 1, *(axis for i in range(k) for axis in (2 + k + i, 1 + i)))
    return reshape(transpose(split, order), (n, inner, *(d * block for d in spatial)))


@onnx_op("SpaceToDepth")
def space_to_depth(node: Node) -> ir.Value:
    x, (n, c, *spatial), block = _blocks(node)
    k = len(spatial)
    sizes = [_parts(node, d, block) for d in spatial]
    split = reshape(x, (n, c, *(d for size in sizes for d in (size, block))))
    order = (0, *(3 + 2 * i for i in range(k)), 1, *(2 + 2 * i for i in range(k)))
    if node.string("mode", "DCR") == "CRD":
        order = (0, 1, *(3 + 2 * i for i in range(k)), *(2 + 2 * i for i in range(k)))
    return reshape(transpose(split, order), (n, c * math.prod([block] * k), *sizes))


def _parts(node: Node, size: Dim, block: int) -> Dim:
    """size / block; a symbolic size is taken to divide."""
    whole = exact_div(size, block)
    if whole is None and isinstance(size, int):
        node.fail(f"size {size} does not split into blocks of {block}", "blocksize")
    return floordiv(size, block) if whole is None else whole


def _blocks(node: Node) -> tuple[ir.Value, tuple[Dim, ...], int]:
    x, block = node.required(0), node.int("blocksize")
    if block < 1:
        node.fail(f"must be at least 1, not {block}", "blocksize")
    if type_of(x).rank < 3:
        node.fail(f"takes a batch of images, not {type_of(x)}")
    return x, type_of(x).shape, block


@onnx_op("Trilu")
def trilu(node: Node) -> ir.Value:
    """Keeps the triangle above (or below) the k-th diagonal of the last two axes."""
    x, shape = node.required(0), node.type(0).shape
    if len(shape) < 2:
        node.fail(f"takes matrices, not {node.type(0)}")
    rows, columns = (ops.iota(shape=shape[-2:], axis=axis) for axis in (0, 1))
    k = reshape(node.input(1), ()) if node.has_input(1) else number(0, "int64")
    distance = ops.sub(columns, rows)
    kept = ops.ge(distance, k) if node.int("upper", 1) else ops.le(distance, k)
    dtype = type_of(x).dtype
    return ops.select(kept, x, number(0, dtype))
