"""Op classes: one class holds all facts about an op. Enter at `Op`.

    class Softmax(Op, name="softmax"):
        '''exp(x - max(x)) / sum of the same, along `axis`. Shapes: x [...] -> the same.'''
        x: Operand
        axis: int = -1

        @classmethod
        def infer(cls, x: TensorType, axis: int) -> TensorType: ...

        @classmethod
        def decompose(cls, x, axis): ...      # only composites: the same thing in other ops

Further facts are keywords of the class: `traits`, `kernel` (the kind that computes it) and `batching` (its rule under
`burn.vmap`). The class defines the MLIR op, the builder (`Softmax.build(x, axis=1)`, also `dialect.ops.softmax`), accessors
(`op.x`, `op.axis`), the verifier and the reference page. Operands are annotated `Operand`, `Operand | None` or
`Variadic`; attributes with a Python type from the table `CODECS`; regions `Region`. Attributes with a default may be left out.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from burn.dialect import locations
from burn.dialect.attributes import CODECS, SEGMENTS, Attr
from burn.dialect.deferred import is_deferred, record
from burn.dialect.dims import Dim
from burn.dialect.locations import current_site, with_line
from burn.dialect.mlir import context, ext, ir
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of
from burn.errors import Problem, TypeMismatch, WrongArgument

if typing.TYPE_CHECKING:
    from burn.dialect.batching.rules import Rule


class Burn(ext.Dialect, name="burn"):
    """The dialect."""


class Operand:
    """Annotation: a tensor operand (`Operand | None` for an optional one)."""


class Variadic:
    """Annotation: any number of tensor operands; at most one per op."""


class Region:
    """Annotation: a region."""


DTypeName = str  # an attribute that holds an element type's name


@dataclass(frozen=True)
class Agreement:
    """A condition on `size` at run time: it equals `wanted` ("equal"), or is 1 or `wanted` ("broadcast"), or is less
    ("at most"), or has one of `dims.RELATIONS` to it."""

    size: Dim
    wanted: Dim
    relation: str = "equal"


DEFINES, DEFINES_SEVERAL = ("symbol", "count"), ("symbols",)
"""The attributes with which an op names the sizes that it defines."""

REGISTRY: dict[str, type[Op]] = {}
"""Every op class by its name without the dialect's prefix."""


def _operand(index: int) -> property:
    """The accessor of the operand at a fixed index, shared by classes with equally many operands before it."""
    return property(lambda self: self.operation.operands[index])


