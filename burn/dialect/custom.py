"""Ops that users define (`burn.custom_op`): the op, and the table of their definitions.

An op holds the name, the digest and the attributes. The digest stands for one version of a definition: the text of its bodies,
and the code of its functions. So it is a part of each key under which a program is cached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Protocol

from burn.dialect.dims import Dim
from burn.dialect.locations import current_site
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, Op, Variadic
from burn.dialect.program import Program
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of
from burn.errors import Problem, TypeMismatch, near

BODIES: Mapping[str, str] = {
    "c": "a function in C", "triton": "Triton kernels", "functions": "burn functions", "python": "a Python function",
}  # fmt: skip
"""The kinds of bodies, and how errors name them."""

Settings = Mapping[str, Any]
"""Attributes by name: a bool, int, float, str, or a tuple of numbers of one kind."""


class Definition(Protocol):
    """One version of a custom op. Values are recorded or built."""

    @property
    def name(self) -> str:
        """As in "domain::name"."""
        ...

    @property
    def key(self) -> str:
        """The digest of everything that its results depend on."""
        ...

    @property
    def bodies(self) -> frozenset[str]: ...

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Default values; `REQUIRED` for an attribute without one."""
        ...

    @property
    def has_derivative(self) -> bool:
        """True if `transposed` can be called: it has a rule of its own, or a body of burn functions."""
        ...

    @property
    def has_rule(self) -> bool:
        """True if it has a derivative of its own, besides that of a body of burn functions."""
        ...

    @property
    def has_batching(self) -> bool:
        """True if `batched` can be called."""
        ...

    @property
    def absent(self) -> tuple[int, ...]:
        """The numbers of optional operands that the op lacks. Its values are the others."""
        ...

    def lacking(self, operands: Sequence[Any]) -> Definition:
        """The version for a call whose operands may be None, or end early. Raises TypeMismatch for one that is not optional."""
        ...

    def but(self, absent: Sequence[int]) -> Definition:
        """The version without operands of these numbers."""
        ...

    def complete(self, operands: Sequence[Any]) -> list[Any]:
        """Operands with None for those that are absent."""
        ...

    def infer(self, operands: Sequence[TensorType], settings: Settings) -> list[TensorType]: ...

    def agreements(self, operands: Sequence[TensorType]) -> list[tuple[Dim, Dim]]:
        """Pairs of sizes that must be equal, and that only a run can compare."""
        ...

    def expand(
        self, operands: Sequence[ir.Value], settings: Settings, program: Program, taken: set[str]
    ) -> list[ir.Value]:
        """Builds the body of burn functions at the insertion point, in a program. taken: names of sizes that new ones must not
        have; theirs are added."""
        ...

    def inlined(self, operands: Sequence[ir.Value], settings: Settings) -> list[ir.Value]:
        """Builds the body of burn functions at the insertion point, in the program that is traced."""
        ...

    def batched(
        self,
        size: Dim,
        mapped: Sequence[bool],
        operands: Sequence[Any],
        types: Sequence[TensorType],
        settings: Settings,
    ) -> list[Any]:
        """The results of `size` examples, by the user's rule. mapped: the operands whose first axis is that of the examples.
        types: of the results of one example."""
        ...

    def transposed(
        self, operands: Sequence[Any], results: Sequence[Any], cotangents: Sequence[Any], settings: Settings
    ) -> list[Any]:
        """A cotangent or None for each operand."""
        ...


REQUIRED = object()
"""Marks an attribute without a default."""

_VERSIONS: dict[str, Definition] = {}
_NEWEST: dict[str, Callable[[], Definition]] = {}


def define(definition: Definition) -> None:
    """Adds a version."""
    _VERSIONS[definition.key] = definition


def define_later(name: str, make: Callable[[], Definition]) -> None:
    """Says how the newest version of an op is made, which `define`s it. It replaces the one that the name stood for."""
    _NEWEST[name] = make


def named(name: str) -> Definition | None:
    """The newest version of an op, by its name "domain::name"."""
    return _NEWEST[name]() if name in _NEWEST else None


def names() -> list[str]:
    """The names of all ops."""
    return list(_NEWEST)


def versions() -> list[str]:
    """The newest versions of all ops that have a body: their names and digests."""
    found = []
    for name in sorted(_NEWEST):
        with suppress(TypeMismatch):  # it has no body yet
            found.append(f"custom op {name} {_NEWEST[name]().key}")
    return found


def suggestion(domain: str, operator: str) -> str:
    """A hint for an operator that is not defined: a custom op of a similar name, or how to define it."""
    name = f"{domain}::{operator}"
    known = [other for other in _NEWEST if other.startswith(f"{domain}::")]
    return near(name, known) if known else f'burn.custom_op("{name}") defines it'


