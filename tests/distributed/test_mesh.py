"""Meshes and rules: layouts of parameters and state, and what is refused, with the user's line. Nothing here needs JAX."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import burn
from burn import nn, optim
from burn.distributed.layout import REPLICATED, Layout, largest_axis
from burn.distributed.partition import Partition

ROWS = Layout((("model",),))


class Net(nn.Module):
    def __init__(self, width: int = 12) -> None:
        self.a, self.norm, self.b = nn.Linear(8, width), nn.BatchNorm1d(width), nn.Linear(width, 6)


def layouts(mesh: burn.Mesh, model: nn.Module | None = None) -> dict[str, Layout]:
    model = model or Net()
    optimizer = optim.AdamW(model)
    found = Partition.of(mesh, model, (optimizer,))
    named = {**dict(model.named_parameters()), **optimizer.named_buffers()}
    return {name: found.of_parameter(p) for name, p in named.items()}


def test_a_mesh_imports_no_engine() -> None:
    code = (
        "import sys, burn; m = burn.Mesh({'data': 4, 'model': -1}, rules=[('a', ('model',))], devices=range(8));"
        "assert m.size == 8 and m.sizes == {'data': 4, 'model': 2}; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_data_parallel() -> None:
    found = layouts(burn.Mesh({"data": 4}))
    assert set(found.values()) == {REPLICATED}
    assert burn.Mesh({"data": 2, "model": 2}).of_batch == Layout((("data",),))
    assert burn.Mesh({"data": 2, "model": 2}, batch=("data", "model")).of_batch == Layout((("data", "model"),))


def test_tensor_parallel_by_rules() -> None:
    rules = [("a.weight|a.bias", ("model",)), ("b.weight", (None, "model")), ("weight", ("data",))]
    found = layouts(burn.Mesh({"data": 2, "model": 3}, rules=rules))
    assert found["a.weight"] == found["a.bias"] == ROWS
    assert found["b.weight"] == Layout(((), ("model",)))
    assert found["norm.weight"] == Layout((("data",),)) and found["norm.bias"] == REPLICATED
    state = {name: layout for name, layout in found.items() if name.startswith("state.")}
    assert len(state) == 12
    for name, layout in state.items():
        assert layout == found[name.removeprefix("state.").rpartition(".")[0]], name
    assert found["steps"] == REPLICATED


def test_fully_sharded() -> None:
    found = layouts(burn.Mesh({"data": 4}, fully_sharded="data"))
    assert found["a.weight"] == Layout((("data",),))  # [12, 8]: the longest axis
    assert found["b.weight"] == Layout(((), ("data",)))  # [6, 12]: 6 is not divided by 4
    assert found["b.bias"] == REPLICATED  # [6]
    assert found["state.b.weight.average"] == found["b.weight"]


def test_fully_sharded_beside_a_rule() -> None:
    mesh = burn.Mesh({"data": 2, "model": 3}, rules=[("a.weight", ("model",))], fully_sharded="data")
    found = layouts(mesh)
    assert found["a.weight"] == Layout((("model",), ("data",)))
    assert found["norm.running_mean"] == Layout((("data",),))


def test_sharded_state() -> None:
    found = layouts(burn.Mesh({"data": 4}, sharded_state="data"))
    assert found["a.weight"] == REPLICATED and found["state.a.weight.average"] == Layout((("data",),))


def test_largest_axis() -> None:
    assert largest_axis((4, 8, 8), REPLICATED, 4) == 1
    assert largest_axis((4, 8), Layout(((), ("m",))), 4) == 0
    assert largest_axis((0, 3), REPLICATED, 2) is None and largest_axis((), REPLICATED, 1) is None


@pytest.mark.parametrize(
    ("axes", "options", "texts"),
    [
        ({}, {}, ["its axes are {}"]),
        ({"data": 0, "model": -2}, {}, ["'data' has size 0", "'model' has size -2"]),
        ({"data": -1, "model": -1}, {}, ["two axes have size -1"]),
        ({"my axis": 2}, {}, ["'my axis' is no name"]),
        ({"data": 2}, {"batch": "date"}, ["did you mean 'data'?"]),
        ({"data": 2}, {"fully_sharded": ("data", "modle")}, ["'modle'"]),
        ({"data": 2}, {"rules": [("a(", ("data",))]}, ["no regular expression"]),
        ({"data": 2}, {"rules": [("a", ("model",))]}, ["'model'", "there are data"]),
        ({"data": 2}, {"rules": [("a", ("data", "data"))]}, ["two axes of a tensor"]),
        ({"data": 2}, {"rules": [("a", "data")]}, ["write ('data',)"]),
        ({"data": 2}, {"rules": ["a"]}, ["is no rule"]),
        ({"data": 2}, {"devices": [0, 0]}, ["not positions"]),
        ({"data": 2}, {"engine": "nccl"}, ["no engine 'nccl'"]),
    ],
)
def test_refused(axes: dict[str, int], options: dict[str, Any], texts: list[str]) -> None:
    with pytest.raises(burn.TypeMismatch) as caught:
        burn.Mesh(axes, **options)
    for text in texts:
        assert text in str(caught.value)


def test_sizes_that_devices_do_not_divide_name_the_line() -> None:
    mesh = burn.Mesh({"data": 2, "model": 5}, rules=[("a.weight", ("model",)), ("bias", (None, "data"))])
    model = Net()
    with pytest.raises(burn.TypeMismatch) as caught:
        burn.train.step(model, lambda m, x: m(x).sum(), optim.SGD(model, lr=0.1), mesh=mesh)
    text = str(caught.value)
    assert "the mesh does not fit the model (mesh of test_mesh.py:" in text
    assert "node 'a.weight': axis 0 has size 12, which the 5 devices of mesh axis 'model' do not divide" in text
    assert "node 'a.bias': it has 1 axes, and the layout divides axis 1" in text


def test_a_rule_for_nothing_is_refused() -> None:
    with pytest.raises(burn.TypeMismatch, match="is found in no parameter's path"):
        layouts(burn.Mesh({"data": 2}, rules=[("embed", ("data",))]))


def test_options_of_one_device_are_refused() -> None:
    model, mesh = Net(), burn.Mesh({"data": 2})
    with pytest.raises(burn.TypeMismatch, match="it decides on one device"):
        burn.train.step(model, lambda m, x: x.sum(), optim.SGD(model, lr=0.1), mesh=mesh, memory="1 MB")
    with pytest.raises(burn.TypeMismatch, match="LBFGS"):
        burn.train.step(model, lambda m, x: x.sum(), optim.LBFGS(model), mesh=mesh)
    with pytest.raises(burn.TypeMismatch, match="a step of its own"):
        burn.train.Learner(model, nn.MSELoss(), optim.SGD(model, lr=0.1), step=lambda x: x, mesh=mesh)
    with pytest.raises(burn.TypeMismatch, match="does not communicate"):
        burn.train.step(model, lambda m, x: x.sum(), optim.SGD(model, lr=0.1)).communication("float32[2, 8]")
