"""From a TensorProto to a `Weight`: every form in which ONNX stores elements, checked before anything is allocated.

`TensorReader.problems` says what is wrong with a tensor without reading its elements; `weight` and `sparse` decode it.
The forms are those of onnx.proto: `raw_data`, six typed fields, and external files beside the model. Large `raw_data`,
`float_data` and `double_data` have been left in the model's bytes (wire.py) and are found through a note in the tensor.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx
from onnx import TensorProto

from burn.dialect.types import DTYPES, numpy_dtype
from burn.dialect.weights import MappedFile, Weight, array_weight, byte_size, mapped_weight, stored_bits
from burn.errors import ModelError
from burn.importers.onnx.wire import Span

# TensorProto.DataType -> burn's name.
ELEMENT_TYPES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.UINT8: "uint8",
    TensorProto.INT8: "int8",
    TensorProto.UINT16: "uint16",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.STRING: "string",
    TensorProto.BOOL: "bool",
    TensorProto.FLOAT16: "float16",
    TensorProto.DOUBLE: "float64",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.COMPLEX64: "complex64",
    TensorProto.COMPLEX128: "complex128",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.UINT4: "uint4",
    TensorProto.INT4: "int4",
    # By number: onnx before 1.18, 1.19 and 1.20 has no names for these.
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
}

# Typed field -> the element types that it may hold; every other type is held by int32_data.
_FIELDS: dict[str, tuple[str, ...]] = {
    "float_data": ("float32", "complex64"),
    "double_data": ("float64", "complex128"),
    "int64_data": ("int64",),
    "uint64_data": ("uint32", "uint64"),
    "string_data": ("string",),
    "int32_data": (),
}
_FIELD_OF = {dtype: field for field, dtypes in _FIELDS.items() for dtype in dtypes}
_FIELD_DTYPES = {"float_data": np.float32, "double_data": np.float64, "int64_data": np.int64, "uint64_data": np.uint64}

MAX_DENSE_BYTES = 2**31  # of one model: a few bytes of sparse tensor may claim any dense size


def element_name(data_type: int) -> str:
    """How an error names an element type."""
    if data_type in ELEMENT_TYPES:
        return ELEMENT_TYPES[data_type]
    names = TensorProto.DataType
    return names.Name(data_type) if data_type in names.values() else str(data_type)


class TensorReader:
    """Reads the tensors of one model.

    `content`: the model's bytes (mapped or in memory) that spans point into. `token`: the key of those notes.
    `folder`: the folder of external data; None for a model that came as bytes.
    """

    def __init__(self, content: MappedFile | memoryview | None, token: str, folder: Path | None) -> None:
        self.content = content
        self.token = token
        self.folder = folder
        self._files: dict[Path, MappedFile] = {}
        self._dense: dict[str, int] = {}  # sparse tensors and the bytes they take when dense

    # Problems

    def problems(self, tensor: TensorProto) -> list[str]:
        """Everything that is wrong with a tensor's type, shape and amount of data; nothing is allocated for it."""
        if tensor.data_type not in ELEMENT_TYPES:
            return [f"unsupported element type {element_name(tensor.data_type)}"]
        dtype, shape = ELEMENT_TYPES[tensor.data_type], tuple(tensor.dims)
        if tensor.HasField("segment"):
            return ["stored in segments, which is not supported"]
        try:
            byte_size(dtype, shape)
            byte_size(dtype, shape, packed=False)
        except ModelError as error:
            return [str(problem) for problem in error.problems]
        try:
            forms = self._forms(tensor)
        except ModelError as error:
            return [str(problem) for problem in error.problems]
        if tensor.data_location == TensorProto.EXTERNAL:
            if forms:
                return [f"stored twice: as external data and in {', '.join(forms)}"]
            try:
                self._external(tensor)
            except ModelError as error:
                return [str(problem) for problem in error.problems]
            return []
        if len(forms) > 1:
            return [f"stored more than once: in {', '.join(forms)}"]
        expected = _expected(dtype, shape)
        if not forms:
            return [f"no data for {dtype} of shape {list(shape)}"] if prod(shape) else []
        ((field, size),) = forms.items()
        if field == "raw_data" and dtype == "string":
            return ["strings cannot be stored in raw_data"]
        if field != "raw_data" and field != _FIELD_OF.get(dtype, "int32_data"):
            return [f"{dtype} cannot be stored in {field}"]
        wanted = byte_size(dtype, shape) if field == "raw_data" else expected
        unit = "bytes" if field == "raw_data" else "entries"
        if size != wanted:
            return [f"{field} has {size} {unit}, but {dtype} of shape {list(shape)} takes {wanted}"]
        return []

    def _forms(self, tensor: TensorProto) -> dict[str, int]:
        """The fields that hold data, and how much: bytes of raw_data, entries of the others."""
        forms = {field: len(getattr(tensor, field)) for field in _FIELDS}
        forms = {field: count for field, count in forms.items() if count}
        if tensor.HasField("raw_data"):
            forms["raw_data"] = len(tensor.raw_data)
        for span in self._spans(tensor):
            if span.field in forms:
                raise ModelError("tensor in pieces", [f"{span.field} is stored in several pieces"])
            width = 1 if span.field == "raw_data" else np.dtype(_FIELD_DTYPES[span.field]).itemsize
            if span.length % width:
                raise ModelError("tensor in pieces", [f"{span.field} has {span.length} bytes, not whole elements"])
            forms[span.field] = span.length // width
        return forms

    def _spans(self, tensor: TensorProto) -> list[Span]:
        if not tensor.external_data or not self.token:
            return []
        return [Span.parse(entry.value) for entry in tensor.external_data if entry.key == self.token]

    def _external(self, tensor: TensorProto) -> Weight:
        """The Weight of an external tensor. Raises ModelError: the path leaves the folder, the file is too short."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        file = self._open(entries.get("location", ""))
        dtype, shape = ELEMENT_TYPES[tensor.data_type], tuple(tensor.dims)
        size = byte_size(dtype, shape)
        offset = _natural(entries.get("offset", "0"), "offset")
        length = _natural(entries.get("length", str(size)), "length")
        return mapped_weight(file, offset, length, dtype, shape)

    def _open(self, location: str | bytes) -> MappedFile:
        if self.folder is None:
            raise _external_error(location, "the model was given as bytes, so there is no folder to find it in")
        path = _inside(self.folder, location)
        if path not in self._files:
            self._files[path] = MappedFile(path)
        return self._files[path]

    # Reading

    def weight(self, tensor: TensorProto) -> Weight:
        """The tensor's elements, where they lie when possible. Raises ModelError, listing what `problems` finds."""
        if problems := self.problems(tensor):
            raise ModelError(f"malformed tensor '{tensor.name}'", problems)
        dtype, shape = ELEMENT_TYPES[tensor.data_type], tuple(tensor.dims)
        if tensor.data_location == TensorProto.EXTERNAL:
            return self._external(tensor)
        packed = stored_bits(dtype) < 8
        for span in self._spans(tensor):
            if isinstance(self.content, MappedFile):
                return mapped_weight(self.content, span.offset, span.length, dtype, shape)
            assert self.content is not None
            return Weight(dtype, shape, self.content[span.offset : span.offset + span.length], packed)
        if tensor.raw_data:
            return Weight(dtype, shape, memoryview(tensor.raw_data), packed)
        field = _FIELD_OF.get(dtype, "int32_data")
        values = getattr(tensor, field)
        if field == "string_data":
            return array_weight(_strings(values, shape, tensor.name))
        if field == "int32_data":
            return _from_int32(np.fromiter(values, np.int32, len(values)), dtype, shape, tensor.name)
        array = np.fromiter(values, _FIELD_DTYPES[field], len(values))
        if dtype == "uint32":
            _in_range(array, 0, 2**32 - 1, tensor.name)
            array = array.astype(np.uint32)
        return array_weight(array.view(numpy_dtype(dtype)).reshape(shape))

    def sparse_problems(self, sparse: onnx.SparseTensorProto) -> list[str]:
        """Everything that is wrong with a sparse tensor, but for the values of its indices."""
        values, indices = sparse.values, sparse.indices
        problems = [f"values: {p}" for p in self.problems(values)] + [f"indices: {p}" for p in self.problems(indices)]
        if problems:
            return problems
        dims = list(sparse.dims)
        dtype = ELEMENT_TYPES[values.data_type]
        try:
            size = byte_size(dtype, tuple(dims), packed=False)
        except ModelError as error:
            return [str(problem) for problem in error.problems]
        others = sum(bytes_ for name, bytes_ in self._dense.items() if name != values.name)
        if size + others > MAX_DENSE_BYTES:
            whole = f", {size + others} with the model's other sparse tensors" if others else ""
            return [f"{dtype} of shape {dims} takes {size} bytes when dense{whole}; the limit is {MAX_DENSE_BYTES}"]
        self._dense[values.name] = size
        if dtype == "string":
            return ["sparse tensors of strings are not supported"]
        if len(values.dims) != 1:
            return [f"values have rank {len(values.dims)}, not 1"]
        if indices.data_type != TensorProto.INT64:
            return [f"indices are {element_name(indices.data_type)}, not int64"]
        if list(indices.dims) not in ([values.dims[0]], [values.dims[0], len(dims)]):
            return [
                f"indices have shape {list(indices.dims)} for {values.dims[0]} values of a tensor of rank {len(dims)}"
            ]
        return []

    def sparse(self, sparse: onnx.SparseTensorProto) -> Weight:
        """A sparse tensor's elements as a dense constant. Raises ModelError."""
        name = sparse.values.name
        if problems := self.sparse_problems(sparse):
            raise ModelError(f"malformed sparse tensor '{name}'", problems)
        shape = tuple(sparse.dims)
        values, indices = self.weight(sparse.values).array(), self.weight(sparse.indices).array()
        if indices.ndim == 2:
            if (indices < 0).any() or (indices >= np.array(shape, np.int64)).any():
                raise ModelError(f"malformed sparse tensor '{name}'", [f"an index lies outside of shape {list(shape)}"])
            strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
            indices = indices @ np.array(strides, np.int64)
        _in_range(indices, 0, prod(shape) - 1, name)
        try:
            dense = np.zeros(shape, values.dtype)
        except MemoryError:
            raise ModelError(f"sparse tensor '{name}' is too large", [f"no memory for shape {list(shape)}"]) from None
        dense.reshape(-1)[indices] = values
        return array_weight(dense)


