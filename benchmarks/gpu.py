"""burn on a card beside PyTorch: kernels, whole models and training steps, by turns in one process. Writes benchmarks/gpu.md.

    python benchmarks/gpu.py --output benchmarks/gpu.md
    python benchmarks/gpu.py --part training --model bert-base --peers burn,torch     # a part of it

Needs a card, PyTorch for it, torchvision and transformers. A kernel's time is that of many calls in a row between two moments
of the card's own clock, for both sides alike; a model's is a call's on the host's clock, from tensors on the card to tensors on
the card, waited for. Medians over turns.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import torch

import burn
from burn import ops
from burn.bench.interleave import Plan
from burn.bench.training import Setting, measure
from burn.bench.twins import CARD_CASES
from burn.runtime.card import resident, to_card
from burn.runtime.device import device

PARTS = ("kernels", "models", "training")
TURNS = 7
CALLS = 20


@dataclass
class Row:
    """work: floating-point operations or bytes, in `unit`'s thousand-millionths."""

    name: str
    burn: float
    peers: dict[str, float]
    work: float = 0.0
    unit: str = ""


def on_card(call: Callable[[], Any]) -> float:
    """Seconds a call, on the card's clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / CALLS


def on_burns_card(call: Callable[[], Any]) -> float:
    """The same, on burn's own stream."""
    card = device("cuda").native
    start = card.mark()
    for _ in range(CALLS):
        call()
    return card.mark().since(start) / 1e9 / CALLS


def waited(call: Callable[[], Any]) -> float:
    """Seconds a call, until its results are there."""
    times = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


Measure = Callable[[Callable[[], Any]], float]


def by_turns(calls: dict[str, Callable[[], Any]], measure: Measure, own: Measure) -> dict[str, float]:
    """own: how burn's calls are measured."""
    for call in calls.values():
        for _ in range(4):
            call()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            found[name].append((own if name == "burn" else measure)(call))
    return {name: statistics.median(times) for name, times in found.items()}


def kernel(
    name: str, function: Any, peer: Any, *tensors: torch.Tensor, work: float, unit: str, compiles: bool = True
) -> Row:
    """compiles: whether torch.compile is a peer too."""
    compiled = burn.compile(function, [_type(t) for t in tensors], cache=False, device="cuda")
    cuda = device("cuda")
    arrays = [resident(t, cuda) for t in tensors]
    calls = {"burn": lambda: compiled(*arrays), "torch": lambda: peer(*tensors)}
    if compiles:
        fast = torch.compile(peer)
        calls["torch.compile"] = lambda: fast(*tensors)
    results = (compiled(*tensors), peer(*tensors))
    got, want = (x if isinstance(x, (tuple, list)) else (x,) for x in results)
    for x, y in zip(got, want, strict=True):
        error = ((x.float() - y.float()).abs().max() / y.float().abs().max()).item()
        assert error < 0.05, f"{name}: {error}"
    times = by_turns(calls, on_card, on_burns_card)
    return Row(name, times.pop("burn"), times, work, unit)


def product_of_bytes(n: int) -> Row:
    """A product of 8-bit floats. torch's takes the right side turned; both give bfloat16."""
    x, y = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    arrays = [to_card(t.cpu().view(torch.uint8).numpy().view(ml_dtypes.float8_e4m3fn), "cuda") for t in (x, y)]
    compiled = burn.compile(
        lambda x, y: ops.dot_general(x, y, lhs_contract=(1,), rhs_contract=(0,), dtype="bfloat16"),
        [f"float8_e4m3fn[{n}, {n}]"] * 2,
        cache=False,
        device="cuda",
    )
    one, turned = torch.ones((), device="cuda"), y.T.contiguous().T
    scaled = torch._scaled_mm  # pyright: ignore[reportPrivateImportUsage]  # torch has no public one

    def peer() -> torch.Tensor:
        return scaled(x, turned, one, one, out_dtype=torch.bfloat16)

    got, want = torch.from_dlpack(compiled(*arrays)).float(), x.float() @ y.float()
    error = ((got - want).abs().max() / want.abs().max()).item()
    assert error < 0.05, f"product of bytes: {error}"
    times = by_turns({"burn": lambda: compiled(*arrays), "torch": peer}, on_card, on_burns_card)
    return Row(f"product float8 e4m3 {n} cubed (torch's _scaled_mm)", times.pop("burn"), times, 2 * n**3, "TF/s")


