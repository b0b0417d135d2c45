"""Names that steer a terminal: neutralised in all that commands print, and in errors."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import burn
from burn.cli.main import main
from burn.errors import BurnError, Problem, shown
from burn.importers.onnx import import_onnx
from tests.deploy.making import make

EVIL = "a\x1b]0;owned\x07\x1b[31m\x9b31m\u202egnp.exe\x7f\r"
STEERING = ("\x1b", "\x07", "\x9b", "\u202e", "\x7f", "\r")


def evil_model(operator: str = "MatMul") -> bytes:
    of = helper.make_tensor_value_info
    nodes = [helper.make_node(operator, ["x" + EVIL, "w"], ["y" + EVIL], name=EVIL)]
    values = [of("x" + EVIL, TensorProto.FLOAT, ["n", 4])], [of("y" + EVIL, TensorProto.FLOAT, ["n", 4])]
    graph = helper.make_graph(nodes, EVIL, *values, [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")])
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name=EVIL).SerializeToString()


def clean(text: str) -> bool:
    return not any(c in text for c in STEERING) and "owned" in text


@pytest.mark.parametrize("words", [["inspect"], ["inspect", "--dot"], ["inspect", "--json"], ["run", "--dim", "n=2"]])
def test_commands(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(evil_model())
    done = CliRunner().invoke(main, [words[0], str(tmp_path / "m.onnx"), *words[1:]], color=True)
    assert done.exit_code == 0, done.output
    assert clean(done.output.replace("\r\n", "\n"))


def test_errors(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(evil_model("NoSuch" + EVIL))
    done = CliRunner().invoke(main, ["inspect", str(tmp_path / "m.onnx")])
    assert done.exit_code == 1 and clean(done.output)
    with pytest.raises(BurnError) as caught:
        burn.load(tmp_path / "m.onnx", cache=False)
    assert clean(str(caught.value))
    assert str(Problem("wrong", node="one\ntwo")) == "node 'one\\ntwo': wrong"
    for kept in ("plain", "ä 中 é \u00a0".rstrip(), "two\nlines\tand a tab"):
        assert shown(kept) == kept
    assert shown("\x1b[0m\ud800") == "\\x1b[0m\\ud800"


def test_compiled_programs(tmp_path: Path) -> None:
    burn.load(evil_model(), cache=False).save(tmp_path / "m.burn")
    done = CliRunner().invoke(main, ["inspect", str(tmp_path / "m.burn")])
    assert done.exit_code == 0 and clean(done.output)
    command = make("exe", import_onnx(evil_model()), tmp_path / "command")
    np.savez(tmp_path / "in.npz", **{"x" + EVIL: np.ones((2, 4), np.float32)})  # type: ignore[arg-type]
    for words in (["--help"], ["--info"], [tmp_path / "in.npz"], []):
        ran = subprocess.run([command, *words], capture_output=True)
        assert clean((ran.stdout + ran.stderr).decode())


def test_commands_print_in_one_way() -> None:
    """By `echo` and `console` of cli/common.py, which neutralise what they print."""
    folder = Path(burn.__file__).parent / "cli"
    for path in folder.glob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {ast.unparse(call) for call in calls}
        assert path.name == "common.py" or not names & {"click.echo", "print", "Console", "click.secho"}, path


def test_weights(tmp_path: Path) -> None:
    onnx.save(onnx.load_from_string(evil_model()), tmp_path / "m.onnx")
    np.savez(tmp_path / "w.npz", **{"layer" + EVIL: np.ones(3)})  # type: ignore[arg-type]
    with pytest.raises(BurnError) as caught:
        burn.nn.Linear(2, 2).load(tmp_path / "w.npz")
    assert clean(str(caught.value))
