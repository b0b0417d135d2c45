"""Gradients of each example: burn.vmap of burn.grad, beside torch.func, jax.vmap, and burn's program of one example in a loop.

    python -m benchmarks.per_example --batch 64 --threads 2

All compute the same gradients of a small convolutional network, and the script refuses to print times if they differ. Engines are
timed in interleaved rounds in one process; a row has the median and the fastest round. With `--cpu` times are CPU seconds of the
process, for machines that other processes use.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Gradients = Mapping[str, np.ndarray]
Engine = Callable[[], Any]


def parameters(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Two convolutions [out, in, k, k] and two layers [in, out], with biases."""
    shapes = {"c1": (16, 1, 3, 3), "c2": (32, 16, 3, 3), "w3": (800, 64), "w4": (64, 10)}
    found = {name: rng.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5 for name, shape in shapes.items()}
    found |= {"b1": np.zeros(16), "b2": np.zeros(32), "b3": np.zeros(64), "b4": np.zeros(10)}
    return {name: value.astype(np.float32) for name, value in found.items()}


def by_burn(p: Gradients, images: np.ndarray, labels: np.ndarray) -> tuple[Engine, Engine]:
    """The mapped program, and the loop."""
    import burn
    from burn import nn, ops

    options: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "low": (0, 0), "high": (0, 0)}
    pool = nn.MaxPool2d(2)

    def loss(p: Any, image: Any, label: Any) -> Any:
        x = pool((ops.conv(image[None], p["c1"], **options) + p["b1"].reshape(16, 1, 1)).relu())
        x = pool((ops.conv(x, p["c2"], **options) + p["b2"].reshape(32, 1, 1)).relu())
        x = (x.reshape(1, 800) @ p["w3"] + p["b3"]).relu()
        return nn.CrossEntropyLoss()(x @ p["w4"] + p["b4"], label[None])

    mapped, single = burn.jit(burn.vmap(burn.grad(loss), (None, 0, 0))), burn.jit(burn.grad(loss))

    def looped() -> dict[str, np.ndarray]:
        rows = [single(p, image, label) for image, label in zip(images, labels, strict=True)]
        return {name: np.stack([row[name] for row in rows]) for name in p}

    return lambda: mapped(p, images, labels), looped


def by_torch(p: Gradients, images: np.ndarray, labels: np.ndarray) -> Engine:
    import torch
    import torch.nn.functional as F

    def loss(p: Any, image: Any, label: Any) -> Any:
        x = F.max_pool2d(F.conv2d(image[None], p["c1"], p["b1"]).relu(), 2)
        x = F.max_pool2d(F.conv2d(x, p["c2"], p["b2"]).relu(), 2)
        x = (x.reshape(1, 800) @ p["w3"] + p["b3"]).relu()
        return F.cross_entropy(x @ p["w4"] + p["b4"], label[None])

    mapped = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    given = {name: torch.tensor(value) for name, value in p.items()}, torch.tensor(images), torch.tensor(labels)
    return lambda: mapped(*given)


def by_jax(p: Gradients, images: np.ndarray, labels: np.ndarray) -> Engine:
    import jax
    import jax.numpy as jnp

    def block(x: Any, weight: Any, bias: Any) -> Any:
        x = jax.nn.relu(jax.lax.conv(x, weight, (1, 1), "VALID") + bias[:, None, None])
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def loss(p: Any, image: Any, label: Any) -> Any:
        x = block(block(image[None], p["c1"], p["b1"]), p["c2"], p["b2"])
        x = jax.nn.relu(x.reshape(1, 800) @ p["w3"] + p["b3"])
        return -jax.nn.log_softmax((x @ p["w4"] + p["b4"])[0])[label]

    mapped = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))
    given = jax.tree.map(jnp.asarray, dict(p)), jnp.asarray(images), jnp.asarray(labels)
    return lambda: jax.block_until_ready(mapped(*given))


def engines(batch: int, names: list[str]) -> dict[str, Engine]:
    rng = np.random.default_rng(0)
    p = parameters(rng)
    images = rng.standard_normal((batch, 1, 28, 28)).astype(np.float32)
    labels = rng.integers(0, 10, batch)
    mapped, looped = by_burn(p, images, labels)
    known: dict[str, Callable[[], Engine]] = {
        "burn.vmap": lambda: mapped,
        "burn, a loop": lambda: looped,
        "torch.func": lambda: by_torch(p, images, labels),
        "jax.vmap": lambda: by_jax(p, images, labels),
    }
    return {name: make() for name, make in known.items() if not names or name in names}


def check(found: dict[str, Engine]) -> None:
    """Raises AssertionError unless all engines give the gradients of the first."""
    first, *rest = found.items()
    want = {name: np.asarray(g) for name, g in first[1]().items()}
    for engine, run in rest:
        for name, g in run().items():
            atol = 1e-4 * float(np.abs(want[name]).max())
            np.testing.assert_allclose(np.asarray(g), want[name], rtol=1e-3, atol=atol, err_msg=f"{engine}, {name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.per_example", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--batch", type=int, default=64, help="examples (default 64)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of burn and torch (default all)")
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds (default 15)")
    parser.add_argument(
        "--engines", nargs="*", default=[], help="burn.vmap, 'burn, a loop', torch.func, jax.vmap (default all)"
    )
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of the process in place of elapsed ones")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    import burn

    burn.set_num_threads(options.threads)
    found = engines(options.batch, options.engines)
    if "torch.func" in found:
        import torch

        torch.set_num_threads(options.threads)
    check(found)
    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(options.rounds):
        for name, run in found.items():
            start = clock()
            run()
            times[name].append((clock() - start) * 1e3)
    base = statistics.median(next(iter(times.values())))
    print(f"gradients of each of {options.batch} examples, ms{' of CPU' * options.cpu}\n")
    print("| engine | median | fastest | to the first |", "| --- | --- | --- | --- |", sep="\n")
    for name, all_ in times.items():
        print(f"| {name} | {statistics.median(all_):.1f} | {min(all_):.1f} | {statistics.median(all_) / base:.2f} |")


if __name__ == "__main__":
    main()
