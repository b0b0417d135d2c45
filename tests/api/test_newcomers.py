"""Uses of the first hour that once ended in an internal error, or were silently misread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import burn
from burn.cli.main import main
from burn.errors import InputError, ModelError, OutOfRange, TypeMismatch

REDUCTIONS = ("sum", "mean", "max", "min", "prod", "var", "std", "any", "all", "median", "logsumexp", "count_nonzero")


def scalar() -> burn.Tensor:
    return burn.tensor(3.0)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", [*REDUCTIONS, "softmax", "argmax", "argsort", "flip"])
def test_a_scalar_counts_as_a_vector_of_one_element(name: str, axis: int) -> None:
    got = getattr(scalar(), name)(axis)
    want = getattr(scalar().reshape(1), name)(0)
    assert got.shape == ()
    np.testing.assert_array_equal(got.numpy(), want.numpy().reshape(()))


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.roll(1, 0),
        lambda x: x.topk(1),
        lambda x: x.unbind(0),
        lambda x: x.split(1, 0),
        lambda x: x.take(0, 0),
        lambda x: x.repeat(2, 0),
        lambda x: x.diff(),
        lambda x: x.narrow(0, 0, 1),
        lambda x: x.sum(1),
        lambda x: burn.fft.fft(x),
    ],
)
def test_a_scalar_has_no_axis_to_be_cut(use: Callable[[Any], Any]) -> None:
    with pytest.raises(OutOfRange, match=r"axis -?\d is out of range"):
        use(scalar())


def test_a_scalars_axis_is_squeezed_as_in_torch() -> None:
    assert scalar().squeeze(0).shape == torch.tensor(3.0).squeeze(0).shape == ()


@pytest.mark.parametrize("make", [burn.grad, burn.value_and_grad, burn.jacfwd, burn.jacrev, burn.hessian])
def test_argnums_and_functions_are_checked_at_once(make: Callable[..., Any]) -> None:
    for wrong in ("b", 1.5, None, [0, "a"], True):
        with pytest.raises(TypeMismatch, match="argnums are numbers of positional arguments"):
            make(lambda a, b: (a * b).sum(), argnums=wrong)
    with pytest.raises(TypeMismatch, match="a function is differentiated"):
        make(3)


def test_jvp_takes_tuples() -> None:
    x = np.ones((4, 3), np.float32)
    with pytest.raises(TypeMismatch, match="jvp takes a tuple of primals"):
        burn.jvp(lambda a: a**2, x, x)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["float32[,3]", "float32[n,,3]", "float32[ , 3]"])
def test_an_empty_size_is_not_dropped(text: str) -> None:
    with pytest.raises(TypeMismatch, match="an empty size"):
        burn.compile(lambda a: a * 2, (text,))


def test_programs_check_what_holds_their_inputs() -> None:
    program = burn.compile(lambda a: a * 2, ("float32[n]",))
    x = np.ones(3, np.float32)
    for wrong in (x, "x", None):
        with pytest.raises(InputError, match="run takes a mapping of inputs by name"):
            program.run(wrong)  # type: ignore[arg-type]
    for repeat in (0, "a", True):
        with pytest.raises(InputError, match="repeat is a number of runs"):
            program.profile(x, repeat=repeat)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="holds Python objects, must be float32"):
        program(x.astype(object))


def test_a_name_that_no_file_has() -> None:
    with pytest.raises(ModelError, match="null"):
        burn.load("a\0b.onnx")


def test_commands_name_a_file_of_another_format_and_check_outputs_first(tmp_path: Path) -> None:
    burn.export(lambda a: a * 2, tmp_path / "m.onnx", ("float32[n, 3]",))
    (tmp_path / "x.safetensors").write_bytes(b"\x08" + bytes(16))
    run = ["run", str(tmp_path / "m.onnx")]
    done = CliRunner().invoke(main, [*run, "--input", f"a={tmp_path / 'x.safetensors'}"])
    assert done.exit_code == 1 and "is not a .npy or .npz file" in done.stderr
    done = CliRunner().invoke(main, [*run, "--dim", "n=2", "--save", str(tmp_path / "y.txt")])
    assert done.exit_code == 1 and "saved to .npz files" in done.stderr and "running" not in done.stderr
    done = CliRunner().invoke(main, [*run, "--dim", f"n={10**13}"])
    assert done.exit_code == 1 and "out of memory: " in done.stderr
