"""Single kernels: memory-bound ones, matmuls, attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import ml_dtypes
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import burn
from burn import ops
from burn.runtime.device import device
from burn.runtime.device_array import resident, to_device
from rows.timing import Goal, Row, by_turns, difference, on_burns_gpu, on_gpu

TOLERANCE = 0.05
"""Of the largest number: bfloat16 keeps 8 bits, and sums differ."""

OF_A_COPY = 0.85
OF_MATMULS = 0.9
OF_ATTENTION = 0.85

ROWS, COLUMNS = 8192, 4096

f = torch.nn.functional


def cases() -> dict[str, Callable[[], Row]]:
    found: dict[str, Callable[[], Row]] = {"copy": copy_row}
    found |= {name: partial(memory_bound, name, *case) for name, case in MEMORY_BOUND.items()}
    found |= {f"product bf16 {n} cubed": partial(matmul, n) for n in (4096, 8192)}
    found |= {f"product float8 e4m3 {n} cubed": partial(int8_matmul, n, None) for n in (4096, 8192)}
    found |= {f"product float8 e4m3 {n} cubed, fast sums": partial(int8_matmul, n, "fast") for n in (4096, 8192)}
    for depth in (64, 128):
        found[f"attention bf16, causal, 16k tokens, 16 heads of {depth}"] = partial(attention, depth)
        found[f"attention's gradients, heads of {depth}"] = partial(attention_gradients, depth)
    found["attention bf16 of one query, 16k keys, 32 heads of 128 on 8"] = one_query
    return found


def half(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def row(
    name: str,
    function: Callable[..., Any],
    peers: Mapping[str, Callable[..., Any]],
    *tensors: torch.Tensor,
    work: float,
    unit: str,
) -> Row:
    """Raises AssertionError where burn's results are not those of the first peer."""
    types = [f"{str(t.dtype).removeprefix('torch.')}[{', '.join(map(str, t.shape))}]" for t in tensors]
    compiled = burn.compile(function, types, cache=False, device="cuda")
    error = difference(compiled(*tensors), next(iter(peers.values()))(*tensors))
    assert error < TOLERANCE, f"{name} differs by {error}"
    arrays = [resident(t, device("cuda")) for t in tensors]
    calls = {"burn": lambda: compiled(*arrays), **{peer: partial(call, *tensors) for peer, call in peers.items()}}
    times = by_turns(calls, on_gpu, on_burns_gpu)
    return Row(name, times.pop("burn"), times, work, unit)


# ---- bound by memory -----------------------------------------------------------------------------------------------------


@cache
def copy_seconds() -> float:
    x = half(ROWS, COLUMNS)
    return by_turns({"copy": lambda: x.clone()}, on_gpu, on_gpu)["copy"]


def copy_row() -> Row:
    return Row(
        f"copy {ROWS}x{COLUMNS} bf16 (torch's clone)",
        copy_seconds(),
        {"torch": copy_seconds()},
        4 * ROWS * COLUMNS,
        "GB/s",
    )


def gated(x: Any, w: Any, z: Any) -> Any:
    """RMSNorm with SiLU, as gated layers have them."""
    return ops.rms_norm(x, w, axis=-1, epsilon=1e-5) * burn.silu(z)


