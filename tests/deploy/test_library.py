"""Libraries with a C interface: the bits of burn.load at any size, from C, C++, Rust, Go and ctypes, from many threads."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import burn
from burn.deploy.build import KINDS, kind_of
from burn.deploy.interface import identifier, model_name
from burn.deploy.native_runtime import OWN
from burn.deploy.objects import asked_for
from burn.errors import CompileError
from burn.runtime.abi import Status
from burn.runtime.dtypes import CODES
from tests.deploy.making import DIGITS, Array, Failed, Library, Tensor, digits, make, traced

pytestmark = pytest.mark.untuned  # results have the bits of `burn.load`, and deployed programs are not tuned

ROOT = Path(__file__).parents[2]
WEIGHTS = "digits.safetensors"


@pytest.fixture(scope="module")
def reference() -> burn.Executable:
    return burn.load(DIGITS)


@pytest.fixture
def model(library: Path, reference: burn.Executable) -> Library:
    return Library(library, "digits", reference.outputs, library.parent / WEIGHTS)


def _images(batch: int) -> Array:
    return np.random.default_rng(batch).standard_normal((batch, 1, 8, 8)).astype(np.float32)


def test_any_size(model: Library, reference: burn.Executable) -> None:
    for batch in (1, 3, 0, 40, 3):
        x = _images(batch)
        np.testing.assert_array_equal(model.run([(x, "float32")])[0], reference(x))


def test_the_callers_memory(model: Library, reference: burn.Executable) -> None:
    x = _images(5)
    want = reference(x)
    room = np.empty(5 * 10 * 4 + 64, np.uint8)
    for shift in range(0, 32, 4):  # on 64 bytes and elsewhere
        y = room[shift : shift + 200].view(np.float32)
        y[:] = np.nan
        model.check(
            model.function("run")(model.model, ctypes.c_int64(5), x.ctypes.data_as(ctypes.c_void_p), _address(y))
        )
        np.testing.assert_array_equal(y.reshape(5, 10), want)
    both = x.copy()  # the output over the input
    model.check(model.function("run")(model.model, ctypes.c_int64(5), _address(both), _address(both)))
    np.testing.assert_array_equal(both.reshape(-1)[:50].reshape(5, 10), want)


def _address(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def test_eight_threads(model: Library, reference: burn.Executable) -> None:
    def work(thread: int) -> None:
        for turn in range(20):
            x = _images(1 + (thread + turn) % 7)
            np.testing.assert_array_equal(model.run([(x, "float32")])[0], wanted[len(x)])

    wanted = {batch: reference(_images(batch)) for batch in range(1, 8)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_sizes_before_a_run(model: Library) -> None:
    dims = (ctypes.c_int64 * 16)()
    model.check(model.function("output_dims")(ctypes.c_int64(7), 0, dims))
    assert dims[:2] == [7, 10]
    with pytest.raises(Failed, match="negative"):
        model.check(model.function("output_dims")(ctypes.c_int64(-1), 0, dims))
    with pytest.raises(Failed, match="no output number 1"):
        model.check(model.function("output_dims")(ctypes.c_int64(1), 1, dims))
    assert json.loads(model.function("about")())["outputs"][0]["dims"] == ["batch", 10]


def test_wrong_calls(model: Library, library: Path, reference: burn.Executable) -> None:
    x = _images(2)

    def fails(message: str, tensor: Tensor, output: Tensor | None = None) -> int:
        outputs = (Tensor * 1)(*([output] if output is not None else []))
        with pytest.raises(Failed, match=message) as failure:
            model.check(model.function("run_tensors")(model.model, ctypes.byref(tensor), outputs))
        assert output is not None or outputs[0].data is None
        return failure.value.args[0]

    assert fails("element type", Tensor.of(x, "int32")) == 64
    assert fails(r"given as \[2, 1, 8, 9\]", Tensor.of(np.zeros((2, 1, 8, 9), np.float32), "float32")) == 10
    short = Tensor.of(x, "float32")
    short.bytes -= 4
    assert fails("with 508 bytes", short) == 10
    none = Tensor.of(x, "float32")
    none.data = None
    assert fails("null pointer", none) == 64
    odd = Tensor.of(x, "float32")
    odd.data += 1
    assert fails("not aligned", odd) == 64
    deep = Tensor.of(x, "float32")
    deep.rank = 17
    assert fails("rank", deep) == 64
    for shift in (0, 4):
        room = np.zeros(64, np.float32)[shift:]
        small = Tensor(room.ctypes.data, 79, 0, 0)
        assert fails("'logits' takes 80 bytes, and was given memory of 79", Tensor.of(x, "float32"), small) == 18
    run = model.function("run")
    with pytest.raises(Failed, match="no model"):
        model.check(run(None, ctypes.c_int64(2), _address(x), _address(x)))
    with pytest.raises(Failed, match="input 'image' is a null pointer"):
        model.check(run(model.model, ctypes.c_int64(2), None, _address(x)))
    with pytest.raises(Failed, match="output 'logits' is a null pointer"):
        model.check(run(model.model, ctypes.c_int64(2), _address(x), None))
    with pytest.raises(Failed, match="cannot have such sizes"):
        model.check(run(model.model, ctypes.c_int64(2**62), _address(x), _address(x)))
    with pytest.raises(Failed, match="needs its file of weights"):
        Library(library, "digits", reference.outputs)
    with pytest.raises(Failed, match="is not this model's file of weights"):
        Library(library, "digits", reference.outputs, library.parent / "digits.h")
    np.testing.assert_array_equal(model.run([(x, "float32")])[0], reference(x))  # and it goes on


def test_models_end(library: Path, reference: burn.Executable) -> None:
    """The last one ends the threads too, so that a library can be unloaded; another one starts them again."""
    for _ in range(3):
        model = Library(library, "digits", reference.outputs, library.parent / WEIGHTS)
        model.run([(_images(64), "float32")])
        model.close()


def test_sizes_are_computed_as_the_compiler_does(tmp_path: Path) -> None:
    def sized(a: burn.Tensor, b: burn.Tensor) -> tuple[burn.Tensor, ...]:
        return burn.cat([a, a, b], 0), a[::2], b[1:]

    path = make("shared", traced(sized, a="float32[n]", b="float32[m]"), tmp_path / "sized")
    expected = burn.compile(sized, ("float32[n]", "float32[m]"))
    model = Library(path, "sized", expected.outputs)
    dims = (ctypes.c_int64 * 16)()
    for n, m in ((0, 0), (1, 1), (2, 7), (13, 4)):
        a, b = np.arange(n, dtype=np.float32), -np.arange(m, dtype=np.float32)
        for number, (got, want) in enumerate(
            zip(model.run([(a, "float32"), (b, "float32")]), expected(a, b), strict=True)
        ):
            np.testing.assert_array_equal(got, want)
            model.check(model.function("output_dims")(ctypes.c_int64(n), ctypes.c_int64(m), number, dims))
            assert dims[0] == len(want)


def test_sizes_that_only_a_run_can_tell(tmp_path: Path) -> None:
    path = make("shared", traced(lambda x: burn.nonzero(x), x="float32[n]"), tmp_path / "found")
    expected = burn.compile(lambda x: burn.nonzero(x), ("float32[n]",))
    model = Library(path, "found", expected.outputs)
    x = np.array([0, 3, 0, 5, 1], np.float32)
    np.testing.assert_array_equal(model.run([(x, "float32")])[0], expected(x))
    assert not hasattr(model.library, "found_run")
    assert "found_run(" not in (tmp_path / "found" / "found.h").read_text()


def test_random_numbers_follow_a_seed(tmp_path: Path) -> None:
    def noisy(x: burn.Tensor) -> burn.Tensor:
        return x + burn.random.uniform(*x.shape)

    path = make("shared", traced(noisy, x="float32[n]"), tmp_path / "noisy")
    expected = burn.compile(noisy, ("float32[n]",))
    model = Library(path, "noisy", expected.outputs)
    x = np.zeros(100, np.float32)
    for seed in (7, 2**64 - 1):
        model.function("seed")(model.model, ctypes.c_uint64(seed))
        expected.seed(seed)
        for _ in range(3):
            np.testing.assert_array_equal(model.run([(x, "float32")])[0], expected(x))


# ---- other languages -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digits as a static library."""
    return make("static", digits(), tmp_path_factory.mktemp("static") / "digits").parent


