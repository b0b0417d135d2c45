"""A compiled program: what it takes and gives, its code, its constants, and what messages and profiles say of it.

`Executable` runs one; package.py is the file that it is kept in, whose header holds everything but the bytes of code and
constants. The functions at the end take such a header apart, and refuse one that lies.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from burn.errors import Problem, RunError
from burn.runtime import _native, sizes, strings
from burn.runtime.constants_file import Stored
from burn.runtime.digests import checksums
from burn.runtime.dtypes import DTYPES, name_of, numpy_dtype
from burn.runtime.origins import resolved

CODE_ALIGNMENT = CONSTANT_ALIGNMENT = 64
_MAX_RANK = 63  # numpy's limit is 64
_MAX_DEPTH = 8
CONTAINERS = {"sequence": "s", "optional": "o"}
"""Containers of tensors -> their codes in the native runtime."""

Buffer = bytes | bytearray | memoryview | mmap.mmap


class ValueSpec(NamedTuple):
    """An input or an output: a tensor, or sequences and optionals of tensors.

    `containers` says what is around the tensors, from outside in: "sequence" (a list) or "optional" (the value or None).
    Each tensor in a container has sizes of its own where `dims` has a name, and any rank if `any_rank`. An output with `keys`
    is a tensor [n, keys] that callers get as a list of n dicts."""

    name: str
    dtype: str  # a name in dtypes.DTYPES
    dims: tuple[int | str, ...]  # a size, or an expression over symbols
    donated_to: int | None = None  # of an input: the output that may take over its memory when the caller gives it up
    containers: tuple[str, ...] = ()
    any_rank: bool = False
    keys: tuple[int, ...] | tuple[str, ...] = ()

    @property
    def type_text(self) -> str:
        """The type for people: "float32[batch, 3]", "sequence of int64[?]"."""
        if self.keys:
            return f"sequence of maps from {len(self.keys)} {type(self.keys[0]).__name__} to {self.dtype}"
        dims = "..." if self.any_rank else ", ".join(map(str, self.dims))
        return "".join(f"{kind} of " for kind in self.containers) + f"{self.dtype}[{dims}]"


class Signature(NamedTuple):
    """A program's inputs and outputs.

    With `random_state` the program's entry has one input more than listed, the last: uint64[2], a seed and the number
    of the call, which the executable supplies. `defaults`: values that are compiled in, and that the model offers as inputs.
    """

    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    random_state: bool = False
    defaults: tuple[str, ...] = ()


class Constant(NamedTuple):
    """A constant of the program: dense, row-major. Strings are packed as strings.py says."""

    dtype: str
    shape: tuple[int, ...]
    data: Buffer
    stored: Stored | None = None  # of one that a compilation has written to a file

    @staticmethod
    def of(array: np.ndarray, stored: Stored | None = None) -> Constant:
        """Without a copy when the array is contiguous; an array of objects holds strings."""
        if array.dtype == object:
            return Constant("string", array.shape, strings.pack(array).data)
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return Constant(name_of(array.dtype), array.shape, flat.data, stored)

    def __reduce__(self) -> tuple[Any, ...]:
        return Constant, (self.dtype, self.shape, memoryview(self.data).tobytes())

    @property
    def bytes(self) -> int:
        return memoryview(self.data).nbytes

    def array(self) -> np.ndarray:
        """A read-only view; of strings a copy."""
        if self.dtype == "string":
            return strings.unpack(self.data, self.shape)
        array = np.frombuffer(self.data, np.uint8).view(numpy_dtype(self.dtype)).reshape(self.shape)
        array.flags.writeable = False
        return array


class KernelInfo(NamedTuple):
    """One kernel or library call, for profiles and messages."""

    name: str
    kind: str = ""  # "gemm", "pointwise" ...
    sources: tuple[str, ...] = ()  # the source nodes it computes
    flops: str = "0"  # of one call: expressions over size symbols
    bytes: str = "0"
    reads: tuple[int, ...] = ()  # the kernels whose results it takes
    step: int = 0  # of the program's, as live ranges count them


@dataclass(frozen=True)
class KernelImage:
    """Machine code of one GPU kernel, with its launch parameters."""

    name: str  # name of its function
    data: Buffer = field(repr=False)
    shared: int = 0  # bytes of dynamic shared memory
    threads: int = 32  # of a block
    early: bool = False  # starts before the kernel before it ends, and waits for it itself

    def __reduce__(self) -> tuple[Any, ...]:
        return KernelImage, (self.name, memoryview(self.data).tobytes(), self.shared, self.threads, self.early)


@dataclass(frozen=True)
class Library:
    """The function of a custom op that a program calls, by its symbol. data: a shared library for the program's CPU that
    defines it; empty for code that is linked. op: the op's name."""

    symbol: str
    op: str
    data: Buffer = field(default=b"", repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Library, (self.symbol, self.op, memoryview(self.data).tobytes())


PYTHON = "python: "
"""Begins the name of a kernel that is a Python function of this process: a custom op's."""


class Target(NamedTuple):
    """The target of the code: a CPU, and for a program with GPU kernels a GPU architecture."""

    triple: str
    features: tuple[str, ...] = ()  # LLVM's names; all of them are required
    gpu: str = ""  # "cuda"; "" for a program without GPU kernels
    architecture: str = ""  # of the GPU: "sm_90"

    @property
    def kind(self) -> str:
        """The kind of device, as `burn.runtime.device` names it."""
        return self.gpu or "cpu"


@dataclass(frozen=True)
class Artefact:
    """A compiled program. `code` defines the function `entry`, see burn_rt.h."""

    signature: Signature
    target: Target
    code: Buffer = field(repr=False)
    constants: tuple[Constant, ...] = field(default=(), repr=False)
    live_ranges: tuple[tuple[int, int], ...] = ()  # per planned buffer: first and last step
    buffers: tuple[str, ...] = ()  # and its bytes, an expression over size symbols
    kernels: tuple[KernelInfo, ...] = ()
    sites: tuple[str, ...] = ()  # source nodes, by the index in run-time errors
    images: tuple[KernelImage, ...] = ()  # GPU kernels, by the number in the entry function's launches
    libraries: tuple[Library, ...] = ()  # of custom ops
    entry: str = "burn_entry"
    burn_version: str = _native.__version__
    made_by: tuple[str, ...] = ()  # versions of all that made an entry of the cache (versions.py); () elsewhere

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in a pickle, with the bytes in it."""
        values = [getattr(self, field.name) for field in fields(self)]
        return Artefact, tuple(bytes(v) if isinstance(v, memoryview) else v for v in values)

    def resolved(self) -> Artefact:
        """With lines of today in the names of nodes (`burn.runtime.origins`)."""
        kernels = tuple(k._replace(sources=tuple(map(resolved, k.sources))) for k in self.kernels)
        return replace(self, sites=tuple(map(resolved, self.sites)), kernels=kernels)

    @property
    def is_portable(self) -> bool:
        """False for a program that calls functions of this process."""
        return not any(_calling(kernel.name) for kernel in self.kernels)

    def check_portable(self) -> None:
        """Raises RunError for a program that calls functions of this process (`burn.debug.callback`): no other has them."""
        problems = [
            Problem(f"{what} a Python function", node=kernel.sources[0])
            for kernel in self.kernels
            if (what := _calling(kernel.name))
        ]
        if problems:
            raise RunError("this program runs in this process alone", problems)

    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Writes a package of this program alone, whole or not at all. durable: as `files.whole` has it."""
        from burn.runtime import package

        package.save([self], path, durable=durable)

    @staticmethod
    def load(path: str | os.PathLike[str], check: bool = True) -> Artefact:
        """The program in a package that runs here. check: verify the checksums of constants. Raises ModelError for a damaged
        file.

        A compiled program runs with all the rights of this process: load none that you would not run."""
        from burn.runtime import package

        return package.load(path, check=check)

    def header(self, code_at: int, constants_at: Sequence[int]) -> tuple[dict[str, Any], bytes]:
        """The program's header in a file, and its code followed by GPU kernels. code_at, constants_at: offsets in the
        file's sections."""
        code = bytearray(self.code)
        images = []
        for image in self.images:
            code += bytes(-len(code) % CODE_ALIGNMENT)
            size = memoryview(image.data).nbytes
            section = {"offset": code_at + len(code), "bytes": size}
            launch = {"shared": image.shared, "threads": image.threads, "early": int(image.early)}
            images.append({"name": image.name} | launch | section)
            code += image.data
        libraries = []
        for library in self.libraries:
            code += bytes(-len(code) % CODE_ALIGNMENT)
            size = memoryview(library.data).nbytes
            libraries.append({"symbol": library.symbol, "op": library.op, "offset": code_at + len(code), "bytes": size})
            code += library.data
        header: dict[str, Any] = {
            "signature": {
                "inputs": [spec._asdict() for spec in self.signature.inputs],
                "outputs": [spec._asdict() for spec in self.signature.outputs],
                "random_state": self.signature.random_state,
                "defaults": self.signature.defaults,
            },
            "target": self.target._asdict(),
            "kernels": [kernel._asdict() for kernel in self.kernels],
            "live_ranges": self.live_ranges,
            "buffers": self.buffers,
            "sites": self.sites,
            "entry": self.entry,
            "code": {"offset": code_at, "bytes": memoryview(self.code).nbytes},
            "images": images,
            "libraries": libraries,
            "burn_version": self.burn_version,
            "constants": [
                {
                    "offset": offset,
                    "bytes": constant.bytes,
                    "dtype": constant.dtype,
                    "shape": constant.shape,
                    "checksum": checksum,
                }
                for offset, constant, checksum in zip(constants_at, self.constants, self._checksums(), strict=True)
            ],
        } | ({"made_by": self.made_by} if self.made_by else {})
        return header, bytes(code)

    def _checksums(self) -> list[int]:
        """Of the constants. Pages of a file of constants are released after they were read."""

        def release(number: int) -> None:
            if (stored := self.constants[number].stored) is not None:
                stored.release()

        return checksums([c.data for c in self.constants], release)


def _calling(kernel: str) -> str:
    if kernel == "burn_lib_debug_call":
        return "burn.debug.callback calls"
    return f"the custom op {kernel.removeprefix(PYTHON)} calls" if kernel.startswith(PYTHON) else ""


# ---- the header ------------------------------------------------------------------------------------------------------
# Each function takes a piece of JSON and raises KeyError, TypeError or ValueError for one of another shape.


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise TypeError(f"{value!r} is not a size or index")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.80} is neither true nor false")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.80} is not a list")
    return value


