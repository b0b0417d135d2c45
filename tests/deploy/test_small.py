"""Programs that are to be small (`--optimize size`): the numbers of those that are to be quick, in a fraction of the bytes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.codegen.cpu.target import TARGETS, compact, host_target
from burn.compiler import compile_program, executable
from burn.deploy import small
from burn.deploy.native_runtime import SHARED
from burn.dialect.program import Program
from burn.loading import read_program
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features
from tests.deploy.making import (
    DIGITS,
    Array,
    Failed,
    Library,
    Tensor,
    digits,
    feeds_of,
    make,
    reference_models,
    run,
    traced,
)
from tests.e2e.test_models import sizes_to_try
from tests.models import MODELS, Unavailable, model_path, random_inputs
from tests.models.case import Exporter


def _library(program: Program, folder: Path, **given: Any) -> Library:
    """A small shared library, its weights in it unless they are asked for `beside`."""
    outputs = executable(program.copy()).outputs
    path = make("shared", program, folder / "model", small=True, **given)
    weights = path.parent / "model.safetensors"
    return Library(path, "model", outputs, weights if weights.exists() else None)


def _close(got: Array, want: Array) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(want).max(initial=0)))
    else:
        np.testing.assert_array_equal(got, want)


# ---- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "exporter"), reference_models())
def test_reference_models(name: str, exporter: Exporter | None, tmp_path: Path) -> None:
    try:
        program = read_program(model_path(name, exporter))
    except Unavailable as reason:
        pytest.skip(str(reason))
    case = MODELS[name]
    reference = executable(program.copy())
    model = _library(program, tmp_path, beside=True)
    for seed, chosen in enumerate(sizes_to_try(case.sizes)):
        feeds = random_inputs(case, seed, **chosen)
        for got, want in zip(model.run(feeds_of(reference.inputs, feeds)), reference.run(feeds).values(), strict=True):
            assert np.abs(got - want).max(initial=0) <= 1e-3 * max(1.0, np.abs(want).max(initial=0))
    model.close()


def test_many_libraries_in_one_process(tmp_path: Path) -> None:
    """A library's thread-local data does not use the small static block that is reserved at process start."""
    path = make("shared", traced(lambda x: x + 1, x="float32[n]"), tmp_path / "one", small=True)
    for copy in range(60):
        shutil.copy(path, tmp_path / f"{copy}.so")
    load = "import ctypes, sys\nfor copy in range(60): ctypes.CDLL(f'{sys.argv[1]}/{copy}.so')"
    subprocess.run([sys.executable, "-c", load, tmp_path], check=True)


def _loop(x: burn.Tensor) -> burn.Tensor:
    return burn.scan(lambda total, row: (total * 0.5 + row, total.sum()), burn.zeros(x.shape[1]), x)[1]


def _branches(x: burn.Tensor, i: burn.Tensor) -> burn.Tensor:
    """Sizes and addresses that are computed in front of the branches, in one of them, and used behind."""
    y = x.exp() @ x.transpose(0, 1)
    taken = burn.cond(i.sum() > 1, lambda: (y @ y).softmax(-1) + 1, lambda: y.sum(0, keepdims=True) * y)
    return (taken @ y).max(-1) + x.sum(-1)


