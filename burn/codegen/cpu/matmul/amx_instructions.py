"""AMX instructions: tile configuration, tile operations, padding between them."""

from __future__ import annotations

from burn.codegen.host.emit import Function, Value


def configure(code: Function) -> None:
    """Configures tile registers as 16 rows of 64 bytes."""
    shape = code.alloca(8, "i64")
    columns, rows = 64 * 0x0001000100010001, 16 * 0x0101010101010101
    for word, value in enumerate((1, 0, columns, columns, 0, 0, rows, 0)):
        code.store(code.const(value), shape, word)
    tile(code, "ldtilecfg", shape)


def tile(code: Function, name: str, *operands: Value | int) -> None:
    """An instruction; ints are numbers of tile registers."""
    values = [code.const(o, "i8") if isinstance(o, int) else o for o in operands]
    types = ", ".join(v.type for v in values)
    code.line(f'llvm.call_intrinsic "llvm.x86.{name}"({", ".join(map(str, values))}) : ({types}) -> ()')


def pad(code: Function, count: int, known: Value | None = None) -> None:
    """Inserts `count` no-ops between tile instructions, after the vector `known` is computed."""
    nothing = r"\0A".join(["nop"] * count)
    constraint, operand, type_ = ("v", f" {known}", known.type) if known is not None else ("", "", "")
    code.line(f'llvm.inline_asm has_side_effects "{nothing}", "{constraint}"{operand} : ({type_}) -> ()')
