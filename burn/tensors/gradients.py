"""`burn.grad` and its family: derivatives of functions of tensors.

    loss, grads = burn.value_and_grad(loss_fn)(model, x, y)      # of a module: gradients by parameter path
    slope = burn.grad(burn.grad(f))(x)                           # derivatives are functions like any other

In a traced function the ops of the backward pass are added to its program. Elsewhere they are recorded like all others, so
Python's control flow may depend on elements. The dialect has the rules (burn/dialect/adjoint).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.adjoint import gradients, sections
from burn.dialect.adjoint.reverse import Backward, Custom, Customs
from burn.dialect.adjoint.sections import alias
from burn.dialect.copies import seen_now
from burn.dialect.deferred import Deferred, Value, make_kin, remembering
from burn.dialect.types import CONTINUOUS, FLOATS, TensorType, type_of
from burn.errors import Problem, TypeMismatch
from burn.tensors.base import Base, made
from burn.tensors.promotion import constant
from burn.tensors.tensor import Tensor
from burn.tensors.tracer import active
from burn.tensors.trees import Structure, flatten, is_array, is_leaf, paths, unflatten

_customs: ContextVar[Customs | None] = ContextVar("customs", default=None)


@contextmanager
def _differentiating(keep: bool = False) -> Iterator[Customs]:
    """Collects the custom rules that functions called inside register for their results. keep: for a later backward pass."""
    customs = _customs.get()
    if customs is not None:
        yield customs
        return
    customs = Customs()
    token = _customs.set(customs)
    try:
        with remembering(keep):
            yield customs
    finally:
        _customs.reset(token)


def registered() -> Customs | None:
    """The custom rules collected so far; None if nothing is differentiated."""
    return _customs.get()


class Gradients(dict[str, Tensor]):
    """Gradients by parameter path. unused: the paths of parameters that the function does not depend on. Their gradients are
    zeros, and an optimizer leaves these parameters alone, as PyTorch does with parameters whose `grad` is None."""

    def __init__(self, items: Any = (), unused: Iterable[str] = ()) -> None:
        super().__init__(items)
        self.unused = frozenset(unused)

    @property
    def used(self) -> dict[str, Tensor]:
        """The gradients of the parameters that the function depends on."""
        return {path: g for path, g in self.items() if path not in self.unused}


def numbered(function: Any, argnums: Any) -> tuple[bool, tuple[int, ...]]:
    """True for one argument, and the arguments' numbers. Raises TypeMismatch for argnums that are no integers, and for what is no
    function."""
    if not callable(function):
        raise TypeMismatch("a function is differentiated", [f"not a {type(function).__name__}"])
    single = isinstance(argnums, (int, np.integer))
    given: Any = (argnums,) if single else argnums if isinstance(argnums, Sequence) else (None,)
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in given):
        raise TypeMismatch("argnums are numbers of positional arguments", [f"not {argnums!r}"])
    return single, tuple(map(int, given))


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns (the result of `function`, its gradient with respect to the arguments numbered `argnums`).

    function returns a float scalar; with `has_aux`, a pair of it and anything else, which is passed on. An argument is a
    tensor (an array, a number), a container of them, or a module. The gradients of a container have its structure. Those of a
    module are `Gradients`: a dictionary by parameter path, without frozen parameters, with the paths of unused ones.
    Several argnums give a tuple. Raises TypeMismatch if an argument holds no floats, or if an op cannot be
    differentiated. The gradient of a tensor that the result does not depend on is zero, as the second derivative of relu."""
    single, numbers = numbered(function, argnums)

    @functools.wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        if any(not -len(args) <= n < len(args) for n in numbers):
            raise TypeMismatch("argnums name positional arguments", [f"{list(numbers)}; {len(args)} were given"])
        with _differentiating() as customs:
            given = list(args)
            parts = [_Part.of(args[n], f"argument {n}") for n in numbers]
            for n, part in zip(numbers, parts, strict=True):
                given[n] = part.argument
            values = [v for part in parts for v in part.values]
            result = function(*given, **kwargs)
            loss = _loss(result, has_aux)
            one = ops.full(shape=(), dtype=loss.type.dtype, value=1.0)
            found = iter(gradients([loss.value], [one], values, customs))
            given_back = [[next(found) for _ in part.values] for part in parts]
            tensors = [
                [_or_zeros(g, v) for g, v in zip(own, part.values, strict=True)]
                for own, part in zip(given_back, parts, strict=True)
            ]
            make_kin(t.value for t in (loss, *(t for own in tensors for t in own)))
            unused = [[g is None for g in own] for own in given_back]
            grads = [part.result(own, idle) for part, own, idle in zip(parts, tensors, unused, strict=True)]
        value = (loss, result[1]) if has_aux else loss
        return value, grads[0] if single else tuple(grads)

    return differentiated


