"""Arguments of `burn.load` and options of a compilation that have wrong types: one clear error each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import burn
from burn.cli.main import main
from burn.errors import BurnError, ModelError, TypeMismatch
from tests.importers.models import model, node, value


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("m") / "m.onnx"
    onnx.save(model([node("Relu", "x", "y")], [value("x", ["n", 3])], [value("y", ["n", 3])]), file)
    return file


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"precision": []}, r"precision is a text, not \[\]"),
    ({"autotune": []}, "autotune is a text or None"),
    ({"exact": "yes"}, "exact is True or False, not 'yes'"),
    ({"cache": "no"}, "cache is True or False, not 'no'"),
    ({"target": []}, r"there is no target \[\]"),
    ({"threads": "2"}, "the number of threads is an integer"),
    ({"threads": 2.5}, "not 2.5"),
    ({"threads": True}, "not True"),
    ({"dims": []}, "dims= maps names to sizes"),
    ({"dims": {"n": "3"}}, "the size of 'n' is '3', which is no integer"),
    ({"dims": {"n": True}}, "the size of 'n' is True"),
    ({"dims": {"n": -1}}, "the size of 'n' is -1, which no axis has"),
    ({"dims": {"n": 2**70}}, "which no axis has"),
    ({"dims": {3: 3}}, "3 is no name"),
    ({"dims": {"x": (2, True)}}, "the size of 'x' is True"),
    ({"inputs": None}, "inputs= is a list of names"),
    ({"inputs": [3]}, "inputs= is a list of names"),
    ({"dynamic": 3, "train": True}, "dynamic= maps inputs to axes and names"),
    ({"dynamic": {"x": ["n"]}, "train": True}, r"the axes of 'x' are \['n'\]"),
    ({"dynamic": {"x": {"a": "n"}}, "train": True}, "'a' is no axis of 'x'"),
    ({"dynamic": {"x": {0: ""}}, "train": True}, "the name of an axis of 'x' is ''"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[str(given) for given, _ in WRONG])
def test_arguments_of_wrong_types_are_named(given: dict[str, Any], message: str, path: Path) -> None:
    with pytest.raises(TypeMismatch, match=message):
        burn.load(path, **given)


def test_more_threads_than_the_runtime_counts() -> None:
    with pytest.raises(BurnError, match="at most"):
        burn.set_num_threads(10**10)


def test_sizes_are_also_numpys_integers(path: Path) -> None:
    dims: dict[str, Any] = {"n": np.int64(2)}
    assert burn.load(path, dims=dims).inputs[0].dims == (2, 3)


def test_a_program_of_torch_export_says_itself_what_varies(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(2, 3),)), tmp_path / "m.pt2")
    with pytest.raises(ModelError, match="says which of its sizes vary"):
        burn.load(tmp_path / "m.pt2", train=True, dynamic={"input": {0: "n"}})


def test_python_m_burn_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "burn", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("burn"), done.stderr


@pytest.mark.parametrize("precision", ["bf16", "bfloat16"])
def test_commands_take_short_and_long_names_of_precisions(precision: str, path: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke(main, ["run", str(path), "--dim", "n=2", "--precision", precision])
    assert run.exit_code == 0, run.stderr
    made = CliRunner().invoke(main, ["compile", str(path), "-o", str(tmp_path / "m.o"), "--precision", precision])
    assert made.exit_code == 0, made.stderr


def test_every_command_has_one_table_of_precisions() -> None:
    from burn.cli import bench, compile, run
    from burn.cli.common import Precision

    commands = [run.main, compile.main, *bench.main.commands.values()]
    options = [p for command in commands for p in command.params if p.name == "precision"]
    assert len(options) == 4
    for option in options:
        assert isinstance(option.type, Precision)
        assert option.type.convert("bfloat16", None, None) == option.type.convert("bf16", None, None) == "bf16"


def test_a_name_of_c_functions_is_not_empty(path: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["compile", str(path), "-o", str(tmp_path / "m.o"), "--name", ""])
    assert done.exit_code == 2 and "a name is not empty" in done.stderr
