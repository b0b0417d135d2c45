"""Reading ONNX files: what cannot be read says so in one error; every form of tensor data is read as onnx reads it."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from burn.errors import ModelError
from burn.importers.onnx.check import check_model
from burn.importers.onnx.file import OnnxFile, read_model
from burn.importers.onnx.tensors import ELEMENT_TYPES

from .models import model, node, tensor, value

LARGE = np.arange(3000, dtype=np.float32)


def add_model(*tensors: TensorProto) -> onnx.ModelProto:
    return model([node("Relu", "x", "y")], initializers=tensors)


def read_back(proto: onnx.ModelProto, tmp_path: Path, how: str) -> OnnxFile:
    if how == "proto":
        return read_model(proto)
    if how == "bytes":
        return read_model(proto.SerializeToString())
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    return read_model(tmp_path / "m.onnx")


# Bytes that are no model


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"this is a text file, not a model", "malformed protobuf"),
        (b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "goes beyond the end of its message"),
        (b"\x08" + b"\xff" * 11, "a number has more than ten bytes"),
        (b"\x08", "the bytes end within a number"),
        (b"\x00\x00", "a field has number 0"),
        (b"\x3b\x3c", "wire type 3 is not valid in an ONNX model"),
        (b"\x0d\x00", "a fixed-width field goes beyond"),
    ],
)
def test_bytes_that_are_no_model(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(data)
    for source in (data, tmp_path / "m.onnx"):
        with pytest.raises(ModelError, match=f"{message}|it may be a text file"):
            read_model(source)


def test_every_truncation_is_an_error_or_a_shorter_model() -> None:
    data = add_model(tensor("w", LARGE), tensor("v", np.arange(5))).SerializeToString()
    kept = 0
    for length in [*range(120), *range(120, len(data), 97), len(data) - 1]:
        try:
            read = read_model(data[:length])
        except ModelError as error:
            assert len(error.problems) == 1
        else:
            kept += 1
            with pytest.raises(ModelError):
                check_model(read)
    assert kept < 20  # cuts between two fields of the model leave something readable


def test_a_message_that_nests_without_end() -> None:
    """graph > node > attribute > graph > ..., each large enough to be looked into."""
    data = bytes(2000)
    for _ in range(60):
        for tag in (b"\x32", b"\x2a", b"\x0a"):  # Attribute.g, Node.attribute, Graph.node
            data = tag + _varint(len(data)) + data
    with pytest.raises(ModelError, match="nest deeper than 100"):
        read_model(b"\x3a" + _varint(len(data)) + data)


def _varint(number: int) -> bytes:
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*none.onnx\n.*No such file"):
        read_model(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="it is a folder"):
        read_model(tmp_path)


# Tensor data


@pytest.mark.parametrize("how", ["bytes", "file", "proto"])
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
@pytest.mark.parametrize("data_type", ELEMENT_TYPES)
def test_tensors_read_as_onnx_reads_them(data_type: int, raw: bool, how: str, tmp_path: Path) -> None:
    for count in (0, 5, 3000):
        if data_type == TensorProto.STRING:
            words: Any = [f"word {i}".encode() for i in range(count)]
            made = helper.make_tensor("w", data_type, [count], words)
        elif data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128) and not raw:
            numbers: Any = [complex(i, -i) for i in range(count)]
            made = helper.make_tensor("w", data_type, [count], numbers)
        else:
            dtype = helper.tensor_dtype_to_np_dtype(data_type)
            array = (np.arange(count) % 2).astype(np.float32).astype(dtype)
            made = numpy_helper.from_array(array, "w") if raw else helper.make_tensor("w", data_type, [count], array)
        file = read_back(add_model(made), tmp_path, how)
        got = file.weight(file.proto.graph.initializer[0])
        want = numpy_helper.to_array(made)
        assert got.dtype == ELEMENT_TYPES[data_type]
        if data_type == TensorProto.STRING:
            assert got.array().tolist() == [f"word {i}" for i in range(count)]
        else:
            assert got.array().dtype == want.dtype and got.array().tobytes() == want.tobytes()


def test_large_tensors_stay_in_the_file(tmp_path: Path) -> None:
    array = np.arange(20_000_000, dtype=np.float32)
    inner = helper.make_graph([node("Constant", "", "c", value=tensor("", array))], "then", [], [value("c", None)])
    branch = node("If", "b", "y", then_branch=inner, else_branch=inner)
    proto = model([branch], [value("b", [], TensorProto.BOOL)], [value("y", None)], [tensor("w", array)])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    tracemalloc.start()
    file = read_model(tmp_path / "m.onnx")
    check_model(file)
    constant = file.proto.graph.node[0].attribute[0].g.node[0].attribute[0].t
    for found in (file.proto.graph.initializer[0], constant):
        weight = file.weight(found)
        assert weight.file is not None and weight.array()[-1] == array[-1]
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
    assert file.proto.ByteSize() < 2000


def spoiled(**fields: Any) -> TensorProto:
    """A good tensor of 4 floats in raw_data with some fields changed."""
    made = tensor("w", np.zeros(4, np.float32))
    for name, content in fields.items():
        if isinstance(content, list):
            del getattr(made, name)[:]
            getattr(made, name).extend(content)
        elif content is None:
            made.ClearField(name)
        else:
            setattr(made, name, content)
    return made


BAD_TENSORS = [
    (spoiled(raw_data=b"abc"), "raw_data has 3 bytes, but float32 of shape [4] takes 16"),
    (spoiled(dims=[5]), "raw_data has 16 bytes, but float32 of shape [5] takes 20"),
    (spoiled(dims=[-4]), "negative dimension in [-4]"),
    (spoiled(dims=[2**40, 2**40]), "float32 of shape [1099511627776, 1099511627776] takes"),
    (spoiled(dims=[2**62, 4]), "float32 of shape [4611686018427387904, 4] takes"),
    (spoiled(raw_data=None), "no data for float32 of shape [4]"),
    (spoiled(float_data=[1.0] * 4), "stored more than once: in float_data, raw_data"),
    (spoiled(raw_data=None, float_data=[1.0]), "float_data has 1 entries, but float32 of shape [4] takes 4"),
    (spoiled(raw_data=None, int64_data=[1] * 4), "float32 cannot be stored in int64_data"),
    (spoiled(data_type=TensorProto.STRING), "strings cannot be stored in raw_data"),
    (spoiled(data_type=0), "unsupported element type UNDEFINED"),
    (spoiled(data_type=99), "unsupported element type 99"),
    (spoiled(data_location=TensorProto.EXTERNAL), "stored twice: as external data and in raw_data"),
    (spoiled(dims=[0]), "raw_data has 16 bytes, but float32 of shape [0] takes 0"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_TENSORS, ids=[message for _, message in BAD_TENSORS])
def test_a_tensor_of_the_wrong_size_or_form(bad: TensorProto, message: str) -> None:
    file = read_model(add_model(bad).SerializeToString())
    with pytest.raises(ModelError) as caught:
        check_model(file)
    assert f"initializer 'w': {message}" in str(caught.value)
    with pytest.raises(ModelError):
        file.weight(file.proto.graph.initializer[0])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (TensorProto(name="w", data_type=TensorProto.INT8, dims=[1], int32_data=[300]), "outside of -128 to 255"),
        (TensorProto(name="w", data_type=TensorProto.UINT32, dims=[1], uint64_data=[2**32]), "outside of 0 to"),
        (TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"\xff"]), "not UTF-8"),
    ],
)
def test_elements_out_of_range(bad: TensorProto, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_model(add_model(bad)).weight(bad)


# Sparse tensors


def sparse(values: Any, indices: Any, dims: list[int]) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(tensor("s", values), tensor("", np.asarray(indices, np.int64)), dims)


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_tensors(indices: list[Any]) -> None:
    got = read_model(add_model()).tensors.sparse(sparse(np.array([3.0, 4.0]), indices, [2, 3])).array()
    assert got.tolist() == [[0, 3, 0], [0, 0, 4]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (sparse([1.0], [6], [2, 3]), "outside of 0 to 5"),
        (sparse([1.0], [[0, 3]], [2, 3]), "an index lies outside of shape"),
        (sparse([1.0], [[-1, 0]], [2, 3]), "an index lies outside of shape"),
        (sparse([1.0], [1, 2], [2, 3]), "indices have shape"),
        (sparse([1.0], [1], [2**20, 2**20]), "when dense; the limit is"),
        (sparse([1.0], [1], [-1]), "negative dimension"),
        (sparse([[1.0]], [1], [2, 3]), "values have rank 2"),
    ],
)
def test_malformed_sparse_tensors(bad: onnx.SparseTensorProto, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_model(add_model()).tensors.sparse(bad)


def test_sparse_tensors_share_one_limit() -> None:
    """Each may be as large as all of them."""
    reader = read_model(add_model()).tensors
    large = [sparse([1.0], [1], [2**28]) for _ in range(3)]
    for number, one in enumerate(large):
        one.values.name = f"s{number}"
    assert [reader.sparse_problems(one) for one in large[:1]] == [[]]
    (problem,) = reader.sparse_problems(large[1]) or reader.sparse_problems(large[2])
    assert "with the model's other sparse tensors" in problem


# External data


def external(tmp_path: Path, **entries: str) -> OnnxFile:
    """A model in tmp_path/model whose tensor w, of 4 floats, says that it lies elsewhere."""
    made = spoiled(raw_data=None, data_location=TensorProto.EXTERNAL)
    for key, text in entries.items():
        made.external_data.add(key=key, value=text)
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    (folder / "m.onnx").write_bytes(add_model(made).SerializeToString())
    return read_model(folder / "m.onnx")


def test_external_data(tmp_path: Path) -> None:
    (tmp_path / "model" / "sub").mkdir(parents=True)
    content = np.arange(6, dtype=np.float32)
    (tmp_path / "model" / "sub" / "w.bin").write_bytes(content.tobytes())
    for entries in ({"offset": "8", "length": "16"}, {"offset": "8"}, {"offset": "8", "checksum": "0"}):
        file = external(tmp_path, location="sub/w.bin", **entries)
        check_model(file)
        weight = file.weight(file.proto.graph.initializer[0])
        assert weight.file is not None and weight.array().tolist() == content[2:].tolist()


BAD_LOCATIONS: list[tuple[dict[str, str], str]] = [
    ({}, "it is not the name of a file"),
    ({"location": "none.bin"}, "external data file 'none.bin': looked for in"),
    ({"location": "../secret"}, "external data file '../secret': its path leaves the model's folder"),
    ({"location": "a/../../secret"}, "its path leaves the model's folder"),
    ({"location": "/etc/passwd"}, "its path leaves the model's folder"),
    ({"location": "C:\\secret"}, "its path leaves the model's folder"),
    ({"location": "..\\secret"}, "its path leaves the model's folder"),
    ({"location": "link"}, "a symbolic link leads out of the model's folder"),
    ({"location": "linked/secret"}, "a symbolic link leads out of the model's folder"),
    ({"location": "loop"}, "external data file 'loop'"),
    ({"location": "."}, "external data file '.'"),
    ({"location": "folder"}, "it is not a regular file"),
    ({"location": "nul\0"}, "it is not the name of a file"),
    ({"location": "w.bin", "length": "8"}, "float32 [4] takes 16 bytes, not 8"),
    ({"location": "w.bin", "offset": "4"}, "bytes 4 to 20 of w.bin, which has 16"),
    ({"location": "w.bin", "offset": "-4"}, "offset '-4' of external data is not a natural number"),
    ({"location": "w.bin", "length": "99999999999999999999"}, "is not a natural number"),
    ({"location": "w.bin", "offset": "9223372036854775807"}, "of w.bin, which has 16"),
]


@pytest.mark.parametrize(("entries", "message"), BAD_LOCATIONS, ids=[str(entries) for entries, _ in BAD_LOCATIONS])
def test_external_data_that_is_missing_short_or_elsewhere(
    entries: dict[str, str], message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    (folder / "w.bin").write_bytes(bytes(16))
    (tmp_path / "secret").write_bytes(bytes(16))
    os.symlink(tmp_path / "secret", folder / "link")
    os.symlink(tmp_path, folder / "linked")
    os.symlink(folder / "loop", folder / "loop")
    file = external(tmp_path, **entries)
    with pytest.raises(ModelError) as caught:
        check_model(file)
    assert message in str(caught.value) and "initializer 'w'" in str(caught.value)
    with pytest.raises(ModelError):
        file.weight(file.proto.graph.initializer[0])


def test_external_data_of_a_model_without_a_folder(tmp_path: Path) -> None:
    file = external(tmp_path, location="w.bin")
    assert file.path is not None
    with pytest.raises(ModelError, match="the model was given as bytes, so there is no folder to find it in"):
        check_model(read_model(file.path.read_bytes()))
    (tmp_path / "w.bin").write_bytes(bytes(16))
    check_model(read_model(file.path.read_bytes(), folder=tmp_path))


def test_more_than_two_gigabytes(tmp_path: Path) -> None:
    """A sparse file stands for the weights; protobuf itself could not hold them."""
    with open(tmp_path / "w.bin", "wb") as weights:
        weights.truncate(3 << 30)
        weights.seek((3 << 30) - 4)
        weights.write(np.float32(7).tobytes())
    made = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, 1 << 28], data_location=TensorProto.EXTERNAL)
    made.external_data.add(key="location", value="w.bin")
    (tmp_path / "m.onnx").write_bytes(add_model(made).SerializeToString())
    file = read_model(tmp_path / "m.onnx")
    check_model(file)
    assert file.weight(file.proto.graph.initializer[0]).array()[2, -1] == 7


def test_a_note_in_a_file_is_not_taken_for_ours() -> None:
    """A tensor cannot point into the model's bytes by claiming to have been taken out of them."""
    made = spoiled(raw_data=None)
    made.external_data.add(key="burn.0000000000000000", value="raw_data 0 16")
    with pytest.raises(ModelError, match="no data for float32"):
        check_model(read_model(add_model(made).SerializeToString()))
