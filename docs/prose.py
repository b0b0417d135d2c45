"""Checks the language of pages, docstrings and comments against CONTRIBUTING.md, section "Words and sentences".

    python docs/prose.py                 # every finding of all tracked files
    python docs/prose.py FILE ...        # of these files
    python docs/prose.py --rules         # also counts the findings by rule

A finding is a private word (in prose, in a name or in a message), an opener ("What ...", "Whether ..."), a clause left out ("...,
too."), or a passive chain. Sentences of more than 30 words also count. No file may have a finding.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("burn", "docs", "examples", "benchmarks", "release", "tests")
GENERATED = ("docs/reference/", "docs/dev/status.md", "docs/dev/architectures.md", "tests/exporters/python/golden/")
LONGEST = 30  # words of a sentence

OPENER = re.compile(r"(What|Whether)\b(?! (is|are|does|do|to|if)\b[^.]*\?)")
LEFT_OUT = re.compile(r"(,? too|,? as well|,? likewise|,? and the others)$")
PASSIVE = re.compile(r"\b(?:is|are|was|were|be|been|being) (?:\w+ly )?\w+(?:ed|en|wn|ought|uilt|ade|ut)\b")
PASSIVES = 3  # that make a chain
SENTENCE = re.compile(
    r"(?<=[.!?:])\s+(?=[A-Z`\"(])|\n\s*\n|\n\s*(?=[-*|] )|\n\s*(?=\d+\. )|(?<=[.;])\s+(?=\w+(?:, \w+)*: )"
)
SHAPES = re.compile(r"\b\w+\[[^]]*\]|\[[^]]*\]|\([^()]*[-+*/=][^()]*\)|\S+ = [^.;]*")  # do not count as words
C_COMMENT = re.compile(r"/\*(.*?)\*/|//([^\n]*)", re.DOTALL)
C_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
C_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')
NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
USUAL_NAMES = {
    "burn/dialect/dims/expression.py": {"product"},  # of sizes
    "burn/importers/jax/ops/linalg.py": {"householder_product", "symmetric_product"},  # JAX's primitives
    "burn/optim/schedule.py": {"product"},  # of schedules
    "burn/runtime/native/elf.c": {"place", "FROM_PLACE"},  # ELF's term for the address of a relocated field
    "burn/runtime/native/elf_aarch64.c": {"FROM_PLACE"},
    "burn/runtime/native/elf_machine.h": {"FROM_PLACE"},
    "burn/runtime/native/elf_x86_64.c": {"FROM_PLACE"},
}
"""Names that are the field's terms in their file."""
COMMENT = re.compile(
    r"""#([^\n]*)|\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""",
    re.DOTALL,
)
"""A comment of Python, or a string, as that may hold a `#`. The module `tokenize` takes 50 times as long."""
PRAGMA = re.compile(r"(type:|noqa|pyright:|pyrefly:|fmt:|ruff)")
FENCE = re.compile(r"^```.*?^```|^    .*?$|^\|.*?$|^#.*?$|<[^>]+>", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {' '.join(self.text.split())[:150]}"


@dataclass(frozen=True)
class Word:
    """Private words as one regular expression, usual English that holds them as another, and the field's terms."""

    pattern: re.Pattern[str]
    usual: re.Pattern[str]
    names: frozenset[str]
    terms: str

    def found(self, sentence: str) -> bool:
        return bool(self.pattern.search(sentence) and self.pattern.search(self.usual.sub("_", sentence)))


def words(page: str) -> list[Word]:
    """The table of CONTRIBUTING.md: `| not | but |`, the left column words and phrases between commas. "(but: ...)" lists
    usual English that contains them."""
    found: list[Word] = []
    for left, right in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", _section(page), re.MULTILINE):
        if left.strip() in ("not", "---"):
            continue
        private, _, usual = left.strip(" )").partition("(but: ")
        single = {phrase.strip() for phrase in private.split(",") if " " not in phrase.strip()}
        names = frozenset(single | {f"{word}s" for word in single})
        found.append(Word(_any(private), _any(usual), names, right.strip()))
    return found


def _any(phrases: str) -> re.Pattern[str]:
    """Any of the phrases between commas, single words also in the plural; nothing for an empty list."""
    each = [phrase.strip() for phrase in phrases.split(",") if phrase.strip()]
    return re.compile(
        "|".join(rf"\b{re.escape(e)}{'' if ' ' in e else 's?'}\b" for e in each) or r"(?!)", re.IGNORECASE
    )


def _section(page: str) -> str:
    return page.partition("## Words and sentences")[2].partition("\n## ")[0]


def passages(path: str, text: str, nodes: Iterable[ast.AST] | None = None) -> Iterator[tuple[int, str]]:
    """(line, prose) of a file: the paragraphs of a page, comments, and the docstrings of Python. `nodes` are those of the code,
    if it is parsed already."""
    if path.endswith(".md"):
        prose = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
        line = 1
        for paragraph in re.split(r"(\n\s*\n)", prose):
            if paragraph.strip():
                yield line, paragraph
            line += paragraph.count("\n")
    elif path.endswith("Makefile"):
        yield from _comments(text)
    elif path.endswith((".py", ".pyi")):
        yield from _docstrings(ast.walk(ast.parse(text)) if nodes is None else nodes)
        yield from _comments(text)
    else:
        for match in C_COMMENT.finditer(text):
            comment = re.sub(r"\n *\* {4,}\S[^\n]*", "\n", match[1] or match[2] or "")
            yield text.count("\n", 0, match.start()) + 1, re.sub(r"\n\s*\*? ?", "\n", comment)


def _docstrings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str(doc))):
                yield node.lineno, re.sub(r"^    .*$", "", _dedented(doc, node.col_offset), flags=re.MULTILINE)


