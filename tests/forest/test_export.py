"""Trees as text, in DOT and as pictures."""

from __future__ import annotations

import io
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_linnerud
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.tree import export_graphviz as sklearn_graphviz
from sklearn.tree import export_text as sklearn_text

from gpuens import GradientBoostingRegressor
from gpuens.forest.drawing import arrange, category_set, rounded
from gpuens.forest.export import export_graphviz, export_text, plot_tree
from gpuens.forest.view import TreeView
from tests.support.sklearn_trees import ClassifierTree, breadth_first, like, random_tree, tree_of

IRIS, CANCER, DIABETES = load_iris(), load_breast_cancer(), load_diabetes()


@pytest.fixture(scope="module")
def iris():
    return DecisionTreeClassifier(random_state=0).fit(IRIS.data, IRIS.target_names[IRIS.target])


@pytest.fixture(scope="module")
def diabetes():
    return DecisionTreeRegressor(max_depth=4, random_state=0).fit(DIABETES.data, DIABETES.target)


@pytest.mark.parametrize("options", [
    {}, {"feature_names": IRIS.feature_names, "show_weights": True}, {"max_depth": 0, "spacing": 1},
    {"max_depth": 2, "spacing": 5, "decimals": 0, "show_weights": True},
    {"class_names": ["a", "b", "c"], "decimals": 4},
])  # fmt: skip
def test_text_of_classifiers(iris, options):
    assert export_text(like(iris), **options) == sklearn_text(iris, **options)


@pytest.mark.parametrize("max_depth", [1, 3, 100])
def test_text_of_regressors(max_depth):
    for bunch in (DIABETES, load_linnerud()):
        estimator = DecisionTreeRegressor(random_state=0).fit(bunch.data, bunch.target)
        expected = sklearn_text(estimator, max_depth=max_depth)
        assert export_text(like(estimator), max_depth=max_depth) == expected
        assert export_text(like(estimator).tree_, max_depth=max_depth) == expected
    assert export_text(like(estimator), max_depth=None) == sklearn_text(estimator, max_depth=100)


def test_text_of_a_view_numbers_the_classes(iris):
    numbered = iris.fit(IRIS.data, IRIS.target)
    assert export_text(like(numbered).tree_) == sklearn_text(numbered)


def test_text_of_several_classifications():
    Y = np.stack([IRIS.target, IRIS.target == 1], axis=1)
    estimator = DecisionTreeClassifier(max_depth=1, random_state=0).fit(IRIS.data, Y)
    text = export_text(like(estimator), show_weights=True, decimals=0)
    assert "weights: [0, 50, 50], [50, 50] class: 1, 0" in text
    names = [["x", "y", "z"], ["no", "yes"]]
    assert text.count("class") == export_text(like(estimator), class_names=names).count("class")
    assert "class: y, no" in export_text(like(estimator), class_names=names)


def by_hand(**splits):
    """A stump of 8 rows, or a tree with a second split of the left child."""
    feature = np.array(splits.pop("feature"))
    n = 2 * feature.size + 1
    padded = np.full(n, -1)
    padded[: feature.size] = feature
    left = np.full(n, -1)
    left[: feature.size] = [1, 3][: feature.size]
    arrays = {name: np.pad(np.array(given, float), (0, n - len(given)))
              for name, given in splits.items() if name not in ("categories", "n_categories",
                                                                "category_begin")}  # fmt: skip
    begin = np.full(n, -1)
    begin[: len(splits.get("category_begin", []))] = splits.get("category_begin", [])
    forest = tree_of(
        n_features=2, feature=padded, left=left, right=np.where(left < 0, -1, left + 1),
        value=np.arange(float(n))[:, None], category_begin=begin,
        categories=splits.get("categories", []), n_categories=splits.get("n_categories", [0, 0]),
        **arrays,
    )  # fmt: skip
    return TreeView(forest, 0, [1])


def test_text_of_categories():
    view = by_hand(
        feature=[1, 0], threshold=[0.0, 2.0], missing_left=[1, 0], category_begin=[0, -1],
        categories=[0b1011_1001], n_categories=[0, 9],
    )  # fmt: skip
    assert export_text(view, feature_names=["age", "kind"], show_missing=True).splitlines() == [
        "|--- kind in {0, 3-5, 7} or missing",
        "|   |--- age <= 2.00",
        "|   |   |--- value: [3.00]",
        "|   |--- age >  2.00 or missing",
        "|   |   |--- value: [4.00]",
        "|--- kind not in {0, 3-5, 7}",
        "|   |--- value: [2.00]",
    ]
    assert "missing" not in export_text(view)


