"""Relocations of every machine, on any machine: objects made here by hand, loaded by the C loader and looked at, not run.

Each relocation is computed a second time in Python, from the definition of the CPU's instruction.
"""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runtime.sanitizers import NATIVE, compiler_with

FAR = 0x123456789A  # as in images.c
PAGE = 4096
AARCH64, X86_64 = 183, 62
FIELD = 16  # the offset of the relocated field in .text
ABSOLUTE = 0xFFF1
SYMBOLS = ("", "here", "data", "far", "number")  # .text + 0, .rodata + 32, undefined, an absolute one

Loader = Callable[[Sequence[bytes]], "list[Image | str]"]


@dataclass(frozen=True)
class Image:
    """An object in memory. The first section placed is .text, at the beginning; .rodata begins two pages behind."""

    base: int
    data: bytes

    def read(self, address: int, size: int) -> int:
        at = address - self.base
        assert 0 <= at <= len(self.data) - size
        return int.from_bytes(self.data[at : at + size], "little")

    @property
    def word(self) -> int:
        return self.read(self.location, 4)

    @property
    def location(self) -> int:
        return self.base + FIELD


def an_object(
    machine: int, kind: int, symbol: str, addend: int = 0, word: int = 0, number: int = 0, offset: int = FIELD
) -> bytes:
    """One relocation of a kind at the offset of `word`."""
    text = bytearray(64)
    struct.pack_into("<Q", text, FIELD, word)
    names = b"\0" + b"".join(name.encode() + b"\0" for name in SYMBOLS[1:])
    at = {name: names.index(b"\0" + name.encode() + b"\0") + 1 for name in SYMBOLS[1:]}
    table = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for name, section, value in (("here", 1, 0), ("data", 2, 32), ("far", 0, 0), ("number", ABSOLUTE, number)):
        table += struct.pack("<IBBHQQ", at[name], 0x10, 0, section, value % 2**64, 0)
    relocations = struct.pack("<QQq", offset, SYMBOLS.index(symbol) << 32 | kind, addend)
    rodata = bytes(range(64)) + bytes(PAGE)
    parts = [b"", bytes(text), rodata, table, names, relocations]
    #        type, flags, link, info, alignment, size of an entry
    kinds = [(0, 0, 0, 0, 0, 0), (1, 6, 0, 0, 16, 0), (1, 2, 0, 0, 16, 0), (2, 0, 4, 0, 8, 24), (3, 0, 0, 0, 1, 0)]
    kinds.append((4, 0, 3, 1, 8, 24))
    body, headers = b"", b""
    for part, (type_, flags, link, info, alignment, entry) in zip(parts, kinds, strict=True):
        headers += struct.pack(
            "<IIQQQQIIQQ", 0, type_, flags, 0, 64 + len(body), len(part), link, info, alignment, entry
        )
        body += part
    top = (
        b"\x7fELF\2\1\1"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 1, machine, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 6, 4)
    )
    return top + body + headers


@pytest.fixture(scope="module")
def loaders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Loader]:
    folder = tmp_path_factory.mktemp("loader")
    compiler = compiler_with("address,undefined", folder)
    source = Path(__file__).parent / "images.c"

    def built(name: str) -> Loader:
        files = [str(source), *(str(NATIVE / f"elf_{machine}.c") for machine in ("aarch64", "x86_64"))]
        subprocess.run([*compiler, f"-DBURN_ELF_MACHINE=burn_elf_{name}", *files, "-o", str(folder / name)], check=True)
        return lambda objects: loaded(folder / name, objects)

    return {AARCH64: built("aarch64"), X86_64: built("x86_64")}