class Op(Burn.Operation):
    """Base of all ops. See the module's docstring for how a subclass is written."""

    if typing.TYPE_CHECKING:  # the bindings would read a class's annotations as operands and attributes
        OP_NAME: ClassVar[str]
        OPERANDS: ClassVar[tuple[tuple[str, str], ...]]  # (name, "single" | "optional" | "variadic")
        ATTRS: ClassVar[dict[str, Attr]]
        REGIONS: ClassVar[tuple[str, ...]]
        PURE: ClassVar[bool]
        SEGMENTED: ClassVar[bool]
        SIZES: ClassVar[tuple[Attr, ...]]
        IS_DEFINER: ClassVar[bool]
        TRAITS: ClassVar[Trait]
        KERNEL: ClassVar[str]
        SHOWN_AS: ClassVar[str]
        BATCHING: ClassVar[Rule | str | None]

    TRAITS = Trait.NONE
    KERNEL = ""
    """The kind of kernel that computes it (`kernels.builders.BUILDERS`); "" for ops that fuse into any kernel."""
    SHOWN_AS = ""
    """The name in profiles and listings."""
    BATCHING = None
    """The batching rule (`batching/rules.py`), or the reason why there is none. Composites without a rule are decomposed."""

    def __init_subclass__(
        cls,
        *,
        name: str = "",
        pure: bool = True,
        terminator: bool = False,
        traits: Trait = Trait.NONE,
        kernel: str = "",
        shown_as: str = "",
        batching: Rule | str | None = None,
    ) -> None:
        cls.TRAITS, cls.KERNEL, cls.SHOWN_AS = cls.TRAITS | traits, kernel or cls.KERNEL, shown_as or name
        if batching is not None:
            cls.BATCHING = staticmethod(batching) if callable(batching) else batching
        if not name:  # a family's base class
            cls.__annotations__ = {}
            super().__init_subclass__()
            return
        hints = typing.get_type_hints(cls, vars(__import__("sys").modules[cls.__module__]), {"Dim": Dim})
        declared = {key: hints[key] for key in inspect.get_annotations(cls) if not _is_classvar(hints[key])}
        operands, attrs, regions = [], {}, []
        for key, hint in declared.items():
            optional = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
            optional = optional and type(None) in typing.get_args(hint)
            base = next(h for h in typing.get_args(hint) if h is not type(None)) if optional and hint != Dim else hint
            if base is Operand:
                operands.append((key, "optional" if optional else "single"))
            elif base is Variadic:
                operands.append((key, "variadic"))
            elif base is Region:
                regions.append(key)
            else:
                required = key not in cls.__dict__ and not optional
                text = getattr(base, "__name__", str(base)) if not typing.get_args(base) else str(base)
                attrs[key] = Attr(key, CODECS[base], text, required, cls.__dict__.get(key))
        cls.OP_NAME, cls.OPERANDS, cls.ATTRS, cls.REGIONS, cls.PURE = name, tuple(operands), attrs, tuple(regions), pure
        cls.IS_DEFINER = not attrs.keys().isdisjoint((*DEFINES, *DEFINES_SEVERAL))
        cls.SIZES = tuple(attr for attr in attrs.values() if attr.holds_sizes)
        kinds = [kind for _, kind in operands]
        cls.SEGMENTED = any(kind != "single" for kind in kinds[:-1]) or (kinds[-1:] == ["optional"] and len(kinds) > 1)
        for key in (*[n for n, _ in operands], *attrs, *regions):
            if hasattr(ext.Operation, key):
                raise TypeError(f"{name}: '{key}' is taken by MLIR's own accessor")
        cls.__annotations__ = {"operands_": Sequence[ext.Operand[Any]], "results_": Sequence[ext.Result[Any]]}
        for region in regions:
            cls.__annotations__[region] = ext.Region
        for key in attrs:
            if key in cls.__dict__:
                delattr(cls, key)
        # MLIR erases unused pure ops, but an op that defines a size may be needed for the size alone
        erasable = pure and not cls.IS_DEFINER
        super().__init_subclass__(name=name, traits=[ext.Pure] * erasable + [ir.IsTerminatorTrait] * terminator)
        for index, (key, _) in enumerate(operands):
            one = kinds[index] == "single" and not cls.SEGMENTED
            setattr(cls, key, _operand(index) if one else property(lambda self, i=index: self._group(i)))
        for key, attr in attrs.items():
            setattr(cls, key, property(lambda self, a=attr: a.read(self.operation)))
        REGISTRY[name] = cls

    # ---- reading an op -----------------------------------------------------------------------------------------------
    def _group(self, index: int) -> Any:
        kind, operands = self.OPERANDS[index][1], self.operation.operands
        segments = self.operation.attributes.get("segments") if self.SEGMENTED else None
        if segments is None:
            if kind == "variadic":
                return list(operands)[index:]
            return operands[index] if index < len(operands) else None
        sizes = SEGMENTS.decode(segments)
        start = sum(sizes[:index])
        if kind == "variadic":
            return list(operands)[start : start + sizes[index]]
        return operands[start] if sizes[index] else None

    @property
    def attrs(self) -> dict[str, Any]:
        """Every attribute's value by name."""
        operation = self.operation
        return {name: attr.read(operation) for name, attr in self.ATTRS.items()}

    @property
    def args(self) -> list[Any]:
        """The operands in the builder's form: a value, None, or a list for a variadic group."""
        return [self._group(i) for i in range(len(self.OPERANDS))]

    # ---- facts a subclass gives --------------------------------------------------------------------------------------
    @classmethod
    def infer(cls, *operands: Any, **attrs: Any) -> TensorType | Sequence[TensorType]:
        """The results' types. Operands come as TensorType, None or a list of them. Raises through `cls.fail`."""
        raise NotImplementedError(f"{cls.OP_NAME} does not infer its type")

    decompose = None
    """For a composite: builds the same computation from other ops at the insertion point and returns its value(s)."""

    @classmethod
    def has(cls, trait: Trait) -> bool:
        """True if the class has this trait, or one of several (`a | b`)."""
        # passes call it for every op, and operators of flags take 8 times as long
        return cls.TRAITS._value_ & trait._value_ != 0

    def flops(self) -> Dim:
        """Floating-point operations of contractions and attention; 0 for other ops, which are memory-bound."""
        return 0

    def kernel_features(self) -> tuple[str, ...]:
        """Names of uses of a composite that a back end's kernels may lack: one that lacks a name gets the decomposition
        (`decompose{keep=..}`)."""
        return ()

    def must_agree(self) -> list[Agreement]:
        """Sizes that must be equal and that type inference cannot compare. The program checks them at run time."""
        return []

    # ---- making one --------------------------------------------------------------------------------------------------
    @classmethod
    def build(cls, *operands: Any, result_types: Sequence[TensorType] | None = None, **attrs: Any) -> Any:
        """Creates the op at the current insertion point, or records it (`deferred.py`). Returns its result, or a list for
        several (or none).

        Raises TypeMismatch, naming the op, when operands or attributes do not fit."""
        if is_deferred(operands):
            given, _, complete, types_ = cls._complete(operands, result_types, attrs)
            return record(cls, given, complete, list(types_))
        results = cls.create(*operands, result_types=result_types, **attrs).results
        return results[0] if len(results) == 1 else list(results)

    @classmethod
    def create(cls, *operands: Any, result_types: Sequence[TensorType] | None = None, **attrs: Any) -> ir.Operation:
        """Like `build`, but returns the operation, for ops with regions."""
        with context():
            _, segments, complete, types_ = cls._complete(operands, result_types, attrs)
            attributes = {k: cls.ATTRS[k].codec.encode(v) for k, v in complete.items() if v is not None}
            if cls.SEGMENTED:
                attributes["segments"] = SEGMENTS.encode(tuple(map(len, segments)))
            return ir.Operation.create(
                f"burn.{cls.OP_NAME}",
                loc=with_line(),
                results=[t.to_mlir() for t in types_],
                operands=[value for segment in segments for value in segment],
                attributes=attributes,
                regions=len(cls.REGIONS),
            )

    @classmethod
    def _complete(
        cls, operands: Sequence[Any], result_types: Sequence[TensorType] | None, attrs: dict[str, Any]
    ) -> tuple[list[Any], list[Sequence[Any]], dict[str, Any], Sequence[TensorType]]:
        """Each operand (a value, None, or a list), the same as lists, every attribute, and the results' types. Raises
        TypeMismatch for what does not fit."""
        if len(operands) > len(cls.OPERANDS):
            cls.fail(f"takes {len(cls.OPERANDS)} operands, not {len(operands)}")
        given: list[Any] = []
        segments: list[Sequence[Any]] = []
        kinds: list[Any] = []
        for index, (key, kind) in enumerate(cls.OPERANDS):
            operand = operands[index] if index < len(operands) else None
            if kind == "variadic":
                operand = list(operand or ())
                segments.append(operand)
                kinds.append(tuple(type_of(v) for v in operand))
            elif operand is not None:
                segments.append((operand,))
                kinds.append(type_of(operand))
            elif kind == "single":
                cls.fail(f"operand '{key}' is missing")
            else:
                segments.append(())
                kinds.append(None)
            given.append(operand)
        if not attrs.keys() <= cls.ATTRS.keys():
            cls.fail(f"has no attribute {', '.join(sorted(attrs.keys() - cls.ATTRS.keys()))}")
        complete: dict[str, Any] = {}
        for key, attr in cls.ATTRS.items():
            if key in attrs:
                try:
                    complete[key] = attr.plain(attrs[key])
                except WrongArgument as error:
                    cls.fail(_wrong(attr, attrs[key], error), key, WrongArgument)
            elif attr.required:
                cls.fail(f"attribute '{key}' is missing")
            else:
                complete[key] = attr.default
        if result_types is None:
            return given, segments, complete, cls._inferred(kinds, complete)
        return given, segments, complete, cls._checked(result_types)

    @classmethod
    def _inferred(cls, kinds: Sequence[Any], attrs: dict[str, Any]) -> Sequence[TensorType]:
        """The result of `infer`, cached by types and attributes: a model's layers repeat them."""
        key = (cls, *kinds, *attrs.values())
        try:
            known = _INFERRED.get(key)
        except TypeError:  # an attribute was given as a list
            return cls._newly_inferred(kinds, attrs)
        if known is None:
            known = cls._newly_inferred(kinds, attrs)
            if len(_INFERRED) >= INFERRED:
                _INFERRED.clear()
            _INFERRED[key] = known
        return known

    @classmethod
    def _newly_inferred(cls, kinds: Sequence[Any], attrs: dict[str, Any]) -> Sequence[TensorType]:
        operands = [list(kind) if isinstance(kind, tuple) else kind for kind in kinds]
        return cls._checked(_listed(cls.infer(*operands, **attrs)))

    @classmethod
    def _checked(cls, types_: Sequence[TensorType]) -> Sequence[TensorType]:
        """The results' types. Raises TypeMismatch for a size that is negative or too large."""
        for type_ in types_:
            if any(isinstance(d, int) and d < 0 for d in type_.shape):
                cls.fail(f"the result would be {type_}, of a negative size")
            type_.check_sizes()
        return types_

    @classmethod
    def fail(cls, message: str, attribute: str = "", kind: type[TypeMismatch] = TypeMismatch) -> typing.NoReturn:
        """Raises TypeMismatch, or a kind of it, with this op's name and its source node."""
        raise kind(
            f"burn.{cls.OP_NAME}: {message}",
            [Problem(message, op=cls.OP_NAME, attribute=attribute, node=current_site(cls.OP_NAME))],
        )

    def check(self) -> None:
        """Raises TypeMismatch unless the result types equal those that inference gives for the operands.

        This is not MLIR's own verifier, which does not support variadic operands of several types in an IRDL op.
        """
        types_ = []
        for (_, kind), group in zip(self.OPERANDS, self.args, strict=True):
            if kind == "variadic":
                types_.append([type_of(v) for v in group])
            else:
                types_.append(None if group is None else type_of(group))
        with self.operation.location:
            self.check_types(types_, [type_of(r) for r in self.operation.results])

    def check_types(self, operands: list[Any], results: list[TensorType]) -> None:
        """The rule behind `check`. Ops whose builder is given the result types override it."""
        inferred = self.infer(*operands, **self.attrs)
        expected = [inferred] if isinstance(inferred, TensorType) else list(inferred)
        if expected != results:
            self.fail(f"has result types {_list(results)}, but its operands give {_list(expected)}")