FUNCTIONS: Mapping[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "product": (lambda x, y: x @ y, {"x": "float32[m, k]", "y": "float32[k, n]"}),
    "turned product": (
        lambda x, y: x.transpose(0, 1) @ y.transpose(0, 1),
        {"x": "float32[k, m]", "y": "float32[n, k]"},
    ),
    "batches": (lambda x, y: (x @ y).exp().sum(-1), {"x": "float32[b, m, k]", "y": "float32[b, k, n]"}),
    "doubles": (lambda x, y: x @ y + 1, {"x": "float64[m, k]", "y": "float64[k, n]"}),
    "halves": (lambda x, y: x @ y, {"x": "float16[m, k]", "y": "float16[k, n]"}),
    "softmax": (lambda x: x.softmax(-1), {"x": "float32[m, n]"}),
    "sums": (lambda x: (x.sum(0), x.mean(1), x.max(1), x.argmax(1)), {"x": "float32[m, n]"}),
    "integers": (lambda x: (x * 3 - x.sum(), x > 2), {"x": "int64[n]"}),
    "turned": (lambda x: x.transpose(0, 1).exp() + 1, {"x": "float32[m, n]"}),
    "gathered": (lambda x, i: x[i], {"x": "float32[m, n]", "i": "int64[k]"}),
    "joined": (lambda x, y: burn.cat([x, y, x], 0)[::2], {"x": "float32[m]", "y": "float32[n]"}),
    "loop": (_loop, {"x": "float32[m, n]"}),
    "branches": (_branches, {"x": "float32[m, n]", "i": "int64[k]"}),
    "library": (lambda x: burn.nonzero(x), {"x": "float32[m]"}),
    "sorted": (lambda x: x.sort(-1), {"x": "float32[m, n]"}),
}
SIZES = ({"m": 1, "n": 1, "k": 1, "b": 1}, {"m": 3, "n": 70, "k": 17, "b": 2}, {"m": 37, "n": 5, "k": 2, "b": 3})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_at_any_size(name: str, tmp_path: Path) -> None:
    function, types = FUNCTIONS[name]
    expected = burn.compile(function, tuple(types.values()))
    model = _library(traced(function, **types), tmp_path)
    for seed, sizes in enumerate(SIZES):
        given = [(_drawn(text, sizes, seed), text.split("[")[0]) for text in types.values()]
        wanted = expected(*(array for array, _ in given))
        for got, want in zip(model.run(given), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            if want.dtype == np.float16:
                np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)
            else:
                _close(got, want)
    model.close()


def _drawn(text: str, sizes: Mapping[str, int], seed: int) -> Array:
    dtype, dims = text.rstrip("]").split("[")
    shape = [sizes[dim.strip()] for dim in dims.split(",")]
    rng = np.random.default_rng(seed)
    return rng.integers(0, sizes["m"], shape) if dtype == "int64" else rng.standard_normal(shape).astype(dtype)


def test_bytes_are_multiplied_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight = rng.integers(-128, 128, (33, 70)).astype(np.int8)

    def matmul(x: burn.Tensor) -> burn.Tensor:
        return x.to("int32") @ burn.tensor(weight).to("int32")

    model = _library(traced(matmul, x="uint8[m, 33]"), tmp_path)
    for rows in (1, 7, 0):
        x = rng.integers(0, 256, (rows, 33)).astype(np.uint8)
        np.testing.assert_array_equal(model.run([(x, "uint8")])[0], x.astype(np.int32) @ weight.astype(np.int32))


@pytest.mark.parametrize("cpu", TARGETS)
def test_every_cpu_of_this_machine(cpu: str) -> None:
    target = TARGETS[cpu]
    if not (target.is_compiled_here and set(compact(target).features) <= features()):
        pytest.skip("another machine's")
    x = np.random.default_rng(0).standard_normal((5, 1, 8, 8)).astype(np.float32)
    _close(Executable(compile_program(digits(), Options(target=compact(target))))(x), burn.load(DIGITS)(x))


# ---- the interface ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return _library(digits(), tmp_path_factory.mktemp("small"), beside=True)


def _images(batch: int) -> Array:
    return np.random.default_rng(batch).standard_normal((batch, 1, 8, 8)).astype(np.float32)


