"""How artefacts are run: the `Loader` of a kind of device, which its registry entry names, makes a `Loaded` program.

The native runtime (native_loader.py) runs machine code. A loader of another kind of artefact raises the same two exceptions, so
that `Executable` treats all devices alike: `_native.InputMismatch` for inputs that are not as declared, which `Executable`
then converts or reports, and `_native.RunFailure(status, site, value)` for a run that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from burn.errors import Problem

if TYPE_CHECKING:
    from burn.runtime.artefact import Artefact, Target
    from burn.runtime.device import Device


class Loaded(Protocol):
    """A program that is ready to run. Runs may overlap, in any threads."""

    def run(
        self,
        arrays: Sequence[Any],
        donated: Sequence[int] | None = None,
        *,
        profile: bool = False,
        keep: bool | None = None,
        seconds: float | None = None,
        bytes: int | None = None,
    ) -> Any:
        """The outputs, for contiguous arrays of the declared types by position; lists of arrays stand for containers. Outputs may
        take over the memory of the inputs numbered in `donated`.

        keep: outputs stay in the device's memory (True) or are copied to the host (False); by default they stay if an input lies
        there.

        seconds, bytes: limits of the run; 0 or None for none. profile: returns the outputs, (calls, nanoseconds) by
        kernel, and events (kernel, start, nanoseconds, on a GPU)."""
        ...

    def cancel(self) -> None:
        """Ends the runs under way, from any thread."""
        ...

    def arena_bytes(self) -> int:
        """Bytes of intermediate results in runs so far."""
        ...


class Loader(Protocol):
    def cannot_run(self, target: Target, device: Device) -> list[Problem]:
        """The reasons why code for `target` cannot run on a device of this machine; empty if it can."""
        ...

    def load(self, artefact: Artefact, device: Device) -> Loaded:
        """Raises ValueError for an artefact that cannot be loaded."""
        ...