def _value_spec(value: Any) -> ValueSpec:
    dtype = _text(value["dtype"])
    if dtype not in DTYPES:
        raise ValueError(f"unknown element type '{dtype}'")
    dims = tuple(_count(dim) if isinstance(dim, int) else sizes.parse(_text(dim)).text for dim in _list(value["dims"]))
    if len(dims) > _MAX_RANK:
        raise ValueError(f"a tensor of rank {len(dims)}")
    donated = value["donated_to"]
    containers = tuple(map(_text, _list(value.get("containers", []))))
    if any(kind not in CONTAINERS for kind in containers) or len(containers) > _MAX_DEPTH:
        raise ValueError(f"a value in {containers}")
    donated = None if donated is None else _count(donated)
    any_rank, keys = _flag(value.get("any_rank", False)), tuple(_list(value.get("keys", [])))
    if keys and ({type(key) for key in keys} not in ({int}, {str}) or len(dims) != 2 or dims[1] != len(keys)):
        raise ValueError(f"a value with the keys {keys}")
    return ValueSpec(_text(value["name"]), dtype, dims, donated, containers, any_rank, keys)


def _signature(value: Any) -> Signature:
    inputs = tuple(map(_value_spec, _list(value["inputs"])))
    outputs = tuple(map(_value_spec, _list(value["outputs"])))
    for spec in inputs:
        if spec.donated_to is not None and spec.donated_to >= len(outputs):
            raise ValueError(f"input '{spec.name}' is donated to output {spec.donated_to}, which does not exist")
    defaults = tuple(map(_text, _list(value.get("defaults", []))))
    return Signature(inputs, outputs, _flag(value["random_state"]), defaults)


