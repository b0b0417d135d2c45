"""HTML of tensors, modules, programs and trainings for notebooks: complete, well formed, and escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import burn
import burn.markup as markup
from burn import nn, optim, train

EVIL = "<img src=x onerror=alert(1)>&\"'"
VOID = ("img", "br", "polyline")


class Checker(HTMLParser):
    """Collects the text and the tags; asserts that tags are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_tensor() -> None:
    shown = Checker(burn.constant([[1.5, -2.0]])._repr_html_())
    assert "float32[1, 2]" in shown.text and "1.5" in shown.text and "cpu" in shown.text
    assert "..." in Checker(burn.zeros(2000)._repr_html_()).text
    inside = []
    burn.jit(lambda x: (inside.append(x._repr_html_()), x)[1])(burn.ones(3))
    assert Checker(inside[0]).text == "Tensor(float32[3])"


def test_module_is_a_tree() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    shown = Checker(net._repr_html_())
    assert shown.tags.count("details") == 4
    assert ("(0) Linear" in shown.text and "float32[4, 3]" in shown.text) or "float32[3, 4]" in shown.text
    assert "34 parameters" in shown.text and "buffer" in shown.text


def test_shared_parameters_are_named() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    assert "shared with 0.weight" in Checker(net._repr_html_()).text


def test_programs() -> None:
    run = burn.compile(lambda x: burn.softmax(x, -1), ("float32[batch, 3]",))
    shown = Checker(run._repr_html_())
    assert "float32[batch, 3]" in shown.text and "kernels" in shown.text and shown.tags.count("table") == 2
    jitted = burn.jit(lambda x: {"y": x + 1.0})
    assert "0 programs" in Checker(jitted._repr_html_()).text
    jitted(np.ones(2, np.float32))
    assert "1 programs" in repr(jitted) and "float32[2]" in Checker(jitted._repr_html_()).text


def test_training() -> None:
    history = [
        {"epoch": e, "step": e * 5, "train": {"loss": 1.0 / e, EVIL: float("nan")}, "valid": {"loss": 2.0 / e}}
        for e in (1, 2, 3)
    ]
    summary = train.Summary(EVIL, 3, 15, 1.5, "done", history[-1]["train"], history[-1]["valid"], {}, history=history)
    shown = Checker(summary._repr_html_())
    assert "img" not in shown.tags and shown.tags.count("polyline") == 2
    assert "0.333333" in shown.text and "nan" in shown.text and EVIL in shown.text


def test_a_real_training() -> None:
    x = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
    model = nn.Linear(4, 1)
    learner = train.Learner(model, nn.MSELoss(), optim.SGD(model, lr=0.1), progress=False)
    summary = learner.fit([(x, x.sum(1, keepdims=True))], epochs=3)
    assert "train loss" in Checker(summary._repr_html_()).text


@pytest.mark.parametrize("make", [markup.text, markup.code, markup.block, lambda v: markup.table((v,), [(v,)])])
def test_texts_are_escaped(make: Any) -> None:
    shown = Checker(make(EVIL))
    assert "img" not in shown.tags and EVIL in shown.text


def test_names_of_models_are_escaped() -> None:
    class Evil(nn.Module):
        def extra_repr(self) -> str:
            return EVIL

        def forward(self, x: burn.Tensor) -> burn.Tensor:
            return x + 1.0

    shown = Checker(nn.Sequential(Evil())._repr_html_())
    assert "img" not in shown.tags and EVIL in shown.text
