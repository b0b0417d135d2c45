"""The parts into which ensembles are split."""

from __future__ import annotations

import numpy as np

from burn.passes.split_trees import LANES, parts


def test_parts_cover_all_trees_in_order() -> None:
    draw = np.random.default_rng(0)
    for count in (1, 15, 16, 17, 100, 300):
        depths = tuple(np.sort(draw.integers(0, 40, count))[::-1].tolist())
        found = parts(depths)
        assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])] and found[-1][1] == count
        assert all(start % LANES == 0 for start, _ in found)
    assert not parts(())
    assert parts((9,) * 100) == [(0, 100)]
    assert parts((40,) * 32 + (3,) * 320) == [(0, 32), (32, 352)]


def test_a_deep_tree_behind_others_is_walked_to_its_leaves() -> None:
    assert parts((3,) * 320 + (40,) * 32) == [(0, 320), (320, 352)]
