"""Every family of builders against eager torch: odd sizes, other element types, and sizes that vary.

A case is a function of tensors and its inputs. Many cases are exported and compiled as one program, because compiling is
what takes the time; a failure names its case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from burn.adapters.torch import compile_module  # noqa: E402
from tests.releases import release  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9, torch.float16: 4e-3, torch.bfloat16: 2e-2}


def randn(*shape: int, dtype: Any = None) -> Any:
    return torch.randn(*shape, dtype=dtype or torch.float32)


def ints(*shape: int, low: int = -9, high: int = 9, dtype: Any = None) -> Any:
    return torch.randint(low, high, shape, dtype=dtype or torch.int64)


class Together(torch.nn.Module):
    """All functions of a table on one set of inputs."""

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: Any) -> Any:
        return {name: function(*inputs) for name, function in self.functions.items()}


def check(functions: dict[str, Callable[..., Any]], *inputs: Any) -> None:
    """Compiles the functions for the inputs, and compares."""
    module = Together(functions)
    compare(functions, module(*inputs), compile_module(module, inputs)(*inputs))


def compare(names: Iterable[str], want: Any, got: Any) -> None:
    for name in names:
        for a, b in zip(pytree.tree_leaves(want[name]), pytree.tree_leaves(got[name]), strict=True):
            tolerance = TOLERANCE.get(a.dtype, 0)

            def named(message: str, name: str = name) -> str:
                return f"{name}: {message}"

            torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, equal_nan=True, msg=named)


UNARY = (
    *(
        "abs",
        "neg",
        "sqrt",
        "rsqrt",
        "exp",
        "expm1",
        "log",
        "log1p",
        "log2",
        "log10",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
    ),
    *(
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "sigmoid",
        "reciprocal",
        "square",
        "exp2",
    ),
    *(
        "floor",
        "ceil",
        "round",
        "trunc",
        "frac",
        "sign",
        "signbit",
        "isnan",
        "isinf",
        "isfinite",
        "isposinf",
        "nan_to_num",
    ),
    *("relu", "logical_not", "sgn", "positive", "logit", "deg2rad", "sinc", "special_entr"),
)


def functions_of(*names: str) -> dict[str, Callable[..., Any]]:
    return {
        n: getattr(torch, n) if hasattr(torch, n) else getattr(torch.special, n.removeprefix("special_")) for n in names
    }


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_functions_of_one_tensor(dtype: str) -> None:
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, float("inf"), float("-inf"), float("nan")])
    x = torch.cat([special, randn(31)]).to(getattr(torch, dtype))
    check(functions_of(*UNARY), x)


def test_functions_of_integers() -> None:
    names = ("abs", "neg", "sign", "floor", "ceil", "bitwise_not", "logical_not", "isnan", "isfinite", "square")
    floats = ("sqrt", "exp", "sigmoid", "reciprocal", "log1p", "erf")
    check(functions_of(*names, *floats), ints(13))
    check(functions_of(*names, *floats), ints(7, low=0, high=120, dtype=torch.int8))
    check(functions_of("logical_not", "bitwise_not", "exp", "isnan"), ints(11) > 0)


BINARY = (
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "atan2",
    "hypot",
    "fmod",
    "remainder",
    "floor_divide",
    "pow",
    "copysign",
)
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "fmax", "fmin")
INTEGER = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")


def test_functions_of_two_tensors() -> None:
    a, b = randn(5, 1, 7), randn(3, 1)
    b[0] = float("nan")
    check(functions_of(*BINARY, *COMPARE), a, b)
    check({"mode floor": lambda a, b: torch.div(a, b, rounding_mode="floor")}, a, b)
    check(
        {
            "mode trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
            "rsub": lambda a, b: torch.rsub(a, b, alpha=2),
        },
        a,
        b,
    )
    check({"lerp": lambda a, b: torch.lerp(a, b, 0.3), "addcmul": lambda a, b: torch.addcmul(a, a, b, value=3)}, a, b)


def test_integers_of_two_tensors() -> None:
    a, b = ints(4, 5), ints(5, low=1, high=6)
    names = ("add", "sub", "mul", "div", "maximum", "fmod", "remainder", "floor_divide", "pow", "atan2")
    check(functions_of(*names, *COMPARE, *INTEGER), a, b)
    check({"trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc")}, a, b)


PROMOTED = {
    "int + 0.5": lambda i, f, h, z, b: i + 0.5,
    "int / 2": lambda i, f, h, z, b: i / 2,
    "int // 2": lambda i, f, h, z, b: i // 2,
    "int + float": lambda i, f, h, z, b: i + f,
    "half * float": lambda i, f, h, z, b: h * f,
    "half + 1.5": lambda i, f, h, z, b: h + 1.5,
    "half + 0-d float64": lambda i, f, h, z, b: h + z,
    "int + 0-d float64": lambda i, f, h, z, b: i * z,
    "bool + bool": lambda i, f, h, z, b: b + b,
    "bool * bool": lambda i, f, h, z, b: b * b,
    "bool + 1": lambda i, f, h, z, b: b + 1,
    "bool / 3": lambda i, f, h, z, b: b / 3,
    "bool & int": lambda i, f, h, z, b: b & i,
    "int < 0.5": lambda i, f, h, z, b: i < 0.5,
    "half < float": lambda i, f, h, z, b: h < f,
    "2 - int": lambda i, f, h, z, b: 2 - i,
    "2.0 ** int": lambda i, f, h, z, b: 2.0 ** i.abs(),
    "where": lambda i, f, h, z, b: torch.where(b, i, 0.5),
    "where half": lambda i, f, h, z, b: torch.where(b, h, f),
    "clamp": lambda i, f, h, z, b: torch.clamp(i, 0.5, 3),
    "sum of bools": lambda i, f, h, z, b: b.sum(),
    "mean of halves": lambda i, f, h, z, b: h.mean(),
    "cumsum of int8": lambda i, f, h, z, b: i.to(torch.int8).cumsum(0),
    "cat": lambda i, f, h, z, b: torch.cat([i, f, b]),
    "exp of bool": lambda i, f, h, z, b: b.exp(),
}


def test_type_promotion() -> None:
    check(PROMOTED, ints(7), randn(7), randn(7).half(), torch.tensor(1.25, dtype=torch.float64), ints(7) > 0)


VIEWS = {
    "reshape": lambda x: x.reshape(-1, 5),
    "permute": lambda x: x.permute(2, 0, 1) + 0,
    "expand": lambda x: x[:, :, None].expand(-1, -1, 4, -1) * 1,
    "slices": lambda x: (x[1:], x[:, ::2], x[..., -3:-1], x[:, 5:2]),
    "select": lambda x: (x[0], x[:, -1], x[..., 2]),
    "split": lambda x: x.split(2, 1),
    "chunk": lambda x: x.chunk(4, 2),
    "unbind": lambda x: x.unbind(0),
    "stack": lambda x: torch.stack([x, -x], 1),
    "cat with nothing": lambda x: torch.cat([torch.empty(0), x.new_ones(1, 3, 5), x]),
    "repeat": lambda x: x.repeat(2, 1, 1, 2),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
    "flip": lambda x: x.flip(0, -1),
    "roll": lambda x: x.roll((1, -2), (1, 2)),
    "unfold": lambda x: x.unfold(2, 3, 2),
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "movedim": lambda x: x.movedim(0, 2),
    "tril": lambda x: (x.tril(1), x.triu(-1)),
    "pad": lambda x: (F.pad(x, (1, 2, 0, 3), value=2.5), F.pad(x, (-1, 2))),
    "reflect": lambda x: (
        F.pad(x, (2, 1), mode="reflect"),
        F.pad(x, (2, 3), mode="replicate"),
        F.pad(x, (1, 2), mode="circular"),
    ),
    "squeeze": lambda x: x[:1].squeeze(0).unsqueeze(-1),
    "as_strided": lambda x: x.as_strided((3, 2), (5, 1), 4),
    "rot90": lambda x: torch.rot90(x, 1, (0, 1)),
    "slice_scatter": lambda x: torch.slice_scatter(x, torch.zeros(2, 3, 2), 2, 1, 5, 2),
    "slice_scatter of nothing": lambda x: torch.slice_scatter(x[..., :0], torch.zeros(2, 3, 0), 2),
    "select_scatter": lambda x: torch.select_scatter(x, torch.ones(2, 5), 1, -1),
}


def test_views() -> None:
    check(VIEWS, randn(2, 3, 5))


REDUCTIONS = {
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((0, -1), keepdim=True)),
    "mean": lambda x: (x.mean(), x.mean((1, 2))),
    "prod": lambda x: (x.prod(), x.prod(1, keepdim=True)),
    "extremes": lambda x: (x.amax(1), x.amin((0, 2)), x.max(), x.min()),
    "max dim": lambda x: tuple(x.max(1)) + tuple(x.min(2, keepdim=True)),
    "arg": lambda x: (x.argmax(), x.argmin(1), x.argmax(2, keepdim=True)),
    "truth": lambda x: ((x > 0).any(), (x > 0).all(1), (x > -9).all()),
    "var": lambda x: (
        x.var(),
        x.std(1),
        x.var((0, 2), correction=0),
        *torch.var_mean(x, 1),
        x.var(1, unbiased=False, keepdim=True),
    ),
    "norm": lambda x: (x.norm(), torch.linalg.vector_norm(x, 1, 1), torch.linalg.vector_norm(x, float("inf"))),
    "norm of one": lambda x: torch.linalg.vector_norm(x[:, :1], 2, -2),
    "logsumexp": lambda x: (x.logsumexp(1), torch.logsumexp(x, (0, 2), keepdim=True)),
    "running": lambda x: (x.cumsum(1), x.cumprod(2), *x.cummax(1), *x.cummin(2)),
    "sort": lambda x: (*x.sort(1), *x.sort(2, descending=True), x.argsort(0)),
    "topk": lambda x: (*x.topk(2, 1), *x.topk(3, -1, largest=False)),
    "median": lambda x: (x.median(), *x.median(1), *x.kthvalue(2, 2)),
    "softmax": lambda x: (x.softmax(1), x.log_softmax(-1), F.softmin(x, 0)),
    "cdist": lambda x: (torch.cdist(x, x[:, :2]), torch.cdist(x, x, p=1)),
}


def test_reductions() -> None:
    check(REDUCTIONS, randn(3, 4, 7))
    check({k: v for k, v in REDUCTIONS.items() if k in ("sum", "mean", "truth", "softmax")}, randn(0, 4, 7))


MATMULS = {
    "matmul": lambda a, b, v: (a @ b, b.mT @ a.mT, v @ b, a @ v, v @ v, b.mT @ v),
    "linear": lambda a, b, v: (F.linear(a, b[0].T), F.linear(a, b[0].T, torch.ones(4))),
    "bmm": lambda a, b, v: torch.bmm(a[0], b.expand(3, -1, -1)),
    "addmm": lambda a, b, v: (
        torch.addmm(torch.ones(4), a[0, 0], b[0], beta=0.5, alpha=2),
        torch.baddbmm(torch.ones(4), a[0], b.expand(3, 7, 4)),
    ),
    "einsum": lambda a, b, v: (
        torch.einsum("xbij,yjk->bik", a, b),
        torch.einsum("xbij,j->xb", a, v),
        torch.einsum("...i,i->...", a, v),
    ),
    "outer": lambda a, b, v: (
        torch.outer(v, v),
        torch.dot(v, v),
        torch.mv(a[0, 0], v),
        torch.tensordot(a, b, ([3], [1])),
    ),
    "addbmm": lambda a, b, v: torch.addbmm(torch.ones(5, 4), a[0], b.expand(3, 7, 4)),
}


def test_matmuls() -> None:
    check(MATMULS, randn(2, 3, 5, 7), randn(1, 7, 4), randn(7))


ACTIVATIONS = {
    name: getattr(F, name)
    for name in (
        *(
            "relu",
            "relu6",
            "gelu",
            "silu",
            "mish",
            "elu",
            "celu",
            "selu",
            "leaky_relu",
            "hardtanh",
            "hardsigmoid",
            "hardswish",
        ),
        *("softplus", "softsign", "logsigmoid", "tanhshrink", "hardshrink", "softshrink", "glu"),
    )
} | {
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus beta": lambda x: F.softplus(x, 2.0, 3.0),
    "elu alpha": lambda x: F.elu(x, 0.7),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.1, 0.2, 0.3])),
    "threshold": lambda x: F.threshold(x, 0.5, -1),
}


def test_activations() -> None:
    check(ACTIVATIONS, randn(5, 3, 8) * 3)


def test_normalisations() -> None:
    w, b, m, v = randn(6), randn(6), randn(6), torch.rand(6) + 0.5
    table = {
        "layer": lambda x: (F.layer_norm(x, (5, 7)), F.layer_norm(x.movedim(1, 3), (6,), w, b, 1e-3)),
        "rms": lambda x: (F.rms_norm(x, (7,)), F.rms_norm(x.movedim(1, 3), (6,), w, 1e-6)),
        "group": lambda x: F.group_norm(x, 3, w, b),
        "instance": lambda x: F.instance_norm(x, weight=w, bias=b),
        "batch": lambda x: (F.batch_norm(x, m, v, w, b), F.batch_norm(x, m.clone(), v.clone(), training=True)),
        "local": lambda x: F.local_response_norm(x, 3),
        "normalize": lambda x: F.normalize(x, dim=1),
    }
    check(table, randn(2, 6, 5, 7))


CONVOLUTIONS: dict[str, Callable[..., Any]] = {
    "plain": lambda x: F.conv2d(x, W2, B),
    "strided": lambda x: F.conv2d(x, W2, None, 2, 1, 2),
    "same": lambda x: F.conv2d(x, W2, padding="same"),
    "groups": lambda x: F.conv2d(x, W2[:, :2], groups=2),
    "one axis": lambda x: F.conv1d(x[..., 0], W2[..., 0], B, stride=3),
    "transposed": lambda x: F.conv_transpose2d(x, W2.transpose(0, 1), None, 2, 1, 1),
    "transposed groups": lambda x: F.conv_transpose2d(x, W2.reshape(4, 6, 3, 3)[:, :2], None, (1, 2), 0, 0, 2, 2),
    "max": lambda x: (
        F.max_pool2d(x, 3, 2, 1),
        F.max_pool2d(x, 2, ceil_mode=True),
        F.max_pool2d(x, (3, 2), dilation=2),
    ),
    "max places": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "average": lambda x: (
        F.avg_pool2d(x, 3, 2, 1),
        F.avg_pool2d(x, 3, 2, 1, True, False),
        F.avg_pool2d(x, 2, divisor_override=3),
    ),
    "adaptive": lambda x: (
        F.adaptive_avg_pool2d(x, (3, 4)),
        F.adaptive_max_pool2d(x, (2, 5)),
        F.adaptive_avg_pool2d(x, 1),
    ),
    "nearest": lambda x: (
        F.interpolate(x, scale_factor=2),
        F.interpolate(x, (5, 13)),
        F.interpolate(x, (7, 4), mode="nearest-exact"),
    ),
    "linear": lambda x: (
        F.interpolate(x, scale_factor=1.5, mode="bilinear"),
        F.interpolate(x, (5, 13), mode="bilinear", align_corners=True),
    ),
    "cubic": lambda x: F.interpolate(x, (5, 13), mode="bicubic"),
    "shuffle": lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x[..., :8], 4) if x.shape[2] % 4 == 0 else x),
    "unfold": lambda x: F.unfold(x, 3, padding=1, stride=2),
}
W2, B = torch.randn(6, 4, 3, 3, generator=torch.Generator().manual_seed(1)), torch.ones(6)


def test_images() -> None:
    check(CONVOLUTIONS, randn(2, 4, 11, 9))


def with_columns(x: Any, indices: Any, columns: Any) -> Any:
    y = x.clone()
    y[:, indices] = columns
    return y


INDEXING = {
    "embedding": lambda x, i: F.embedding(i, x),
    "index": lambda x, i: (x[i], x[:, i[0]], x[i, i], x[i[:, None], i], x[None, i]),
    "gather": lambda x, i: x.gather(1, i[:3] % x.shape[1]),
    "index_select": lambda x, i: x.index_select(1, i[0]),
    "take": lambda x, i: x.take(i),
    "scatter": lambda x, i: (
        x.scatter(0, i, 2.5),
        x.scatter_add(0, i, x[:3, :4]),
        x.scatter_reduce(0, i, x[:3, :4], "amax"),
    ),
    "index_put": lambda x, i: (x.index_put((i[0],), x[0]), x.index_put((i[0], i[1]), x[0, :4], accumulate=True)),
    "index_add": lambda x, i: (x.index_add(0, i[0], x[:4], alpha=2), x.index_copy(0, torch.tensor([1, 3]), x[:2])),
    "one row": lambda x, i: (
        x.index_copy(1, i[0, :1], x[:, :1]),
        x.index_add(1, i[0, :1], x[:, 2:3], alpha=2),
        with_columns(x, i[0, :1], x[:, 3:4]),
        with_columns(x, i[1, :3], x[:, :1]),
        x.index_put((i[0, :1],), x[2]),
    ),
    "masks": lambda x, i: (x.masked_fill(x > 0, -1.5), torch.where(x > 0, x, 0), x.masked_scatter(x > 0, -x)),
    "one_hot": lambda x, i: F.one_hot(i, 7),
    "compressed_rows": lambda x, i: (
        torch._convert_indices_from_coo_to_csr(i.flatten().sort()[0], 8),
        torch._convert_indices_from_coo_to_csr(i[0].sort()[0], 6, out_int32=True),
        torch._convert_indices_from_coo_to_csr(i[:0, 0], 3),
        *(
            torch._convert_indices_from_csr_to_coo(torch.tensor([0, 2, 2, 5, 12, 12]), i.flatten(), transpose=turned)
            for turned in (False, True)
        ),
    ),
    "take_along": lambda x, i: torch.take_along_dim(x, x.argsort(1), 1),
    "searchsorted": lambda x, i: (
        torch.searchsorted(torch.arange(5.0), x),
        torch.bucketize(x, torch.arange(4.0), right=True),
    ),
}


def test_indexing() -> None:
    check(INDEXING, randn(6, 7), torch.randint(0, 6, (3, 4)))


def test_factories() -> None:
    table = {
        "arange": lambda x: (
            torch.arange(5),
            torch.arange(1, 9, 3),
            torch.arange(0.5, 2, 0.25),
            torch.arange(x.shape[0]),
        ),
        "like": lambda x: (
            torch.zeros_like(x),
            torch.ones_like(x, dtype=torch.int32),
            torch.full_like(x, 3.5),
            x.new_full((2,), 7),
        ),
        "plain": lambda x: (
            torch.eye(3, 4),
            torch.full((2, 3), 2**40),
            torch.linspace(0, 1, 7),
            torch.scalar_tensor(2.5),
        ),
        "meshgrid": lambda x: torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij"),
        "tri": lambda x: torch.tril_indices(3, 4),
    }
    check(table, randn(4))


def test_attention() -> None:
    q, k, v = randn(2, 3, 5, 8), randn(2, 3, 7, 8), randn(2, 3, 7, 4)
    mask = torch.rand(2, 1, 5, 7) > 0.2
    table = {
        "plain": lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v),
        "bool": lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        "added": lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m.float(), scale=0.7),
        "causal": lambda q, k, v, m: F.scaled_dot_product_attention(q, k[:, :, :5], v[:, :, :5], is_causal=True),
        "three axes": lambda q, k, v, m: F.scaled_dot_product_attention(q[0], k[0], v[0]),
        "grouped": lambda q, k, v, m: F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True),
        "no heads": lambda q, k, v, m: F.scaled_dot_product_attention(q[:, :0], k[:, :0], v[:, :0], enable_gqa=True),
    }
    if release("torch") < (2, 13):
        del table["no heads"]  # torch 2.11 divides by the number of key heads: SIGFPE
    check(table, q, k, v, mask)


def test_sizes_that_vary() -> None:
    table = {
        "flatten": lambda x, y: (x.flatten(1), x.reshape(x.shape[0], -1, 2, 4).transpose(1, 2)),
        "sizes as numbers": lambda x, y: x * x.shape[1] + x.shape[0] // 2 + x.numel() % 5,
        "arange": lambda x, y: torch.arange(x.shape[1]) + x[0, :, 0],
        "cat": lambda x, y: torch.cat([x, y], 1),
        "slices": lambda x, y: (x[:, 1:], x[:, : x.shape[1] // 2], x[:, -2:]),
        "full": lambda x, y: torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1),
        "sum": lambda x, y: (x.mean((0, 1)), x.var(1), x.softmax(1), x.cumsum(1), x.sort(1)[0]),
        "matmul": lambda x, y: x @ y.mT,
        "conv": lambda x, y: F.conv1d(x.mT, torch.ones(3, 8, 3), stride=2, padding=1),
        "pool": lambda x, y: (F.avg_pool1d(x.mT, 3, 2, 1), F.max_pool2d(x.mT, 2, ceil_mode=True), F.avg_pool2d(x, 2)),
        "interpolate": lambda x, y: (
            F.interpolate(x.mT, scale_factor=2.0),
            F.interpolate(x.mT, y.shape[1], mode="linear"),
        ),
        "pad": lambda x, y: F.pad(x, (0, 0, 1, 2)),
        "repeat": lambda x, y: x.repeat(1, 2, 1),
        "expand": lambda x, y: x[:, :1].expand(-1, y.shape[1], -1) + y,
        "unfold": lambda x, y: x.unfold(1, 2, 1),
    }
    if release("torch") < (2, 13):
        del table["pool"]  # torch 2.11 guards on remainders of the length: its own program refuses these lengths
    sizes = (
        (3, 6, 5),
        (2, 3, 4),
        (1, 11, 7),
        (5, 3, 3),
    )  # a length of 2 is none that torch takes: length - 1 would be 1
    first, *others = [(randn(b, s, 8), randn(b, t, 8)) for b, s, t in sizes]
    named = Named(table)
    compiled = compile_module(named, first, dynamic={"x": {0: "batch", 1: "length"}, "y": {0: "batch", 1: "other"}})
    for given in (first, *others):
        compare(table, named(*given), compiled(*given))


class Named(Together):
    def forward(self, x: Any, y: Any) -> Any:
        return {name: function(x, y) for name, function in self.functions.items()}
