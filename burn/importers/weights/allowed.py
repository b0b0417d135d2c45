"""The callables that a checkpoint's pickle may name, and our replacements for them. `CALLS` is the table.

None of them is imported. Each is replaced by a function of ours, which builds plain data and calls nothing that the
file chooses. The names are those that torch.save and TorchScript write (torch/_utils.py, torch/serialization.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

MAX_KEY = 1 << 48  # above the addresses by which old optimizers name their parameters
PLAIN_KEY = 1 << 24  # among larger integers many can be chosen that meet in a dict's table
MAX_KEY_PARTS = 16


@dataclass(frozen=True)
class Global:
    """A name that a pickle refers to, "torch._utils._rebuild_tensor_v2". Only a name."""

    name: str


@dataclass(frozen=True)
class Number:
    """A number in a dict's key, as its digits: Python seeds the hashes of text, those of numbers a file could choose."""

    digits: str

    def __repr__(self) -> str:
        return self.digits


@dataclass(frozen=True, eq=False)
class StorageRef:
    """A tensor's memory: `count` elements of `dtype` (bytes for "untyped"), found by `key` in the file around the pickle.

    view: this storage is that one's elements from an offset on (the legacy format)."""

    dtype: str
    key: str
    count: int
    view: tuple[str, int, int] | None = None


@dataclass(frozen=True, eq=False)
class TensorRef:
    """A tensor over a storage: element type, first element, sizes and strides, all in elements and all unchecked.

    negated, conjugated: the storage has the negated or conjugated elements (torch's lazy views `_neg_view` and `conj`)."""

    storage: StorageRef
    dtype: str
    offset: Any
    shape: Any
    strides: Any
    negated: bool = False
    conjugated: bool = False


@dataclass(frozen=True, eq=False)
class Unsupported:
    """Where a tensor of a kind that cannot be read stands."""

    kind: str


@dataclass(frozen=True, eq=False)
class Opaque:
    """A placeholder for a value that is not needed, or was made by a refused callable."""

    kind: str


class Malformed(Exception):
    """The pickle is broken; the message says how."""


SCALARS = (str, int, float, bool, bytes, type(None), Global, Number)

STORAGES = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16",
    "Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128",
    "QInt8": "qint8", "QUInt8": "quint8", "QInt32": "qint32", "QUInt4x2": "quint4x2", "QUInt2x4": "quint2x4",
}  # fmt: skip

DTYPES = {
    **{name: name for name in (
        "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8",
        "uint64", "uint32", "uint16", "uint8", "bool", "complex64", "complex128",
        "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
        "qint8", "quint8", "qint32", "quint4x2", "quint2x4", "complex32", "float4_e2m1fn_x2", "bits8", "bits16",
    )},
    "double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
    "cfloat": "complex64", "cdouble": "complex128", "chalf": "complex32",
}  # fmt: skip

STORAGE_TYPES: dict[str, str] = {
    "torch.storage.UntypedStorage": "untyped",
    "torch.UntypedStorage": "untyped",
    "torch.storage.TypedStorage": "untyped",
    **{f"torch.{name}Storage": dtype for name, dtype in STORAGES.items()},
    **{f"torch.cuda.{name}Storage": dtype for name, dtype in STORAGES.items()},
}

SYMBOLS = frozenset(
    {f"torch.{name}" for name in DTYPES}
    | {f"torch.{name}" for name in ("strided", "sparse_coo", "sparse_csr", "contiguous_format", "channels_last",
                                    "preserve_format", "per_tensor_affine", "per_channel_affine",
                                    "per_tensor_symmetric", "per_channel_symmetric", "Tensor")}
    | {"torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"}
    | {"numpy.ndarray"}
    | {f"builtins.{name}" for name in ("list", "dict", "tuple", "int", "float", "str", "bool", "bytes")}
    | STORAGE_TYPES.keys()
)  # fmt: skip
"""Names that stand for themselves and are not called."""


