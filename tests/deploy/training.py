"""Helpers for tests of compiled trainings: steps of different kinds, and their libraries called through ctypes."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import burn
from burn import nn, optim
from burn.deploy import trainers, training
from burn.runtime import sizes as expressions
from burn.runtime.dtypes import numpy_dtype
from burn.train.step import Step
from tests.deploy.making import Array, Failed, options


class Classifier(nn.Module):
    """With running statistics and dropout. x float32[batch, 8] -> float32[batch, 3]."""

    def __init__(self) -> None:
        self.features = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(16, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.head(self.drop(burn.relu(self.norm(self.features(x)))))


class Convolutional(nn.Module):
    """x float32[batch, 1, 8, 8] -> float32[batch, 3]."""

    def __init__(self) -> None:
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.head = nn.Linear(8 * 16, 3)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        x = burn.relu(self.second(burn.relu(self.first(x))))
        return self.head(x.reshape(x.shape[0], 8 * 16))


class Decoder(nn.Module):
    """A small GPT. tokens int64[batch, 12] -> float32[batch, 12, 11]."""

    def __init__(self) -> None:
        self.tokens = nn.Embedding(11, 16)
        self.positions = nn.Embedding(12, 16)
        self.body = nn.TransformerEncoder(16, 2, 32, layers=2, dropout=0.1, norm_first=True)
        self.head = nn.Linear(16, 11)

    def forward(self, tokens: burn.Tensor) -> burn.Tensor:
        x = self.tokens(tokens) + self.positions(burn.arange(12))
        return self.head(self.body(x, causal=True))


class Recurrent(nn.Module):
    """x float32[batch, 5, 4] -> float32[batch, 1]."""

    def __init__(self) -> None:
        self.lstm = nn.LSTM(4, 8)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(8, 1)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return self.head(self.drop(self.lstm(x.moveaxis(0, 1))[1][0]))


def classify(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return nn.CrossEntropyLoss()(model(x), y)


def following(model: nn.Module, tokens: burn.Tensor) -> burn.Tensor:
    logits = model(tokens)[:, :-1]
    return nn.CrossEntropyLoss()(logits.reshape(-1, 11), tokens[:, 1:].reshape(-1))


def regress(model: nn.Module, x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
    return nn.MSELoss()(model(x), y)


Batch = dict[str, Array]


class Case(NamedTuple):
    """A step, the types of its batch, and its batches by a generator and a number of rows."""

    make: Callable[[], Step]
    inputs: Mapping[str, str]
    batch: Callable[[np.random.Generator, int], Batch]


def _classifier() -> Step:
    model = Classifier()
    return burn.train.step(model, classify, optim.AdamW(model, lr=optim.cosine(0.01, 40, warmup=3)), clip_norm=1.0)


def _convolutional() -> Step:
    model = Convolutional()
    return burn.train.step(model, classify, optim.SGD(model, lr=0.05, momentum=0.9, nesterov=True), clip_value=0.1)


def _decoder() -> Step:
    model = Decoder()
    schedule = optim.one_cycle(3e-3, 30)
    groups = [("bias|norm", {"weight_decay": 0.0})]
    return burn.train.step(model, following, optim.AdamW(model, lr=schedule, groups=groups), clip_norm=0.5)


def _recurrent() -> Step:
    model = Recurrent()
    return burn.train.step(model, regress, optim.RMSProp(model, lr=0.01, momentum=0.5), accumulate=2)


CASES = {
    "classifier": Case(
        _classifier,
        {"x": "float32[batch, 8]", "y": "int64[batch]"},
        lambda rng, n: {"x": rng.standard_normal((n, 8)).astype(np.float32), "y": rng.integers(0, 3, n)},
    ),
    "convolutional": Case(
        _convolutional,
        {"x": "float32[batch, 1, 8, 8]", "y": "int64[batch]"},
        lambda rng, n: {"x": rng.standard_normal((n, 1, 8, 8)).astype(np.float32), "y": rng.integers(0, 3, n)},
    ),
    "decoder": Case(_decoder, {"tokens": "int64[batch, 12]"}, lambda rng, n: {"tokens": rng.integers(0, 11, (n, 12))}),
    "recurrent": Case(
        _recurrent,
        {"x": "float32[batch, 5, 4]", "y": "float32[batch, 1]"},
        lambda rng, n: {
            "x": rng.standard_normal((n - n % 2, 5, 4)).astype(np.float32),
            "y": rng.standard_normal((n - n % 2, 1)).astype(np.float32),
        },
    ),
}


def made(found: Any, inputs: Mapping[str, str], output: Path, kind: str = "shared", predict: Any = None) -> Path:
    """The main file of a training's build; its functions begin with "net"."""
    return trainers.build(kind, training.of(found, inputs, predict), output, options(name="net"))[0]


class Trainer:
    """A training in a shared library, whose functions begin with "net"."""

    def __init__(self, path: Path, weights: Path | None = None) -> None:
        self.library = ctypes.CDLL(str(path))
        for verb in ("error", "about"):
            self.function(verb).restype = ctypes.c_char_p
        self.function("steps").restype = ctypes.c_int64
        self.about: dict[str, Any] = json.loads(self.function("about")())
        self.model = ctypes.c_void_p()
        self.check(self.function("create")(ctypes.byref(self.model), None if weights is None else bytes(weights)))

    def function(self, verb: str) -> Any:
        return getattr(self.library, f"net_{verb}")

    def check(self, code: int) -> None:
        if code:
            raise Failed(code, self.function("error")().decode())

    def call(self, verb: str, batch: Batch) -> dict[str, Array]:
        """The outputs of step or predict, by name."""
        of = self.about[verb]
        sizes: dict[str, int] = {}
        for value in of["inputs"]:
            sizes |= {
                d: n for d, n in zip(value["dims"], batch[value["name"]].shape, strict=True) if isinstance(d, str)
            }
        results = {
            value["name"]: np.empty(
                [expressions.parse(d).evaluate(sizes) if isinstance(d, str) else d for d in value["dims"]],
                numpy_dtype(value["dtype"]),
            )
            for value in of["outputs"]
        }
        arrays = [*(np.ascontiguousarray(batch[v["name"]]) for v in of["inputs"]), *results.values()]
        given = [*(ctypes.c_int64(sizes[s]) for s in of["sizes"]), *(ctypes.c_void_p(a.ctypes.data) for a in arrays)]
        self.check(self.function(verb)(self.model, *given))
        return results

    def step(self, batch: Batch) -> float:
        return float(self.call("step", batch)["loss"])

    def save(self, path: Path) -> None:
        self.check(self.function("save")(self.model, bytes(path)))

    def load(self, path: Path) -> None:
        self.check(self.function("load")(self.model, bytes(path)))

    @property
    def steps(self) -> int:
        return self.function("steps")(self.model)

    def close(self) -> None:
        self.function("destroy")(self.model)
