"""What the code generator knows of a CPU: vector width, registers, and the names LLVM calls it by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One kind of CPU. `features` are those a program compiled for it needs (as the runtime's `cpu_features` names them);
    `small` asks for short code rather than fast code (brief.py)."""

    name: str
    llvm_cpu: str
    vector_bytes: int
    vector_registers: int
    features: tuple[str, ...] = ()
    small: bool = False

    @property
    def tiles(self) -> bool:
        """Whether there are tile registers, and multiply-adds of bfloat16 on them (tiles.py)."""
        return "amx-bf16" in self.features

    def lanes(self, element_bytes: int) -> int:
        return max(1, self.vector_bytes // element_bytes)

    @property
    def attributes(self) -> str:
        """LLVM function attributes: generate for exactly this CPU, and use its whole vectors.

        The features are written out because LLVM takes those of the compiling machine where a function names none."""
        bits = 8 * self.vector_bytes
        width = f'["prefer-vector-width", "{bits}"], ["min-legal-vector-width", "{bits}"]'
        features = ", ".join(f'"+{name}"' for name in ("sse2", *self.features))
        size = ', "optsize"' if self.small else ""
        return (
            f'target_cpu = "{self.llvm_cpu}", target_features = #llvm.target_features<[{features}]>, '
            f'passthrough = [{width}, "nounwind", "noinline"{size}]'
        )


_V3 = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
"""What the psABI's level x86-64-v3 adds."""

_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
"""And what x86-64-v4 adds to that."""

TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target("amx", "x86-64-v4", 64, 32, (*_V4, "avx512bf16", "amx-tile", "amx-bf16")),
        Target("avx512", "x86-64-v4", 64, 32, _V4),
        Target("avx2", "x86-64-v3", 32, 16, _V3),
        Target("generic", "x86-64", 16, 16, ()),
    )
}


def host_target(features: frozenset[str]) -> Target:
    """The widest target whose features this CPU has."""
    return next(t for t in TARGETS.values() if set(t.features) <= features)
