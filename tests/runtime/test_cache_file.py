"""Exported caches: merged whole, without overwriting, and read as untrusted files."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from burn.errors import BurnError, ModelError
from burn.runtime import cache_file, host, kernel_file, package, signing
from burn.runtime.artefact import Artefact, Constant, KernelImage, Signature, Target
from burn.runtime.cache import KERNEL, PROGRAM, Cache
from burn.runtime.kernel_file import CompiledKernel
from tests.deploy.test_packages import keys

HERE = Target(f"{host.architecture()}-unknown-linux-gnu")
TRITON = next((v for v in cache_file._versions_here() if v.startswith("triton ")), "triton")
PREFIX = cache_file._PREFIX


def artefact(value: int, target: Target = HERE) -> Artefact:
    constant = Constant.of(np.full(1000, value, np.uint8))
    return Artefact(Signature((), ()), target, b"code", (constant,), made_by=cache_file._versions_here())


def kernel(name: str, architecture: str = "sm_90") -> CompiledKernel:
    return CompiledKernel(KernelImage(name, name.encode() * 50, 128, 64), "cuda", architecture, TRITON)


def filled(folder: Path) -> Cache:
    """Two programs and two kernels."""
    cache = Cache(folder)
    for number in (1, 2):
        cache.put(bytes([number]), artefact(number))
        cache.put_kernel(bytes([number]), kernel(f"kernel{number}"))
    return cache


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    cache = filled(tmp_path / "from")
    cache_file.export(cache, cache_file.entries(cache), tmp_path / "file")
    return tmp_path / "file"


def value_of(cache: Cache, key: bytes) -> int:
    found = cache.get(key)
    assert found is not None
    return int(found.constants[0].array()[0])


def test_a_cache_passes_through_a_file(exported: Path, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "to")
    assert cache_file.load(cache, exported) == cache_file.Merged(4, 0, {})
    assert [value_of(cache, bytes([number])) for number in (1, 2)] == [1, 2]
    found = cache.get_kernel(b"\1")
    assert found == kernel("kernel1")
    assert cache_file.load(cache, exported) == cache_file.Merged(0, 4, {})
    for path in (cache.directory, *cache.directory.glob("??/*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert not list(tmp_path.glob("to/**/*.tmp"))
    assert int((cache.directory / "bytes").read_text()) == cache.bytes()


def test_the_same_entries_give_the_same_bytes(exported: Path, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "to")
    cache_file.load(cache, exported)
    cache_file.export(cache, cache_file.entries(cache), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == exported.read_bytes()


def test_present_entries_stay(exported: Path, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "to")
    cache.put(b"\1", artefact(77))
    assert cache_file.load(cache, exported) == cache_file.Merged(3, 1, {})
    assert value_of(cache, b"\1") == 77


def test_entries_for_other_machines_stay_out(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "from")
    cache.put(b"1", artefact(1, HERE._replace(features=("no-such-feature",))))
    cache.put(b"2", artefact(2, Target("riscv64-unknown-linux-gnu")))
    cache.put(b"3", artefact(3, HERE._replace(gpu="cuda", architecture="sm_80")))
    cache.put(b"4", replace(artefact(4), made_by=("burn 0.0", TRITON)))
    cache.put(b"5", replace(artefact(5), made_by=()))
    cache.put_kernel(b"6", kernel("kernel6", "sm_80"))
    cache.put_kernel(b"7", kernel("kernel7")._replace(made_by="triton 0.1"))
    cache.put_kernel(b"8", kernel("kernel8"))
    cache_file.export(cache, cache_file.entries(cache), tmp_path / "file")
    merged = cache_file.load(Cache(tmp_path / "to"), tmp_path / "file", gpus=[("cuda", "sm_90")])
    assert merged.added == 1 and Cache(tmp_path / "to").get_kernel(b"8") is not None
    assert merged.refused == {
        "for another CPU: this CPU lacks no-such-feature": 1,
        f"for another CPU: it was compiled for riscv64 and this machine is {host.architecture()}": 1,
        "for cuda sm_80, and here is cuda sm_90": 2,
        "made by burn 0.0, which is another version here": 1,
        "made by an unknown version, which is another version here": 1,
        "made by triton 0.1, which is another version here": 1,
    }
    # A container is built without a GPU of that kind.
    for number, others in enumerate(([], [("wgpu", "webgpu")])):
        assert cache_file.load(Cache(tmp_path / f"build{number}"), tmp_path / "file", gpus=others).added == 3


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: b"", "0 bytes are too few"),
        (lambda d: d[:100], "100 bytes are too few"),
        (lambda d: d[:-1], "bytes and should have"),
        (lambda d: d + b"\0", "bytes and should have"),
        (lambda d: b"BURNPROG" + d[8:], "does not start with the bytes of one"),
        (lambda d: d[:8] + b"\2" + d[9:], "its format is version 2; this burn reads version 1: export it again"),
        (lambda d: d[:-5] + b"#" + d[-4:], "the checksum of its index is wrong"),
        (lambda d: d[:200] + bytes([d[200] ^ 1]) + d[201:], "the checksum of [0-9a-f]+.(burn|kernel) is wrong"),
        (lambda d: d[:72] + b"\1" + d[73:], "the signature would be at offset 1"),
        (lambda d: d[:24] + b"\xff" * 8 + d[32:], "the index would be"),
        (lambda d: d[:32] + b"\xff" * 8 + d[40:], "the index would be"),
    ],
)
def test_damaged_files(exported: Path, tmp_path: Path, change: Callable[[bytes], bytes], text: str) -> None:
    exported.write_bytes(change(exported.read_bytes()))
    with pytest.raises(ModelError, match=text):
        cache_file.load(Cache(tmp_path / "to"), exported)
    assert not list(tmp_path.glob("to/??/*"))


def rewritten(file: Path, change: Callable[[list[dict[str, object]]], object]) -> None:
    """A file whose index lies, with right checksums of the index itself."""
    data = file.read_bytes()
    magic, version, zero, _, at, length, _, _ = PREFIX.unpack_from(data)
    index = json.loads(data[at : at + length])["entries"]
    made = change(index)
    encoded = json.dumps({"entries": index if made is None else made}).encode()
    head = PREFIX.pack(magic, version, zero, at + len(encoded), at, len(encoded), sha256(encoded).digest(), 0)
    file.write_bytes(head + data[len(head) : at] + encoded)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda x: x[0].update(name="../" * 21 + "x.burn"), "is the name of no entry"),
        (lambda x: x[0].update(name="/" + "a" * 63 + ".burn"), "is the name of no entry"),
        (lambda x: x[0].update(name="a" * 64 + ".so"), "is the name of no entry"),
        (lambda x: x[0].update(name="a" * 64 + ".burn\n"), "is the name of no entry"),
        (lambda x: x[0].update(name=7), "is the name of no entry"),
        (lambda x: x[0].update(name=x[1]["name"], **{k: x[1][k] for k in ("offset", "bytes", "sha256")}), "one name"),
        (lambda x: x[0].update(offset=-64), "would be"),
        (lambda x: x[0].update(offset=0), "would be"),
        (lambda x: x[0].update(offset=129), "would be"),
        (lambda x: x[0].update(bytes=1 << 62), "would be"),
        (lambda x: x[0].update(bytes=-1), "would be"),
        (lambda x: x[0].update(bytes=True), "has no offset and size"),
        (lambda x: x[0].update(offset=1.5), "has no offset and size"),
        (lambda x: x[0].update(sha256=None), "checksum"),
        (lambda x: x[0].pop("bytes"), "index is malformed"),
        (lambda x: [None], "index is malformed"),
        (lambda x: 5, "index is malformed"),
    ],
)
def test_an_index_that_lies(exported: Path, tmp_path: Path, change: Callable[[object], object], text: str) -> None:
    rewritten(exported, change)
    with pytest.raises(ModelError, match=text):
        cache_file.load(Cache(tmp_path / "to"), exported)
    assert {path.name for path in tmp_path.iterdir()} <= {"from", "file", "to"} and not list(tmp_path.glob("to/??/*"))


def test_a_name_of_the_other_kind(exported: Path, tmp_path: Path) -> None:
    """A program under a kernel's name."""

    def swap(index: list[dict[str, object]]) -> None:
        for each in index:
            each["name"] = str(each["name"])[:64] + (KERNEL if str(each["name"]).endswith(".burn") else ".burn")

    rewritten(exported, swap)
    with pytest.raises(ModelError, match="cannot be used"):
        cache_file.load(Cache(tmp_path / "to"), exported)
    assert not list(tmp_path.glob("to/??/*"))


