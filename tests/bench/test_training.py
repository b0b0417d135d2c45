"""`burn-bench train`: the same model from the same weights in burn and in torch, and the same losses."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from burn.bench import training
from burn.bench.interleave import Plan
from burn.bench.twins import CASES, Case, Kit, bottlenecks, gpt
from burn.cli.bench import main
from burn.errors import BurnError

TINY = Case(partial(gpt, layers=1, dim=8, heads=2, words=11, length=5), (2, 5), 11, below=11, each=True)


def test_both_frameworks_do_the_same_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(CASES, "gpt", TINY)
    figures = tmp_path / "figures.json"
    options = ("--peers", "burn,torch", "--no-memory", "--runs", "2", "--rounds", "1", "--json", str(figures))
    result = CliRunner().invoke(main, ["train", "gpt", *options])
    assert result.exit_code == 0, result.output
    assert "torch" in result.output and "loss of step" in result.output
    engines = json.loads(figures.read_text())[0]["engines"]
    np.testing.assert_allclose(engines["burn"]["losses"], engines["torch"]["losses"], rtol=1e-5)
    assert engines["burn"]["ratio"] == 1.0 and engines["torch"]["ratio"] > 0


def test_other_losses_are_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {"burn": 1.0, "torch": 1.1}
    made = {name: lambda *_, loss=loss: lambda: loss for name, loss in losses.items()}
    monkeypatch.setattr(training, "STEPPERS", made)
    monkeypatch.setattr(training, "_weights", lambda case: {})
    with pytest.raises(BurnError, match="the losses differ"):
        training.measure("cnn", list(losses), training.Setting(1), Plan(1, 1), memory=False)


def test_an_unknown_model_or_engine_is_named() -> None:
    for arguments, said in ((["vgg"], "vgg"), (["cnn", "--peers", "jax"], "the engines are burn, torch")):
        result = CliRunner().invoke(main, ["train", *arguments])
        assert result.exit_code == 2 and said in result.output


@pytest.mark.slow
def test_matmuls_in_half_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Next to torch's autocast, on the CPU; on a GPU by `--device cuda`."""
    pytest.importorskip("torch")
    monkeypatch.setitem(CASES, "gpt", TINY)
    options = ("--peers", "burn,torch", "--no-memory", "--runs", "1", "--rounds", "1", "--precision", "bfloat16")
    result = CliRunner().invoke(main, ["train", "gpt", *options])
    assert result.exit_code == 0, result.output
    assert "bfloat16" in result.output


def test_the_models_for_gpus_are_the_same_in_both_frameworks() -> None:
    torch = pytest.importorskip("torch")
    small = {"counts": (1, 2), "width": 4, "classes": 5}
    mine = bottlenecks(training.burn_kit(), **small).eval()
    theirs = bottlenecks(Kit(torch.nn, lambda *_: None, torch.nn.functional.gelu, torch.relu), **small).eval()
    theirs.load_state_dict({k: torch.tensor(np.asarray(v)) for k, v in mine.state_dict().items()}, strict=False)
    x = np.random.default_rng(0).standard_normal((2, 3, 33, 33)).astype(np.float32)
    with torch.no_grad():
        want = theirs(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(mine(x).numpy(), want, rtol=1e-4, atol=1e-5)
