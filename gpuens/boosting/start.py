"""The start of boosting: a model that training continues, or the predictions of ``init``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..devices.placement import Device, to_numpy
from ..estimators.base import ForestEstimator
from ..forest.forest import Forest
from ..forest.sum_of_trees import NotASumOfTreesError, SumOfTrees
from ..kernels.runtime.arrays import Array
from ..losses import Loss
from .data.auto_values import most_rounds
from .data.tables import FeatureTable, table_of
from .round_data import BoostingResult, RawRows

FOUND_BY_TRAINING = (
    "learning_rate_", "grow_policy_", "unique_times_", "baseline_cumulative_hazard_",
)  # fmt: skip
"""Attributes that only some trainings set, which the next one forgets."""


class StartsFromPredictions(ForestEstimator):
    """A sum of trees that begins with the predictions of another model, ``init_``, where ``init``
    is an estimator.

    The model reads the table that the trees read, as scikit-learn's boosting has it: numbers, the
    numbers of categories, and of classes. Its predictions come first in every sum, so that all ways
    to the raw predictions give the same bits.
    """

    _fitted_loss: Loss
    n_estimators: Any
    warm_start: bool

    def _result_before(self) -> BoostingResult | None:
        """Return the model that a warm start continues; without a warm start, forget the model."""
        if not hasattr(self, "forest_"):
            return None
        if not self.warm_start:
            del self.forest_
            return None
        if self.n_estimators == "auto":
            raise ValueError(
                "n_estimators='auto' begins a model, and warm_start=True continues one: pass "
                "a number of rounds, or set warm_start=False."
            )
        if most_rounds(self) < self.n_iter_:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be larger or equal to the "
                f"{self.n_iter_} rounds of the model that warm_start=True continues. Raise it, or "
                "set warm_start=False to start again."
            )
        return BoostingResult(
            self.forest_, self.n_iter_, self.evals_result_, self.stopped_,
            dropout=vars(self).get("_dropout"),
        )  # fmt: skip

    def _result_of(self, init: Any) -> BoostingResult:
        """Take over the attributes of the model ``init`` and return its result."""
        if type(init) is not type(self):
            raise TypeError(
                f"init must be a fitted {type(self).__name__}, got {type(init).__name__}."
            )
        if not hasattr(init, "forest_"):
            raise ValueError(f"init must be fitted, got {init!r} before its fit.")
        params = self.get_params(deep=False)
        others = *params, *FOUND_BY_TRAINING
        learned = {name: value for name, value in vars(init).items() if name not in others}
        self.__dict__ = {name: getattr(self, name) for name in params} | learned
        return BoostingResult(init.forest_, init.n_iter_, init.evals_result_, init.stopped_)

    def _fit_start(self, rows: RawRows, constant: np.ndarray) -> np.ndarray:
        """Fit the model ``init`` that training starts from, on the training rows.

        Parameters
        ----------
        rows : RawRows
        constant : float64, shape (n_outputs,)
            The best constant raw prediction.

        Returns
        -------
        float64, shape (n_outputs,)
            The raw prediction that the forest begins with.
        """
        init: Any = self.init
        if not isinstance(init, str):
            self.init_ = self._fitted_on(rows, clone(init))
        return np.zeros_like(constant)

    def _fitted_on(self, rows: RawRows, model: Any) -> Any:
        table, weight = rows.table.on_host(), to_numpy(rows.weight)
        # Row by row, as the user's: sums of some estimators depend on the order in memory.
        target = np.ascontiguousarray(to_numpy(rows.target.T))
        if hasattr(self, "classes_"):
            target = target.astype(np.int64)
            if not hasattr(model, "predict_proba"):
                raise ValueError(
                    f"init must have predict_proba, since training starts from probabilities, got "
                    f"{model!r:.80}."
                )
        if not weight.size:
            return model.fit(table, target)
        if not has_fit_parameter(model, "sample_weight"):
            raise ValueError(
                f"The initial estimator {type(model).__name__} does not support sample weights: "
                "pass another init, or no weights."
            )
        return model.fit(table, target, sample_weight=weight)

    def _add_start(self, raw: Array, table: FeatureTable, device: Device) -> None:
        """Add the raw predictions of ``init_``, if there is one, in place."""
        if "init_" not in self.__dict__:
            return
        values = table.on_host()
        if hasattr(self, "classes_"):
            predicted = self.init_.predict_proba(values)
        else:
            predicted = self.init_.predict(values)
        start = self._fitted_loss.raw_of(np.asarray(to_numpy(predicted), np.float64))
        if start.shape != raw.shape:
            raise ValueError(
                f"init must predict {raw.shape[0]} columns for the {raw.shape[1]} rows, but "
                f"{type(self.init_).__name__} gives predictions of shape {np.shape(predicted)}."
            )
        if not np.isfinite(start).all():
            raise ValueError(
                f"init must have finite predictions, but those of {type(self.init_).__name__} are "
                f"not in row {int((~np.isfinite(start)).any(axis=0).argmax())}."
            )
        raw += device.asarray(np.ascontiguousarray(start))

    def _raw_before(self, trees: Forest, table: FeatureTable, device: Device) -> Array:
        """Return the raw predictions of rows, which may be in host memory, before the next round.

        Parameters
        ----------
        trees : Forest
            The rounds so far.
        table : FeatureTable
        device : Device

        Returns
        -------
        float64, shape (n_outputs, n_rows), on the device
        """
        if "init_" not in self.__dict__:
            return table.raw_predict(trees, device)
        raw = table.raw_predict(trees.slice(0, 0), device)
        self._add_start(raw, table, device)
        trees.add_to(raw, table.values, device)
        return raw

    def _raw(self, table: Array, device: Device) -> Array:
        if "init_" not in self.__dict__:
            return super()._raw(table, device)
        raw = self._first_raw(table, device)
        self.forest_.add_to(raw, table, device)
        return raw

    def _first_raw(self, table: Array, device: Device) -> Array:
        raw = super()._first_raw(table, device)
        self._add_start(raw, table_of(table), device)
        return raw

    def _sum_of_trees(self) -> SumOfTrees:
        if hasattr(self, "init_"):
            raise NotASumOfTreesError(
                "it starts from the predictions of the estimator "
                f"init={type(self.init_).__name__} (init=None trains trees alone)"
            )
        return super()._sum_of_trees()


def base_after(before: BoostingResult, loss: Loss, width: int) -> np.ndarray:
    """Return the raw prediction before the first tree of a model that training continues. Raises a
    ValueError if its trees have other outputs."""
    forest = before.forest
    if forest.n_outputs != loss.n_outputs:
        raise ValueError(
            f"The model that warm_start=True continues has {forest.n_outputs} trees a "
            f"round, loss={loss!r} and y need {loss.n_outputs}: set warm_start=False."
        )
    if forest.width != width:
        trained, asked = ("one" if each > 1 else "one each" for each in (forest.width, width))
        raise ValueError(
            f"The {loss.n_outputs} outputs of the model that training continues have {trained} "
            f"tree a round, multi_strategy asks for {asked}: set it as it was, or warm_start=False."
        )
    return forest.base
