"""burn on WebGPU beside burn on CUDA, in float32 without tensor cores: the models of benchmarks/gpu.md.

    python benchmarks/webgpu.py                          # all models: times, and the difference of the results
    python benchmarks/webgpu.py --model BERT --kernels 12    # one, with the kernels that take most of its time
    python benchmarks/webgpu.py --small --peer cpu       # small models; without a GPU

Needs PyTorch, torchvision and transformers; small models need PyTorch alone. Weights are random. A time is that of a call with
inputs on the device, until its results are there: the median of alternating calls. Kernels are timed by the GPU's clock.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import burn
from burn.runtime.device import device

TURNS, CALLS = 3, 10


class First(torch.nn.Module):
    """The first of a model's results."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)[0]


def words(batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, 30000, (batch, length))


def images(batch: int) -> torch.Tensor:
    return torch.randn(batch, 3, 224, 224)


def models() -> dict[str, Callable[[], tuple[torch.nn.Module, torch.Tensor]]]:
    from torchvision.models import mobilenet_v2, resnet50
    from transformers import BertConfig, BertModel, ViTConfig, ViTModel

    def bert() -> torch.nn.Module:
        return First(BertModel(BertConfig(), add_pooling_layer=False))

    return {
        "BERT-base 1x128": lambda: (bert(), words(1, 128)),
        "BERT-base 32x128": lambda: (bert(), words(32, 128)),
        "ResNet-50 1": lambda: (resnet50(), images(1)),
        "ResNet-50 64": lambda: (resnet50(), images(64)),
        "ViT-base 32": lambda: (First(ViTModel(ViTConfig(), add_pooling_layer=False)), images(32)),
        "MobileNetV2 1": lambda: (mobilenet_v2(), images(1)),
        "MobileNetV2 32": lambda: (mobilenet_v2(), images(32)),
    }


def small() -> dict[str, Callable[[], tuple[torch.nn.Module, torch.Tensor]]]:
    def encoder() -> tuple[torch.nn.Module, torch.Tensor]:
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        return torch.nn.TransformerEncoder(layer, 2), torch.randn(2, 33, 64)

    def convolutions() -> tuple[torch.nn.Module, torch.Tensor]:
        layers = [torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.ReLU(), torch.nn.Conv2d(16, 24, 3, 1, 1), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers), torch.randn(2, 3, 33, 33)

    return {"encoder": encoder, "convolutions": convolutions}


def timed(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Milliseconds of a call of each, alternating. The key is the device that a call uses."""
    for name, call in calls.items():
        for _ in range(3):
            call()
        device(name).wait()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            for _ in range(CALLS):
                start = time.perf_counter()
                call()
                device(name).wait()
                found[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(times) for name, times in found.items()}


def measure(name: str, module: torch.nn.Module, x: torch.Tensor, peer: str, kernels: int) -> None:
    calls: dict[str, Callable[[], Any]] = {}
    results, compiling = {}, {}
    for where in ("wgpu", peer):
        start = time.perf_counter()
        compiled = burn.compile(module, (x,), cache=False, device=where, exact=True).executable
        given = burn.tensor(x.numpy()).to(where)
        results[where] = np.asarray(compiled(given))
        compiling[where] = time.perf_counter() - start
        calls[where] = lambda compiled=compiled, given=given: compiled(given)
        if where == "wgpu":
            on_wgpu = compiled
    got, want = results["wgpu"], results[peer]
    error = float(np.abs(got - want).max() / np.abs(want).max())
    times = timed(calls)
    shown = ", ".join(
        f"{where} {each:.3f} ms (first result after {compiling[where]:.1f} s)" for where, each in times.items()
    )
    print(f"{name}: {shown}, ratio {times['wgpu'] / times[peer]:.2f}, difference {error:.1e}", flush=True)
    if kernels:
        profile = on_wgpu.profile(x.numpy(), repeat=3)
        print(f"  kernels {1e3 * profile.seconds:.3f} ms")
        for row in sorted(profile.rows, key=lambda row: -row.seconds)[:kernels]:
            rate = f"{row.gflops_per_second or 0:.0f} GFLOP/s, {row.gigabytes_per_second or 0:.0f} GB/s"
            print(
                f"  {1e3 * row.seconds:8.3f} ms, {row.calls:g} calls, {row.kernel.kind}, {rate}: {row.kernel.name[:100]}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="models whose names contain it")
    parser.add_argument("--peer", default="cuda", help="the device beside wgpu")
    parser.add_argument("--kernels", type=int, default=0, help="how many kernels of each model to list")
    parser.add_argument("--small", action="store_true", help="small models, for a device that is no GPU")
    arguments = parser.parse_args()
    print(device("wgpu").facts())
    for name, make in (small() if arguments.small else models()).items():
        if arguments.model in name:
            torch.manual_seed(0)
            module, x = make()
            measure(name, module.eval(), x, arguments.peer, arguments.kernels)


if __name__ == "__main__":
    main()
