"""Weights into a module: names, filters, element types, and all or nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burn import nn
from burn.errors import ModelError
from burn.importers import weights
from burn.importers.weights.report import LoadError


class Net(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 4, transposed=True)


rng = np.random.default_rng(5)
STATE = {
    "first.weight": rng.standard_normal((4, 3), np.float32),
    "first.bias": rng.standard_normal(4, np.float32),
    "norm.weight": rng.standard_normal(4, np.float32),
    "norm.bias": rng.standard_normal(4, np.float32),
    "norm.running_mean": rng.standard_normal(4, np.float32),
    "norm.running_var": rng.random(4, np.float32),
    "last.weight": rng.standard_normal((4, 4), np.float32),
    "last.bias": rng.standard_normal(4, np.float32),
}


def unchanged(module: nn.Module, before: dict[str, np.ndarray]) -> bool:
    after = module.state_dict()
    return all(np.array_equal(after[name], array) for name, array in before.items())


def refused(module: nn.Module, *args: object, **kwargs: object) -> LoadError:
    """The error of a load, after a check that nothing was loaded."""
    before = {name: array.copy() for name, array in module.state_dict().items()}
    with pytest.raises(LoadError) as caught:
        module.load(*args, **kwargs)  # type: ignore[arg-type]
    assert unchanged(module, before)
    return caught.value


def test_a_state_dict_as_it_is() -> None:
    net = Net()
    report = net.load(STATE, adapter=None)
    assert report.complete and len(report.applied) == 8
    for name, array in STATE.items():
        np.testing.assert_array_equal(net.state_dict()[name], array)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    state = {**STATE, "first.weight": np.zeros((4, 5), np.float32), "first.bias": np.zeros(4), "extra.x": np.zeros(2)}
    del state["norm.bias"]
    error = refused(Net(), state, adapter=None)
    report = error.report
    assert [m.name for m in report.missing] == ["norm.bias"] and [u.name for u in report.unused] == ["extra.x"]
    assert {m.name: (m.expected, m.given) for m in report.mismatched} == {
        "first.weight": ("float32[4, 3]", "float32[4, 5]"),
        "first.bias": ("float32[4]", "float64[4]"),
    }
    assert len(error.problems) == 4 and not report.complete and not report.applied
    text = str(error)
    for part in ("'norm.bias' is missing", "float32[4, 5]", "'extra.x'", "dtype='cast'"):
        assert part in text


def test_partial_lets_go_of_what_is_missing_and_left_over_but_not_of_what_does_not_fit() -> None:
    state = {"first.weight": STATE["first.weight"], "extra": np.zeros(2)}
    net = Net()
    before = net.state_dict()["last.weight"].copy()
    report = net.load(state, partial=True, adapter=None)
    assert [a.name for a in report.applied] == ["first.weight"] and len(report.missing) == 7 and len(report.unused) == 1
    np.testing.assert_array_equal(net.state_dict()["last.weight"], before)
    np.testing.assert_array_equal(net.state_dict()["first.weight"], STATE["first.weight"])
    error = refused(Net(), {**state, "first.bias": np.zeros(5, np.float32)}, partial=True, adapter=None)
    assert len(error.problems) == 1 and "'first.bias' does not fit" in str(error)


def test_partial_with_nothing_that_fits_is_an_error() -> None:
    assert "none of these weights" in str(refused(Net(), {"other": np.zeros(2)}, partial=True))


def test_names_are_changed_in_order() -> None:
    state = {f"model.{name}".replace("first", "layers.0"): array for name, array in STATE.items()}
    net = Net()
    report = net.load(state, remap=[("^model\\.", ""), ("layers\\.(\\d)", "first"), ("^nothing$", "x")], adapter=None)
    assert report.complete and report.applied[0].sources == ("model.layers.0.weight",)
    assert "from model.layers.0.weight" in str(report)
    assert Net().load(state, remap={"^model\\.": "", "layers.0": "first"}, adapter=None).complete


def test_what_is_left_over_is_told_by_its_new_name_and_its_old_one() -> None:
    error = refused(Net(), {**STATE, "more.x": np.zeros(2)}, remap=[("more", "much")], adapter=None)
    assert "no parameter 'much.x' for its float64[2] (it is called 'more.x' in the file)" in str(error)
    (hint,) = refused(Net(), STATE, remap=[("^", "deep.")], adapter=None).report.hints
    assert "'deep.'" in hint


def test_names_that_fall_together_and_bad_patterns_are_refused() -> None:
    with pytest.raises(ModelError, match="would both be called"):
        Net().load(STATE, remap=[("bias|weight", "x")])
    with pytest.raises(ModelError, match="not a regular expression") as caught:
        Net().load(STATE, remap=[("(", ""), ("[", "")])
    assert len(caught.value.problems) == 2
    with pytest.raises(ModelError, match="is no replacement"):
        Net().load(STATE, remap=[("first", r"\7")])
    with pytest.raises(ModelError, match="cannot be filtered"):
        Net().load(STATE, include="(")


def test_a_common_prefix_is_hinted_at() -> None:
    longer = {f"module.{name}": array for name, array in STATE.items()}
    (hint,) = refused(Net(), longer).report.hints
    assert "'module.'" in hint
    remap = eval(hint.partition("remap=")[2])  # what the hint says works
    assert Net().load(longer, remap=remap, adapter=None).complete

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            self.net = Net()

    (hint,) = refused(Wrapped(), STATE).report.hints
    assert Wrapped().load(STATE, remap=eval(hint.partition("remap=")[2]), adapter=None).complete


def test_filters_leave_parameters_and_tensors_alone() -> None:
    state = {**STATE, "last.weight": np.zeros((9, 9)), "last.bias": np.zeros(9)}
    choices: tuple[dict[str, Any], ...] = (
        {"exclude": "^last\\."}, {"include": ["^first", "^norm"]}, {"exclude": lambda n: n[:4] == "last"},
    )  # fmt: skip
    for options in choices:
        net = Net()
        before = net.state_dict()["last.weight"].copy()
        report = net.load(state, adapter=None, **options)
        assert report.complete and len(report.applied) == 6
        assert {s.name for s in report.skipped} == {"last.weight", "last.bias"}
        np.testing.assert_array_equal(net.state_dict()["last.weight"], before)


def test_element_types_are_converted_when_asked() -> None:
    half = {name: array.astype(np.float16) for name, array in STATE.items()}
    assert "dtype='cast'" in str(refused(Net(), half, adapter=None))
    net = Net()
    report = net.load(half, dtype="cast", adapter=None)
    assert net.first.weight.dtype == "float32" and report.applied[0].how == "from float16"
    np.testing.assert_array_equal(net.state_dict()["first.bias"], half["first.bias"].astype(np.float32))
    net = Net()
    net.load(STATE, dtype={"^norm": None, "": "float16"}, adapter=None)
    assert net.first.weight.dtype == "float16" and net.norm.weight.dtype == "float32"
    np.testing.assert_array_equal(net.state_dict()["last.weight"], half["last.weight"])
    for wrong in ("int8", "double"):
        with pytest.raises(ModelError, match="not an element type"):
            Net().load(STATE, dtype=wrong)


def test_integers_are_never_converted() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            self.table = nn.Buffer(np.arange(3))

    error = refused(Table(), {"table": np.arange(3.0)}, dtype="cast")
    assert "it must be int64[3], not float64[3]" in str(error)


def test_shared_parameters() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.embedding = nn.Embedding(5, 3)
            self.head = nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight

    table = rng.standard_normal((5, 3), np.float32)
    for state in (
        {"embedding.weight": table},
        {"head.weight": table},
        {"embedding.weight": table, "head.weight": table.copy()},
    ):
        tied = Tied()
        assert tied.load(state).complete
        np.testing.assert_array_equal(tied.head.weight.array, table)
    assert "with which it is shared" in str(refused(Tied(), {"embedding.weight": table, "head.weight": table + 1}))


def test_a_square_matrix_that_may_be_either_way_round_is_not_guessed_at() -> None:
    assert "adapter='torch' takes it transposed" in str(refused(Net(), STATE))
    net = Net()
    net.load(STATE, adapter="torch")
    np.testing.assert_array_equal(net.state_dict()["last.weight"], STATE["last.weight"].T)
    net.load({**STATE, "first.weight": STATE["first.weight"].T}, adapter="burn")
    np.testing.assert_array_equal(net.state_dict()["last.weight"], STATE["last.weight"])
    np.testing.assert_array_equal(net.state_dict()["first.weight"], STATE["first.weight"])


@pytest.mark.parametrize("ending", [".safetensors", ".bpk", ".npz"])
def test_what_is_saved_is_loaded(ending: str, tmp_path: Path) -> None:
    net = Net()
    net.load(STATE, adapter=None)
    net.save(tmp_path / f"net{ending}")
    if ending == ".npz":  # says nothing of who wrote it
        again = Net()
        again.load(tmp_path / "net.npz", adapter=None)
    else:
        again = Net.from_file(tmp_path / f"net{ending}")
    assert unchanged(again, STATE)
    assert again.first.weight.weight.file is not None  # mapped, not copied


def test_reports_are_for_people_and_for_programs() -> None:
    state = {**STATE, "norm.num_batches_tracked": np.array(3)}
    report = Net().load(state, adapter="torch")
    parsed = json.loads(json.dumps(report.json()))
    assert parsed["complete"] and len(parsed["applied"]) == 8
    assert parsed["skipped"] == [{"name": "norm.num_batches_tracked", "why": "a count of training steps"}]
    text = str(report)
    assert text.startswith("weights -> Net: 8 applied, 1 skipped") and "(transposed)" in text


def test_what_is_no_array_is_named() -> None:
    with pytest.raises(ModelError) as caught:
        Net().load({"a": object(), "b": np.zeros(2), "c": np.zeros(2, "datetime64[s]")})  # type: ignore[dict-item]
    assert {p.tensor for p in caught.value.problems} >= {"c"}


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no adapter 'jax'"):
        Net().load(STATE, adapter="jax")
    Net().save(tmp_path / "n.safetensors")
    with pytest.raises(ModelError, match="top_level_key is for files"):
        Net().load(STATE, top_level_key="model")
    with pytest.raises(ModelError, match="'state_dict': it is a dict"):
        Net().load({"state_dict": STATE})  # type: ignore[dict-item]
    with pytest.raises(ModelError, match="no top-level keys"):
        weights.read(tmp_path / "n.safetensors", "state_dict")


def test_a_state_dict_that_does_not_fit_changes_nothing() -> None:
    net = Net()
    before = {name: array.copy() for name, array in net.state_dict().items()}
    with pytest.raises(ModelError):
        net.load_state_dict({**STATE, "last.bias": np.zeros(5, np.float32)})
    assert unchanged(net, before)
    net.load_state_dict(STATE)
    assert unchanged(net, STATE)


def test_a_checkpoint_that_was_read_before(tmp_path: Path) -> None:
    net = Net()
    net.load_state_dict(STATE)
    net.save(tmp_path / "n.bpk")
    again = Net()
    assert again.load(weights.read(tmp_path / "n.bpk")).complete  # it says whose layout it has
    assert unchanged(again, STATE)


def test_parameters_that_were_never_used_are_not_drawn_to_be_dropped() -> None:
    def fail(*_: object) -> np.ndarray:
        raise AssertionError("drawn")

    import burn.nn.parameter as module

    parameter = module.Parameter((2, 2), init=fail)
    parameter.__del__()
    del parameter


@pytest.mark.parametrize("wrapper", ["_orig_mod.", "module."])
def test_wrappers_inside_of_names_have_a_hint(wrapper: str, tmp_path: Path) -> None:
    """As torch.compile, or DataParallel, of a submodule leaves them."""

    class Two(nn.Module):
        def __init__(self) -> None:
            self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 2)

    names: dict[str, Any] = {name: np.zeros(p.shape, np.float32) for name, p in Two().named_parameters()}
    np.savez(
        tmp_path / "w.npz", **{name.replace("second.", f"second.{wrapper}"): array for name, array in names.items()}
    )
    with pytest.raises(ModelError) as caught:
        Two().load(tmp_path / "w.npz")
    hint = f"remap=[({re.escape(wrapper)!r}, '')]"
    assert hint in str(caught.value)
    Two().load(tmp_path / "w.npz", remap=[(re.escape(wrapper), "")])
    np.savez(tmp_path / "w.npz", **{wrapper + name: array for name, array in names.items()})
    with pytest.raises(ModelError, match="names begin with"):
        Two().load(tmp_path / "w.npz")
