"""Signatures of packages and exported caches: Ed25519 over a digest of all bytes before the signature.

The package `cryptography` computes them.

Keys are PEM files, as `openssl genpkey -algorithm ed25519` writes them. The signed message has its own prefix, so that
signatures of the same key for other purposes are not valid for packages.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burn.errors import BurnError, ModelError, Problem
from burn.runtime import files
from burn.variables import variable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

BYTES = 64
_SIGNED = b"burn package, Ed25519 of SHA-512\0"


def private_key(path: str | os.PathLike[str]) -> Ed25519PrivateKey:
    """To sign with. Raises BurnError."""
    _need()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return _key(path, lambda data: load_pem_private_key(data, password=None), Ed25519PrivateKey, "private")


def public_key(path: str | os.PathLike[str]) -> Ed25519PublicKey:
    """To check with. Raises BurnError."""
    _need()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    return _key(path, load_pem_public_key, Ed25519PublicKey, "public")


def sign(key: Ed25519PrivateKey, content: mmap.mmap | memoryview) -> bytes:
    """The signature of a file's content."""
    return key.sign(_message(content))


def check(key: Ed25519PublicKey, path: Path, content: memoryview, at: int) -> None:
    """Raises ModelError unless the last bytes of a file, which should begin at `at`, are the key's signature of all before."""
    from cryptography.exceptions import InvalidSignature

    if not at:
        raise _refused(
            path, Problem("it is not signed", hint="--sign KEY of burn-compile or burn cache export signs a file")
        )
    if at != content.nbytes - BYTES:
        raise _refused(path, Problem("bytes are missing, or were added: its signature is not at its end"))
    try:
        key.verify(bytes(content[at:]), _message(content[:at]))
    except InvalidSignature:
        what = "its signature is another key's, or the file was changed after it was signed"
        raise _refused(path, Problem(what)) from None


def required_key(signed_by: str | os.PathLike[str] | None) -> str | os.PathLike[str] | None:
    """The public key that a file must be signed with: the call's, or that of the whole process, BURN_ONLY_SIGNED. Raises
    ModelError if the two differ."""
    always = variable("BURN_ONLY_SIGNED")
    if not always or signed_by is None:
        return signed_by or always or None
    if Path(signed_by).resolve() != Path(always).resolve():
        raise ModelError(
            "this process runs packages of one key only", [f"BURN_ONLY_SIGNED is {always}, not {signed_by}"]
        )
    return signed_by


def _message(content: mmap.mmap | memoryview) -> bytes:
    return _SIGNED + hashlib.sha512(content).digest()


def _refused(path: Path, problem: Problem) -> ModelError:
    return ModelError(f"{path} is not run: it is not signed with the key that was asked for", [problem])


def _need() -> None:
    if find_spec("cryptography") is None:
        raise BurnError(
            "packages cannot be signed or checked",
            [Problem("cryptography is not here", hint="pip install 'burn-mlir[sign]'")],
        )


def _key(path: str | os.PathLike[str], read: Any, kind: type, called: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = read(files.content(path))
    except OSError as error:
        raise BurnError(f"cannot read the key {path}", [error.strerror or str(error)]) from None
    except TypeError:  # it is encrypted
        raise BurnError(f"{path} is no key to use here", ["it is locked with a password"]) from None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, kind):
        hint = "openssl genpkey -algorithm ed25519 makes a private key, openssl pkey -pubout its public one"
        raise BurnError(f"{path} is no key to use here", [Problem(f"it is no Ed25519 {called} key as PEM", hint=hint)])
    return key
