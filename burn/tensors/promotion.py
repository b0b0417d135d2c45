"""Conversion of numbers, arrays, lists and sizes to tensors, and promotion of element types.

Two element types are promoted to the type that holds both: a float type wins over integers, integers
over bool, the wider over the narrower. Signed and unsigned of one width give the next wider signed type. A Python number
is weak: it takes the tensor's type, unless it is a float and the tensor holds integers, which gives float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burn.dialect import compose
from burn.dialect.dims import Expr
from burn.dialect.spec import element_type, spec_of
from burn.dialect.types import DTYPES, PARTS, numpy_dtype
from burn.dialect.weights import array_weight
from burn.errors import TypeMismatch
from burn.runtime.arrays import Unfit, is_foreign, to_numpy
from burn.runtime.device_array import DeviceArray, gpu_of, resident
from burn.tensors.base import Base, made, of_array
from burn.tensors.tracer import active, current

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

Operand: TypeAlias = "Tensor | bool | int | float | complex | Expr | np.ndarray"

_RANKS = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


def constant(elements: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of known elements: numbers, nested lists of them, an array, or a symbolic size. Arrays are copied. device: the
    device of the tensor; by default an array keeps its own, and numbers are compatible with every device.

    Without `dtype` Python floats are float32, integers int64, and arrays keep their own type. Raises TypeMismatch."""
    if device is not None:
        return constant(elements, dtype).to(device)
    dtype = None if dtype is None else element_type(dtype)
    if isinstance(elements, DeviceArray):
        elements = of_array(elements)
    if isinstance(elements, Base):
        return elements._present() if dtype is None else elements.astype(dtype)  # type: ignore[attr-defined]
    if isinstance(elements, Expr):
        current()
        return made(compose.dim_value(elements, dtype or "int64"))
    if is_foreign(elements):
        elements = _owned(elements)
        if isinstance(elements, Base):
            return elements if dtype is None else elements.astype(dtype)  # type: ignore[attr-defined]
    try:
        array = np.asarray(elements)
    except (ValueError, TypeError, RuntimeError) as error:  # of whatever kind another library's array raises in a list
        raise TypeMismatch("these elements do not make a tensor", [str(error)]) from None
    if dtype is None and not isinstance(elements, (np.ndarray, np.generic)) and array.dtype.kind in "fc":
        dtype = {"f": "float32", "c": "complex64"}[array.dtype.kind]
    if dtype is not None:
        array = _converted(array, dtype, exact=not isinstance(elements, (np.ndarray, np.generic)))
    elif not isinstance(elements, (bool, int, float, complex, list, tuple)) and active() is None:
        array = array.copy()  # recorded ops run later, when the array's buffer may have changed
    if array.dtype.kind == "O" and all(isinstance(e, int) for e in array.flat):
        most = max(array.flat, key=abs)
        raise TypeMismatch(f"{most} is no int64", ["it is out of range"])
    if array.dtype.kind == "O":
        raise TypeMismatch("these elements do not make a tensor", [f"a {type(elements).__name__} is not numbers"])
    return of_array(array, anywhere=isinstance(elements, (bool, int, float, complex, list, tuple)))


def _owned(data: Any) -> Any:
    """Another library's tensor (torch, jax ...) as an array of its element type, or, on a GPU, as a tensor over a copy. A
    tensor of torch that needs a gradient is detached. Raises TypeMismatch."""
    if hasattr(data, "resolve_conj"):  # torch lends no tensor that needs a gradient, or whose conjugate is pending
        data = data.detach().resolve_conj().resolve_neg()
    try:
        if gpu_of(data) is None:
            return to_numpy(data, spec_of(data).dtype)
    except (Unfit, AttributeError) as error:  # AttributeError: the sizes of torch's nested tensors
        try:
            return np.asarray(data)  # jax arrays over several devices, or of 4-bit integers, are outside of DLPack
        except Exception:  # whatever the tensor's library raises
            raise TypeMismatch("this tensor cannot be taken over", [str(error)]) from None
    return from_dlpack(data).clone()


