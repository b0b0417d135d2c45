"""Ops that are recorded and not yet built: what a lazy tensor holds in place of an MLIR value.

`Op.build` records when its operands are `Deferred` values, or when it has none and no program is being built. Type inference
runs at once, so that a wrong shape is an error where it was written; the op becomes part of a program only when an element is
asked for (`burn/lazy`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from burn.dialect.mlir import ir
from burn.errors import Problem, TypeMismatch
from burn.runtime.device_array import DeviceArray
from burn.runtime.origins import Line, current_line

if TYPE_CHECKING:
    import numpy as np

    from burn.dialect.op import Op
    from burn.dialect.types import TensorType

Value: TypeAlias = "ir.Value | Deferred"


class Application:
    """An op class applied to operands (as the builder takes them: a value, None, or a list) and complete attributes. place: what
    a model that it comes from calls it. line: of the user's code that recorded it. device: where it is computed ("cuda:0"); ""
    for anywhere.

    Raises TypeMismatch for operands on different devices."""

    __slots__ = ("attrs", "depth", "device", "line", "op", "operands", "place", "results", "types")

    def __init__(self, op: type[Op], operands: list[Any], attrs: dict[str, Any], types: list[TensorType]) -> None:
        self.op, self.operands, self.attrs, self.types = op, operands, attrs, types
        self.place = ""
        self.line: Line | None = current_line()
        self.results: list[weakref.ref[Deferred]] = []  # weak: a result keeps its application, not the other way round
        self.depth, self.device = 1, ""
        for value in self.values():
            self.depth = max(self.depth, value.depth + 1)
            if value.device and value.device != self.device:
                self.device = value.device if not self.device else _differ(op, self.device, value.device)

    def all(self) -> list[Deferred]:
        """Every result; those that nothing refers to any more are made again."""
        results = [reference() for reference in self.results]
        for index, result in enumerate(results):
            if result is None:
                results[index] = made = Deferred(self.types[index], self, index)
                self.results[index] = weakref.ref(made)
        return results  # type: ignore[return-value]

    def values(self) -> list[Deferred]:
        """The operands, flat, without those left out."""
        flat: list[Deferred] = []
        for operand in self.operands:
            if isinstance(operand, list):
                flat += operand
            elif operand is not None:
                flat.append(operand)
        return flat


class Deferred:
    """One result of a recorded op; or, once it is computed, its elements.

    array: the elements; application and index say how they come about while it is None. held: how many tensors of the
    caller hold it: those are kept when something that depends on them is computed. entry: the compiled program that
    computed it, for `burn.explain`. origin: its application, also once it is computed, where that is remembered. kin: what was
    made along with it, shares most of its work, and is computed with it. device: where the elements are, or will be ("cpu",
    "cuda:0"); "" for what goes anywhere, such as numbers."""

    __slots__ = ("__weakref__", "application", "array", "device", "entry", "held", "index", "kin", "origin", "type")

    def __init__(
        self,
        type_: TensorType,
        application: Application | None = None,
        index: int = 0,
        array: np.ndarray | DeviceArray | None = None,
        anywhere: bool = False,
        device: str = "",
    ) -> None:
        """anywhere: elements that were written in the program. device: of elements in host memory, if it is not the CPU."""
        self.type, self.application, self.index, self.array = type_, application, index, array
        if application is not None:
            self.device = application.device
        elif isinstance(array, DeviceArray):
            self.device = str(array.device)
        else:
            self.device = device or ("" if anywhere or not type_.shape else "cpu")
        self.held = 0
        self.entry: Any = None
        self.origin: Application | None = None
        self.kin: Sequence[weakref.ref[Deferred]] = ()

    def with_kin(self) -> list[Deferred]:
        """Itself and those of its kin that a tensor still holds."""
        return [self, *(other for r in self.kin if (other := r()) is not None and other.held and other is not self)]

    def siblings(self) -> list[Deferred]:
        """All results of the op, itself among them, that anything still refers to."""
        if self.application is None:
            return [self]
        return [result for reference in self.application.results if (result := reference()) is not None]

    @property
    def depth(self) -> int:
        """How many recorded ops lie one after another up to here."""
        application = self.application
        return 0 if application is None else application.depth


def _differ(op: type[Op], first: str, second: str) -> NoReturn:
    hint = f"bring one to where the other is: x.to('{first}')"
    problem = Problem(f"of the operands of {op.OP_NAME}, one lies on {first} and one on {second}", hint=hint)
    raise TypeMismatch("tensors on different devices", [problem])


def make_kin(values: Iterable[Value]) -> None:
    """Those of the values that are recorded are computed together, when the first of them is needed."""
    recorded = [value for value in values if isinstance(value, Deferred) and value.array is None]
    kin = [weakref.ref(value) for value in recorded]
    for value in recorded:
        value.kin = kin


def is_deferred(operands: tuple[Any, ...]) -> bool:
    """Whether an op with these operands is to be recorded rather than built."""
    for operand in operands:
        first = operand[0] if isinstance(operand, (list, tuple)) and operand else operand
        if isinstance(first, Deferred):
            return True
        if isinstance(first, ir.Value):
            return False
    try:
        _ = ir.InsertionPoint.current
    except ValueError:
        return True
    return False


_remembered: ContextVar[list[Application] | None] = ContextVar("remembered", default=None)


@contextmanager
def remembering(keep: bool = False) -> Iterator[None]:
    """What is recorded inside keeps how it came about when it is computed, until the outermost of these ends; with `keep` for
    good."""
    if _remembered.get() is not None:
        yield
        return
    applications: list[Application] = []
    token = _remembered.set(applications)
    try:
        yield
    finally:
        _remembered.reset(token)
        for application in () if keep else applications:
            for reference in application.results:
                if (result := reference()) is not None:
                    result.origin = None


def is_remembering() -> bool:
    return _remembered.get() is not None


def remembered() -> list[Application]:
    """What was recorded since the outermost `remembering` began."""
    return _remembered.get() or []


def record(op: type[Op], operands: list[Any], attrs: dict[str, Any], types: list[TensorType]) -> Any:
    """The results of an op, recorded: one, or a list of several."""
    application = Application(op, operands, {k: _hashable(v) for k, v in attrs.items()}, types)
    results = [Deferred(type_, application, index) for index, type_ in enumerate(types)]
    application.results = [weakref.ref(result) for result in results]
    remembered = _remembered.get()
    if remembered is not None:
        remembered.append(application)
        for result in results:
            result.origin = application
    return results[0] if len(results) == 1 else results


def record_again(application: Application, operands: list[Any]) -> list[Deferred]:
    """The results of the same op of other operands, recorded as of the same line."""
    results = record(application.op, operands, application.attrs, application.types)
    results = results if isinstance(results, list) else [results]
    made = results[0].application
    made.place, made.line = application.place, application.line
    return results


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
