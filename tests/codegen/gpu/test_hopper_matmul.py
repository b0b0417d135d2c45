"""Matmuls for GPUs with warp specialisation: the choice of kernels, and that they compile. Numbers: tests/gpu."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.images import Source, compile_all
from burn.dialect import ops
from burn.dialect.dims import Dim, symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from tests.codegen.gpu.sources import HOPPER, SHARED, sources_of, warp_specialised

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("processes")


@dataclass(frozen=True)
class Matmul:
    """[m, k] by [k, n]. turned: the rhs is [n, k]. backward: both operands have the contracted axis first.

    after: epilogue functions. usual: size hints."""

    m: Dim = 4096
    n: int = 3072
    k: Dim = 768
    transposed: bool = False
    backward: bool = False
    after: tuple[str, ...] = ()
    dtype: str = "bfloat16"
    size_hints: dict[str, int] = field(default_factory=dict)

    def sources(self, architecture: str = "sm_90") -> list[Source]:
        left = (self.k, self.m) if self.backward else (self.m, self.k)
        right = (self.n, self.k) if self.transposed else (self.k, self.n)
        types = [TensorType(self.dtype, shape) for shape in (left, right, (self.n,))]
        program = Program.create(list(zip(("x", "y", "bias"), types, strict=True)))
        x, y, bias = program.inputs
        with program.building("node"):
            x, y = (
                ops.transpose(v, permutation=(1, 0)) if t else v for v, t in ((x, self.backward), (y, self.transposed))
            )
            made = ops.dot_general(x, y, lhs_contract=(1,), rhs_contract=(0,))
            for name in self.after:
                made = ops.add(made, bias) if name == "bias" else getattr(ops, name)(made)
        program.finish([("z", made)])
        program.size_hints = self.size_hints
        return sources_of(program, Abilities.of("cuda", architecture))


FITTING = {
    "plain": (Matmul(), (2, 2)),
    "turned, with a bias": (Matmul(m=8192, n=768, transposed=True, after=("bias",)), (3, 2)),
    "rows with a name": (Matmul(m=symbol("m") * 1024, n=768, after=("bias", "neg"), size_hints={"m": 8}), (3, 2)),
    "rows with a name, few": (Matmul(m=symbol("m") * 1024, n=768, after=("bias", "neg"), size_hints={"m": 4}), (3, 1)),
    "a weight's gradient": (Matmul(m=3072, n=768, k=symbol("m") * 1024, backward=True, size_hints={"m": 8}), (3, 1)),
    "a weight's gradient of one round": (
        Matmul(m=2048, n=1024, k=symbol("m") * 1024, backward=True, size_hints={"m": 4}),
        (2, 1),
    ),
    "odd sizes": (Matmul(m=4001, n=3080, k=776, transposed=True, dtype="float16"), (3, 1)),
}
"""And how many groups multiply, and how many blocks of columns each."""

OTHERS = {
    "floats": (Matmul(dtype="float32"), "sm_90"),
    "few rows": (Matmul(m=64), "sm_90"),
    "a short depth": (Matmul(k=64), "sm_90"),
    "rows that are no multiples of 16 bytes": (Matmul(k=772), "sm_90"),
    "a function that Gluon has no word for": (Matmul(m=512, after=("tan",)), "sm_90"),
    "an older GPU": (Matmul(), "sm_80"),
    "a newer GPU": (Matmul(), "sm_100"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_which_matmuls_are_not_specialised(name: str) -> None:
    matmul, architecture = OTHERS[name]
    sources = matmul.sources(architecture)
    assert any("tl.dot(" in source.text for source in sources) and not warp_specialised(sources)


QUICK = ("rows with a name", "a weight's gradient", "a weight's gradient of one round", "odd sizes")
"""Compiled in every run: all numbers of groups that multiply a column block or two. The others are slow."""


def test_they_fit() -> None:
    by_name = {name: warp_specialised(matmul.sources()) for name, (matmul, _) in FITTING.items()}
    shapes = {
        name: {(s["GROUPS"], s["ACROSS"]) for s in map(dict, (s.named for s in found))}
        for name, found in by_name.items()
    }
    assert shapes == {name: {number} for name, (_, number) in FITTING.items()}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in FITTING])
def test_they_compile(name: str) -> None:
    matmul, _ = FITTING[name]
    made = compile_all(warp_specialised(matmul.sources()), HOPPER)
    assert made and all(image.shared <= SHARED for image in made)


def _before_a_residual(m: int, n: int, k: int) -> list[Source]:
    types = [TensorType("bfloat16", (m, k)), TensorType("bfloat16", (k, n))]
    types += [TensorType("float32", shape) for shape in ((n,), (n,), (m, n))]
    program = Program.create(list(zip(("x", "y", "bias", "scale", "other"), types, strict=True)))
    x, y, bias, scale, other = program.inputs
    with program.building("node"):
        made = ops.dot_general(x, y, lhs_contract=(1,), rhs_contract=(0,), dtype="float32")
        made = ops.add(made, bias)
        after = ops.add(other, ops.mul(scale, made))
    program.finish([("made", made), ("after", after)])
    return warp_specialised(sources_of(program, Abilities.of("cuda", "sm_90")))


@pytest.mark.parametrize(
    ("m", "n", "k", "shape", "piece"), [(6304, 768, 768, (3, 2), 16), (2049, 3080, 776, (2, 2), 64)]
)
def test_what_an_epilogue_loads_fits_the_registers(m: int, n: int, k: int, shape: tuple[int, int], piece: int) -> None:
    """Spilled accumulators took longer than the matmul: 119 us instead of 60 for 6304x768x3072."""
    (source,) = _before_a_residual(m, n, k)
    named = dict(source.named)
    assert ((named["GROUPS"], named["ACROSS"]), named["PIECE"]) == (shape, piece)
    (image,) = compile_all([source], HOPPER)
    assert image.shared <= SHARED


def test_rounded_sums_are_stored_whole() -> None:
    (source,) = warp_specialised(Matmul().sources())
    named = dict(source.named)
    assert named["PIECE"] == named["BLOCK_COLUMNS"]


def test_what_is_costly_behind_many_sums_is_a_kernel_of_its_own() -> None:
    """Warps that multiply would wait for it; of few sums it is not worth a launch."""
    (_, after) = (source.text for source in Matmul(after=("bias", "erf")).sources())
    assert "tl.erf(" in after and "tl.dot(" not in after
    (both,) = (source.text for source in Matmul(m=128, n=1024, after=("bias", "erf")).sources())
    assert "tl.erf(" in both and "tl.dot(" in both
