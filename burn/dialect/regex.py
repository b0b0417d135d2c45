"""Compiles regular expressions for `string_match` and `string_tokens`. The syntax is RE2's, so nothing needs
backtracking. Enter at `compile`.

A program is a nondeterministic automaton in rows of three numbers, which lib_text.c runs. A text matches if the state
MATCH is reached at its end; greediness makes no difference. RE2 features that are not supported (Unicode classes by
name) are refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MATCH, RANGE, SPLIT, JUMP, ASSERT, CLASS, ANTICLASS = range(7)
TEXT_START, TEXT_END, LINE_START, LINE_END, WORD_EDGE, NO_WORD_EDGE = range(6)

MAX_REPEATS = 1000
"""RE2's own limit."""

MAX_SIZE = 1 << 18
MAX_DEPTH = 200
LAST = 0x10FFFF

Code = list[tuple[int, int, int]]
"""Instructions; the targets of SPLIT and JUMP are relative."""
Ranges = list[tuple[int, int]]


class BadPattern(Exception):
    """An expression that is malformed, or uses an unsupported feature."""


DIGIT: Ranges = [(0x30, 0x39)]
WORD: Ranges = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
SPACE: Ranges = [(9, 10), (12, 13), (32, 32)]
PERL = {"d": DIGIT, "w": WORD, "s": SPACE}
ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
EDGES = {"A": TEXT_START, "z": TEXT_END, "b": WORD_EDGE, "B": NO_WORD_EDGE}
NAMED: dict[str, Ranges] = {
    "alnum": [(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)], "alpha": [(0x41, 0x5A), (0x61, 0x7A)], "ascii": [(0, 0x7F)],
    "blank": [(9, 9), (32, 32)], "cntrl": [(0, 0x1F), (0x7F, 0x7F)], "digit": DIGIT, "graph": [(0x21, 0x7E)],
    "lower": [(0x61, 0x7A)], "print": [(0x20, 0x7E)], "punct": [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
    "space": [(9, 13), (32, 32)], "upper": [(0x41, 0x5A)], "word": WORD, "xdigit": [(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)],
}  # fmt: skip


def compile(pattern: str) -> np.ndarray:
    """The program of a pattern: int64[n, 3]. Raises BadPattern."""
    code = _Parser(pattern).whole()
    rows = [
        (op, a + i, b + i) if op == SPLIT else (op, a + i, b) if op == JUMP else (op, a, b)
        for i, (op, a, b) in enumerate(code)
    ]
    return np.array(rows, np.int64)


# ---- code ------------------------------------------------------------------------------------------------------------
def _either(a: Code, b: Code) -> Code:
    return [(SPLIT, 1, len(a) + 2), *a, (JUMP, len(b) + 1, 0), *b]


def _optional(a: Code) -> Code:
    return [(SPLIT, 1, len(a) + 1), *a]


def _many(a: Code) -> Code:
    return [(SPLIT, 1, len(a) + 2), *a, (JUMP, -len(a) - 1, 0)]


def _repeated(a: Code, least: int, most: int | None) -> Code:
    size = len(a) * max(least, most or 0, 1) + 2 * (most or 1)
    if size > MAX_SIZE:
        raise BadPattern(f"it takes more than {MAX_SIZE} states")
    code = a * least
    if most is None:
        return code + _many(a)
    rest: Code = []
    for _ in range(most - least):
        rest = _optional(a + rest)
    return code + rest


def _of_class(ranges: Ranges, negated: bool) -> Code:
    if not negated and len(ranges) == 1:
        return [(RANGE, *ranges[0])]
    return [(ANTICLASS if negated else CLASS, len(ranges), 0), *((0, low, high) for low, high in ranges)]


def _inverse(ranges: Ranges) -> Ranges:
    result, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            result.append((start, low - 1))
        start = max(start, high + 1)
    return [*result, (start, LAST)] if start <= LAST else result


def _any_case(ranges: Ranges) -> Ranges:
    """The ranges with the other case of every letter in them."""
    letters = {c for low, high in ranges for c in range(low, min(high, 0x1FFFF) + 1)}
    other = {ord(v) for c in letters for v in (chr(c).lower(), chr(c).upper()) if len(v) == 1} - letters
    return [*ranges, *((c, c) for c in sorted(other))]


# ---- syntax ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Flags:
    i: bool = False  # letters match in either case
    m: bool = False  # ^ and $ match at line ends
    s: bool = False  # . matches a newline
    U: bool = False  # not greedy, which makes no difference here


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.depth = pattern, 0, 0
        self.flags = _Flags()

    def fail(self, reason: str) -> BadPattern:
        return BadPattern(f"{reason} (at character {self.at + 1})")

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def take(self, text: str) -> bool:
        found = self.peek(text)
        self.at += len(text) * found
        return found

    def next(self) -> str:
        if self.at >= len(self.pattern):
            raise self.fail("it ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def whole(self) -> Code:
        code = self.alternatives()
        if self.at < len(self.pattern):
            raise self.fail("a ) closes nothing")
        if len(code) >= MAX_SIZE:
            raise BadPattern(f"it takes more than {MAX_SIZE} states")
        return [*code, (MATCH, 0, 0)]

    def alternatives(self) -> Code:
        before, self.depth = self.flags, self.depth + 1
        if self.depth > MAX_DEPTH:
            raise self.fail(f"groups are nested more than {MAX_DEPTH} deep")
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        code = branches.pop()
        while branches:
            code = _either(branches.pop(), code)
        self.flags, self.depth = before, self.depth - 1
        return code

    def sequence(self) -> Code:
        code: Code = []
        while self.at < len(self.pattern) and not (self.peek("|") or self.peek(")")):
            code += self.repeated()
        return code

    def repeated(self) -> Code:
        code, times = self.atom(), 0
        while (bounds := self.bounds()) is not None:
            times += 1
            self.take("?")
            if times > 1:
                raise self.fail("a repetition of a repetition needs parentheses")
            code = _repeated(code, *bounds) if code else code
        return code

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, found in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return found
        if not self.peek("{"):
            return None
        body, closed, _ = self.pattern[self.at + 1 :].partition("}")
        low, comma, high = body.partition(",")
        if not closed or not (low.isascii() and low.isdigit()) or (high and not (high.isascii() and high.isdigit())):
            return None  # a literal brace
        least, most = int(low), int(high) if high else None if comma else int(low)
        if least > MAX_REPEATS or (most is not None and not least <= most <= MAX_REPEATS):
            raise self.fail(f"{{{body}}} is not a number of repetitions up to {MAX_REPEATS}")
        self.at += len(body) + 2
        return least, most

    def atom(self) -> Code:
        char = self.next()
        if char == "(":
            return self.group()
        if char == "[":
            return self.char_class()
        if char == ".":
            return [(RANGE, 0, LAST)] if self.flags.s else _of_class([(10, 10)], True)
        if char in "^$":
            edges = (LINE_START, LINE_END) if self.flags.m else (TEXT_START, TEXT_END)
            return [(ASSERT, edges[char == "$"], 0)]
        if char in "*+?":
            self.at -= 1
            raise self.fail(f"{char} repeats nothing")
        if char == "\\":
            return self.escape()
        return self.literal(ord(char))

    def literal(self, point: int) -> Code:
        ranges = [(point, point)]
        return _of_class(_any_case(ranges) if self.flags.i else ranges, False)

    def group(self) -> Code:
        if self.take("?"):
            if self.take("P<") or (self.peek("<") and not self.peek("<=") and not self.peek("<!") and self.take("<")):
                name = self.pattern[self.at :].partition(">")[0]
                if not name.isidentifier():
                    raise self.fail(f"'{name}' is not a group's name")
                self.at += len(name) + 1
            elif any(map(self.peek, ("=", "!", "<=", "<!", "P=", "P>", "#", ">", "("))):
                raise self.fail(
                    "looking ahead or behind, references and conditions are not regular; RE2 has none either"
                )
            else:
                return self.flagged()
        return self.closed(self.alternatives())

    def closed(self, code: Code) -> Code:
        if not self.take(")"):
            raise self.fail("a group is not closed")
        return code

    def flagged(self) -> Code:
        """Flags after `(?`: for this group if a colon follows, otherwise for the rest of the enclosing one."""
        new, value = dict(vars(self.flags)), True
        while (char := self.next()) not in ":)":
            if char == "-" and value:
                value = False
            elif char in new:
                new[char] = value
            else:
                raise self.fail(f"there is no flag {char}")
        outer, self.flags = self.flags, _Flags(**new)
        if char == ")":
            return []
        code = self.closed(self.alternatives())
        self.flags = outer
        return code

    def escape(self) -> Code:
        char = self.next()
        if char in EDGES:
            return [(ASSERT, EDGES[char], 0)]
        if char == "Q":
            text, closed, _ = self.pattern[self.at :].partition("\\E")
            self.at += len(text) + 2 * bool(closed)
            return [step for c in text for step in self.literal(ord(c))]
        if char.lower() in PERL:
            return _of_class(PERL[char.lower()], char.isupper())
        if char == "C":
            raise self.fail("\\C, a single byte, is not supported")
        return self.literal(self.escaped_point(char))

    def escaped_point(self, char: str) -> int:
        """The character that a backslash and `char` stand for."""
        if char in ESCAPES:
            return ESCAPES[char]
        if char == "x":
            digits = (
                self.pattern[self.at :].partition("}")[0][1:] if self.peek("{") else self.pattern[self.at : self.at + 2]
            )
            self.at += len(digits) + 2 * self.peek("{")
            if not digits or any(d not in "0123456789abcdefABCDEF" for d in digits) or int(digits, 16) > LAST:
                raise self.fail(f"\\x{digits} is not a character")
            return int(digits, 16)
        if char == "0" or (char in "1234567" and self.at < len(self.pattern) and self.pattern[self.at] in "01234567"):
            digits = char
            while len(digits) < 3 and self.at < len(self.pattern) and self.pattern[self.at] in "01234567":
                digits += self.next()
            return int(digits, 8)
        if char in "pP":
            raise self.fail(f"Unicode classes by name (\\{char}) are not supported")
        if char.isascii() and char.isalnum():
            raise self.fail(f"there is no escape \\{char}" + ("; references are not regular" if char.isdigit() else ""))
        return ord(char)

    def char_class(self) -> Code:
        negated, ranges, first = self.take("^"), [], True
        while first or not self.peek("]"):
            first = False
            ranges += self.class_item()
        self.at += 1
        return _of_class(_any_case(ranges) if self.flags.i else ranges, negated)

    def class_item(self) -> Ranges:
        if self.take("[:"):
            name, closed, _ = self.pattern[self.at :].partition(":]")
            found = NAMED.get(name.removeprefix("^"))
            if not closed or found is None:
                raise self.fail(f"there is no class [:{name[:20]}:]")
            self.at += len(name) + 2
            return _inverse(found) if name.startswith("^") else found
        char = self.next()
        if char == "\\":
            char = self.next()
            if char.lower() in PERL:
                return _inverse(PERL[char.lower()]) if char.isupper() else PERL[char.lower()]
            low = self.escaped_point(char)
        else:
            low = ord(char)
        if not self.peek("-") or self.pattern[self.at + 1 : self.at + 2] in ("]", ""):
            return [(low, low)]
        self.at += 1
        char = self.next()
        high = self.escaped_point(self.next()) if char == "\\" else ord(char)
        if high < low:
            raise self.fail(f"the range {chr(low)}-{chr(high)} is empty")
        return [(low, high)]
