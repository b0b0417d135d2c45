"""Where a compiled command writes: whole files under unpredictable names, devices and pipes as they are, never through links."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.deploy.making import make, refusal, run, traced


@pytest.fixture(scope="module")
def negate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("exe", traced(lambda x: -x, x="float32[n]"), tmp_path_factory.mktemp("negate") / "negate")


def given(folder: Path, count: int = 3, value: float = 1.0) -> Path:
    path = folder / f"in{count}_{value}.npz"
    np.savez(path, x=np.full(count, value, np.float32))
    return path


def values(path: Path) -> np.ndarray:
    with np.load(path) as file:
        (name,) = file.files
        return file[name]


def test_links_at_guessable_names_stay(negate: Path, tmp_path: Path) -> None:
    source = given(tmp_path)
    (tmp_path / "victim").write_text("precious")
    for name in ("out.npz.partial", "out.npz.tmp", ".out.npz.tmp", "out.npz~"):
        (tmp_path / name).symlink_to("victim")
    before = {path.name for path in tmp_path.iterdir()}
    run(negate, source, "-o", tmp_path / "out.npz")
    assert (tmp_path / "victim").read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == before | {"out.npz"}


def test_a_link_is_replaced_and_not_written_through(negate: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "victim").chmod(0o666)
    (tmp_path / "out.npz").symlink_to("victim")
    run(negate, given(tmp_path), "-o", tmp_path / "out.npz")
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "out.npz").is_symlink()
    np.testing.assert_array_equal(values(tmp_path / "out.npz"), [-1, -1, -1])
    (tmp_path / "folder").mkdir()
    (tmp_path / "to_folder").symlink_to("folder")
    assert "Is a directory" in refusal(negate, given(tmp_path), "-o", tmp_path / "to_folder")[1]
    assert (tmp_path / "to_folder").is_symlink()


def test_permissions(negate: Path, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run(negate, given(tmp_path), "-o", tmp_path / "new.npy")
        (tmp_path / "old.npy").touch(0o600)
        run(negate, given(tmp_path), "-o", tmp_path / "old.npy")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.npy").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "old.npy").stat().st_mode) == 0o600


def test_devices_and_pipes_are_written_to(negate: Path, tmp_path: Path) -> None:
    source = given(tmp_path)
    expected = np.full(3, -1, np.float32).tobytes()
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    run(negate, source, "-o", tmp_path / "pipe")
    reader.join(300)
    assert found == [expected] and (tmp_path / "pipe").is_fifo()
    run(negate, source, "-o", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        assert run(negate, source, "-o", name) == expected
        with open(tmp_path / "redirected", "wb") as file:
            subprocess.run([negate, source, "-o", name], stdout=file, check=True)
        assert (tmp_path / "redirected").read_bytes() == expected
    assert os.path.islink("/dev/stdout")
    assert "No space left" in refusal(negate, given(tmp_path, 9000), "-o", "/dev/full")[1]
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_of_roots_is_not_replaced(negate: Path, tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this container makes no devices")
    done = subprocess.run([negate, given(tmp_path), "-o", tmp_path / "null"], capture_output=True)
    assert done.returncode in (0, 1)  # 1: the file system has no devices
    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)


def test_failures_leave_nothing(negate: Path, tmp_path: Path) -> None:
    source = given(tmp_path)
    assert "No such file" in refusal(negate, source, "-o", tmp_path / "nowhere" / "out.npz")[1]
    (tmp_path / "folder").mkdir()
    assert "Is a directory" in refusal(negate, source, "-o", tmp_path / "folder")[1]
    long = "x" * 250  # a file's name may have 255 bytes: the temporary one is no longer
    run(negate, source, "-o", tmp_path / f"{long}.npy")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["folder", source.name, f"{long}.npy"])


def test_concurrent_writers_do_not_mix(negate: Path, tmp_path: Path) -> None:
    sources = [given(tmp_path, 400_000, 1.0), given(tmp_path, 250_000, 0.0)]
    target = tmp_path / "both.npz"
    for _ in range(8):
        runs = [subprocess.Popen([negate, source, "-o", target]) for source in sources]
        assert [each.wait(300) for each in runs] == [0, 0]
        written = values(target)
        assert len(written) in (400_000, 250_000) and set(written) == {-1.0 if len(written) == 400_000 else 0.0}