def gated_by_torch(x: torch.Tensor, w: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return f.rms_norm(x, (COLUMNS,), w, 1e-5) * f.silu(z)


def back(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of all arguments, for that of the result, which comes last."""
    return lambda *given: burn.vjp(function, *given[:-1])[1](given[-1])


def back_by_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: torch.func.vjp(function, *given[:-1])[1](given[-1])


def _normed(x: Any, w: Any, b: Any) -> Any:
    return ops.layer_norm(x, w, b, axis=-1, epsilon=1e-5)


def _normed_by_torch(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return f.layer_norm(x, (COLUMNS,), w, b)


_GELU = (lambda x: burn.gelu(x), lambda x: f.gelu(x))
_SOFTMAX = (lambda x: burn.softmax(x, axis=-1), lambda x: f.softmax(x, -1))

MEMORY_BOUND: Mapping[str, tuple[Any, Any, str, float]] = {
    "gelu": (*_GELU, "x", 2),
    "softmax": (*_SOFTMAX, "x", 2),
    "layer norm": (_normed, _normed_by_torch, "xww", 2),
    "RMSNorm with SiLU": (gated, gated_by_torch, "xwx", 3),
    "gelu's gradient": (back(_GELU[0]), back_by_torch(_GELU[1]), "xx", 3),
    "softmax's gradient": (back(_SOFTMAX[0]), back_by_torch(_SOFTMAX[1]), "xx", 3),
    "layer norm's gradients": (back(_normed), back_by_torch(_normed_by_torch), "xwwx", 3),
    "RMSNorm with SiLU's gradients": (back(gated), back_by_torch(gated_by_torch), "xwxx", 5),
    "sum over rows": (lambda x: x.sum(0), lambda x: x.sum(0), "x", 1),
    "transpose": (lambda x: x.T + 0, lambda x: x.T.contiguous(), "x", 2),
}
"""burn's and torch's function, its arguments (x: a tensor, w: a row) and how often it must move a tensor's bytes."""


def memory_bound(name: str, function: Any, peer: Any, arguments: str, moves: float) -> Row:
    given = [half(COLUMNS) if kind == "w" else half(ROWS, COLUMNS) for kind in arguments]
    work = moves * 2 * ROWS * COLUMNS
    made = row(name, function, {"torch": peer, "torch.compile": torch.compile(peer)}, *given, work=work, unit="GB/s")
    made.goals.append(Goal("a copy", moves / 2 * copy_seconds() / made.burn, OF_A_COPY))
    made.of_peers("torch.compile", 1.0, "torch.compile")
    return made


# ---- matmuls -------------------------------------------------------------------------------------------------------------


def matmul(n: int) -> Row:
    peers = {"torch": torch.matmul, "torch.compile": torch.compile(torch.matmul)}
    made = row(f"product bf16 {n} cubed", lambda a, b: a @ b, peers, half(n, n), half(n, n), work=2 * n**3, unit="TF/s")
    made.of_peers("cuBLAS", OF_MATMULS, "torch")
    return made


def int8_matmul(n: int, sums: str | None) -> Row:
    """A matmul of 8-bit floats, with the contracted axis innermost in both operands, as in torch; both give bfloat16. sums:
    "fast" is torch's `use_fast_accum`, which is not the default."""
    x, y = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    turned = y.T.contiguous()
    arrays = [to_device(t.cpu().view(torch.uint8).numpy().view(ml_dtypes.float8_e4m3fn), "cuda") for t in (x, turned)]
    compiled = burn.compile(
        lambda x, y: ops.dot_general(x, y, lhs_contract=(1,), rhs_contract=(1,), dtype="bfloat16", sums=sums),
        [f"float8_e4m3fn[{n}, {n}]"] * 2,
        cache=False,
        device="cuda",
    )
    one = torch.ones((), device="cuda")
    scaled = torch._scaled_mm  # pyright: ignore[reportPrivateImportUsage]  # torch has no public one
    error = difference(torch.from_dlpack(compiled(*arrays)), x.float() @ y.float())
    assert error < TOLERANCE, f"the product differs by {error}"
    wide = half(n, n)
    calls = {
        "burn": lambda: compiled(*arrays),
        "torch": lambda: scaled(x, turned.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=sums == "fast"),
        "bf16": lambda: wide @ wide,
    }
    times = by_turns(calls, on_gpu, on_burns_gpu)
    wide_seconds = times.pop("bf16")
    name = f"product float8 e4m3 {n} cubed{', fast sums' if sums else ''} (torch's _scaled_mm)"
    made = Row(name, times.pop("burn"), times, 2 * n**3, "TF/s")
    made.goals.append(Goal("cuBLAS in bf16", wide_seconds / made.burn, 1.5))
    return made


# ---- attention -----------------------------------------------------------------------------------------------------------

BACK_ENDS = {"torch": SDPBackend.FLASH_ATTENTION, "torch cuDNN": SDPBackend.CUDNN_ATTENTION}
TOKENS, HEADS = 16384, 16


def attention(depth: int) -> Row:
    def ours(q: Any, k: Any, v: Any) -> Any:
        return ops.attention(q, k, v, None, None, scale=depth**-0.5, causal=True, offset=0)

    def theirs(end: SDPBackend, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(end):
            return f.scaled_dot_product_attention(q, k, v, is_causal=True)

    name = f"attention bf16, causal, 16k tokens, 16 heads of {depth}"
    given = [half(1, HEADS, TOKENS, depth) for _ in range(3)]
    peers = {peer: partial(theirs, end) for peer, end in BACK_ENDS.items()}
    made = row(name, ours, peers, *given, work=2 * HEADS * TOKENS**2 * depth, unit="TF/s")
    made.of_peers("torch's best", OF_ATTENTION, *BACK_ENDS)
    return made


def attention_gradients(depth: int) -> Row:
    def ours(q: Any, k: Any, v: Any) -> Any:
        return ops.attention(q, k, v, None, None, scale=depth**-0.5, causal=True)

    def theirs(end: SDPBackend, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *operands, g = given
        with torch.enable_grad(), sdpa_kernel(end):
            leaves = [x.detach().requires_grad_() for x in operands]
            q, k, v = leaves
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            return torch.autograd.grad(y, leaves, g)

    given = [half(1, HEADS, TOKENS, depth) for _ in range(4)]
    peers = {peer: partial(theirs, end) for peer, end in BACK_ENDS.items()}
    name = f"the same and its gradients, heads of {depth}"
    made = row(name, back(ours), peers, *given, work=7 * HEADS * TOKENS**2 * depth, unit="TF/s")
    made.of_peers("torch's best", OF_ATTENTION, *BACK_ENDS)
    return made


def one_query() -> Row:
    given = [half(1, heads, n, 128) for heads, n in ((32, 1), (8, TOKENS), (8, TOKENS))]
    made = row(
        "attention bf16 of one query, 16k keys, 32 heads of 128 on 8",
        lambda q, k, v: ops.attention(q, k, v, None, None, scale=128**-0.5),
        {"torch": lambda q, k, v: f.scaled_dot_product_attention(q, k, v, enable_gqa=True)},
        *given,
        work=2 * 2 * 8 * TOKENS * 128,
        unit="GB/s",
    )
    made.of_peers("torch's best", OF_ATTENTION, "torch")
    return made