def _kernel(value: Any) -> KernelInfo:
    flops, bytes_ = sizes.parse(_text(value["flops"])).text, sizes.parse(_text(value["bytes"])).text
    sources, reads = tuple(map(_text, _list(value["sources"]))), tuple(map(_count, _list(value["reads"])))
    return KernelInfo(_text(value["name"]), _text(value["kind"]), sources, flops, bytes_, reads, _count(value["step"]))


def _constant(value: Any, section: memoryview) -> Constant:
    offset, length, dtype = _count(value["offset"]), _count(value["bytes"]), _text(value["dtype"])
    shape = tuple(map(_count, _list(value["shape"])))
    if offset % CONSTANT_ALIGNMENT or offset > section.nbytes or length > section.nbytes - offset:
        raise ValueError(f"a constant of {length} bytes at offset {offset} of {section.nbytes}")
    if dtype == "string":
        strings.unpack(section[offset : offset + length], shape)
    elif length != math.prod(shape) * numpy_dtype(dtype).itemsize:
        raise ValueError(f"a constant of type {dtype} and shape {shape} in {length} bytes")
    return Constant(dtype, shape, section[offset : offset + length])


def _constants(values: list[Any], section: memoryview, check: bool) -> tuple[Constant, ...]:
    found = tuple(_constant(value, section) for value in values)
    if not check:
        return found
    for constant, value, checksum in zip(found, values, checksums([c.data for c in found]), strict=True):
        if checksum != value["checksum"]:
            raise ValueError(f"a constant of type {constant.dtype} and shape {constant.shape} whose bytes are damaged")
    return found