def _dict(*args: Any) -> dict[Any, Any]:
    """OrderedDict() and OrderedDict([[key, value], ..]); a dict also keeps its order."""
    if len(args) > 1 or (args and not isinstance(args[0], (list, tuple, dict))):
        raise Malformed("a dict is made from something else than pairs")
    made: dict[Any, Any] = {}
    pairs = args[0].items() if args and isinstance(args[0], dict) else args[0] if args else ()
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise Malformed("a dict is made from something else than pairs")
        made[dict_key(pair[0])] = pair[1]
    return made


def _default_dict(*args: Any) -> dict[Any, Any]:
    return _dict(*args[1:])


def _tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, grad: Any = None, hooks: Any = None, metadata: Any = None
) -> Any:
    if isinstance(storage, (Opaque, Unsupported)):
        return storage
    if not isinstance(storage, StorageRef):
        raise Malformed("a tensor is made over something that is no storage")
    facts = {} if metadata is None else metadata
    if not isinstance(facts, dict) or not all(isinstance(value, bool) for value in facts.values()):
        raise Malformed("a tensor's metadata is something else than flags by name")
    unknown = sorted(str(name) for name in facts if name not in ("neg", "conj"))
    if unknown:
        return Unsupported(f"a tensor with the metadata '{unknown[0]}'")
    return TensorRef(storage, storage.dtype, offset, shape, strides, facts.get("neg", False), facts.get("conj", False))


