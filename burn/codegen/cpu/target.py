"""CPU targets: vector width, registers, and LLVM's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from burn.codegen.cpu import costs
from burn.codegen.cpu.costs import Costs
from burn.errors import CompileError, Problem, TypeMismatch, near
from burn.runtime.host import architecture, features


@dataclass(frozen=True)
class Target:
    """One kind of CPU. `features` are those that a compiled program requires (in the names of LLVM and the runtime's
    `cpu_features`). `implied` are those that LLVM needs listed besides, because every CPU of the architecture has them.
    `tuned_for` is the CPU that LLVM tunes for.

    `vector_bytes` is the width of vectors; without vectors it is that of an element, so that the same code has one
    lane. `vector_registers` is the number that a kernel may use. In kernels' argument words, addresses have 64 bits
    everywhere. `small` requests short code rather than fast code (code_size.py), `compact` the shortest. `unoptimized` requests
    the code that LLVM generates in the least time. `exact` requests contractions without reordering, fewer multiplications or
    other element types. `mixed` programs have half precision by `Options.precision`: kernels may round less often, and take
    denormals as zero. `costs` are the numbers by which heuristics decide; those of the CPU's kind by default.
    """

    name: str
    architecture: str
    tuned_for: str
    vector_bytes: int
    vector_registers: int
    features: tuple[str, ...] = ()
    implied: tuple[str, ...] = ()
    small: bool = False
    compact: bool = False
    unoptimized: bool = False
    exact: bool = False
    mixed: bool = False
    costs: Costs = costs.FUSED

    @property
    def tiles(self) -> bool:
        """True if contractions use tile registers with bfloat16 multiply-adds (matmul/amx.py)."""
        return "amx-bf16" in self.features and not self.exact

    @property
    def byte_run(self) -> int:
        """The depth elements of a uint8 by int8 contraction that one instruction multiplies and accumulates in an int32
        lane (matmul/vnni.py); 1 without such an instruction."""
        if self.architecture != "x86_64":
            return 1
        return 4 if "avx512vnni" in self.features else 2

    def depth_run(self, lhs: str, rhs: str) -> int:
        """The depth elements of these element types that one instruction multiplies and accumulates in a lane of four bytes
        (matmul/vnni.py, matmul/bf16_pairs.py); 1 without such an instruction."""
        if (lhs, rhs) == ("uint8", "int8"):
            return self.byte_run
        has_pairs = "avx512bf16" in self.features and not self.exact
        return 2 if has_pairs and (lhs, rhs) == ("bfloat16", "bfloat16") else 1

    @property
    def multiplies_pairs(self) -> bool:
        """True if a vector instruction multiplies pairs of bfloat16 faster than two float32 multiply-adds do. On Intel's cores
        with tile registers it takes two cycles, four times as long as one of these."""
        return "avx512bf16" in self.features and not self.tiles

    @property
    def general_registers(self) -> int:
        """Registers of addresses and whole numbers. A WebAssembly engine has those of its CPU: at least 16."""
        return {"aarch64": 31, "riscv64": 32}.get(self.architecture, 16)

    @property
    def is_size_bound(self) -> bool:
        """True if a program should be as small as possible: for a web page, for a microcontroller's flash, or on
        request."""
        return self.compact or self.architecture in ("wasm32", "thumbv7em")

    @property
    def soft_float16(self) -> bool:
        """True if float16 is converted by integer arithmetic. LLVM 22 simplifies a comparison of two extended float16 to one of
        float16, and its WebAssembly back end crashes on it or does not end."""
        return self.architecture == "wasm32"

    @property
    def native_bfloat16(self) -> bool:
        """True if float32 is rounded to bfloat16 by an instruction, which takes denormals as zero."""
        return self.mixed and "avx512bf16" in self.features

    @property
    def x86_bits(self) -> int:
        """The width of x86's vectors; 0 for other CPUs."""
        return 8 * self.vector_bytes if self.architecture == "x86_64" else 0

    @property
    def is_compiled_here(self) -> bool:
        """True if this process' LLVM can generate code for it; otherwise its text is written out
        (`object.compile_text`)."""
        return self.architecture == architecture()

    @property
    def triple(self) -> str:
        """LLVM's name for a machine with it that runs an operating system."""
        return f"{self.architecture}-unknown-linux-gnu"

    def lanes(self, element_bytes: int) -> int:
        return max(1, self.vector_bytes // element_bytes)

    @property
    def attributes(self) -> str:
        """LLVM function attributes: generate for exactly this CPU, and use its whole vectors.

        The features are listed explicitly: LLVM would use those of the compiling machine for a function without any."""
        passed = ['"nounwind"', '"noinline"']
        if self.unoptimized:
            passed.append('"optnone"')  # LLVM refuses it beside "optsize"
        elif self.small or self.compact:
            passed += ['"optsize"', *(['"minsize"'] if self.compact else [])]
        if self.architecture == "x86_64":
            bits = 8 * self.vector_bytes
            passed = [f'["prefer-vector-width", "{bits}"]', f'["min-legal-vector-width", "{bits}"]', *passed]
        features = ", ".join(f'"+{name}"' for name in (*self.implied, *self.features))
        attribute = f"target_features = #llvm.target_features<[{features}]>, " if features else ""
        return f'target_cpu = "{self.tuned_for}", {attribute}passthrough = [{", ".join(passed)}]'


_V3 = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
"""The additions of the psABI's level x86-64-v3."""

_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
"""The additions of x86-64-v4."""

_VNNI = (*_V4, "avx512vnni")
"""Int8 instructions, available since Cascade Lake and Zen 4."""

_BF16 = (*_VNNI, "avx512bf16")
"""Instructions of bfloat16, available in Cooper Lake and since Zen 4."""

_AMX = (*_BF16, "amx-tile", "amx-bf16", "amx-int8")

_RV64GC = ("m", "a", "f", "d", "c")


def _x86(
    name: str, tuned_for: str, vector_bytes: int, registers: int, features: tuple[str, ...], costs: Costs
) -> Target:
    return Target(name, "x86_64", tuned_for, vector_bytes, registers, features, ("sse2",), costs=costs)


TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        _x86("amx", "x86-64-v4", 64, 32, _AMX, costs.TILES),
        _x86("avx512bf16", "x86-64-v4", 64, 32, _BF16, costs.PAIRS),
        _x86("vnni", "x86-64-v4", 64, 32, _VNNI, costs.WIDE),
        _x86("avx512", "x86-64-v4", 64, 32, _V4, costs.WIDE),
        _x86("avx2", "x86-64-v3", 32, 16, _V3, costs.FUSED),
        _x86("generic", "x86-64", 16, 16, (), costs.NARROW),
        Target("neon", "aarch64", "generic", 16, 32, (), ("neon",), costs=costs.NEON),
        Target("apple-m1", "aarch64", "apple-m1", 16, 32, (), ("neon",), costs=costs.NEON),
        Target("rvv", "riscv64", "generic-rv64", 16, 32, ("v",), _RV64GC, costs=costs.MANY_REGISTERS),
        Target("rv64gc", "riscv64", "generic-rv64", 4, 32, (), _RV64GC, costs=costs.SCALAR),
        # V8 reserves one of x86-64's 16 registers, and multiply and add needs one more than a fused multiply-add.
        Target("simd128", "wasm32", "generic", 16, 14, ("simd128",), ("bulk-memory", "sign-ext"), costs=costs.NARROW),
        Target("cortex-m4", "thumbv7em", "cortex-m4", 4, 32, (), ("vfp4d16sp",), costs=costs.SCALAR),
    )
}
"""By architecture, the widest first: the first target whose features a CPU has is used."""

