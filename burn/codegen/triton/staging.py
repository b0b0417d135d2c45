"""Shared memory of a kernel's own, behind Triton's: bulk copies of constants to it, loads and stores. PTX for Gluon.

A program can issue copies before the kernel before it has ended (`early.py`). They take no registers, and one thread issues them
all. Triton's allocator leaves this memory alone: a launch adds it to Triton's, and it is at the end.
Source: PTX ISA 8.8, "cp.async.bulk" and "mbarrier".
"""

from __future__ import annotations

from collections.abc import Sequence

ALIGNMENT = 128
"""The memory's address and size in bytes are multiples of this."""

BARRIER = 16
"""Bytes of a barrier, with padding."""

FIRST = ".reg .pred p; .reg .b32 t; mov.u32 t, %tid.x; setp.eq.u32 p, t, 0;"
"""Sets p in the first thread."""


def _inline(text: str, constraints: str, operands: str, dtype: str = "tl.int32", pack: int = 1) -> str:
    return (
        f'tl.inline_asm_elementwise("{text}", "{constraints}", [{operands}], dtype={dtype}, is_pure=False, pack={pack})'
    )


def memory(bytes_: int) -> list[str]:
    """Lines that define `memory`: the address of so many bytes, as int32. `global_smem` is Triton's name for the beginning of its
    own memory. Only kernels that use that memory have it."""
    text = "{ .reg .b32 n; .reg .b32 s; mov.u32 n, %dynamic_smem_size; mov.u32 s, global_smem; add.u32 n, n, s; "
    return [
        "triton_memory = tl.allocate_shared_memory(tl.int32, [32], tl.SwizzledSharedLayout(1, 1, 1, [0]))",
        "triton_memory.store(tl.arange(0, 32, tl.BlockedLayout([1], [32], [WARPS], [0])))",
        f"memory = {_inline(f'{text}sub.u32 $0, n, {bytes_}; }}', '=r', '')}",
    ]


def barrier(address: str, bytes_: int) -> str:
    """Makes a barrier, which waits for that many copied bytes."""
    text = (
        f"{{ {FIRST} @p mbarrier.init.shared.b64 [$1], 1; @p fence.mbarrier_init.release.cluster; "
        f"@p mbarrier.arrive.expect_tx.shared.b64 _, [$1], {bytes_}; mov.b32 $0, 0; }}"
    )
    return _inline(text, "=r,r", address)


def copy(to: str, pointer: str, bytes_: int, barrier: str) -> str:
    """Copies bytes from global memory. Addresses and number are multiples of 16."""
    text = (
        f"{{ {FIRST} @p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$1], [$2], {bytes_}, [$3]; "
        "mov.b32 $0, 0; }"
    )
    return _inline(text, "=r,r,l,r", f"{to}, ({pointer}).to(tl.int64), {barrier}")


def wait(barrier: str) -> str:
    """Waits for the copies. All threads have met since the barrier was made (`meet`)."""
    text = "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [$1], 0; @!p bra AGAIN; mov.b32 $0, 0; }"
    return _inline(text, "=r,r", barrier)


def meet() -> str:
    """All threads of the program wait for each other, and see each other's stores."""
    return _inline("bar.sync 0; // $0", "=r", "")


def load(addresses: str, dtypes: Sequence[str], bits: int, offsets: Sequence[int]) -> str:
    """Loads 16 bytes at each offset from an address, in order, to tensors of elements of so many bits. A thread has four adjacent
    elements of each tensor, and loads from the address of the first one."""
    registers = len(dtypes) * 4 * bits // 32
    assert registers == 4 * len(offsets)
    lines = [
        f"ld.shared.v4.b32 {{{', '.join(f'${4 * n + i}' for i in range(4))}}}, [${registers}+{offset}];"
        for n, offset in enumerate(offsets)
    ]
    kinds = dtypes[0] if len(dtypes) == 1 else f"({', '.join(dtypes)})"
    constraints = ",".join(["=r"] * registers + ["r"] * 4)
    return _inline(" ".join(lines), constraints, addresses, kinds, 4)


def load_each(addresses: str, dtype: str, bits: int) -> str:
    """Loads an element from each address."""
    kind = "=h" if bits == 16 else "=f"
    return _inline(f"ld.shared.b{bits} $0, [$1];", f"{kind},r", addresses, dtype)


def load_pairs(addresses: str, dtype: str, repeated: bool) -> str:
    """Loads two adjacent floats of 16 bits at once. The addresses are those of single elements: pairs, or with `repeated` each
    twice."""
    if repeated:
        text = "{ .reg .b32 s; ld.shared.b32 s, [$2]; prmt.b32 $0, s, s, 0x1010; prmt.b32 $1, s, s, 0x3232; }"
        return _inline(text, "=r,=r,r,r,r,r", addresses, dtype, 4)
    return _inline("ld.shared.b32 $0, [$1];", "=r,r,r", addresses, dtype, 2)


def store(addresses: str, values: str, number: str = "", count: int = 0) -> str:
    """Stores a thread's eight adjacent floats of 16 bits at the address of the first one if its number is less than the count."""
    text = "st.shared.v4.b32 [$6], {$2, $3, $4, $5};"
    constraints = ["=r"] * 2 + ["r"] * 12
    if number:
        text = f"{{ .reg .pred p; setp.lt.s32 p, $14, {count}; @p {text} }}"
        constraints += ["r"] * 8
    operands = ", ".join(filter(None, (values, addresses, number)))
    return _inline(f"{text} // $0 $1", ",".join(constraints), operands, "tl.int8", 8)


def store_sums(addresses: str, values: str, pairs: bool, only: str = "") -> str:
    """Adds a thread's four adjacent floats in two pairs. Stores a sum at the address of the first float, and one 32 bytes behind.
    pairs: adjacent floats are a pair, else those two apart. only: an index, which is 0 in the threads that store."""
    first, second = (("$1, $2"), ("$3, $4")) if pairs else (("$1, $3"), ("$2, $4"))
    on = "@p " if only else ""
    lines = [".reg .pred p; .reg .f32 a; .reg .f32 b;", f"add.f32 a, {first};", f"add.f32 b, {second};"]
    lines += ["setp.eq.s32 p, $9, 0;"] if only else []
    lines += [f"{on}st.shared.b32 [$5], a;", f"{on}st.shared.b32 [$5+32], b;"]
    constraints = ",".join(["=r"] + ["f"] * 4 + ["r"] * (8 if only else 4))
    text = f"{{ {' '.join(lines)} }} // $0"
    return _inline(text, constraints, ", ".join(filter(None, (values, addresses, only))), "tl.int8", 4)


def load_sum(addresses: str, count: int, stride: int, size: int) -> str:
    """The sum of so many floats at each address, `stride` bytes apart. Threads from number `size` on load nothing."""
    lines = [
        ".reg .pred p; .reg .b32 t; .reg .f32 a; mov.u32 t, %tid.x;",
        f"setp.lt.u32 p, t, {size};",
        "mov.f32 $0, 0f00000000;",
    ]
    for number in range(count):
        lines += [f"@p ld.shared.f32 a, [$1+{number * stride}];", "@p add.f32 $0, $0, a;"]
    return _inline(f"{{ {' '.join(lines)} }}", "=&f,r", addresses, "tl.float32")