@contextmanager
def own_derivatives() -> Iterator[Customs]:
    """Inside, functions register their own derivatives (`custom_vjp`) as if they were differentiated."""
    with _differentiating() as customs:
        yield customs


def slopes(result: Tensor, by: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of a scalar with respect to tensors that it depends on, in the function being traced."""
    with _differentiating() as customs:
        one = ops.full(shape=(), dtype=result.type.dtype, value=1.0)
        found = gradients([result.value], [one], [t.value for t in by], customs)
        return [_or_zeros(g, t.value) for g, t in zip(found, by, strict=True)]


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `value_and_grad`; with `has_aux`, a pair of it and the function's other result."""
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return differentiated


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """(function(*primals), a function that maps a cotangent of the result to cotangents of the primals). Results and primals
    are tensors, or containers of them; the cotangent has the result's structure."""
    with _differentiating(keep=True) as customs:
        parts = [_Part.of(primal, f"primal {i}") for i, primal in enumerate(primals)]
        values = [v for part in parts for v in part.values]
        result = function(*(part.argument for part in parts))
        leaves, structure = _tensors(result, "the function's result")

    def back(cotangent: Any) -> tuple[Any, ...]:
        given, own = flatten(cotangent)
        if own != structure:
            raise TypeMismatch("the cotangent has another structure than the result", [f"{own}, not {structure}"])
        cotangents = [_like(g, leaf) for g, leaf in zip(given, leaves, strict=True)]
        with _differentiating(keep=True):
            found = iter(_pulled(leaves, cotangents, values, customs))
            return tuple(part.result([_or_zeros(next(found), v) for v in part.values]) for part in parts)

    return result, back


def _pulled(
    outputs: Sequence[Tensor], cotangents: Sequence[Value | None], inputs: Sequence[Value], customs: Customs
) -> list[Value | None]:
    """The cotangents of inputs, given those of outputs. Ops that were recorded before the present traced function began are built
    in it first."""
    if active() is None or not any(isinstance(t._value, Deferred) for t in outputs):
        return gradients([t.value for t in outputs], cotangents, inputs, customs)
    built, sources = sections.rebuilt([t._value for t in outputs], inputs, customs, lambda v: made(v).value)
    return gradients(built, cotangents, sources, customs)


def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(function(*primals), its derivative in the direction of the tangents), in the result's structure.

    The backward pass is linear in its cotangents, so transposing it gives the forward derivative."""
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise TypeMismatch(f"jvp takes a tuple of {name}, one for each argument", [f"not a {type(given).__name__}"])
    if len(primals) != len(tangents):
        raise TypeMismatch("jvp takes a tangent for each primal", [f"{len(tangents)} for {len(primals)}"])
    with _differentiating() as customs:
        parts = [_Part.of(primal, f"primal {i}") for i, primal in enumerate(primals)]
        values = [v for part in parts for v in part.values]
        result = function(*(part.argument for part in parts))
        leaves, structure = _tensors(result, "the function's result")
        given = [leaf for tangent in tangents for leaf in flatten(tangent)[0]]
        if len(given) != len(values):
            raise TypeMismatch("tangents have the primals' structure", [f"{len(given)} tensors for {len(values)}"])
        directions = [_like(t, made(v)) for t, v in zip(given, values, strict=True)]
        starts = [ops.full(shape=leaf.type.shape, dtype=leaf.type.dtype, value=0.0) for leaf in leaves]
        back = gradients([leaf.value for leaf in leaves], starts, values, customs)
        known = [(g, t) for g, t in zip(back, directions, strict=True) if g is not None]
        found = gradients([g for g, _ in known], [t for _, t in known], starts, customs)
        forward = [_or_zeros(g, leaf.value) for g, leaf in zip(found, leaves, strict=True)]
    return result, unflatten(structure, forward)


def stop_gradient(x: Any) -> Any:
    """x as a constant for differentiation. x may be a container of tensors."""
    leaves, structure = flatten(x)
    return unflatten(structure, [made(ops.stop_gradient(constant(leaf).value)) for leaf in leaves])


class custom_vjp:  # named as it is used: a decorator
    """A function with a derivative of its own.

        @burn.custom_vjp
        def f(x): ...
        f.defvjp(forward, backward)

    Differentiation calls `forward(*args)` instead, which returns (the result of f, residuals). The backward pass
    calls `backward(residuals, cotangent)`, which returns a cotangent (or None) for each argument, with the argument's
    structure, shapes and element types. Tensors that f takes from elsewhere count as constants.
    Keyword arguments and omitted defaults are passed to both functions by position. Raises TypeMismatch if forward or
    backward return anything else."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        self._forward, self._backward = forward, backward

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        bound = inspect.signature(self._function).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeMismatch(f"{self._name} has keyword-only arguments", [", ".join(bound.kwargs)])
        return bound.args

    @property
    def _name(self) -> str:
        return getattr(self._function, "__name__", "the function")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        customs = _customs.get()
        if self._forward is None or self._backward is None:
            raise TypeMismatch(f"{self._name} has no derivative", ["call .defvjp(forward, backward)"])
        if customs is None:
            return self._function(*args, **kwargs)
        args = self._positional(args, kwargs)
        operands, arguments = _operands(args)
        pair = self._forward(*args)
        if not isinstance(pair, tuple) or len(pair) != 2:
            text = f"not {f'{len(pair)} values' if isinstance(pair, tuple) else f'a {type(pair).__name__}'}"
            raise TypeMismatch(f"the forward function of {self._name} returns (result, residuals)", [text])
        result, residuals = pair
        kept, kept_structure = flatten(residuals, _is_tensor)
        results, structure = _apart(result)
        backward, name = self._backward, self._name
        types = [type_of(v) for v in operands]

        def back(
            values: Sequence[Value],
            residuals: Sequence[Value],
            of_results: Sequence[Value | None],
            wanted: Sequence[bool],
        ) -> list[Value | None]:
            cotangent = unflatten(structure, [_or_zeros(g, v) for g, v in zip(of_results, results, strict=True)])
            given = backward(unflatten(kept_structure, map(made, residuals)), cotangent)
            given = given if isinstance(given, tuple) else (given,)
            return _matched(name, given, arguments, types)

        residual_values = [constant(t).value for t in kept]
        _enter(customs, results, map(alias, operands), map(alias, residual_values), back)
        return unflatten(structure, map(made, results))


def with_derivative(
    function: Callable[..., tuple[Tensor, ...]],
    backward: Callable[..., Sequence[Tensor | None]],
    *operands: Tensor,
    plain: Callable[..., tuple[Tensor, ...]] | None = None,
) -> tuple[Tensor, ...]:
    """function(*operands), differentiated by a rule of its own: backward(operands, results, cotangents), with None for the
    cotangent of a result that nothing uses, returns a cotangent for each operand. Unlike with `custom_vjp`, the results that it
    is given have this rule too, so that second derivatives do not go through the function.

    plain: called instead where nothing is differentiated; `function` may then return further results, which are residuals, and
    operands are not computed at once outside of traces."""
    customs = _customs.get()
    if customs is None:
        return (plain or function)(*operands)
    lazy = active() is not None or plain is not None
    given = operands if lazy else [constant(t.numpy()) for t in operands]  # computed at once outside of traces
    results = tuple(_alias(t).value for t in function(*given))

    def back(
        values: Sequence[Value],
        kept: Sequence[Value],
        of_results: Sequence[Value | None],
        wanted: Sequence[bool],
    ) -> list[Value | None]:
        cotangents = [None if g is None else made(g) for g in of_results]
        found = backward(tuple(map(made, values)), tuple(map(made, kept)), cotangents)
        return [None if t is None else t.value for t in found]

    _enter(customs, results, (alias(t.value) for t in operands), results, back)
    return tuple(map(made, results))


def _enter(
    customs: Customs,
    results: Iterable[Value],
    operands: Iterable[Value],
    residuals: Iterable[Value],
    backward: Backward,
) -> None:
    custom = Custom(tuple(results), tuple(operands), tuple(residuals), backward, seen_now())
    customs.update(dict.fromkeys(custom.results, custom))


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function without stored activations: the backward pass recomputes everything between arguments and
    results, with the same random numbers (arXiv:1604.06174). Modules and tensors that it captures also get gradients.

    The function is called once: its ops are built again. An op whose result has a data-dependent size is not recomputed."""

    @functools.wraps(function)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        customs = _customs.get()
        if customs is None:
            return function(*args, **kwargs)
        leaves, arguments = flatten(args, _is_tensor)
        start = sections.start()
        given = [_alias(leaf) for leaf in leaves]
        result = function(*unflatten(arguments, given), **kwargs)
        outputs, structure = flatten(result, _is_tensor)
        section = sections.ended(start, [t.value for t in given], [constant(t).value for t in outputs], customs)
        _enter(customs, section.results, section.operands, (), section.backward)
        return unflatten(structure, map(made, section.results))

    return recomputed


# ---- arguments and results -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Part:
    """An argument of differentiation: the object passed to the function, its values, and the structure of their cotangents
    (`paths` for a module)."""

    argument: Any
    values: list[Value]
    structure: Structure | None
    paths: tuple[str, ...]

    @staticmethod
    def of(argument: Any, name: str) -> _Part:
        if hasattr(argument, "named_parameters"):
            named = [(path, p) for path, p in argument.named_parameters(buffers=False) if p.trainable]
            named = [(path, p) for path, p in named if p.dtype in CONTINUOUS]
            if (tracer := active()) is not None:
                tracer.saw(argument)
            for path, parameter in named:
                parameter.name = parameter.name or path
            return _Part(argument, [p.value for _, p in named], None, tuple(path for path, _ in named))
        leaves, structure = flatten(argument, is_leaf)
        tensors = [constant(leaf) for leaf in leaves]
        wrong = [
            Problem(f"{path or name} is {t.type}", hint="leave it out of argnums, or convert it")
            for path, t in zip(paths(structure), tensors, strict=True)
            if t.dtype not in CONTINUOUS
        ]
        if wrong or not tensors:
            problems = wrong or [Problem(f"{name} holds no tensors")]
            raise TypeMismatch("only floats are differentiated by", problems)
        inputs = [_alias(t) for t in tensors]
        return _Part(unflatten(structure, inputs), [t.value for t in inputs], structure, ())

    def result(self, tensors: list[Tensor], unused: Sequence[bool] = ()) -> Any:
        if self.structure is None:
            none = [path for path, is_unused in zip(self.paths, unused, strict=False) if is_unused]
            return Gradients(zip(self.paths, tensors, strict=True), none)
        return unflatten(self.structure, tensors)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Base) or is_array(value)


def _alias(x: Any) -> Tensor:
    """A new value equal to the tensor."""
    return made(alias(constant(x).value))


def _loss(result: Any, has_aux: bool) -> Tensor:
    if has_aux and not (isinstance(result, tuple) and len(result) == 2):
        raise TypeMismatch("with has_aux the function returns (value, anything else)", [f"not {type(result).__name__}"])
    loss = result[0] if has_aux else result
    if not isinstance(loss, Base) or loss.dtype not in FLOATS or loss.ndim:
        text = f"not {loss.type}" if isinstance(loss, Base) else f"not a {type(loss).__name__}"
        raise TypeMismatch("a function that is differentiated returns a float scalar", [text])
    return loss  # type: ignore[return-value]


def _tensors(result: Any, what: str) -> tuple[list[Tensor], Structure]:
    leaves, structure = flatten(result)
    tensors = [constant(leaf) for leaf in leaves]
    wrong = [f"{what} has a tensor {t.type}" for t in tensors if t.dtype not in CONTINUOUS]
    if wrong or not tensors:
        raise TypeMismatch("only floats are differentiated", wrong or [f"{what} has no tensors"])
    return tensors, structure


def _like(g: Any, tensor: Tensor) -> Value:
    """A cotangent or tangent of a tensor. Raises TypeMismatch unless it has its shape."""
    given = constant(g).astype(tensor.dtype)
    if given.type.shape != tensor.type.shape:
        raise TypeMismatch("a cotangent (or tangent) has its tensor's shape", [f"{given.type}, not {tensor.type}"])
    return given.value


def _or_zeros(g: Value | None, like: Value) -> Tensor:
    type_ = type_of(like)
    return made(ops.full(shape=type_.shape, dtype=type_.dtype, value=0.0) if g is None else g)


def _operands(args: tuple[Any, ...]) -> tuple[list[Value], tuple[Structure, ...]]:
    """The tensors in the arguments, and the structure of each argument."""
    values: list[Value] = []
    structures = []
    for argument in args:
        leaves, structure = flatten(argument, _is_tensor)
        values += [constant(leaf).value for leaf in leaves]
        structures.append(structure)
    return values, tuple(structures)


def _apart(result: Any) -> tuple[list[Value], Structure]:
    leaves, structure = flatten(result, _is_tensor)
    return [_alias(leaf).value for leaf in leaves], structure


def _matched(
    name: str, given: tuple[Any, ...], structures: tuple[Structure, ...], types: Sequence[TensorType]
) -> list[Value | None]:
    """The cotangents returned by a backward function, one for each tensor in the arguments. Raises TypeMismatch unless each has
    the type of its tensor."""
    who = f"the backward function of {name}"
    if len(given) != len(structures):
        raise TypeMismatch(f"{who} returns a cotangent for each argument", [f"{len(given)} for {len(structures)}"])
    values: list[Value | None] = []
    for i, (g, structure) in enumerate(zip(given, structures, strict=True)):
        leaf_paths = paths(structure)
        if g is None:
            values += [None] * len(leaf_paths)
            continue
        if not leaf_paths:
            raise TypeMismatch(f"{who} returns None for what holds no tensors", [f"argument {i} holds none"])
        leaves, own = flatten(g, _is_tensor)
        if own != structure:
            raise TypeMismatch(f"{who} returns cotangents in their argument's structure", [f"{own}, not {structure}"])
        for path, leaf in zip(leaf_paths, leaves, strict=True):
            cotangent, want = constant(leaf), types[len(values)]
            if cotangent.type != want:
                text = f"that of argument {i}{path and f' at {path}'} is {cotangent.type}, not {want}"
                raise TypeMismatch(f"{who} returns cotangents of their argument's type", [text])
            values.append(cotangent.value)
    return values
