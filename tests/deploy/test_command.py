"""A model as a command: files in, files out, the bits of burn.load, and one line for whatever is wrong."""

from __future__ import annotations

import io
import json
import re
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import burn
from burn.deploy.native_runtime import OWN
from burn.importers.onnx import import_onnx
from tests.deploy.making import DIGITS, Array, digits, make, refusal, run, traced
from tests.runtime.sanitizers import compiler_with

pytestmark = pytest.mark.untuned  # results have the bits of `burn.load`, and deployed programs are not tuned


@pytest.fixture(scope="module")
def reference() -> burn.Executable:
    return burn.load(DIGITS)


def _images(batch: int) -> Array:
    return np.random.default_rng(batch).standard_normal((batch, 1, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("batch", [0, 1, 17])
def test_npz(command: Path, reference: burn.Executable, tmp_path: Path, save: object, batch: int) -> None:
    x = _images(batch)
    save(tmp_path / "in.npz", other=np.arange(5), image=x)  # type: ignore[operator]
    run(command, tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as made:
        assert made.files == ["logits"]
        np.testing.assert_array_equal(made["logits"], reference(x))


def test_other_files(command: Path, reference: burn.Executable, tmp_path: Path) -> None:
    x = _images(3)
    y = reference(x)
    np.save(tmp_path / "x.npy", x)
    run(command, tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), y)
    run(command, f"image={tmp_path / 'x.npy'}", "-o", f"logits={tmp_path / 'y.bin'}")
    assert (tmp_path / "y.bin").read_bytes() == y.tobytes()
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    assert run(command, tmp_path / "x.bin", "--size", "batch=3", "-o", "-") == y.tobytes()
    assert run(command, "-", "-o", "-", stdin=(tmp_path / "x.npy").read_bytes()) == y.tobytes()
    assert run(command, tmp_path / "x.npy").decode().startswith("logits [3, 10]: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.bin", "x.npy", "y.bin", "y.npy"]


def test_what_it_says_of_itself(command: Path) -> None:
    assert "float32[batch, 1, 8, 8]" in run(command, "--help").decode()
    about = json.loads(run(command, "--info"))
    assert about["inputs"] == [{"name": "image", "dtype": "float32", "dims": ["batch", 1, 8, 8]}]
    assert about["sizes"] == ["batch"]
    assert "3 runs, 1 threads" in run(command, "--bench", "3", "--threads", "1", "--size", "batch=2").decode()


def _zipped(method: int, content: bytes, name: str = "image") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def _npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


WRONG = {
    "no such array": (_zipped(0, b"", "images"), "has no array 'image'"),
    "an empty member": (_zipped(0, b""), "no .npy file"),
    "an unknown compression": (_zipped(zipfile.ZIP_BZIP2, _npy(_images(1))), "not read"),
    "no header": (_npy(_images(1))[:9], "no .npy file"),
    "cut off": (_npy(_images(1))[:-1], "not as many as its shape"),
    "a zip file cut off": (_zipped(8, _npy(_images(1)))[:-10], "cut off"),
    "another type": (
        _npy(_images(1).astype(np.float64)),
        r"must be float32\[batch, 1, 8, 8\], and is of numpy's type f8",
    ),
    "another order": (_npy(np.asfortranarray(np.zeros((2, 1, 8, 8), np.float32))), "columns come first"),
    "big-endian": (_npy(_images(1).astype(">f4")), "big-endian"),
    "other sizes": (_npy(np.zeros((2, 1, 8, 9), np.float32)), r"given as \[2, 1, 8, 9\]"),
    "another rank": (_npy(np.zeros((1, 8, 8), np.float32)), r"given as \[1, 8, 8\]"),
    "objects": (_npy(np.zeros(1, [("a", "f4"), ("b", "f4")])), "not read"),
    "plain bytes": (b"1234", "--size batch=NUMBER"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_files(command: Path, tmp_path: Path, wrong: str) -> None:
    content, message = WRONG[wrong]
    (tmp_path / "in").write_bytes(content)
    _, said = refusal(command, tmp_path / "in", "-o", tmp_path / "out.npz")
    assert re.search(message, said), said
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "input 'image', float32[batch, 1, 8, 8], is missing"),
        (["--nothing"], "'--nothing' is no option"),
        (["--bench", "0"], "at least one run"),
        (["--threads", "none"], "--threads takes a number from 1 to 1024, not 'none'"),
        (["--size", "seq=3"], "no such size: 'seq=3'"),
        (["a.npz", "b.npz"], "a.npz and b.npz are both files of all inputs"),
        (["/nowhere.npz"], "/nowhere.npz: No such file"),
        (["--bench", "1", "-o", "/nowhere/out.npz"], "/nowhere/out.npz: No such file"),
        (["--bench", "1", "--size", "batch=9223372036854775807"], "cannot have such sizes"),
    ],
)
def test_wrong_words(command: Path, words: list[str], message: str) -> None:
    assert message in refusal(command, *words)[1]


def test_weights_beside(tmp_path: Path, reference: burn.Executable) -> None:
    command = make("exe", digits(), tmp_path / "digits", beside=True)
    weights = tmp_path / "digits.safetensors"
    x = _images(2)
    np.save(tmp_path / "x.npy", x)
    assert run(command, tmp_path / "x.npy", "-o", "-") == reference(x).tobytes()
    good = weights.read_bytes()
    weights.write_bytes(good[:-64])
    assert "it has" in refusal(command, tmp_path / "x.npy")[1]
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert "its contents differ" in refusal(command, tmp_path / "x.npy")[1]
    weights.unlink()
    assert "cannot be read" in refusal(command, tmp_path / "x.npy")[1]
    assert "not a file of weights" in refusal(command, tmp_path / "x.npy", "--weights", tmp_path)[1]
    (tmp_path / "elsewhere").write_bytes(good)
    assert run(command, tmp_path / "x.npy", "-o", "-", "--weights", tmp_path / "elsewhere") == reference(x).tobytes()


def test_several_tensors_of_many_types(tmp_path: Path) -> None:
    def mixed(a: burn.Tensor, b: burn.Tensor, c: burn.Tensor, d: burn.Tensor) -> tuple[burn.Tensor, ...]:
        return a.astype("float16") * 2, b + 1, ~c, burn.cat([d, d, d[:1]], 0)

    program = traced(mixed, a="float32[n]", b="int64[n, 3]", c="bool[n]", d="float64[m]")
    expected = burn.compile(mixed, ("float32[n]", "int64[n, 3]", "bool[n]", "float64[m]"))
    command = make("exe", program, tmp_path / "mixed")
    feeds = {
        "a": np.linspace(0, 1, 5, dtype=np.float32),
        "b": np.arange(15).reshape(5, 3),
        "c": np.array([1, 0, 1, 1, 0], bool),
        "d": np.array([1.5, -2.5]),
    }
    np.savez(tmp_path / "in.npz", **feeds)
    run(command, tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as made:
        for got, want in zip(made.values(), expected(*feeds.values()), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    assert "several outputs go into a .npz" in refusal(command, tmp_path / "in.npz", "-o", tmp_path / "out.npy")[1]
    feeds["b"] = feeds["b"][:4]
    np.savez(tmp_path / "in.npz", **feeds)
    assert "input 'b' must be int64[n, 3]" in refusal(command, tmp_path / "in.npz")[1]


def test_failures_name_the_node(tmp_path: Path) -> None:
    of = onnx.helper.make_tensor_value_info
    values = [of("x", onnx.TensorProto.FLOAT, ["n"]), of("i", onnx.TensorProto.INT64, ["k"])]
    node = onnx.helper.make_node("Gather", ["x", "i"], ["y"], name="pick_some")
    graph = onnx.helper.make_graph([node], "g", values, [of("y", onnx.TensorProto.FLOAT, ["k"])])
    command = make("exe", import_onnx(onnx.helper.make_model(graph).SerializeToString()), tmp_path / "pick")
    np.savez(tmp_path / "in.npz", x=np.zeros(3, np.float32), i=np.array([0, 7]))
    status, said = refusal(command, tmp_path / "in.npz")
    assert status == 1 and said == "pick: node 'pick_some': index 7 is out of range"


@pytest.mark.sanitized
def test_damaged_files_never_crash(tmp_path: Path) -> None:
    """The readers under the address and undefined-behaviour sanitizers, on files with changed or missing bytes."""
    flags = compiler_with("address,undefined", tmp_path)
    (tmp_path / "damaged.c").write_text(DAMAGED)
    files = [tmp_path / "damaged.c", OWN / "npz.c", OWN / "crc32.c", OWN / "inflate.c"]
    subprocess.run([*flags, "-fno-sanitize-recover=all", f"-I{OWN}", *files, "-o", tmp_path / "damaged"], check=True)
    rng = np.random.default_rng(0)
    texts = rng.integers(0, 4, 3000).astype(np.int8)
    seeds = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, image=_images(1), texts=texts)
        seeds.append(file.getvalue())
    seeds.append(_npy(_images(1)))
    cases = []
    for case in range(900):
        content = bytearray(seeds[case % len(seeds)])
        for _ in range(rng.integers(1, 4)):
            content[rng.integers(len(content))] = rng.integers(256)
        cut = rng.integers(len(content)) if rng.random() < 0.2 else len(content)
        cases.append(bytes(content[:cut]))
    (tmp_path / "cases").write_bytes(b"".join(len(c).to_bytes(4, "little") + c for c in [*seeds, *cases]))
    read = subprocess.run([tmp_path / "damaged", tmp_path / "cases"], capture_output=True, text=True)
    assert read.returncode == 0, read.stderr
    assert read.stdout.startswith("yes\nyes\nyes\n")
    assert read.stdout.count("no\n") > 300


DAMAGED = """
#include <stdlib.h>
#include <string.h>
#include "npz.h"
int main(int count, char **words) {
    FILE *file = count > 1 ? fopen(words[1], "rb") : NULL;
    unsigned char size[4];
    while (file && fread(size, 1, 4, file) == 4) {
        int64_t bytes = size[0] | size[1] << 8 | size[2] << 16;
        unsigned char *data = malloc(bytes ? bytes : 1);
        if (fread(data, 1, bytes, file) != (size_t)bytes)
            return 1;
        char error[256] = "";
        burn_array array = {0};
        int npy = bytes > 6 && memcmp(data, "\\x93NUMPY", 6) == 0;
        int ok = npy ? burn_npy_read(data, bytes, &array, error) : burn_npz_read(data, bytes, "texts", &array, error);
        unsigned sum = 0;
        for (int64_t i = 0; ok > 0 && i < array.bytes; i++)
            sum += array.data[i];
        puts(ok > 0 ? "yes" : sum ? "?" : "no");
        burn_array_free(&array);
        free(data);
    }
    return 0;
}
"""
