"""Files written by Python: whole, under names that cannot be guessed, never through links; devices and pipes stay as they are."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import burn
from burn.runtime import files

Write = Callable[[Path, bytes], None]


def by_whole(path: Path, data: bytes) -> None:
    with files.whole(path) as file:
        file.write(data)


def by_put(path: Path, data: bytes) -> None:
    made = path.parent / "made" if files.is_stream(path) is False else Path(f"/tmp/made-{os.getpid()}")
    made.write_bytes(data)
    files.put(made, path)
    assert not made.exists()


WAYS = pytest.mark.parametrize("write", [by_whole, by_put])


@WAYS
def test_links_and_permissions(write: Write, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "out").symlink_to("victim")
    write(tmp_path / "out", b"new")
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "out").read_bytes() == b"new" and not (tmp_path / "out").is_symlink()
    (tmp_path / "private").touch(0o600)
    before = os.umask(0o027)
    try:
        write(tmp_path / "private", b"new")
        write(tmp_path / "other", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out", "private", "victim"]


@WAYS
def test_pipes_and_devices(write: Write, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(tmp_path / "pipe", b"x" * 200_000)
    reader.join(300)
    assert found == [b"x" * 200_000] and (tmp_path / "pipe").is_fifo()
    write(Path("/dev/null"), b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OSError, match="No space left"):
        write(Path("/dev/full"), b"x")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    with pytest.raises(IsADirectoryError):
        write(tmp_path, b"x")


def test_failures_leave_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), files.whole(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_concurrent_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "out"

    def work(byte: bytes) -> None:
        for _ in range(20):
            by_whole(path, byte * 300_000)

    threads = [threading.Thread(target=work, args=(bytes([65 + i]),)) for i in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            content = path.read_bytes()
            assert len(content) == 300_000 and content == content[:1] * 300_000
    assert list(tmp_path.iterdir()) == [path]


def test_exported_models_and_packages(tmp_path: Path) -> None:
    """Outputs that are written through folders, or by seeking."""
    out = tmp_path / "stdout"
    script = (
        "import sys, burn, numpy as np; f = lambda x: x * 2.0\n"
        "burn.export(f, sys.argv[1], ('float32[n]',))\n"
        "burn.runtime.package.save([burn.compile(f, ('float32[n]',)).artefact], sys.argv[2])\n"
    )
    with out.open("wb") as file:
        subprocess.run([sys.executable, "-c", script, "/dev/stdout", "/dev/null"], stdout=file, check=True, timeout=300)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and os.path.islink("/dev/stdout")
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(burn.load(out.read_bytes(), cache=False)(x), x * 2)
    with pytest.raises(burn.BurnError, match="not a file on a disk"):
        burn.export(lambda x: x * 2.0, "/dev/null", ("float32[n]",), external_data=True)


SHORTENED = """
import os, sys, numpy as np, burn
from burn import nn
os.chdir(sys.argv[1])
layer, x = nn.Linear(512, 2048), np.ones((2, 512), np.float32)
compiled = burn.compile(layer, ("float32[n, 512]",))
compiled.save("m.burn")
layer.save("m.safetensors")
want = compiled(x)
package = burn.load("m.burn")
other = nn.Linear(512, 2048)
other.load("m.safetensors")
os.truncate("m.burn", 4096)
os.truncate("m.safetensors", 100)
np.testing.assert_array_equal(package(x), want)
np.testing.assert_allclose(np.asarray(other(burn.tensor(x))), want, rtol=1e-5, atol=2e-6)
burn.export(layer, "m.onnx", ("float32[n, 512]",), external_data=True)
np.testing.assert_allclose(burn.load("m.onnx")(x), want, rtol=1e-5, atol=2e-6)  # whose pages are given back when they were read
"""


def test_copies_outlive_a_file_that_gets_shorter(tmp_path: Path) -> None:
    environment = os.environ | {"BURN_COPY_FILES": "1", "BURN_CACHE_SIZE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", SHORTENED, tmp_path], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_file_that_is_replaced_stays_for_its_users(tmp_path: Path) -> None:
    compiled = burn.compile(lambda x: x * np.arange(5000, dtype=np.float32), ("float32[5000]",))
    compiled.save(tmp_path / "m.burn")
    loaded, x = burn.load(tmp_path / "m.burn"), np.ones(5000, np.float32)
    (tmp_path / "other").write_bytes(b"short")
    os.replace(tmp_path / "other", tmp_path / "m.burn")
    np.testing.assert_array_equal(loaded(x), np.arange(5000, dtype=np.float32))


# ---- no room -------------------------------------------------------------------------------------------------------------
def test_a_write_that_fails_names_the_file(tmp_path: Path) -> None:
    """A descriptor's error has no name: a full disk, a limit on the size of files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError) as caught, files.whole(tmp_path / "model") as file:
            file.write(bytes(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG and caught.value.filename == str(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_device_is_named() -> None:
    with pytest.raises(OSError) as caught, files.whole(Path("/dev/full")) as file:
        file.write(b"x")
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == "/dev/full"


@pytest.mark.parametrize("to", ["model", "/dev/null"])
def test_an_error_without_a_number_keeps_its_text(to: str, tmp_path: Path) -> None:
    """numpy's of a write, an image library's of a format."""
    with pytest.raises(OSError, match=r"^5 requested and 3 written$"), files.whole(tmp_path / to):
        raise OSError("5 requested and 3 written")
