"""This process on an older CPU: cpuid hides newer features from engines (cpuid.c).

    with seen_as("avx2"):
        run = load()  # queries the CPU, and finds no AVX-512

ONNX Runtime, OpenVINO and PyTorch choose their kernels by the instruction `cpuid`, and have no settings for it, or
some for a part. So they can be timed against burn's code for an older CPU on a newer one, as they would run there. Caches,
memory and the clock stay the machine's own. On Linux some CPUs and virtual machines let the kernel intercept the instruction.
Otherwise ONNX Runtime and OpenVINO are imported as copies without it (patched.py), and PyTorch has its settings alone.

LLVM replaces signal handlers while it compiles, so burn's programs are compiled before.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from burn.errors import BurnError
from burn.runtime.cache import Cache
from older.patched import copied

BITS: dict[str, tuple[tuple[int, int, str, tuple[int, ...]], ...]] = {
    "avx2": (
        (7, 0, "ebx", (16, 17, 21, 26, 27, 28, 30, 31)),  # AVX-512 F, DQ, IFMA, PF, ER, CD, BW, VL
        (7, 0, "ecx", (1, 6, 11, 12, 14)),  # AVX-512 VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
        (
            7,
            0,
            "edx",
            (2, 3, 8, 22, 23, 24, 25),
        ),  # more of AVX-512; AMX's bfloat16, AVX-512's float16, AMX's tiles and int8
        (7, 1, "eax", (4, 5, 21, 22, 23)),  # AVX-VNNI, AVX-512's bfloat16, AMX's float16, AVX-IFMA
        (7, 1, "edx", (4, 5, 8, 10, 19)),  # AVX-VNNI's other types, AMX's complex numbers, AVX10
    ),
}
"""By target: leaf, part of it, register and bits that such a CPU has not. Source: Intel's Software Developer's Manual, volume 2A,
CPUID."""

SETTINGS = {"avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}}
"""By target: PyTorch also reads what the kernel tells of the CPU, unless its environment says what to take."""

COPIED = ("onnxruntime", "openvino")
"""Packages that are copied if the kernel cannot intercept the instruction. No setting restricts all their kernels."""

REGISTERS = ("eax", "ebx", "ecx", "edx")


class _Hidden(ctypes.Structure):
    _fields_ = (("leaf", ctypes.c_uint32), ("part", ctypes.c_uint32), ("registers", ctypes.c_uint32 * 4))


@contextmanager
def seen_as(target: str) -> Iterator[None]:
    """Inside, this thread and those that it starts ask another CPU. Engines remember what they were told, and their threads go
    on asking that one. The first use may copy packages into the cache's folder, which takes a minute. Raises BurnError where
    that cannot be."""
    rows = [
        _Hidden(leaf, part, (ctypes.c_uint32 * 4)(*(sum(1 << b for b in bits) * (name == r) for r in REGISTERS)))
        for leaf, part, name, bits in BITS[target]
    ]
    library = _library()
    faulting = library.hide((_Hidden * len(rows))(*rows), len(rows))
    if faulting < 0:
        raise BurnError(f"this machine cannot appear to be {target}", ["it does not let a process handle faults"])
    if not faulting:
        folder = Cache.from_environment().directory / "older"
        copied(COPIED, folder)
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))  # it stays: packages import parts of themselves later
    before = {name: os.environ.get(name) for name in SETTINGS[target]}
    os.environ |= SETTINGS[target]
    try:
        yield
    finally:
        library.show()
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


@functools.cache
def _library() -> ctypes.CDLL:
    source = Path(__file__).with_name("cpuid.c")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "cpuid.so"
        done = subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(made)], capture_output=True, text=True
        )
        if done.returncode:
            raise BurnError("cpuid.c does not compile here", done.stderr.splitlines())
        return ctypes.CDLL(str(made))
