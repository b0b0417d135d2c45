"""Spoils exported caches at random, by a seed. All checksums and lengths are right afterwards, so that only the reader of a
header finds the change."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Any

from burn.runtime import cache_file, kernel_file, package
from tests.fuzz.spoiled_caches.sources import entries
from tests.fuzz.spoiled_weights.mutate import spoil

Entries = dict[str, bytes]


def mutate(seed: int) -> tuple[Entries, bytes]:
    """The entries of a cache by their names, with one to four changes to one of them, and the file that exports them. In some
    cases the file's index is changed instead. The result depends on the seed alone."""
    rng = random.Random(seed)
    made = dict(_sources())
    name = rng.choice(list(made))
    changes = rng.choice((1, 1, 2, 4))
    if rng.random() < 0.1:
        return made, exported(made, lambda index: _spoiled(index, rng, changes))
    change = _kernel if name.endswith(".kernel") else _program
    made[name] = change(made[name], rng, changes)
    return made, exported(made)


@cache
def _sources() -> Entries:
    return entries()


def exported(made: Entries, change: Any = lambda index: index) -> bytes:
    """The exported file of some entries. change: makes another index."""
    content, index = bytearray(cache_file._ENTRIES_AT), []
    for name, data in made.items():
        content += bytes(-len(content) % cache_file._ALIGNMENT)
        index.append({"name": name, "offset": len(content), "bytes": len(data), "sha256": sha256(data).hexdigest()})
        content += data
    encoded = _json(change({"entries": index}))
    prefix = (cache_file.MAGIC, cache_file.VERSION, 0, len(content) + len(encoded), len(content), len(encoded))
    cache_file._PREFIX.pack_into(content, 0, *prefix, sha256(encoded).digest(), 0)
    return bytes(content + encoded)


def _program(data: bytes, rng: random.Random, changes: int) -> bytes:
    magic, version, zero, _, at, length, code_at, code_length, constants_at, constants_length, _, _ = (
        package._PREFIX.unpack_from(data)
    )
    header = _changed(data[at : at + length], rng, changes)
    code = data[code_at : code_at + code_length]
    constants = data[constants_at : constants_at + constants_length]
    content = bytearray(package._HEADER_AT) + header
    content += bytes(-len(content) % package.CODE_ALIGNMENT)
    code_at = len(content)
    content += code
    content += bytes(-len(content) % package._CONSTANTS_ALIGNMENT)
    constants_at = len(content)
    content += constants
    table = (package._HEADER_AT, len(header), code_at, len(code), constants_at, len(constants))
    digest = sha256(header + code).digest()
    package._PREFIX.pack_into(content, 0, magic, _version(version, rng), zero, len(content), *table, digest, 0)
    return bytes(content)


def _kernel(data: bytes, rng: random.Random, changes: int) -> bytes:
    magic, version, length, code_length, _ = kernel_file._PREFIX.unpack_from(data)
    start = kernel_file._PREFIX.size
    header, code = _changed(data[start : start + length], rng, changes), data[start + length :]
    digest = sha256(header + code).digest()
    return kernel_file._PREFIX.pack(magic, _version(version, rng), len(header), code_length, digest) + header + code


def _version(version: int, rng: random.Random) -> int:
    return version if rng.random() < 0.95 else rng.randrange(2**32)


def _changed(header: bytes, rng: random.Random, changes: int) -> bytes:
    return _json(_spoiled(json.loads(header), rng, changes))


def _spoiled(tree: Any, rng: random.Random, changes: int) -> Any:
    with suppress(RecursionError):  # an earlier change made a deep tree
        for _ in range(changes):
            tree = spoil(tree, rng)
    return tree


def _json(tree: Any) -> bytes:
    """JSON of any depth: Python's encoder has a limit that its decoder is to be tried at."""
    try:
        return json.dumps(tree).encode()
    except RecursionError:
        return b'{"programs":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