_ASKED = {
    "x86_64": """sse3 pclmul ssse3 fma cx16 sse4.1 sse4.2 movbe popcnt avx f16c bmi avx2 bmi2 avx512f avx512dq avx512ifma avx512cd
        avx512bw avx512vl avx512vbmi avx512vbmi2 gfni vaes vpclmulqdq avx512vnni avx512bitalg avx512vpopcntdq amx-bf16 avx512fp16
        amx-tile amx-int8 avxvnni avx512bf16 avxifma avxvnniint8 lzcnt""",
    "aarch64": "neon lse fullfp16 dotprod sve i8mm bf16",
    "riscv64": "v",
}
FEATURES = {architecture: frozenset(names.split()) for architecture, names in _ASKED.items()}
"""The features that the runtime can detect (native/cpu.c). Programs that need others would run nowhere. On other
architectures programs do not check."""


def host_targets(features: frozenset[str]) -> list[Target]:
    """The targets that this CPU, which has these features, can stand in for, the widest first."""
    return [t for t in TARGETS.values() if t.is_compiled_here and set(t.features) <= features]


def host_target(features: frozenset[str]) -> Target:
    """The widest target of `host_targets`. Raises CompileError if there is none."""
    found = host_targets(features)
    if not found:
        raise CompileError("burn does not compile on this machine", [f"it has no target for {architecture()} CPUs"])
    return found[0]


def resolved(target: str | Target | None) -> Target:
    """The target of that name among those of this machine's architecture; the host's if None. Raises TypeMismatch."""
    if target is None:
        return host_target(features())
    if isinstance(target, Target):
        return target
    own = {name: t for name, t in TARGETS.items() if t.is_compiled_here}
    if not isinstance(target, str) or target not in own:
        raise TypeMismatch(f"there is no target {target!r}", [f"there are {', '.join(own)}"])
    return own[target]


def compact(target: Target) -> Target:
    """A target for small programs: kernels without variants, with little code, which many layers share. Nothing is
    unrolled, and tile registers are not used."""
    kept = tuple(name for name in target.features if not name.startswith("amx"))
    return replace(target, features=kept, compact=True)


def find(name: str, extra: Sequence[str] = ()) -> Target:
    """The CPU of a name, with `extra` features in LLVM's names. Raises CompileError."""
    if name not in TARGETS:
        raise CompileError(f"there is no CPU '{name}'", [Problem("burn has no such target", hint=near(name, TARGETS))])
    target = TARGETS[name]
    known = FEATURES.get(target.architecture, frozenset(extra))
    unknown = [name for name in extra if name not in known]
    if unknown:
        what = f"there is no feature '{unknown[0]}' of {target.architecture}"
        raise CompileError(
            "a program could not ask a CPU for that", [Problem(what, hint=near(unknown[0], sorted(known)))]
        )
    return replace(target, features=(*target.features, *extra)) if extra else target