def with_header(data: bytes, header: bytes) -> bytes:
    """A package with another header, which is no longer than its own, and right checksums."""
    fields = list(package._PREFIX.unpack_from(data))
    at, length, code_at, code = fields[4:8]
    assert len(header) <= length
    fields[5] = len(header)
    fields[10] = sha256(header + data[code_at : code_at + code]).digest()
    made = bytearray(data)
    package._PREFIX.pack_into(made, 0, *fields)
    made[at : at + len(header)] = header
    return bytes(made)


@pytest.mark.parametrize("programs", ["[]", "{}", "null", "[[]]", '""', "[NaN]"])
def test_a_package_without_a_program(tmp_path: Path, programs: str) -> None:
    """Other entries are listed and exported. An import ends with one error."""
    cache = filled(tmp_path / "from")
    path = cache.path(b"\1")
    whole = cache_file.entries(cache)
    path.write_bytes(with_header(path.read_bytes(), f'{{"programs":{programs}}}'.encode()))
    with pytest.raises(ModelError, match="the header is malformed"):
        package.headers(path)
    assert {entry.name for entry in cache_file.entries(cache)} == {e.name for e in whole} - {
        path.parent.name + path.name
    }
    assert len(cache_file.export(cache, whole, tmp_path / "file")) == 4
    to = Cache(tmp_path / "to")
    with pytest.raises(ModelError, match=r"(?s)cannot be used.*the header is malformed"):
        cache_file.load(to, tmp_path / "file")
    assert len(to.entries()) < 4
    if to.entries():
        assert int((to.directory / "bytes").read_text()) == to.bytes()


