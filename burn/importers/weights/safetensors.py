"""The safetensors format (https://github.com/huggingface/safetensors, "Format"): read mapped, written in one go.

    u64 length of the header | JSON {name: {"dtype", "shape", "data_offsets"}, "__metadata__"} | the tensors' bytes

The library of that name copies on reading and supports fewer element types than burn. Types that the format lacks are stored
as bytes (U8), one an element, with their names under "burn.dtypes" in the metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from burn.dialect.types import DTYPES
from burn.dialect.weights import MappedFile, Weight, byte_size, mapped_weight
from burn.errors import ModelError, Problem
from burn.importers.weights.checkpoint import PRODUCER, Checkpoint, overlaps, replacing, write_weight

MAX_HEADER = 100_000_000  # bytes; the format's own limit
METADATA = "burn.dtypes"

CODES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
    "BOOL": "bool", "C64": "complex64",
}  # fmt: skip
_NAMES = {name: code for code, name in CODES.items()}


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Every tensor of a file, by name, left in the file. Raises ModelError listing everything wrong with it."""
    file = MappedFile(path)
    header, start = _header(file)
    metadata = header.pop("__metadata__", None)
    extra = _extra_types(file, metadata)
    problems: list[Problem] = []
    checkpoint = Checkpoint(path=path, kind="safetensors")
    checkpoint.take_metadata(metadata)
    checkpoint.metadata.pop(METADATA, None)
    taken: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        try:
            dtype, shape, begin, end = _entry(entry)
            dtype = extra.get(name, dtype)
            if dtype not in DTYPES:
                raise ModelError(f"the element type {dtype} is not supported")
            if not 0 <= begin <= end:
                raise ModelError(f"the bytes from {begin} to {end} make no sense")
            checkpoint[name] = _weight(file, start + begin, end - begin, dtype, shape, name in extra)
            taken.append((begin, end, name))
        except ModelError as error:
            problems.append(Problem("; ".join(map(str, error.problems)) or error.summary, tensor=name))
    problems += overlaps(taken)
    if problems:
        raise ModelError(f"{path} is malformed", problems)
    return checkpoint


def write(
    path: str | os.PathLike[str], tensors: Mapping[str, Weight], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes the file whole or not at all. Tensors that lie in another mapped file are copied piece by piece.

    metadata: text to keep with them, by key; "producer" says that burn wrote it. Raises ModelError for strings."""
    strings = [Problem(f"tensor '{name}'") for name, weight in tensors.items() if weight.dtype == "string"]
    if strings:
        raise ModelError("strings cannot be written to safetensors", strings)
    if "__metadata__" in tensors:
        raise ModelError("no tensor of a safetensors file can be called '__metadata__'")
    entries: dict[str, Any] = {}
    extra: dict[str, str] = {}
    offset = 0
    for name, weight in sorted(tensors.items(), key=lambda item: -DTYPES[item[1].dtype].size):  # keeps each aligned
        if weight.dtype not in _NAMES:
            extra[name] = weight.dtype
        size = byte_size(weight.dtype, weight.shape, packed=False)
        shape = list(weight.shape)
        if name in extra and DTYPES[weight.dtype].size > 1:
            shape.append(DTYPES[weight.dtype].size)
        code = _NAMES.get(weight.dtype, "U8")
        entries[name] = {"dtype": code, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    texts = {"producer": PRODUCER, **(metadata or {})}
    if extra:
        texts[METADATA] = json.dumps(extra)
    encoded = json.dumps({"__metadata__": texts, **entries}, separators=(",", ":")).encode()
    encoded += b" " * (-(8 + len(encoded)) % 64)
    with replacing(path) as file:
        file.write(len(encoded).to_bytes(8, "little"))
        file.write(encoded)
        for name in entries:
            write_weight(tensors[name], file)


def _header(file: MappedFile) -> tuple[dict[str, Any], int]:
    if file.size < 8:
        raise ModelError(f"{file.path} is not a safetensors file", ["it is too short"])
    length = int.from_bytes(file.view(0, 8), "little")
    if length > min(MAX_HEADER, file.size - 8):
        raise ModelError(f"{file.path} is not a safetensors file", [f"its header would be of {length} bytes"])
    try:
        header = json.loads(bytes(file.view(8, length)), object_pairs_hook=_table)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file.path} is not a safetensors file", [f"its header is not JSON: {error}"]) from None
    if not isinstance(header, dict):
        raise ModelError(f"{file.path} is not a safetensors file", ["its header is not a table"])
    return header, 8 + length


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name is given twice")
    return table


def _extra_types(file: MappedFile, metadata: Any) -> dict[str, str]:
    text = metadata.get(METADATA) if isinstance(metadata, dict) else None
    if text is None:
        return {}
    try:
        extra = json.loads(text)
        if not isinstance(extra, dict) or not all(isinstance(v, str) for v in extra.values()):
            raise ValueError("not a table of names")
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"{file.path} is malformed", [f"metadata {METADATA}: {error}"]) from None
    return extra


def _entry(entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    if not isinstance(entry, dict):
        raise ModelError("its entry is not a table")
    code, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    sizes, ends = _integers(shape), _integers(offsets)
    if sizes is None or ends is None or len(ends) != 2 or not isinstance(code, str):
        raise ModelError("its entry lacks dtype, shape or data_offsets")
    return CODES.get(code, code), sizes, ends[0], ends[1]


def _integers(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(v) is int and v >= 0 for v in value):
        return None
    return tuple(value)


def _weight(file: MappedFile, offset: int, length: int, dtype: str, shape: tuple[int, ...], extra: bool) -> Weight:
    if not extra:
        return mapped_weight(file, offset, length, dtype, shape)
    if DTYPES[dtype].size > 1:
        shape = shape[:-1]
    expected = byte_size(dtype, shape, packed=False)
    if dtype == "string" or length != expected:
        raise ModelError(f"{dtype} of shape {list(shape)} takes {expected} bytes, not {length}")
    return Weight(dtype, shape, file.view(offset, length), False, file, offset)
