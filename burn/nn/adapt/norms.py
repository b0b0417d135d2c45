"""Weight normalisation and spectral normalisation: weights computed from other parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from burn.dialect.types import FLOATS
from burn.errors import Problem, TypeMismatch
from burn.nn.derived import NAME, holder_of
from burn.nn.graph import Graph
from burn.nn.module import Module
from burn.nn.parameter import Buffer, Parameter
from burn.tensors import Tensor
from burn.tensors.gradients import stop_gradient

M = TypeVar("M", bound=Module)


class Derived(Module):
    """Base of modules that compute a weight."""

    dtype: str

    def advanced(self) -> Tensor:
        """The weight for a call of its module; state that training moves, moves."""
        return self()

    def _full(self, p: Tensor) -> Tensor:
        """Half precision as float32: norms are sums of squares."""
        return p.astype("float32") if p.dtype in ("float16", "bfloat16") else p


class WeightNorm(Derived):
    """g v / |v|, with the norm of v over all axes but `dim`, or over all for None (arXiv:1602.07868). As
    torch.nn.utils.parametrizations.weight_norm: `original0` is g, `original1` is v."""

    def __init__(self, weight: Parameter, dim: int | None = 0) -> None:
        self.dim = None if dim is None else _axis(weight, dim)
        self.original0 = _like(weight, self._norm(self._full(weight * 1)).astype(weight.dtype))
        self.original1 = _like(weight, weight * 1)

    def _norm(self, v: Tensor) -> Tensor:
        axes = tuple(i for i in range(v.ndim) if i != self.dim)
        square = v * v
        if self.dim is None:
            return square.sum().sqrt()
        return (square.sum(axes, keepdims=True) if axes else square).sqrt()

    def forward(self) -> Tensor:
        v = self._full(self.original1)
        return (v * (self._full(self.original0) / self._norm(v))).astype(self.original1.dtype)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Power(Module):
    """Vectors of the power iteration of `SpectralNorm`."""

    def __init__(self, u: np.ndarray, v: np.ndarray, dtype: str) -> None:
        self._u, self._v = Buffer(u.shape, dtype), Buffer(v.shape, dtype)
        for buffer, array in ((self._u, u), (self._v, v)):
            buffer.assign(Parameter(array).astype(dtype))


class SpectralNorm(Derived):
    """w / sigma, with the largest singular value sigma of w as a matrix whose rows are the indices of `dim` (arXiv:1802.05957).
    In training each call makes `iterations` of the power method. As torch.nn.utils.parametrizations.spectral_norm."""

    def __init__(self, weight: Parameter, iterations: int = 1, eps: float = 1e-12, dim: int = 0) -> None:
        if iterations < 1:
            raise TypeMismatch("the power method makes at least one iteration", [f"not {iterations}"])
        self.iterations, self.eps, self.dim = iterations, eps, _axis(weight, dim)
        self.original = _like(weight, weight * 1)
        if weight.ndim > 1:
            rows = weight.shape[self.dim]
            rng = np.random.default_rng(weight._stream)
            start = [rng.standard_normal(n).astype(np.float32) for n in (rows, weight.count // max(rows, 1))]
            u, v = (a / max(float(np.linalg.norm(a)), eps) for a in start)
            vars(self)["0"] = Power(u, v, str(weight.dtype))
            now = self._iterated(Tensor(self._u.value), Tensor(self._v.value), 15)
            for buffer, value in zip((self._u, self._v), now, strict=True):
                buffer.assign(value)
                buffer.move(weight.placement)

    @property
    def _u(self) -> Buffer:
        return vars(self)["0"]._u

    @property
    def _v(self) -> Buffer:
        return vars(self)["0"]._v

    def _matrix(self) -> Tensor:
        w = self._full(self.original * 1)
        return w.moveaxis(self.dim, 0).reshape(w.shape[self.dim], -1)

    def _iterated(self, u: Tensor, v: Tensor, count: int) -> tuple[Tensor, Tensor]:
        matrix = stop_gradient(self._matrix())
        v = self._full(v)
        for _ in range(count):
            u = self._unit(matrix @ v)
            v = self._unit(matrix.T @ u)
        return u.astype(self.original.dtype), v.astype(self.original.dtype)

    def _unit(self, x: Tensor) -> Tensor:
        return x / (x * x).sum().sqrt().maximum(self.eps)

    def advanced(self) -> Tensor:
        if self.training and self.original.ndim > 1:
            u, v = self._iterated(self._u * 1, self._v * 1, self.iterations)
            self._u.assign(u.astype(self._u.dtype))
            self._v.assign(v.astype(self._v.dtype))
        return self()

    def forward(self) -> Tensor:
        if self.original.ndim == 1:
            return self._unit(self._full(self.original * 1)).astype(self.original.dtype)
        u, v = (stop_gradient(self._full(b * 1)) for b in (self._u, self._v))
        sigma = (u * (self._matrix() @ v)).sum()
        return (self._full(self.original * 1) / sigma).astype(self.original.dtype)

    def extra_repr(self) -> str:
        return f"iterations={self.iterations}, dim={self.dim}"


class Parametrizations(Module):
    """The derived weights of a module, by name."""

    def __init__(self) -> None:
        self._modules: dict[str, Derived] = {}

    def children(self) -> Iterator[tuple[str, Module]]:
        return iter(self._modules.items())

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def put(self, name: str, module: Derived) -> None:
        self._modules[name] = module

    def pop(self, name: str) -> Derived:
        return self._modules.pop(name)


def weight_norm(model: M, pattern: str, *, dim: int | None = 0) -> M:
    """Replaces parameters of a model by their weight normalisation (`WeightNorm`), in place; returns the model. pattern: a
    regular expression that is found in the parameters' paths. The weights have the same values, and paths of PyTorch:
    `conv.parametrizations.weight.original0` and `original1`.

    Raises TypeMismatch, without any change, if no parameter is found, and for parameters that are shared, derived already, or of
    an imported model."""
    return _derived(model, pattern, lambda p: WeightNorm(p, dim))


def spectral_norm(model: M, pattern: str, *, iterations: int = 1, eps: float = 1e-12, dim: int = 0) -> M:
    """Replaces parameters of a model by their spectral normalisation (`SpectralNorm`), in place; returns the model. pattern: see
    `weight_norm`. dim: the axis of outputs; 1 for transposed convolutions. Raises as `weight_norm`."""
    return _derived(model, pattern, lambda p: SpectralNorm(p, iterations, eps, dim))


def bake(model: M, pattern: str = "") -> M:
    """Makes derived weights parameters again, with their present values, in place; returns the model. pattern: found in the paths
    that the parameters will have. Raises TypeMismatch if there is none."""
    found = 0
    for path, module in list(model.named_modules()):
        holder: Any = holder_of(module)
        if holder is None:
            continue
        for name, derived in list(holder.children()):
            if re.search(pattern, f"{path}.{name}" if path else name):
                value = derived()
                holder.pop(name)
                vars(module)[name] = _like(next(derived.parameters()), value)
                found += 1
        if not list(holder.children()):
            del vars(module)[NAME]
    if not found:
        raise TypeMismatch("there is no derived weight to bake", [f"the pattern is '{pattern}'"])
    return model


def _derived(model: M, pattern: str, make: Callable[[Parameter], Derived]) -> M:
    owners: list[tuple[Module, str, Parameter]] = []
    problems: list[Problem] = []
    uses: dict[int, int] = {}
    for _, p in model.named_parameters(shared=True):
        uses[id(p)] = uses.get(id(p), 0) + 1
    for path, module in model.named_modules():
        for name, p in list(vars(module).items()):
            full = f"{path}.{name}" if path else name
            if not isinstance(p, Parameter) or isinstance(p, Buffer) or not re.search(pattern, full):
                continue
            wrong = (
                "is a weight of an imported model" if isinstance(module, Graph)
                else "is derived already" if isinstance(module, Derived)
                else "is shared" if uses[id(p)] > 1
                else f"is {p.type}" if p.dtype not in FLOATS or not p.ndim
                else ""
            )  # fmt: skip
            problems += [Problem(f"'{full}' {wrong}")] if wrong else []
            owners.append((module, name, p))
    if problems or not owners:
        names = ", ".join(path for path, _ in model.named_parameters(buffers=False))
        raise TypeMismatch(
            f"'{pattern}' names no parameters that can be normalised", problems or [f"the paths are {names or 'none'}"]
        )
    ready = [(module, name, make(p)) for module, name, p in owners]
    for module, name, derived in ready:
        holder = vars(module).setdefault(NAME, Parametrizations())
        derived.train(module.training)
        holder.put(name, derived)
        del vars(module)[name]
    return model


def _like(p: Parameter, value: Tensor) -> Parameter:
    """A parameter with these elements, on the device of another one, and frozen if that is."""
    made = Parameter(tuple(int(n) for n in value.shape), str(value.dtype))
    made.assign(value.numpy() if not value.is_traced else value)
    made.move(p.placement)
    made.trainable = p.trainable
    return made


def _axis(weight: Parameter, dim: int) -> int:
    if not -weight.ndim <= dim < weight.ndim:
        raise TypeMismatch("the weight has no such axis", [f"dim is {dim}, the weight {weight.type}"])
    return dim % weight.ndim
