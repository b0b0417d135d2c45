"""Spoiled StableHLO: whatever the bytes, a program is imported, or refused with one BurnError; no traceback, no crash.

`python -m tests.importers.stablehlo.spoiled 1000 --seed 3 [--bytecode]` prints what fails.
"""

from __future__ import annotations

import argparse
import random
import re
import traceback
from collections import Counter
from collections.abc import Callable, Sequence

from burn.errors import BurnError
from burn.importers.stablehlo import parsing
from burn.importers.stablehlo.build import import_stablehlo
from burn.importers.stablehlo.syntax.reader import read_module
from tests.importers.stablehlo.sweep import draw, module

NUMBERS = (
    "0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "65536",
    "2147483647",
    "4294967296",
    "9223372036854775807",
    "99999999999999999999",
    "1e400",
)
ELEMENTS = ("f32", "f64", "bf16", "i1", "i8", "i32", "i64", "ui32", "complex<f32>", "f8E4M3FN", "i4", "index", "f16")
_NUMBER = re.compile(r"-?\d+")
_ELEMENT = re.compile(r"(?<=x|<)(?:bf16|f16|f32|f64|u?i\d+|complex<f\d+>)(?=>)")
_OP = re.compile(r'"(?:stablehlo|chlo)\.\w+"')
_VALUE = re.compile(r"%\w+")
_WORD = re.compile(r"\b[A-Z][A-Z_]+\b")


def sources(count: int = 40) -> list[str]:
    """Texts of a few drawn ops each."""
    cases = draw(5, 3 * count)
    return [module(cases[3 * i : 3 * i + 3])[0] for i in range(count)]


def _exchanged(
    pattern: re.Pattern[str], choices: Callable[[str], Sequence[str]]
) -> Callable[[str, random.Random], str]:
    def change(text: str, rng: random.Random) -> str:
        found = list(pattern.finditer(text))
        if not found:
            return text
        at = rng.choice(found)
        return text[: at.start()] + rng.choice(choices(text)) + text[at.end() :]

    return change


def _lines(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(3)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, rng.choice(lines))
    else:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def _bytes(text: str, rng: random.Random) -> str:
    at, size = rng.randrange(len(text)), rng.randrange(1, 12)
    kind = rng.randrange(3)
    noise = "".join(rng.choice('<>(){}[]"#%!@^:,=x0\\\n\t\u00e9') for _ in range(size))
    return text[:at] + ("" if kind == 0 else noise if kind == 1 else text[at : at + size] * 2) + text[at + size :]


CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    _exchanged(_NUMBER, lambda text: NUMBERS),
    _exchanged(_ELEMENT, lambda text: ELEMENTS),
    _exchanged(_OP, lambda text: _OP.findall(text) or ['"stablehlo.add"']),
    _exchanged(_VALUE, lambda text: _VALUE.findall(text)),
    _exchanged(_WORD, lambda text: _WORD.findall(text)),
    _lines,
    _bytes,
)


def spoil(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 2, 3))):
        text = rng.choice(CHANGES)(text, rng)
    return text


def outcome(read: Callable[[], object]) -> tuple[str, str]:
    """("ok" or "refused", ..), or what failed."""
    try:
        read()
    except BurnError as error:
        text = str(error)
        return ("internal" if "could not be imported: " in text or "signal" in text else "refused"), text
    except Exception:
        return "exception", traceback.format_exc()
    return "ok", ""


def text_case(texts: Sequence[str], seed: int) -> tuple[str, str]:
    """A changed text, imported."""
    rng = random.Random(seed)
    text = spoil(rng.choice(texts), rng)
    return outcome(lambda: import_stablehlo(text.encode()))


def generic_case(forms: Sequence[str], seed: int) -> tuple[str, str]:
    """A changed generic form, read: no parser has looked at it."""
    rng = random.Random(seed)
    text = spoil(rng.choice(forms), rng)
    return outcome(lambda: read_module(text))


def bytecode_case(programs: Sequence[bytes], seed: int) -> tuple[str, str]:
    """Changed bytecode, imported. The parser may end with a signal, as it runs in a process of its own."""
    rng = random.Random(seed)
    data = bytearray(rng.choice(programs))
    for _ in range(rng.choice((1, 2, 8))):
        at = rng.randrange(8, len(data))
        kind = rng.randrange(3)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        else:
            del data[at : at + rng.randrange(1, 9)]
    kind, said = outcome(lambda: import_stablehlo(bytes(data)))
    return ("refused" if "ended with signal" in said else kind), said


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bytecode", action="store_true")
    arguments = parser.parse_args()
    texts = sources()
    counts: Counter[str] = Counter()
    if arguments.bytecode:
        from tests.importers.stablehlo.reference import bytecode

        programs = [bytecode(text) for text in texts if "chlo." not in text][:10]
        runs = [lambda seed: bytecode_case(programs, seed)]
    else:
        parsing._has_jaxlib = lambda: False
        forms = [form for text in texts[:20] for form in [generic(text)] if form]
        runs = [lambda seed: text_case(texts, seed), lambda seed: generic_case(forms, seed)]
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        for run in runs:
            kind, said = run(seed)
            counts[kind] += 1
            if kind not in ("ok", "refused"):
                print(f"seed {seed}: {kind}: {said[-1500:]}", flush=True)
    print(dict(counts))


def generic(text: str) -> str:
    with parsing.as_file(text.encode()) as path:
        return parsing.generic_form(path, "text").text


if __name__ == "__main__":
    main()
