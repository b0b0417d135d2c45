"""Spoils models at random, by bytes and by structure; a number decides how, so that a case can be run again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import onnx

from tests.onnx_suite.cases import load_cases

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared" / "models"

EXTREME = (0, 1, -1, 2, 7, 64, 255, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63))
LARGE = 100_000  # bytes: such models are only read and imported, compiling thousands of them would take hours


def sources() -> list[bytes]:
    """Real models: the conformance tests', those beside the repository where they are, and the example's."""
    paths = [*sorted(SHARED.glob("*.onnx")), *sorted((ROOT / "examples").glob("*/*.onnx"))]
    return [case.model for case in load_cases(("node", "simple"))] + [path.read_bytes() for path in paths]


def mutate(models: list[bytes], seed: int) -> bytes:
    """One model of the list, changed at one to four offsets. The result depends on the seed alone."""
    rng = random.Random(seed)
    # Every tenth case takes one of the few models from files, which are larger and of many nodes.
    data = rng.choice(models[-8:] if rng.random() < 0.1 else models)
    structural = rng.random() < 0.5
    for _ in range(rng.choice((1, 1, 2, 4))):
        data = by_structure(data, rng) if structural else rng.choice(BYTES)(data, rng, models)
    return data


# Bytes


def flip(data: bytes, rng: random.Random, models: list[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 32))):
        if changed:
            changed[_offset(changed, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(data: bytes, rng: random.Random, models: list[bytes]) -> bytes:
    offset = _offset(data, rng)
    piece = rng.choice((b"\xff" * 8, b"\x00" * 8, b"\x80" * 10 + b"\x01", rng.randbytes(rng.randint(1, 16))))
    return data[:offset] + piece + data[offset + len(piece) :]


def cut(data: bytes, rng: random.Random, models: list[bytes]) -> bytes:
    return data[: _offset(data, rng)]


def remove(data: bytes, rng: random.Random, models: list[bytes]) -> bytes:
    offset = _offset(data, rng)
    return data[:offset] + data[offset + rng.choice((1, 2, 16, 256)) :]


def repeat(data: bytes, rng: random.Random, models: list[bytes]) -> bytes:
    offset = _offset(data, rng)
    return data[:offset] + data[offset : offset + rng.choice((1, 2, 16, 256))] + data[offset:]


def splice(data: bytes, rng: random.Random, models: list[bytes]) -> bytes:
    other = rng.choice(models)
    return data[: _offset(data, rng)] + other[_offset(other, rng) :]


BYTES: tuple[Callable[[bytes, random.Random, list[bytes]], bytes], ...] = (
    flip,
    flip,
    overwrite,
    cut,
    remove,
    repeat,
    splice,
)


def _offset(data: bytes | bytearray, rng: random.Random) -> int:
    """Anywhere, but often near an end: in a large model most of the middle is weights, where nothing can go wrong."""
    size = len(data)
    if not size:
        return 0
    near = min(size, 2000)
    return rng.choice((rng.randrange(size), rng.randrange(near), size - 1 - rng.randrange(near)))


# Structure


def by_structure(data: bytes, rng: random.Random) -> bytes:
    """A change that leaves a readable model: the importer sees what no exporter would write."""
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception:  # what an earlier change made unreadable stays as it is
        return data
    graph = proto.graph
    node = rng.choice(graph.node) if graph.node else onnx.NodeProto()
    names = [name for other in graph.node for name in (*other.input, *other.output)] + ["", "nowhere"]
    attribute = rng.choice(node.attribute) if node.attribute else onnx.AttributeProto()
    values = [*graph.input, *graph.output, *graph.value_info]
    tensors = [*graph.initializer, attribute.t]

    def operand() -> None:
        if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(names)

    def result() -> None:
        if node.output:
            node.output[rng.randrange(len(node.output))] = rng.choice(names)

    def fewer() -> None:
        del rng.choice((node.input, node.output, node.attribute, graph.node, graph.initializer))[-1:]

    def operator() -> None:
        other = rng.choice(graph.node) if graph.node else node
        node.op_type = rng.choice((other.op_type, "Reshape", "Conv", "If", "Loop", "MatMul", "Slice", "Nothing"))

    def integer() -> None:
        attribute.i = rng.choice(EXTREME)
        if attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(EXTREME)

    def number() -> None:
        attribute.f = rng.choice((0.0, -1.0, 1e38, float("nan"), float("inf")))

    def kind() -> None:
        setattr(attribute, "type", rng.choice(onnx.AttributeProto.AttributeType.values()))  # noqa: B010

    def dimension() -> None:
        if values:
            dims = rng.choice(values).type.tensor_type.shape.dim
            if dims:
                rng.choice(dims).dim_value = rng.choice(EXTREME)

    def rank() -> None:
        if values:
            shape = rng.choice(values).type.tensor_type.shape
            rng.choice((lambda: shape.dim.add(dim_value=3), lambda: shape.dim.pop() if shape.dim else None))()

    def element() -> None:
        if values:
            rng.choice(values).type.tensor_type.elem_type = rng.randrange(30)

    def tensor_shape() -> None:
        dims = rng.choice(tensors).dims
        if dims:
            dims[rng.randrange(len(dims))] = rng.choice(EXTREME)

    def tensor_type() -> None:
        rng.choice(tensors).data_type = rng.randrange(30)

    def tensor_content() -> None:
        tensor = rng.choice(tensors)
        tensor.raw_data = flip(tensor.raw_data, rng, [])

    def version() -> None:
        if proto.opset_import:
            rng.choice(proto.opset_import).version = rng.choice((*range(1, 30), *EXTREME))

    changes = (operand, operand, result, fewer, operator, integer, integer, number, kind, dimension, dimension, rank)
    rng.choice((*changes, element, tensor_shape, tensor_type, tensor_content, tensor_content, version))()
    return proto.SerializeToString()
