"""What the host does while trees grow on the device: launches, and waiting for results."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier
from gpuens.datasets import make_higgs_like
from gpuens.kernels.cuda import grow as growth
from gpuens.kernels.cuda import growth_tables, target

ROUND = 7
"""Launches of a round where no features are drawn."""
AROUND = 4
"""Launches before the rounds and after them."""


@pytest.fixture
def counted(monkeypatch):
    """Launches, downloads and uploads since the last ``clear``."""
    counts: Counter[str] = Counter()
    modules = [
        import_module(f"{target.__package__}.{path.stem}")
        for path in Path(target.__file__).parent.glob("*.py")
    ]
    for name in ("launch", "download", "upload", "write"):
        inner = getattr(growth_tables if name == "write" else target, name)

        def call(*args, inner=inner, name=name, **kwargs):
            counts[name] += 1
            return inner(*args, **kwargs)

        for module in modules:
            if module is not target and hasattr(module, name):
                monkeypatch.setattr(module, name, call)
    return counts


@pytest.fixture
def grown(monkeypatch):
    """How often each workspace has grown a batch, and what that took."""
    batches = []
    grow = growth.Workspace.grow

    def noted(self, *args):
        batches.append(self)
        return grow(self, *args)

    monkeypatch.setattr(growth.Workspace, "grow", noted)
    return batches


def fit(kind, X, y, device="cuda", **settings):
    settings = {"n_estimators": 4, "min_samples_leaf": 2, "max_depth": 3} | settings
    return kind(device=device, **settings).fit(X, y)


def test_a_tree_is_one_piece_of_work(counted, grown, monkeypatch):
    X, y = make_higgs_like(200, 4)
    batch = growth.Workspace.grow

    def alone(self, *args):
        counted.clear()
        leaf = batch(self, *args)
        launches.append(counted["launch"] - self.n_rounds * ROUND)
        waits.append(counted["download"])
        writes.append(counted["write"] + counted["upload"])
        return leaf

    launches, waits, writes = [], [], []
    monkeypatch.setattr(growth.Workspace, "grow", alone)
    fit(GradientBoostingClassifier, X, y, max_leaf_nodes=None)
    assert launches == [AROUND] * 4
    assert waits == [1] * 4
    assert writes == [1] * 4


@pytest.mark.parametrize(("n_classes", "waits"), [(2, 3), (4, 4 + 1 + 4)])
def test_a_round_of_boosting_waits(counted, n_classes, waits):
    """For the totals that scale each output's gradients, once for all trees, and for the sums of
    each tree's leaves."""
    X, _ = make_higgs_like(200, 4)
    downloads = []
    for n_rounds in (2, 5):
        counted.clear()
        fit(GradientBoostingClassifier, X, np.arange(200) % n_classes, n_estimators=n_rounds)
        downloads.append(counted["download"])
    assert downloads[1] - downloads[0] == 3 * waits


def test_one_workspace_serves_all_rounds(grown):
    X, y = make_higgs_like(200, 4)
    fit(GradientBoostingClassifier, X, y)
    assert len(grown) == 4
    assert len(set(map(id, grown))) == 1


def test_more_rounds_than_expected(grown, monkeypatch):
    monkeypatch.setattr(growth, "likely_rounds", lambda params: 2)
    X, y = make_higgs_like(200, 4)
    settings = {"max_leaf_nodes": 9, "max_depth": None}
    model = fit(GradientBoostingClassifier, X, y, **settings)
    expected = fit(GradientBoostingClassifier, X, y, device="cpu", **settings)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()
    assert grown[0].n_rounds > 2


@pytest.mark.parametrize("problem", ["binary", "classes", "features drawn", "more rounds"])
def test_graphs_grow_the_same_trees(monkeypatch, grown, problem):
    X, y = make_higgs_like(200, 4)
    settings = {}
    if problem == "classes":
        y = np.arange(200) % 3
    elif problem == "features drawn":
        settings = {"colsample_bynode": 0.5, "subsample": 0.7}
    elif problem == "more rounds":
        monkeypatch.setattr(growth, "likely_rounds", lambda params: 3)
    expected = fit(GradientBoostingClassifier, X, y, device="cpu", **settings)
    monkeypatch.setenv("GPUENS_CUDA_GRAPHS", "1")
    model = fit(GradientBoostingClassifier, X, y, **settings)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()
    assert grown[-1].graph is not None
