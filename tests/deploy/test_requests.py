"""Requests of burn-compile that cannot be met, or should not be: what is said, before the work begins, and what is left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import burn.deploy.build as building
from burn import nn
from burn.cli.compile import main
from burn.codegen.cpu import target as cpus
from burn.deploy.build import build, kind_of
from burn.runtime.host import features
from tests.deploy.making import DIGITS, digits, options

NATIVE = Path(building.__file__).parents[1] / "runtime" / "native"


@pytest.fixture
def compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(*_: object, **__: object) -> None:
        raise AssertionError("the program was compiled")

    monkeypatch.setattr(building, "compile_program", reached)


def refusal(*words: object) -> str:
    """The message of burn-compile on stderr, on one line."""
    done = CliRunner().invoke(main, list(map(str, words)))
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit), done.output
    assert "Traceback" not in done.output and "internal error" not in done.output, done.output
    return " ".join(done.stderr.split())


@pytest.mark.usefixtures("compiles_nothing")
@pytest.mark.parametrize("kind", ["exe", "object", "llvm", "package"])
def test_a_folder_instead_of_a_file(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "taken.burn"
    folder.mkdir()
    said = refusal(DIGITS, "--emit", kind, "-o", folder)
    assert f"{folder} is a folder" in said and "one file" in said
    assert list(tmp_path.iterdir()) == [folder] and not any(folder.iterdir())


@pytest.mark.usefixtures("compiles_nothing")
@pytest.mark.parametrize("kind", ["shared", "static", "wasm"])
def test_a_file_instead_of_a_folder(kind: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    assert f"{tmp_path / 'taken'} is a file" in refusal(DIGITS, "--emit", kind, "-o", tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.usefixtures("compiles_nothing")
def test_keys_are_read_first(tmp_path: Path) -> None:
    said = refusal(DIGITS, "-o", tmp_path / "digits.burn", "--sign", tmp_path / "no.pem")
    assert "cannot read the key" in said or "burn-mlir[sign]" in said


@pytest.mark.usefixtures("compiles_nothing")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cpu", "nonsense"], "there is no CPU 'nonsense'"),
        (["--target", "arm"], "binaries are not made for 'arm'"),
        (["--target", "wasm32"], "there are no executables on wasm32 - --emit wasm"),
        (["--target", "thumbv7em-none-eabihf"], "there are no executables on thumbv7em-none-eabihf - --emit static"),
        (["--target", "x86_64-linux", "--cpu", "avx2", "--feature", "avx512vnny"], "did you mean 'avx512vnni'?"),
        (["--target", "aarch64-linux", "--feature", "nonsense"], "no feature 'nonsense' of aarch64"),
    ],
)  # fmt: skip
def test_what_there_is_not(words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "aarch64-linux" in words:  # another machine's compiler is found before its CPU is looked at
        pytest.importorskip("ziglang")
        monkeypatch.delenv("CC", raising=False)
    assert message in refusal(DIGITS, *words, "-o", tmp_path / "digits")
    assert not any(tmp_path.iterdir())


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    shutil.copy(DIGITS, model)
    assert f"{model} would be written over" in refusal(model, "-o", tmp_path / "." / "model.onnx")
    assert model.read_bytes() == DIGITS.read_bytes()

    weights = tmp_path / "net.safetensors"
    (tmp_path / "net.py").write_text(
        "from burn import nn\nclass Net(nn.Linear):\n    def __init__(self):\n        super().__init__(3, 2)\n"
    )
    nn.Linear(3, 2).save(weights)
    before = weights.read_bytes()
    words = [f"{tmp_path / 'net.py'}:Net", "--input", "x=float32[n, 3]", "--parameters", weights, "--weights", "file"]
    assert f"{weights} would be written over" in refusal(*words, "-o", tmp_path / "net")
    words += ["--emit", "shared", "--name", "net", "-o", tmp_path]
    assert f"{weights} would be written over" in refusal(*words)
    assert weights.read_bytes() == before and sorted(p.suffix for p in tmp_path.iterdir()) == [
        ".onnx",
        ".py",
        ".safetensors",
    ]


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    """Not the file with another name that is written first."""
    with pytest.raises(OSError) as failed:
        build("llvm", digits(), tmp_path / "no folder" / "digits.ll", options())
    assert failed.value.filename == str(tmp_path / "no folder" / "digits.ll")


def test_modules_by_their_ending() -> None:
    assert kind_of(Path("digits.wasm")) == "wasm"


def test_features_are_those_that_the_runtime_looks_for() -> None:
    texts = (NATIVE / "cpu_features.h").read_text() + (NATIVE / "cpu.c").read_text()
    for names in cpus.FEATURES.values():
        assert [name for name in names if f'"{name}"' not in texts] == []
    known = set(cpus.FEATURES[cpus.host_target(features()).architecture])
    assert features() <= known
