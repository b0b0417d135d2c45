"""numpy's, Burn's and sharded files: round trips, and everything that can be wrong with them."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import cbor2
import ml_dtypes
import numpy as np
import pytest

from burn.dialect.weights import array_weight
from burn.errors import BurnError, ModelError
from burn.importers import weights
from burn.importers.weights import burnpack, safetensors
from burn.importers.weights.archive import inflatable
from burn.importers.weights.formats import recognise

rng = np.random.default_rng(11)
ARRAYS = {
    "a.weight": rng.standard_normal((3, 5), np.float32),
    "a.bias": rng.standard_normal(5),
    "count": np.array(7, np.int64),
    "empty": np.zeros((0, 3), np.float16),
    "mask": np.array([True, False, True]),
    "bytes": np.arange(7, dtype=np.uint8).reshape(7, 1),
}


def same(checkpoint: weights.Checkpoint, arrays: dict[str, np.ndarray]) -> None:
    assert checkpoint.keys() == arrays.keys()
    for name, array in arrays.items():
        assert checkpoint[name].array().dtype == array.dtype
        np.testing.assert_array_equal(checkpoint[name].array(), array, name)


def refused(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        weights.read(path)
    return str(caught.value)


@pytest.mark.parametrize("ending", [".safetensors", ".bpk", ".npz"])
def test_what_is_written_is_read_and_mapped(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"w{ending}"
    weights.write(path, {name: array_weight(array) for name, array in ARRAYS.items()})
    checkpoint = weights.read(path)
    same(checkpoint, ARRAYS)
    assert all(weight.file is not None for weight in checkpoint.values())
    weights.write(tmp_path / f"again{ending}", checkpoint)
    same(weights.read(tmp_path / f"again{ending}"), ARRAYS)


def test_content_and_not_the_name_says_what_a_file_is(tmp_path: Path) -> None:
    for ending, kind in ((".safetensors", "safetensors"), (".bpk", "burnpack"), (".npz", "numpy")):
        weights.write(tmp_path / f"w{ending}", {"a": array_weight(np.arange(3.0))})
        (tmp_path / f"w{ending}").rename(tmp_path / "weights")
        assert recognise(tmp_path / "weights") == kind
        assert "a" in weights.read(tmp_path / "weights")


@pytest.mark.parametrize("content", [b"", b"\0", b"hello world", b"{}", b"PK\3\4", b"\x80\x04N.", b"\x89HDF\r\n\x1a\n"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    assert refused(tmp_path / "f")
    assert "is a folder" in refused(tmp_path)
    assert "cannot read" in refused(tmp_path / "missing.pt")


@pytest.mark.parametrize("ending", ["pt", "npz", "safetensors", "bpk", "json"])
def test_an_empty_file_is_called_empty(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"w.{ending}").touch()
    assert f"w.{ending} is empty" in refused(tmp_path / f"w.{ending}")


def test_a_name_without_a_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"\.safetensors, \.bpk, \.npz"):
        weights.write(tmp_path / "w.pt", {})
    assert not list(tmp_path.iterdir())


# ---- numpy ---------------------------------------------------------------------------------------------------------------


def test_numpy_s_own_files(tmp_path: Path) -> None:
    arrays = {**ARRAYS, "half": np.array([1, 2], np.float16), "complex": np.array([1j], np.complex64)}
    np.savez(tmp_path / "w.npz", **arrays)
    same(weights.read(tmp_path / "w.npz"), arrays)
    np.savez_compressed(tmp_path / "c.npz", **arrays)
    same(weights.read(tmp_path / "c.npz"), arrays)
    turned, swapped = np.asfortranarray(ARRAYS["a.weight"]), np.arange(4, dtype=">i4")
    np.savez(tmp_path / "t.npz", turned=turned, swapped=swapped)
    same(weights.read(tmp_path / "t.npz"), {"turned": ARRAYS["a.weight"], "swapped": np.arange(4, dtype=np.int32)})
    np.save(tmp_path / "one.npy", ARRAYS["a.bias"])
    same(weights.read(tmp_path / "one.npy"), {"value": ARRAYS["a.bias"]})


def test_numpy_reads_what_is_written(tmp_path: Path) -> None:
    weights.write(tmp_path / "w.npz", {name: array_weight(array) for name, array in ARRAYS.items()})
    with np.load(tmp_path / "w.npz") as theirs:
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(theirs[name], array)


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", fine=np.zeros(2), bad=np.array([{"a": 1}], object), text=np.array(["a"]))
    message = refused(tmp_path / "w.npz")
    assert "'bad': it holds Python objects" in message and "'text'" in message and "'fine'" not in message


def test_types_that_numpy_lacks_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="numpy has no bfloat16"):
        weights.write(tmp_path / "w.npz", {"a": array_weight(np.zeros(2, ml_dtypes.bfloat16))})
    assert not list(tmp_path.iterdir())


def test_zip_bombs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    data = io.BytesIO()
    np.save(data, np.zeros(25_000_000))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", data.getvalue())
    assert "says that it inflates to" in refused(path)
    content = bytearray(path.read_bytes())  # the same, with a small size in the directory
    entry = content.rindex(b"PK\1\2")
    content[entry + 24 : entry + 28] = (1000).to_bytes(4, "little")
    path.write_bytes(content)
    assert "does not inflate to the 1000 bytes" in refused(path)


@pytest.mark.parametrize(
    ("size", "may"),
    [(0, 64 << 20), (1 << 20, 200 << 20), (100 << 20, 2 << 30), (1 << 30, 8 << 30), (10 << 30, 80 << 30)],
)
def test_how_far_archives_may_inflate(size: int, may: int) -> None:
    assert inflatable(size) == may


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_that_are_cut_short_say_so(save: Callable[..., None], tmp_path: Path) -> None:
    save(tmp_path / "w.npz", a=rng.standard_normal(1000))
    content = (tmp_path / "w.npz").read_bytes()
    for kept in (10, len(content) // 2, len(content) - 1):
        (tmp_path / "w.npz").write_bytes(content[:kept])
        assert "cut short" in refused(tmp_path / "w.npz")


HEADERS = {
    "code": "__import__('os').mkdir('owned')",
    "not a dict": "[1]",
    "missing": "{'descr': '<f4'}",
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
    "large": "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
    "overflow": "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
    "fields": "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
    "nested": "{'descr': " + "(" * 500 + ")" * 500 + "}",
}


@pytest.mark.parametrize("case", HEADERS)
def test_malformed_numpy_headers(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    header = HEADERS[case].encode()
    (tmp_path / "w.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(12))
    assert refused(tmp_path / "w.npy")
    assert not (tmp_path / "owned").exists()


# ---- burnpack ------------------------------------------------------------------------------------------------------------


def packed(path: Path, content: object, data: bytes = bytes(1024), magic: bytes = b"NRUB", version: int = 1) -> Path:
    """A file of the format around any metadata; independent of the writer."""
    encoded = content if isinstance(content, bytes) else cbor2.dumps(content)
    head = magic + version.to_bytes(2, "little") + len(encoded).to_bytes(4, "little") + encoded
    path.write_bytes(head + bytes(-len(head) % 256) + data)
    return path


def entry(begin: int, end: int, shape: list[int], dtype: object = "F32", **more: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end], **more}


def test_a_file_as_burn_writes_it(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32)
    data = (
        values.tobytes().ljust(256, b"\0") + bytes([1, 0, 1]).ljust(256, b"\0") + np.array([1, 0], np.uint32).tobytes()
    )
    tensors = {
        "b.weight": entry(0, 24, [2, 3], param_id=2**64 - 1),
        "mask": entry(256, 259, [3], {"Bool": "Native"}),
        "wide": entry(512, 520, [2], {"Bool": "U32"}),
    }
    content = {"tensors": tensors, "metadata": {"producer": "burn", "x": "ä"}, "scalars": {"step": {"UInt": 3}}}
    checkpoint = weights.read(packed(tmp_path / "w.bpk", content, data))
    same(
        checkpoint,
        {"b.weight": values.reshape(2, 3), "mask": np.array([1, 0, 1], bool), "wide": np.array([1, 0], bool)},
    )
    assert checkpoint.layout == "burn" and checkpoint.param_ids == {"b.weight": 2**64 - 1}
    assert checkpoint.metadata["x"] == "ä" and checkpoint.ignored == {"step": "3"}


def test_what_is_written_keeps_the_format_s_rules(tmp_path: Path) -> None:
    path = tmp_path / "w.bpk"
    bf16 = np.arange(5).astype(ml_dtypes.bfloat16)
    arrays = {**ARRAYS, "bf16": bf16}
    burnpack.write(path, {n: array_weight(a) for n, a in arrays.items()}, {"epoch": "3"}, {"count": 5})
    content = path.read_bytes()
    magic, version, length = (
        int.from_bytes(content[:4], "little"),
        int.from_bytes(content[4:6], "little"),
        content[6:10],
    )
    assert (magic, version) == (0x4255524E, 1)
    size = int.from_bytes(length, "little")
    metadata = cbor2.loads(content[10 : 10 + size])
    start = -(-(10 + size) // 256) * 256
    assert list(metadata["tensors"]) == sorted(arrays) and metadata["metadata"]["epoch"] == "3"
    assert metadata["tensors"]["mask"]["dtype"] == {"Bool": "Native"} and metadata["tensors"]["count"]["param_id"] == 5
    end = 0
    for name, told in metadata["tensors"].items():
        begin, stop = told["data_offsets"]
        assert begin % 256 == 0 and content[start + begin : start + stop] == arrays[name].tobytes()
        end = max(end, start + stop)
    assert len(content) == end
    same(weights.read(path), arrays)
    assert weights.read(path).param_ids == {"count": 5} and weights.read(path).layout == "own"


def test_types_that_burn_lacks_are_all_named(tmp_path: Path) -> None:
    bad = {"c": array_weight(np.array([1], np.complex64)), "f8": array_weight(np.zeros(1, ml_dtypes.float8_e5m2))}
    with pytest.raises(ModelError) as caught:
        weights.write(tmp_path / "w.bpk", bad)
    assert {p.tensor for p in caught.value.problems} == set(bad) and not list(tmp_path.iterdir())


PACKS = {
    "not CBOR": (b"\xff\xff", "its metadata"),
    "truncated": (b"\xa1", "its metadata"),
    "no tensors": ({"metadata": {}}, "no table of tensors"),
    "a list": ([1], "no table of tensors"),
    "numbers as names": ({"tensors": {1: entry(0, 24, [6])}}, "its metadata|no table"),
    "a date": (cbor2.dumps({"tensors": {}, "x": cbor2.CBORTag(0, "2020-01-01T00:00:00Z")}), "tag 0"),
    "a shared reference": (bytes.fromhex("d81c81d81d00"), "tag"),
    "a huge number": (bytes.fromhex("a16774656e736f7273c48221") + b"\x1b" + bytes(7) + b"\x05", "tag 4"),
    "a long list": (bytes.fromhex("9b7fffffffffffffff"), "its metadata"),
    "deep": (b"\x81" * 5000 + b"\x00", "depth"),
    "doubled": (b"\xa2\x61a\x01\x61a\x02", "its metadata"),
    "an entry that is none": ({"tensors": {"a": 3}}, "'a': its entry is not a table"),
    "no shape": ({"tensors": {"a": {"dtype": "F32", "data_offsets": [0, 4]}}}, "lacks"),
    "negative": ({"tensors": {"a": entry(-4, 4, [2])}}, "lacks"),
    "backwards": ({"tensors": {"a": entry(8, 4, [1])}}, "make no sense"),
    "outside": ({"tensors": {"a": entry(0, 4096, [1024])}}, "lies outside"),
    "huge": ({"tensors": {"a": entry(0, 24, [2**40, 2**40])}}, "too large"),
    "wrong size": ({"tensors": {"a": entry(0, 20, [6])}}, "takes 24 bytes, not 20"),
    "unknown type": ({"tensors": {"a": entry(0, 24, [6], "F7")}}, "F7 is not supported"),
    "quantised": ({"tensors": {"a": entry(0, 24, [6], {"QFloat": {"value": "Q8S"}})}}, "quantised"),
    "overlapping": ({"tensors": {"a": entry(0, 24, [6]), "b": entry(8, 32, [6])}}, "overlap those of 'a'"),
}


@pytest.mark.parametrize("case", PACKS)
def test_malformed_burnpacks(case: str, tmp_path: Path) -> None:
    content, message = PACKS[case]
    with pytest.raises(ModelError, match=message):
        weights.read(packed(tmp_path / "w.bpk", content))


def test_other_versions_and_lengths(tmp_path: Path) -> None:
    assert "newer version" in refused(packed(tmp_path / "w.bpk", {"tensors": {}}, version=2))
    (tmp_path / "w.bpk").write_bytes(b"NRUB\x01\x00\xff\xff\xff\x7f" + bytes(64))
    assert "metadata would be of" in refused(tmp_path / "w.bpk")


# ---- shards --------------------------------------------------------------------------------------------------------------


def index(folder: Path, files: object, name: str = "model.safetensors.index.json") -> Path:
    (folder / name).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))
    return folder / name


def shards(folder: Path) -> dict[str, str]:
    for number, names in enumerate((("a", "b"), ("c",))):
        tensors = {name: array_weight(np.full(3, ord(name), np.float32)) for name in names}
        safetensors.write(folder / f"model-{number}.safetensors", tensors)
    return {"a": "model-0.safetensors", "b": "model-0.safetensors", "c": "model-1.safetensors"}


def test_shards_are_one_checkpoint(tmp_path: Path) -> None:
    checkpoint = weights.read(index(tmp_path, shards(tmp_path)))
    assert {name: weight.array()[0] for name, weight in checkpoint.items()} == {"a": 97, "b": 98, "c": 99}
    assert checkpoint["c"].file is not None and checkpoint.kind == "sharded"


def test_indices_that_do_not_agree_with_their_shards(tmp_path: Path) -> None:
    files = shards(tmp_path)
    for wrong, message in (
        ({**files, "a": "model-1.safetensors"}, "'a': the index says that it is in shard model-1"),
        ({"a": "model-0.safetensors", "c": "model-1.safetensors"}, "'b': it is in shard model-0.safetensors, but not"),
        ({**files, "d": "model-1.safetensors"}, "'d'"),
        ({**files, "d": "model-7.safetensors"}, "'model-7.safetensors' is missing"),
        ({**files, "d": "../model-0.safetensors"}, "not the name of a file beside"),
        ({**files, "d": "/etc/passwd"}, "not the name of a file beside"),
        ({**files, "d": "..\\x"}, "not the name of a file beside"),
        ({**files, "d": ".."}, "leads out|not the name"),
        ({**files, "d": ""}, "not the name of a file beside"),
        ({**files, "d": 3}, "no weight_map"),
        (["a"], "no weight_map"),
    ):
        with pytest.raises(ModelError, match=message):
            weights.read(index(tmp_path, wrong))
    safetensors.write(tmp_path / "model-2.safetensors", {"a": array_weight(np.zeros(1))})
    with pytest.raises(ModelError, match=r"'a': it is in shard model-2.safetensors and in shard model-0"):
        weights.read(index(tmp_path, {**files, "z": "model-2.safetensors"}))


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    inner = tmp_path / "far" / "models" / "x"
    inner.mkdir(parents=True)
    shards(tmp_path)
    (inner / "model-0.safetensors").symlink_to(tmp_path / "model-0.safetensors")
    with pytest.raises(ModelError, match="leads out"):
        weights.read(index(inner, {"a": "model-0.safetensors", "b": "model-0.safetensors"}))


def test_what_is_wrong_in_a_shard_is_told_with_its_name(tmp_path: Path) -> None:
    files = shards(tmp_path)
    (tmp_path / "model-1.safetensors").write_bytes(b"nothing")
    assert "shard model-1.safetensors: it is too short" in refused(index(tmp_path, files))


def test_an_index_is_no_shard(tmp_path: Path) -> None:
    names = [f"{i}.json" for i in range(12)]
    *_, path = [index(tmp_path, {f"{name}.{other}": other for other in names}, name) for name in names]
    message = refused(path)
    for name in names:
        assert f"shard {name}: it is an index of shards itself" in message
    assert "where it is not" not in message


# ---- damage --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".bpk", ".npz", ".safetensors", ".index.json"])
def test_damaged_files_raise_errors_only(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"w{ending}"
    if ending == ".index.json":
        index(tmp_path, shards(tmp_path), path.name)
    else:
        small = {"a": np.arange(5.0), "b": np.ones((2, 2), np.int8), "m": np.array([True])}
        weights.write(path, {n: array_weight(a) for n, a in small.items()})
        if ending == ".npz":
            np.savez_compressed(path, **small)
    content, chance = path.read_bytes(), random.Random(5)
    for step in range(400):
        data = bytearray(content)
        if step < 150:
            data = data[: step * len(content) // 150]
        else:
            for _ in range(chance.randint(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        try:
            for weight in weights.read(path).values():
                weight.array().tobytes()
        except BurnError:
            pass


@pytest.mark.parametrize("ending", [".safetensors", ".bpk", ".npz"])
def test_names_that_are_no_text_are_refused(ending: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"\\ud800") as caught:
        weights.write(tmp_path / f"w{ending}", {"a\ud800": array_weight(np.zeros(2))})
    str(caught.value).encode()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", ([2**62, 0, 2**62], [1] * 100_000))
def test_shapes_that_no_array_has_are_refused(shape: list[int], tmp_path: Path) -> None:
    """Though they take few bytes, or none."""
    size = 4 if 0 not in shape else 0
    header = json.dumps({"w\udc00": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}).encode()
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    refused(tmp_path / "w.safetensors").encode()
