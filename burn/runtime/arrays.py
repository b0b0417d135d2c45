"""Conversion of arrays at the boundary: inputs become numpy arrays, outputs become the callers' kind of array.

numpy arrays pass unchanged. An object with DLPack (torch, jax, cupy ...) is used without a copy, and the
outputs are then `Array`s, which support DLPack. Torch tensors as inputs give torch tensors as outputs. device_array.py has arrays
on GPUs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.runtime import _native
from burn.runtime.dtypes import DTYPES, from_dlpack, name_of, numpy_dtype

if TYPE_CHECKING:
    from burn.runtime.artefact import ValueSpec

_CPU = 1  # DLPack's kDLCPU
GPU_KINDS = {2: "cuda", 10: "hip"}
"""Kinds of GPUs by DLPack's device types."""


def device_named(kind: int, index: int) -> str:
    return f"{GPU_KINDS[kind]}:{index}" if kind in GPU_KINDS else f"another device (DLPack device type {int(kind)})"


class Unfit(Exception):
    """A value cannot become an input's array; the message says why."""


class Array:
    """A dense array in this process's memory, to be passed through DLPack: `torch.from_dlpack(array)`."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> str:
        return name_of(self._array.dtype)

    def numpy(self) -> np.ndarray:
        """The same memory as a numpy array."""
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is None:  # numpy 1 does not know the value
            return np.asarray(self._array, dtype=dtype)
        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        code = DTYPES[self.dtype].dlpack
        if code is None:
            raise BufferError(f"DLPack has no layout for {self.dtype} with one element a byte")
        return _native.to_dlpack(self._array, code, DTYPES[self.dtype].bits).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"Array({self._array!r})"


def as_given(value: Any) -> Any:
    """Replaces an input that has `__as_input__` (like burn.Tensor) by its elements, an array in host or GPU
    memory."""
    hook = getattr(value, "__as_input__", None)
    return value if hook is None else hook()


def on_host(value: Any) -> np.ndarray:
    """Any library's array, wherever it lies, as a numpy array."""
    if not isinstance(value, (np.ndarray, np.generic)):
        if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] != _CPU and hasattr(value, "cpu"):
            value = value.cpu()
        if hasattr(value, "numpy"):
            value = value.numpy()
    return np.asarray(value)


def is_foreign(value: object) -> bool:
    """True for a value with DLPack that is not a numpy array."""
    return hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic))


def to_numpy(value: object, dtype_name: str) -> np.ndarray:
    """`value` as a contiguous array of the given element type, without a copy where possible. Raises Unfit."""
    if dtype_name == "string":
        return _strings(value)
    wanted = numpy_dtype(dtype_name)
    if isinstance(value, Array):
        array = value.numpy()
    elif isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    elif is_foreign(value):
        array = _from_dlpack(value)
    elif isinstance(value, (bool, int, float, complex, list, tuple)):
        return _from_python(value, wanted)
    else:
        raise Unfit(f"is a {type(value).__name__}; pass a numpy array or a DLPack tensor")
    if array.dtype.hasobject:
        raise Unfit(f"holds Python objects, must be {dtype_name}")
    if array.dtype.newbyteorder("=") != wanted:
        raise Unfit(f"has element type {name_of(array.dtype)}, must be {dtype_name}")
    if array.dtype == wanted and array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.array(array, dtype=wanted, order="C", copy=True)


def contained(value: object, spec: ValueSpec, level: int = 0) -> Any:
    """`value` as lists of arrays, one for each of the spec's containers; an optional is a list of one or none. Raises Unfit."""
    if level == len(spec.containers):
        array = to_numpy(value, spec.dtype)
        fits = all(
            not isinstance(want, int) or want == have for want, have in zip(spec.dims, array.shape, strict=False)
        )
        if not spec.any_rank and (array.ndim != len(spec.dims) or not fits):
            raise Unfit(f"has shape {list(array.shape)}, must be [{', '.join(map(str, spec.dims))}]")
        return array
    if spec.containers[level] == "optional":
        return [] if value is None else [contained(value, spec, level + 1)]
    if not isinstance(value, (list, tuple)):
        raise Unfit(f"is a {type(value).__name__}; a sequence is a list of arrays")
    elements = []
    for i, element in enumerate(value):
        try:
            elements.append(contained(element, spec, level + 1))
        except Unfit as error:
            raise Unfit(f"at {i} {error}") from error
    return elements


