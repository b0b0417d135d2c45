"""Options of binaries and packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from burn.codegen.cpu import target as cpus
from burn.codegen.cpu.target import Target
from burn.deploy import objects
from burn.deploy.gpus import GpuTarget
from burn.deploy.report import Report
from burn.errors import CompileError, Problem
from burn.options import FULL, OFF
from burn.options import Options as CompileOptions
from burn.runtime.host import features
from burn.toolchain import platforms
from burn.toolchain.platforms import Platform


@dataclass(frozen=True)
class Options:
    """Options of a binary or package.

    - `cpu`: the CPU to compile for; default: this machine's, and for another platform its baseline. Several, between commas, give
      a version of the program for each in one binary, which runs the best supported one.
    - `features`: additional features of the CPU, by LLVM's names.
    - `name`: name of the C interface; default: the output's name.
    - `beside`: the weights go into a file beside the binary.
    - `also`: further platforms of a package.
    - `key`: the private key that signs a package.
    - `told`: receives a report.
    - `gpus`: GPU targets; empty for programs without GPU code.
    - `small`: optimises for size instead of time. `exact`, `precision` (the element type): see `burn.load`."""

    platform: Platform
    cpu: str | None = None
    name: str = ""
    beside: bool = False
    features: tuple[str, ...] = ()
    also: tuple[Platform, ...] = ()
    key: Path | None = None
    told: Callable[[Report], None] | None = None
    gpus: tuple[GpuTarget, ...] = ()
    small: bool = False
    exact: bool = False
    precision: str = FULL

    @property
    def linked(self) -> Platform:
        """The platform, with the libraries of GPU programs if needed. Raises CompileError."""
        return self.platform.with_gpus() if self.gpus else self.platform

    @property
    def is_foreign(self) -> bool:
        """True for another platform than this machine's."""
        return self.platform != platforms.host()

    @property
    def as_text(self) -> bool:
        """True if a C compiler compiles LLVM's text: for other platforms, and for architectures whose own objects
        objects.py cannot make linkable."""
        return self.is_foreign or self.platform.architecture not in objects.MACHINES

    def compilation(
        self, target: Target | None, as_text: bool | None = None, gpu: GpuTarget | None = None
    ) -> CompileOptions:
        """The options of the compilation for one of the CPUs, and for a GPU beside it. as_text: see there; by default as these
        options need it."""
        text = self.as_text if as_text is None else as_text
        made = CompileOptions(target, autotune=OFF, as_text=text, precision=self.precision)
        return made if gpu is None else replace(made, device=gpu.device, architecture=gpu.architecture)

    def each_platform(self) -> Iterator[Options]:
        """These options for each platform of a package, with the CPUs that are its own; the first's for a single one. Raises
        CompileError for a CPU that none has."""
        platforms_ = (self.platform, *self.also)
        if len(platforms_) == 1:
            yield replace(self, also=())
            return
        named = self.cpu.split(",") if self.cpu else []
        homes = {name: cpus.find(name, ()).architecture for name in named}
        known = [platform.architecture for platform in platforms_]
        if strangers := [name for name, home in homes.items() if home not in known]:
            raise CompileError(
                f"no target has the CPU {strangers[0]}", [f"the targets are {', '.join(p.name for p in platforms_)}"]
            )
        for platform in platforms_:
            own = [name for name in named if homes[name] == platform.architecture]
            yield replace(self, platform=platform, also=(), cpu=",".join(own) or None)

    @property
    def targets(self) -> list[Target | None]:
        """The best first; None for this machine's CPU. Raises CompileError."""
        if self.cpu is None and not self.is_foreign and not self.features:
            return [self._as_wished(cpus.host_target(features()))] if self.small or self.exact else [None]
        names = list(dict.fromkeys((self.cpu or self.platform.cpu).split(",")))
        widest = list(cpus.TARGETS)
        return [self._named(name) for name in sorted(names, key=lambda n: widest.index(n) if n in widest else -1)]

    @property
    def target(self) -> Target | None:
        """The one CPU, for what has no versions. Raises CompileError."""
        first, *more = self.targets
        if more:
            raise CompileError(f"{self.cpu} are several CPUs", ["commands and libraries take more than one"])
        return first

    def _named(self, name: str) -> Target:
        found = cpus.find(name, self.features)
        if not self.platform.name.startswith(found.architecture):
            known = [t.name for t in cpus.TARGETS.values() if self.platform.name.startswith(t.architecture)]
            what = Problem(f"'{name}' is of {found.architecture}", hint=f"there are {', '.join(known)}")
            raise CompileError(f"{self.platform.name} has no such CPU", [what])
        return self._as_wished(found)

    def _as_wished(self, target: Target) -> Target:
        target = replace(target, exact=self.exact)
        return cpus.compact(target) if self.small else target