def _part(section: memoryview, offset: int, length: int) -> memoryview:
    if offset % CODE_ALIGNMENT or offset > section.nbytes or length > section.nbytes - offset:
        raise ValueError(f"{length} bytes of code at {offset} of {section.nbytes}")
    return section[offset : offset + length]


def _target(value: Any) -> Target:
    features = tuple(map(_text, _list(value["features"])))
    return Target(_text(value["triple"]), features, _text(value["gpu"]), _text(value["architecture"]))


def _image(value: Any, code: memoryview) -> KernelImage:
    data = _part(code, _count(value["offset"]), _count(value["bytes"]))
    early = _count(value.get("early", 0)) != 0
    return KernelImage(_text(value["name"]), data, _count(value["shared"]), _count(value["threads"]), early)


def _library(value: Any, code: memoryview) -> Library:
    data = _part(code, _count(value["offset"]), _count(value["bytes"]))
    return Library(_text(value["symbol"]), _text(value["op"]), data)


def described(header: Any) -> tuple[Target, Signature, tuple[str, ...]]:
    """The target and the signature of a program from its header, and the versions that made it."""
    return (
        _target(header["target"]),
        _signature(header["signature"]),
        tuple(map(_text, _list(header.get("made_by", [])))),
    )


def decode(header: Any, code: memoryview, constants: memoryview, check: bool = True) -> Artefact:
    """A program from its header and the file's sections. check: verify the checksums of constants."""
    if header["buffers"] and len(header["buffers"]) != len(header["live_ranges"]):
        raise ValueError("as many buffers as live ranges are wanted")
    return Artefact(
        signature=_signature(header["signature"]),
        target=_target(header["target"]),
        code=_part(code, _count(header["code"]["offset"]), _count(header["code"]["bytes"])),
        images=tuple(_image(value, code) for value in _list(header["images"])),
        libraries=tuple(_library(value, code) for value in _list(header.get("libraries", []))),
        constants=_constants(_list(header["constants"]), constants, check),
        live_ranges=tuple((_count(first), _count(last)) for first, last in map(_list, _list(header["live_ranges"]))),
        buffers=tuple(sizes.parse(_text(size)).text for size in _list(header["buffers"])),
        kernels=tuple(map(_kernel, _list(header["kernels"]))),
        sites=tuple(map(_text, _list(header["sites"]))),
        entry=_text(header["entry"]),
        burn_version=_text(header["burn_version"]),
        made_by=tuple(map(_text, _list(header.get("made_by", [])))),
    )