def _converted(array: np.ndarray, dtype: str, exact: bool) -> np.ndarray:
    """Converts an array. exact: integers must fit (literals); otherwise they wrap around, as in numpy."""
    try:
        with np.errstate(all="ignore"):
            converted = array.astype(numpy_dtype(dtype))
    except (ValueError, TypeError, OverflowError) as error:
        raise TypeMismatch(f"these elements do not make a tensor of {dtype}", [str(error)]) from None
    if exact and array.dtype.kind in "iu" and DTYPES[dtype].kind in ("int", "uint"):
        wrong = array[converted.astype(array.dtype) != array]
        if wrong.size or (array.size and DTYPES[dtype].kind == "uint" and array.min() < 0):
            raise TypeMismatch(f"{wrong.flat[0] if wrong.size else array.min()} is no {dtype}", ["it is out of range"])
    return converted


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor over an array's own memory: no copy is made, so the array must not be changed afterwards."""
    return of_array(np.ascontiguousarray(array).reshape(array.shape))


def from_dlpack(data: Any) -> Tensor:
    """A tensor over another library's memory (torch, jax, cupy ...), on the CPU or a GPU. A dense row-major tensor is not
    copied, so it must not be changed afterwards. Raises TypeMismatch for an unsupported device or
    element type."""
    if not is_foreign(data):
        raise TypeMismatch("from_dlpack takes what has __dlpack__", [f"not a {type(data).__name__}"])
    try:
        device = gpu_of(data)
        array = None if device is None else resident(data, device)
        return of_array(to_numpy(data, spec_of(data).dtype) if array is None else array)
    except Unfit as error:
        raise TypeMismatch("this tensor cannot be taken over", [str(error)]) from None


def rounded(value: Any, dtype: str) -> Any:
    """A Python number rounded to the element type, so that passes see the value that the program computes with."""
    if dtype in PARTS:  # a real number beside complex ones
        return rounded(value, PARTS[dtype])
    return float(numpy_dtype(dtype).type(value)) if DTYPES[dtype].kind == "float" else value


def lift(operand: Any, like: str | None = None) -> Tensor:
    """An operand as a tensor; a Python number or a size takes the element type `like`."""
    if isinstance(operand, Base):
        return operand._present()
    if isinstance(operand, (np.ndarray, np.generic)):
        return constant(operand)
    if like is None and isinstance(operand, (bool, int, float, complex, Expr)):
        raise TypeMismatch("the element type of a number is not known here", [f"write burn.constant({operand}, dtype)"])
    if isinstance(operand, Expr):
        return made(compose.dim_value(operand, like or "int64"))
    if isinstance(operand, complex):
        if DTYPES[like or ""].kind != "complex":
            raise TypeMismatch(f"{operand!r} is no {like}", ["a number takes the element type of the tensor beside it"])
        return of_array(np.asarray(operand, numpy_dtype(like or "")), anywhere=True)
    if isinstance(operand, (bool, int, float)):
        assert like is not None
        kind = DTYPES[like].kind
        whole = isinstance(operand, int) or operand.is_integer()
        if (kind == "bool") != isinstance(operand, bool) or (kind in ("int", "uint") and not whole):
            raise TypeMismatch(f"{operand!r} is no {like}", ["a number takes the element type of the tensor beside it"])
        if kind in ("int", "uint") and not _in_range(int(operand), like):
            hint = "a number takes the element type of the tensor beside it; convert that with .astype"
            raise TypeMismatch(f"{operand!r} is no {like}", [f"it is out of range: {hint}"])
        return made(compose.number(rounded(operand, like), like))
    if is_foreign(operand):
        return from_dlpack(operand)
    raise TypeMismatch(
        f"a {type(operand).__name__} is no operand of a tensor", ["operands are tensors, numbers and arrays"]
    )


def _in_range(number: int, dtype: str) -> bool:
    bits, signed = DTYPES[dtype].bits, DTYPES[dtype].kind == "int"
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1) if signed else 0 <= number < 1 << bits


