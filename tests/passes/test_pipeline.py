"""Reading pipelines: what is wrong with one is said at once."""

from __future__ import annotations

import logging

import pytest

from burn.codegen.pipeline import Pipeline, Point, with_precision, within_budget
from burn.codegen.pipeline import pipeline as default
from burn.dialect.text import parse_text
from burn.errors import BurnError, CompileError
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


CHAIN = """func.func @main(%x: tensor<?x7xf32, ["n", "7"]>) -> tensor<?x7xf32, ["n", "7"]> {
  %0 = "burn.neg"(%x) : (tensor<?x7xf32, ["n", "7"]>) -> tensor<?x7xf32, ["n", "7"]>
  %1 = "burn.neg"(%0) : (tensor<?x7xf32, ["n", "7"]>) -> tensor<?x7xf32, ["n", "7"]>
  %2 = "burn.exp"(%1) : (tensor<?x7xf32, ["n", "7"]>) -> tensor<?x7xf32, ["n", "7"]>
  "burn.return"(%2) : (tensor<?x7xf32, ["n", "7"]>) -> ()
}"""


def test_runs_are_observed() -> None:
    ran: list[pipeline.Ran] = []
    pipeline.run(pipeline.parse("simplify,simplify,fuse"), parse_text(CHAIN), observe=ran.append)
    assert [(each.name, each.ops_before, each.ops_after) for each in ran] == [
        ("simplify", 4, 2),
        ("simplify", 2, 2),
        ("fuse", 2, 4),  # a group and its yield
    ]
    assert ran[0].counts == {"rounds": 2, "laws applied": 1, pipeline.LIMIT: 0}
    assert ran[1].counts["laws applied"] == 0 and all(each.seconds >= 0 for each in ran)


def test_simplify_says_when_it_stops_at_its_limit(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "burn.passes"):
        pipeline.run(pipeline.parse("simplify{rounds=1}"), parse_text(CHAIN))
        pipeline.run(pipeline.parse("simplify"), parse_text(CHAIN))
    assert [record.getMessage() for record in caplog.records] == ["the pass 'simplify' stopped at its limit"]


def test_pipelines_have_extension_points() -> None:
    passes = default("pack")
    assert str(passes).endswith(
        "simplify,loop_sums,crop_taps,gradient_taps,channels_first,layout,simplify,pack,@layout,fold,rematerialise,@memory,fuse,release,donate"
    )
    lower = with_precision(within_budget(passes, "memory=64"), "bfloat16")
    assert (
        "recognise,decompose{only=batch_norm+lstm+gru+rnn},simplify,precision{to=bfloat16},@precision,integers"
        in str(lower)
    )
    assert "rematerialise,recompute{memory=64},@memory,fuse" in str(lower) and "@" not in lower.text
    assert pipeline.parse(lower.text)
    assert Pipeline.of(str(lower)) == lower and Point.LAYOUT in Pipeline.of("fuse,@layout").entries
    with pytest.raises(CompileError, match="no extension point 'precision'"):
        with_precision(Pipeline.of("decompose,fuse"), "bfloat16")
