"""Ops that are recorded and not yet built: a lazy tensor holds them instead of an MLIR value.

`Op.build` records if its operands are `Deferred` values, or if it has none and no program is being built. Type
inference runs at once, so a wrong shape raises an error at the line that caused it. The op becomes part of a program
when an element is read (`burn/lazy`).
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
from burn.runtime.origins import Line, current_line, named

if TYPE_CHECKING:
    import numpy as np

    from burn.dialect.op import Op
    from burn.dialect.types import TensorType

Value: TypeAlias = "ir.Value | Deferred"


class Application:
    """An op class applied to operands (in the builder's form: a value, None, or a list) and complete attributes. source_name:
    the name of the node in the source model. line: the line of user code that recorded it. device: the device that
    computes it ("cuda:0"); "" for any.

    Raises TypeMismatch for operands on different devices.
    """

    __slots__ = ("attrs", "depth", "device", "line", "op", "operands", "results", "source_name", "types")

    def __init__(self, op: type[Op], operands: list[Any], attrs: dict[str, Any], types: list[TensorType]) -> None:
        self.op, self.operands, self.attrs, self.types = op, operands, attrs, types
        self.source_name = ""
        self.line: Line | None = current_line()
        self.results: list[weakref.ref[Deferred]] = []  # weak: results own their application
        self.depth, self.device = 1, ""
        for value in self.values():
            self.depth = max(self.depth, value.depth + 1)
            if value.device and value.device != self.device:
                self.device = value.device if not self.device else _differ(op, self.device, value.device)

    @property
    def site(self) -> str:
        """The node in errors, with the line of user code: "layer1", "sin (net.py:17)", or "" if only the op is known."""
        if not self.source_name and self.line is None:
            return ""
        return named(self.source_name or self.shown_as, "" if self.line is None else str(self.line))

    def all(self) -> list[Deferred]:
        """Every result; creates those without remaining references anew."""
        results = [reference() for reference in self.results]
        for index, result in enumerate(results):
            if result is None:
                results[index] = made = Deferred(self.types[index], self, index)
                self.results[index] = weakref.ref(made)
        return results  # type: ignore[return-value]

    @property
    def shown_as(self) -> str:
        """The op's name in errors and profiles."""
        return self.attrs["called"] if self.op.OP_NAME == "custom" else self.op.OP_NAME

    def values(self) -> list[Deferred]:
        """The operands as a flat list, without absent ones."""
        flat: list[Deferred] = []
        for operand in self.operands:
            if isinstance(operand, list):
                flat += operand
            elif operand is not None:
                flat.append(operand)
        return flat


class Deferred:
    """One result of a recorded op, or its elements once computed.

    array: the elements; while it is None, application and index say how to compute them. held: how many of the caller's
    tensors hold it; held results are kept when a dependent is computed. entry: the compiled program that computed it,
    for `burn.explain`. origin: its application, which stays available after the computation inside `remembering`. kin:
    results that share most of its work and are computed together with it. device: where the elements are, or will be
    ("cpu", "cuda:0"); "" for values without a device, such as numbers.
    """

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
        """anywhere: the elements are literals of the program. device: that of host elements, if it is not the CPU."""
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
        """All results of the op, including itself, that still have references."""
        if self.application is None:
            return [self]
        return [result for reference in self.application.results if (result := reference()) is not None]

    @property
    def depth(self) -> int:
        """The length of the longest chain of recorded ops up to here."""
        application = self.application
        return 0 if application is None else application.depth


def _differ(op: type[Op], first: str, second: str) -> NoReturn:
    hint = f"bring one to where the other is: x.to('{first}')"
    problem = Problem(f"of the operands of {op.OP_NAME}, one lies on {first} and one on {second}", hint=hint)
    raise TypeMismatch("tensors on different devices", [problem])


def make_kin(values: Iterable[Value]) -> None:
    """Computes recorded values together when the first of them is needed."""
    recorded = [value for value in values if isinstance(value, Deferred) and value.array is None]
    kin = [weakref.ref(value) for value in recorded]
    for value in recorded:
        value.kin = kin


def is_deferred(operands: tuple[Any, ...]) -> bool:
    """True if an op with these operands is to be recorded rather than built."""
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
    """Ops recorded inside keep their origin after computation, until the outermost of these contexts ends; with `keep`
    permanently."""
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
    """The applications recorded since the outermost `remembering` began."""
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
    made.source_name, made.line = application.source_name, application.line
    return results


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
