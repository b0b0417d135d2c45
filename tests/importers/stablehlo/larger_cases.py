"""More drawn programs of one op each: contractions, reductions, windows, indexing, sorting, control flow, linear algebra."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.importers.stablehlo.cases import (
    ANY,
    INTEGERS,
    Case,
    Rng,
    array,
    family,
    ints,
    pairs,
    pick,
    shape_of,
    simple,
    tensor,
    twinned,
    type_of,
)


# ---- contractions ----------------------------------------------------------------------------------------------------------
@family
def dot_general(rng: Rng) -> Case:
    batch, summed = ([int(rng.integers(1, 4)) for _ in range(int(rng.integers(0, 3)))] for _ in "ab")
    sides: list[list[tuple[str, int, int]]] = []
    axes: list[list[list[int]]] = []
    for _ in "ab":
        own = [int(rng.integers(1, 5)) for _ in range(int(rng.integers(0, 3)))]
        labels = [("b", i, d) for i, d in enumerate(batch)] + [("k", i, d) for i, d in enumerate(summed)]
        labels += [("o", i, d) for i, d in enumerate(own)]
        labels = [labels[i] for i in rng.permutation(len(labels))]
        sides.append(labels)
        axes.append(
            [[labels.index((kind, i, d)) for i, d in enumerate(sizes)] for kind, sizes in (("b", batch), ("k", summed))]
        )
    name = pick(rng, ("float32", "float64", "int32", "bfloat16", "int8"))
    wide = "float32" if name == "bfloat16" and rng.random() < 0.5 else "int32" if name == "int8" else name
    args = [array(rng, name, [d for _, _, d in side], special=False) for side in sides]
    shape = [*batch, *(d for side in sides for kind, _, d in side if kind == "o")]
    entries = {
        "lhs_batching_dimensions": axes[0][0],
        "rhs_batching_dimensions": axes[1][0],
        "lhs_contracting_dimensions": axes[0][1],
        "rhs_contracting_dimensions": axes[1][1],
    }
    numbers = ", ".join(f"{k} = {v}" for k, v in entries.items() if v)
    return simple(
        "stablehlo.dot_general",
        args,
        [tensor(wide, shape)],
        f"dot_dimension_numbers = #stablehlo.dot<{numbers}>",
        loose=4,
    )


@family
def convolution(rng: Rng) -> Case:
    spatial = int(rng.integers(0, 4))
    groups, batches = pick(rng, [(1, 1), (1, 1), (2, 1), (1, 2)])
    n, c, o = 2 * batches // min(batches, 2), 2 * groups, 2 * groups * batches
    sizes = [int(rng.integers(1, 7)) for _ in range(spatial)]
    window = [int(rng.integers(1, 4)) for _ in range(spatial)]
    strides, lhs, rhs = ([int(rng.integers(1, 3)) for _ in range(spatial)] for _ in "abc")
    padding = [[int(rng.integers(-1, 3)), int(rng.integers(-1, 3))] for _ in range(spatial)]
    rest = [
        (d - 1) * i + 1 + a + b - ((w - 1) * k + 1)
        for d, w, i, k, (a, b) in zip(sizes, window, lhs, rhs, padding, strict=True)
    ]
    if any(r < 0 for r in rest):
        return convolution(rng)
    out = [r // s + 1 for r, s in zip(rest, strides, strict=True)]
    rows = [["b", "f"], ["o", "i"], ["b", "f"]]
    full = [(n, c, *sizes), (o, c // groups, *window), (n // batches, o, *out)]
    orders = [[int(a) for a in rng.permutation(spatial + 2)] for _ in rows]
    texts, shapes = [], []
    for row, shape, order in zip(rows, full, orders, strict=True):
        labels = [*row, *map(str, range(spatial))]
        texts.append(", ".join(labels[a] for a in order))
        shapes.append([shape[a] for a in order])
    name = pick(rng, ("float32", "float64", "int32"))
    turned = [bool(rng.random() < 0.2) for _ in range(spatial)]
    flags = f"array<i1{': ' if turned else ''}{', '.join(str(t).lower() for t in turned)}>"
    attributes = (
        f"window_strides = {ints(strides)}, padding = {pairs(padding)}, lhs_dilation = {ints(lhs)}, rhs_dilation = {ints(rhs)}, "
        f"window_reversal = {flags}, dimension_numbers = #stablehlo.conv<[{texts[0]}]x[{texts[1]}]->[{texts[2]}]>, "
        f"feature_group_count = {groups} : i64, batch_group_count = {batches} : i64"
    )
    args = [array(rng, name, shape, special=False) for shape in shapes[:2]]
    return simple("stablehlo.convolution", args, [tensor(name, shapes[2])], attributes, loose=4)


# ---- reductions --------------------------------------------------------------------------------------------------------------
REDUCTIONS = ("add", "multiply", "maximum", "minimum")


def region(op: str, name: str, label: str = "") -> str:
    t = tensor(name, ())
    return (
        f'{{^bb0(%x{label}: {t}, %y{label}: {t}): %z{label} = "stablehlo.{op}"(%x{label}, %y{label}) : ({t}, {t}) -> {t} '
        f'"stablehlo.return"(%z{label}) : ({t}) -> ()}}'
    )


def kind_for(rng: Rng, name: str) -> str:
    return (
        pick(rng, ("and", "or"))
        if name == "bool"
        else pick(rng, (*REDUCTIONS, *(("and", "or", "xor") if name in INTEGERS else ())))
    )


@family
def reduce(rng: Rng) -> Case:
    name = pick(rng, ("float32", "float64", "int32", "uint8", "bool", "int64"))
    x = array(rng, name, shape_of(rng), special=False)
    axes = [a for a in range(x.ndim) if rng.random() < 0.6]
    shape = [d for a, d in enumerate(x.shape) if a not in axes]
    kind, start = kind_for(rng, name), array(rng, name, (), False)
    if all(x.shape[a] == 1 for a in axes):  # XLA leaves the initial value out
        kind, start = ("or" if name == "bool" else "add"), np.zeros((), name)
    return simple(
        "stablehlo.reduce", [x, start], [tensor(name, shape)], f"dimensions = {ints(axes)}",
        [region(kind, name)], loose=4,
    )  # fmt: skip


@family
def reduce_by_a_function(rng: Rng) -> Case:
    """The sum and the sum of squares' maximum: a region of two operands that is not known."""
    shape = shape_of(rng, 3, 1)
    axis = int(rng.integers(len(shape)))
    x, y = array(rng, "float32", shape, False), array(rng, "int32", shape, False)
    f, i = "tensor<f32>", "tensor<i32>"
    body = (
        f'{{^bb0(%p: {f}, %q: {i}, %r: {f}, %s: {i}): %u = "stablehlo.maximum"(%p, %r) : ({f}, {f}) -> {f} '
        f'%v = "stablehlo.add"(%q, %s) : ({i}, {i}) -> {i} %w = "stablehlo.negate"(%v) : ({i}) -> {i} '
        f'%x = "stablehlo.negate"(%w) : ({i}) -> {i} "stablehlo.return"(%u, %x) : ({f}, {i}) -> ()}}'
    )
    rest = [d for a, d in enumerate(shape) if a != axis]
    starts = [np.array(-np.inf, "f4"), np.array(0, "i4")]
    results = [tensor("float32", rest), tensor("int32", rest)]
    return simple("stablehlo.reduce", [x, y, *starts], results, f"dimensions = {ints([axis])}", [body])


