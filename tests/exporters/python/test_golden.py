"""The sources that burn-import writes for a zoo of small models, kept as files so that a change of style is seen in review.

    BURN_UPDATE_GOLDEN=1 pytest tests/exporters/python/test_golden.py

writes them anew. Besides, each is measured: lines for each layer, names that say something, no composite spelled out.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from burn.exporters.python.generate import generate
from tests.exporters.python.zoo import ZOO, Golden
from tests.models import Unavailable
from tests.releases import release

FOLDER = Path(__file__).parent / "golden"
CONSTRAINTS = Path(__file__).parents[3] / "constraints.txt"
LINES = 9.0  # for each layer at most, the file's head counted
MEANINGFUL = 0.9  # of the variables' names at least

SPELLED_OUT = {
    "softmax": r"ops\.exp\(.*\) / |/ .*ops\.exp\(",
    "layer_norm": r"ops\.rsqrt\(|/ ops\.sqrt\(",
    "gelu": r"ops\.erf\(",
    "silu": r"(\w+) \* ops\.sigmoid\(\1\)|ops\.sigmoid\((\w+)\) \* \2\b",
    "attention": r"ops\.softmax\([^\n]*@",
}
"""Signs in the source that a composite was not recognised."""

INTEGER_ARITHMETIC = ("classifier_qlinear", "perceptron_dynamic")
"""Models of QLinearConv and MatMulInteger, which are written op by op: they round in integers, unlike nn.QuantConv2d."""

NOT_YET = {
    "magika": "flax's normalisation over the second axis, its variance a difference of means",
}
"""Where a composite is spelled out, and why."""


@pytest.mark.parametrize("model", ZOO, ids=lambda m: m.name)
def test_the_source_is_the_golden_one(model: Golden) -> None:
    try:
        text = generate(model.program(), origin=f"{model.name}.onnx").text
    except Unavailable as reason:
        pytest.skip(str(reason))
    path = FOLDER / f"{model.name}.py"
    if os.environ.get("BURN_UPDATE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text)
    if model.package and release(model.package) != (pinned := _pinned(model.package)):
        pytest.skip(f"the source is that of {model.package} {'.'.join(map(str, pinned))}")
    shown = _rounded if model.is_measured else str
    assert shown(text) == shown(path.read_text()), f"run with BURN_UPDATE_GOLDEN=1 and look at the difference in {path}"


def _pinned(package: str) -> tuple[int, ...]:
    """The release that the files were written with."""
    found = re.search(rf"^{package}==(\d+)\.(\d+)", CONSTRAINTS.read_text(), re.MULTILINE)
    assert found is not None, package
    return tuple(map(int, found.groups()))


def _rounded(text: str) -> str:
    """With decimals to six digits."""
    return re.sub(r"\b\d+\.\d+(?:e[-+]?\d+)?\b", lambda number: f"{float(number.group()):.6g}", text)


def _sources() -> list[Path]:
    return sorted(FOLDER.glob("*.py"))


def test_every_model_has_its_file_and_every_file_its_model() -> None:
    assert [p.stem for p in _sources()] == sorted(m.name for m in ZOO)
    assert len(ZOO) >= 20


@pytest.mark.parametrize("model", ZOO, ids=lambda m: m.name)
def test_there_are_few_lines_for_each_layer(model: Golden) -> None:
    if model.name in INTEGER_ARITHMETIC:
        pytest.skip("written op by op")
    lines = (FOLDER / f"{model.name}.py").read_text().count("\n")
    assert lines <= LINES * model.layers + 20


@pytest.mark.parametrize("path", _sources(), ids=lambda p: p.stem)
def test_names_say_what_things_are(path: Path) -> None:
    """A name says nothing that is one letter (but for the `x` that passes through), or a number behind another's name."""
    text = path.read_text()
    members = re.findall(r"self\.(\w+) = ", text)
    of_the_model = {
        *members,
        *re.findall(r"\w+", "".join(re.findall(r"^    inputs = .*?\n    outputs = .*?$", text, re.M | re.S))),
    }
    names = [name for function in _functions(path) for name in _variables(function) - of_the_model]
    bare = [name for name in names if re.fullmatch(r"[a-wyz]|[a-z]\w*\d+", name)]
    if path.stem not in INTEGER_ARITHMETIC:
        assert len(bare) <= max((1 - MEANINGFUL) * len(names), 1), bare
    assert not [m for m in members if re.fullmatch(r"(const|identity|constant|reshape|transpose)_?\d*(_\d+)*", m)]


def _functions(path: Path) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef) and n.name != "__init__"]


def _variables(function: ast.FunctionDef) -> set[str]:
    """The variables that a function assigns, without its parameters (inputs keep the model's names)."""
    given = {a.arg for a in function.args.args}
    return {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - given


@pytest.mark.parametrize("path", _sources(), ids=lambda p: p.stem)
def test_no_composite_is_spelled_out(path: Path) -> None:
    text = path.read_text()
    if path.stem in NOT_YET:
        pytest.skip(NOT_YET[path.stem])
    assert not [name for name, pattern in SPELLED_OUT.items() if re.search(pattern, text)]
    assert "1000000000" not in text and not re.search(r"ops\.iota\([^)]*\) [-+] 0\b", text)
