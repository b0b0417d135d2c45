"""Matmuls in half precision by the pass `precision`: the ops that change, and numbers of small models against float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import burn
from burn.bench.training import burn_kit
from burn.bench.twins import gpt, minilm
from burn.cli.compile import main as compile_
from burn.dialect.text import to_text
from burn.errors import CompileError, ModelError, TypeMismatch
from burn.passes import pipeline
from burn.passes.environment import ANYWHERE
from tests.passes.cases import Case, cases, check, read

CASES = cases(Path(__file__).parent / "half_precision")
BOUNDS = {"bf16": 3e-2, "fp16": 4e-3}
"""Tolerances against float64, relative to the largest element: 2^-8 and 2^-11 a rounding, a few layers of them."""


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_ops(case: Case) -> None:
    program = read(case)
    pipeline.run(pipeline.parse(case.passes), program, ANYWHERE)
    output = to_text(program)
    assert check(case, output) == 0, f"\n{output}"


def test_a_type_that_is_no_half() -> None:
    with pytest.raises(CompileError, match="half precision is bfloat16 or float16"):
        pipeline.run(pipeline.parse("precision{to=int8}"), read(CASES[0]), ANYWHERE)


@pytest.mark.untuned
def test_compiled_packages(tmp_path: Path) -> None:
    """burn-compile --precision gives the bits of burn.load(precision=)."""
    x = np.random.default_rng(0).standard_normal((3, 64), np.float32)
    w = np.random.default_rng(1).standard_normal((64, 40), np.float32)
    source, package = tmp_path / "layer.mlir", tmp_path / "layer.burn"
    burn.export(lambda x: burn.relu(x @ w), source, (x,))
    command = [str(source), "-o", str(package), "--precision", "bf16"]
    CliRunner().invoke(compile_, command, catch_exceptions=False)
    got, single = burn.load(package)(x), burn.load(source, cache=False)(x)
    np.testing.assert_array_equal(got, burn.load(source, precision="bf16", cache=False)(x))
    assert not np.array_equal(got, single)
    refused = CliRunner().invoke(compile_, [*command[:2], str(tmp_path / "web"), "--emit", "wasm", *command[3:]])
    assert refused.exit_code == 2 and "--precision is for commands" in refused.output


def _convolutions(nn: Any) -> Any:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.inner, self.inner_norm = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
            self.pool, self.head = nn.MaxPool2d(2), nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            x = self.pool(burn.relu(self.norm(self.stem(x))))
            x = burn.relu(x + self.inner_norm(self.inner(x)))
            return self.head(x.mean((2, 3)))

    return Network()


def _recurrent(nn: Any) -> Any:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru, self.rnn = nn.LSTM(5, 7, "bidirectional"), nn.GRU(14, 17), nn.RNN(17, 3)

        def forward(self, x: Any) -> Any:  # [time, batch, features]
            x = x.transpose(0, 1)
            x = burn.permute(self.lstm(x)[0], (0, 2, 1, 3)).reshape(x.shape[0], -1, 14)
            y, last = self.gru(x)
            return self.rnn(y[:, 0])[0][:, 0].transpose(0, 1) + last[0].sum(-1).reshape(-1, 1, 1)

    return Network()


@pytest.mark.parametrize("model", ["encoder", "decoder", "convolutions", "recurrent"])
def test_numbers(model: str) -> None:
    """Of MiniLM's, GPT's and ResNet's kind, and three recurrent layers. Inputs and outputs keep their types; every size from one
    executable."""
    burn.manual_seed(0)
    drawn = np.random.default_rng(1)
    words = drawn.integers(0, 50, (3, 7))
    match model:
        case "encoder":
            module, x = minilm(burn_kit(), layers=2, dim=32, heads=4, words=50), words
        case "decoder":
            module, x = gpt(burn_kit(), layers=2, dim=32, heads=4, words=50, length=7), words
        case "recurrent":
            module, x = _recurrent(burn.nn), drawn.standard_normal((3, 11, 5)).astype(np.float32)
        case _:
            module, x = _convolutions(burn.nn), drawn.standard_normal((3, 3, 9, 9)).astype(np.float32)
    module.eval()
    single = burn.compile(module, (x,), dynamic={"x": {0: "batch"}}, cache=False)(x)
    exact = burn.compile(module.to("float64"), (x if x.dtype == np.int64 else x.astype("f8"),), cache=False)
    want = exact(x if x.dtype == np.int64 else x.astype("f8"))
    module.to("float32")
    np.testing.assert_allclose(single, want, rtol=1e-4, atol=1e-5)
    for precision, bound in BOUNDS.items():
        run = burn.compile(module, (x,), dynamic={"x": {0: "batch"}}, precision=precision, cache=False)
        for given in (x, x[:1]):
            got = run(given)
            assert got.dtype == np.float32 and got.shape == single[: len(single) * len(given) // len(x)].shape
            assert 0 < np.abs(got - want[: len(got)]).max() < bound * np.abs(want).max(), precision


def test_loaded_models() -> None:
    digits = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
    plain = burn.load(digits, cache=False)
    feeds = {
        i.name: np.random.default_rng(0).random([d if isinstance(d, int) else 2 for d in i.dims], np.float32)
        for i in plain.inputs
    }
    (want,), (got,) = (m.run(feeds).values() for m in (plain, burn.load(digits, precision="bf16", cache=False)))
    assert got.dtype == want.dtype and 0 < np.abs(got - want).max() < BOUNDS["bf16"] * np.abs(want).max()
    with pytest.raises(TypeMismatch, match="fp32, bf16, fp16"):
        burn.load(digits, precision="int8")
    with pytest.raises(ModelError, match="is not compiled yet"):
        burn.load(digits, precision="bf16", train=True)
