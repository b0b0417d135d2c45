"""Tables of 32 float32 numbers in two registers, from which one instruction of AVX-512 takes a number for each lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burn.codegen.cpu.lanes import Lanes
from burn.codegen.host.emit import Function, Value, element_of, vector

LANES = 16
NUMBERS = 2 * LANES


def looks_up(x: Lanes) -> bool:
    """True if the CPU has the instruction and the lanes fit in one vector."""
    return has_tables(x.code) and LANES % x.lanes == 0


def has_tables(code: Function) -> bool:
    """True if the CPU has the instruction."""
    return "+avx512f" in code.attributes


def taken(code: Function, index: Value, registers: Sequence[Value]) -> Value:
    """For 16 lanes of i32, the number with that index in one or two registers of 16 numbers."""
    type_ = vector(LANES, "f32")
    if len(registers) == 1:
        call = f'llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"({registers[0]}, {index})'
        return code.pure(f"{call} : ({type_}, {index.type}) -> {type_}", type_)
    low, high = registers
    call = f'llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.ps.512"({low}, {index}, {high})'
    return code.pure(f"{call} : ({type_}, {index.type}, {type_}) -> {type_}", type_)


def looked_up(index: Lanes, numbers: Sequence[float]) -> Lanes:
    """numbers[index % 32] for 16 lanes of i32."""
    assert index.lanes == LANES and len(numbers) == NUMBERS
    code, type_ = index.code, vector(LANES, "f32")
    registers = [code.const(str(list(half)), type_) for half in (numbers[:LANES], numbers[LANES:])]
    return index.wrap(taken(code, index.value, registers))


def on_whole_vectors(x: Lanes, function: Callable[[Lanes], Lanes]) -> Lanes:
    """A function of 16 lanes for fewer of them: their number does not change a result."""
    if x.lanes == LANES:
        return function(x)
    code, whole = x.code, vector(LANES, x.element)
    if x.lanes == 1:
        spread = code.splat(x.value, LANES)
        result = function(x.wrap(spread)).value
        return x.wrap(code.pure(f"vector.extract {result}[0] : {x.element} from {whole}", x.type))
    repeated = [lane % x.lanes for lane in range(LANES)]
    spread = code.pure(f"vector.shuffle {x.value}, {x.value} {repeated} : {x.type}, {x.type}", whole)
    result = function(x.wrap(spread)).value
    kept, type_ = list(range(x.lanes)), vector(x.lanes, element_of(result.type))
    return Lanes(code, code.pure(f"vector.shuffle {result}, {result} {kept} : {result.type}, {result.type}", type_))
