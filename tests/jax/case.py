"""One case of the sweep: a JAX function and its operands, run by JAX and by burn. Enter at `Case` and `outcome`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import burn
from burn.errors import BurnError
from tests.jax.accuracy import Reference, agreement
from tests.jax.faults import fault


@dataclass(frozen=True)
class Case:
    """function(*operands); differentiable: its float results have a gradient with respect to its float operands that JAX and
    burn both define. bound: a factor of the error allowed. pointwise: a result's element depends on one element of each operand.
    x64: JAX computes in 64 bits. own: burn's function of tensors, if it is not burn.compile(function); it takes and returns
    complex numbers as pairs [.., 2]. of: the case that this one is the derivative of. loss, wanted: of a first derivative, the
    function of pairs and the operands it is taken with respect to."""

    name: str
    function: Callable[..., Any]
    operands: tuple[Any, ...]
    differentiable: bool = False
    bound: float = 1.0
    pointwise: bool = False
    x64: bool = False
    own: Callable[..., Any] | None = None
    of: Case | None = None
    loss: Callable[..., Any] | None = None
    wanted: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{x.dtype}{list(x.shape)}' for x in self.operands)}){' x64' * self.x64}"


@dataclass(frozen=True)
class Result:
    """kind: "right", "refused", "wrong", "error", "fault" (of JAX: faults.py), or "skipped" where JAX itself refuses."""

    kind: str
    detail: str = ""


def _scalar(leaves: Sequence[Any]) -> Any:
    """A sum of the float results, and of both parts of complex ones, with weights of different size and sign."""
    total: Any = 0.0
    parts = [p for x in leaves for p in ((x.real, x.imag) if jnp.issubdtype(x.dtype, jnp.complexfloating) else (x,))]
    for number, leaf in enumerate(parts):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            weights = np.cos(np.arange(int(np.prod(leaf.shape))) * 0.37 + number).reshape(leaf.shape)
            kind = jnp.promote_types(leaf.dtype, jnp.float32)
            total = total + jnp.sum(jnp.asarray(weights, kind) * leaf.astype(kind))
    return total


def _is_complex(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.complexfloating)


def _pair(x: Any) -> Any:
    """Complex numbers as [.., 2]; anything else as it is."""
    return np.stack([x.real, x.imag], -1) if _is_complex(x) else x


def derivative(case: Case, order: int = 1) -> Case | None:
    """The gradient of a scalar of the case's results with respect to its float and complex operands. For order 2 it is the
    gradient, with respect to the first of them, of a scalar of that. Of a complex operand: the derivative with respect to its
    real part plus i times that with respect to the imaginary one (JAX's is the conjugate). None if there is nothing to
    differentiate."""
    wanted = tuple(i for i, x in enumerate(case.operands) if jnp.issubdtype(x.dtype, jnp.inexact) and x.size)
    if not case.differentiable or not wanted:
        return None
    kinds = [_is_complex(x) for x in case.operands]

    def loss(*operands: Any) -> Any:
        return _scalar(jax.tree.leaves(case.function(*operands)))

    def of_pairs(*operands: Any) -> Any:
        given = zip(operands, kinds, strict=True)
        return loss(*(jax.lax.complex(x[..., 0], x[..., 1]) if pair else x for x, pair in given))

    def gradient(*operands: Any) -> Any:
        return [jnp.conj(g) for g in jax.grad(loss, wanted)(*operands)]

    own = burn.from_jax(of_pairs)
    alike = len({np.shape(x) for x in case.operands}) == 1
    made = replace(
        case,
        of=case,
        name=f"{'gradient' if order == 1 else 'second derivative'} of {case.name}",
        bound=case.bound * 4,
        pointwise=case.pointwise and alike,
    )
    if order == 1:
        return replace(made, function=gradient, own=burn.grad(own, wanted), loss=of_pairs, wanted=wanted)
    first = wanted[0]

    def twice(*operands: Any) -> Any:
        return jnp.conj(jax.grad(lambda *xs: _scalar([jnp.conj(jax.grad(loss, first)(*xs))]), first)(*operands))

    def again(*xs: Any) -> Any:
        inner = burn.grad(own, first)(*xs)
        return _weighted_pairs(inner) if kinds[first] else _weighted(inner, 0)

    return replace(made, function=twice, own=burn.grad(again, first))


def _weighted(x: Any, number: int) -> Any:
    """`_scalar` of one tensor of burn."""
    weights = np.cos(np.arange(int(np.prod(x.shape))) * 0.37 + number).reshape(x.shape)
    return (x * burn.constant(weights.astype(x.dtype))).sum()


def _weighted_pairs(x: Any) -> Any:
    return _weighted(x[..., 0], 0) + _weighted(x[..., 1], 1)


def outcome(case: Case) -> Result:
    """How one case went."""
    with jax.enable_x64(case.x64):
        expected = _try(lambda: jax.jit(case.function)(*case.operands))
        if isinstance(expected, Exception):
            return Result("skipped", str(expected)[:200])
        given = _try(lambda: _by_burn(case))
        if isinstance(given, Exception):
            if isinstance(given, BurnError):
                if case.of and outcome(case.of).kind == "skipped":  # a gradient of zeros leaves out what JAX refuses
                    return Result("skipped", "JAX refuses the function itself")
                return Result("refused", str(given)[:600])
            return Result("error", f"{type(given).__name__}: {str(given)[:600]}")
        return compared(case, jax.tree.leaves(expected), _leaves(given))


def _by_burn(case: Case) -> Any:
    if case.own is None:
        return burn.compile(jax.jit(case.function), case.operands, cache=False)(*case.operands)
    kinds = [_is_complex(case.operands[i]) for i in case.wanted or _first_float(case)]
    made = _called(case.own, [_pair(np.asarray(x)) for x in case.operands])
    return [_whole(x, kind) for x, kind in zip(made, kinds, strict=True)]


def _first_float(case: Case) -> tuple[int, ...]:
    return tuple(i for i, x in enumerate(case.operands) if jnp.issubdtype(x.dtype, jnp.inexact) and x.size)[:1]


def _whole(x: Any, pair: bool) -> Any:
    """Complex numbers of a pair; a sum with 1j times a part would lose infinities."""
    return np.ascontiguousarray(x).view(np.result_type(x.dtype, np.complex64))[..., 0] if pair else x


def _called(own: Callable[..., Any], operands: Sequence[Any]) -> list[Any]:
    """The results of burn's function of tensors, compiled for these operands."""
    types = tuple(str(burn.spec(x.dtype.name, x.shape)) for x in operands)
    text = ", ".join(f"x{i}" for i in range(len(types)))
    scope: dict[str, Any] = {"function": own}
    exec(f"def call({text}): return function({text})", scope)
    return _leaves(burn.compile(scope["call"], types, cache=False)(*operands))


def together(cases: Sequence[Case]) -> list[Result]:
    """As `outcome` of each, for cases of one kind (x64 or not, functions or first derivatives). They run in one program of JAX
    and one of burn, which is much faster, or each alone if that fails. Those that JAX refuses are run alone."""
    alone = {i: outcome(case) for i, case in enumerate(cases) if _refused(case)}
    rest = [case for i, case in enumerate(cases) if i not in alone]
    results = iter(_together(rest) if rest else ())
    return [alone[i] if i in alone else next(results) for i in range(len(cases))]


def _refused(case: Case) -> bool:
    with jax.enable_x64(case.x64):
        return isinstance(_try(lambda: jax.jit(case.function).trace(*case.operands)), Exception)


def _together(cases: Sequence[Case]) -> list[Result]:
    counts = [len(case.operands) for case in cases]

    def parted(operands: Sequence[Any]) -> list[list[Any]]:
        rest = iter(operands)
        return [[next(rest) for _ in range(n)] for n in counts]

    def function(*operands: Any) -> list[Any]:
        return [jax.tree.leaves(case.function(*xs)) for case, xs in zip(cases, parted(operands), strict=True)]

    operands = [x for case in cases for x in case.operands]
    with jax.enable_x64(cases[0].x64):
        expected = _try(lambda: jax.jit(function)(*operands))
        if isinstance(expected, Exception):
            return [outcome(case) for case in cases]
        if cases[0].loss:
            given = _try(lambda: _gradients(cases, parted))
        else:
            given = _try(lambda: burn.compile(jax.jit(function), tuple(operands), cache=False)(*operands))
        if isinstance(given, Exception):
            return [outcome(case) for case in cases]
        return [compared(case, w, h) for case, w, h in zip(cases, expected, given, strict=True)]


def _gradients(cases: Sequence[Case], parted: Callable[[Sequence[Any]], list[list[Any]]]) -> list[list[Any]]:
    """Burn's gradients of all cases, as those of one sum."""

    def total(*operands: Any) -> Any:
        return sum((case.loss(*xs) for case, xs in zip(cases, parted(operands), strict=True) if case.loss), start=0.0)

    indices = iter(range(sum(len(case.operands) for case in cases)))
    numbers = [[next(indices) for _ in case.operands] for case in cases]
    wanted = tuple(own[i] for case, own in zip(cases, numbers, strict=True) for i in case.wanted)
    made = iter(
        _called(burn.grad(burn.from_jax(total), wanted), [_pair(np.asarray(x)) for c in cases for x in c.operands])
    )
    return [[_whole(next(made), _is_complex(case.operands[i])) for i in case.wanted] for case in cases]


def _leaves(given: Any) -> list[Any]:
    return [given] if not isinstance(given, (tuple, list, dict)) else jax.tree.leaves(given)


def _try(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # the sweep goes on
        return error


def compared(case: Case, expected: Sequence[Any], given: Sequence[Any]) -> Result:
    if len(expected) != len(given):
        return Result("wrong", f"{len(given)} results, not {len(expected)}")
    keys = any(jnp.issubdtype(x.dtype, jax.dtypes.prng_key) for x in case.operands)
    reference = Reference(case.function, () if keys else case.operands, case.x64)
    found = ""
    for number, (want, have) in enumerate(zip(expected, given, strict=True)):
        if jnp.issubdtype(want.dtype, jax.dtypes.prng_key):
            want, have = jax.random.key_data(want), jax.random.key_data(have)
        want, have = np.asarray(want), np.asarray(have)
        if want.shape != have.shape or want.dtype != have.dtype:
            return Result("wrong", f"result {number} is {have.dtype}{have.shape}, not {want.dtype}{want.shape}")
        right = agreement(want, have, number, reference, case.bound, case.pointwise)
        reason = "" if np.all(right) else fault(case, want, have, right)
        if not np.all(right) and not reason:
            return Result("wrong", f"result {number}: {_shown(want, have)}")
        found = found or reason
    return Result("fault", found) if found else Result("right")


def _shown(want: Any, have: Any) -> str:
    with np.errstate(all="ignore"):
        a, b = np.asarray(want).reshape(-1), np.asarray(have).reshape(-1)
        kind = np.complex128 if "c" in a.dtype.kind + b.dtype.kind else np.float64
        wide, other = a.astype(kind), b.astype(kind)
        gap = np.abs(wide - other)
        gap = np.where((wide == other) | (np.isnan(wide) & np.isnan(other)), -1, np.where(np.isnan(gap), np.inf, gap))
    worst = [int(i) for i in np.argsort(-gap)[:3] if gap[i] >= 0]
    return "; ".join(f"[{i}] {b[i]}, not {a[i]}" for i in worst)
