"""Out-of-bag estimates of a forest: predictions for rows by the trees that did not see them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..devices.placement import CPU, Device, to_numpy
from ..forest.forest import Forest
from ..kernels.runtime.arrays import Array
from ..members.out_of_bag import OutOfBagTrees
from ..members.samples import accuracy, left_out, out_of_bag_score, rows_of_share
from ..trees.training_data import OutputClasses, TrainingData
from .growing import Progress, pruned, trees_of

OOB_ATTRIBUTES = ("oob_score_", "oob_scores_path_", "oob_decision_function_", "oob_prediction_")


def _out_of_bag_of(estimator: Any, data: TrainingData, device: Device) -> OutOfBagTrees:
    """Return the sums of a forest that grows."""
    classes: OutputClasses | None = estimator._output_classes
    if data.values is None:
        raise ValueError("Rows are predicted while trees grow, but the table was not kept.")
    sizes = () if classes is None else classes.sizes
    width = data.problem.width
    truth = rows_of_share(data.truth, data.workers)
    counts = estimator._plan.counts
    return OutOfBagTrees(data.values, counts, truth, sizes, width, device, data.workers)


class ForestReport(Progress):
    """Progress of the growth of a forest, with out-of-bag estimates that the estimator gets;
    ``before`` are the trees that a warm start continues from."""

    def __init__(
        self, estimator: Any, data: TrainingData, before: Forest | None, device: Device
    ) -> None:
        n_before = 0 if before is None else before.n_trees
        super().__init__(n_before, estimator.n_estimators, estimator.verbose)
        self.estimator = estimator
        self.truth = data.truth
        self.out_of_bag = _out_of_bag_of(estimator, data, device)
        if before is not None:
            self.out_of_bag.add(0, before)

    def __call__(self, first: int, forest: Forest, records: Any) -> bool:
        self.out_of_bag.add(self.first + first, pruned(forest, self.estimator.ccp_alpha))
        return super().__call__(first, forest, records)

    def finish(self) -> None:
        """Close the progress bar and set the out-of-bag attributes."""
        super().finish()
        self.estimator.oob_scores_path_ = self.out_of_bag.path()
        total = self.out_of_bag.of_all_rows()
        set_out_of_bag(self.estimator, total.mean(), self.truth)


def set_out_of_bag(estimator: Any, mean: np.ndarray, truth: np.ndarray) -> None:
    """Set the out-of-bag prediction of a forest, ``mean`` (n_rows, width) with NaN where there is
    none, and its score against ``truth``, class numbers or targets (n_rows, n_outputs)."""
    classes: OutputClasses | None = estimator._output_classes
    single = truth.shape[1] == 1
    if classes is None:
        from sklearn.metrics import r2_score

        estimator.oob_prediction_ = mean[:, 0] if single else mean
        target = truth[:, 0] if single else truth
        score = out_of_bag_score(
            _metric(estimator, r2_score), target, mean, lambda rows: rows[:, 0] if single else rows
        )
    else:
        shares = [np.ascontiguousarray(share.T) for share in classes.shares(mean.T)]
        if single:
            estimator.oob_decision_function_ = shares[0]
        elif len(set(classes.sizes)) == 1:
            estimator.oob_decision_function_ = np.stack(shares, axis=2)
        else:
            estimator.oob_decision_function_ = shares
        score = out_of_bag_score(
            _metric(estimator, accuracy),
            to_numpy(classes.decoded(list(truth.T), CPU)),
            mean,
            lambda rows: classes.decoded(classes.largest(rows.T), CPU),
        )
    estimator.oob_score_ = score


def _metric(estimator: Any, default: Any) -> Any:
    return estimator.oob_score if callable(estimator.oob_score) else default


def row_errors(classes: OutputClasses | None, raw: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the error of each row, averaged over the outputs: 1 for a wrong class and 0 for the
    right one, or for regression the squared error. ``raw`` is (width, n_rows), ``truth`` (n_rows,
    n_outputs)."""
    if classes is None:
        return ((raw.T - truth) ** 2).mean(axis=1)
    wrong = [number != truth[:, o] for o, number in enumerate(classes.largest(raw))]
    return np.mean(wrong, axis=0)


class KnownRows(NamedTuple):
    """The training rows of a forest, to be predicted again: values on the device; on the host
    ``truth``, class numbers or targets (n_rows, n_outputs), and weights."""

    values: Array
    truth: np.ndarray
    weight: np.ndarray
    device: Device


def permutation_importances(
    estimator: Any, known: KnownRows, n_repeats: int, rng: np.random.Generator
) -> np.ndarray:
    """Return how much the error of each tree on the rows outside its sample rises once a feature is
    shuffled among these (Breiman 2001, section 10), the mean of ``n_repeats`` shuffles: float64,
    shape (n_features, n_trees), 0 where a tree does not use a feature, or has no rows outside its
    sample."""
    classes, plan = estimator._output_classes, estimator._plan

    def error(table: np.ndarray, rows: np.ndarray, tree: Forest) -> float:
        raw = to_numpy(tree.raw_predict(known.device.asarray(table), known.device))
        errors = row_errors(classes, raw, known.truth[rows])
        return float(np.average(errors, weights=known.weight[rows]))

    rises = np.zeros((known.values.shape[1], estimator.forest_.n_trees))
    for t, tree in enumerate(trees_of(estimator.forest_)):
        rows = left_out(plan.counts(t, CPU))
        if rows.size == 0 or not known.weight[rows].sum() > 0:
            continue
        table = to_numpy(known.values[known.device.asarray(rows)]).copy()
        whole = error(table, rows, tree)
        for f in tree.used_features:
            kept = table[:, f].copy()
            for _ in range(n_repeats):
                table[:, f] = rng.permutation(kept)
                rises[f, t] += (error(table, rows, tree) - whole) / n_repeats
            table[:, f] = kept
    return rises
