"""Networks with random weights and decided scores, so that the accuracy of a quantised one is meaningful.

The scores of a random network hardly depend on its input: the gap between its two largest scores is smaller than a quantisation
error. Here inputs are of classes: pictures of the same coarse pattern, or sentences of the same words, with much noise. Batch
norms have the statistics of such inputs. The last layer is fitted by least squares to the network's own features, so that it
separates classes. Residual branches are small, as at the start of training, since a deep network of random
layers amplifies noise. The layers before the last one stay random, so that activations have no outliers as trained
transformers' have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

import burn
from tests.models import model_path

Sample = dict[str, np.ndarray]
Draw = Callable[[np.random.Generator, int], Sample]

OPSET = 17
"""Of files that are older: quantisers want 13."""

RIDGE = 0.1
"""Added to the features' covariance, of its mean diagonal: there are fewer examples than features."""

BRANCH = 0.3
"""Of the scale of a norm whose result is added to what a residual block reads."""

NORMS = 32
"""Inputs whose statistics batch norms get, at once."""


@dataclass(frozen=True)
class Decided:
    """A network and its inputs.

    `network`: the file with random weights. `features`: the input of the fitted layer; with `indices` its mean along axis 1.
    `draw`: an input of a class. `examples`: the number of each class, for the fit."""

    network: Callable[[], Path]
    features: str
    indices: bool
    draw: Draw
    classes: int = 100
    examples: int = 8

    def inputs(self, seed: int, count: int) -> Iterator[tuple[Sample, int]]:
        """Inputs of classes drawn at random, and the classes."""
        rng = np.random.default_rng([seed, count])
        for label in rng.integers(0, self.classes, count):
            yield self.draw(rng, int(label)), int(label)


def images(name: str, size: int = 224, coarse: int = 7, own: float = 0.3) -> Draw:
    """Pictures: a class has a pattern of `coarse` by `coarse` squares, each picture a finer one of its own and noise on top."""

    def squares(rng: np.random.Generator, number: int) -> np.ndarray:
        return np.kron(rng.standard_normal((3, number, number)), np.ones((size // number, size // number)))

    def draw(rng: np.random.Generator, label: int) -> Sample:
        pattern = squares(np.random.default_rng([5, label]), coarse)
        noise = rng.standard_normal((3, size, size))
        return {name: (pattern + own * squares(rng, 2 * coarse) + own * noise)[None].astype(np.float32)}

    return draw


def sentences(words: int = 30522, length: int = 128, own: int = 50, share: float = 0.5) -> Draw:
    """Sentences for BERT, padded from the last quarter on: `share` of the tokens are of the class's `own`, the others of all."""

    def draw(rng: np.random.Generator, label: int) -> Sample:
        of_class = np.random.default_rng([5, label]).integers(0, words, own)
        ids = np.where(rng.random(length) < share, rng.choice(of_class, length), rng.integers(0, words, length))
        mask = np.arange(length) < rng.integers(length - length // 4, length + 1)
        return {
            "input_ids": ids[None],
            "attention_mask": mask[None].astype(np.int64),
            "token_type_ids": np.zeros((1, length), np.int64),
        }

    return draw


DECIDED = {
    "resnet50": Decided(lambda: model_path("seeded_resnet50"), "r173", False, images("gpu_0/data_0")),
    "bert_base": Decided(lambda: model_path("bert_base"), "last_hidden_state", True, sentences()),
}


def make(it: Decided) -> onnx.ModelProto:
    """The network with one output, `scores`."""
    model = modern(onnx.load(it.network()))
    if any(node.op_type == "BatchNormalization" for node in model.graph.node):
        _dampen(model)
        calibrate(model, [sample for sample, _ in it.inputs(0, NORMS)])
    _cut(model, it.features)
    run = burn.load(model, cache=False).run

    def features(sample: Sample) -> np.ndarray:
        (found,) = run(sample).values()
        return found.mean(1)[0] if it.indices else found[0]

    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(it.classes), it.examples)
    weight, bias = fitted(np.stack([features(it.draw(rng, int(label))) for label in labels]), labels)
    graph = model.graph
    read = it.features
    if it.indices:
        graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "scores_axis"))
        read = "scores_mean"
        opset = next(o.version for o in model.opset_import if not o.domain)
        mean = (
            helper.make_node("ReduceMean", [it.features, "scores_axis"], [read], name=read, keepdims=0)
            if opset >= 18
            else helper.make_node("ReduceMean", [it.features], [read], name=read, keepdims=0, axes=[1])
        )
        graph.node.append(mean)
    graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in (("scores_weight", weight), ("scores_bias", bias))
    )
    graph.node.append(helper.make_node("Gemm", [read, "scores_weight", "scores_bias"], ["scores"], name="scores"))
    del graph.output[:]
    batch = graph.input[0].type.tensor_type.shape.dim[0]
    graph.output.append(
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch.dim_param or batch.dim_value, it.classes])
    )
    return model


