"""Benchmark programs that only multiply and add in registers, or only read and write memory: the peak throughput of
this CPU.

The roofline report compares kernels with it (burn/bench/roofline.py). `arithmetic` and `traffic` are the entry points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burn.codegen.cpu.matmul.amx_instructions import configure, tile
from burn.codegen.cpu.matmul.bf16_split import PART_PAIRS
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import PTR, Function, Value, vector
from burn.codegen.host.object import ENTRY, compile_object
from burn.dialect.mlir import context

STEPS = 2048
"""Iterations of the loop in a kernel."""

SPARE = 8
"""Vector registers that do not hold accumulators."""


@dataclass(frozen=True)
class Arithmetic:
    """A program without inputs or outputs, whose one kernel performs a number of float32 multiplications and additions."""

    name: str
    code: bytes
    flops: int


def arithmetic(target: Target, iterations: int) -> list[Arithmetic]:
    """The matmul instructions of a CPU, each as one launch of `iterations` iterations on one core."""
    found = [chains(target, target.vector_registers - SPARE, iterations)]
    if target.tiles:
        found.append(_program("tiles", _tiles, target, iterations, len(PART_PAIRS)))
    return found


def chains(target: Target, sums: int, iterations: int) -> Arithmetic:
    """Multiply-adds into `sums` vectors: so many chains of dependent instructions."""
    return _program("vectors", lambda code, target: _vectors(code, target, sums), target, iterations, 1)


def _program(
    name: str, write: Callable[[Function, Target], int], target: Target, iterations: int, per_result: int
) -> Arithmetic:
    """write: prints an iteration, and returns its operations; so many of them make one multiplication or addition of float32."""
    kernel = _kernel("peak", target)
    each = write(kernel, target)
    kernel.return_()
    entry = Function(ENTRY, [("run", PTR)], "i32")
    _launch(entry, 0, kernel, entry.arguments[0], iterations)
    entry.return_(entry.call("burn_rt_status", [entry.arguments[0]], "i32"))
    with context():
        code = compile_object([kernel.text(), entry.text()])
    return Arithmetic(name, code, each * iterations // per_result)


def traffic(target: Target, chunks: int, size: int, times: int) -> bytes:
    """A program whose kernel 0 reads and writes `chunks` pieces of `size` bytes (a multiple of 4,096), each on one core
    and `times` times; kernel 1 only reads them."""
    lanes, unroll = target.lanes(4), 8
    type_ = vector(lanes, "f32")
    kernels = []
    for name in ("update", "read"):
        code = _kernel(name, target)
        worker, args, begin, end = code.arguments
        base = code.argument(args, 0, PTR)
        with code.for_(begin, end) as chunk, code.for_(0, times):
            zeros: list[Value] = [code.const(0.0, type_)] * unroll
            first = code.mul(chunk.iv, size // 4)
            with code.for_(0, size // 4, unroll * lanes, zeros) as loop:
                at = code.add(first, loop.iv)
                read = [code.load(base, code.add(at, i * lanes), type_) for i in range(unroll)]
                sums = [code.op("arith.addf", a, b) for a, b in zip(loop.carried, read, strict=True)]
                for i, x in enumerate(read if name == "update" else []):
                    code.store(code.op("arith.addf", x, code.const(1.0, type_)), base, code.add(at, i * lanes))
                loop.yield_(*sums)
            for i, total in enumerate(loop.results):
                code.store(total, _scratch(code, worker), i * lanes)
        code.return_()
        kernels.append(code)
    entry = Function(ENTRY, [("run", PTR)], "i32")
    run = entry.arguments[0]
    memory = entry.call("burn_rt_alloc", [run, entry.const(chunks * size)], PTR)
    assert memory is not None
    words = entry.alloca(1, "i64")
    entry.store(memory, words, 0)
    for number, kernel in enumerate(kernels):
        _launch(entry, number, kernel, words, chunks)
    entry.return_(entry.call("burn_rt_status", [run], "i32"))
    with context():
        return compile_object([*(kernel.text() for kernel in kernels), entry.text()])


def _kernel(name: str, target: Target) -> Function:
    arguments = [("worker", PTR), ("args", PTR), ("begin", "i64"), ("end", "i64")]
    return Function(name, arguments, attributes=target.attributes, internal=True)


def _launch(entry: Function, number: int, kernel: Function, words: Value, count: int) -> None:
    function = entry.raw(f"llvm.mlir.addressof @{kernel.name} : {PTR}", PTR)
    operands = [entry.const(number), function, words, entry.const(count), entry.const(1)]
    entry.call("burn_rt_launch", [entry.arguments[0], *operands], "i32")


def _vectors(code: Function, target: Target, sums: int) -> int:
    """Fused multiply-adds into so many accumulators."""
    worker, _, begin, end = code.arguments
    lanes = target.lanes(4)
    type_ = vector(lanes, "f32")
    by, plus = code.const(0.5, type_), code.const(1.0, type_)
    with code.for_(begin, end):
        first: list[Value] = [code.const(float(i), type_) for i in range(sums)]
        with code.for_(0, STEPS, carried=first) as step:
            step.yield_(*(_multiply_add(code, x, by, plus, target) for x in step.carried))
        total = step.results[0]
        for x in step.results[1:]:
            total = code.op("arith.addf", total, x)
        code.store(total, _scratch(code, worker), 0)
    return 2 * lanes * sums * STEPS


def _multiply_add(code: Function, x: Value, by: Value, plus: Value, target: Target) -> Value:
    if target.architecture != "x86_64" or "fma" in target.features:
        return code.op("math.fma", x, by, plus)
    return code.op("arith.addf", code.op("arith.mulf", x, by), plus)


def _tiles(code: Function, target: Target) -> int:
    """Multiplies two registers of bfloat16 into four accumulators."""
    worker, _, begin, end = code.arguments
    configure(code)
    for number in range(8):
        tile(code, "tilezero", number)
    with code.for_(begin, end), code.for_(0, STEPS):
        for number in range(4):
            tile(code, "tdpbf16ps", number, 4 + number // 2, 6 + number % 2)
    tile(code, "tilestored64", 0, _scratch(code, worker), code.const(64))
    tile(code, "tilerelease")
    return 4 * 2 * 16 * 16 * 32 * STEPS


def _scratch(code: Function, worker: Value) -> Value:
    found = code.call("burn_rt_scratch", [worker, code.const(1024)], PTR)
    assert found is not None
    return found
