"""Collectives in the text of a compiled HLO module: `collectives`.

A line of a computation is `%name = type op(operands), attributes`. Devices that take part together are `replica_groups`, a list
of lists or an iota: `[2,4]<=[8]`, `[4,2]<=[2,4]T(1,0)`. A collective in the body of a while op runs as often as the trip count,
which XLA notes for loops that it could count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from burn.distributed.communication import KINDS, Collective

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.$-]+) (?:\(.*\) -> .*)?\{$")
_COLLECTIVE = re.compile(rf"^\s*(?:ROOT )?%?[\w.$-]+ = (.*?) ({'|'.join(KINDS)})(-start)?\((.*)$")
_CALLED = re.compile(r"\b(?:to_apply|calls|body|condition|true_computation|false_computation)=%?([\w.$-]+)")
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_TYPE = re.compile(r"\b(pred|token|[a-z]+\d+\w*)\[([\d,<=]*)\]")
_GROUPS = re.compile(r"replica_groups=\{(\{[\d,{}]*\})?\}")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_SOURCE = re.compile(r'op_name="([^"]*)"')


@dataclass(frozen=True)
class _Call:
    """A computation that another one runs. times: None if data decides."""

    name: str
    times: int | None


def collectives(text: str, sizes: Mapping[str, int] | None = None) -> Iterator[Collective]:
    """Those of a module in the order of its text. sizes: of the mesh, to name the axes that a group lies along."""
    found: dict[str, list[Collective]] = {}
    calls: dict[str, list[_Call]] = {}
    entry, inside = "", ""
    for line in text.splitlines():
        if (match := _COMPUTATION.match(line)) is not None:
            inside = match[2]
            entry = inside if match[1] else entry
            continue
        calls.setdefault(inside, []).extend(_calls(line))
        if (made := _collective(line, sizes or {})) is not None:
            found.setdefault(inside, []).append(made)
    for name, (times, known) in _executions(entry, calls).items():
        for made in found.get(name, ()):
            yield Collective(made.kind, made.bytes, made.group, made.axes, times, known, made.source)


def _calls(line: str) -> Iterator[_Call]:
    trips: int | None = 1
    if re.search(r"\bwhile\(", line):
        match = _TRIPS.search(line)
        trips = int(match[1]) if match else None
    for name in _CALLED.findall(line):
        yield _Call(name, trips)
    for names in _BRANCHES.findall(line):
        for name in names.split(","):
            yield _Call(name.strip().lstrip("%"), trips)


def _executions(entry: str, calls: Mapping[str, list[_Call]]) -> dict[str, tuple[int, bool]]:
    """How often each computation runs, and if that is known."""
    total: dict[str, tuple[int, bool]] = {}

    def visit(name: str, times: int, known: bool) -> None:
        before = total.get(name, (0, True))
        total[name] = (before[0] + times, before[1] and known)
        for call in calls.get(name, ()):
            visit(call.name, times * (1 if call.times is None else call.times), known and call.times is not None)

    visit(entry, 1, True)
    return total


def _collective(line: str, sizes: Mapping[str, int]) -> Collective | None:
    match = _COLLECTIVE.match(line)
    if match is None:
        return None
    types, kind, start, rest = match.groups()
    all_sizes = [_bytes(*found) for found in _TYPE.findall(types)]
    if start and kind in ("all-gather", "collective-permute"):  # the operands, then the results
        all_sizes = all_sizes[len(all_sizes) // 2 :][: len(all_sizes) // 2] if len(all_sizes) > 1 else all_sizes
    pairs = _pairs(rest)
    group = _group(rest, prod(sizes.values()))
    axes = tuple(n for n in sizes if any(n in _axes(pair, sizes) for pair in pairs)) if pairs else _axes(group, sizes)
    size = sum(all_sizes) * (len(group) if kind == "reduce-scatter" else 1)
    source = _SOURCE.search(rest)
    return Collective(kind, size, 2 if pairs else len(group), axes, source=source[1] if source else "")


def _bytes(kind: str, shape: str) -> int:
    if kind == "token":
        return 0
    digits = re.search(r"\d+", kind)
    bits = 8 if digits is None else int(digits[0])
    return -(-prod(int(size.strip("<=")) for size in shape.split(",") if size) * bits // 8)


def _pairs(text: str) -> list[list[int]]:
    """The devices that send and receive in a permutation."""
    match = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", text)
    return [[int(a), int(b)] for a, b in re.findall(r"\{(\d+),(\d+)\}", match[1])] if match else []


def _group(text: str, count: int) -> list[int]:
    """The devices of the first group."""
    if (iota := _IOTA.search(text)) is not None:
        groups, dims, order = ([int(n) for n in part.split(",")] if part else [] for part in iota.groups())
        numbers = np.arange(prod(dims)).reshape(dims)
        numbers = numbers.transpose(order) if order else numbers
        return numbers.reshape(groups)[0].tolist()
    groups_ = _GROUPS.search(text)
    if groups_ is None or not groups_[1]:
        return list(range(count))
    return [int(n) for n in groups_[1].split("}")[0].strip("{").split(",")]


def _axes(group: list[int], sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The mesh axes along which the devices of a group differ."""
    if not sizes or not group or max(group) >= prod(sizes.values()):
        return ()
    positions = np.unravel_index(np.array(group), tuple(sizes.values()))
    return tuple(name for name, along in zip(sizes, positions, strict=True) if len(set(along.tolist())) > 1)