def _type(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]"


def kernels() -> list[Row]:
    f = torch.nn.functional
    rows = []

    def half(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    x = half(8192, 4096)
    both = 2 * x.numel() * 2
    copied = statistics.median(on_card(lambda: x.clone()) for _ in range(TURNS))
    rows.append(Row("copy 8192x4096 bf16 (torch's clone)", copied, {"torch": copied}, both, "GB/s"))
    rows.append(kernel("gelu", lambda x: burn.gelu(x), lambda x: f.gelu(x), x, work=both, unit="GB/s"))
    rows.append(
        kernel("softmax", lambda x: burn.softmax(x, axis=-1), lambda x: f.softmax(x, -1), x, work=both, unit="GB/s")
    )
    w, b = half(4096), half(4096)
    rows.append(
        kernel(
            "layer norm",
            lambda x, w, b: ops.layer_norm(x, w, b, axis=-1, epsilon=1e-5),
            lambda x, w, b: f.layer_norm(x, (4096,), w, b),
            *(x, w, b),
            work=both,
            unit="GB/s",
        )
    )
    rows.append(kernel("sum over rows", lambda x: x.sum(0), lambda x: x.sum(0), x, work=both / 2, unit="GB/s"))
    turned = kernel("transpose", lambda x: x.T + 0, lambda x: x.T.contiguous(), x, work=both, unit="GB/s")
    rows.append(turned)
    for n in (4096, 8192):
        a, c = half(n, n), half(n, n)
        rows.append(
            kernel(f"product bf16 {n} cubed", lambda a, b: a @ b, lambda a, b: a @ b, a, c, work=2 * n**3, unit="TF/s")
        )
    for depth in (64, 128):
        q, k, v = (half(1, 16, 16384, depth) for _ in range(3))
        rows.append(
            kernel(
                f"attention bf16, causal, 16k tokens, 16 heads of {depth}",
                lambda q, k, v, d=depth: ops.attention(q, k, v, None, None, scale=d**-0.5, causal=True, offset=0),
                lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
                *(q, k, v),
                work=2 * 16 * 16384**2 * depth,
                unit="TF/s",
            )
        )
    for depth in (64, 128):
        rows.append(
            kernel(
                f"the same and its gradients, heads of {depth}",
                lambda q, k, v, g, d=depth: burn.vjp(
                    lambda q, k, v: ops.attention(q, k, v, None, None, scale=d**-0.5, causal=True), q, k, v
                )[1](g),
                attention_gradients,
                *(half(1, 16, 16384, depth) for _ in range(4)),
                work=7 * 16 * 16384**2 * depth,
                unit="TF/s",
                compiles=False,
            )
        )
    cache = [half(1, heads, n, 128) for heads, n in ((32, 1), (8, 16384), (8, 16384))]
    rows.append(
        kernel(
            "attention bf16 of one query, 16k keys, 32 heads of 128 on 8",
            lambda q, k, v: ops.attention(q, k, v, None, None, scale=128**-0.5),
            lambda q, k, v: f.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            *cache,
            work=2 * 2 * 8 * 16384 * 128,
            unit="GB/s",
        )
    )
    return [*rows, *(product_of_bytes(n) for n in (4096, 8192))]


def attention_gradients(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return torch.autograd.grad(y, (q, k, v), g)


# ---- models --------------------------------------------------------------------------------------------------------------


class First(torch.nn.Module):
    """The first of a model's results."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)[0]


def models() -> list[Row]:
    from torchvision.models import resnet50
    from transformers import BertConfig, BertModel, ViTConfig, ViTModel

    def words(batch: int, length: int) -> torch.Tensor:
        return torch.randint(0, 30000, (batch, length), device="cuda")

    def images(batch: int) -> torch.Tensor:
        return torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.float16)

    bert = First(BertModel(BertConfig(), add_pooling_layer=False))
    vit = First(ViTModel(ViTConfig(), add_pooling_layer=False))
    resnet = resnet50()
    cases = [
        ("BERT-base fp16 1x128", bert, words(1, 128)),
        ("BERT-base fp16 32x128", bert, words(32, 128)),
        ("ResNet-50 fp16 1", resnet, images(1)),
        ("ResNet-50 fp16 64", resnet, images(64)),
        ("ViT-base fp16 32", vit, images(32)),
    ]
    return [row for name, module, x in cases for row in model(name, module.half().eval(), x)]


def model(name: str, module: torch.nn.Module, x: torch.Tensor) -> list[Row]:
    try:
        start = time.perf_counter()
        compiled = burn.compile(module.cpu(), (x.cpu(),), cache=False, device="cuda")
        seconds = time.perf_counter() - start
        module = module.cuda()
        fast = torch.compile(module, mode="reduce-overhead")
        got, want = compiled(x), module(x)
        error = ((got.float() - want.float()).abs().max() / want.float().abs().max()).item()
        calls = {"burn": lambda: compiled(x), "torch": lambda: module(x), "torch.compile": lambda: fast(x)}
        times = by_turns(calls, waited, waited)
    except Exception as error:  # the other models are timed all the same
        print(f"{name}: {type(error).__name__}: {error}"[:600], flush=True)
        return []
    print(f"{name}: compiled in {seconds:.1f} s, differs by {error:.1e}: {times}", flush=True)
    return [Row(f"{name} (compiled in {seconds:.1f} s)", times.pop("burn"), times)]


# ---- training ------------------------------------------------------------------------------------------------------------


def training(names: Sequence[str], peers: list[str]) -> list[Row]:
    """Steps in bfloat16, with products alone in it, from the same weights, whose losses agree."""
    setting, rows = Setting(threads=8, device="cuda", precision="bfloat16"), []
    for name in names:
        try:
            with torch.enable_grad():
                found = measure(name, peers, setting, Plan(runs=8, rounds=2), memory=False)
        except Exception as error:  # the other models are timed all the same
            print(f"{name}: {type(error).__name__}: {error}"[:600], flush=True)
            continue
        times = {peer: timing.median for peer, timing in found.timings.items()}
        print(f"{name}: {times}, losses {found.losses}", flush=True)
        shape = "x".join(map(str, CARD_CASES[name].shape))
        rows.append(Row(f"{name} {shape}", times.pop("burn"), times))
    return rows


def table(rows: list[Row]) -> str:
    names = ["", "burn", "torch", "torch.compile", "burn reaches", "faster than the better"]
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    for row in rows:
        rate = f"{row.work / row.burn / (1e9 if row.unit == 'GB/s' else 1e12):.0f} {row.unit}" if row.unit else ""
        theirs = (row.peers.get(peer, float("nan")) for peer in ("torch", "torch.compile"))
        times = [f"{t * 1e3:.3f} ms" for t in (row.burn, *theirs)]
        lines.append(f"| {row.name} | {' | '.join(times)} | {rate} | {min(row.peers.values()) / row.burn:.2f} x |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="where to write the tables")
    parser.add_argument("--part", action="append", choices=PARTS, help="only that; repeatable")
    parser.add_argument(
        "--model", action="append", choices=list(CARD_CASES), help="of those that are trained; repeatable"
    )
    parser.add_argument("--peers", default="burn,torch,torch.compile", help="what trains")
    args = parser.parse_args()
    wanted = args.part or PARTS
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    facts = device("cuda").facts()
    parts = [
        "# burn on a card, beside PyTorch",
        f"Written by `python benchmarks/gpu.py` on {datetime.date.today()}: {facts['name']}, driver's interface "
        f"{facts['driver'] // 1000}.{facts['driver'] % 1000 // 10}, PyTorch {torch.__version__.split('+')[0]}. Smaller is "
        "better; the last column is the better of torch's times over burn's.",
    ]
    if "kernels" in wanted:
        parts += ["## Kernels\n\nMany calls in a row, on the card's clock.", table(kernels())]
    if "models" in wanted:
        about = "One call, waited for, from tensors on the card to tensors on the card; `torch.compile` in its mode "
        parts += [f"## Models\n\n{about}`reduce-overhead`.", table(models())]
    if "training" in wanted:
        about = (
            "A step of AdamW in bfloat16 (torch: autocast, fused AdamW), until its loss is read (`burn-bench train`)."
        )
        rows = training(args.model or list(CARD_CASES), args.peers.split(","))
        parts += [f"## Training\n\n{about}", table(rows)]
    text = "\n\n".join(parts) + "\n"
    print(text)
    if args.output:
        args.output.write_text(text)


if __name__ == "__main__":
    main()
