"""Tables of 32 float32 numbers in two registers, from which one instruction of AVX-512 takes a number for each lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burn.codegen.cpu.lanes import Lanes
from burn.codegen.host.emit import vector

LANES = 16
NUMBERS = 2 * LANES


def looks_up(x: Lanes) -> bool:
    """True if the CPU has the instruction and the lanes fit in one vector."""
    return "+avx512f" in x.code.attributes and LANES % x.lanes == 0


def looked_up(index: Lanes, numbers: Sequence[float]) -> Lanes:
    """numbers[index % 32] for 16 lanes of i32."""
    assert index.lanes == LANES and len(numbers) == NUMBERS
    code, type_ = index.code, vector(LANES, "f32")
    low, high = (code.const(str(list(half)), type_) for half in (numbers[:LANES], numbers[LANES:]))
    call = f'llvm.call_intrinsic "llvm.x86.avx512.vpermi2var.ps.512"({low}, {index.value}, {high})'
    return index.wrap(code.pure(f"{call} : ({type_}, {index.type}, {type_}) -> {type_}", type_))


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
    kept = list(range(x.lanes))
    return x.wrap(code.pure(f"vector.shuffle {result}, {result} {kept} : {whole}, {whole}", x.type))