def test_text_of_a_split_by_missing_values():
    view = by_hand(feature=[0], threshold=[np.inf], missing_left=[0])
    for show_missing in (False, True):
        assert export_text(view, show_missing=show_missing).splitlines() == [
            "|--- feature_0 is not missing",
            "|   |--- value: [1.00]",
            "|--- feature_0 is missing",
            "|   |--- value: [2.00]",
        ]


@pytest.mark.parametrize("categories, longest, text", [
    ([], None, "{}"), ([3], None, "{3}"), ([0, 1], None, "{0, 1}"),
    ([0, 1, 2, 4, 6, 7], None, "{0-2, 4, 6, 7}"), ([10, 20, 30, 40], 10, "{10, 20, ...}"),
    ([10, 20], 10, "{10, 20}"),
])  # fmt: skip
def test_sets_of_categories(categories, longest, text):
    assert category_set(categories, longest) == text


@pytest.mark.parametrize("number, precision, text", [
    (0.8, 3, "0.8"), (2.0, 3, "2.0"), (1234.56789, 2, "1234.57"), (0.00012345, 3, "0.000123"),
    (-1.6e-9, 1, "-2e-09"), (0.0, 3, "0.0"), (1e300, 2, "1e+300"), (np.inf, 2, "inf"),
])  # fmt: skip
def test_numbers(number, precision, text):
    assert rounded(number, precision) == text


def test_text_of_very_deep_trees():
    n = 4001
    inner = np.arange(n) % 2 == 1
    inner[0], inner[-2] = True, False
    left = np.where(inner, np.cumsum(inner) * 2 - 1, -1)
    forest = tree_of(n_features=1, feature=np.where(inner, 0, -1), left=left,
                     right=np.where(inner, left + 1, -1), value=np.zeros((n, 1)))  # fmt: skip
    view = TreeView(forest, 0, [1])
    assert view.max_depth == 2000
    assert export_text(view, max_depth=None, spacing=1).count("value") == view.n_leaves
    assert "truncated branch of depth 1990" in export_text(view)


def labels_of(dot):
    """The label of each node in DOT."""
    return {
        int(n): text for n, text in re.findall(r'^(\d+) \[label="((?:[^"\\]|\\.)*)"', dot, re.M)
    }


@pytest.mark.parametrize("options", [
    {}, {"feature_names": IRIS.feature_names, "class_names": IRIS.target_names, "node_ids": False},
    {"label": "root", "proportion": True, "class_names": True, "rotate": True},
    {"label": "none", "impurity": False, "precision": 1, "rounded": True},
])  # fmt: skip
def test_graphviz_has_the_labels_of_scikit_learn(iris, options):
    mine = labels_of(export_graphviz(like(iris), **options))
    theirs = labels_of(sklearn_graphviz(iris, **options))
    order = breadth_first(iris.tree_)
    assert mine == {node: theirs[old] for node, old in enumerate(order)}


def test_graphviz_of_regressors(diabetes):
    mine = labels_of(export_graphviz(like(diabetes)))
    theirs = labels_of(sklearn_graphviz(diabetes))
    assert mine == {node: theirs[old] for node, old in enumerate(breadth_first(diabetes.tree_))}


def test_graphviz_edges(iris):
    dot = export_graphviz(like(iris), max_depth=2, filled=True, rounded=True, leaves_parallel=True)
    view = like(iris).tree_
    depth = view.compute_node_depths() - 1
    edges = {(int(a), int(b)) for a, b in re.findall(r"^(\d+) -> (\d+)", dot, re.M)}
    assert edges == {
        (node, child)
        for node in np.flatnonzero((view.feature >= 0) & (depth <= 2))
        for child in (view.children_left[node], view.children_right[node])
    }
    labels = labels_of(dot)
    assert set(labels) == set(np.flatnonzero(depth <= 3))
    assert {node for node, text in labels.items() if text == "(...)"} == set(
        np.flatnonzero(depth == 3)
    )
    assert dot.count("fillcolor") == len(labels)
    assert dot.count("headlabel") == 2 and "rank=same" in dot and 'style="filled, rounded"' in dot
    assert dot.startswith("digraph Tree {") and dot.endswith("}")