def loaded(program: Path, objects: Sequence[bytes]) -> list[Image | str]:
    """Of each object its image, or why it was refused."""
    sent = b"".join(struct.pack("<Q", len(code)) + code for code in objects)
    done = subprocess.run([program], input=sent, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    made: list[Image | str] = []
    at = 0
    while at < len(done.stdout):
        ok, first = struct.unpack_from("<QQ", done.stdout, at)
        if ok:
            (size,) = struct.unpack_from("<Q", done.stdout, at + 16)
            made.append(Image(first, done.stdout[at + 24 : at + 24 + size]))
            at += 24 + size
        else:
            made.append(done.stdout[at + 16 : at + 16 + first].decode())
            at += 16 + first
    assert len(made) == len(objects)
    return made


def image(loader: Loader, *args: object, **options: int) -> Image:
    (made,) = loader([an_object(*args, **options)])  # type: ignore[arg-type]
    assert isinstance(made, Image), made
    return made


def refusal(loader: Loader, *args: object, **options: int) -> str:
    (made,) = loader([an_object(*args, **options)])  # type: ignore[arg-type]
    assert isinstance(made, str)
    return made


def data_of(made: Image) -> int:
    """The address of `data`: 32 bytes into the read-only part, which begins on a page behind the code and its stubs."""
    return made.base + PAGE + 32


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


# ---- AArch64 -------------------------------------------------------------------------------------------------------

MOVK = 0xF2800003  # movk x3, #0
ADRP, ADR = 0x90000005, 0x10000005
ADD = 0x91000085  # add x5, x4, #0
LDRB, LDRH, LDRW, LDRX, LDRQ = 0x39400085, 0x79400085, 0xB9400085, 0xF9400085, 0x3DC00085
BL, B, B_EQ, TBZ, LDR_LITERAL = 0x94000000, 0x14000000, 0x54000000, 0x36000005, 0x58000005


def adr(made: Image) -> int:
    """The offset that ADR adds to its address; ADRP, in pages."""
    return signed((made.word >> 5 & 0x7FFFF) << 2 | made.word >> 29 & 3, 21)


@pytest.mark.parametrize(("kind", "part"), [(264, 0), (266, 1), (268, 2), (269, 3)])
def test_moves_build_an_address(loaders: dict[int, Loader], kind: int, part: int) -> None:
    made = image(loaders[AARCH64], AARCH64, kind, "data", 5, word=MOVK | 0xFFFF << 5)
    assert made.word == MOVK | (data_of(made) + 5 >> 16 * part & 0xFFFF) << 5


@pytest.mark.parametrize(("kind", "bits"), [(263, 16), (265, 32), (267, 48)])
def test_the_last_move_holds_the_rest(loaders: dict[int, Loader], kind: int, bits: int) -> None:
    most = (1 << bits) - 1
    made = image(loaders[AARCH64], AARCH64, kind, "number", word=MOVK, number=most)
    assert made.word == MOVK | 0xFFFF << 5
    assert "too far" in refusal(loaders[AARCH64], AARCH64, kind, "number", 1, word=MOVK, number=most)
    assert "too far" in refusal(loaders[AARCH64], AARCH64, kind, "number", -1, word=MOVK)


@pytest.mark.parametrize("addend", [0, 7, 4000, -33])
def test_a_page_and_an_offset_in_it(loaders: dict[int, Loader], addend: int) -> None:
    for kind in (275, 276):
        made = image(loaders[AARCH64], AARCH64, kind, "data", addend, word=ADRP | 0x60FFFFE0)
        assert made.word & ~(3 << 29 | 0x7FFFF << 5) == ADRP
        assert made.location // PAGE + adr(made) == (data_of(made) + addend) // PAGE
    made = image(loaders[AARCH64], AARCH64, 277, "data", addend, word=ADD)
    assert made.word == ADD | (data_of(made) + addend) % PAGE << 10


@pytest.mark.parametrize(
    ("kind", "scale", "word"), [(278, 0, LDRB), (284, 1, LDRH), (285, 2, LDRW), (286, 3, LDRX), (299, 4, LDRQ)]
)
def test_loads_and_stores(loaders: dict[int, Loader], kind: int, scale: int, word: int) -> None:
    made = image(loaders[AARCH64], AARCH64, kind, "data", 3 << scale, word=word)
    assert made.word == word | ((data_of(made) + (3 << scale)) % PAGE >> scale) << 10
    if scale:
        assert "odd place" in refusal(loaders[AARCH64], AARCH64, kind, "data", 1, word=word)


@pytest.mark.parametrize(
    ("kind", "word", "bits", "at"),
    [(282, B, 26, 0), (283, BL, 26, 0), (280, B_EQ, 19, 5), (279, TBZ, 14, 5), (273, LDR_LITERAL, 19, 5)],
)
def test_jumps(loaders: dict[int, Loader], kind: int, word: int, bits: int, at: int) -> None:
    mask = ((1 << bits) - 1) << at
    made = image(loaders[AARCH64], AARCH64, kind, "here", 8, word=word | mask)
    assert made.word & ~mask == word
    assert made.location + 4 * signed(made.word >> at, bits) == made.base + 8
    assert "odd place" in refusal(loaders[AARCH64], AARCH64, kind, "here", 2, word=word)
    reach = 1 << (bits + 1)  # backwards; four less forwards
    assert "too far" in refusal(loaders[AARCH64], AARCH64, kind, "here", FIELD + reach, word=word)
    made = image(loaders[AARCH64], AARCH64, kind, "here", FIELD - reach, word=word)
    assert 4 * signed(made.word >> at, bits) == -reach


def test_calls_of_far_functions_go_through_a_stub(loaders: dict[int, Loader]) -> None:
    for kind, word in ((282, B), (283, BL)):
        made = image(loaders[AARCH64], AARCH64, kind, "far", word=word)
        stub = made.location + 4 * signed(made.word, 26)
        assert made.read(stub, 8) == 0xD61F0200_58000050  # ldr x16, 8 bytes on; br x16
        assert made.read(stub + 8, 8) == FAR
    assert "too far" in refusal(loaders[AARCH64], AARCH64, 280, "far", word=B_EQ)
    assert "too far" in refusal(loaders[AARCH64], AARCH64, 275, "far", word=ADRP)


def test_slots_hold_addresses(loaders: dict[int, Loader]) -> None:
    for symbol in ("far", "data"):
        page = image(loaders[AARCH64], AARCH64, 311, symbol, word=ADRP)
        low = image(loaders[AARCH64], AARCH64, 312, symbol, word=LDRX)
        slot = (page.location // PAGE + adr(page)) * PAGE + 8 * (low.word >> 10 & 0xFFF)
        assert page.read(slot, 8) == (FAR if symbol == "far" else data_of(page))
        near = image(loaders[AARCH64], AARCH64, 309, symbol, word=LDR_LITERAL)
        assert near.read(near.location + 4 * signed(near.word >> 5, 19), 8) == (
            FAR if symbol == "far" else data_of(near)
        )


def test_an_address_near_the_instruction(loaders: dict[int, Loader]) -> None:
    made = image(loaders[AARCH64], AARCH64, 274, "data", 3, word=ADR)
    assert made.location + adr(made) == data_of(made) + 3
    assert made.word & ~(3 << 29 | 0x7FFFF << 5) == ADR


def test_data(loaders: dict[int, Loader]) -> None:
    for kind, size in ((260, 8), (261, 4), (262, 2)):
        made = image(loaders[AARCH64], AARCH64, kind, "data", -9, word=2**64 - 1)
        assert made.location + signed(made.read(made.location, size), 8 * size) == data_of(made) - 9
        assert made.read(made.location + size, 8 - size) == 2 ** (64 - 8 * size) - 1  # what lies behind stays
    made = image(loaders[AARCH64], AARCH64, 257, "far", 3)
    assert made.read(made.location, 8) == FAR + 3
    for kind, bits in ((258, 32), (259, 16)):
        for number in ((1 << bits) - 1, -(1 << (bits - 1))):
            made = image(loaders[AARCH64], AARCH64, kind, "number", number=number)
            assert made.read(made.location, bits // 8) == number % (1 << bits)
        for number in (1 << bits, -(1 << (bits - 1)) - 1):
            assert "too far" in refusal(loaders[AARCH64], AARCH64, kind, "number", number=number)


# ---- x86-64 --------------------------------------------------------------------------------------------------------


def test_words_of_x86(loaders: dict[int, Loader]) -> None:
    loader = loaders[X86_64]
    for kind in (2, 4):  # PC32, PLT32
        made = image(loader, X86_64, kind, "data", -4)
        assert made.location + 4 + signed(made.word, 32) == data_of(made)
        made = image(loader, X86_64, kind, "far", -4)
        stub = made.location + 4 + signed(made.word, 32)
        assert made.read(stub, 6) == 0x25FF  # jmp *0(%rip)
        assert made.read(stub + 6, 8) == FAR
    for kind in (9, 41, 42):  # through a slot
        made = image(loader, X86_64, kind, "far", -4)
        assert made.read(made.location + 4 + signed(made.word, 32), 8) == FAR
    made = image(loader, X86_64, 1, "data", 5)
    assert made.read(made.location, 8) == data_of(made) + 5
    made = image(loader, X86_64, 24, "data", 5)
    assert (made.location + made.read(made.location, 8)) % 2**64 == data_of(made) + 5
    assert image(loader, X86_64, 10, "number", number=2**32 - 1).word == 2**32 - 1
    assert image(loader, X86_64, 11, "number", number=-(2**31)).word == 2**31
    assert "too far" in refusal(loader, X86_64, 10, "number", number=-1)
    assert "too far" in refusal(loader, X86_64, 11, "number", number=2**31)


# ---- what is refused -----------------------------------------------------------------------------------------------

WRONG = {  # relocation types that the other machine has, or that need what is not there
    AARCH64: (1, 11, 270, 313, 400, 512, 1024, 2**32 - 1),
    X86_64: (3, 5, 18, 37, 257, 283, 2**32 - 1),
}


@pytest.mark.parametrize("machine", [AARCH64, X86_64])
def test_refusals(loaders: dict[int, Loader], machine: int) -> None:
    loader, good = loaders[machine], {AARCH64: 257, X86_64: 1}[machine]
    for kind in WRONG[machine]:
        assert f"type {kind} is not supported" in refusal(loader, machine, kind, "data")
    for offset in (57, 63, 64, 2**40, 2**64 - 8, 2**64 - 1):
        assert "beyond the end" in refusal(loader, machine, good, "data", offset=offset)
    assert isinstance(loader([an_object(machine, good, "data", offset=56)])[0], Image)
    for other in {AARCH64, X86_64} - {machine}:
        assert "not a relocatable" in refusal(loader, other, good, "data")
    named = bytearray(an_object(machine, good, "data"))
    at = bytes(named).index(struct.pack("<QQ", FIELD, SYMBOLS.index("data") << 32 | good))
    struct.pack_into("<Q", named, at + 8, len(SYMBOLS) << 32 | good)
    (told,) = loader([bytes(named)])
    assert told == "a relocation names symbol 5 of 5"


@pytest.mark.sanitized
@pytest.mark.parametrize("machine", [AARCH64, X86_64])
def test_damage_is_refused_or_harmless(loaders: dict[int, Loader], machine: int) -> None:
    """The sanitizers stop the loader where it reads or writes what it should not."""
    rng = random.Random(machine)
    kinds = {AARCH64: (257, 269, 275, 283, 299, 311), X86_64: (1, 4, 9, 27)}[machine]
    made = []
    for trial in range(600):
        code = bytearray(an_object(machine, kinds[trial % len(kinds)], rng.choice(SYMBOLS[1:])))
        headers = [rng.randrange(64), rng.randrange(len(code) - 64 * 6, len(code)), rng.randrange(64 + 128, len(code))]
        for _ in range(rng.randrange(1, 4)):
            at = rng.choice(headers)
            code[at] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
        made.append(bytes(code[: rng.choice([len(code), len(code), rng.randrange(len(code))])]))
    told = loaders[machine](made)
    assert any(isinstance(one, str) for one in told)
