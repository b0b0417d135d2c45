"""Pickles that are not weights: nothing of them runs, everything they want is named, and only errors for people come out."""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import fractions
import os
import pickle
import random
import time
import types
import uuid
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import pytest

from burn.errors import BurnError, ModelError
from burn.importers import weights
from burn.importers.weights.pickle import OPCODES, load
from tests.importers.weights.checkpoints import (
    END,
    call,
    name,
    number,
    pair,
    storage,
    table,
    tensor,
    text,
    valid,
    zipped,
)


def refused(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        weights.read(path)
    return str(caught.value)


class Touch:
    """Unpickled by Python, it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


CODE = {
    "os.system": call("os", "system", text("touch owned")),
    "posix.system": call("posix", "system", text("touch owned")),
    "builtins.eval": call("__builtin__", "eval", text("1 + 1")),
    "builtins.getattr": call("builtins", "getattr", name("os", "path"), text("join")),
    "builtins.__import__": call("builtins", "__import__", text("os")),
    "copyreg._reconstructor": call("copy_reg", "_reconstructor", name("builtins", "object")),
    "subprocess.Popen": name("subprocess", "Popen") + b")\x81",
    "torch.load": call("torch", "load", text("other.pt")),
    "torch.hub.load": call("torch.hub", "load", text("a/b"), text("c")),
    "numpy.load": text("numpy") + text("load") + b"\x93" + pair(text("x.npy")) + b"R",
    "pathlib.PosixPath.unlink": name("pathlib", "PosixPath.unlink") + pair(text("/etc")) + b"R",
    "functools.partial": call("functools", "partial", name("os", "system"), text("true")),
    "collections.OrderedDict.fromkeys": call("collections", "OrderedDict.fromkeys", pair(text("a"))),
    "torch._utils._rebuild_tensor_v2.__globals__": name("torch._utils", "_rebuild_tensor_v2.__globals__"),
    "mod.Cls": b"(imod\nCls\n",  # INST
    "os.getcwd": b"(" + name("os", "getcwd") + b"o",  # OBJ
    "the copyreg extension 7": b"\x82\x07",
    "the copyreg extension 513": b"\x83\x01\x02",
    "the copyreg extension 65537": b"\x84\x01\x00\x01\x00",
}


@pytest.mark.parametrize("wanted", CODE)
def test_callables_of_a_pickle_are_named_and_not_called(wanted: str, tmp_path: Path) -> None:
    state = table({"a": tensor(), "b": CODE[wanted]})
    message = refused(zipped(tmp_path / "m.pt", b"\x80\x02" + state + END))
    assert f"{wanted} is not allowed" in message and "burn ran none of it" in message


VALUES = {
    "path": Path("/tmp/x"),
    "settings": argparse.Namespace(where=PurePosixPath("a"), also=[PureWindowsPath("c:/x")]),
    "when": datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc),
    "took": datetime.timedelta(3),
    "queue": collections.deque([1, 2], maxlen=3),
    "id": uuid.UUID(int=7),
    "simple": types.SimpleNamespace(a=1),
    "decimal": decimal.Decimal("1.5"),
    "fraction": fractions.Fraction(1, 3),
    "range": range(3),
    "slice": slice(1, 2),
    "set": {1, 2},
}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))  # torch.save writes protocol 2
def test_plain_values_of_pythons_library_lie_beside_weights(protocol: int, tmp_path: Path) -> None:
    for name_, value in VALUES.items():
        saved = pickle.dumps({"epoch": 3, name_: value}, protocol)
        read = weights.read(zipped(tmp_path / "m.pt", saved))
        assert set(read.ignored) >= {name_}, (name_, read.ignored)


def test_a_real_exploit_does_nothing(tmp_path: Path) -> None:
    owned, data = tmp_path / "owned", b""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps({"a": Touch(owned)}, protocol)
        assert ".mkdir is not allowed" in refused(zipped(tmp_path / "m.pt", data))
    assert not owned.exists()
    pickle.loads(data)
    assert owned.exists()  # it would have


def test_all_refusals_are_listed_at_once(tmp_path: Path) -> None:
    nested = call("torch._utils", "_rebuild_tensor_v2", call("os", "system", text("x")), call("evil", "more"))
    built = name("evil", "Class") + b")\x81" + table({"x": call("evil", "inner")}) + b"b"
    state = table(
        {"a": nested, "b": built, "c": b"](" + CODE["os.system"] + CODE["builtins.eval"] + b"e", "d": tensor()}
    )
    message = refused(zipped(tmp_path / "m.pt", state + END))
    for wanted in ("os.system", "evil.more", "evil.Class", "evil.inner", "builtins.eval"):
        assert message.count(f"{wanted} is not allowed") == 1
    assert "do not trust this file" in message


def test_a_whole_model_is_refused_with_what_to_do(tmp_path: Path) -> None:
    module = name("torch.nn.modules.linear", "Linear") + b")\x81" + table({"training": b"\x88"}) + b"b"
    assert "save model.state_dict()" in refused(zipped(tmp_path / "m.pt", module + END))


BROKEN = {
    "empty": (b"", "ends too early"),
    "no end": (b"}", "ends too early"),
    "unknown opcode": (b"\xff.", "there is no opcode 0xff"),
    "stack underflow": (b"R.", "stack is empty"),
    "no mark": (b"}u.", "there is no mark"),
    "mark as a value": (b"(.", "stack is empty"),
    "unknown memo": (b"h\x05.", "nothing was remembered"),
    "negative memo": (b"}p-1\n.", "negative index"),
    "memo of one hash": (b"}p2305843009213693951\n.", "huge index"),
    "memo far away": (b"}r\x00\x00\x00\x7f.", "huge index"),
    "text length": (b"X\xff\xff\xff\xff.", "ends too early"),
    "text length of 8 bytes": (b"\x8d" + b"\xff" * 8 + b".", "ends too early"),
    "not UTF-8": (b"X\x01\x00\x00\x00\xff.", "not UTF-8"),
    "huge integer": (b"\x8b\xff\xff\xff\x7f.", "an integer has"),
    "integer of text": (b"L" + b"9" * 5000 + b"L\n.", "malformed"),
    "buffer": (b"\x97.", "buffer"),
    "persistent text": (b"P0\n.", "line of text"),
    "persistent number": (b"K\x01Q.", "not a storage's"),
    "uncallable": (b"K\x01)R.", "called"),
    "arguments": (name("torch", "Size") + b"K\x01R.", "tuple of arguments"),
    "a symbol is called": (name("torch", "float32") + b")R.", "torch.float32 is called"),
    "too few arguments": (name("torch._utils", "_rebuild_tensor_v2") + b")R.", "with 0 arguments"),
    "items of no dict": (b"K\x01K\x02K\x03s.", "no dict"),
    "odd items": (b"}(K\x01u.", "no dict"),
    "append to a number": (b"K\x01K\x02a.", "no list"),
    "a list as a key": (b"}]K\x01s.", "key"),
    "a huge key": (b"}" + b"\x8a\x09" + b"\x01" * 9 + b"K\x01s.", "huge"),
    "state of a number": (b"K\x01}b.", "state"),
    "future protocol": (b"\x80\x09.", "protocol 9"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_pickles_say_how(case: str, tmp_path: Path) -> None:
    data, message = BROKEN[case]
    assert message in refused(zipped(tmp_path / "m.pt", data))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))  # torch.save writes protocol 2
def test_plain_data_of_every_protocol(protocol: int) -> None:
    data = {
        "text": "ä\n", "long": "x" * 300, "numbers": [0, 1, -1, 255, 256, 65536, 2**40, -(2**70), 1.5, -0.0],
        "flags": (True, False, None), "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), 7: {"nested": {}}, "b": b"ab",
    }  # fmt: skip
    if protocol < 3:
        data.pop("b")  # bytes are a call then; the next test has it
    assert load(memoryview(pickle.dumps(data, protocol)), "it")[0] == data


def test_bytes_sets_and_ordered_dicts() -> None:
    from collections import OrderedDict, defaultdict

    data = {"b": b"a\xff", "s": {1}, "f": frozenset({2}), "o": OrderedDict(a=1), "d": defaultdict(list, {"k": [1]})}
    want = {"b": b"a\xff", "s": [1], "f": [2], "o": {"a": 1}, "d": {"k": [1]}}
    for protocol in (2, 3, 4, 5):
        assert load(memoryview(pickle.dumps(data, protocol)), "it")[0] == want


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are met soon."""
    monkeypatch.setattr("burn.importers.weights.pickle.MAX_STACK", 1 << 16)
    monkeypatch.setattr("burn.importers.weights.tensors.MAX_LEAVES", 1 << 16)


@pytest.mark.usefixtures("narrow")
def test_what_grows_without_end_is_stopped(tmp_path: Path) -> None:
    laughs = b"]q\x00" + b"".join(
        b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"e" + b"q" + bytes([i + 1]) for i in range(60)
    )
    deep = b"}" * 1 + b"".join(text("a") + b"}" for _ in range(2000)) + b"s" * 2000
    copies = b"(" + b"K\x01" * 2000 + b"lq\x00" + (name("torch", "Size") + b"h\x00\x85R0") * 20000
    started = time.process_time()
    for data in (laughs, deep, b"K\x01" * 100_000, copies + b"h\x00"):
        assert refused(zipped(tmp_path / "m.pt", data + END))
    cycle = b"}q\x00" + text("self") + b"h\x00s" + text("w") + tensor() + b"s"
    assert "nested too deep" in refused(zipped(tmp_path / "m.pt", cycle + END))
    assert time.process_time() - started < 30


def many_keys(shared: bytes) -> bytes:
    """A pickle with a list under "x", and under each of 10,000 keys a list of its own around that list."""
    keys = b"".join(text(f"k{i}") + b"]h\x00a" for i in range(10_000))
    return (
        b"}(" + text("state_dict") + table({"w": tensor()}) + text("x") + b"](" + shared + b"eq\x00" + keys + b"u" + END
    )


@pytest.mark.usefixtures("narrow")
def test_what_stands_under_many_keys_is_looked_through_once(tmp_path: Path) -> None:
    """A walk for every key would take minutes."""
    started = time.process_time()
    checkpoint = weights.read(zipped(tmp_path / "m.pt", many_keys(b"K\x01" * 60_000)))
    assert list(checkpoint) == ["w"] and len(checkpoint.ignored) == 10_001
    last = many_keys(b"K\x01" * 50_000 + tensor())  # the tensor is found last, and all keys have it
    assert "hold too much" in refused(zipped(tmp_path / "m.pt", last))
    assert time.process_time() - started < 10


def test_a_long_name_is_not_copied_without_end(tmp_path: Path) -> None:
    inner = b"](" + tensor() + b"K\x01" * 9000 + b"e"  # 9,001 names of 100,000 letters
    assert "hold too much" in refused(zipped(tmp_path / "m.pt", table({"n" * 100_000: inner}) + END))
    assert list(weights.read(zipped(tmp_path / "m.pt", table({"n": inner}) + END))) == ["n.0"]


KEYS = {
    "floats": [m * 2.0 ** (61 * k) for k in range(16) for m in range(1, 300)],
    "tuples": [tuple(-1 - (k >> bit & 1) for bit in range(13)) for k in range(5000)],
    "integers": [(k << 34) + 1 for k in range(1, 5000)],
}


@pytest.mark.parametrize("kind", KEYS)
def test_numbers_as_keys_have_hashes_that_a_file_cannot_choose(kind: str) -> None:
    keys = KEYS[kind]
    made, _ = load(memoryview(pickle.dumps(dict.fromkeys(keys, 1), 2)), "it")
    assert len({hash(key) for key in made}) == len(keys) == len(made)
    assert [repr(key) for key in made] == [repr(key) for key in keys]  # the names are the same
    assert kind == "integers" or len({hash(key) for key in keys}) < len(keys) / 2  # Python's own would meet


TENSORS = {
    "out of its storage": (tensor((3, 3), count=6), "0 to 8 of a storage of 6"),
    "an offset out of it": (tensor(offset=1, count=6), "1 to 6 of a storage of 6"),
    "a negative offset": (tensor(offset=-1), "offset are not natural"),
    "a negative size": (tensor((-2, 3), (3, 1), count=6), "sizes are not natural"),
    "a negative stride": (tensor((2, 3), (-3, 1)), "strides are not natural"),
    "a huge stride": (tensor((2, 3), (2**40, 1)), "of a storage of 6"),
    "sizes without strides": (tensor((2, 3), (1,)), "do not go with"),
    "a storage larger than its bytes": (tensor(count=7), "has 24 bytes and needs 28"),
    "no such storage": (tensor(key="9"), "no storage '9'"),
    "a storage outside": (tensor(key="../data.pkl"), "no storage"),
    "expanded to a terabyte": (tensor((2**20, 2**18), (0, 0), count=6), "far more than the file"),
    "expanded beyond any memory": (tensor((2**40, 2**40), (0, 0), count=6), "too large"),
    "too many axes": (tensor((1,) * 70, (1,) * 70, count=6), "axes"),
    "quantised": (tensor(kind="QInt8Storage"), "quantised"),
    "sparse": (call("torch._utils", "_rebuild_sparse_tensor", b"N", b"N"), "a sparse tensor cannot be read"),
    "a quantised call": (call("torch._utils", "_rebuild_qtensor", b"N"), "a quantised tensor cannot be read"),
    "sizes that are text": (name("torch._utils", "_rebuild_tensor") + pair(storage(), number(0), text("a"), pair()) + b"R",
                            "not natural"),
}  # fmt: skip


@pytest.mark.parametrize("case", TENSORS)
def test_tensors_that_lie_about_their_storage(case: str, tmp_path: Path) -> None:
    data, message = TENSORS[case]
    assert message in refused(zipped(tmp_path / "m.pt", table({"good": tensor(), "bad": data}) + END))


def test_every_bad_tensor_is_named(tmp_path: Path) -> None:
    state = {f"bad{i}": data for i, (data, _) in enumerate(TENSORS.values())}
    message = refused(zipped(tmp_path / "m.pt", table({"good": tensor(), **state}) + END))
    assert all(f"'{bad}'" in message for bad in state) and "'good'" not in message


def test_names_that_collide_are_refused(tmp_path: Path) -> None:
    state = {"a.b": tensor(), "a": table({"b": tensor()})}
    assert "two tensors have this name" in refused(zipped(tmp_path / "m.pt", table(state) + END))


def test_damaged_files_raise_errors_only(tmp_path: Path) -> None:
    content = valid(tmp_path / "valid.pt").read_bytes()
    np.testing.assert_array_equal(weights.read(tmp_path / "valid.pt")["a.turned"].array(), [[0, 3], [1, 4], [2, 5]])
    rng = random.Random(7)
    path = tmp_path / "m.pt"
    read = 0
    for step in range(700):
        data = bytearray(content)
        if step < 200:
            data = data[: step * len(content) // 200]
        for _ in range(rng.randint(1, 4) if step >= 200 else 0):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        read += _survives(path)
    assert read < 700


def test_damaged_pickles_raise_errors_only(tmp_path: Path) -> None:
    """The pickle alone is changed: the zip's checksum would hide it from the machine."""
    state = {
        "a": tensor(),
        "b": table({"c": tensor((3, 2), (1, 3), count=6)}),
        "lr": b"G" + bytes(8),
        "t": b"](K\x01K\x02e",
    }
    content = b"\x80\x02" + call("collections", "OrderedDict") + b"0" + table(state) + END
    rng = random.Random(3)
    codes = [bytes([code]) for code in OPCODES]
    for _ in range(700):
        data = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 1)] = rng.choice((rng.choice(codes), bytes([rng.randrange(256)])))
        _survives(zipped(tmp_path / "m.pt", bytes(data)))


def _survives(path: Path) -> bool:
    try:
        for weight in weights.read(path).values():
            weight.array().tobytes()
    except BurnError:
        return False
    return True