def _dedented(doc: str, margin: int) -> str:
    first, *rest = doc.expandtabs().split("\n")
    return "\n".join([first, *(line[margin:] if line[:margin].isspace() else line for line in rest)])


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments. Those of consecutive lines are one, unless code precedes them."""
    start, parts, last = 0, list[str](), -1
    line, counted = 1, 0
    for match in COMMENT.finditer(text):
        if match[1] is None:
            continue
        line, counted = line + text.count("\n", counted, match.start()), match.start()
        words_of_it = match[1].lstrip("#!: ")
        if PRAGMA.match(words_of_it):
            continue
        alone = not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if parts and (line != last + 1 or not alone):
            yield start, "\n".join(parts)
            parts = []
        if not parts:
            start = line
        parts.append(words_of_it)
        last = line if alone else -1
    if parts:
        yield start, "\n".join(parts)


def check(path: str, text: str, banned: list[Word]) -> Iterator[Finding]:
    """The findings of a file. Quoted code (between backticks) is not looked at."""
    nodes = list(ast.walk(ast.parse(text))) if path.endswith((".py", ".pyi")) else []
    if nodes:
        yield from identifiers(path, defined_names(nodes), banned)
        yield from messages(path, nodes, banned)
    elif path.endswith((".c", ".h", ".cpp")):
        yield from identifiers(path, c_names(text), banned)
    for line, passage in passages(path, text, nodes):
        prose = re.sub(r"`[^`]*`", "`_`", passage)
        offset = 0
        for sentence in SENTENCE.split(prose):
            at = line + prose.count("\n", 0, max(prose.find(sentence, offset), 0))
            offset = max(prose.find(sentence, offset), offset)
            for rule in rules(" ".join(sentence.split()), banned):
                yield Finding(path, at, rule, sentence)


def identifiers(path: str, names: Iterable[tuple[str, int]], banned: list[Word]) -> Iterator[Finding]:
    """Private words in the names that code defines, given with their lines, and in its file's name."""
    for name, line in dict([(Path(path).stem, 1), *names]).items():
        parts = [part.lower() for part in NAME_PARTS.findall(name)]
        if name in USUAL_NAMES.get(path, ()):
            continue
        for word in banned:
            if word.names.intersection(parts) and word.found(" ".join(parts)):
                yield Finding(path, line, f"private name ({word.terms})", name)


def defined_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """(name, line) of the functions, classes, parameters, variables and attributes that Python code defines."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def c_names(text: str) -> Iterator[tuple[str, int]]:
    """(name, line) of all names of C or C++ code, without comments and strings."""
    blank = re.compile(f"{C_COMMENT.pattern}|{C_TEXT.pattern}", re.DOTALL)
    code = blank.sub(lambda match: "\n" * match[0].count("\n"), text)
    for number, line in enumerate(code.splitlines(), 1):
        for match in C_NAME.finditer(line):
            yield match[0], number


def messages(path: str, nodes: Iterable[ast.AST], banned: list[Word]) -> Iterator[Finding]:
    """Private words in the texts of raised errors: calls of `fail`, of `Problem`, and of exceptions in `raise`."""
    for node in nodes:
        match node:
            case ast.Raise(exc=ast.Call() as call):
                pass
            case ast.Call(func=ast.Name(id="Problem" | "fail") | ast.Attribute(attr="fail" | "refuse")) as call:
                pass
            case _:
                continue
        for part in ast.walk(call):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value.strip():
                for word in banned:
                    if word.found(re.sub(r"`[^`]*`|'[^']*'", "_", part.value)):
                        yield Finding(path, part.lineno, f"private word in a message ({word.terms})", part.value)


def rules(sentence: str, banned: list[Word]) -> Iterator[str]:
    """The rules that a sentence breaks."""
    plain = sentence.rstrip(".:;!? ")
    if OPENER.match(sentence.lstrip("-*# ")):
        yield "opener"
    if LEFT_OUT.search(plain):
        yield "left out"
    if len(PASSIVE.findall(sentence)) >= PASSIVES:
        yield "passive chain"
    if len(re.findall(r"[A-Za-z_`'][\w`'.-]*", SHAPES.sub("", sentence))) > LONGEST:
        yield "long sentence"
    for word in banned:
        if word.found(sentence):
            yield f"private word ({word.terms})"


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    suffixes = (".md", ".py", "_native.pyi", ".c", ".h", ".cpp", ".js", "Makefile")
    return [
        path
        for path in listed
        if path.endswith(suffixes)
        and (path.startswith(FOLDERS) or "/" not in path)
        and not path.startswith(GENERATED)
        and path != "CHANGELOG.md"
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--rules", action="store_true", help="count the findings by rule")
    options = parser.parse_args()
    banned = words((ROOT / "CONTRIBUTING.md").read_text())
    kinds: Counter[str] = Counter()
    for path in options.files or tracked():
        if not (ROOT / path).is_file():
            continue
        found = list(check(path, (ROOT / path).read_text(), banned))
        kinds.update(finding.rule for finding in found)
        for finding in found:
            print(finding)
    if options.rules:
        print(*(f"{count:6} {rule}" for rule, count in kinds.most_common()), sep="\n")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
