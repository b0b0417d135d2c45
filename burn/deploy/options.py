"""How binaries and packages are made: for which platform and CPUs, how small, with what beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from burn.codegen.cpu import target as cpus
from burn.codegen.cpu.target import Target
from burn.deploy import objects, platforms
from burn.deploy.cards import Card
from burn.deploy.platforms import Platform
from burn.deploy.report import Report
from burn.errors import CompileError, Problem
from burn.options import OFF
from burn.options import Options as CompileOptions
from burn.runtime.host import features


@dataclass(frozen=True)
class Options:
    """cpu: the CPU to compile for; this machine's by default, and elsewhere one that all machines of the
    platform can stand in for. Several, between commas, make as many versions of the program in one binary, which takes the best
    that runs where it finds itself. features: what that CPU has besides, by LLVM's names. name: what the C interface is called,
    the output's name by default. beside: the weights go into a file beside the binary, instead of into it. also: further
    platforms that a package has code for. key: the private key that a package is signed with. told: is given a report. cards: the
    kinds of card that a binary or package has code for; there are none for a program that runs on the CPU.
    small: programs are to be small, whatever time they take. exact: they sum products as they stand."""

    platform: Platform
    cpu: str | None = None
    name: str = ""
    beside: bool = False
    features: tuple[str, ...] = ()
    also: tuple[Platform, ...] = ()
    key: Path | None = None
    told: Callable[[Report], None] | None = None
    cards: tuple[Card, ...] = ()
    small: bool = False
    exact: bool = False

    @property
    def linked(self) -> Platform:
        """The platform, with what programs for cards are linked with there. Raises CompileError."""
        return self.platform.with_gpus() if self.cards else self.platform

    @property
    def is_foreign(self) -> bool:
        """Whether another machine's code is made."""
        return self.platform != platforms.host()

    @property
    def as_text(self) -> bool:
        """Whether what is linked is made by a compiler that takes LLVM's text: other machines' code, and that of machines whose
        own objects nothing here makes fit for linking (objects.py)."""
        return self.is_foreign or self.platform.architecture not in objects.MACHINES

    def compilation(
        self, target: Target | None, as_text: bool | None = None, card: Card | None = None
    ) -> CompileOptions:
        """The options of the compilation for one of the CPUs, and for a GPU beside it. as_text: see there; by default as these
        options need it."""
        made = CompileOptions(target, autotune=OFF, as_text=self.as_text if as_text is None else as_text)
        return made if card is None else replace(made, device=card.device, architecture=card.architecture)

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
