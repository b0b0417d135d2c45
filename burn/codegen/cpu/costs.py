"""Costs of a CPU: the numbers of a machine by which heuristics decide. They change the speed of code, not its meaning.

`Costs` lists them, with the bounds of valid values. Each kind of CPU in `TARGETS` has defaults, from machines that were measured.
`burn tune-machine` measures a machine's own (burn/bench/machine), and `measured` finds them for compilations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from burn.errors import CompileError


def _cost(default: int, least: int, most: int, about: str, allowed: Sequence[int] = ()) -> Any:
    """A field. least, most: bounds of valid values. allowed: the valid values if not all between the bounds are."""
    return field(default=default, metadata={"least": least, "most": most, "about": about, "allowed": tuple(allowed)})


_POWERS = tuple(1 << n for n in range(31))


@dataclass(frozen=True)
class Costs:
    """Costs of a CPU. The field's texts state meaning and unit; the defaults are those of CPUs with 16 vector registers and
    fused multiply-adds (AVX2).

    Values from outside (`of`) are checked against the bounds. Every value within them gives correct code."""

    grain: int = _cost(
        16384, 256, 1 << 24, "scalar operations below which a range of iterations is not worth another thread"
    )
    chunk: int = _cost(2048, 64, 1 << 20, "elements of a vectorised loop in one iteration of a launch", _POWERS)
    expensive: int = _cost(16, 2, 256, "scalar operations that take as long as exp, erf or another expensive function")
    chains: int = _cost(8, 1, 16, "independent accumulators that keep the multiply-add units busy: latency times units")
    panel_vectors: int = _cost(2, 1, 4, "the most vectors of a matmul's panel")
    tile_rows: int = _cost(8, 1, 12, "the most rows of a matmul's register tile; registers may limit them further")
    unroll: int = _cost(4, 1, 8, "unrolled iterations of a matmul's loop over the depth", (1, 2, 4, 8))
    l2_block: int = _cost(
        384 << 10,
        16 << 10,
        64 << 20,
        "bytes of a matmul's lhs that stay in the second-level cache while panels are read",
    )
    depth_part: int = _cost(1024, 256, 16384, "the depth that a matmul's tile accumulates at a time", _POWERS)
    streams: int = _cost(
        8,
        1,
        64,
        "rows of a matrix in memory that a kernel reads at a time: hardware prefetchers follow about so many, and lines of rows "
        "that are a power of two apart share the ways of a first-level cache's set",
    )
    held: int = _cost(
        1 << 20, 64 << 10, 64 << 20, "bytes that a thread keeps in the second-level cache between two loops of a kernel"
    )
    copied_tiles: int = _cost(4, 1, 64, "tiles of rows from which copying an unpacked panel pays")
    attention_rows: int = _cost(64, 8, 256, "rows that share a block of keys in attention")
    attention_keys: int = _cost(128, 16, 512, "keys of a block in attention")
    group_depth: int = _cost(
        40, 0, 256, "the depth up to which windows are faster than a matmul for groups of one vector of channels"
    )
    group_wide_depth: int = _cost(24, 0, 256, "the same for groups of several whole vectors of channels")
    few_rows: int = _cost(8, 1, 32, "rows up to which weights of a few bits are converted when they are multiplied")
    limb_rows: int = _cost(3, 0, 64, "rows up to which weights of a few bits are multiplied as int8 limbs")
    winograd_element: int = _cost(
        24, 1, 1000, "multiplications and additions that take as long as moving a transformed element through memory"
    )
    winograd_cached: int = _cost(10, 1, 1000, "the same through caches")
    winograd_constant: int = _cost(20, 1, 1000, "the same for reading an element of a constant filter")
    winograd_cache: int = _cost(
        8 << 20,
        0,
        1 << 30,
        "bytes of transformed elements that caches hold: those of two cores, and a part of the shared one",
    )
    channels_first: int = _cost(
        96,
        0,
        10_000,
        "multiplications of convolutions of one tap, for each element that channels-last images would copy, up to which images "
        "stay channels-first; 0 for none",
    )
    channels_first_moved: int = _cost(
        48,
        0,
        10_000,
        "multiplications that take as long as writing and reading an element of a channels-first image between such "
        "convolutions, if the second-level cache does not hold it",
    )
    amx_rows: int = _cost(64, 32, 4096, "rows from which tile registers are faster than vectors")
    amx_columns: int = _cost(128, 32, 4096, "columns from which tile registers are faster than vectors")
    amx_depth: int = _cost(128, 32, 4096, "depth from which tile registers are faster than vectors")
    amx_part: int = _cost(
        768,
        64,
        8192,
        "the depth that tile registers accumulate at a time: two panels are 384 bytes for each element of it",
    )
    amx_block: int = _cost(
        640 << 10, 64 << 10, 64 << 20, "bytes of a block of rows copied for tile registers, in the second-level cache"
    )
    amx_space: int = _cost(
        10,
        0,
        64,
        "instructions after a tile instruction, so that it does not wait while the core's sibling thread is busy",
    )
    amx_vectors: int = _cost(
        12, 1, 100, "time of vectors for a strip and a panel, if tile registers need 10 and copying one of them 11"
    )
    amx_memory: int = _cost(8, 0, 100, "the same that is added with up to `amx_threads` threads, which wait for memory")
    amx_threads: int = _cost(3, 0, 1024, "threads up to which tile registers run at full speed")

    @staticmethod
    def of(given: Mapping[str, object]) -> dict[str, int]:
        """The fields in values from outside. Raises CompileError, with all problems, for an unknown name, and for a value that
        is no number or out of bounds."""
        problems = [text for name, value in given.items() if (text := _problem(name, value))]
        if problems:
            raise CompileError("costs of a CPU are not valid", problems)
        return {name: value for name, value in given.items() if isinstance(value, int)}

    def changed(self, given: Mapping[str, object]) -> Costs:
        """These costs with values from outside in place of some. Raises as `of`."""
        return replace(self, **self.of(given))


FIELDS: Mapping[str, Field[int]] = {each.name: each for each in fields(Costs)}
"""The fields of `Costs` by name. Their metadata has `least`, `most`, `allowed` and the text `about`."""


def _problem(name: str, value: object) -> str:
    """The reason why a value from outside is not valid; "" if it is."""
    known = FIELDS.get(name)
    if known is None:
        return f"there is no cost '{name}'"
    if not isinstance(value, int) or isinstance(value, bool):
        return f"{name} is no whole number"
    least, most, allowed = (known.metadata[key] for key in ("least", "most", "allowed"))
    if not least <= value <= most:
        return f"{name} is {value}, which is not between {least} and {most}"
    return f"{name} is {value}, which is no power of two" if allowed and value not in allowed else ""


FUSED = Costs()
"""16 vector registers and fused multiply-adds. Measured on AMD Zen 3 and 4 as AVX2, and on Intel Xeon as AVX2."""

WIDE = replace(FUSED, panel_vectors=4, limb_rows=16, winograd_element=48, winograd_cached=20, winograd_constant=40)
"""AVX-512, measured on AMD Zen 4 and 5 and on Intel Xeon. A core that multiplies more elements at once moves no more from
its shared cache."""

PAIRS = replace(WIDE, attention_keys=512, winograd_cache=16 << 20)
"""AVX-512 with instructions of bfloat16, measured on AMD Zen 5 alone. The keys and values of a block are 128 KiB with heads of 64
elements in bfloat16, an eighth of its second-level cache. Winograd's cache is half of the 32 MiB that cores share: machines with
less per core should be measured."""

TILES = replace(WIDE, winograd_cached=48, winograd_cache=0)
"""AMX, measured on Intel Xeon with 2 MiB of second-level cache."""

MANY_REGISTERS = replace(FUSED, panel_vectors=4, limb_rows=16)
"""32 vector registers of 16 bytes: RISC-V's vectors. Not measured. A core multiplies as many elements at once as with eight
lanes, because it has two or four units."""

NEON = replace(MANY_REGISTERS, unroll=8, expensive=31)
"""NEON, counted in LLVM's models of Neoverse N1, Cortex-A72 and Apple M1 (`burn tune-machine --target neon`). With four unrolled
iterations a multiply-add takes 1.19 cycles on the first two and 0.48 on the third; with eight, 1.02 and 0.36."""

SCALAR = replace(MANY_REGISTERS, panel_vectors=2)
"""Without vectors. Not measured."""

NARROW = replace(
    FUSED, winograd_element=4, winograd_cached=4, winograd_constant=8, winograd_cache=0, channels_first_moved=8
)
"""Vectors of four floats with separate multiply and add (SSE2, WebAssembly). At best a core performs twelve operations at once
instead of 64, while moving a vector of a tile takes as many instructions as elsewhere. `channels_first_moved` is not measured: it
is less than that of `FUSED` by the same factor as `winograd_element`."""