def _address(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def test_any_batch_from_eight_threads(model: Library) -> None:
    reference = burn.load(DIGITS)
    wanted = {batch: reference(_images(batch)) for batch in range(7)}

    def work(thread: int) -> None:
        for turn in range(20):
            x = _images((thread + turn) % 7)
            _close(model.run([(x, "float32")])[0], wanted[len(x)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_the_callers_memory(model: Library) -> None:
    want = burn.load(DIGITS)(_images(5))
    both = _images(5)  # the output over the input
    model.check(model.function("run")(model.model, ctypes.c_int64(5), _address(both), _address(both)))
    _close(both.reshape(-1)[:50].reshape(5, 10), want)
    dims = (ctypes.c_int64 * 16)()
    model.check(model.function("output_dims")(ctypes.c_int64(7), 0, dims))
    assert dims[:2] == [7, 10]


def test_wrong_calls(model: Library, tmp_path: Path) -> None:
    x = _images(2)

    def code(tensor: Tensor, output: Tensor | None = None) -> int:
        outputs = (Tensor * 1)(*([output] if output is not None else []))
        with pytest.raises(Failed) as failure:
            model.check(model.function("run_tensors")(model.model, ctypes.byref(tensor), outputs))
        assert output is not None or outputs[0].data is None
        assert failure.value.args[1].startswith(f"error {failure.value.args[0]} of enum burn_code")
        return failure.value.args[0]

    assert code(Tensor.of(x, "int32")) == 64
    assert code(Tensor.of(np.zeros((2, 1, 8, 9), np.float32), "float32")) == 10
    assert code(Tensor.of(np.zeros((2, 64), np.float32), "float32")) == 10
    for field, value, expected in (("bytes", 508, 10), ("data", None, 64), ("rank", 17, 10), ("rank", -1, 10)):
        wrong = Tensor.of(x, "float32")
        setattr(wrong, field, value)
        assert code(wrong) == expected
    odd = Tensor.of(x, "float32")
    odd.data += 1
    assert code(odd) == 64
    room = np.zeros(20, np.float32)
    assert code(Tensor.of(x, "float32"), Tensor(room.ctypes.data, 79, 0, 0)) == 18
    call = model.function("run")
    for given, expected in (
        ((None, ctypes.c_int64(2), _address(x), _address(x)), 64),
        ((model.model, ctypes.c_int64(2), None, _address(x)), 64),
        ((model.model, ctypes.c_int64(2), _address(x), None), 64),
        ((model.model, ctypes.c_int64(-2), _address(x), _address(x)), 4),
        ((model.model, ctypes.c_int64(2**62), _address(x), _address(x)), 9),
    ):
        assert call(*given) == expected
    assert model.function("output_dims")(ctypes.c_int64(1), 1, (ctypes.c_int64 * 16)()) == 64
    for weights in (None, b"/nowhere", bytes(tmp_path), str(DIGITS).encode()):
        assert model.function("create")(ctypes.byref(ctypes.c_void_p()), weights) == 65
    _close(model.run([(x, "float32")])[0], burn.load(DIGITS)(x))  # and it goes on


def test_a_damaged_file_of_weights(tmp_path: Path) -> None:
    path = make("shared", digits(), tmp_path / "model", small=True, beside=True)
    weights = path.parent / "model.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[-70] ^= 1
    weights.write_bytes(damaged)
    with pytest.raises(Failed) as failure:
        Library(path, "model", (), weights)
    assert failure.value.args[0] == 65


def test_sizes_that_must_agree(tmp_path: Path) -> None:
    model = _library(traced(lambda x, y: x + y, x="float32[n, 2]", y="float32[n, 2]"), tmp_path)
    x, y = np.ones((3, 2), np.float32), np.ones((4, 2), np.float32)
    _close(model.run([(x, "float32"), (x, "float32")])[0], x + x)
    with pytest.raises(Failed) as failure:
        model.run([(x, "float32"), (y, "float32")])
    assert failure.value.args == (10, "error 10 of enum burn_code (1)")


def test_a_failure_while_it_runs(tmp_path: Path) -> None:
    model = _library(traced(lambda x, i: x[i], x="float32[n]", i="int64[m]"), tmp_path)
    x = np.arange(5, dtype=np.float32)
    with pytest.raises(Failed) as failure:
        model.run([(x, "float32"), (np.array([1, 7]), "int64")])
    assert failure.value.args == (2, "error 2 of enum burn_code (7)")
    _close(model.run([(x, "float32"), (np.array([4, -1]), "int64")])[0], x[[4, -1]])


def test_random_numbers_follow_a_seed(tmp_path: Path) -> None:
    def noisy(x: burn.Tensor) -> burn.Tensor:
        return x + burn.random.uniform(*x.shape)

    expected = burn.compile(noisy, ("float32[n]",))
    model = _library(traced(noisy, x="float32[n]"), tmp_path)
    x = np.zeros(100, np.float32)
    model.function("seed")(model.model, ctypes.c_uint64(7))
    expected.seed(7)
    for _ in range(3):
        np.testing.assert_array_equal(model.run([(x, "float32")])[0], expected(x))


def test_beside_others_in_one_program(tmp_path: Path) -> None:
    if not (compiler := shutil.which("cc")):
        pytest.skip("there is no C compiler")
    folders = [
        make("static", traced(lambda x, k=k: x * k, x="float32[n]"), tmp_path / name, small=is_small).parent
        for k, (name, is_small) in enumerate((("one", True), ("two", True), ("three", False)), 1)
    ]
    calls = "".join(
        f"    {n}_model *{n}; if ({n}_create(&{n}, 0) || {n}_run({n}, 1, &x, &y)) return 1; "
        f'printf("%g ", y); {n}_destroy({n});\n'
        for n in ("one", "two", "three")
    )
    headers = "".join(f'#include "{folder.name}.h"\n' for folder in folders)
    (tmp_path / "all.c").write_text(
        f"#include <stdio.h>\n{headers}int main(void) {{\n    float x = 3, y;\n{calls}    return 0;\n}}\n"
    )
    for order in (folders, folders[::-1]):
        links = [word for folder in order for word in (f"-I{folder}", f"-L{folder}")]
        links += [f"-l{folder.name}" for folder in order]
        subprocess.run([compiler, "all.c", *links, "-lpthread", "-lm", "-o", "all"], cwd=tmp_path, check=True)
        assert subprocess.check_output([tmp_path / "all"], text=True) == "3 6 9 "


# ---- how it is made --------------------------------------------------------------------------------------------------


def test_with_the_systems_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes no text of LLVM: the engine makes the object."""
    if not shutil.which("cc") or not shutil.which("ar"):
        pytest.skip("there is no C compiler")
    monkeypatch.setenv("CC", "cc")
    model = _library(digits(), tmp_path)
    _close(model.run([(_images(3), "float32")])[0], burn.load(DIGITS)(_images(3)))


def test_commands(tmp_path: Path) -> None:
    quick, compacted = (make("exe", digits(), tmp_path / str(is_small), small=is_small) for is_small in (False, True))
    np.save(tmp_path / "x.npy", _images(4))
    run(compacted, tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    _close(np.load(tmp_path / "y.npy"), burn.load(DIGITS)(_images(4)))
    assert compacted.stat().st_size < quick.stat().st_size


@pytest.mark.parametrize("is_small", [False, True])
def test_the_header_says_what_there_is(is_small: bool, tmp_path: Path) -> None:
    folder = make("shared", digits(), tmp_path / "model", small=is_small).parent
    header = " ".join((folder / "model.h").read_text().replace(" * ", " ").split())
    assert ("is written in place" in header) is not is_small
    assert ("Outputs are copied" in header) is is_small
    assert ("BURN_NUM_THREADS" in header) is not is_small


def test_which_programs_have_the_small_runtime() -> None:
    target = compact(host_target(features()))
    artefact = compile_program(traced(lambda x: x * 2, x="float32[n]"), Options(target=target))
    assert small.runs(artefact, target, frozenset(("burn_rt_launch", "burn_entry", "memcpy")))
    assert not small.runs(artefact, target, frozenset(("burn_rt_launch", "burn_lib_sort")))
    assert not small.runs(artefact, replace(TARGETS["rvv"], compact=True), frozenset())


def test_what_it_offers_is_there() -> None:
    text = "".join(path.read_text() for path in (*small.FOLDER.glob("*.c"), SHARED / "steps.c"))
    declared = (SHARED / "burn_rt.h").read_text()
    for name in small.OFFERED:
        assert f"{name}(" in declared and f" {name}(" in text.replace("*", " "), name


@pytest.mark.parametrize("name", ["digits", "mnist"])
def test_bytes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are those of ziglang's compiler."""
    pytest.importorskip("ziglang")
    monkeypatch.delenv("CC", raising=False)
    try:
        path = DIGITS if name == "digits" else model_path(name, None)
    except Unavailable as reason:
        pytest.skip(str(reason))
    libraries = [
        make("shared", read_program(path), tmp_path / str(is_small), beside=True, small=is_small, name="model")
        for is_small in (False, True)
    ]
    quick, compacted = (library.stat().st_size for library in libraries)
    assert compacted < 15_000 and compacted < quick / 3, (quick, compacted)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = (make("static", digits(), tmp_path / name / "model", small=True) for name in _folders(tmp_path))
    assert one.read_bytes() == two.read_bytes()


def _folders(folder: Path) -> tuple[str, str]:
    for name in ("a", "b"):
        (folder / name).mkdir()
    return "a", "b"
