"""The head of every kernel's function: loads addresses and sizes from its arguments, and lays out scratch memory."""

from __future__ import annotations

from collections.abc import Sequence

from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import PTR, Function, Int, Value
from burn.dialect.types import DTYPES
from burn.kernels.body import Buffer


def open_kernel(
    buffers: Sequence[Buffer], sizes: Sequence[str], target: Target, sites: list[str]
) -> tuple[Function, ScalarEmitter]:
    """The function's head: addresses and sizes read from `args`, scratch memory laid out."""
    arguments = [("worker", PTR), ("args", PTR), ("begin", "i64"), ("end", "i64")]
    code = Function(
        "KERNEL", arguments, "", target.attributes, True, target.soft_float16, target.native_bfloat16, target.x86_bits
    )
    worker, args = code.arguments[:2]
    passed = [i for i, b in enumerate(buffers) if b.access != "scratch"]
    values = {name: code.argument(args, len(passed) + i) for i, name in enumerate(sizes)}
    pointers: dict[int, Value] = {i: code.argument(args, word, PTR) for word, i in enumerate(passed)}
    emitter = ScalarEmitter(code, buffers, [], values, worker, sites)
    offset: Int = 0
    offsets: dict[int, Int] = {}
    for i, buffer in enumerate(buffers):
        if buffer.access == "scratch":
            offsets[i] = offset
            size = code.mul(emitter.dim(buffer.elements), DTYPES[buffer.dtype].size)
            offset = code.add(offset, code.mul(code.udiv(code.add(size, 63 + 64), 64), 64))
    if offsets:
        base = scratch(code, worker, offset)
        pointers |= {i: code.gep(base, at, "i8") for i, at in offsets.items()}
    emitter.pointers = [pointers[i] for i in range(len(buffers))]
    return code, emitter


def scratch(code: Function, worker: Value, size: Int) -> Value:
    """A kernel's scratch memory; the kernel returns if none is left."""
    memory = code.call("burn_rt_scratch", [worker, code.value(size)], PTR)
    assert memory is not None
    code.return_if(code.is_null(memory))
    return memory