def fitted(features: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weight and bias that give 1 for an example's class and 0 for others, by least squares."""
    wanted = np.eye(labels.max() + 1)[labels]
    middle, mean = features.mean(0, dtype=np.float64), wanted.mean(0)
    centred = features - middle
    covariance = centred.T @ centred
    covariance += RIDGE * np.trace(covariance) / len(middle) * np.eye(len(middle))
    weight = np.linalg.solve(covariance, centred.T @ (wanted - mean))
    return weight.astype(np.float32), (mean - middle @ weight).astype(np.float32)


def modern(model: onnx.ModelProto) -> onnx.ModelProto:
    """Of today's opset, with Add for a Sum of two as exporters write it, and a name for every node."""
    if model.opset_import[0].version < OPSET:
        model.ir_version = max(model.ir_version, 8)
        model = version_converter.convert_version(model, OPSET)
    for node in model.graph.node:
        if node.op_type == "Sum" and len(node.input) == 2:
            node.op_type = "Add"
        node.name = node.name or node.output[0]
    constants = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model


def _dampen(model: onnx.ModelProto) -> None:
    """Scales what residual branches add."""
    tensors = {t.name: t for t in model.graph.initializer}
    norms = {node.output[0]: node for node in model.graph.node if node.op_type == "BatchNormalization"}
    for node in model.graph.node:
        if node.op_type == "Add" and node.input[0] in norms:
            for name in norms[node.input[0]].input[1:3]:
                tensors[name].CopyFrom(numpy_helper.from_array(BRANCH * numpy_helper.to_array(tensors[name]), name))


def calibrate(model: onnx.ModelProto, samples: list[Sample]) -> None:
    """Gives batch norms the statistics of their inputs, once norms before them have theirs: all samples run at once through a
    network that computes them."""
    tensors = {t.name: t for t in model.graph.initializer}
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    graph = wide.graph
    last = max(i for i, node in enumerate(graph.node) if node.op_type == "BatchNormalization")
    nodes = [made for node in list(graph.node)[: last + 1] for made in _by_its_own(node, graph, tensors)]
    del graph.node[:], graph.output[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.output.extend(
        onnx.ValueInfoProto(name=f"{n.output[0]}_{part}") for n in norms for part in ("mean", "variance")
    )
    for value in graph.input:
        value.type.tensor_type.shape.dim[0].dim_value = len(samples)
    found = burn.load(wide, cache=False).run({name: np.concatenate([s[name] for s in samples]) for name in samples[0]})
    for node in norms:
        for input_number, part in ((3, "mean"), (4, "variance")):
            array = np.ravel(found[f"{node.output[0]}_{part}"]).astype(np.float32)
            tensors[node.input[input_number]].CopyFrom(numpy_helper.from_array(array, node.input[input_number]))


def _by_its_own(
    node: onnx.NodeProto, graph: onnx.GraphProto, tensors: Mapping[str, onnx.TensorProto]
) -> list[onnx.NodeProto]:
    """A batch norm with the statistics of this batch."""
    if node.op_type != "BatchNormalization":
        return [node]
    x, y = node.input[0], node.output[0]
    rank = 2  # of images
    for name, part in ((node.input[1], "scale"), (node.input[2], "shift")):
        array = numpy_helper.to_array(tensors[name]).reshape(-1, *(1,) * rank)
        graph.initializer.append(numpy_helper.from_array(array, f"{y}_{part}"))
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    graph.initializer.append(numpy_helper.from_array(np.array(epsilon, np.float32), f"{y}_epsilon"))
    steps = (
        ("ReduceMean", (x,), "mean"),
        ("Sub", (x, f"{y}_mean"), "off"),
        ("Mul", (f"{y}_off", f"{y}_off"), "square"),
        ("ReduceMean", (f"{y}_square",), "variance"),
        ("Add", (f"{y}_variance", f"{y}_epsilon"), "sum"),
        ("Sqrt", (f"{y}_sum",), "deviation"),
        ("Div", (f"{y}_off", f"{y}_deviation"), "normal"),
        ("Mul", (f"{y}_normal", f"{y}_scale"), "scaled"),
    )
    made = [helper.make_node(kind, inputs, [f"{y}_{part}"]) for kind, inputs, part in steps]
    for step in made:
        if step.op_type == "ReduceMean":
            step.attribute.append(helper.make_attribute("axes", [0, *range(2, 2 + rank)]))
    return [*made, helper.make_node("Add", [f"{y}_scaled", f"{y}_shift"], [y])]


def _cut(model: onnx.ModelProto, name: str) -> None:
    """Ends the graph at a tensor."""
    graph = model.graph
    read, kept = {name}, list[onnx.NodeProto]()
    for node in reversed(list(graph.node)):
        if read & set(node.output):
            kept.insert(0, node)
            read |= set(node.input)
    constants = [t for t in graph.initializer if t.name in read]
    del graph.node[:], graph.output[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(kept)
    graph.initializer.extend(constants)
    graph.output.append(onnx.ValueInfoProto(name=name))