def test_graphviz_escapes_and_writes(iris, tmp_path):
    names = ['say "x"', "back\\slash", "c", "d"]
    dot = export_graphviz(like(iris), feature_names=names, special_characters=True)
    assert r"d ≤ 0.8\n" in dot and "<=" not in dot
    wide = by_hand(feature=[1, 0], threshold=[1.0, 2.0])
    dot = export_graphviz(wide, feature_names=names[:2])
    assert r"say \"x\" <= 2.0" in dot and r"back\\slash <= 1.0" in dot
    path, stream = tmp_path / "tree.dot", io.StringIO()
    assert export_graphviz(wide, path, feature_names=names[:2]) is None
    export_graphviz(wide, stream, feature_names=names[:2])
    assert path.read_text(encoding="utf-8") == stream.getvalue() == dot


def picture(estimator, size=(12, 7), **options):
    figure_class = pytest.importorskip("matplotlib.figure").Figure
    figure = figure_class(figsize=size)
    texts = plot_tree(estimator, ax=figure.add_axes((0, 0, 1, 1)), **options)
    figure.draw_without_rendering()
    return figure, texts


def frames(texts):
    return [text.get_bbox_patch().get_window_extent() for text in texts if text.get_bbox_patch()]


def overlap(a, b):
    return min(a.x1, b.x1) > max(a.x0, b.x0) and min(a.y1, b.y1) > max(a.y0, b.y0)


@pytest.mark.parametrize("options", [
    {}, {"filled": True, "rounded": True, "class_names": True},
    {"node_ids": True, "proportion": True, "label": "root", "size": (5, 9)},
    {"max_depth": 2, "size": (9, 3), "filled": True},
])  # fmt: skip
@pytest.mark.parametrize("kind", ["iris", "diabetes"])
def test_boxes_neither_overlap_nor_leave_the_axes(request, kind, options):
    figure, texts = picture(like(request.getfixturevalue(kind)), **options)
    boxes = frames(texts)
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 - 1 <= box.x0 < box.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 - 1 <= box.y0 < box.y1 <= figure.bbox.y1 + 1
        assert not any(overlap(box, other) for other in boxes[:i])
    words = [text.get_window_extent() for text in texts[-2:]]
    assert [text.get_text().strip() for text in texts[-2:]] == ["True", "False"]
    assert not any(overlap(word, box) for word in words for box in boxes)


def test_picture_shows_the_tree(iris):
    view = like(iris).tree_
    _, texts = picture(like(iris), filled=True, feature_names=IRIS.feature_names,
                       class_names=IRIS.target_names, node_ids=True)  # fmt: skip
    assert len(texts) == view.node_count + 2
    assert texts[0].get_text().splitlines() == [
        "node #0", "petal width (cm) <= 0.8", "gini = 0.667", "samples = 150",
        "value = [50, 50, 50]", "class = setosa",
    ]  # fmt: skip
    x, y = np.array([text.get_position() for text in texts[:-2]]).T
    inner = np.flatnonzero(view.feature >= 0)
    left, right = view.children_left[inner], view.children_right[inner]
    np.testing.assert_allclose(x[inner], (x[left] + x[right]) / 2)
    assert (x[left] < x[right]).all()
    depth = view.compute_node_depths()
    assert all(np.ptp(y[depth == level]) < 1e-9 for level in range(1, depth.max() + 1))
    colors = [text.get_bbox_patch().get_facecolor() for text in texts[:-2]]
    purest = [view.value[node, 0].max() == 1 for node in range(view.node_count)]
    leading = view.value[:, 0].argmax(axis=1)
    assert len({c for c, pure in zip(colors, purest, strict=True) if pure}) == 3
    assert len({c for c, pure, k in zip(colors, purest, leading, strict=True) if pure and k}) == 2
    assert colors[0] == (1, 1, 1, 1)


@pytest.mark.slow
def test_font_size_is_kept(iris):
    _, texts = picture(like(iris), fontsize=5)
    assert {text.get_fontsize() for text in texts} == {5}
    _, texts = picture(like(iris), size=(20, 20))
    assert {text.get_fontsize() for text in texts} == {12}


