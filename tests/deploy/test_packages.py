"""Packages for burn.load: code for several machines in one file, and signatures that are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import burn
from burn.cli.compile import main as compile_
from burn.cli.inspect import main as inspect
from burn.cli.run import main as run_
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.errors import BurnError, CompileError, ModelError, RunError
from burn.runtime import host, package
from burn.runtime.artefact import Target
from burn.toolchain import platforms
from tests.deploy.making import DIGITS, Array, digits, options

HOST = platforms.find().name


def image() -> Array:
    return np.random.default_rng(7).random((3, 1, 8, 8)).astype(np.float32)


def made(path: Path, **given: object) -> Path:
    """A package of the digits for a CPU that has nothing, quickly compiled."""
    return build("package", digits(), path, options(cpu="generic" if HOST.startswith("x86_64") else None, **given))[0]


@pytest.fixture(scope="module")
def unsigned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("package") / "digits.burn")


# ---- several machines ------------------------------------------------------------------------------------------------


def test_the_first_that_runs_here_is_taken(unsigned: Path, tmp_path: Path) -> None:
    here = package.load(unsigned)
    triple = "riscv64-unknown-linux-gnu"
    elsewhere = replace(here, target=Target(triple), code=b"\0" * 100)
    better = replace(here, target=Target(here.target.triple, ("a-feature-of-tomorrow",)))
    package.save([elsewhere, better, here], tmp_path / "m.burn")
    np.testing.assert_array_equal(burn.load(tmp_path / "m.burn")(image()), burn.load(unsigned)(image()))
    said = CliRunner().invoke(inspect, [str(tmp_path / "m.burn")], catch_exceptions=False).output
    assert "one of 3 programs" in said and triple in said

    package.save([elsewhere, better], tmp_path / "m.burn")
    with pytest.raises(RunError, match="lacks a-feature-of-tomorrow"):
        burn.load(tmp_path / "m.burn")
    package.save([elsewhere], tmp_path / "m.burn")
    with pytest.raises(RunError, match="compiled for riscv64"):
        burn.load(tmp_path / "m.burn")


@pytest.mark.slow  # compiles three programs
@pytest.mark.skipif(HOST != "x86_64-linux", reason="the other machine is an ARM one")
def test_two_machines_in_one_file(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    path = tmp_path / "digits.burn"
    told = ["--target", "aarch64-linux,x86_64-linux", "--cpu", "avx2,generic", "-o", str(path)]
    done = CliRunner().invoke(compile_, [str(DIGITS), *told], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    programs = package.read(path)
    assert [program.target.triple.split("-")[0] for program in programs] == ["aarch64", "x86_64", "x86_64"]
    wide, narrow = programs[1:]
    assert "avx2" in wide.target.features and not narrow.target.features
    assert package.chosen(programs) is (wide if "avx2" in host.features() else narrow)
    assert package.chosen([programs[0], narrow]) is narrow
    assert bytes(programs[0].code[18:20]) == b"\xb7\0"  # ELF's number of AArch64
    np.testing.assert_array_equal(burn.load(path)(image()), burn.load(DIGITS, target="avx2")(image()))


def test_constants_that_programs_share_are_kept_once(unsigned: Path, tmp_path: Path) -> None:
    program = package.load(unsigned)
    package.save([program, program, program], tmp_path / "three.burn")
    constants = sum(constant.bytes for constant in program.constants)
    assert (tmp_path / "three.burn").stat().st_size < 3 * unsigned.stat().st_size - 1.5 * constants
    for each in package.read(tmp_path / "three.burn"):
        assert [bytes(c.data) for c in each.constants] == [bytes(c.data) for c in program.constants]


def test_packages_are_for_machines_that_load_them(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="no packages for riscv64-linux"):
        build("package", digits(), tmp_path / "m.burn", Options(platforms.find("riscv64-linux")))
    both = Options(platforms.find("x86_64-linux"), cpu="rv64gc", also=(platforms.find("aarch64-linux"),))
    with pytest.raises(CompileError, match="no target has the CPU rv64gc"):
        build("package", digits(), tmp_path / "m.burn", both)
    done = CliRunner().invoke(
        compile_, [str(DIGITS), "--target", "x86_64-linux,aarch64-linux", "-o", str(tmp_path / "m")]
    )
    assert done.exit_code == 2 and "several targets are for packages" in done.output


# ---- signatures ------------------------------------------------------------------------------------------------------


def keys(folder: Path, name: str = "key") -> tuple[Path, Path]:
    """A private key and its public one."""
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.public.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture(scope="module")
def signed(unsigned: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A signed package and the public key."""
    folder = tmp_path_factory.mktemp("signed")
    private, public = keys(folder)
    package.save(package.read(unsigned), folder / "digits.burn", private)
    return folder / "digits.burn", public