def window_attributes(rng: Rng, shape: Sequence[int]) -> tuple[str, list[int]]:
    rank = len(shape)
    window = [int(rng.integers(1, 4)) for _ in shape]
    strides, base, dilation = ([int(rng.integers(1, 3)) for _ in shape] for _ in "abc")
    padding = [[int(rng.integers(0, 3)), int(rng.integers(0, 3))] for _ in range(rank)]
    out = []
    for d, w, s, b, t, (low, high) in zip(shape, window, strides, base, dilation, padding, strict=True):
        grown = ((d - 1) * b + 1 if d else 0) + low + high
        reach = (w - 1) * t + 1
        out.append((grown - reach) // s + 1 if grown >= reach else 0)
    text = (
        f"window_dimensions = {ints(window)}, window_strides = {ints(strides)}, base_dilations = {ints(base)}, "
        f"window_dilations = {ints(dilation)}, padding = {pairs(padding)}"
    )
    return text, out


@family
def reduce_window(rng: Rng) -> Case:
    name = pick(rng, ("float32", "float64", "int32"))
    x = array(rng, name, shape_of(rng, 3, 1), special=False)
    kind = pick(rng, REDUCTIONS)
    if rng.random() < 0.25:  # a running reduction
        axis, end = int(rng.integers(x.ndim)), rng.random() < 0.5
        n = x.shape[axis]
        if n:
            window = [n if a == axis else 1 for a in range(x.ndim)]
            padding = [([0, n - 1] if end else [n - 1, 0]) if a == axis else [0, 0] for a in range(x.ndim)]
            text = f"window_dimensions = {ints(window)}, padding = {pairs(padding)}"
            return simple(
                "stablehlo.reduce_window",
                [x, array(rng, name, (), False)],
                [type_of(x)],
                text,
                [region(kind, name)],
                loose=8,
            )
    text, out = window_attributes(rng, x.shape)
    args = [x, array(rng, name, (), False)]
    if kind not in ("add", "multiply"):  # padding has the initial value, which XLA takes as the identity
        args[1] = (
            np.array(-np.inf if kind == "maximum" else np.inf, name)
            if name != "int32"
            else np.array(np.iinfo(name).min if kind == "maximum" else np.iinfo(name).max, name)
        )
    else:
        args[1] = np.array(kind == "multiply", name)
    return simple("stablehlo.reduce_window", args, [tensor(name, out)], text, [region(kind, name)], loose=8)


@family
def select_and_scatter(rng: Rng) -> Case:
    name = pick(rng, ("float32", "int32"))
    shape = [int(rng.integers(1, 7)) for _ in range(int(rng.integers(1, 3)))]
    window = [int(rng.integers(1, min(d, 3) + 1)) for d in shape]
    strides = [int(rng.integers(1, 4)) for _ in shape]
    padding = [[int(rng.integers(0, w)), int(rng.integers(0, w))] for w in window]
    out = [(d + a + b - w) // s + 1 for d, w, s, (a, b) in zip(shape, window, strides, padding, strict=True)]
    t = tensor(name, ())
    kind = "FLOAT" if name == "float32" else "SIGNED"
    choose = (
        f'{{^bb0(%x: {t}, %y: {t}): %z = "stablehlo.compare"(%x, %y) <{{comparison_direction = #stablehlo<comparison_direction '
        f"{pick(rng, ['GE', 'LE', 'GT'])}>, compare_type = #stablehlo<comparison_type {kind}>}}> : ({t}, {t}) -> tensor<i1> "
        f'"stablehlo.return"(%z) : (tensor<i1>) -> ()}}'
    )
    x = array(rng, name, shape, special=False)
    source = np.round(array(rng, name, out, special=False))
    attributes = f"window_dimensions = {ints(window)}, window_strides = {ints(strides)}, padding = {pairs(padding)}"
    args = [x, source.astype(name), np.array(0, name)]
    return simple(
        "stablehlo.select_and_scatter", args, [type_of(x)], attributes, [choose, region("add", name, "2")], loose=4
    )


@family
def map_(rng: Rng) -> Case:
    name, shape = pick(rng, ("float32", "int32")), shape_of(rng)
    t, two = tensor(name, ()), "2" if name == "int32" else "2.0"
    body = (
        f'{{^bb0(%x: {t}, %y: {t}): %c = "stablehlo.constant"() <{{value = dense<{two}> : {t}}}> : () -> {t} '
        f'%u = "stablehlo.multiply"(%x, %c) : ({t}, {t}) -> {t} %v = "stablehlo.subtract"(%u, %y) : ({t}, {t}) -> {t} '
        f'"stablehlo.return"(%v) : ({t}) -> ()}}'
    )
    args = [array(rng, name, shape) for _ in "ab"]
    return simple("stablehlo.map", args, [tensor(name, shape)], f"dimensions = {ints(range(len(shape)))}", [body])


@family
def batch_norm(rng: Rng) -> Case:
    name = pick(rng, ("float32", "float64"))
    shape = [int(rng.integers(1, 5)) for _ in range(int(rng.integers(2, 4)))]
    axis = int(rng.integers(len(shape)))
    row = [shape[axis]]
    x, scale, offset, mean = (array(rng, name, s, False) for s in (shape, row, row, row))
    variance = np.abs(array(rng, name, row, False)).astype(name) + np.array(0.1, name)
    attributes = f"epsilon = 1.000000e-03 : f32, feature_index = {axis} : i64"
    kind = pick(rng, ("inference", "training", "grad"))
    whole, part = tensor(name, shape), tensor(name, row)
    if kind == "inference":
        return simple(
            "stablehlo.batch_norm_inference", [x, scale, offset, mean, variance], [whole], attributes, loose=8
        )
    if kind == "training":
        return simple("stablehlo.batch_norm_training", [x, scale, offset], [whole, part, part], attributes, loose=8)
    grad = array(rng, name, shape, False)
    return simple(
        "stablehlo.batch_norm_grad", [x, scale, mean, variance, grad], [whole, part, part], attributes, loose=20
    )


# ---- indexing ----------------------------------------------------------------------------------------------------------------
@family
def dynamic_slice(rng: Rng) -> Case:
    x = array(rng, pick(rng, ANY), shape_of(rng))
    sizes = [int(rng.integers(0, d + 1)) for d in x.shape]
    name = pick(rng, ("int32", "int64", "uint32"))
    starts = [rng.integers(0 if name[0] == "u" else -2, 8, ()).astype(name) for _ in sizes]
    return simple(
        "stablehlo.dynamic_slice", [x, *starts], [tensor(x.dtype.name, sizes)], f"slice_sizes = {ints(sizes)}"
    )


@family
def dynamic_update_slice(rng: Rng) -> Case:
    x = array(rng, pick(rng, ANY), shape_of(rng))
    update = array(rng, x.dtype.name, [int(rng.integers(0, d + 1)) for d in x.shape])
    starts = [rng.integers(-2, 8, ()).astype("int32") for _ in x.shape]
    return simple("stablehlo.dynamic_update_slice", [x, update, *starts], [type_of(x)])


def _axes(entries: dict[str, object]) -> str:
    return ", ".join(f"{k} = {v}" for k, v in entries.items() if v != [])


@family
def gather(rng: Rng) -> Case:
    x = array(rng, pick(rng, ANY), [int(rng.integers(1, 6)) for _ in range(int(rng.integers(1, 4)))])
    addressed = [int(a) for a in rng.permutation(x.ndim)[: rng.integers(1, x.ndim + 1)]]
    sizes = [int(rng.integers(1, d + 1)) for d in x.shape]
    collapsed = sorted(a for a in addressed if rng.random() < 0.6)
    for axis in collapsed:
        sizes[axis] = 1
    batch = [int(rng.integers(1, 4)) for _ in range(int(rng.integers(0, 3)))]
    vector = int(rng.integers(0, len(batch) + 1))
    indices = rng.integers(-2, 7, [*batch[:vector], len(addressed), *batch[vector:]]).astype(
        pick(rng, ("int32", "int64"))
    )
    kept = [sizes[a] for a in range(x.ndim) if a not in collapsed]
    offset = sorted(int(a) for a in rng.permutation(len(kept) + len(batch))[: len(kept)])
    rows, columns = iter(batch), iter(kept)
    shape = [next(columns) if i in offset else next(rows) for i in range(len(kept) + len(batch))]
    numbers = _axes(
        {
            "offset_dims": offset,
            "collapsed_slice_dims": collapsed,
            "start_index_map": addressed,
            "index_vector_dim": vector,
        }
    )
    attributes = f"dimension_numbers = #stablehlo.gather<{numbers}>"
    result = [tensor(x.dtype.name, shape)]
    static = simple("stablehlo.gather", [x, indices], result, f"{attributes}, slice_sizes = {ints(sizes)}")
    if rng.random() < 0.3:
        args = [x, indices, np.array(sizes, "int64")]
        return twinned(simple("stablehlo.dynamic_gather", args, result, attributes), static)
    return static


@family
def scatter(rng: Rng) -> Case:
    name = pick(rng, ("float32", "int32", "uint8"))
    x = np.round(array(rng, name, [int(rng.integers(1, 6)) for _ in range(int(rng.integers(1, 4)))], False)).astype(
        name
    )
    addressed = [int(a) for a in rng.permutation(x.ndim)[: rng.integers(1, x.ndim + 1)]]
    inserted = sorted(a for a in addressed if rng.random() < 0.7)
    windows = [int(rng.integers(1, x.shape[a] + 1)) for a in range(x.ndim) if a not in inserted]
    batch = [int(rng.integers(1, 4)) for _ in range(int(rng.integers(0, 3)))]
    vector = len(batch)
    indices = rng.integers(-2, 7, [*batch, len(addressed)]).astype("int32")
    offset = sorted(int(a) for a in rng.permutation(len(windows) + len(batch))[: len(windows)])
    rows, columns = iter(batch), iter(windows)
    shape = [next(columns) if i in offset else next(rows) for i in range(len(windows) + len(batch))]
    updates = np.round(array(rng, name, shape, False)).astype(name)
    numbers = _axes(
        {
            "update_window_dims": offset,
            "inserted_window_dims": inserted,
            "scatter_dims_to_operand_dims": addressed,
            "index_vector_dim": vector,
        }
    )
    t = tensor(name, ())
    second = f'{{^bb0(%x: {t}, %y: {t}): "stablehlo.return"(%y) : ({t}) -> ()}}'
    ordered = (
        f'{{^bb0(%x: {t}, %y: {t}): %u = "stablehlo.add"(%x, %x) : ({t}, {t}) -> {t} '
        f'%v = "stablehlo.add"(%u, %y) : ({t}, {t}) -> {t} "stablehlo.return"(%v) : ({t}) -> ()}}'
    )
    body = pick(rng, [second, ordered, *(region(k, name) for k in ("add", "maximum", "minimum", "multiply"))])
    return simple(
        "stablehlo.scatter", [x, indices, updates], [type_of(x)], f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}>",
        [body],
    )  # fmt: skip


@family
def torch_index_select(rng: Rng) -> Case:
    shape = [int(rng.integers(1, 5)) for _ in range(int(rng.integers(1, 4)))]
    axis = int(rng.integers(len(shape)))
    batch = int(rng.integers(0, axis + 1))
    own = [*shape[:batch], *(int(rng.integers(1, 4)) for _ in range(int(rng.integers(0, 2))))]
    x, indices = array(rng, pick(rng, ANY), shape), rng.integers(0, shape[axis], own).astype("int32")
    result = [*shape[:axis], *own[batch:], *shape[axis + 1 :]]
    attributes = f"dim = {axis} : i64, batch_dims = {batch} : i64"
    return simple("stablehlo.torch_index_select", [x, indices], [tensor(x.dtype.name, result)], attributes)


# ---- sorting -----------------------------------------------------------------------------------------------------------------
@family
def sort(rng: Rng) -> Case:
    names = [pick(rng, ("float32", "int32", "uint8", "float64")) for _ in range(int(rng.integers(1, 4)))]
    shape = shape_of(rng, 3, 1)
    axis, keys = int(rng.integers(len(shape))), int(rng.integers(1, min(len(names), 2) + 1))
    direction = pick(rng, ("LT", "GT"))
    arguments = ", ".join(f"%x{i}: {tensor(n, ())}, %y{i}: {tensor(n, ())}" for i, n in enumerate(names))
    lines, result = [], ""
    for i in reversed(range(keys)):
        t = tensor(names[i], ())
        kind = "TOTALORDER" if "float" in names[i] else "UNSIGNED" if names[i][0] == "u" else "SIGNED"
        for d, label in ((direction, "less"), ("EQ", "same")):
            lines.append(
                f'%{label}{i} = "stablehlo.compare"(%x{i}, %y{i}) '
                f"<{{comparison_direction = #stablehlo<comparison_direction {d}>, "
                f"compare_type = #stablehlo<comparison_type {kind}>}}> : ({t}, {t}) -> tensor<i1>"
            )
        if result:
            lines.append(f'%both{i} = "stablehlo.and"(%same{i}, {result}) : (tensor<i1>, tensor<i1>) -> tensor<i1>')
            lines.append(f'%all{i} = "stablehlo.or"(%less{i}, %both{i}) : (tensor<i1>, tensor<i1>) -> tensor<i1>')
        result = f"%all{i}" if result else f"%less{i}"
    body = f'{{^bb0({arguments}): {" ".join(lines)} "stablehlo.return"({result}) : (tensor<i1>) -> ()}}'
    xs = [array(rng, n, shape) for n in names]
    attributes = f"dimension = {axis} : i64, is_stable = true"
    return simple("stablehlo.sort", xs, [type_of(x) for x in xs], attributes, [body])


@family
def top_k(rng: Rng) -> Case:
    x = array(rng, pick(rng, ("float32", "int32")), shape_of(rng, 3, 1))
    k = int(rng.integers(0, x.shape[-1] + 1))
    shape = [*x.shape[:-1], k]
    return simple("chlo.top_k", [x], [tensor(x.dtype.name, shape), tensor("int32", shape)], f"k = {k} : i64")


# ---- control flow --------------------------------------------------------------------------------------------------------------
@family
def if_(rng: Rng) -> Case:
    x = array(rng, "float32", shape_of(rng))
    t = type_of(x)
    branches = [
        f'{{ %{n} = "stablehlo.{op}"(%a1) : ({t}) -> {t} "stablehlo.return"(%{n}) : ({t}) -> ()}}'
        for n, op in (("p", "negate"), ("q", "tanh"))
    ]
    args = [array(rng, "bool", ()), x]
    return simple("stablehlo.if", args, [t], "", branches, operands=[("%a0", "tensor<i1>")])


@family
def case(rng: Rng) -> Case:
    x = array(rng, "float32", shape_of(rng))
    t = type_of(x)
    names = ("negate", "tanh", "cosine", "abs")[: int(rng.integers(1, 5))]
    branches = [
        f'{{ %v{i} = "stablehlo.{op}"(%a1) : ({t}) -> {t} "stablehlo.return"(%v{i}) : ({t}) -> ()}}'
        for i, op in enumerate(names)
    ]
    args = [rng.integers(-2, 6, ()).astype("int32"), x]
    return simple("stablehlo.case", args, [t], "", branches, operands=[("%a0", "tensor<i32>")])


@family
def while_(rng: Rng) -> Case:
    """Doubles while a count or the sum is below a bound."""
    x = np.abs(array(rng, "float32", shape_of(rng), special=False)) + np.float32(0.5)
    t, i, f = type_of(x), "tensor<i32>", "tensor<i1>"
    compare = (
        "comparison_direction = #stablehlo<comparison_direction {}>, compare_type = #stablehlo<comparison_type SIGNED>"
    )
    step = int(rng.integers(1, 3))
    test = (
        f'{{^bb0(%i: {i}, %n: {i}, %x: {t}): %p = "stablehlo.compare"(%i, %n) '
        f"<{{{compare.format(pick(rng, ['LT', 'NE', 'LE']))}}}> "
        f': ({i}, {i}) -> {f} %q = "stablehlo.compare"(%i, %n) <{{{compare.format("LT")}}}> : ({i}, {i}) -> {f} '
        f'%r = "stablehlo.and"(%p, %q) : ({f}, {f}) -> {f} "stablehlo.return"({pick(rng, ["%q", "%r"])}) : ({f}) -> ()}}'
    )
    body = (
        f'{{^bb0(%i: {i}, %n: {i}, %x: {t}): %c = "stablehlo.constant"() <{{value = dense<{step}> : {i}}}> : () -> {i} '
        f'%j = "stablehlo.add"(%i, %c) : ({i}, {i}) -> {i} %y = "stablehlo.add"(%x, %x) : ({t}, {t}) -> {t} '
        f'"stablehlo.return"(%j, %n, %y) : ({i}, {i}, {t}) -> ()}}'
    )
    args = [rng.integers(-1, 3, ()).astype("int32"), rng.integers(0, 7, ()).astype("int32"), x]
    return simple("stablehlo.while", args, [i, i, t], "", [test, body])


@family
def barrier_and_tuple(rng: Rng) -> Case:
    x, y = array(rng, "float32", shape_of(rng)), array(rng, "int32", shape_of(rng))
    pair = f"tuple<{type_of(x)}, {type_of(y)}>"
    lines = [
        f'%p, %q = "stablehlo.optimization_barrier"(%a0, %a1) : ({type_of(x)}, {type_of(y)}) -> ({type_of(x)}, {type_of(y)})',
        f'%t = "stablehlo.tuple"(%p, %q) : ({type_of(x)}, {type_of(y)}) -> {pair}',
        f'%u = "stablehlo.get_tuple_element"(%t) <{{index = 1 : i32}}> : ({pair}) -> {type_of(y)}',
        f'%v = "stablehlo.get_tuple_element"(%t) <{{index = 0 : i32}}> : ({pair}) -> {type_of(x)}',
    ]
    return Case("stablehlo.tuple", [x, y], lines, [("%u", type_of(y)), ("%v", type_of(x))])


# ---- linear algebra and random bits
# ---------------------------------------------------------------------------------------------- @family
def cholesky(rng: Rng) -> Case:
    name, n = pick(rng, ("float32", "float64")), int(rng.integers(1, 6))
    batch = shape_of(rng, 1)
    a = rng.standard_normal((*batch, n, n))
    x = (a @ np.swapaxes(a, -1, -2) + n * np.eye(n)).astype(name)
    lower = bool(rng.random() < 0.5)
    zero = f'%z = "stablehlo.constant"() <{{value = dense<0.0> : {type_of(x)}}}> : () -> {type_of(x)}'
    rows, columns = len(batch), len(batch) + 1
    index = tensor("int32", x.shape)
    # the other triangle is left open: it is masked
    lines = [
        f'%r = "stablehlo.cholesky"(%a0) <{{lower = {str(lower).lower()}}}> : ({type_of(x)}) -> {type_of(x)}',
        zero,
        f'%i = "stablehlo.iota"() <{{iota_dimension = {rows} : i64}}> : () -> {index}',
        f'%j = "stablehlo.iota"() <{{iota_dimension = {columns} : i64}}> : () -> {index}',
        f'%m = "stablehlo.compare"(%i, %j) '
        f"<{{comparison_direction = #stablehlo<comparison_direction {'GE' if lower else 'LE'}>}}> : "
        f"({index}, {index}) -> {tensor('bool', x.shape)}",
        f'%s = "stablehlo.select"(%m, %r, %z) : ({tensor("bool", x.shape)}, {type_of(x)}, {type_of(x)}) -> {type_of(x)}',
    ]
    return Case("stablehlo.cholesky", [x], lines, [("%s", type_of(x))], loose=20)


@family
def triangular_solve(rng: Rng) -> Case:
    name, n, k = pick(rng, ("float32", "float64")), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    batch = shape_of(rng, 1)
    a = (rng.standard_normal((*batch, n, n)) + 3 * np.eye(n)).astype(name)
    left, lower, unit = (bool(rng.random() < 0.5) for _ in "abc")
    b = array(rng, name, (*batch, n, k) if left else (*batch, k, n), special=False)
    how = pick(rng, ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    flags = ", ".join(
        f"{k} = {str(v).lower()}" for k, v in (("left_side", left), ("lower", lower), ("unit_diagonal", unit))
    )
    attributes = f"{flags}, transpose_a = #stablehlo<transpose {how}>"
    return simple("stablehlo.triangular_solve", [a, b], [type_of(b)], attributes, loose=200)


@family
def rng_bit_generator(rng: Rng) -> Case:
    state = rng.integers(0, 2**63, 2).astype("uint64")
    name, algorithm = pick(rng, ("uint32", "uint64", "uint8", "uint16")), pick(rng, ("THREE_FRY", "PHILOX", "DEFAULT"))
    shape = [int(rng.integers(1, 6)) for _ in range(int(rng.integers(0, 4)))]
    return simple(
        "stablehlo.rng_bit_generator", [state], [type_of(state), tensor(name, shape)],
        f"rng_algorithm = #stablehlo<rng_algorithm {algorithm}>",
    )  # fmt: skip
