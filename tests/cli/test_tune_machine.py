"""`burn tune-machine`: what it writes, shows and removes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from burn.bench.machine import measure as measuring
from burn.cli.main import main
from burn.codegen.cpu import measured
from burn.codegen.cpu.backend import for_options
from burn.codegen.cpu.costs import FIELDS
from burn.codegen.cpu.measured import Measurement
from burn.codegen.cpu.target import Target, resolved
from burn.options import Options
from burn.runtime import machine_costs
from burn.runtime.host import processor


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["tune-machine", *map(str, arguments)])


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement that takes no time."""

    def measure(target: Target, seconds: float, **options: object) -> Measurement:
        values = {"grain": 40_000, "unroll": 8}
        kept = {name: "the times differ by 30%" for name in FIELDS if name not in values}
        return Measurement(processor(), target.name, 2, seconds, values, kept)

    monkeypatch.setattr(measuring, "measure", measure)


@pytest.mark.usefixtures("made_up", "own_cache")
def test_costs_are_measured_shown_and_removed() -> None:
    default = resolved(None).costs
    assert "40000" not in run("--show").output
    result = run("--seconds", 3)
    assert result.exit_code == 0 and "2 costs, in 3 s" in result.output
    costs = for_options(Options()).target.costs
    assert (costs.grain, costs.unroll, costs.chunk) == (40_000, 8, default.chunk)
    shown = run("--show").output
    assert all(text in shown for text in ("40000", "measured", "the times differ"))  # the rest may be on the next line
    assert run("--reset").output == "removed the measured costs\n"
    assert for_options(Options()).target.costs == default
    assert run("--reset").output == "no costs were measured here\n"


@pytest.mark.usefixtures("made_up")
def test_an_output_file_leaves_the_cache_alone(own_cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    assert run("--output", path).exit_code == 0
    assert measured.parse(path.read_bytes()).measured == {"grain": 40_000, "unroll": 8}
    assert machine_costs.content() is None and not (own_cache / machine_costs.FOLDER).exists()


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--show", "--reset"), "separate uses"),
        (("--target", "generic"), "the cache keeps the costs of this machine alone"),
        (("--target", "neno", "--output", "f"), "there is no CPU 'neno'"),
        (("--target", "rvv", "--output", "f"), "costs of rvv cannot be counted"),
        ((), "the cache is off"),
    ],
)
def test_errors(arguments: tuple[str, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 1 and text in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("own_cache")
def test_a_damaged_file_is_an_error_of_show() -> None:
    machine_costs.save({}).write_text("{")
    result = run("--show")
    assert result.exit_code == 1 and "the file of measured costs is damaged" in result.output


def test_this_machine_is_measured(tmp_path: Path) -> None:
    """In a second: what began in it is measured, or too noisy."""
    result = run("--seconds", 1, "--output", tmp_path / "costs.json")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "costs.json").read_text())
    assert found["target"] == resolved(None).name and found["processor"] == processor()
    assert set(found["measured"]) | set(found["kept"]) == set(FIELDS)
    assert "chains" in found["measured"] or "differ" in found["kept"]["chains"]
    assert "no time was left" in found["kept"].values()