def version(name: str, key: str) -> Definition:
    """Raises TypeMismatch if this process has not defined that version."""
    if key not in _VERSIONS and name in _NEWEST:
        named(name)  # it may be the newest, which no call has made yet
    if key in _VERSIONS:
        return _VERSIONS[key]
    what = "has another definition" if name in _NEWEST else "is not defined"
    hint = "import the module that defines it with burn.custom_op"
    problem = Problem(f"the custom op {name} {what} in this process", node=current_site(name), op=name, hint=hint)
    raise TypeMismatch("a program has a custom op that is not here", [problem])


def build_given(definition: Definition, operands: Sequence[Any], settings: Settings) -> list[Any]:
    """`build` with operands that may be None. Raises TypeMismatch for one that is not optional."""
    return build(definition.lacking(operands), [x for x in operands if x is not None], settings)


def encoded(settings: Settings) -> str:
    """Attributes as text, the same for equal ones."""
    return json.dumps(dict(settings), sort_keys=True)


def decoded(text: str) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()}


_kept: ContextVar[bool] = ContextVar("kept", default=False)


@contextmanager
def keeping_whole() -> Iterator[None]:
    """Inside, a traced call of a custom op is one op, even if it has no other body than burn functions: for exporters."""
    token = _kept.set(True)
    try:
        yield
    finally:
        _kept.reset(token)


def is_kept_whole() -> bool:
    return _kept.get()


class Custom(Op, name="custom", traits=Trait.WRITES_IN_PLACE):
    """A user's op (`burn.custom_op`). Shapes: values [...]... -> what the op's own inference gives.

    called: its name. key: the digest of its definition. settings: its attributes as JSON. body: the body that runs, which the
    pass `decompose` decides; "" until then.
    """

    values: Variadic
    called: str
    key: str
    settings: str = "{}"
    body: str = ""

    @classmethod
    def infer(cls, values: list[TensorType], called: str, key: str, settings: str, body: str) -> list[TensorType]:
        return version(called, key).infer(values, decoded(settings))

    @property
    def definition(self) -> Definition:
        """Raises TypeMismatch; see `version`."""
        return version(self.called, self.key)

    @property
    def shown(self) -> dict[str, Any]:
        """Its attributes by name."""
        return decoded(self.settings)

    def must_agree(self) -> list[Agreement]:
        types = [type_of(value) for value in self.operation.operands]
        return [Agreement(have, want) for have, want in self.definition.agreements(types)]


def build(definition: Definition, operands: Sequence[Any], settings: Settings) -> list[Any]:
    """Builds or records the op. Raises TypeMismatch for attributes or operands that do not fit."""
    made = Custom.build(
        list(operands),
        called=definition.name,
        key=definition.key,
        settings=encoded(complete(definition, settings)),
    )
    return made if isinstance(made, list) else [made]


def complete(definition: Definition, settings: Settings) -> dict[str, Any]:
    """All attributes, with defaults filled in, each of its default's kind. Raises TypeMismatch for others."""
    known = definition.attributes
    node = current_site(definition.name)
    problems = [
        Problem(
            f"it has no attribute '{name}'",
            node=node,
            op=definition.name,
            hint=near(name, list(known)),
        )
        for name in settings
        if name not in known
    ]
    found: dict[str, Any] = {}
    for name, default in known.items():
        value = settings.get(name, default)
        if value is REQUIRED:
            problems.append(Problem(f"attribute '{name}' is missing", node=node, op=definition.name))
            continue
        try:
            found[name] = _plain(value, default)
        except TypeError as error:
            problems.append(Problem(f"attribute '{name}' {error}", node=node, op=definition.name))
    if problems:
        raise TypeMismatch(f"{definition.name} was called with attributes that it does not take", problems)
    return found


def _plain(value: Any, default: Any) -> Any:
    """A value as JSON holds it. Raises TypeError if that loses something."""
    if isinstance(value, (list, tuple)):
        items = tuple(_plain(item, None) for item in value)
        if len({type(item) for item in items} - {bool, int}) > 1 or any(isinstance(i, (str, tuple)) for i in items):
            raise TypeError(f"is {value!r}; a list holds numbers of one kind")
        if any(isinstance(item, float) for item in items):
            items = tuple(map(float, items))
        return items
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, (bool, int, float, str)):
        raise TypeError(f"is {value!r}, which is no number, text or list of numbers")
    kinds = (bool, int, float, str)
    if isinstance(default, kinds) and type(value) is not type(default):
        raise TypeError(f"is {value!r}; it takes {type(default).__name__}, as {default!r} is")
    return value
