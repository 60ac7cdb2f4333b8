"""Samples of the members of a bag, and predictions for the rows that are not in them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import CPU, Device, to_numpy
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers
from ..numerics.sampling import SamplingPlan

FEW_DRAWS = 10
MOST_DRAWS = 2**31 - 1
"""Largest size of a sample, whose repetitions of a row are counted in int32."""


class SampledMembers(BaseEstimator):
    """An ensemble as a sequence of its ``estimators_``, with the samples they were fitted on.

    ``_plans`` has the plan of each member, which draws its sample again.
    """

    @property
    def estimators_samples_(self) -> list[np.ndarray]:
        """The rows of each member's sample, ascending, with repetitions; drawn again on request."""
        check_is_fitted(self)
        return [plan.rows(member) for member, plan in enumerate(self._plans)]

    def __len__(self) -> int:
        check_is_fitted(self)
        return len(self._plans)

    def __getitem__(self, member: int) -> Any:
        return self.estimators_[member]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimators_)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out members that are made on request (see ``made_members``)."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_members"}


def made_members(ensemble: Any, n_members: int) -> list[Any]:
    """Return members that ``ensemble._member(number)`` makes, each made once."""
    members: list[Any] = ensemble.__dict__.setdefault("_members", [])
    members += [ensemble._member(m) for m in range(len(members), n_members)]
    return members


class Samples(Sequence[Any]):
    """Counts of the members' samples, drawn when they are read."""

    def __init__(self, plan: SamplingPlan, members: range, device: Device) -> None:
        self.plan, self.members, self.device = plan, members, device

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, i: Any) -> Any:
        return self.plan.counts(self.members[i], self.device)


def sampling_plan(bag: Any, n_rows: int, weight: np.ndarray | None, seed: int) -> SamplingPlan:
    """Return the plan of sampling by the parameters of a bag. Raises a ValueError if more rows are
    to be drawn without replacement than there are (with a positive weight), or more features."""
    if weight is not None and not bag.bootstrap:
        warnings.warn(
            f"When fitting {type(bag).__name__} with sample_weight it is recommended to use "
            f"bootstrap=True, got {bag.bootstrap}.",
            stacklevel=4,
        )
    n_draws = _rows_to_draw(bag.max_samples, n_rows, weight)
    if not bag.bootstrap:
        _require_rows(n_draws, n_rows, weight)
    if weight is not None and bool((weight == weight[0]).all()):
        weight = None  # gives the same samples, and faster
    n_features = bag.n_features_in_
    return SamplingPlan(
        n_rows=n_rows,
        n_draws=n_draws,
        replace=bool(bag.bootstrap),
        n_features=n_features,
        n_feature_draws=features_to_draw(bag.max_features, n_features),
        replace_features=bool(bag.bootstrap_features),
        weight=weight,
        seed=seed,
    )


def features_to_draw(max_features: int | float, n_features: int) -> int:
    """Return the number of features that ``max_features`` means, a number or a share. Raises a
    ValueError if there are fewer."""
    wanted = max_features if isinstance(max_features, Integral) else max_features * n_features
    if wanted > n_features:
        raise ValueError(
            f"max_features must be <= n_features, got max_features={max_features} for X with "
            f"{n_features} features. Pass at most that many, or a share such as 0.5."
        )
    return max(1, int(wanted))


def _rows_to_draw(max_samples: Any, n_rows: int, weight: np.ndarray | None) -> int:
    """Return the size of a sample: all rows, a number, or a share of the rows (with weights, of
    their sum)."""
    if max_samples is None:
        return n_rows
    if isinstance(max_samples, Integral):
        return int(max_samples)
    total = n_rows if weight is None else float(weight.sum())
    n_draws = max(1, int(max_samples * total))
    if n_draws > MOST_DRAWS:
        raise ValueError(
            f"{max_samples=} is a share of the sum of sample_weight, which is {total:g}: more rows "
            "than a sample may have. Divide sample_weight by a constant, or pass max_samples as an "
            "integer."
        )
    if n_draws < max(FEW_DRAWS, n_rows ** (1 / 3)):
        what = "number of samples" if weight is None else "total sum of sample weights"
        warnings.warn(
            f"Using the fractional value {max_samples=} when the {what} is {total} results in a "
            f"low number ({n_draws}) of bootstrap samples. We recommend passing `max_samples` as "
            "an integer instead.",
            stacklevel=4,
        )
    return n_draws


