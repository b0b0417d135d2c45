"""Configurations: checked, changed by copies, kept in files; those of layers come from their constructors."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest

from burn import nn
from burn.errors import ModelError


class Head(nn.Config):
    classes: int
    kind: Literal["linear", "mlp"] = "linear"


class ModelConfig(nn.Config):
    head: Head
    width: Annotated[int, nn.Range(1, 4096)] = 128
    dropout: Annotated[float, nn.Range(0, 1)] = 0.1
    sizes: Sequence[int] = (1, 2)
    names: dict[str, int] | None = None
    more: list[Head] = []  # noqa: RUF012 - becomes a tuple

    def validate(self):
        if self.width % len(self.sizes):
            yield f"{self.width} does not split into {len(self.sizes)} sizes"

    def init(self) -> nn.Module:
        return nn.Sequential(nn.Linear(self.width, self.head.classes), nn.Dropout(self.dropout))


CONFIG = ModelConfig(Head(10), sizes=[3, 4], names={"a": 1}, more=[Head(2, "mlp")])


def test_fields_have_copies_and_cannot_be_set() -> None:
    assert CONFIG.sizes == (3, 4) and CONFIG.dropout == 0.1
    other = CONFIG.with_width(64).with_head(CONFIG.head.with_classes(3))
    assert (other.width, other.head.classes, CONFIG.width, CONFIG.head.classes) == (64, 3, 128, 10)
    assert other != CONFIG and other.replace(width=128, head=Head(10)) == CONFIG and hash(CONFIG) is not None
    with pytest.raises(AttributeError):
        CONFIG.width = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="cannot be changed"):
        CONFIG.names["a"] = 2  # type: ignore[index]
    assert other.init()[0].weight.shape == (3, 64)
    assert "with_dropout" in dir(CONFIG) and "with_sizes" in dir(ModelConfig)


def test_everything_wrong_is_named_at_once() -> None:
    with pytest.raises(nn.ConfigError) as caught:
        ModelConfig(head=3, width=0, dropout=1.5, sizes=(1, "b"), names={"a": 1.5})  # type: ignore[arg-type]
    text = str(caught.value)
    assert len(caught.value.problems) == 5
    for part in (
        "attribute 'head': must be a Head, not 3",
        "attribute 'width': must be at least 1 and at most 4096, not 0",
        "'dropout': must be at least 0 and at most 1, not 1.5",
        "'sizes': has an entry that must be int, not 'b'",
        "'names': has an entry that must be int, not 1.5",
    ):
        assert part in text, text
    with pytest.raises(nn.ConfigError, match="128 does not split into 3 sizes"):
        ModelConfig(Head(1), sizes=(1, 2, 3))
    with pytest.raises(nn.ConfigError, match=r"no field 'witdh' \(there are head, width"):
        CONFIG.replace(witdh=3)
    with pytest.raises(nn.ConfigError, match="must be 'linear' or 'mlp', not 'x'"):
        Head(1, "x")  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", [".json", ".yaml", ".yml"])
def test_files_keep_them(suffix: str, tmp_path: Path) -> None:
    CONFIG.save(tmp_path / f"c{suffix}")
    assert ModelConfig.load(tmp_path / f"c{suffix}") == CONFIG


def test_texts_keep_them() -> None:
    assert ModelConfig.from_json(CONFIG.to_json()) == CONFIG and ModelConfig.from_yaml(CONFIG.to_yaml()) == CONFIG
    assert ModelConfig.from_yaml("head: {classes: 4}\n") == ModelConfig(Head(4))


BAD = {
    "no yaml": "a: [",
    "tag": "!!python/object/apply:os.system [ls]",
    "alias": "head: &a {classes: 4}\nmore: [*a, *a]\n",
    "list": "- 1\n",
    "text": "hello",
    "empty": "",
    "missing": "width: 3\n",
    "unknown": "head: {classes: 4}\nx: 3\n",
    "inner": "head: {classes: a, kinds: linear}\nwidth: 3.5\n",
    "deep": "{" * 5000,
    "deep list": "head: " + "[" * 300 + "]" * 300,
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(nn.ConfigError):
        ModelConfig.from_yaml(BAD[name])
    with pytest.raises(nn.ConfigError):
        ModelConfig.from_json(BAD[name])


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(nn.ConfigError) as caught:
        ModelConfig.from_yaml("widht: 3\nwidth: many\ndropout: 2.0\n")
    text = str(caught.value)
    for part in ("no field 'widht'", "'head': is missing", "'width': must be", "'dropout': must be"):
        assert part in text, text
    with pytest.raises(nn.ConfigError, match=r"(?s)no field 'witdh'.*'dropout': must be"):
        CONFIG.replace(witdh=3, dropout=2.0)


def test_inner_problems_have_their_path(tmp_path: Path) -> None:
    with pytest.raises(nn.ConfigError, match=r"attribute 'head.classes': must be int, not 'a'") as caught:
        ModelConfig.from_json('{"head": {"classes": "a", "kind": "x"}, "width": "b"}')
    assert {p.attribute for p in caught.value.problems} == {"head.classes", "head.kind", "width"}
    with pytest.raises(ModelError, match="cannot tell the format"):
        CONFIG.save(tmp_path / "c.toml")
    with pytest.raises(ModelError, match="cannot read"):
        ModelConfig.load(tmp_path / "none.json")


def test_layers_remember_what_they_were_made_with() -> None:
    kernel = [3, 3]
    layer = nn.Conv2d(1, 2, kernel, padding="same")
    kernel.append(5)
    assert layer.config == nn.Conv2d.Config(1, 2, (3, 3), padding="same")
    again = nn.Conv2d.Config.from_yaml(layer.config.with_out_channels(4).to_yaml()).init()
    assert again.weight.shape == (4, 1, 3, 3) and isinstance(again, nn.Conv2d)
    assert nn.PReLU(3, 1).config.init().weight.shape == (3, 1)
    assert nn.LeakyReLU(0.2).config == nn.LeakyReLU.Config(negative_slope=0.2)
    named = nn.Sequential(up=nn.Linear(2, 3))
    assert named.config.init()[0] is named[0] and named.config.init().up is named[0]
    with pytest.raises(nn.ConfigError, match="cannot be written"):
        nn.Sequential(nn.ReLU()).config.to_dict()


def test_every_layer_has_a_configuration_that_makes_it() -> None:
    for name in nn.__all__:
        cls = getattr(nn, name)
        if inspect.isclass(cls) and issubclass(cls, nn.Module) and cls not in (nn.Module, nn.Layer):
            fields = [f.name for f in dataclasses.fields(cls.Config)]
            assert sorted(["self", *fields]) == sorted(inspect.signature(cls.__init__).parameters), name
            assert cls.Config is cls.Config and cls.Config.__qualname__ == f"{cls.__qualname__}.Config"


def test_types_may_be_local() -> None:
    class Inner(nn.Config):
        size: int = 1

    class Outer(nn.Config):
        inner: Inner = Inner()
        again: Outer | None = None

    made = Outer.from_json('{"inner": {"size": 4}, "again": {"inner": {"size": 5}}}')
    assert made.inner == Inner(4) and made.again is not None and made.again.inner == Inner(5)
    with pytest.raises(nn.ConfigError, match=r"attribute 'again.inner.size': must be int, not 'x'"):
        Outer.from_json('{"again": {"inner": {"size": "x"}}}')


class Configured(nn.Module):
    class Config(nn.Config):
        width: int = 3

        def init(self) -> Configured:
            return Configured(self)

    def __init__(self, config: Configured.Config) -> None:
        self.linear = nn.Linear(config.width, config.width)


def test_a_module_may_have_its_own() -> None:
    module = Configured.Config(5).init()
    assert module.config == Configured.Config(width=5) and module.linear.weight.shape == (5, 5)


def test_wrong_arguments_of_layers_are_named_at_once() -> None:
    with pytest.raises(nn.ConfigError) as caught:
        nn.Linear("a", -1, bias=2, dtype="float31")  # type: ignore[arg-type]
    assert [p.attribute for p in caught.value.problems] == ["in_features", "out_features", "bias", "dtype"]
    with pytest.raises(nn.ConfigError, match=r"nn\.StackedLSTM"):
        nn.LSTM(3, 4, num_layers=2)  # type: ignore[call-arg]
    with pytest.raises(nn.ConfigError, match="missing a required argument"):
        nn.Linear(3)  # type: ignore[call-arg]
    assert nn.Linear(np.int64(3), 4).config.in_features == 3  # type: ignore[arg-type]