@pytest.mark.slow
def test_picture_of_categories_and_boosting():
    forest = random_tree(np.random.default_rng(1), 6, [200, 3], 1)
    figure, texts = picture(TreeView(forest, 0, [1]), show_missing=True, filled=True)
    conditions = [text.get_text().splitlines()[0] for text in texts[:-2]]
    assert any(re.fullmatch(r"x\[0\] in \{.*, \.\.\.\}( or missing)?", c) for c in conditions)
    assert max(map(len, conditions)) < 50
    model = GradientBoostingRegressor(n_estimators=1).fit(DIABETES.data, DIABETES.target)
    _, texts = picture(TreeView(model.forest_, 0, [1]))
    assert "impurity" not in texts[0].get_text() and "samples = 442" in texts[0].get_text()


def test_picture_of_one_leaf():
    leaf = tree_of(n_features=1, feature=[-1], left=[-1], right=[-1], value=np.ones((1, 1)))
    figure, texts = picture(TreeView(leaf, 0, [1]), filled=True)
    assert len(texts) == 1 and texts[0].get_position() == (0.5, 0.5)


def test_current_axes(iris):
    plt = pytest.importorskip("matplotlib.pyplot")
    backend = plt.get_backend()
    plt.switch_backend("agg")
    try:
        figure = plt.figure()
        first = plot_tree(like(iris))[0].axes
        assert figure.axes == [first] and first.get_position().width > 0.9
        _, (left, right) = plt.subplots(1, 2)
        assert plot_tree(like(iris))[0].axes is right
        assert plot_tree(like(iris), ax=left)[0].axes is left
    finally:
        plt.close("all")
        plt.switch_backend(backend)


def test_missing_matplotlib_is_explained(iris, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'gpuens\[viz\]'"):
        plot_tree(like(iris))


@given(st.integers(0, 2**32), st.integers(0, 40))
def test_arrangement(seed, n_splits):
    """Parents centred, neighbours a gap apart, and the whole no wider than its leaves side by
    side would be."""
    rng = np.random.default_rng(seed)
    forest = random_tree(rng, n_splits, [0], 1)
    width = rng.uniform(1, 9, forest.feature.size)
    x = arrange(forest.left, width, 2.0)
    view = TreeView(forest, 0, [1])
    inner = np.flatnonzero(forest.feature >= 0)
    middle = (x[view.children_left[inner]] + x[view.children_right[inner]]) / 2
    np.testing.assert_allclose(x[inner], middle, atol=1e-9)
    depth = view.compute_node_depths()
    for level in range(1, depth.max() + 1):
        nodes = np.flatnonzero(depth == level)
        low, high = x[nodes] - width[nodes] / 2, x[nodes] + width[nodes] / 2
        assert (low[1:] - high[:-1] >= 2.0 - 1e-9).all()


def test_arguments_are_checked(iris):
    tree = like(iris)
    with pytest.raises(ValueError, match="feature_names must hold 4 names"):
        export_text(tree, feature_names=["a"])
    with pytest.raises(ValueError, match=r"class_names must hold the names of \[3\] classes"):
        export_text(tree, class_names=["a", "b"])
    with pytest.raises(ValueError, match="spacing must be an integer >= 1, got 0"):
        export_text(tree, spacing=0)
    with pytest.raises(ValueError, match="decimals must be an integer >= 0, got -1"):
        export_text(tree, decimals=-1)
    for export in (export_text, export_graphviz, plot_tree):
        with pytest.raises(ValueError, match="max_depth must be None or an integer >= 0, got -1"):
            export(tree, max_depth=-1)
        with pytest.raises(TypeError, match="fitted decision tree of gpuens or a TreeView, got De"):
            export(iris)
        with pytest.raises(NotFittedError):
            export(DecisionTreeClassifier())
    with pytest.raises(ValueError, match="label must be 'all', 'root' or 'none', got 'some'"):
        export_graphviz(tree, label="some")


def test_one_class(iris):
    """A classifier that saw one class names it."""
    estimator = DecisionTreeClassifier().fit(IRIS.data, ["only"] * 150)
    tree = ClassifierTree(like(estimator).tree_, estimator.classes_)
    assert export_text(tree) == "|--- class: only\n"
    assert 'class = only"' in export_graphviz(tree, class_names=["only"], filled=True)