def _require_rows(n_draws: int, n_rows: int, weight: np.ndarray | None) -> None:
    """Refuse to draw more rows without replacement than there are."""
    if n_draws > n_rows:
        raise ValueError(
            f"Effective max_samples={n_draws} must be <= n_samples={n_rows} to be able to sample "
            "without replacement. Lower max_samples, or set bootstrap=True."
        )
    if weight is not None and n_draws > (positive := np.count_nonzero(weight)):
        raise ValueError(
            f"sample_weight is positive for {positive} rows, fewer than the {n_draws} that are "
            "drawn without replacement. Lower max_samples, or set bootstrap=True."
        )


def rows_of_share(values: Array, workers: Workers) -> Array:
    """Return the values of this worker's rows, of an array that has those of all."""
    if workers is ONE_WORKER:
        return values
    return values[workers.first : workers.first + workers.n_own]


Metric = Callable[[np.ndarray, np.ndarray], Any]


def left_out(counts: Any) -> Any:
    """Return the rows, ascending, that are not in a sample, by how often each is."""
    return (counts == 0).nonzero()[0]


class OutOfBag:
    """Sums of the out-of-bag predictions of each training row, (n_rows, width), and the number of
    models that did not see it. Predictions are added model by model; two devices get the same sums
    if they do so in the same order."""

    def __init__(self, n_rows: int, width: int, device: Device) -> None:
        self.sums = device.xp.zeros((n_rows, width))
        self.n_models = device.xp.zeros(n_rows, dtype=device.xp.int32)

    @classmethod
    def of_workers(cls, own: OutOfBag, workers: Workers) -> OutOfBag:
        """Return the sums of the rows of all workers, each of which has its own."""
        if workers is ONE_WORKER:
            return own
        total = cls(0, own.sums.shape[1], CPU)
        total.sums = np.concatenate(workers.collective.gather(own.sums))
        total.n_models = np.concatenate(workers.collective.gather(own.n_models))
        return total

    def add(self, rows: Array, predictions: Array) -> None:
        """Add the predictions (m, width), or for one column (m,), of a model for m rows that it did
        not see."""
        self.sums[rows] += predictions.reshape(-1, self.sums.shape[1])
        self.n_models[rows] += 1

    def mean(self) -> np.ndarray:
        """Return the mean prediction of each row, NumPy: NaN in the rows that every model has seen;
        a UserWarning says how many there are."""
        sums, n_models = to_numpy(self.sums), to_numpy(self.n_models)
        unseen = n_models > 0
        if not unseen.all():
            warnings.warn(
                "Some inputs do not have OOB scores. This probably means too few estimators "
                "were used to compute any reliable oob estimates. "
                f"({np.count_nonzero(~unseen)} of {unseen.size} rows were in every sample; "
                "their prediction is NaN. Raise n_estimators.)",
                stacklevel=5,
            )
        mean = np.full(sums.shape, np.nan)
        np.divide(sums, n_models[:, None], out=mean, where=unseen[:, None])
        return mean


def accuracy(true: np.ndarray, predicted: np.ndarray) -> float:
    """Return the share of rows whose labels are all predicted correctly."""
    return float(np.mean((true == predicted).reshape(len(true), -1).all(axis=1)))


def out_of_bag_score(
    metric: Metric, target: np.ndarray, mean: np.ndarray, predict: Callable[[np.ndarray], Any]
) -> float:
    """Return the score of the rows that have an out-of-bag prediction in ``mean``, NaN without any.
    ``predict`` makes what is compared with the user's ``target`` from rows of ``mean``."""
    unseen = ~np.isnan(mean[:, 0])
    if not unseen.any():
        return float("nan")
    return float(metric(target[unseen], predict(mean[unseen])))
