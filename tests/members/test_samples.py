"""What the models of an ensemble predict for the training rows that they did not see."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from gpuens.devices.placement import CPU
from gpuens.members.samples import OutOfBag, left_out, out_of_bag_score


def added(n_rows, width, answers):
    sums = OutOfBag(n_rows, width, CPU)
    for rows, values in answers:
        sums.add(np.array(rows), np.array(values, float))
    return sums


def test_left_out():
    for dtype in (np.uint8, np.int32, np.int64):
        np.testing.assert_array_equal(left_out(np.array([0, 2, 1, 0], dtype)), [0, 3])
    assert left_out(np.array([1, 4])).size == 0


def test_means_by_hand():
    sums = added(3, 2, [([0, 2], [[1, 0], [0.5, 0.5]]), ([2, 1], [[0, 1], [0.25, 0.75]])])
    np.testing.assert_array_equal(sums.n_models, [1, 1, 2])
    np.testing.assert_array_equal(sums.mean(), [[1, 0], [0.25, 0.75], [0.25, 0.75]])


def test_one_column_needs_no_second_axis():
    sums = added(3, 1, [([0, 2], [5.0, 7.0]), ([0, 1], [[1.0], [2.0]])])
    np.testing.assert_array_equal(sums.mean(), [[3], [2], [7]])


def test_rows_that_all_models_saw():
    sums = added(4, 2, [([1], [[1, 0]]), ([1, 3], [[0, 1], [0, 1]])])
    with pytest.warns(UserWarning, match=r"Some inputs do not have OOB scores.*2 of 4 rows"):
        mean = sums.mean()
    np.testing.assert_array_equal(mean, [[np.nan] * 2, [0.5, 0.5], [np.nan] * 2, [0, 1]])


class TestScore:
    TARGET = np.array(["a", "b", "b", "a"])
    MEAN = np.array([[0.9, 0.1], [0.9, 0.1], [np.nan, np.nan], [0.6, 0.4]])

    @staticmethod
    def predict(mean):
        return np.array(["a", "b"])[mean.argmax(axis=1)]

    def test_rows_without_a_prediction_do_not_count(self):
        score = out_of_bag_score(accuracy_score, self.TARGET, self.MEAN, self.predict)
        assert score == 2 / 3 and type(score) is float

    def test_the_metric_gets_what_the_user_knows(self):
        def metric(y_true, y_pred):
            assert y_true.tolist() == ["a", "b", "a"] and y_pred.tolist() == ["a", "a", "a"]
            return 7

        assert out_of_bag_score(metric, self.TARGET, self.MEAN, self.predict) == 7

    def test_without_any_prediction_there_is_no_score(self):
        mean = np.full((4, 2), np.nan)
        assert math.isnan(out_of_bag_score(accuracy_score, self.TARGET, mean, self.predict))


def test_no_warning_where_every_row_was_left_out():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean = added(2, 1, [([0, 1], [1.0, 2.0])]).mean()
    np.testing.assert_array_equal(mean, [[1], [2]])
