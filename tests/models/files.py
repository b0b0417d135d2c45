"""Models that come as files: the `light` ones in the onnx package, and trained ones in the folder beside this project.

The light models have every weight tensor filled with one value, so a permuted weight gives the same answer. Each
therefore has a twin here, named `seeded_*`, with random weights, whose logits are also an output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.models.cache import cached
from tests.models.case import Array, Unavailable

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
TRAINED = Path(__file__).parents[3] / "shared" / "models"


def light(name: str) -> Path:
    return _existing(LIGHT / f"light_{name}.onnx", "the onnx package")


def trained(name: str) -> Path:
    return _existing(TRAINED / f"{name}.onnx", "the folder shared/models beside this checkout")


def _existing(path: Path, where: str) -> Path:
    if not path.is_file():
        raise Unavailable(f"{path.name} is not in {where}")
    return path


def light_stored(name: str) -> tuple[dict[str, Array], list[Array]]:
    """The light model's input, as the onnx test runner makes it, and the output that the package keeps for it."""
    model = onnx.load(light(name))
    weights = {tensor.name for tensor in model.graph.initializer}
    (value,) = [value for value in model.graph.input if value.name not in weights]
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    count = math.prod(shape)
    ramp = (np.arange(count).reshape(shape) / count).astype(np.float32)
    outputs = []
    for index in range(len(model.graph.output)):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((LIGHT / f"light_{name}_output_{index}.pb").read_bytes())
        outputs.append(numpy_helper.to_array(tensor))
    return {value.name: ramp}, outputs


def seeded(name: str) -> Path:
    """The light model's twin with random weights."""
    source = light(name)

    def write(path: Path) -> None:
        onnx.save(seed_weights(onnx.load(source)), path)

    return cached(f"seeded_{name}", (source.stat().st_size, Path(__file__).read_bytes()), write)


# The role of a weight, by the op and the number of the operand -> a generator of its elements.
def _centred(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return 0.1 * random.standard_normal(shape)


def _positive(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.uniform(0.7, 1.2, shape)


def _fan_in(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.standard_normal(shape) * math.sqrt(2 / math.prod(shape[1:]))


GENERATORS: dict[tuple[str, int], Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    ("Conv", 1): _fan_in,
    ("Gemm", 1): _fan_in,
    ("BatchNormalization", 1): _positive,
    ("BatchNormalization", 4): _positive,
    ("Mul", 1): _positive,
}


def seed_weights(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """Replace each `ConstantOfShape` weight by a random initializer, and make the softmax's operand an output."""
    graph = model.graph
    random = np.random.default_rng(seed)
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    filled = {node.output[0]: node for node in graph.node if node.op_type == "ConstantOfShape"}
    through = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Unsqueeze"}
    users = {}
    for node in graph.node:
        for operand, name in enumerate(node.input):
            users.setdefault(through.get(name, name), (node.op_type, operand))
    for name, node in filled.items():
        shape = tuple(int(size) for size in numpy_helper.to_array(tensors[node.input[0]]))
        draw = GENERATORS.get(users[name], _centred)
        graph.initializer.append(numpy_helper.from_array(draw(random, shape).astype(np.float32), name))
        graph.node.remove(node)
    for node in graph.node:
        if node.op_type == "Softmax":
            graph.output.append(helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None))
    shapes = {node.input[0] for node in filled.values()}
    kept = [tensor for tensor in graph.initializer if tensor.name not in shapes]
    inputs = [value for value in graph.input if value.name not in shapes]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(kept)
    graph.input.extend(inputs)
    return model
