"""Options of compilations: the public functions' keyword arguments, what the cache's key holds, environment variables."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import options, variables
from burn.codegen.cpu.target import TARGETS, compact
from burn.errors import BurnError, DeviceError, TypeMismatch
from burn.options import OFF, Options
from burn.runtime import versions
from burn.runtime.device import device

PACKAGE = Path(burn.__file__).parent if burn.__file__ else Path()


def test_forms_that_users_write() -> None:
    made = Options.of(device="cuda:1", precision="bf16", autotune="fast", exact=True)
    assert (made.device, made.precision, made.autotune.name) == (device("cuda:1"), "bfloat16", "fast")
    assert Options.of(precision="float16").precision == "float16"


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"precison": "bf16"}, TypeMismatch, "did you mean 'precision'"),
        ({"precision": "int8"}, TypeMismatch, "there is no precision 'int8'"),
        ({"optimize": "much"}, TypeMismatch, "there is no optimization 'much'"),
        ({"autotune": "slow"}, TypeMismatch, "there is no autotuning 'slow'"),
        ({"device": "tpu"}, DeviceError, "there is no device 'tpu'"),
    ],
)
def test_what_is_unknown_is_refused_by_name(given: dict, error: type[BurnError], words: str) -> None:
    with pytest.raises(error, match=words):
        Options.of(**given)


def test_a_malformed_environment_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURN_OPTIMIZE", "fast")
    with pytest.raises(
        BurnError, match=r"BURN_OPTIMIZE is malformed(.|\n)*'fast' is none of speed, compile-time, none"
    ):
        Options()


def test_adapters_refuse_unknown_options() -> None:
    onnx_adapter = pytest.importorskip("burn.adapters.onnx")
    with pytest.raises(TypeMismatch, match="'fast_math' is none of"):
        onnx_adapter.load_onnx(Path("absent.onnx"), fast_math=True)


def test_given_names_every_field() -> None:
    assert list(options.Given.__annotations__) == [f.name for f in fields(Options)]


@pytest.mark.parametrize("function", [burn.load, burn.compile])
def test_public_arguments_are_options(function: object) -> None:
    """Options have one name and one default everywhere."""
    defaults = {each.name: each.default for each in fields(Options)}
    shared = [p for p in inspect.signature(function).parameters.values() if p.name in defaults]  # type: ignore[arg-type]
    assert {p.name for p in shared} >= {"target", "device", "precision", "autotune", "exact", "cache"}
    assert all(p.default == defaults[p.name] for p in shared if p.name != "autotune")


OTHERS: dict[str, Any] = {
    "target": "avx2",
    "precision": "bfloat16",
    "exact": True,
    "budget": "bytes=1000",
    "passes": "fuse",
    "as_text": True,
    "nans": "nan",
    "optimize": "compile-time",
}


def test_identity_tells_options_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURN_OPTIMIZE", raising=False)
    usual = Options(autotune=OFF)
    made = [usual, *(replace(usual, **{name: value}) for name, value in OTHERS.items())]
    made += [Options.of(autotune="fast"), Options.of(autotune="full"), Options.of(optimize="none", autotune="off")]
    made += [Options(target=TARGETS["avx2"], autotune=OFF), Options(target=compact(TARGETS["avx2"]), autotune=OFF)]
    made += [Options(device=device("cuda"), architecture=a, autotune=OFF) for a in ("sm_80", "sm_90")]
    assert len({one.identity() for one in made}) == len(made)
    assert Options.of(autotune="off").identity() == usual.identity()
    assert replace(usual, cache=False).identity() == usual.identity()  # the same code


def test_identity_holds_the_versions_of_what_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, gpu = Options(autotune=OFF), Options(device=device("cuda"), architecture="sm_90", autotune=OFF)
    before = cpu.identity(), gpu.identity()
    installed = versions.installed
    monkeypatch.setattr(versions, "installed", lambda name: "0.0" if name == "triton" else installed(name))
    assert cpu.identity() == before[0] and gpu.identity() != before[1]
    monkeypatch.setattr(versions, "installed", lambda name: "0.0" if name == "torch-mlir" else installed(name))
    assert cpu.identity() != before[0]
    monkeypatch.undo()
    monkeypatch.setattr(versions, "native_runtime", lambda: "another build")
    assert cpu.identity() != before[0]


def test_another_torch_mlir_compiles_anew(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def double(x: burn.Tensor) -> burn.Tensor:
        return x * 2

    def compiled() -> int:
        before = burn.compile_count()
        burn.compile(double, ("float32[3]",))(np.ones(3, np.float32))
        return burn.compile_count() - before

    assert (compiled(), compiled()) == (1, 0)
    installed = versions.installed
    monkeypatch.setattr(versions, "installed", lambda name: installed(name) + "+1")
    assert (compiled(), compiled()) == (1, 0)


def test_installed_versions() -> None:
    from importlib import metadata

    there = {each.name.lower() for each in metadata.distributions()}
    for name in {"torch-mlir", "numpy"} & there:
        assert versions.installed(name) == metadata.version(name)
    assert versions.installed("no-such-distribution") == "absent"


def test_one_module_reads_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments passed on to other processes, and Triton's settings, do not count as reads."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if not re.search(r"\benviron\b|\bgetenv\b", source := path.read_text()):
            continue
        for node in ast.walk(ast.parse(source)):
            is_read = isinstance(node, ast.Call) or (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load))
            text = ast.unparse(node) if is_read else ""
            if text.startswith(("os.environ.get(", "os.getenv(", "os.environ[")):
                found.append(f"{path.relative_to(PACKAGE)}: {text}")
    assert found == ["variables.py: os.environ.get(name)"]
    with pytest.raises(KeyError):
        variables.variable("BURN_UNKNOWN")
    monkeypatch.setenv("BURN_AUTOTUNE", "sometimes")
    with pytest.raises(BurnError, match="BURN_AUTOTUNE is malformed"):
        Options()


def test_the_runtime_reads_no_other_variable() -> None:
    native = [*(PACKAGE / "runtime" / "native").rglob("*.c*"), *(PACKAGE / "deploy" / "native").rglob("*.c")]
    read = {name for path in native for name in re.findall(r'getenv\("(\w+)"\)', path.read_text())}
    assert read and read <= set(variables.VARIABLES)


PUBLIC = {
    *("loading.py: load", "compiled.py: compile", "options.py: of"),
    *("cli/run.py: main", "cli/compile.py: main", "cli/bench.py: models"),
}
"""Functions that users call with options one by one."""


def test_options_are_passed_on_whole() -> None:
    """No other function takes three of them apart from the value."""
    names = {each.name for each in fields(Options)} - {"cache"}
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text()
        if sum(name in source for name in names) < 3:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
                if len(given & names) >= 3:
                    found.add(f"{path.relative_to(PACKAGE)}: {node.name}")
    assert found <= PUBLIC and {"loading.py: load", "compiled.py: compile"} <= found
