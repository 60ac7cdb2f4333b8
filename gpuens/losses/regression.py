"""Losses of regression: squared, absolute, Huber, quantile, expectile, of positive targets."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..devices.placement import Device, to_numpy
from ..forest.sum_of_trees import IDENTITY, SORTED, Link
from ..kernels.boosting.many_models import leaf_quantiles_of_models, lines_of
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import largest_of_all, selected
from ..kernels.runtime.dtypes import NodeValues
from ..kernels.runtime.each import each
from ..kernels.scalars import elementary
from ..kernels.scalars import losses as formulas
from ..kernels.scalars.primitives import vectorise
from ..kernels.statistics.gradients import row_values
from ..numerics.weighted import weighted_expectile, weighted_quantile, whole_weights
from .base import RegressionLoss, columns_first, first_row
from .joint_rows import JointRows
from .leaves import LeafBatch, LeafLines, huber_steps, residual_quantiles
from .safe_steps import largest_step

exp, log = vectorise(elementary.exp), vectorise(elementary.log)


@dataclass(frozen=True)
class SquaredError(RegressionLoss):
    """½ (y - f)²: the mean."""

    name: ClassVar[str] = "squared_error"

    def formula(self, k: int) -> Any:
        return formulas.SquaredError()

    def _constant(self, k: int, target: Array, weight: Array, device: Device) -> float:
        return self._mean(target, weight, device)


class ValuesOfLines(RegressionLoss):
    """A loss whose leaf values are not Newton steps: each of them is one of its rows alone."""

    @staticmethod
    def values_of_lines(lines: LeafLines, parameters: Sequence[float]) -> list[NodeValues]:
        """Compute the values of the nodes of trees, and the sums of their hessians. The trees may
        be those of several losses of this class."""
        raise NotImplementedError

    def parameter_of_values(self, k: int) -> float:
        """Return what the values of output k depend on."""
        raise NotImplementedError

    def leaf_values(self, batch: LeafBatch, outputs: range) -> Sequence[NodeValues]:
        parameters = [self.parameter_of_values(k) for k in outputs]
        if batch.device.runs_ahead:  # where trees share launches
            return self.values_of_lines(batch.lines(slice(0, len(outputs))), parameters)

        def of_tree(i: int) -> NodeValues:
            own = slice(i, i + 1)
            return self.values_of_lines(batch.lines(own), parameters[own])[0]

        return each(of_tree, range(len(outputs)), batch.g[0], self.workers)


class _QuantileLeaves(ValuesOfLines):
    """A loss whose best constant is a quantile of the targets, and whose leaf values are that
    quantile of the residuals, without regularisation."""

    exact_leaves: ClassVar[bool] = True
    reads_raw: ClassVar[bool] = True

    def _quantile(self, k: int) -> float:
        raise NotImplementedError

    def _constant(self, k: int, target: Array, weight: Array, device: Device) -> float:
        whole = whole_weights(weight, device, self.workers)
        return weighted_quantile(target, whole, self._quantile(k), device, self.workers)

    def parameter_of_values(self, k: int) -> float:
        return self._quantile(k)

    @staticmethod
    def values_of_lines(lines: LeafLines, parameters: Sequence[float]) -> list[NodeValues]:
        pairs = zip(residual_quantiles(lines, parameters), lines.cover, strict=True)
        return [NodeValues(*own) for own in pairs]


@dataclass(frozen=True)
class AbsoluteError(_QuantileLeaves):
    """\\|y - f\\|: the median. Leaf values are medians of the residuals."""

    name: ClassVar[str] = "absolute_error"

    def formula(self, k: int) -> Any:
        return formulas.AbsoluteError()

    def _quantile(self, k: int) -> float:
        return 0.5


@dataclass(frozen=True)
class Quantile(_QuantileLeaves):
    """Koenker and Bassett's (1978) loss of a quantile, or of several at once.

    Parameters
    ----------
    quantile : float or sequence of float
        In (0, 1). Several quantiles are trained as independent outputs, whose raw predictions
        may cross: predictions are these in the order of the quantiles, which lowers the loss of
        every row where they cross, and changes nothing elsewhere (Chernozhukov, Fernández-Val and
        Galichon, "Quantile and probability curves without crossing", 2010). The metric "loss" is
        that of the raw predictions.
    """

    quantile: float | Sequence[float]
    name: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        several = isinstance(self.quantile, (Sequence, np.ndarray))
        entries: Any = self.quantile if several and not isinstance(self.quantile, str) else None
        entries = [self.quantile] if entries is None else list(entries)
        wrong = [q for q in entries if not isinstance(q, numbers.Real) or not 0 < float(q) < 1]
        if wrong or not entries:
            raise ValueError(
                "quantile must be a number in (0, 1), or a list of these, got "
                f"{wrong[0] if wrong else self.quantile!r}."
            )
        self.__dict__["quantile"] = tuple(map(float, entries)) if several else float(entries[0])
        self.__dict__["n_outputs"] = len(entries)

    @property
    def _several(self) -> bool:
        return isinstance(self.quantile, tuple)

    @property
    def link(self) -> Link | None:
        if not isinstance(self.quantile, tuple) or self.n_outputs == 1:
            return IDENTITY
        return SORTED if list(self.quantile) == sorted(self.quantile) else None

    def for_targets(self, n_targets: int) -> Quantile:
        if self._several and n_targets > 1:
            raise ValueError(
                f"quantile={self.quantile!r} has several quantiles, and y has {n_targets} targets: "
                "fit a model for each target, or pass one quantile."
            )
        return self if self._several else self._with(n_outputs=n_targets)

    def formula(self, k: int) -> Any:
        return formulas.Quantile(self._quantile(k))

    def _quantile(self, k: int) -> float:
        return self.quantile[k] if isinstance(self.quantile, tuple) else float(self.quantile)  # type: ignore[arg-type]

    def predict(self, raw: Array, device: Device) -> Array:
        if not isinstance(self.quantile, tuple):
            return super().predict(raw, device)
        order = np.argsort(self.quantile, kind="stable").tolist()
        found = list(raw)
        for end in range(len(order) - 1, 0, -1):  # bubble sort, of all rows at once
            for low, high in zip(order[:end], order[1 : end + 1], strict=True):
                _exchange(found, low, high, device)
        return device.xp.stack(found, axis=1)

    def raw_of(self, predicted: np.ndarray) -> np.ndarray:
        """Every quantile starts from predictions of one column."""
        columns = columns_first(predicted)
        return columns.repeat(self.n_outputs, axis=0) if columns.shape[0] == 1 else columns


def _exchange(columns: list[Array], low: int, high: int, device: Device) -> None:
    """Exchange the entries of two columns where the first is larger; no others change a bit."""
    a, b = columns[low], columns[high]
    cross = a > b
    columns[low], columns[high] = device.xp.where(cross, b, a), device.xp.where(cross, a, b)


@dataclass(frozen=True)
class Expectile(RegressionLoss):
    """\\|τ - 1(y < f)\\| (y - f)²: the expectile of level τ (Newey and Powell 1987).

    Expectiles are to the mean what quantiles are to the median: the expectile of level 0.5 is the
    mean, its model that of ``SquaredError``, and those of higher levels lie above it. The excesses
    of the targets over it are (1 - τ) / τ times as large, on average, as those of it over the
    targets.

    A row below its prediction has another second derivative than one above it, by a factor
    τ / (1 - τ), so that a Newton step that takes rows from one side to the other can be too long.
    The hessian is at least 1/20 of the larger one, and learning rates above 2 (1 - τ) / τ, for τ
    above one half, or above 0.1 where that is less, are lowered to that: no step raises the loss.

    Parameters
    ----------
    alpha : float
        The level τ, in (0, 1); the parameter ``quantile`` of estimators.
    """

    alpha: float
    name: ClassVar[str] = "expectile"

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, numbers.Real) or not 0 < float(self.alpha) < 1:
            raise ValueError(
                "alpha of Expectile, which is quantile with loss='expectile', must be a number in "
                f"(0, 1), got {self.alpha!r}. Several expectiles take a model each."
            )
        self.__dict__["alpha"] = float(self.alpha)

    def formula(self, k: int) -> Any:
        return formulas.Expectile(float(self.alpha))

    def _constant(self, k: int, target: Array, weight: Array, device: Device) -> float:
        return weighted_expectile(target, weight, float(self.alpha), device, self.workers)

    def safe_rate(self, learning_rate: float) -> float:
        """Moves d of the rows of a leaf with the gradients G and hessians H change the loss by at
        most G d + L d² / 2, L being the sum of the larger second derivatives. With d = -r G / H
        that is negative or zero up to the rate r = 2 H / L."""
        smaller, larger = sorted((float(self.alpha), 1.0 - float(self.alpha)))
        return min(learning_rate, 2.0 * max(smaller / larger, formulas.LEAST_HESSIAN))


@dataclass(frozen=True)
class Huber(ValuesOfLines):
    """Squared for small residuals, absolute for large ones (Huber 1964).

    The threshold δ is a quantile of the absolute residuals, computed again in every round; leaf
    values are Friedman's step from the median (Friedman 2001, algorithm 4). The metric "loss"
    always uses the δ of the best constant, so that its values can be compared.

    Parameters
    ----------
    alpha : float, default=0.9
        The quantile, in (0, 1): the share of residuals that count as small. If that quantile is
        0, δ is the largest residual.
    """

    alpha: float = 0.9
    name: ClassVar[str] = "huber"
    reads_raw: ClassVar[bool] = True
    deltas: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, numbers.Real) or not 0 < float(self.alpha) < 1:
            raise ValueError(f"alpha of Huber must be a number in (0, 1), got {self.alpha!r}.")
        self.__dict__["alpha"] = float(self.alpha)

    def formula(self, k: int) -> Any:
        return formulas.Huber(self.deltas[k])

    def _delta(self, residual: Array, whole_weight: Array, device: Device) -> float:
        size = abs(residual)
        delta = weighted_quantile(size, whole_weight, float(self.alpha), device, self.workers)
        largest = float(size.max()) if size.size else 0.0
        return delta or largest_of_all(largest, self.workers) or 1.0

    def _constant(self, k: int, target: Array, weight: Array, device: Device) -> float:
        whole = whole_weights(weight, device, self.workers)
        median = weighted_quantile(target, whole, 0.5, device, self.workers)
        delta = self._delta(target - median, whole, device)
        clipped = device.xp.clip(target - median, -delta, delta)
        return median + self._mean(clipped, weight, device)

    def on_training_rows(self, y: Array, weight: Array, base: np.ndarray, device: Device) -> Huber:
        raw = device.xp.zeros((base.size, y.shape[-1])) + device.asarray(base)[:, None]
        empty = device.xp.empty(0, dtype=device.xp.int32)
        whole = whole_weights(weight, device, self.workers)
        return self.in_round(0, y, raw, whole, empty, device)

    def in_round(
        self, index: int, y: Array, raw: Array, whole_weight: Array, sample: Array, device: Device
    ) -> Huber:
        rows = sample if sample.size else slice(None)
        own_weight = selected(whole_weight, rows) if whole_weight.size else whole_weight
        targets = (self.targets(y, k, device) for k in range(self.n_outputs))
        return self._with(
            deltas=tuple(
                self._delta(selected(target - raw[k], rows), own_weight, device)
                for k, target in enumerate(targets)
            )
        )

    @staticmethod
    def in_round_of_models(
        losses: Sequence[Any], rows: JointRows, samples: Sequence[Array]
    ) -> Sequence[Any]:
        own_lines = lines_of([rows.n_outputs] * len(losses))
        alphas = [float(loss.alpha) for loss in losses for _ in range(rows.n_outputs)]
        size, leaf = abs(rows.target_of_trees - rows.raw), rows.sample_lines(samples)
        _, weight = rows.weights_of_trees
        weighted = leaf
        if weight.size:
            weighted = rows.device.xp.where(weight == 0, leaf.dtype.type(-1), leaf)
        found = leaf_quantiles_of_models(weighted, size, weight, alphas, 1)[:, 0]
        if not found.all():
            largest = to_numpy(rows.device.xp.where(leaf == 0, size, 0.0).max(axis=1))
            found = np.where(found == 0.0, np.where(largest == 0.0, 1.0, largest), found)
        deltas = [tuple(found[own].tolist()) for own in own_lines]
        return [loss._with(deltas=own) for loss, own in zip(losses, deltas, strict=True)]

    def parameter_of_values(self, k: int) -> float:
        return self.deltas[k]

    @staticmethod
    def values_of_lines(lines: LeafLines, parameters: Sequence[float]) -> list[NodeValues]:
        pairs = zip(huber_steps(lines, parameters), lines.cover, strict=True)
        return [NodeValues(*own) for own in pairs]


class _PositiveLoss(RegressionLoss):
    """A loss with the prediction eᶠ; its best constant predicts the mean."""

    zero_allowed: ClassVar[bool] = True

    @property
    def link(self) -> Link:
        return Link("exp")

    def check_target(self, y: Array, name: str) -> None:
        wrong = y < 0 if self.zero_allowed else y <= 0
        if not bool(wrong.any()):
            return
        place = first_row(wrong)
        wants = "non-negative y and sum(y) > 0" if self.zero_allowed else "strictly positive y"
        raise ValueError(
            f"loss={self.name!r} requires {wants}. {name} is {float(y[place[::-1]])} in row "
            f"{place[0]}: drop such rows, or use another loss such as 'squared_error'."
        )

    def largest_step(self, learning_rate: float) -> float:
        return largest_step(learning_rate)

    def check_training(self, y: Array, weight: Array, device: Device) -> None:
        for k in range(self.n_outputs):
            target = self.targets(y, k, device)
            if not self._mean(target, weight, device) > 0:
                raise ValueError(
                    f"loss={self.name!r} requires non-negative y and sum(y) > 0. y is zero in "
                    "every row of positive weight: there is nothing to learn."
                )

    def _constant(self, k: int, target: Array, weight: Array, device: Device) -> float:
        return float(log(np.float64(self._mean(target, weight, device))))

    def raw_of(self, predicted: np.ndarray) -> np.ndarray:
        if not (predicted > 0).all():
            raise ValueError(
                f"loss={self.name!r} starts from the logarithm of what init predicts, which must "
                f"be positive, but is {float(np.min(predicted))} for a row: pass an init such as "
                "PoissonRegressor(), or init=None."
            )
        return log(columns_first(predicted))

    def predict(self, raw: Array, device: Device) -> Array:
        rows = [raw[k] for k in range(self.n_outputs)]
        means = device.xp.stack([row_values(formulas.LogLink(), f, f, f[:0]) for f in rows])
        return super().predict(means, device)


@dataclass(frozen=True)
class Poisson(_PositiveLoss):
    """eᶠ - y f: half the Poisson deviance, except for terms without f. For counts, and for rates
    with the exposure as ``sample_weight``.

    Parameters
    ----------
    max_delta_step : float, default=0.0
        >= 0. The hessian is computed at a raw prediction that is larger by this, which makes
        steps shorter, like a lower learning rate. The default of LightGBM and XGBoost is 0.7.
    """

    max_delta_step: float = 0.0
    name: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        step = self.max_delta_step
        if not isinstance(step, numbers.Real) or not 0 <= float(step) < np.inf:
            raise ValueError(
                f"max_delta_step of Poisson must be a finite number >= 0, got {step!r}."
            )

    def formula(self, k: int) -> Any:
        return formulas.Poisson(float(exp(np.float64(self.max_delta_step))))


@dataclass(frozen=True)
class Gamma(_PositiveLoss):
    """f + y e⁻ᶠ: half the gamma deviance, except for terms without f. For positive amounts."""

    name: ClassVar[str] = "gamma"
    zero_allowed: ClassVar[bool] = False

    def formula(self, k: int) -> Any:
        return formulas.Gamma()


@dataclass(frozen=True)
class Tweedie(_PositiveLoss):
    """Half the Tweedie deviance, except for terms without f. For amounts of which many are zero.

    Parameters
    ----------
    power : float, default=1.5
        In (1, 2): the variance grows with this power of the mean. The limits are ``Poisson`` (1)
        and ``Gamma`` (2).
    """

    power: float = 1.5
    name: ClassVar[str] = "tweedie"

    def __post_init__(self) -> None:
        if not isinstance(self.power, numbers.Real) or not 1 < float(self.power) < 2:
            raise ValueError(
                f"power of Tweedie must be a number in (1, 2), got {self.power!r}. Use "
                "loss='poisson' for 1 and loss='gamma' for 2."
            )
        self.__dict__["power"] = float(self.power)

    def formula(self, k: int) -> Any:
        return formulas.Tweedie(float(self.power))