def test_a_signed_package(signed: tuple[Path, Path], unsigned: Path) -> None:
    path, public = signed
    want = burn.load(unsigned)(image())
    np.testing.assert_array_equal(burn.load(path, signed_by=public)(image()), want)
    np.testing.assert_array_equal(burn.load(path)(image()), want)


def test_no_signature_or_another_keys(signed: tuple[Path, Path], unsigned: Path, tmp_path: Path) -> None:
    _, other = keys(tmp_path, "other")
    with pytest.raises(ModelError, match="it is not signed"):
        burn.load(unsigned, signed_by=signed[1])
    with pytest.raises(ModelError, match="another key's"):
        burn.load(signed[0], signed_by=other)


def test_any_change_is_noticed_before_anything_is_used(
    signed: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used(*_: object) -> None:
        raise AssertionError("the header was looked at")

    monkeypatch.setattr("burn.runtime.package.decode", used)
    monkeypatch.setattr("burn.runtime.package.json.loads", used)
    path, public = signed
    whole, changed = path.read_bytes(), tmp_path / "changed.burn"
    random = np.random.default_rng(3)
    for position in [*range(112), *random.integers(112, len(whole) - 64, 60), *range(len(whole) - 64, len(whole), 7)]:
        damaged = bytearray(whole)
        damaged[position] ^= int(random.integers(1, 256))
        changed.write_bytes(damaged)
        with pytest.raises(ModelError):
            burn.load(changed, signed_by=public)
    for data in (whole[:-1], whole[:-64], whole + b"\0", whole[:100]):
        changed.write_bytes(data)
        with pytest.raises(ModelError):
            burn.load(changed, signed_by=public)


def _locked(path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    key = Ed25519PrivateKey.generate()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")))


def _curve(path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = generate_private_key(SECP256R1())
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: path.write_text("no key"), "no Ed25519 private key"),
        (lambda path: path.write_bytes(keys(path.parent)[1].read_bytes()), "no Ed25519 private key"),
        (lambda path: None, "No such file"),
        (_locked, "locked with a password"),
        (_curve, "no Ed25519 private key"),
    ],
)
def test_keys_that_are_none(unsigned: Path, tmp_path: Path, write: Callable[[Path], None], said: str) -> None:
    pytest.importorskip("cryptography")
    write(tmp_path / "bad.pem")
    with pytest.raises(BurnError, match=said):
        package.save(package.read(unsigned), tmp_path / "m.burn", tmp_path / "bad.pem")
    assert not (tmp_path / "m.burn").exists()
    with pytest.raises(BurnError):
        keys(tmp_path)
        package.save(package.read(unsigned), tmp_path / "m.burn", tmp_path / "key.pem")
        burn.load(tmp_path / "m.burn", signed_by=tmp_path / "bad.pem")


def test_a_key_that_is_a_pipe_does_not_hang(unsigned: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    os.mkfifo(tmp_path / "key.pem")
    with pytest.raises(burn.BurnError, match="a pipe or a device"):
        burn.load(unsigned, signed_by=tmp_path / "key.pem")


def test_a_process_that_runs_signed_packages_only(
    unsigned: Path, signed: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, public = signed
    monkeypatch.setenv("BURN_ONLY_SIGNED", str(public))
    assert burn.load(path)(image()).shape == burn.load(path, signed_by=public)(image()).shape
    with pytest.raises(burn.BurnError, match="is not signed"):
        burn.load(unsigned)
    (tmp_path / "other.pem").write_bytes(public.read_bytes())
    with pytest.raises(burn.BurnError, match="one key only"):
        burn.load(path, signed_by=tmp_path / "other.pem")
    burn.load(DIGITS)  # a model is no code
    monkeypatch.setenv("BURN_ONLY_SIGNED", str(tmp_path / "absent.pem"))
    with pytest.raises(burn.BurnError, match="cannot read the key"):
        burn.load(path)


def test_signatures_without_cryptography(unsigned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burn.runtime.signing.find_spec", lambda name: None)
    with pytest.raises(BurnError, match=r"burn-mlir\[sign\]"):
        burn.load(unsigned, signed_by=tmp_path / "key.pem")


def test_models_are_not_signed(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="only compiled programs are signed"):
        burn.load(DIGITS, signed_by=tmp_path / "key.pem")


def test_the_commands(tmp_path: Path) -> None:
    private, public = keys(tmp_path)
    path, runner = tmp_path / "digits.burn", CliRunner()
    cpu = ["--cpu", "generic"] if HOST.startswith("x86_64") else []
    done = runner.invoke(compile_, [str(DIGITS), *cpu, "--sign", str(private), "-o", str(path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    words = [str(path), "--dim", "batch=1", "--signed-by"]
    done = runner.invoke(run_, [*words, str(public)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    refused = runner.invoke(run_, [*words, str(keys(tmp_path, "other")[1])])
    assert refused.exit_code != 0
    done = runner.invoke(compile_, [str(DIGITS), "--sign", str(private), "-o", str(tmp_path / "m")])
    assert done.exit_code == 2 and "--sign is for packages" in done.output
