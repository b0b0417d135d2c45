"""Reading pipelines: what is wrong with one is said at once."""

from __future__ import annotations

import pytest

from burn.errors import BurnError
from burn.passes import pipeline
from burn.passes.fold import Fold
from burn.passes.fuse import Fuse
from burn.passes.simplify import Simplify


def test_names_and_options() -> None:
    passes = pipeline.parse(" simplify{absorb=false rounds=3}, fold , fuse{max-ops=64}")
    assert passes == [Simplify(absorb=False, rounds=3), Fold(), Fuse(max_ops=64)]


def test_nothing() -> None:
    assert pipeline.parse("") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("simplfy", "there is no pass 'simplfy'"),
        ("fuse{max=3}", "pass 'fuse' has no option 'max' (options: max-ops)"),
        ("fuse{max-ops=many}", "must be of type int, not 'many'"),
        ("simplify{absorb=maybe}", "must be of type bool, not 'maybe'"),
        ("fuse{max-ops=3", "cannot read"),
        ("simplify fuse", "cannot read"),
        ("simplify,,fuse", "cannot read"),
        ("simplify,", "cannot read"),
        ("verify{x=1}", "pass 'verify' has no option 'x' (it has none)"),
    ],
)
def test_malformed(text: str, words: str) -> None:
    with pytest.raises(BurnError, match="cannot read the pipeline") as error:
        pipeline.parse(text)
    assert words in str(error.value)


def test_all_problems_at_once() -> None:
    with pytest.raises(BurnError) as error:
        pipeline.parse("nope,fuse{a=1 max-ops=x},neither")
    assert len(error.value.problems) == 4