def test_entries_before_a_damaged_one_count(tmp_path: Path) -> None:
    """The noted total has the entries that an import added before it ended with an error."""
    cache, to = filled(tmp_path / "from"), Cache(tmp_path / "to")
    whole = cache_file.entries(cache)
    last = max(path for path in cache.entries() if path.name.endswith(PROGRAM))
    last.write_bytes(with_header(last.read_bytes(), b'{"programs":0}'))
    cache_file.export(cache, whole, tmp_path / "file")
    to.put(b"another", artefact(3))
    before = int((to.directory / "bytes").read_text())
    with pytest.raises(ModelError, match="cannot be used"):
        cache_file.load(to, tmp_path / "file")
    assert int((to.directory / "bytes").read_text()) == to.bytes() > before


def test_entries_of_other_formats_stay_out(tmp_path: Path) -> None:
    """Another burn wrote them. The other entries of the file are merged."""
    cache = filled(tmp_path / "from")
    whole = cache_file.entries(cache)
    for path in (cache.path(b"\1"), cache.path(b"\2", KERNEL)):
        data = bytearray(path.read_bytes())
        data[8:12] = (99).to_bytes(4, "little")
        path.write_bytes(data)
    cache_file.export(cache, whole, tmp_path / "file")
    merged = cache_file.load(Cache(tmp_path / "to"), tmp_path / "file")
    assert merged == cache_file.Merged(
        2,
        0,
        {
            f"in version 99 of its format, and here is version {package.VERSION}": 1,
            f"in version 99 of its format, and here is version {kernel_file.VERSION}": 1,
        },
    )


