"""The passes of a compilation as a list with named extension points: `Pipeline`, `Point`, and `pipeline`, the default one.

A back end names its own passes when it makes its pipeline. An option of the compilation, such as a precision or a memory budget,
adds passes at the extension point that bears its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from burn.errors import CompileError, Problem


class Point(Enum):
    """The extension points of a pipeline. In text they are written `@precision`."""

    PRECISION = "precision"
    """Composites are recognised, and batch norms have not been decomposed. An option's lower precision starts here."""

    LAYOUT = "layout"
    """Ops are primitive and convolutions are channels-last. Passes that choose memory layouts, such as packing, go here."""

    MEMORY = "memory"
    """Constants are folded and nothing is fused yet. Passes that trade time for memory go here."""

    def __str__(self) -> str:
        return f"@{self.value}"


@dataclass(frozen=True)
class Pipeline:
    """Passes in their text form ("fuse{max-ops=64}"), in order, with extension points between them."""

    entries: tuple[str | Point, ...]

    @classmethod
    def of(cls, *entries: str | Point) -> Pipeline:
        """Entries are passes, several passes separated by commas, or points; empty texts are left out."""
        return cls(tuple(part for entry in entries for part in _parts(entry)))

    def extended(self, point: Point, *passes: str) -> Pipeline:
        """The pipeline with passes at a point, behind those that are there already. Raises CompileError if it has no such
        point."""
        if point not in self.entries:
            problem = Problem(f"write {point} between its passes", hint="or leave out the option that needs it")
            raise CompileError(f"the pipeline has no extension point '{point.value}'", [problem])
        at = self.entries.index(point)
        return replace(self, entries=(*self.entries[:at], *Pipeline.of(*passes).entries, *self.entries[at:]))

    @property
    def text(self) -> str:
        """The passes alone, as `burn.passes.pipeline.parse` reads them."""
        return ",".join(entry for entry in self.entries if isinstance(entry, str))

    def __str__(self) -> str:
        return ",".join(map(str, self.entries))


def _parts(entry: str | Point) -> Iterable[str | Point]:
    if isinstance(entry, Point):
        return [entry]
    named = {str(point): point for point in Point}
    return [named.get(part.strip(), part.strip()) for part in entry.split(",") if part.strip()]


def pipeline(
    layouts: str = "",
    composites: tuple[str, ...] = (),
    narrow_weights: bool = False,
    first: str = "",
    ordered_sums: bool = False,
    derivatives: bool = False,
    folded: str = "",
) -> Pipeline:
    """The passes of a compilation. Attention and windows are kept whole because kernel printers take them so; convolutions become
    channels-last.

    layouts: the back end's passes at `Point.LAYOUT`. first: its passes before composites are decomposed. composites:
    further composites that it has kernels for, and features of composites (`Op.kernel_features`). narrow_weights: its
    kernels read weights of a few bits as they are stored. ordered_sums: sums keep the order of the program, and memory
    does not grow. derivatives: the forward pass computes those of activations. folded: the back end's
    passes after constants are folded."""
    kept = "+".join(("attention", "windows", *composites, *(["block_dot"] if narrow_weights else [])))
    # deep trees apart, where all trees of an op are walked as deep as the deepest
    trees = "" if "tree_leaves" in composites else "split_trees"
    return Pipeline.of(
        "fix_sizes,lower_complex,simplify{absorb=false},recognise",
        Point.PRECISION,
        "integers,blocks" if narrow_weights else "integers",
        first,
        trees,
        f"decompose{{keep={kept}}},simplify",
        "" if ordered_sums else "loop_sums",
        "crop_taps,gradient_taps,channels_first",
        "layout,simplify",
        layouts,
        Point.LAYOUT,
        "fold",
        folded,
        "keep_derivatives" if derivatives else "",
        "rematerialise",
        Point.MEMORY,
        "fuse,release,donate",
    )


FOLDING = Pipeline.of("lower_complex,decompose,fuse,release")
"""For programs of constants, which run once while another is compiled: quick to compile."""


def with_precision(passes: Pipeline, dtype: str) -> Pipeline:
    """The pipeline with matmuls computed in a half-precision type. Batch norms are decomposed first: their scales have to reach
    the weights before these are converted. Recurrent layers are too, because they contain matmuls."""
    return passes.extended(
        Point.PRECISION, f"decompose{{only=batch_norm+lstm+gru+rnn}},simplify,precision{{to={dtype}}}"
    )


def within_budget(passes: Pipeline, budget: str) -> Pipeline:
    """The pipeline for a program with a memory budget, given as the options of the pass `recompute`."""
    return passes.extended(Point.MEMORY, f"recompute{{{budget}}}")
