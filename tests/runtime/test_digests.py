"""Digests and searches of large files, in parts by several threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from burn.runtime import _native, digests


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "PART", 64)


def drawn(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).integers(0, 3, size, np.uint8).tobytes()


@pytest.mark.parametrize("size", [0, 1, 63, 64])
def test_one_part_has_the_digest_of_its_bytes(size: int) -> None:
    assert digests.digest_of(drawn(size)) == hashlib.sha256(drawn(size)).hexdigest()


@pytest.mark.parametrize("size", [65, 128, 1009])
def test_a_digest_depends_on_each_byte_and_on_the_size(size: int) -> None:
    content = drawn(size)
    first = digests.digest_of(content)
    others = [digests.digest_of(content[:at] + b"\x07" + content[at + 1 :]) for at in range(size)]
    others += [digests.digest_of(content + b"\0"), digests.digest_of(content[64:] + content[:64] + b"\0")]
    assert first == digests.digest_of(content) and len({first, *others}) == len(others) + 1


def test_the_digests_of_parts_are_not_a_file_with_the_digest_of_the_whole() -> None:
    content = drawn(128)
    parts = b"".join(hashlib.sha256(content[at : at + 64]).digest() for at in (0, 64))
    assert digests.digest_of(parts) != digests.digest_of(content)


@pytest.mark.parametrize("pattern", [b"\1", b"\0\0", b"\2\0\1", b"\0\1\0\1", bytes(9)])
@pytest.mark.parametrize("size", [0, 1, 64, 67, 1009])
def test_a_pattern_is_found_also_where_parts_meet(pattern: bytes, size: int) -> None:
    content = drawn(size, seed=size)
    if size > 130:
        content = content[:60] + pattern + content[60 + len(pattern) : 127] + pattern + content[127 + len(pattern) :]
    expected = [at for at in range(size) if content[at : at + len(pattern)] == pattern]
    assert digests.offsets_of(pattern, content) == expected
    assert digests.scanned(pattern, content) == (digests.digest_of(content), expected)


def test_without_further_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in functions that Python calls at its end."""
    expected = digests.digest_of(drawn(1009))

    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuses)
    assert digests.digest_of(drawn(1009)) == expected
    assert digests.checksums([drawn(100), drawn(7)]) == [_native.checksum(drawn(100)), _native.checksum(drawn(7))]


def test_an_error_of_a_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        digests.each(range(4), lambda number: 1 // (number - 3))
    with pytest.raises(ValueError, match="empty"):
        digests.offsets_of(b"", drawn(200))


def test_pages_that_were_read_are_released(tmp_path: Path) -> None:
    """The peak of a process that reads a large file for its digest, and searches it, is that of a few parts."""
    part, path = 4 << 20, tmp_path / "large"
    with path.open("wb") as file:
        for number in range(8):
            file.write(bytes([number]) * part)
    program = f"""
import re
from burn.runtime import digests, files
digests.PART = {part}
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
content = files.mapped({str(path)!r})
before = peak()
first = digests.digest_of(content)
assert digests.offsets_of(b"\\x02\\x03", content) == [3 * digests.PART - 1]
assert digests.digest_of(content) == first
assert content[digests.PART] == 1
print((peak() - before) / digests.PART)
"""
    environment = os.environ | {"BURN_NUM_THREADS": "2"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert float(done.stdout) < 4  # of 8
