"""torch's own sample inputs (OpInfo) through the importer: `python -m tests.importers.torch.opinfo [-n 2] [names...]`.

Prints one line an operator, and at the end how many agree with eager torch, are refused, or are wrong. Needs the package
expecttest. Not part of the test
run: it takes minutes. A sample that eager torch refuses, or that torch.export cannot write down, does not count.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from burn.errors import BurnError
from burn.importers.torch import compile_module

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-7, torch.bfloat16: 3e-2, torch.float16: 5e-3}


class Call(torch.nn.Module):
    """One operator with a sample's arguments; the tensors among them are inputs."""

    def __init__(self, function: Any, sample: Any) -> None:
        super().__init__()
        self.function = function
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[i].detach().clone() for i in self.places]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        x, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return [t for t in pytree.tree_leaves(self.function(x, *args, **kwargs)) if isinstance(t, torch.Tensor)]


def outcome(call: Call) -> tuple[str, str]:
    """("pass" | "skip" | "refused" | "wrong" | "crash", why)."""
    try:
        want = call(*(t.clone() for t in call.tensors))
    except Exception as error:
        return "skip", f"eager: {type(error).__name__}"
    torch.manual_seed(1)
    again = call(*(t.clone() for t in call.tensors))
    if any(not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(want, again, strict=True)):
        return "skip", "random"
    if any(t.is_complex() or t.is_sparse for t in (*want, *call.tensors)):
        return "skip", "complex or sparse"
    try:
        compiled = compile_module(call, tuple(t.clone() for t in call.tensors))
        got = compiled(*(t.clone() for t in call.tensors))
    except BurnError as error:
        text = str(error.problems[0]) if error.problems else str(error)
        return ("skip" if "cannot be exported" in str(error) else "refused"), text.splitlines()[0][:200]
    except Exception as error:
        return "crash", f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
    for a, b in zip(want, got, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return "wrong", f"{a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        tolerance = TOLERANCE.get(a.dtype, 0)
        try:
            torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            return "wrong", " ".join(str(error).split())[:200]
    return "pass", ""


def cases(names: list[str], limit: int, dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        title = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
        if (names and not any(n in title for n in names)) or dtype not in info.dtypes:
            continue
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
        step = max(1, len(samples) // limit)
        for sample in samples[::step][:limit]:
            try:
                yield title, Call(info.op, sample)
            except Exception as error:
                print(f"{title}: no sample ({error})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of operators' names")
    parser.add_argument("-n", "--samples", type=int, default=2, help="of each operator")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th operator")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    index, count = map(int, options.shard.split("/"))
    totals: Counter[str] = Counter()
    worst = {"skip": 0, "pass": 1, "refused": 2, "crash": 3, "wrong": 4}
    results: dict[str, tuple[str, str]] = {}
    for number, (title, call) in enumerate(cases(options.names, options.samples, getattr(torch, options.dtype))):
        if hash_of(title) % count != index:
            continue
        torch.manual_seed(number)
        result = outcome(call)
        if title not in results or worst[result[0]] > worst[results[title][0]]:
            results[title] = result
        if result[0] in ("wrong", "crash", "refused"):
            print(f"{title}: {result[0]}: {result[1]}", flush=True)
    totals.update(kind for kind, _ in results.values())
    print(", ".join(f"{n} {kind}" for kind, n in totals.most_common()))


def hash_of(title: str) -> int:
    return sum(title.encode())


if __name__ == "__main__":
    main()