def _tensor_v3(
    storage: Any, offset: Any, shape: Any, strides: Any, grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Any:
    made = _tensor(storage, offset, shape, strides, grad, hooks, metadata)
    return replace(made, dtype=_dtype(dtype)) if isinstance(made, TensorRef) else made


def _dtype(value: Any) -> str:
    name = value.name.removeprefix("torch.") if isinstance(value, Global) else ""
    if name not in DTYPES:
        raise Malformed("a tensor's element type is something else than a torch.dtype")
    return DTYPES[name]


def _first(value: Any, *rest: Any) -> Any:
    return value


def _typed(function: Any, kind: Any, args: Any, state: Any) -> Any:
    """_rebuild_from_type_v2: a tensor with attributes of its own, which are let go."""
    if isinstance(function, Opaque):
        return function
    rebuilds = isinstance(function, Global) and function.name.startswith("torch._utils._rebuild_")
    if not rebuilds or not isinstance(args, tuple):
        raise Malformed("_rebuild_from_type_v2 is called with something else than a function and its arguments")
    return call(function, args)


def _unsupported(kind: str) -> Callable[..., Any]:
    return lambda *args: Unsupported(kind)


def _opaque(kind: str) -> Callable[..., Any]:
    return lambda *args: Opaque(kind)


def _encode(text: Any, encoding: Any = "utf-8", *rest: Any) -> bytes:
    """_codecs.encode: how protocol 2 writes bytes."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise Malformed("bytes are made from something else than text")
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        raise Malformed("bytes are made from text of other characters") from None


def _sequence(make: Callable[[Any], Any]) -> Callable[..., Any]:
    def build(items: Any = (), *rest: Any) -> Any:
        if not isinstance(items, (list, tuple)):
            raise Malformed("a sequence is made from something else than a list")
        return make(items)

    return build


_PATHS = ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath", "Path", "PurePath")

CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _dict,
    "collections.Counter": _dict,
    "collections.defaultdict": _default_dict,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _first,
    "torch._utils._rebuild_parameter_with_state": _first,
    "torch._tensor._rebuild_from_type_v2": _typed,
    "torch._utils._rebuild_sparse_tensor": _unsupported("a sparse tensor"),
    "torch._utils._rebuild_sparse_csr_tensor": _unsupported("a sparse tensor"),
    "torch._utils._rebuild_nested_tensor": _unsupported("a nested tensor"),
    "torch._utils._rebuild_qtensor": _unsupported("a quantised tensor"),
    "torch._utils._rebuild_meta_tensor_no_storage": _unsupported("a tensor on the meta device, which has no elements"),
    "torch._utils._rebuild_wrapper_subclass": _unsupported("a tensor subclass"),
    "torch._utils._rebuild_device_tensor_from_numpy": _unsupported("a tensor of a device without storages"),
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _unsupported("a tensor of a device without storages"),
    "torch.Size": _sequence(tuple),
    "torch.jit._pickle.build_intlist": _sequence(list),
    "torch.jit._pickle.build_doublelist": _sequence(list),
    "torch.jit._pickle.build_boollist": _sequence(list),
    "torch.jit._pickle.build_tensorlist": _sequence(list),
    "torch.jit._pickle.restore_type_tag": _first,
    "torch.device": _opaque("a device"),
    "torch.serialization._get_layout": _opaque("a layout"),
    "_codecs.encode": _encode,
    "builtins.bytearray": lambda *args: args[0] if args and isinstance(args[0], bytes) else Opaque("bytes"),
    "builtins.set": _sequence(list),
    "builtins.frozenset": _sequence(list),
    "builtins.complex": _opaque("a complex number"),
    "argparse.Namespace": _opaque("settings"),
    "types.SimpleNamespace": _opaque("settings"),
    **{f"pathlib{part}.{kind}": _opaque("a path") for part in ("", "._local") for kind in _PATHS},
    **{f"datetime.{kind}": _opaque("a date") for kind in ("datetime", "date", "time", "timedelta", "timezone")},
    "decimal.Decimal": _opaque("a number"),
    "fractions.Fraction": _opaque("a number"),
    "uuid.UUID": _opaque("an identity"),
    **{f"builtins.{name}": _opaque("a range") for name in ("range", "xrange")},
    "builtins.slice": _opaque("a slice"),
    "collections.deque": _sequence(list),
    "torch.torch_version.TorchVersion": _opaque("a version"),
    "numpy.dtype": _opaque("a numpy type"),
    **{f"numpy.{core}.multiarray.scalar": _opaque("a numpy number") for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray._reconstruct": _opaque("a numpy array") for core in ("core", "_core")},
}
"""The allowed callables, and our replacement for each."""


def call(function: Global, args: tuple[Any, ...]) -> Any:
    """The result of an allowed call. Raises Malformed if the name is not allowed, or its arguments are not."""
    if function.name not in CALLS:
        raise Malformed(f"{function.name} is called")
    try:
        return CALLS[function.name](*args)
    except TypeError:
        raise Malformed(f"{function.name} is called with {len(args)} arguments") from None


def dict_key(value: Any) -> Any:
    """The replacement for a dict's key. Only plain values are allowed, and none whose hash a file could choose: small integers
    are kept, other numbers, and those in tuples, become a `Number`."""
    parts = value if isinstance(value, tuple) else (value,)
    if len(parts) > MAX_KEY_PARTS or not all(isinstance(v, SCALARS) for v in parts):
        raise Malformed("a dict has a key that is not text, a number or a short tuple of those")
    if any(isinstance(v, int) and abs(v) > MAX_KEY for v in parts):
        raise Malformed("a dict has a huge number as a key")
    if isinstance(value, tuple):
        return tuple(Number(repr(v)) if _is_number(v) else v for v in value)
    return Number(repr(value)) if _is_number(value) and not _is_small(value) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_small(value: int | float) -> bool:
    return isinstance(value, int) and abs(value) <= PLAIN_KEY


def storage(identity: Any) -> Any:
    """The storage that a persistent id of torch stands for: ("storage", type, key, location, count[, view])."""
    if not isinstance(identity, tuple) or len(identity) not in (5, 6) or identity[0] != "storage":
        raise Malformed("a persistent id is not a storage's")
    kind, key, count = identity[1], identity[2], identity[4]
    if isinstance(kind, Opaque):
        return kind
    if not isinstance(kind, Global) or kind.name not in STORAGE_TYPES:
        raise Malformed("a storage has no type")
    if not isinstance(key, str) or type(count) is not int or count < 0:
        raise Malformed("a storage's key is no text, or its size no number")
    view = identity[5] if len(identity) == 6 else None
    if view is not None:
        if not isinstance(view, tuple) or len(view) != 3 or not isinstance(view[0], str):
            raise Malformed("a storage's view is malformed")
        if any(type(v) is not int or v < 0 for v in view[1:]):
            raise Malformed("a storage's view is malformed")
    return StorageRef(STORAGE_TYPES[kind.name], key, count, view)