def promoted(*dtypes: str) -> str:
    """The promoted element type of all operands. Raises TypeMismatch if there is none."""
    result = dtypes[0]
    for other in dtypes[1:]:
        result = result if result == other else _wider(result, other)
    return result


def _wider(a: str, b: str) -> str:
    x, y = DTYPES[a], DTYPES[b]
    if x.kind not in _RANKS or y.kind not in _RANKS:
        raise TypeMismatch(f"{a} and {b} have no element type in common", ["convert one with .astype"])
    if _RANKS[x.kind] != _RANKS[y.kind]:
        high, low = (x, y) if _RANKS[x.kind] > _RANKS[y.kind] else (y, x)
        return "complex128" if high.kind == "complex" and low.name == "float64" else high.name
    if x.kind == y.kind:
        if x.bits == y.bits:  # float16 and bfloat16: neither holds the other
            return "float32"
        return max(x, y, key=lambda d: d.bits).name
    signed, unsigned = (x, y) if x.kind == "int" else (y, x)
    if signed.bits > unsigned.bits:
        return signed.name
    if unsigned.bits == 64:
        raise TypeMismatch(f"{a} and {b} have no element type in common", ["convert one with .astype"])
    return f"int{max(8, 2 * unsigned.bits)}"


def together(*operands: Any, floating: bool = False) -> list[Tensor]:
    """Operands as tensors of one element type. floating: integers and bools become float32."""
    operands = tuple(from_dlpack(o) if _is_others(o) else o for o in operands)
    dtypes = [_dtype_of(o) for o in operands if _has_type(o)]
    dtype = common(dtypes, [o for o in operands if not _has_type(o)], floating)
    return [_as(o, dtype) for o in operands]


def first_operand(x: Any, others: Sequence[Any]) -> Tensor:
    """The first operand of a function as a tensor; a number takes the element type of the tensors among the others."""
    beside = [o for o in others if isinstance(o, (Base, np.ndarray))]
    if isinstance(x, (bool, int, float, complex)) and beside:
        return together(x, *beside)[0]
    return x if isinstance(x, Base) else constant(x)  # type: ignore[return-value]


def common(dtypes: Sequence[str], numbers: Sequence[Any], floating: bool = False) -> str:
    """The element type of operands of these element types and of Python numbers. floating: integers and bools become float32."""
    if not dtypes:
        dtypes = ["bool" if all(isinstance(n, bool) for n in numbers) else "int64"]
    dtype = promoted(*dtypes)
    kinds = {_number_kind(n) for n in numbers}
    if "complex" in kinds and DTYPES[dtype].kind != "complex":
        dtype = "complex128" if dtype == "float64" else "complex64"
    elif DTYPES[dtype].kind in ("int", "uint", "bool") and ("float" in kinds or floating):
        dtype = "float32"
    elif dtype == "bool" and "int" in kinds:
        dtype = "int64"
    return dtype


def _has_type(operand: Any) -> bool:
    """True for an operand with its own element type. numpy's float64 scalars are Python floats, and weak like them."""
    return isinstance(operand, (Base, np.ndarray, np.generic)) and not isinstance(operand, float)


def _is_others(operand: Any) -> bool:
    """True for a tensor of another library."""
    return not isinstance(operand, (Base, bool, int, float)) and is_foreign(operand)


def _dtype_of(operand: Any) -> str:
    return operand.type.dtype if isinstance(operand, Base) else array_weight(np.asarray(operand)).dtype


def _number_kind(operand: Any) -> str:
    for kind, types_ in {"bool": bool, "int": (int, Expr), "float": float, "complex": complex}.items():
        if isinstance(operand, types_):
            return kind
    raise TypeMismatch(
        f"a {type(operand).__name__} is no operand of a tensor", ["operands are tensors, numbers and arrays"]
    )


def _as(operand: Any, dtype: str) -> Tensor:
    if isinstance(operand, bool) and dtype != "bool":
        operand = int(operand)
    elif isinstance(operand, float):
        operand = float(operand)
    tensor = lift(operand, dtype)
    return tensor if tensor.type.dtype == dtype else tensor.astype(dtype)