def own_copy(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The elements, converted, in memory as outputs have it: a program may write an output over them where they are given up."""
    if dtype.hasobject:
        return array.astype(dtype)
    made = _native.new_bytes(array.size * dtype.itemsize).view(dtype).reshape(array.shape)
    np.copyto(made, array, casting="unsafe")
    return made


def _strings(value: object) -> np.ndarray:
    """An array of str: from an array of numpy's strings, of UTF-8 bytes or of objects, or from str in lists."""
    try:
        array = np.asarray(value)
        if isinstance(value, (str, bytes, list, tuple)) and array.dtype.kind in "US":
            array = np.array(value, object)  # numpy's own strings lose zeros at their end
    except ValueError as error:
        raise Unfit(f"is not a regular array: {error}") from error
    if array.dtype.kind not in "OUST" and array.size:
        raise Unfit(f"holds {array.dtype}, must hold strings")
    texts = np.empty(array.shape, object)
    flat = texts.reshape(-1)
    for i, text in enumerate(array.reshape(-1).tolist()):
        if isinstance(text, bytes):
            try:
                text = text.decode()
            except UnicodeDecodeError as error:
                raise Unfit(
                    f"holds bytes that are not UTF-8: string {i} ({error.reason} at byte {error.start})"
                ) from error
        if not isinstance(text, str):
            raise Unfit(f"holds a {type(text).__name__}, must hold strings")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Unfit(f"holds half a character: string {i} ({error.reason})") from error
        flat[i] = text
    return texts


def _from_dlpack(value: Any) -> np.ndarray:
    try:
        device, index = value.__dlpack_device__()
        if device != _CPU:
            raise Unfit(f"is on {device_named(device, index)}; copy it to the CPU first, or to the program's device")
        if getattr(value, "is_neg", bool)():  # torch exports such a view without its sign
            value = value.resolve_neg()
        try:
            capsule = value.__dlpack__(max_version=(1, 0))
        except TypeError:  # a library from before DLPack 1.0
            capsule = value.__dlpack__()
        raw, code, bits = _native.from_dlpack(capsule)
    except Unfit:
        raise
    except Exception as error:  # whatever the tensor's library raises: a torch tensor that needs a gradient, say
        raise Unfit(f"cannot be read through DLPack: {error}") from error
    dtype = from_dlpack(code, bits)
    if dtype is None or dtype.numpy is None:
        raise Unfit(f"has an element type that burn does not know (DLPack code {code}, {bits} bits)")
    return raw.view(dtype.numpy)


def _from_python(value: bool | complex | Sequence[Any], wanted: np.dtype) -> np.ndarray:
    """Numbers and nested lists, where the element type holds every one of them exactly."""
    try:
        natural = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise Unfit(f"is not a regular array: {error}") from error
    if natural.dtype.kind not in "biufc":
        raise Unfit("is not an array of numbers")
    if natural.size == 0:
        return natural.astype(wanted)
    ranks = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
    is_number = wanted.kind in ranks
    wanted_rank = ranks[wanted.kind] if is_number else (1 if "int" in wanted.name else 2)  # ml_dtypes' kind is "V"
    if ranks[natural.dtype.kind] > wanted_rank or (wanted_rank == 0) != (natural.dtype.kind == "b"):
        raise Unfit(f"holds Python {natural.dtype.name} values, must be {name_of(wanted)}")
    with np.errstate(all="ignore"):
        array = natural.astype(wanted)
        same = array.astype(natural.dtype) == natural
    if not np.all(same | (natural != natural)):
        first = natural[~same].flat[0]
        raise Unfit(f"holds {first}, which {name_of(wanted)} cannot represent exactly; pass a numpy array")
    return np.ascontiguousarray(array).reshape(natural.shape)


def as_dicts(rows: Any, keys: Sequence[int] | Sequence[str]) -> list[dict[Any, Any]]:
    """Each row of an array [n, keys] as a dict of Python's numbers or strings by key. The keys are in order, as in ONNX Runtime's
    maps."""
    order = sorted(range(len(keys)), key=lambda i: keys[i])
    return [{keys[i]: row[i] for i in order} for row in np.asarray(rows).tolist()]


def like(outputs: Sequence[Any], inputs: Sequence[object]) -> list[Any]:
    """The outputs in the form of the inputs: as they are unless one of those came through DLPack. A class whose instances have
    `__like_input__` (burn.Tensor does) makes its own."""
    if not any(is_foreign(value) and not isinstance(value, _native.DeviceArray) for value in inputs):
        return list(outputs)
    for value in inputs:
        if (wrap := getattr(value, "__like_input__", None)) is not None:
            return list(map(wrap, outputs))
    for value in inputs:
        tensors = [_native.tensor_like(output, value) for output in outputs] if is_foreign(value) else [None]
        if not any(tensor is None for tensor in tensors):
            return tensors
    torch = sys.modules.get("torch")  # never imported here: only a caller that has it can have passed its tensors
    if torch is not None and any(isinstance(value, torch.Tensor) for value in inputs):
        return [torch.from_dlpack(_handed_on(output)) for output in outputs]
    return [_handed_on(output) for output in outputs]


def _handed_on(output: Any) -> Any:
    return output if isinstance(output, _native.DeviceArray) else Array(output)
