"""The core ATen set: every operator that torch tags as core is called, compiled, and compared with eager torch.

`CALLS` holds one call an operator; `test_the_table_is_torchs_set` holds the table to torch's tags, so that neither drifts.
https://docs.pytorch.org/docs/stable/torch.compiler_ir.html
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from burn.adapters.torch import compile_module  # noqa: E402
from burn.errors import BurnError  # noqa: E402
from burn.importers.torch import BUILDERS  # noqa: E402
from burn.importers.torch.build import NO_EFFECT  # noqa: E402
from burn.importers.torch.decompositions import for_export  # noqa: E402
from burn.importers.torch.refusals import REASONS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
aten = torch.ops.aten
Call = Callable[..., Any]


def inputs() -> dict[str, Any]:
    """Operands with odd sizes, drawn anew."""
    r = torch.randn
    return {
        "x": r(3, 5, 7),
        "y": r(3, 5, 7),
        "p": torch.rand(3, 5, 7) * 0.9 + 0.05,
        "b": torch.rand(3, 5, 7) > 0.5,
        "c": torch.rand(3, 5, 7) > 0.3,
        "i": torch.randint(-9, 9, (3, 5, 7)),
        "j": torch.randint(1, 9, (3, 5, 7)),
        "at": torch.randint(0, 5, (3, 2, 7)),
        "rows": torch.randint(0, 5, (11,)),
        "starts": torch.tensor([0, 3, 3, 7]),
        "m": r(5, 7),
        "n": r(7, 3),
        "image": r(2, 4, 9, 7),
        "volume": r(1, 2, 5, 6, 7),
        "grid": torch.rand(2, 3, 5, 2) * 2.4 - 1.2,
        "filter": r(6, 2, 3, 3),
        "c4": r(4),
        "d4": torch.rand(4) + 0.5,
        "c6": r(6),
        "c7": r(7),
        "indices": torch.randperm(15)[:7].reshape(7, 1).repeat(1, 7),
    }


def named(*names: str, operand: str) -> dict[str, Call]:
    def call(op: Any) -> Call:
        return lambda t: op(getattr(t, operand))

    return {f"aten.{n}.default": call(getattr(aten, n).default) for n in names}


def pairs(
    *names: str, operands: tuple[str, str], overload: str = "Tensor", scalar: float | int | None = None
) -> dict[str, Call]:
    def call(op: Any, second: Any) -> Call:
        return lambda t: op(getattr(t, operands[0]), getattr(t, second) if isinstance(second, str) else second)

    calls = {f"aten.{n}.{overload}": call(getattr(getattr(aten, n), overload), operands[1]) for n in names}
    if scalar is not None:
        calls |= {f"aten.{n}.Scalar": call(getattr(aten, n).Scalar, scalar) for n in names}
    return calls


def backward_of_pool(t: Any) -> Any:
    values, indices = aten.max_pool2d_with_indices.default(t.image, [3, 2], [2, 2], [1, 0])
    return aten.max_pool2d_with_indices_backward.default(
        values * 2, t.image, [3, 2], [2, 2], [1, 0], [1, 1], False, indices
    )


def backward_of_layer_norm(t: Any) -> Any:
    _, mean, rstd = aten.native_layer_norm.default(t.x, [7], t.c7, t.c7, 1e-5)
    return aten.native_layer_norm_backward.default(t.y, t.x, [7], mean, rstd, t.c7, t.c7, [True, True, True])


def backward_of_group_norm(t: Any) -> Any:
    _, mean, rstd = aten.native_group_norm.default(t.image, t.c4, t.c4, 2, 4, 63, 2, 1e-5)
    sizes = (2, 4, 63, 2)
    return aten.native_group_norm_backward.default(t.image * 2, t.image, mean, rstd, t.c4, *sizes, [True, True, True])


def backward_of_convolution(t: Any) -> Any:
    args = ([2, 1], [1, 0], [1, 1], False, [0, 0], 2)
    out = aten.convolution.default(t.image, t.filter, t.c6, *args)
    return aten.convolution_backward.default(out, t.image, t.filter, [6], *args, [True, True, True])


UNARY = ("abs", "asinh", "atan", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "isinf", "isnan", "neg", "relu")
UNARY = (*UNARY, "round", "sigmoid", "sign", "sin", "sinh", "tan", "tanh", "trunc", "gelu", "elu", "hardtanh", "alias")
UNARY = (*UNARY, "leaky_relu", "clone", "mean", "prod", "any", "argmax", "argmin", "logical_not", "sort", "reciprocal")
POSITIVE = ("acos", "asin", "atanh", "log", "log10", "log1p", "log2", "rsqrt", "sqrt")
SIMPLE = {
    **named(*UNARY, operand="x"),
    **named(*POSITIVE, operand="p"),
    **named("bitwise_not", "nonzero", operand="i"),
    "aten.acosh.default": lambda t: aten.acosh.default(1 / t.p),
    **pairs("add", "sub", "mul", "div", "fmod", "remainder", operands=("x", "y"), scalar=1.75),
    **pairs("eq", "ne", "lt", "le", "gt", "ge", operands=("i", "j"), scalar=3),
    **pairs("bitwise_and", "bitwise_or", "bitwise_xor", operands=("i", "j"), scalar=5),
    **pairs("logical_and", "logical_or", "logical_xor", operands=("b", "c"), overload="default"),
    **pairs("maximum", "minimum", "atan2", "copy", operands=("x", "y"), overload="default"),
    "aten.div.Tensor_mode": lambda t: aten.div.Tensor_mode(t.i, t.j, rounding_mode="floor"),
    "aten.div.Scalar_mode": lambda t: aten.div.Scalar_mode(t.x, 0.7, rounding_mode="trunc"),
    "aten.pow.Tensor_Tensor": lambda t: aten.pow.Tensor_Tensor(t.p, t.y),
    "aten.pow.Tensor_Scalar": lambda t: aten.pow.Tensor_Scalar(t.p, 1.7),
    "aten.pow.Scalar": lambda t: aten.pow.Scalar(2.5, t.x),
    "aten.clamp.default": lambda t: aten.clamp.default(t.x, -0.5, 0.8),
    "aten.clamp.Tensor": lambda t: aten.clamp.Tensor(t.x, t.y, t.p),
    "aten.where.self": lambda t: aten.where.self(t.b, t.x, t.y),
    "aten._to_copy.default": lambda t: aten._to_copy.default(t.x, dtype=torch.int32),
}
REDUCTIONS = {
    "aten._log_softmax.default": lambda t: aten._log_softmax.default(t.x, 1, False),
    "aten._softmax.default": lambda t: aten._softmax.default(t.x, 2, False),
    **{
        f"aten.{n}": (lambda t, n=n: getattr(getattr(aten, n.split(".")[0]), n.split(".")[1])(t.x, 1, True))
        for n in ("any.dim", "max.dim", "min.dim", "prod.dim_int")
    },
    **{
        f"aten.{n}": (lambda t, n=n: getattr(getattr(aten, n.split(".")[0]), n.split(".")[1])(t.x, [0, 2]))
        for n in ("amax.default", "amin.default", "any.dims", "mean.dim", "sum.dim_IntList", "var.dim")
    },
    "aten.var.correction": lambda t: aten.var.correction(t.x, [1], correction=2, keepdim=True),
    "aten.cumsum.default": lambda t: aten.cumsum.default(t.x, 1),
    "aten.topk.default": lambda t: aten.topk.default(t.x, 3, 1),
    "aten._cdist_forward.default": lambda t: aten._cdist_forward.default(t.x, t.y, 2.0, None),
    "aten._pdist_forward.default": lambda t: aten._pdist_forward.default(t.m, 2.0),
    "aten.mm.default": lambda t: aten.mm.default(t.m, t.n),
    "aten.bmm.default": lambda t: aten.bmm.default(t.x, t.y.mT),
    "aten.addmm.default": lambda t: aten.addmm.default(t.m[:, :3], t.m, t.n, beta=0.5, alpha=2),
    "aten._native_batch_norm_legit.no_stats": lambda t: aten._native_batch_norm_legit.no_stats(
        t.image, t.c4, t.c4, True, 0.1, 1e-5
    ),
    "aten._native_batch_norm_legit.default": lambda t: aten._native_batch_norm_legit.default(
        t.image, t.c4, t.c4, t.c4.clone(), t.d4.clone(), True, 0.1, 1e-5
    ),
    "aten._native_batch_norm_legit_no_training.default": lambda t: aten._native_batch_norm_legit_no_training.default(
        t.image, t.c4, t.c4, t.c4, t.d4, 0.1, 1e-5
    ),
    "aten.native_layer_norm.default": lambda t: aten.native_layer_norm.default(t.x, [5, 7], None, None, 1e-5),
    "aten.native_group_norm.default": lambda t: aten.native_group_norm.default(t.image, t.c4, t.c4, 2, 4, 63, 2, 1e-5),
    "aten.native_layer_norm_backward.default": backward_of_layer_norm,
    "aten.native_group_norm_backward.default": backward_of_group_norm,
}
SHAPES = {
    "aten.as_strided.default": lambda t: aten.as_strided.default(t.x, [4, 6], [9, 2], 3),
    "aten.cat.default": lambda t: aten.cat.default([t.x, t.y], 1),
    "aten.constant_pad_nd.default": lambda t: aten.constant_pad_nd.default(t.x, [1, 2, -1, 3], 0.5),
    "aten.diagonal.default": lambda t: aten.diagonal.default(t.x, 1, 1, 2),
    "aten.expand.default": lambda t: aten.expand.default(t.m, [2, 5, 7]),
    "aten.fill.Scalar": lambda t: aten.fill.Scalar(t.x, 2),
    "aten.flip.default": lambda t: aten.flip.default(t.x, [0, 2]),
    "aten.full.default": lambda t: aten.full.default([2, 3], 0.25),
    "aten.full_like.default": lambda t: aten.full_like.default(t.i, 7),
    "aten.arange.start_step": lambda t: aten.arange.start_step(1, 9, 3),
    "aten.scalar_tensor.default": lambda t: aten.scalar_tensor.default(2.5),
    "aten.permute.default": lambda t: aten.permute.default(t.x, [2, 0, 1]),
    "aten.repeat.default": lambda t: aten.repeat.default(t.m, [2, 1, 3]),
    "aten.select.int": lambda t: aten.select.int(t.x, 1, -2),
    "aten.select_scatter.default": lambda t: aten.select_scatter.default(t.x, t.m, 0, 1),
    "aten.slice.Tensor": lambda t: aten.slice.Tensor(t.x, 2, 1, 6, 2),
    "aten.slice_scatter.default": lambda t: aten.slice_scatter.default(t.x, t.y[:, :, :3], 2, 1, 6, 2),
    "aten.split_with_sizes.default": lambda t: aten.split_with_sizes.default(t.x, [1, 4, 2], 2),
    "aten.squeeze.dim": lambda t: aten.squeeze.dim(t.x[:, 1:2], 1),
    "aten.squeeze.dims": lambda t: aten.squeeze.dims(t.x[:1, 1:2], [0, 1]),
    "aten.unsqueeze.default": lambda t: aten.unsqueeze.default(t.x, -2),
    "aten.view.default": lambda t: aten.view.default(t.x, [5, 21]),
    **{
        f"aten.{kind}_pad{n}d.default": (
            lambda t, kind=kind, n=n: (
                getattr(aten, f"{kind}_pad{n}d").default(t.volume, [1, 2, 2, 0, 1, 1][: 2 * n])
                if n == 3
                else getattr(aten, f"{kind}_pad{n}d").default(t.image[0] if n == 1 else t.image, [1, 2, 2, 0][: 2 * n])
            )
        )
        for kind, n in (("reflection", 1), ("reflection", 2), ("reflection", 3), ("replication", 2), ("replication", 3))
    },
    "aten.gather.default": lambda t: aten.gather.default(t.x, 1, t.at),
    "aten.index.Tensor": lambda t: aten.index.Tensor(t.m, [t.rows, t.rows]),
    "aten.index_put.default": lambda t: aten.index_put.default(t.m, [None, t.rows], t.m[:, :1], True),
    "aten.index_select.default": lambda t: aten.index_select.default(t.x, 1, t.rows),
    "aten.embedding.default": lambda t: aten.embedding.default(t.m, t.rows),
    "aten.embedding_dense_backward.default": lambda t: aten.embedding_dense_backward.default(
        t.n.reshape(-1)[:11, None], t.rows, 5, 2, False
    ),
    "aten._embedding_bag.default": lambda t: aten._embedding_bag.default(t.m, t.rows, t.starts, False, 1)[0],
    "aten.masked_scatter.default": lambda t: aten.masked_scatter.default(t.x, t.b, t.y),
    "aten.scatter.value": lambda t: aten.scatter.value(t.x, 1, t.at, 2.5),
    "aten.scatter.src": lambda t: aten.scatter.src(t.y.reshape(15, 7), 0, t.indices, t.y.reshape(15, 7)),
    "aten.scatter_add.default": lambda t: aten.scatter_add.default(t.x, 1, t.at, t.y),
    "aten.scatter_reduce.two": lambda t: [
        aten.scatter_reduce.two(t.x, 1, t.at, t.y, how, include_self=self)
        for how in ("sum", "prod", "mean", "amax", "amin")
        for self in (True, False)
    ],
}
IMAGES = {
    "aten._adaptive_avg_pool2d.default": lambda t: aten._adaptive_avg_pool2d.default(t.image, [4, 3]),
    "aten._adaptive_avg_pool2d_backward.default": lambda t: aten._adaptive_avg_pool2d_backward.default(
        t.image[:, :, :4, :3], t.image
    ),
    "aten._adaptive_avg_pool3d.default": lambda t: aten._adaptive_avg_pool3d.default(t.volume, [2, 3, 5]),
    "aten.adaptive_avg_pool1d.default": lambda t: aten.adaptive_avg_pool1d.default(t.x, [3]),
    "aten.avg_pool1d.default": lambda t: aten.avg_pool1d.default(t.x, [3], [2], [1], True, False),
    "aten.avg_pool2d.default": lambda t: aten.avg_pool2d.default(t.image, [3, 2], [2, 2], [1, 1], True, True),
    "aten.avg_pool2d_backward.default": lambda t: aten.avg_pool2d_backward.default(
        t.image[:, :, :4, :3], t.image, [3, 3], [2, 2], [0, 0], False, True, None
    ),
    "aten.avg_pool3d.default": lambda t: aten.avg_pool3d.default(t.volume, [2, 3, 2], [2, 2, 2]),
    "aten.max_pool2d_with_indices.default": lambda t: aten.max_pool2d_with_indices.default(
        t.image, [3, 2], [2, 2], [1, 0], [1, 2], True
    ),
    "aten.max_pool2d_with_indices_backward.default": backward_of_pool,
    "aten.max_pool3d_with_indices.default": lambda t: aten.max_pool3d_with_indices.default(t.volume, [2, 3, 2]),
    "aten.convolution.default": lambda t: [
        aten.convolution.default(t.image, t.filter, t.c6, [1, 2], [1, 0], [2, 1], False, [0, 0], 2),
        aten.convolution.default(t.image, t.filter[:4], None, [2, 1], [1, 1], [1, 1], True, [1, 0], 1),
    ],
    "aten.convolution_backward.default": backward_of_convolution,
    "aten.col2im.default": lambda t: aten.col2im.default(
        t.volume.reshape(1, 12, 35)[:, :, :16], [6, 5], [3, 2], [1, 1], [0, 0], [1, 1]
    ),
    "aten.grid_sampler_2d.default": lambda t: [
        aten.grid_sampler_2d.default(t.image, t.grid, mode, padding, corners)
        for mode, padding, corners in ((0, 0, False), (1, 1, True), (2, 2, False))
    ],
    "aten.upsample_bilinear2d.vec": lambda t: aten.upsample_bilinear2d.vec(t.image, [13, 5], False, None),
    "aten.upsample_nearest2d.vec": lambda t: aten.upsample_nearest2d.vec(t.image, None, [1.5, 2.0]),
    "aten._fft_r2c.default": lambda t: aten.view_as_real.default(aten._fft_r2c.default(t.x, [0, 2], 1, True)),
    "aten._fft_c2r.default": lambda t: aten._fft_c2r.default(
        aten.view_as_complex.default(t.image[..., :2].contiguous()), [2], 2, 16
    ),
}
CALLS: dict[str, dict[str, Call]] = {
    "simple": SIMPLE,
    "reductions": REDUCTIONS,
    "shapes": SHAPES,
    "images": IMAGES,
}
UNDETERMINED: dict[str, Call] = {
    "aten.empty.memory_format": lambda t: aten.empty.memory_format([2, 3]),
    "aten.empty_strided.default": lambda t: aten.empty_strided.default([2, 3], [3, 1]),
    "aten.native_dropout.default": lambda t: aten.native_dropout.default(t.x, 0.4, True),
    "aten.rand.default": lambda t: aten.rand.default([3, 5]),
    "aten.randn.default": lambda t: aten.randn.default([3, 5]),
    "aten.randperm.default": lambda t: aten.randperm.default(11),
}
"""Operators with random or undefined contents: types and sizes are compared."""
SIZES = {"aten.sym_is_contiguous.default", "aten.sym_numel.default", "aten.sym_size.int", "aten.sym_stride.int"}
SIZES |= {"aten._local_scalar_dense.default", "aten.sym_storage_offset.default"}
"""Operators that return a size; `test_sizes` calls them."""
MUTABLE = {"aten.atan2.out"}
"""torch.export makes these functional before anything is imported."""
REFUSED = {"aten.resize_.default"}
"""See burn/importers/torch/refusals.py."""


class Calls(torch.nn.Module):
    def __init__(self, calls: dict[str, Call]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, tensors: dict[str, Any]) -> dict[str, list[Any]]:
        given = SimpleNamespace(**tensors)
        return {name: _leaves(call(given)) for name, call in self.calls.items()}


def _leaves(result: Any) -> list[Any]:
    return [t for r in result for t in _leaves(r)] if isinstance(result, (list, tuple)) else [result]


def core() -> set[str]:
    """The tagged overloads among all that torch has registered."""
    found = set()
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::"):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            op = getattr(getattr(aten, packet), overload or "default")
            if torch.Tag.core in op.tags:
                found.add(str(op))
    return found


def test_the_table_is_torchs_set() -> None:
    called = {name for calls in CALLS.values() for name in calls} | set(UNDETERMINED) | SIZES | MUTABLE | REFUSED
    assert core() == called
    assert all(name.split(".")[1] in REASONS for name in REFUSED)


def test_every_core_operator_has_a_builder_or_a_decomposition() -> None:
    decomposed = {str(op) for op in for_export()}
    assert not core() - set(BUILDERS) - decomposed - NO_EFFECT - SIZES - REFUSED


def test_what_is_refused_has_no_builder() -> None:
    named = {op.split(".")[1] for op in BUILDERS if op.startswith("aten.")}
    assert named & set(REASONS) == set()


@pytest.mark.parametrize("family", CALLS)
def test_core_operators(family: str) -> None:
    given = inputs()
    module = Calls(CALLS[family])
    want, got = module(given), compile_module(module, (given,))(given)
    for name in CALLS[family]:
        for a, b in zip(want[name], got[name], strict=True):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}")


def test_undetermined() -> None:
    given = inputs()
    module = Calls(UNDETERMINED)
    got = compile_module(module, (given,))(given)
    for name, want in module(given).items():
        assert [(t.dtype, t.shape) for t in got[name]] == [(t.dtype, t.shape) for t in want], name
    assert sorted(got["aten.randperm.default"][0].tolist()) == list(range(11))
    kept, mask = got["aten.native_dropout.default"]
    torch.testing.assert_close(kept, torch.where(mask, given["x"] / 0.6, 0.0))
    assert 0 < mask.sum() < mask.numel()


def test_sizes() -> None:
    class Sizes(torch.nn.Module):
        def forward(self, x: Any, n: Any) -> Any:
            count = n.item()
            torch._check(count >= 0)
            torch._check(count <= x.shape[0])
            return x[:count] * x.numel(), x.new_full((x.shape[0] + x.stride(0),), x.storage_offset())

    x = torch.randn(5, 7)
    compiled = compile_module(Sizes(), (x, torch.tensor(3)), dynamic={"x": {0: "rows", 1: "columns"}})
    for shape, n in (((5, 7), 3), ((4, 2), 4), ((11, 3), 0)):
        x = torch.randn(*shape)
        for got, want in zip(compiled(x, torch.tensor(n)), Sizes()(x, torch.tensor(n)), strict=True):
            torch.testing.assert_close(got, want)


def test_complex_numbers_stay_inside() -> None:
    class Rotary(torch.nn.Module):
        """Positions as Llama's reference has them, and a spectrogram there and back."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(7, 4), torch.randn(7, 4)))

        def forward(self, x: Any, sound: Any) -> Any:
            turned = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (4, 2))) * self.turns).flatten(-2)
            window = torch.hann_window(16)
            spectrum = torch.stft(sound, 16, 4, window=window, return_complex=True)
            mirrored = torch.fft.irfft(torch.fft.rfft(sound).conj(), n=61)
            return turned, spectrum.abs(), torch.istft(spectrum / (1 + 2j), 16, 4, window=window), mirrored

    given = (torch.randn(3, 7, 8), torch.randn(2, 61))
    module = Rotary()
    for got, want in zip(compile_module(module, given)(*given), module(*given), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_complex_numbers_at_the_edge() -> None:
    class Through(torch.nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return torch.view_as_complex(z) if z.dtype == torch.float32 else z.abs()

    for z in (torch.randn(3, 2), torch.randn(3, dtype=torch.complex64)):
        torch.testing.assert_close(compile_module(Through(), (z,))(z), Through()(z))


def test_a_refusal_says_why() -> None:
    class Drawn(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.poisson(x) + torch._standard_gamma(x)

    with pytest.raises(BurnError, match=r"aten.poisson.*(?s:.)*aten._standard_gamma.*not drawn") as caught:
        compile_module(Drawn(), (torch.rand(2, 2),))
    assert "sample it outside" in str(caught.value)
