"""The options of a compilation: `Options`, one value that public functions make of their keyword arguments (`Options.of`).

Everything below the public functions takes the value and passes it on whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypedDict

from burn.codegen.tuning.modes import OFF, Mode, mode_of
from burn.errors import BurnError, Problem, TypeMismatch, near
from burn.runtime import debugging, host, machine_costs, registry, versions
from burn.runtime.device import CPU, Device
from burn.runtime.device import device as as_device
from burn.variables import variable

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from burn.codegen.cpu.target import Target

__all__ = ["FULL", "HALF", "OFF", "PRECISIONS", "TF32", "Given", "Options", "precision_of"]

FULL = "float32"
"""The precision of a program that computes in its own types."""

HALF = {"bf16": "bfloat16", "fp16": "float16"}
"""Short names of the half-precision types that matmuls can compute in; the long names are also accepted."""

TF32 = ("tf32", "tf32x3")
"""Precisions of float32 multiplications on NVIDIA's tensor cores. "tf32" rounds operands to TF32's 11 bits; "tf32x3" splits each
in two such numbers, and multiplies three times. A program in float32 that is not `exact` does the latter where it can."""

PRECISIONS = {"fp32": FULL, **HALF, **{name: name for name in TF32}}
"""Precisions by the names that users give."""

SPEED, COMPILE_TIME, NONE = OPTIMIZATIONS = ("speed", "compile-time", "none")
"""The goals of LLVM's optimization of CPU code. "compile-time" leaves out LLVM's IR passes: they take about half of LLVM's
time. Programs run up to a few percent slower. "none" also turns off the optimization in LLVM's code generator: LLVM and lowering
take a third less time than with "compile-time", and programs run up to 2.5 times slower. Results have the same bits with each."""


def optimization_of(name: str | None = None) -> str:
    """The optimization of that name, by default BURN_OPTIMIZE's. Raises TypeMismatch for an unknown one, BurnError for an unknown
    one in the environment."""
    if name is None:
        name = variable("BURN_OPTIMIZE") or SPEED
        if name not in OPTIMIZATIONS:
            raise BurnError("BURN_OPTIMIZE is malformed", [f"'{name}' is none of {', '.join(OPTIMIZATIONS)}"])
    if name not in OPTIMIZATIONS:
        raise TypeMismatch(f"there is no optimization {name!r}", [f"there are {', '.join(OPTIMIZATIONS)}"])
    return name


class Given(TypedDict, total=False):
    """The keyword arguments of `Options.of`, as users write them."""

    target: str | Target | None
    device: str | Device
    precision: str
    autotune: str | None
    exact: bool
    budget: str
    passes: str | None
    cache: bool
    as_text: bool
    architecture: str
    nans: str
    optimize: str


@dataclass(frozen=True)
class Options:
    """The options of one compilation.

    `target`: the CPU, by name ("avx512") or described; this machine's if None.
    `device`: where the program runs.
    `precision`: the element type of matmuls, convolutions and attention, and of pointwise ops between them; or one of TF32.
    `autotune`: the time spent on the search for faster kernels; the environment's choice by default.
    `exact`: sum in order, without Winograd and bf16 splits.
    `budget`: options of the pass `recompute` if the program's memory is limited, else "".
    `passes`: a pipeline in place of the back end's own.
    `cache`: read and write the cache on disk.
    `as_text`: the artefact's code is LLVM IR text instead of an object, which CPUs of other architectures need.
    `architecture`: of a GPU that need not be present ("sm_90"); the present one's if "".
    `nans`: the checks of `burn.debug.nans`, "nan", "inf" or "".
    `optimize`: one of OPTIMIZATIONS; the environment's choice by default."""

    target: str | Target | None = None
    device: Device = CPU
    precision: str = FULL
    autotune: Mode = field(default_factory=mode_of)
    exact: bool = False
    budget: str = ""
    passes: str | None = None
    cache: bool = True
    as_text: bool = False
    architecture: str = ""
    nans: str = field(default_factory=debugging.checked)
    optimize: str = field(default_factory=optimization_of)

    @classmethod
    def of(cls, **given: Unpack[Given]) -> Options:
        """The options in the form that users give. Raises TypeMismatch for an unknown option or value, DeviceError for an unknown
        device, and BurnError if BURN_AUTOTUNE is malformed."""
        known = [each.name for each in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            what = [Problem(f"'{name}' is none of {', '.join(known)}", hint=near(name, known)) for name in unknown]
            raise TypeMismatch("there is no such option of a compilation", what)
        wrong = {name: value for name, value in given.items() if not isinstance(value, _KINDS.get(name, object))}
        if wrong:
            what = [f"{name} is {_TEXTS[_KINDS[name]]}, not {value!r}" for name, value in wrong.items()]
            raise TypeMismatch("an option of a compilation has the wrong type", what)
        return cls(**{name: _FORMS.get(name, _same)(value) for name, value in given.items()})

    @property
    def half(self) -> str:
        """The half-precision type that matmuls compute in, "" for none."""
        return self.precision if self.precision in HALF.values() else ""

    @property
    def tf32(self) -> str:
        """The precision if it is one of TF32, else ""."""
        return self.precision if self.precision in TF32 else ""

    @property
    def changes_code(self) -> bool:
        """True if an option would change the generated code of a program that is already compiled."""
        chosen = not (self.autotune.is_off or self.autotune.requested)
        return bool(self.target or self.exact or chosen) or self.precision != FULL

    @property
    def uses_measured_costs(self) -> bool:
        """True if code depends on the costs that were measured on this machine (burn/runtime/machine_costs.py). A program for
        a CPU that is named has the same code on every machine."""
        return self.target is None and not self.exact

    def identity(self) -> tuple[str, ...]:
        """Everything besides the program that the generated code depends on: these options, the machine, and the versions of the
        compilers. Raises DeviceError for a GPU that is not there."""
        target = self.target if isinstance(self.target, str) else repr(self.target) if self.target else ""
        return (
            (target or " ".join(sorted(host.features()))) + " exact" * self.exact,
            machine_costs.identity() if self.uses_measured_costs else "",
            self._device_identity(),
            self.precision,
            self.passes or "",
            self.budget,
            "text" * self.as_text,
            self.nans,
            self.optimize,
            *self.made_by(),
        )

    def made_by(self) -> tuple[str, ...]:
        """The versions of all that makes the code."""
        return versions.compilers(registry.entry(self.device.kind).packages)

    def _device_identity(self) -> str:
        """The device's code, and if kernels are chosen by their time, the hardware that times them."""
        device = self.device
        parts = [device.kind, self.architecture or device.architecture]
        return " ".join(parts if self.autotune.is_off else [*parts, device.hardware, self.autotune.key])


def precision_of(name: str) -> str:
    """The precision of a name. Raises TypeMismatch if there is none."""
    found = PRECISIONS.get(name, name)
    if found not in PRECISIONS.values():
        raise TypeMismatch(f"there is no precision {name!r}", [f"there are {', '.join(PRECISIONS)}"])
    return found


def _same(value: Any) -> Any:
    return value


_TEXT, _MAYBE_TEXT, _SWITCH = str, (str, type(None)), int

_KINDS: Mapping[str, Any] = {
    "precision": _TEXT,
    "budget": _TEXT,
    "architecture": _TEXT,
    "nans": _TEXT,
    "autotune": _MAYBE_TEXT,
    "passes": _MAYBE_TEXT,
    "optimize": _MAYBE_TEXT,
    "exact": _SWITCH,
    "cache": _SWITCH,
    "as_text": _SWITCH,
}
"""The Python types of options; a target and a device have checks of their own."""

_TEXTS: Mapping[Any, str] = {_TEXT: "a text", _MAYBE_TEXT: "a text or None", _SWITCH: "True or False"}

_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "device": as_device,
    "precision": precision_of,
    "autotune": mode_of,
    "optimize": optimization_of,
}
"""How an option becomes a field, by name, where users write it in another form."""
