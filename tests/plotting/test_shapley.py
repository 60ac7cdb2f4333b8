"""What the displays of Shapley values draw."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_wine

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor, TreeExplainer

plt = pytest.importorskip("matplotlib.pyplot")

from gpuens.plotting import (  # noqa: E402
    BeeswarmDisplay,
    ShapleyDependenceDisplay,
    WaterfallDisplay,
)
from tests.support.lanes import few  # noqa: E402

X, Y = load_diabetes(return_X_y=True, as_frame=True)
MODEL = GradientBoostingRegressor(n_estimators=8, device="cpu").fit(X, Y)
VALUES = TreeExplainer(MODEL).shap_values(X)


def ticks(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


def test_beeswarm():
    display = BeeswarmDisplay.from_estimator(MODEL, X, max_features=3)
    order = np.argsort(-np.abs(VALUES).mean(axis=0))[:3]
    np.testing.assert_array_equal(display.order_, order)
    assert ticks(display) == [X.columns[f] for f in order]
    for line, (f, points) in enumerate(zip(order, display.points_, strict=True)):
        x, y = np.asarray(points.get_offsets()).T
        np.testing.assert_array_equal(x, VALUES[:, f])
        assert np.abs(y - line).max() <= 0.4 and np.ptp(y) > 0.1
        ranks = np.asarray(points.get_array())
        assert ranks.min() == 0 and ranks.max() == 1
        assert (
            np.argsort(ranks[:50], kind="stable") == X.iloc[:50, f].argsort(kind="stable")
        ).all()
    assert display.ax_.yaxis_inverted()


def test_beeswarm_of_missing_values_and_categories():
    values = np.array([[1.0, 0.5], [2.0, -0.5], [3.0, 0.1]])
    data = pd.DataFrame({"a": [1.0, np.nan, 2.0], "b": ["x", "y", "x"]})
    display = BeeswarmDisplay(values, data, feature_names=data.columns).plot()
    assert [len(points.get_offsets()) for points in display.points_] == [2, 3]
    np.testing.assert_array_equal(display.points_[1].get_array(), [0, 1, 0])
    assert len(display.ax_.collections) == 4  # of each line the missing ones, in grey


def test_beeswarm_of_a_class():
    W, L = load_wine(return_X_y=True)
    model = GradientBoostingClassifier(n_estimators=3, device="cpu").fit(W, L)
    display = BeeswarmDisplay.from_estimator(model, W, output=2)
    np.testing.assert_array_equal(display.values, TreeExplainer(model).shap_values(W)[:, :, 2])
    assert display.feature_names[0] == "x[0]"
    for wrong in (None, 3, -1, "b"):
        with pytest.raises(ValueError, match="output must be"):
            BeeswarmDisplay.from_estimator(model, W, output=wrong)


def test_waterfall():
    row = X.iloc[3:4]
    display = WaterfallDisplay.from_estimator(MODEL, row, max_features=4)
    base = TreeExplainer(MODEL).expected_value
    order = np.argsort(-np.abs(VALUES[3]))
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, [*VALUES[3, order[:3]], VALUES[3, order[3:]].sum()])
    starts = [bar.get_x() for bar in display.bars_]
    np.testing.assert_allclose(starts[-1], base)
    np.testing.assert_allclose(np.add(starts, widths)[1:], starts[:-1])
    np.testing.assert_allclose(starts[0] + widths[0], MODEL.predict(row)[0])
    first = X.columns[order[0]]
    assert ticks(display)[0] == f"{first} = {row[first].iloc[0]:.4g}"
    assert ticks(display)[-1] == "7 other features"
    assert len(WaterfallDisplay(VALUES[3], base).plot().bars_) == 10


@pytest.mark.parametrize("width", few([4.8, 6.4], 0))
def test_values_of_a_waterfall_lie_on_no_name_and_no_edge(width):
    names = ["a_name_without_spaces_" * 3, "a name with spaces " * 3, *X.columns[2:]]
    figure, ax = plt.subplots(figsize=(width, 4.8), layout="constrained")
    for row in (3, 20, 100):
        ax.clear()
        display = WaterfallDisplay(VALUES[row], 152.1, feature_names=names).plot(ax)
        figure.canvas.draw()
        frame = ax.get_window_extent()
        for text in ax.texts:
            box = text.get_window_extent()
            assert frame.x0 <= box.x0 and box.x1 <= figure.bbox.x1
            assert not any(box.overlaps(name.get_window_extent()) for name in ax.get_yticklabels())
        shown = ["".join(text.split()) for text in ticks(display)]
        assert set(shown) == {"".join(name.split()) for name in names}


def test_dependence():
    display = ShapleyDependenceDisplay.from_estimator(MODEL, X, "bmi", color=8)
    x, y = np.asarray(display.points_.get_offsets()).T
    np.testing.assert_array_equal(x, X["bmi"])
    np.testing.assert_array_equal(y, VALUES[:, 2])
    np.testing.assert_array_equal(display.points_.get_array(), X["s5"])
    plain = ShapleyDependenceDisplay([1.0, 2.0, 3.0], [0.5, np.nan, 1.5]).plot()
    assert len(plain.points_.get_offsets()) == 2


@pytest.mark.parametrize("call, message", [
    (lambda: BeeswarmDisplay(VALUES, X.iloc[:5]), "data must have the shape"),
    (lambda: BeeswarmDisplay(VALUES[0], X), "values must have the shape"),
    (lambda: BeeswarmDisplay(VALUES, X).plot(max_features=0), "max_features must be"),
    (lambda: BeeswarmDisplay(VALUES, X, feature_names=["a"]), "feature_names has 1"),
    (lambda: WaterfallDisplay(VALUES, 0.0), r"values must have the shape \(n_features,\)"),
    (lambda: WaterfallDisplay(VALUES[0], np.nan), "base_value must hold finite"),
    (lambda: WaterfallDisplay.from_estimator(MODEL, X), "X must have one row, got 442"),
    (lambda: ShapleyDependenceDisplay.from_estimator(MODEL, X, "bmj"), "feature must be"),
    (lambda: ShapleyDependenceDisplay.from_estimator(MODEL, X, 10), "feature must be below"),
    (lambda: ShapleyDependenceDisplay([1.0], [1.0, 2.0]), "data must have the shape"),
])  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