def test_random_damage_is_found_or_without_effect(exported: Path, tmp_path: Path) -> None:
    data, draw = exported.read_bytes(), random.Random(0)
    refused = 0
    for number in range(100):
        damaged = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        exported.write_bytes(damaged)
        cache = Cache(tmp_path / f"to{number}")
        try:
            cache_file.load(cache, exported)
            assert [value_of(cache, b"\1"), value_of(cache, b"\2")] == [1, 2]
        except ModelError:
            refused += 1
            assert not list(cache.directory.glob("??/*"))
    assert refused > 80


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, text in (("pipe", "a pipe or a device"), (".", "a folder"), ("absent", "No such file")):
        with pytest.raises(ModelError, match=text):
            cache_file.load(Cache(tmp_path / "to"), tmp_path / name)


def test_a_cache_that_is_off_or_too_small(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(BurnError, match="the cache is turned off"):
        cache_file.load(Cache(tmp_path / "to", 0), exported)
    with pytest.raises(
        BurnError, match=r"its entries have \d+ bytes, the cache has 1000 \(BURN_CACHE_SIZE is the limit"
    ):
        cache_file.load(Cache(tmp_path / "to", 1000), exported)


def test_a_cache_of_others(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir(mode=0o777)
    (tmp_path / "to").chmod(0o777)
    with pytest.raises(PermissionError, match="others may write"):
        cache_file.load(Cache(tmp_path / "to"), exported)
    cache = filled(tmp_path / "spoiled")
    cache.directory.chmod(0o777)
    assert cache_file.entries(cache) == []


def test_signatures(tmp_path: Path) -> None:
    (private, public), (other, _) = keys(tmp_path, "one"), keys(tmp_path, "two")
    cache, file = filled(tmp_path / "from"), tmp_path / "file"
    for key, text in ((None, "it is not signed"), (other, "another key's"), (private, None)):
        cache_file.export(cache, cache_file.entries(cache), file, key)
        if text is None:
            assert cache_file.load(Cache(tmp_path / "to"), file, public).added == 4
        else:
            with pytest.raises(ModelError, match=text):
                cache_file.load(Cache(tmp_path / "to"), file, public)
    data = bytearray(file.read_bytes())
    assert len(data) - signing.BYTES == PREFIX.unpack_from(data)[-1]
    data[300] ^= 1
    file.write_bytes(data)
    with pytest.raises(ModelError, match="changed after it was signed"):
        cache_file.load(Cache(tmp_path / "new"), file, public)
    file.write_bytes(data + bytes(64))
    with pytest.raises(ModelError, match="its signature is not at its end"):
        cache_file.load(Cache(tmp_path / "new"), file, public)


def test_imports_beside_running_programs(exported: Path, tmp_path: Path) -> None:
    """Two processes import while a thread reads, drops and writes the same entries: each entry that is read is whole."""
    script = """
import sys
from pathlib import Path
from burn.runtime import cache_file
from burn.runtime.cache import Cache
for _ in range(15):
    cache_file.load(Cache(Path(sys.argv[1])), sys.argv[2])
"""
    cache = Cache(tmp_path / "to")
    command = [sys.executable, "-W", "error", "-c", script, str(cache.directory), str(exported)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    done, wrong = threading.Event(), []

    def use() -> None:
        while not done.is_set():
            for number in (1, 2):
                found = cache.get(bytes([number]))
                if found is not None and set(found.constants[0].array().tolist()) != {number}:
                    wrong.append(number)
            cache.drop([sha256(b"\1").hexdigest() + ".burn"])
            cache.put(b"\2", artefact(2))

    thread = threading.Thread(target=use)
    thread.start()
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    done.set()
    thread.join()
    assert not wrong
