"""Batching rules: each op has one or a reason, and each case of the tests of derivatives maps as a stack of single calls does.

BURN_SWEEP=3000 draws so many mappings of these cases, with gradients, from BURN_SWEEP_SEED on (a new one by default)."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import burn
import burn.dialect
from burn import Tensor, ops
from burn.dialect.batching.walk import kind
from burn.dialect.debug import CheckFinite
from burn.dialect.mlir import context
from burn.dialect.op import REGISTRY
from burn.dialect.trees import EQUAL, LESS, feature_shift
from burn.errors import TypeMismatch
from tests.dialect.adjoint.cases import CASES, Case
from tests.fuzz.runner import Outcome, check, sweep
from tests.transforms import drawing
from tests.transforms.drawing import Mapping, examples_of

NO_GRADIENTS_OF_EACH = {"while_loop"}
"""A loop whose examples end in different iterations has no gradient of each example."""

FLOAT32 = {"block_dot", "random_normal"}
"""Ops whose cases compute in float32."""


# ---- the table ---------------------------------------------------------------------------------------------------------
def test_every_op_is_accounted_for() -> None:
    """Each op has a batching rule, is decomposed, or has a reason for which there is no rule."""
    context()
    for module in pkgutil.walk_packages(burn.dialect.__path__, "burn.dialect."):
        import_module(module.name)
    kinds: dict[str, set[str]] = {}
    for name in REGISTRY:
        kinds.setdefault(kind(name), set()).add(name)
    assert kinds["structure"] == {"yield", "return", "group"}  # terminators, and what fusion makes
    assert kinds["shared"] == {"full", "constant", "weight", "iota", "dim_values", "check_size", "list_empty"}
    assert kinds["composite"] == {
        "quantize", "dequantize", "split_tiles", "join_tiles", "split_axis", "join_axis", "vjp", "partial_sort",
        "random_key", "random_bits", "random_uniform", "random_normal", "random_kept",
    }  # fmt: skip
    assert kinds["none"] == {
        "read_dim", "nonzero", "unique", "non_max_suppression", "image_decode", "debug_print", "debug_call",
        "all_reduce", "all_gather", "reduce_scatter", "collective_broadcast", "collective_wait",
        "packed_dot", "packed_conv", "packed_block_dot", "segment_reduce", "string_rank", "string_split", "string_tokens",
        *(name for name in REGISTRY if name.startswith("list_") and name != "list_empty"),
    }  # fmt: skip


# ---- cases -------------------------------------------------------------------------------------------------------------
def _more() -> list[Case]:
    """Ops without derivatives, and operands that the cases of derivatives do not map: indices, bounds, padding."""
    whole = lambda low, high: lambda rng, shape: rng.integers(low, high, shape).astype(np.float64)  # noqa: E731
    normal = lambda rng, shape: rng.standard_normal(shape)  # noqa: E731
    at = lambda x: x.astype("int64")  # noqa: E731

    def floats(function: Callable[..., Any]) -> Callable[..., Tensor]:
        return lambda *xs: function(*xs).astype("float64")

    lists: list[tuple[str, Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = [
        ("gather", lambda x, i: ops.gather(x, at(i), axis=1), ((2, 3, 4), (2, 2)), (normal, whole(-3, 3))),
        ("gather", lambda x, i: ops.gather(x, at(i), axis=0), ((3, 4), ()), (normal, whole(-3, 3))),
        ("gather_elements", lambda x, i: ops.gather_elements(x, at(i), axis=-1), ((2, 3), (2, 4)), (normal, whole(-3, 3))),
        ("gather_nd", lambda x, i: ops.gather_nd(x, at(i)), ((3, 3, 2), (4, 2)), (normal, whole(-3, 3))),
        ("gather_nd", lambda x, i: ops.gather_nd(x, at(i), batch_dims=1), ((2, 3, 2), (2, 4, 1)), (normal, whole(-3, 3))),
        (
            "scatter_elements",
            lambda x, i, u: ops.scatter_elements(x, at(i), u, axis=0, reduction="add"),
            ((3, 2), (4, 2), (4, 2)),
            (normal, whole(-3, 3), normal),
        ),
        (
            "scatter_nd",
            lambda x, i, u: ops.scatter_nd(x, at(i), u, reduction="add"),
            ((3, 2), (4, 1), (4, 2)),
            (normal, whole(-3, 3), normal),
        ),
        ("from_start", lambda x, i: ops.gather(x, ops.from_start(at(i)), axis=0), ((3,), (2,)), (normal, whole(0, 3))),
        ("arg_reduce", floats(lambda x: x.argmax(1)), ((2, 3),), (normal,)),
        ("arg_reduce", floats(lambda x: x.argmin(0, keepdims=True)), ((),), (normal,)),
        ("sort", floats(lambda x: ops.sort(x, axis=0, descending=True)[1]), ((4, 2),), (normal,)),
        ("clip", lambda x, a, b: ops.clip(x, a, b), ((2, 3), (), ()), (normal, whole(-2, 0), whole(0, 2))),
        ("prelu", lambda x, s: ops.prelu(x, s), ((2, 3), (3,)), (normal, normal)),
        ("pad", lambda x, v: ops.pad(x, v, low=(1, 0), high=(0, 2)), ((2, 3), ()), (normal, normal)),
        ("softmax", lambda x: ops.softmax(x, axis=0), ((),), (normal,)),
        ("and", floats(lambda a, b: (a > b) & (b > 0.0)), ((2, 3), (3,)), (normal, normal)),
        ("cast", floats(lambda a: (a * 9.0).astype("int8") << 1), ((2, 3),), (normal,)),
        ("bitcast", floats(lambda a: ops.bitcast(a, dtype="int64") >> 40), ((2,),), (normal,)),
        ("conv", _conv_last, ((1, 5, 4), (2, 2, 6)), (normal, normal)),
        ("dequantize", _dequantized, ((2, 3), (3,)), (normal, whole(1, 4))),
        ("attention", _attention, ((2, 2, 3, 2), (2, 1, 4, 2), (2, 1, 4, 3), (2, 1, 3, 4), (2,)), (*[normal] * 4, whole(0, 5))),
        ("random_normal", _random, ((2,),), (whole(0, 1000),)),
        ("string_find", _strings, ((3,),), (whole(0, 40),)),
        ("windows", lambda x: ops.windows(x, axis=1, window=(2,), strides=(1,), dilations=(2,)), ((2, 5),), (normal,)),
        ("block_dot", _blocks, ((2, 32),), (normal,)),
        ("tree_leaves", _leaves, ((5, 2),), (normal,)),
        ("check_finite", _checked, ((3,),), (normal,)),
    ]  # fmt: skip
    return [Case(f"{op} {i}", op, f, shapes, draws, False) for i, (op, f, shapes, draws) in enumerate(lists)]


def _conv_last(x: Tensor, w: Tensor) -> Tensor:
    return ops.conv(x, w, strides=(2,), dilations=(1,), low=(1,), high=(0,), groups=2, layout="last")


def _dequantized(x: Tensor, s: Tensor) -> Tensor:
    q = ops.quantize(x, s, None, dtype="int8", axis=1)
    return ops.dequantize(q, s, None, dtype="float64", axis=1)


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
    return ops.attention(q, k, v, mask, lengths.astype("int64"), scale=0.6, left=2)


def _random(seed: Tensor) -> Tensor:
    return burn.random.normal(3, 2, key=seed.astype("uint32")).astype("float64")


def _strings(x: Tensor) -> Tensor:
    text = ops.number_to_string(x.astype("int64"), precision="float64")
    joined = ops.string_concat(text, text)
    return ops.string_to_number(joined, dtype="float64")


def _blocks(x: Tensor) -> Tensor:
    rng = np.random.default_rng(1)
    weight = burn.constant(rng.integers(0, 256, (5, 2, 8)).astype(np.uint8))
    scale = burn.constant(rng.standard_normal((5, 2)).astype(np.float32))
    return ops.block_dot(x.astype("float32"), weight, scale, None, bits=4, block=16).astype("float64")


def _leaves(x: Tensor) -> Tensor:
    """The leaves 2 and 3 of a root that compares the second feature with 0."""
    root = 2 | (LESS | EQUAL) << 2 | 1 << feature_shift(2, "float64")
    table = np.array([[0, root], [0, 0], [0, 2], [0, 3]])
    table[2:, 0] = np.array(np.nan).view(np.int64)
    nodes, roots = burn.constant(table), burn.constant(np.zeros(1, np.int32))
    return ops.tree_leaves(x.astype("float64"), nodes, roots, depths=(1,), features=2, comparison="le").astype(
        "float64"
    )


def _checked(x: Tensor) -> Tensor:
    CheckFinite.build([x.value], made=1)
    return x * 2.0


MORE = _more()
ALL = (*CASES, *MORE)


def _mapped(case: Case, seed: int, size: int, gradients: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 5]))
    result = case.function(*map(burn.constant, case.arrays(rng, n)))
    mapping = Mapping.drawn(rng, [a.ndim for a in case.arrays(rng, n)], result.ndim, size)
    given, examples = examples_of(mapping, lambda: case.arrays(rng, n))
    drawing.check(case.function, given, examples, mapping, 1e-5 if case.op in FLOAT32 else 1e-9)
    if gradients and size and case not in MORE and case.name not in NO_GRADIENTS_OF_EACH:
        drawing.check_gradients(case.function, given, examples, mapping)


def one(seed: int) -> Outcome:
    """A case, how it is mapped, and the number of examples."""
    case = ALL[seed % len(ALL)]
    size = drawing.SIZES[seed // len(ALL) % len(drawing.SIZES)]
    try:
        _mapped(case, seed, size, True)
    except (AssertionError, TypeMismatch) as error:
        return Outcome("wrong", f"{case.name}, {size} examples: {error}")
    return Outcome("ok")


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(ALL)), ids=lambda i: ALL[i].name)
def test_case(index: int) -> None:
    check(one, index)


test_more_mappings = sweep(one, 300)

FAST = (
    "select", "slice backwards", "pad", "concat", "largest", "window max", "einsum", "conv in groups", "sort", "layer_norm",
    *(f"{case.name}" for case in MORE if case.op in ("gather", "gather_nd", "scatter_nd", "clip", "prelu", "attention")),
)  # fmt: skip


def test_rules_in_one_program() -> None:
    """Cases of the rules that differ most, mapped together in one program."""
    cases = [case for case in ALL if case.name in FAST]
    assert len(cases) == len(FAST)
    rng = np.random.default_rng(3)
    rows = [[tuple(case.arrays(rng, 2)) for case in cases] for _ in range(3)]
    ranks = [[a.ndim for a in arrays] for arrays in rows[0]]
    axes = tuple(Mapping.drawn(rng, own, 0, 3).axes for own in ranks)
    given = tuple(
        tuple(drawing.stacked([row[i][j] for row in rows], axis) for j, axis in enumerate(own))
        for i, own in enumerate(axes)
    )

    def function(*groups: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(case.function(*group) for case, group in zip(cases, groups, strict=True))

    single = burn.jit(function)
    examples = []
    for row in rows:
        own = [tuple(rows[0][i][j] if a is None else row[i][j] for j, a in enumerate(ax)) for i, ax in enumerate(axes)]
        examples.append(single(*own))
    found = burn.jit(burn.vmap(function, axes))(*given)
    for i, case in enumerate(cases):
        drawing.assert_close(found[i], np.stack([example[i] for example in examples]), f"{case.name}, {axes[i]}")