def _expected(dtype: str, shape: tuple[int, ...]) -> int:
    """How many entries a typed field has: complex numbers take two, sub-byte types share one."""
    count, bits = prod(shape), stored_bits(dtype)
    if DTYPES[dtype].kind == "complex":
        return 2 * count
    return -(-count * bits // 8) if bits < 8 and dtype != "string" else count


def _from_int32(entries: np.ndarray, dtype: str, shape: tuple[int, ...], name: str) -> Weight:
    """Elements from int32_data: integers as they are, floats by their bits, sub-byte types packed."""
    width = max(8, min(stored_bits(dtype), 32))
    if width < 32:
        _in_range(entries, -(2 ** (width - 1)), 2**width - 1, name)
    if stored_bits(dtype) < 8:
        return Weight(dtype, shape, memoryview(entries.astype(np.uint8).data), packed=True)
    if dtype == "bool":
        return array_weight((entries != 0).reshape(shape))
    bits = entries.astype(np.dtype(f"u{width // 8}"))
    return array_weight(bits.view(numpy_dtype(dtype)).reshape(shape))


def _strings(values: Iterable[bytes], shape: tuple[int, ...], name: str) -> np.ndarray:
    try:
        words = [value.decode() for value in values]
    except UnicodeDecodeError as error:
        raise ModelError(f"malformed tensor '{name}'", ["a string is not UTF-8"]) from error
    array = np.empty(len(words), object)
    array[:] = words
    return array.reshape(shape)


def _in_range(values: np.ndarray, low: int, high: int, name: str) -> None:
    if values.size and (int(values.min()) < low or int(values.max()) > high):
        text = f"a value lies outside of {low} to {high}: {values.min()} to {values.max()} are stored"
        raise ModelError(f"malformed tensor '{name}'", [text])


def _natural(text: str | bytes, what: str) -> int:
    if not isinstance(text, str) or not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise ModelError("malformed external data", [f"{what} {text!r} of external data is not a natural number"])
    return int(text)


def _inside(folder: Path, location: str | bytes) -> Path:
    """The file at a location relative to the folder. A model must not be able to read any file but those beside it."""
    if not location or not isinstance(location, str) or "\0" in location:
        raise _external_error(location, "it is not the name of a file")
    for flavour in (PurePosixPath(location), PureWindowsPath(location)):
        if flavour.is_absolute() or flavour.drive or flavour.root or ".." in flavour.parts:
            raise _external_error(location, "its path leaves the model's folder")
    try:
        root = folder.resolve(strict=True)
        path = (root / location).resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links, before Python 3.13
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _external_error(location, f"looked for in {folder}: {reason}") from error
    if root not in path.parents:
        raise _external_error(location, "a symbolic link leads out of the model's folder")
    if not os.path.isfile(path):
        raise _external_error(location, "it is not a regular file")
    return path


def _external_error(location: str | bytes, reason: str) -> ModelError:
    return ModelError("external data not found", [f"external data file {location!r}: {reason}"])
