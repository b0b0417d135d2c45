"""Every layer and plain model of torch_geometric that takes nodes and edges. Enter at `names` and `made`."""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from tests.architectures.drawn import Inputs, Made, Unmade, floats, integers, runs

conv: Any = importlib.import_module("torch_geometric.nn.conv")
models: Any = importlib.import_module("torch_geometric.nn.models")

NODES, EDGES, IN, OUT = 7, 19, 8, 8
NUMBERS = {
    "in_channels": IN, "out_channels": OUT, "hidden_channels": 16, "channels": IN, "num_layers": 2, "num_relations": 3,
    "heads": 2, "K": 2, "dim": 2, "kernel_size": 3, "edge_dim": 4, "alpha": 0.1, "nn": None, "num_segments": 1,
    "shared_weights": True, "num_nodes": NODES, "walk_length": 2, "num_types": 3, "hidden_dim": 16, "k": 2, "L": 2, "theta": 0.5,
    "num_timesteps": 2, "aggregators": ["sum", "mean"], "scalers": ["identity"], "deg": torch.tensor([0, 3, 4, 1]), "layer": 1,
    "first_aggr": True, "num_node_types": 3, "num_edge_types": 3, "edge_type_emb_dim": 4, "edge_attr_emb_dim": 4, "dim_emb": 8,
}  # fmt: skip
FURTHER = {"PNA": ("aggregators", "scalers", "deg")}
"""Arguments that a constructor passes on."""
OPTIONAL = ("edge_attr", "edge_weight", "edge_type", "batch", "pos", "x_0", "normal")


def names() -> list[str]:
    plain = [
        n
        for n in models.__all__
        if inspect.isclass(getattr(models, n)) and issubclass(getattr(models, n), torch.nn.Module)
    ]
    return sorted({*(f"conv.{n}" for n in conv.__all__ if n.endswith("Conv")), *(f"models.{n}" for n in plain)})


def _values() -> dict[str, Any]:
    edges = integers(NODES, 2, EDGES)
    return {
        "x": floats(NODES, IN), "edge_index": edges, "edge_attr": floats(EDGES, 4), "edge_weight": floats(EDGES).abs() + 0.1,
        "edge_type": integers(3, EDGES), "batch": torch.tensor([0] * 4 + [1] * 3), "pos": floats(NODES, 3),
        "x_0": floats(NODES, IN), "h": floats(NODES, IN), "normal": floats(NODES, 3),
        "node_type": integers(3, NODES), "pos_edge_index": edges, "neg_edge_index": integers(NODES, 2, EDGES + 1),
        "y": integers(3, NODES), "z": integers(9, NODES) + 1, "pseudo": floats(EDGES, 2).sigmoid(),
    }  # fmt: skip


def _arguments(cls: Any) -> Iterator[dict[str, Any]]:
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    needed = [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    needed += FURTHER.get(cls.__name__, ())
    layer = lambda n, m: torch.nn.Sequential(torch.nn.Linear(n, 16), torch.nn.ReLU(), torch.nn.Linear(16, m))  # noqa: E731
    for width in (IN, 2 * IN, IN + 3, 4):
        yield {
            n: layer(width, IN * OUT if n == "nn" and width == 4 else OUT) if n.endswith("nn") else NUMBERS[n]
            for n in needed
        }


def made(listed: str) -> Made:
    where, _, name = listed.partition(".")
    cls = getattr(conv if where == "conv" else models, name)
    reasons: list[str] = []
    try:
        tries = list(_arguments(cls))
    except KeyError as error:
        raise Unmade(f"{name} needs {error}") from None
    values = _values()
    for arguments, some in itertools.product(tries, (OPTIONAL, ("edge_attr", "edge_type"), ())):
        try:
            torch.manual_seed(0)
            model = cls(**arguments).eval()
            taken = inspect.signature(model.forward).parameters
            given = {
                n: values[n]
                for n, p in taken.items()
                if n in values and (p.default is p.empty or n in some or n == "edge_index")
            }

            def inputs(batch: int, given: dict[str, Any] = given) -> Inputs:
                return {n: v.clone() for n, v in given.items()}  # so that no caller's gradients stay on them

            runs(model, inputs(2))
            return Made(model, inputs, ())
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")
    raise Unmade("; ".join(dict.fromkeys(reasons)))
