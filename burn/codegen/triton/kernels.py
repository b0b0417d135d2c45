"""From kernel descriptions to Triton functions, each distinct one printed once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from burn.codegen.triton import (
    attention,
    attention_gradient,
    banded_code,
    column_reductions,
    contract,
    depthwise_gradient_code,
    few_bits,
    fragments_staged,
    loops,
    ranks,
    window_sums,
    windows,
)
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.banded import banded_of
from burn.codegen.triton.choices import key
from burn.codegen.triton.depthwise_gradient import gradient_of
from burn.codegen.triton.foreach import Together, together
from burn.codegen.triton.heuristics.few_bits import inner_loops
from burn.codegen.triton.heuristics.fragments import is_few_rows
from burn.codegen.triton.heuristics.matmul import by_columns
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints
from burn.codegen.triton.hopper import attention as hopper_attention
from burn.codegen.triton.hopper import attention_gradient as hopper_attention_gradient
from burn.codegen.triton.hopper import matmul as hopper_matmul
from burn.codegen.triton.hopper import weight_gradient as hopper_weight_gradient
from burn.codegen.triton.printed import Printed
from burn.codegen.triton.window_sums import sums_of
from burn.codegen.tuning.choices import DEFAULT, NO_CHOICE, Choice, Choices
from burn.dialect.dims import Expr
from burn.errors import unreachable
from burn.kernels.body import AttentionGradientKernel, AttentionKernel, ContractionKernel, Kernel, LoopKernel
from burn.kernels.builders.builder import Call
from burn.kernels.parameters import SMALL, parametrize
from burn.kernels.rewrite import as_loops, collapse, kernel_dims


class KernelPrinter:
    """The functions of one program. `sites`: source nodes that run-time errors name by number; `abilities`: those of
    the GPU; `choices`: block shapes; `hints`: size hints."""

    def __init__(
        self,
        sites: list[str] | None = None,
        abilities: Abilities = USUAL_ABILITIES,
        choices: Choices = DEFAULT,
        hints: SizeHints = UNKNOWN,
    ) -> None:
        self.sites: list[str] = [] if sites is None else sites
        self.abilities, self.choices, self.hints = abilities, choices, hints
        self.functions: dict[str, Printed] = {}
        self._known: dict[str, str] = {}

    def print(self, kernel: Kernel, constants: Collection[int] = (), early: bool = False) -> Printed:
        """The Triton functions of a kernel. Raises Unprintable (a CompileError) if Triton's language cannot express it.

        constants: the buffers that no kernel writes, by number. early: the kernel may read them before the kernel before it has
        ended, if the GPU can start it early (`early.py`)."""
        if isinstance(kernel, ContractionKernel) and inner_loops(kernel):
            general, values = parametrize(kernel)
            return self._named(few_bits.emit(general, values, kernel, self.sites, self.abilities.eights))
        if isinstance(kernel, ContractionKernel) and self.abilities.fragments and is_few_rows(kernel, self.hints):
            general, values = parametrize(kernel)
            return self._named(
                fragments_staged.emit(general, values, kernel, self.sites, self.abilities, self.hints, constants, early)
            )
        match collapse(kernel):
            case ContractionKernel() as contraction if of := gradient_of(contraction, self.abilities, self.hints):
                return self._named(depthwise_gradient_code.emit(of, self.sites))
            case ContractionKernel() as contraction if not contraction.is_plain:
                return self._loops(as_loops(contraction))
            case ContractionKernel() as contraction if (sums := sums_of(contraction)) is not None:
                return self._named(window_sums.emit(sums, self.sites))
            case ContractionKernel() as contraction if contract.is_dot(contraction) and not by_columns(
                contraction, self.abilities.processors
            ):
                general, values = parametrize(contraction, kept=contract.divisors(contraction))
                able = self.abilities
                for specialised in (hopper_weight_gradient, hopper_matmul) if able.warp_specialised else ():
                    printed = specialised.emit(general, values, contraction, self.sites, able.processors, self.hints)
                    if printed is not None:
                        return self._named(printed)
                choice = self.choices.of(lambda: key(general, values))
                return self._named(
                    contract.emit(general, values, contraction, self.sites, self.abilities, choice, self.hints),
                    choice,
                )
            case ContractionKernel() as contraction:
                return self._loops(as_loops(contraction))
            case AttentionKernel() as attending:
                kept = {v: v.extent for v in (attending.depth, attending.column) if isinstance(v.extent, int)}
                general, values = parametrize(attending, kept)
                if self.abilities.warp_specialised and (
                    printed := hopper_attention.emit(general, values, attending, self.sites)
                ):
                    return self._named(printed)
                choice = self.choices.of(lambda: key(general, values))
                return self._named(
                    attention.emit(general, values, attending, self.sites, self.abilities, choice), choice
                )
            case AttentionGradientKernel() as gradient:
                kept = {v: v.extent for v in (gradient.depth, gradient.column) if isinstance(v.extent, int)}
                general, values = parametrize(gradient, kept)
                if self.abilities.warp_specialised and (
                    printed := hopper_attention_gradient.emit(general, values, gradient, self.sites)
                ):
                    return self._named(printed)
                choice = self.choices.of(lambda: key(general, values))
                printed = attention_gradient.emit(general, values, gradient, self.sites, self.abilities, choice)
                return self._named(printed, choice)
            case LoopKernel() as loop:
                return self._loops(loop)
            case other:
                raise unreachable(other)

    def together(self, calls: Sequence[Call]) -> list[Together]:
        """The functions of independent loops. Each function computes several. Raises Unprintable."""
        printed = []
        for call in calls:
            kernel = collapse(call.kernel)
            assert isinstance(kernel, LoopKernel)
            general, values = parametrize(kernel, largest_constant=0 if _is_flat(kernel) else SMALL)
            found = loops.emit(general, values, kernel, self.sites, self.abilities.processors, self.hints, alike=True)
            printed.append(found)
        return [replace(each, printed=self._named(each.printed)) for each in together(calls, printed)]

    def _loops(self, kernel: LoopKernel) -> Printed:
        if (convolution := banded_of(kernel, self.abilities, self.hints)) is not None:
            return self._named(banded_code.emit(convolution, self.sites))
        if (found := windows.windows_of(kernel, self.abilities.processors)) is not None:
            return self._named(windows.emit(found, self.sites))
        general, values = parametrize(kernel)
        processors = self.abilities.processors
        if (printed := ranks.emit(general, values, kernel, self.sites, processors)) is not None:
            return self._named(printed)
        if kernel.column_reductions:
            return self._named(column_reductions.emit(general, values, kernel, self.sites, processors))
        return self._named(loops.emit(general, values, kernel, self.sites, processors, self.hints))

    def _named(self, printed: Printed, choice: Choice = NO_CHOICE) -> Printed:
        """Gives kernels with the same text the same name."""
        name = self._known.setdefault(printed.text, f"kernel{len(self._known)}")
        printed = replace(printed, name=name, choice=choice.key, text=printed.text.replace("KERNEL", name))
        self.functions.setdefault(name, printed)
        return printed


def _is_flat(kernel: LoopKernel) -> bool:
    """True for one loop that reads and writes at its own index, or at the beginning: its only size is its extent."""
    if len(kernel.parallel) != 1:
        return False
    own = Expr.of(kernel.parallel[0])
    return all(dim in (0, own) for dim in kernel_dims(kernel))
