"""The check of language finds planted sentences and names, and passes plain ones."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", ROOT / "docs" / "prose.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prose"] = module
    spec.loader.exec_module(module)
    return module


PLANTED = {
    "What of the kernels a GPU runs.": "opener",
    "Whether a kernel is fused.": "opener",
    "The gradient is computed, too.": "left out",
    "The result is stored and the input is freed and the shape is checked.": "passive chain",
    " ".join(["A sentence goes on"] + ["and on"] * 20) + ".": "long sentence",
    "The cards are fast.": "private word (GPU, or device in general)",
    "Each place gets its value.": "private word (index, element, position; program id on a GPU)",
    "It reads the product.": "private word (matmul (the op), contraction, multiplication)",
}


@pytest.mark.parametrize("sentence", PLANTED)
def test_planted_sentences_are_found(prose: ModuleType, sentence: str) -> None:
    banned = prose.words((ROOT / "CONTRIBUTING.md").read_text())
    assert PLANTED[sentence] in list(prose.rules(sentence, banned))


@pytest.mark.parametrize(
    "sentence",
    [
        "Returns the gradient of the loss.",
        "The update happens in place, and the inner product of two vectors follows.",
        "What is a named size?",
    ],
)
def test_plain_sentences_pass(prose: ModuleType, sentence: str) -> None:
    assert list(prose.rules(sentence, prose.words((ROOT / "CONTRIBUTING.md").read_text()))) == []


def test_passages(prose: ModuleType) -> None:
    code = '"""Doc.\n\n    an example, not prose\n"""\nx = 1  # one\n# two\nis_card = 2\n'
    assert [text for _, text in prose.passages("a.py", code)] == ["Doc.\n\n\n", "one", "two"]
    assert list(prose.passages("Makefile", "# One\n# two.\nall: x\n\t$(BIN)/ruff check .\n")) == [(1, "One\ntwo.")]
    assert list(prose.passages("a.py", 'x = \'#\' """\n\'#""" # three\n')) == [(2, "three")]
    page = "# Title\n\nText.\n\n```python\nWhat\n```\n\n    What code\n\n| What | table |\n"
    assert [text.strip() for _, text in prose.passages("a.md", page)] == ["Text."]


def test_names(prose: ModuleType) -> None:
    banned = prose.words((ROOT / "CONTRIBUTING.md").read_text())
    code = "is_card = 2\nMOST_PLACES = 3\n"
    found = list(prose.identifiers("owed.py", prose.defined_names(ast.walk(ast.parse(code))), banned))
    assert [(f.line, f.text) for f in found] == [(1, "owed"), (1, "is_card"), (2, "MOST_PLACES")]
    native = '/* card */\nstruct CardArray *new_card(void); // card\nconst char *text = "a card";\n'
    assert [f.text for f in prose.identifiers("a.c", prose.c_names(native), banned)] == ["CardArray", "new_card"]
    assert list(prose.identifiers("burn/optim/schedule.py", [("product", 1)], banned)) == []


def test_messages(prose: ModuleType) -> None:
    banned = prose.words((ROOT / "CONTRIBUTING.md").read_text())
    code = 'raise TypeError("no card here")\nnode.fail(f"at place {i}")\nprint("a card")\nraise ValueError("no \'card\' here")\n'
    found = list(prose.messages("a.py", ast.walk(ast.parse(code)), banned))
    assert [(f.line, f.text) for f in found] == [(1, "no card here"), (2, "at place ")]


def test_pages_are_clean(prose: ModuleType) -> None:
    """Pages have no finding. `make lint` also reads the code."""
    banned = prose.words((ROOT / "CONTRIBUTING.md").read_text())
    pages = [path for path in prose.tracked() if path.endswith(".md")]
    assert [str(f) for path in pages for f in prose.check(path, (ROOT / path).read_text(), banned)] == []