def _listed(inferred: TensorType | Sequence[TensorType]) -> tuple[TensorType, ...]:
    return (inferred,) if isinstance(inferred, TensorType) else tuple(inferred)


INFERRED = 1 << 16
"""The most cached results of type inference."""

_INFERRED: dict[Any, Sequence[TensorType]] = {}


def _list(types_: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types_)) or "none"


def _wrong(attr: Attr, value: Any, error: WrongArgument) -> str:
    return (
        error.summary
        if not attr.holds_sizes
        else f"attribute '{attr.name}' is made of integers and sizes, not {value!r:.80}"
    )


def _is_classvar(hint: Any) -> bool:
    return typing.get_origin(hint) is ClassVar


def _op_name(operation: ir.Operation | ir.OpView) -> str:
    """The op's name in profiles, without the dialect's prefix."""
    operation = operation.operation if isinstance(operation, ir.OpView) else operation
    name = operation.name.removeprefix("burn.")
    if name == "custom":
        return ir.StringAttr(operation.attributes["called"]).value
    return REGISTRY[name].SHOWN_AS if name in REGISTRY else name


def full_name(operation: ir.Operation | ir.OpView) -> str:
    """The source node (the op, if it has none) with the line of user code, as far as known: an op's name in errors and
    profiles. A line of a traced function is relative to that function; see `burn.runtime.origins.resolved`."""
    return locations.full_name(operation.location, _op_name(operation))


def site(operation: ir.Operation | ir.OpView) -> str:
    """The node for errors that also state the op, as in "layer1" or "sin (net.py:17)"; "" if only the op is known."""
    return locations.site(operation.location, _op_name(operation))


def same_type(cls: type[Op], *types_: TensorType) -> None:
    """Raises unless the operands' element types agree."""
    if len({t.dtype for t in types_}) > 1:
        cls.fail(f"operands must have one element type, not {', '.join(t.dtype for t in types_)}")


def normalize_axis(cls: type[Op], axis: int, rank: int, attribute: str = "axis") -> int:
    if not -rank <= axis < max(rank, 1):
        cls.fail(f"axis {axis} is out of range for rank {rank}", attribute)
    return axis % rank if rank else 0
