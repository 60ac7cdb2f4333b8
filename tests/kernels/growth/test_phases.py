"""The kernels that train, each by itself: what it makes of the tables and the rows that it was
given is what the reference makes of them. Whole trees are compared in ``test_grow.py``; this says
in which phase they come apart, and compiles for half a minute."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.growth.frontier import NO_GAIN
from gpuens.kernels.growth.reference.grow import _Batch, can_split
from gpuens.kernels.growth.reference.histogram import histogram
from gpuens.kernels.growth.reference.partition import partition, scatter_leaves
from gpuens.kernels.runtime.dtypes import MISSING, Codes

pytestmark = pytest.mark.slow
ON_CPU = ("cpu", "cpu-threads")

SPLIT = ("feature", "bin", "missing_left", "left_g", "left_h")


def codes_of(batch) -> Codes:
    return Codes(np.ascontiguousarray(batch.columns.T), batch.columns)


def histogram_of(batch, moment, x: int) -> np.ndarray:
    rows = moment.rows_of(x)
    return histogram(codes_of(batch), rows, np.array([0]), np.array([rows.size]))[0]


def test_histograms(batch, grown, same):
    """The one that is added up from its rows, and its sibling's, from which that is subtracted."""
    for round_ in grown.rounds:
        for x, planes in round_.histograms.items():
            expected = histogram_of(batch, round_.opened, x)
            for f, n_bins in enumerate(batch.n_bins):
                used = [*range(n_bins), MISSING]
                same(planes[:, f, used], expected[:, f, used])


def test_search(batch, grown, same):
    """The best splits of the new nodes, and of those that are chosen again."""
    n_splits = 0
    for round_ in grown.rounds:
        opened, searched = round_.opened, round_.searched
        tables = opened.tables()
        expected = _Batch(codes_of(batch), batch.n_bins, opened.records(), batch.params, tables)
        pairs, again = opened.part("pairs"), opened.part("recheck")
        for sibling in pairs["sibling"][pairs["sibling"] >= 0].tolist():
            parent = int(tables.nodes["parent"][sibling])
            expected.kept[expected.slot(sibling)] = sum(
                histogram_of(batch, opened, int(tables.nodes["child"][parent]) + side)
                for side in range(2)
            )
        for x in again.tolist():
            if expected.slot(x) >= 0:
                expected.kept[expected.slot(x)] = histogram_of(batch, opened, x)
        expected.find_splits()
        for x in round_.counted:
            if can_split(tables, batch.params, x):
                expected.settle([x], expected.best_splits_counted([x]))
        looked = np.array([*opened.new(), *again], np.int64)
        found, wanted = searched.frontier.nodes[looked], tables.nodes[looked]
        same(found["gain"], wanted["gain"])
        is_split = wanted["gain"] > NO_GAIN
        n_splits += int(is_split.sum())
        for name in SPLIT:
            same(found[name][is_split], wanted[name][is_split])
        by_categories = looked[is_split & (wanted["bin"] < 0)]
        if tables.left_codes.size:
            same(searched.frontier.left_codes[by_categories], tables.left_codes[by_categories])
    assert n_splits > 0 or batch.columns.shape[1] == 1


def test_partition(batch, grown, same):
    """Both sides have the rows that the split sends there, in any order; no other row moves."""
    for round_ in grown.rounds:
        before, after = round_.searched, round_.parted
        expand = before.part("expand")
        nodes = before.frontier.nodes[expand["node"]]
        records = before.records()
        sets = before.frontier.left_codes
        n_left = partition(
            codes_of(batch),
            records,
            nodes["begin"],
            nodes["end"],
            nodes["feature"],
            nodes["bin"],
            nodes["missing_left"],
            sets[expand["node"]] if sets.size else sets,
        )
        same(after.part("expand")["n_left"], n_left)
        for node, n in zip(nodes, n_left, strict=True):
            begin, end, target = node["begin"], node["end"], 1 - (node["depth"] & 1)
            for side in (slice(begin, begin + n), slice(begin + n, end)):
                same(np.sort(after.buffers[target][side]), np.sort(records[side]))
        inside = np.zeros((2, records.size), bool)
        for node in nodes:
            inside[1 - (node["depth"] & 1), node["begin"] : node["end"]] = True
        for k in range(2):
            same(after.buffers[k][~inside[k]], before.buffers[k][~inside[k]])


def test_leaves(batch, grown, same):
    """Each row of a tree's sample has the leaf of its node, other rows have none."""
    moment = grown.numbered
    nodes = moment.part("nodes")
    ends = nodes[nodes["child"] < 0]
    ends = ends[np.argsort(ends["begin"], kind="stable")]
    shape = len(batch.words), batch.columns.shape[1]
    tree, leaf = ends["tree"].astype(np.int32), ends["leaf"].astype(np.int32)
    expected = scatter_leaves(moment.records(), ends["begin"], ends["end"], tree, leaf, shape)
    same(grown.leaf, expected)