@pytest.mark.parametrize("kind", ["library", "static"])
def test_c_with_cmake_and_pkg_config(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    made = request.getfixturevalue(kind)
    folder = tmp_path / "digits"
    shutil.copytree(made if made.is_dir() else made.parent, folder)  # a folder that was moved
    if shutil.which("cmake"):
        build = tmp_path / "build"
        for words in (["-S", folder, "-B", build], ["--build", build]):
            subprocess.run(["cmake", *words], check=True, capture_output=True)
        ran = subprocess.run([build / "digits_example"], cwd=folder, capture_output=True, text=True)
        assert ran.stdout == "digits has run\n", ran.stderr
    compiler, finder = shutil.which("cc"), shutil.which("pkg-config")
    if compiler and finder:
        told = subprocess.check_output(
            [finder, "--cflags", "--libs", "digits"], env={"PKG_CONFIG_PATH": str(folder)}, text=True
        )
        strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        command = [compiler, *strict, "main.c", *told.split(), f"-Wl,-rpath,{folder}", "-o", "example"]
        subprocess.run(command, cwd=folder, check=True)
        assert subprocess.check_output([folder / "example"], cwd=folder, text=True) == "digits has run\n"


CPP = """
#include <cstdio>
#include "digits.hpp"
int main() {
    std::vector<float> image(2 * 64, 0.5f);
    try {
        digits::Model().run(-1, image.data());
    } catch (const digits::Error &error) {
        std::printf("%d\\n", error.code);
    }
    digits::Model first, model(std::move(first));
    digits::Outputs out = model.run(2, image.data());
    for (float logit : out.logits)
        std::printf("%a\\n", logit);
}
"""

RUST = """
use std::os::raw::{c_char, c_void};
#[link(name = "digits", kind = "static")]
extern "C" {
    fn digits_create(model: *mut *mut c_void, weights: *const c_char) -> i32;
    fn digits_run(model: *mut c_void, batch: i64, image: *const f32, logits: *mut f32) -> i32;
    fn digits_destroy(model: *mut c_void);
}
fn main() {
    let image = [0.5f32; 2 * 64];
    let mut logits = [0f32; 2 * 10];
    let mut model = std::ptr::null_mut();
    unsafe {
        assert_eq!(digits_create(&mut model, std::ptr::null()), 0);
        assert_eq!(digits_run(model, 2, image.as_ptr(), logits.as_mut_ptr()), 0);
        digits_destroy(model);
    }
    for logit in logits {
        println!("{}", logit.to_bits());
    }
}
"""


GO = """
package main

// #include "digits.h"
import "C"

import (
	"fmt"
	"math"
)

func main() {
	var model *C.digits_model
	if C.digits_create(&model, nil) != 0 {
		panic(C.GoString(C.digits_error()))
	}
	defer C.digits_destroy(model)
	image, logits := make([]C.float, 2*64), make([]C.float, 2*10)
	for i := range image {
		image[i] = 0.5
	}
	if C.digits_run(model, 2, &image[0], &logits[0]) != 0 {
		panic(C.GoString(C.digits_error()))
	}
	for _, logit := range logits {
		fmt.Println(math.Float32bits(float32(logit)))
	}
	fmt.Println(C.digits_run(model, -1, &image[0], &logits[0]), C.GoString(C.digits_error()))
}
"""


def test_cpp(static: Path, tmp_path: Path, reference: burn.Executable) -> None:
    if not (compiler := shutil.which("c++")):
        pytest.skip("there is no C++ compiler")
    (tmp_path / "use.cpp").write_text(CPP)
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
    links = ["-L", static, "-ldigits", "-lpthread", "-lm", "-o", "use"]
    subprocess.run([compiler, *strict, "use.cpp", "-I", static, *links], cwd=tmp_path, check=True)
    said = subprocess.check_output([tmp_path / "use"], text=True).split()
    assert said[0] == str(int(Status.NEGATIVE_SIZE))
    want = reference(np.full((2, 1, 8, 8), 0.5, np.float32)).reshape(-1)
    assert [float.fromhex(text) for text in said[1:]] == want.tolist()


def test_rust(static: Path, tmp_path: Path, reference: burn.Executable) -> None:
    if not (compiler := shutil.which("rustc")):
        pytest.skip("there is no Rust compiler")
    (tmp_path / "use.rs").write_text(RUST)
    done = subprocess.run([compiler, "use.rs", "-L", static], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode and "toolchain" in done.stderr:
        pytest.skip("rustc is there, but no toolchain")
    assert done.returncode == 0, done.stderr
    said = subprocess.check_output([tmp_path / "use"], text=True).split()
    want = reference(np.full((2, 1, 8, 8), 0.5, np.float32)).reshape(-1)
    assert [int(text) for text in said] == want.view(np.uint32).tolist()


@pytest.mark.slow  # Go first compiles its own library
def test_go(static: Path, tmp_path: Path, reference: burn.Executable) -> None:
    if not (compiler := shutil.which("go")):
        pytest.skip("there is no Go compiler")
    (tmp_path / "use.go").write_text(GO)
    flags = {"CGO_CFLAGS": f"-I{static}", "CGO_LDFLAGS": f"-L{static} -ldigits -lpthread -lm", "GO111MODULE": "off"}
    subprocess.run([compiler, "build", "use.go"], cwd=tmp_path, env=os.environ | flags, check=True)
    *said, error = subprocess.check_output([tmp_path / "use"], text=True).splitlines()
    want = reference(np.full((2, 1, 8, 8), 0.5, np.float32)).reshape(-1)
    assert [int(text) for text in said] == want.view(np.uint32).tolist()
    assert error.startswith(f"{int(Status.NEGATIVE_SIZE)} ")


def test_two_models_in_one_program(static: Path, tmp_path: Path) -> None:
    if not (compiler := shutil.which("cc")):
        pytest.skip("there is no C compiler")
    other = make("static", traced(lambda x: x * 2, x="float32[n]"), tmp_path / "double it").parent
    (tmp_path / "two.c").write_text("""
#include <stdio.h>
#include "digits.h"
#include "double_it.h"
int main(void) {
    float x[64] = {3}, y[64];
    digits_model *one;
    double_it_model *two;
    if (digits_create(&one, 0) || double_it_create(&two, 0) || digits_run(one, 1, x, y) || double_it_run(two, 1, x, y))
        return 1;
    printf("%g", y[0]);
    digits_destroy(one);
    double_it_destroy(two);
    return 0;
}""")
    links = [
        "-I",
        static,
        "-I",
        other,
        "-L",
        static,
        "-L",
        other,
        "-ldigits",
        "-ldouble_it",
        "-lpthread",
        "-lm",
        "-o",
        "two",
    ]
    subprocess.run([compiler, "two.c", *links], cwd=tmp_path, check=True)
    assert subprocess.check_output([tmp_path / "two"], text=True) == "6"


COUNTED = """
#include <stdio.h>
#include <stdlib.h>
#include "digits.h"
static int calls;
#define COUNTED(result, name, parameters, arguments) \\
    result __real_##name parameters; \\
    result __wrap_##name parameters; \\
    result __wrap_##name parameters { calls++; return __real_##name arguments; }
COUNTED(void *, malloc, (size_t a), (a))
COUNTED(void *, calloc, (size_t a, size_t b), (a, b))
COUNTED(void *, realloc, (void *a, size_t b), (a, b))
COUNTED(void *, aligned_alloc, (size_t a, size_t b), (a, b))
COUNTED(void *, mmap, (void *a, size_t b, int c, int d, int e, long f), (a, b, c, d, e, f))
int main(void) {
    static _Alignas(64) float image[40 * 64], logits[40 * 16];
    digits_model *model;
    int first, rest;
    if (digits_create(&model, NULL) || digits_run(model, 40, image, logits))
        return 1;
    first = calls;
    for (int turn = 0; turn < 50; turn++)
        if (digits_run(model, 40, image, logits))
            return 1;
    rest = calls - first;
    digits_destroy(model);
    printf("%d %d", first > 0, rest);
    return 0;
}
"""


def test_a_call_of_known_sizes_allocates_nothing(static: Path, tmp_path: Path) -> None:
    if not (compiler := shutil.which("cc")):
        pytest.skip("there is no C compiler")
    (tmp_path / "counted.c").write_text(COUNTED)
    wrapped = [f"-Wl,--wrap={name}" for name in ("malloc", "calloc", "realloc", "aligned_alloc", "mmap")]
    links = ["-I", static, "-L", static, "-ldigits", "-lpthread", "-lm", *wrapped, "-o", "counted"]
    subprocess.run([compiler, "-std=c11", "counted.c", *links], cwd=tmp_path, check=True)
    environment = {**os.environ, "BURN_NUM_THREADS": "1"}  # a thread that wakes late has its scratch to make
    assert subprocess.check_output([tmp_path / "counted"], text=True, env=environment) == "1 0"


# ---- what is made ----------------------------------------------------------------------------------------------------

BUILT = (("exe", "command"), ("shared", "shared"), ("static", "static"))
BUILD = f"""
import sys
from pathlib import Path
from tests.deploy.making import digits, make
for kind, name in {BUILT}:
    make(kind, digits(), Path(sys.argv[1]) / name, beside=True)
"""


def test_the_same_bytes_wherever_it_is_made(tmp_path: Path) -> None:
    """Here, and in another folder by another process, whose sets have other orders. (With empty caches: test_programs.py.)"""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    for kind, name in BUILT:
        make(kind, digits(), here / name, beside=True)
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    subprocess.run([sys.executable, "-c", BUILD, there], check=True, cwd=ROOT, env=environment)
    made = [
        {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        for folder in (here, there)
    ]
    assert len(made[0]) == 16
    assert made[0].keys() == made[1].keys()
    assert [name for name in made[0] if made[0][name] != made[1][name]] == []


def test_names_of_c() -> None:
    taken = {"int"}
    assert identifier("int", taken) == "int_1"
    assert identifier("input.1", taken) == "input_1"
    assert identifier("input:1", taken) == "input_1_1"
    assert identifier("33", taken) == "_33"
    assert identifier("größe", taken) == "gr_e"
    assert identifier("::", taken) == "value"
    names = ("model", "new", "burn", "burn-rt", "Burn_model", "burnt")
    assert list(map(model_name, names)) == ["model", "new_1", "the_burn", "the_burn_rt", "the_Burn_model", "burnt"]


def test_the_header_is_held_to_the_runtime() -> None:
    """The codes and element types that C programs see are those of the runtime."""
    header = (OWN / "burn_model.h").read_text()
    codes = {name: int(number) for name, number in re.findall(r"BURN_E_(\w+) = (\d+)", header)}
    assert {name: code for name, code in codes.items() if code < 64} == {s.name: s for s in Status if s != Status.OK}
    (listed,) = re.findall(r"enum burn_element \{(.*?)\}", header, re.DOTALL)
    names = [name.strip().removeprefix("BURN_").lower() for name in listed.split(",")]
    assert names == [{"bool": "boolean"}.get(name, name) for name in CODES[: len(names)]]


def test_what_has_no_c_interface(tmp_path: Path) -> None:
    program = traced(lambda x: x, x="string[n]")
    with pytest.raises(CompileError, match=r"input 'x' holds strings(.|\n)*--emit package"):
        make("exe", program, tmp_path / "texts")
    assert not (tmp_path / "texts").exists()


def test_single_files(tmp_path: Path, reference: burn.Executable) -> None:
    texts = {
        name: make(name, digits(), tmp_path / f"digits{KINDS[name].suffix}").read_text() for name in ("mlir", "llvm")
    }
    assert "llvm.func @burn_entry(" in texts["mlir"] and "vector." in texts["mlir"]
    assert "define i32 @burn_entry(ptr" in texts["llvm"]
    assert "@triton.jit" in make("triton", digits(), tmp_path / "kernels.py").read_text()
    code = make("object", digits(), tmp_path / "digits.o").read_bytes()
    assert "burn_rt_launch" in asked_for(code) and b"\0digits_entry\0" in code and b"\0burn_entry\0" not in code
    package = burn.load(make("package", digits(), tmp_path / "digits.burn"))
    np.testing.assert_array_equal(package(_images(3)), reference(_images(3)))
    with pytest.raises(CompileError, match=r"it ends in \.burn"):
        make("package", digits(), tmp_path / "digits")
    assert [kind_of(Path(name)) for name in ("a", "a.so", "a.a", "a.o", "a.onnx")] == [
        "exe",
        "shared",
        "static",
        "object",
        "exe",
    ]
