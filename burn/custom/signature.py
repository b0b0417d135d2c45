"""Types of custom ops' operands and results: from a Python function, or from text with named sizes.

"T[n, k], T[k, m] -> T[n, m]"            a type variable, and sizes that operands share
"float32[..., d], int64[n] -> float32[..., d], bool[n + 1]"
"T[n, k], T[k]? -> T[n, k]"               an operand that a call may leave out
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from burn.dialect.custom import REQUIRED, Settings
from burn.dialect.dims import Atom, Dim, Expr, Symbol, parse, substitute, symbols
from burn.dialect.locations import current_site
from burn.dialect.spec import spec
from burn.dialect.types import DTYPES, TensorType
from burn.errors import BurnError, Problem, TypeMismatch

_TYPE = re.compile(r"\s*(\w+)\s*\[([^\]]*)\]\s*(\?)?\s*")
_ANY = "..."


def fail(name: str, message: str, hint: str = "") -> NoReturn:
    raise TypeMismatch(f"{name}: {message}", [Problem(message, node=current_site(name), op=name, hint=hint)])


@dataclass(frozen=True)
class Inference:
    """A Python function from operand types to result types. attributes: its keyword-only parameters. Operands with the default
    None, from number `least` on, are optional: their type is None if a call leaves them out."""

    name: str
    function: Callable[..., Any]
    least: int
    most: int | None
    attributes: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> Inference:
        least, most, attributes = 0, 0, {}
        for parameter in inspect.signature(function).parameters.values():
            match parameter.kind:
                case inspect.Parameter.KEYWORD_ONLY:
                    given = parameter.default is not inspect.Parameter.empty
                    attributes[parameter.name] = parameter.default if given else REQUIRED
                case inspect.Parameter.VAR_POSITIONAL:
                    most = None
                case inspect.Parameter.VAR_KEYWORD:
                    raise TypeMismatch(
                        f"{name}: the function of types names its attributes", [f"not **{parameter.name}"]
                    )
                case _:
                    if parameter.default not in (inspect.Parameter.empty, None):
                        hint = "attributes are keyword-only: write them after `*`"
                        raise TypeMismatch(
                            f"{name}: operands have no defaults but None", [Problem(parameter.name, hint=hint)]
                        )
                    least += parameter.default is inspect.Parameter.empty
                    most = None if most is None else most + 1
        return cls(name, function, least, most, attributes)

    @property
    def optional(self) -> frozenset[int]:
        """The numbers of operands that a call may leave out."""
        return frozenset(range(self.least, self.most or self.least))

    def infer(self, operands: Sequence[TensorType | None], settings: Settings) -> list[TensorType]:
        """Raises TypeMismatch for a wrong number of operands, for what the function raises, and for results that are no types."""
        count = len(operands)
        if count < self.least or (self.most is not None and count > self.most):
            fail(
                self.name,
                f"takes {self.least if self.most is not None else f'{self.least} or more'} operands, not {count}",
            )
        try:
            made = self.function(*operands, **settings)
        except TypeMismatch as error:
            raise TypeMismatch(f"{self.name}: {error}", error.problems) from error
        except Exception as error:
            fail(self.name, f"its function of types raised {type(error).__name__}: {error}")
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        return [self._type(number, each) for number, each in enumerate(made)]

    def _type(self, number: int, made: Any) -> TensorType:
        if not isinstance(made, (TensorType, str)):
            hint = 'a type is written as "float32[batch, 3]", or made of an operand: x.with_shape((n, 3))'
            fail(self.name, f"its function of types returned {made!r} as result {number}, which is no type", hint)
        try:
            return spec(made)
        except BurnError as error:
            fail(self.name, f"its function of types returned {made!r} as result {number}: {error}")

    def agreements(self, operands: Sequence[TensorType | None]) -> list[tuple[Dim, Dim]]:
        return []

    @property
    def identity(self) -> Any:
        return self.function


@dataclass(frozen=True)
class Pattern:
    """A type as text: an element type or a type variable, and sizes. "..." stands for any number of axes."""

    dtype: str
    dims: tuple[str, ...]
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(self.dims)}]"


@dataclass(frozen=True)
class Text:
    """Types as text with named sizes. Operands that share a name must have the same size."""

    name: str
    text: str
    operands: tuple[Pattern, ...]
    results: tuple[Pattern, ...]
    attributes: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, text: str, attributes: Mapping[str, Any]) -> Text:
        left, arrow, right = text.partition("->")
        if not arrow:
            raise TypeMismatch(
                f"{name}: '{text}' names no results", ['types are written "T[n, k], T[k, m] -> T[n, m]"']
            )
        operands, results = _patterns(name, left), _patterns(name, right)
        if wrong := [p for p in results if p.optional]:
            raise TypeMismatch(f"{name}: a result is not optional", [f"{wrong[0]}?"])
        present = [p for p in operands if not p.optional]
        known = {d for p in present for d in p.dims} | {p.dtype for p in present}
        for pattern in results:
            unknown = [d for d in pattern.dims if d != _ANY and not symbols(_dim(name, d)) <= known]
            unknown += [_ANY] if _ANY in pattern.dims and _ANY not in known else []
            unknown += [pattern.dtype] if pattern.dtype not in DTYPES and pattern.dtype not in known else []
            if unknown:
                raise TypeMismatch(f"{name}: no operand has what the result {pattern} names", [", ".join(unknown)])
        return cls(name, text, operands, results, dict(attributes))

    @property
    def optional(self) -> frozenset[int]:
        return frozenset(number for number, pattern in enumerate(self.operands) if pattern.optional)

    @property
    def most(self) -> int:
        return len(self.operands)

    def infer(self, operands: Sequence[TensorType | None], settings: Settings) -> list[TensorType]:
        found = self._match(operands)
        return [TensorType(found.dtype(p.dtype), found.shape(p.dims)) for p in self.results]

    def agreements(self, operands: Sequence[TensorType | None]) -> list[tuple[Dim, Dim]]:
        return self._match(operands).agreements

    def _match(self, operands: Sequence[TensorType | None]) -> _Match:
        if len(operands) != len(self.operands):
            fail(self.name, f"takes {len(self.operands)} operands ({self.text}), not {len(operands)}")
        found = _Match(self, {}, {}, [])
        for number, (type_, pattern) in enumerate(zip(operands, self.operands, strict=True)):
            if type_ is not None:
                found.add(number, type_, pattern)
        return found

    @property
    def identity(self) -> Any:
        return self.text


@dataclass
class _Match:
    """The values of names in a call."""

    of: Text
    dtypes: dict[str, str]
    sizes: dict[str, Any]
    agreements: list[tuple[Dim, Dim]]

    def add(self, number: int, type_: TensorType, pattern: Pattern) -> None:
        if pattern.dtype in DTYPES:
            if type_.dtype != pattern.dtype:
                self._refuse(number, type_, pattern)
        elif self.dtypes.setdefault(pattern.dtype, type_.dtype) != type_.dtype:
            self._refuse(number, type_, pattern, f"{pattern.dtype} is {self.dtypes[pattern.dtype]}")
        dims, shape = list(pattern.dims), list(type_.shape)
        if _ANY in dims:
            at, rest = dims.index(_ANY), len(dims) - 1
            if len(shape) < rest:
                self._refuse(number, type_, pattern)
            middle = tuple(shape[at : len(shape) - (rest - at)])
            before = self.sizes.setdefault(_ANY, middle)
            if len(before) != len(middle):
                self._refuse(number, type_, pattern, f"... is {list(map(str, before))}")
            self._pairs(number, type_, pattern, list(zip(middle, before, strict=True)))
            shape[at : len(shape) - (rest - at)] = []
            del dims[at]
        if len(dims) != len(shape):
            self._refuse(number, type_, pattern)
        pairs = []
        for name, size in zip(dims, shape, strict=True):
            if name.isidentifier():
                pairs.append((size, self.sizes.setdefault(name, size)))
            else:
                pairs.append((size, self._value(name)))
        self._pairs(number, type_, pattern, pairs)

    def _pairs(self, number: int, type_: TensorType, pattern: Pattern, pairs: list[tuple[Dim, Dim]]) -> None:
        for have, want in pairs:
            if have == want:
                continue
            if isinstance(have, int) and isinstance(want, int):
                self._refuse(number, type_, pattern, f"{have} is not {want}")
            self.agreements.append((have, want))

    def _value(self, text: str) -> Dim:
        values: dict[Atom, Dim] = {Symbol(name): size for name, size in self.sizes.items() if name != _ANY}
        return substitute(_dim(self.of.name, text), values)

    def dtype(self, name: str) -> str:
        return self.dtypes.get(name, name)

    def shape(self, dims: Sequence[str]) -> tuple[Dim, ...]:
        found: list[Dim] = []
        for text in dims:
            found += self.sizes[_ANY] if text == _ANY else [self._value(text)]
        return tuple(found)

    def _refuse(self, number: int, type_: TensorType, pattern: Pattern, why: str = "") -> NoReturn:
        fail(self.of.name, f"operand {number} is {type_}, which is no {pattern}{why and f': {why}'}")


def _dim(name: str, text: str) -> int | Expr:
    try:
        return parse(text)
    except ValueError as error:
        raise TypeMismatch(f"{name}: malformed size", [str(error)]) from None


def _patterns(name: str, text: str) -> tuple[Pattern, ...]:
    found: list[Pattern] = []
    at = 0
    while text[at:].strip():
        match = _TYPE.match(text, at)
        if match is None:
            hint = 'types are written "T[n, k], T[k, m] -> T[n, m]"'
            raise TypeMismatch(f"{name}: malformed types", [Problem(f"'{text[at:].strip()}'", hint=hint)])
        dims = tuple(d.strip() for d in match[2].split(",") if d.strip())
        if dims.count(_ANY) > 1:
            raise TypeMismatch(f"{name}: a type has ... once", [match[0].strip()])
        for dim in dims:
            if dim != _ANY:
                _dim(name, dim)
        found.append(Pattern(match[1], dims, match[3] is not None))
        at = match.end()
        if text[at : at + 1] == ",":
            at += 1
        elif text[at:].strip():
            raise TypeMismatch(f"{name}: malformed types", [f"'{text[at:].strip()}'"])
    return tuple(found)
