"""What programs share: turns, the comparison of trees, and tables in Markdown."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from benchmarks.common import same_tree, tables, timing
from benchmarks.common.markdown import details, number, pivot, table, with_error
from benchmarks.common.program import all_equal, anything
from gpuens.datasets import make_higgs_like


class TestTurns:
    def test_the_order_rotates(self):
        order = []
        actions = {name: (lambda name=name: order.append(name)) for name in "abc"}
        seconds, _ = timing.interleaved(actions, 3, threads=1)
        assert "".join(order) == "abcbcacab"
        assert [len(runs) for runs in seconds.values()] == [3, 3, 3]

    def test_a_budget_ends_the_rounds(self):
        seconds, _ = timing.interleaved({"a": dict, "b": dict}, 5, threads=1, budget=-1)
        assert [len(runs) for runs in seconds.values()] == [1, 1]

    def test_ratios_are_of_medians(self):
        runs = {"gpuens": [1.0, 2.0, 9.0], "peer": [4.0, 8.0, 6.0]}
        peer = timing.compare(runs, "gpuens")["peer"]
        assert peer["ratio"] == 2.0 / 6.0 and peer["ratio_range"] == [0.25, 1.5]


def trees_of(*models):
    return [same_tree.nodes_of_theirs(model) for model in models]


class TestSameTree:
    def fitted(self, **parameters):
        X, y = make_higgs_like(2000, 6)
        return X, y, DecisionTreeClassifier(**parameters).fit(X, y)

    def test_ties(self):
        X, y, a = self.fitted(random_state=0)
        counts = same_tree.compare(*trees_of(a, self.fitted(random_state=1)[2]), X, y)
        assert counts["nodes"] == a.tree_.node_count
        assert counts["ties"] > 0 and counts["different"] == counts["close"] == 0
        assert sum(counts.values()) == 2 * counts["nodes"]
        itself = same_tree.compare(*trees_of(a, a), X, y)
        assert itself["equal"] == itself["nodes"]

    def test_other_differences(self):
        X, y, a = self.fitted(random_state=0)
        b = self.fitted(random_state=0, min_samples_leaf=3)[2]
        counts = same_tree.compare(*trees_of(a, b), X, y)
        assert counts["different"] > 0 and sum(counts.values()) == 2 * counts["nodes"]

    def test_mirrored_splits_are_ties_and_their_children_are_compared(self):
        x = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], np.float32)
        y = np.array([0, 0, 0, 1, 1, 0])
        X = np.column_stack([x, -x])
        a, b = trees_of(*(DecisionTreeClassifier().fit(X[:, [i]], y) for i in (0, 1)))
        b = b._replace(feature=np.where(b.feature == 0, 1, b.feature))
        counts = same_tree.compare(a, b, X, y)
        assert counts == {"nodes": 5, "equal": 3, "ties": 2, "close": 0, "different": 0, "below": 0}

    def test_close_values(self):
        """A better split between values that scikit-learn does not distinguish."""
        x = np.array([0.0, 0.25, 0.25 + 2.0**-25, 1.0], np.float32)
        y = np.array([0, 0, 1, 1])
        leaf = {"left": np.array([1, -1, -1]), "right": np.array([2, -1, -1])}
        a = same_tree.Nodes(np.array([0, -1, -1]), np.array([0.25, 0, 0]), n_samples=np.array(
            [4, 2, 2]), **leaf)  # fmt: skip
        b = a._replace(threshold=np.array([0.6, 0, 0]), n_samples=np.array([4, 3, 1]))
        counts = same_tree.compare(a, b, x[:, None], y)
        assert counts["close"] == 1 and counts["different"] == 0 and counts["below"] == 2
        assert same_tree.compare(b, a, x[:, None], y)["different"] == 1

    def test_gini_score(self):
        y = np.array([0, 0, 1, 2, 2])
        left = np.array([True, True, True, False, False])
        assert same_tree.gini_score(y, left) == Fraction(5, 3) + 2


def test_markdown():
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"
    rows = {"x": {"a": "1"}, "y": {"b": "2", "a": "3"}}
    assert pivot("", rows).splitlines()[2:] == ["| x | 1 |  |", "| y | 3 | 2 |"]
    assert pivot("", {}) == ""
    assert details("s", ["x", "y"]).splitlines()[2:5] == ["", "x", ""]
    assert [number(v) for v in (1234.5, 12.345, 0.01234, 1.00049)] == [
        "1234", "12.3", "0.0123", "1.0005"]  # fmt: skip


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [(4.881, 0.0432, "4.881 ± 0.043"), (12.0, 1.26, "12.0 ± 1.3"), (0.5, None, "0.5"),
     (0.25, 0.0, "0.25 ± 0"), (1234.5, 56.0, "1234 ± 56")],
)  # fmt: skip
def test_means_have_the_digits_of_their_error(mean, error, text):
    assert with_error(mean, error) == text


def test_results_are_searched_at_any_depth():
    assert all_equal({"equal": {"a": {"b": True}}, "reached": False})
    assert not all_equal({"part": {"equal": {"a": {"b": True, "c": False}}}})
    assert not anything({"gaps": ["a"], "part": {"gaps": ["b"]}, "losses": {}})
    assert anything({"part": {"n": 1}})


def test_targets_are_numbers_or_classes(tmp_path):
    """Prices are not ranks."""
    y = np.array([250.0, 100.0, 100.0], np.float32)
    for name in ("ames", "spambase"):
        np.savez(tmp_path / f"{name}.npz", X=np.zeros((3, 1)), y=y)
    assert tables.load(tmp_path, "ames")["y"].tolist() == [250.0, 100.0, 100.0]
    assert tables.load(tmp_path, "spambase")["y"].tolist() == [1, 0, 0]
