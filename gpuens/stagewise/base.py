"""The base class of stagewise modelling, and checks of its parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from ..boosting.parameters import schedule_of
from ..callbacks import callbacks_of
from ..devices.placement import CPU, Device, on_host, resolve_device, to_numpy
from ..devices.policy import NO_WORK, Work, outputs_in, sum_of
from ..estimators.docstrings import ENDS_EARLY, FITTED, documented
from ..estimators.nothing_learned import warn_of_one_class
from ..estimators.parameters import (
    COUNT,
    HELD_OUT,
    NONE,
    NOT_NEGATIVE,
    SHARE,
    SWITCH,
    VERBOSE,
    check_callbacks,
    check_rules,
    one_of,
    seed_of,
    threads_of,
)
from ..estimators.sequential import SequentialEnsemble
from ..estimators.training import Evaluation, TrainingPlan, rounds_in_words, train
from ..estimators.validation import EarlyStopping, holdout_rows
from ..inputs.arrays import is_frame, read_table, to_input_library
from ..inputs.targets import read_sample_weight, require_finite_table
from ..kernels.runtime.arrays import Array
from ..losses import ArrayLoss, Loss, loss_of
from ..losses.distributions import DistributionLoss
from ..members.fitting import input_tags, prediction_work_of, read_features, training_work
from ..members.rows import MemberRows, home_of
from ..members.side_by_side import is_own
from ..trees.on_host import growth_on_host
from ..trees.trees import DecisionTreeRegressor
from .rounds import (
    StagewiseLearners,
    StagewiseResult,
    StagewiseRounds,
    StagewiseRows,
    check_kinds,
    check_weighted,
    directions_of,
    warn_if_nothing_was_learned,
)

RULES = {
    "n_estimators": COUNT,
    "line_search": SWITCH,
    "selection": one_of("best", "cyclic"),
    "subsample": SHARE,
    "early_stopping": SWITCH,
    "validation_fraction": NONE | HELD_OUT,
    "n_iter_no_change": COUNT,
    "tol": NOT_NEGATIVE,
    "warm_start": SWITCH,
    "verbose": VERBOSE,
}

STAGEWISE = """Parameters
    ----------
    Boosting
        What is learned, by which base learners, and in how many steps.
    estimator : regressor, list of regressors or None, default=None
        The base learner that is fitted to the negative gradients in each round; from a list,
        ``selection`` chooses. None is ``DecisionTreeRegressor(max_depth=3, max_bins=255)`` of this
        package.
    loss : <losses>
    n_estimators : int, default=100
        Largest number of rounds. Raise it until the loss on other rows stops falling, or let
        ``early_stopping`` choose.
    learning_rate : float, sequence of float, or callable, default=0.1
        Shrinkage, a factor on the steps of line search: one for all rounds, one for each, or a
        function of the round, counted from 0. Lower rates often generalise better and need more
        rounds.
    line_search : bool, default=True
        Whether base learners go as far as lowers the loss most, times ``learning_rate``. False:
        steps of 1.
    selection : {"best", "cyclic"}, default="best"
        How to choose from a list of base learners: in each round all are fitted and the one with
        the lowest loss on the round's rows after its line search is taken, or they take turns,
        which is faster.
    subsample : float, default=1.0
        Share of the rows that each round is fitted on, drawn without replacement. Lower it (0.5)
        for noisy targets and for speed.
    Early stopping
        When training ends before ``n_estimators`` rounds.
    early_stopping : bool, default=False
        Whether to hold rows out, and stop when their loss no longer falls. The rounds
        after the best one are dropped.
    n_iter_no_change : int, default=10
        Rounds without improvement before the training stops. Raise it with a low
        ``learning_rate``.
    validation_fraction : float, int or None, default=0.1
        Share or number of the rows held out. None: the loss on the training rows is watched.
    tol : float, default=1e-7
        Least fall of the loss that counts as improvement.
    Running
        Where and how training runs.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws, and of the ``random_state`` of each base learner. None is a fixed seed:
        the same call gives the same model.
    n_jobs : int or None, default=None
        Threads on the CPU; None uses all that the process may use. For base learners of other
        packages their own parameter counts.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where to work. "auto" follows the arrays; host arrays go to a usable GPU if they are large
        enough for that to be faster (``gpuens.show_config()``) and all base learners are of this
        package, else stay. Base learners that take no arrays on a GPU get copies on the host.
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower.
    verbose : bool or int, default=0
        Above 0, where the work runs, the rounds and early stopping that were chosen, a progress bar
        with the losses, and why the training ended are printed to standard error.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the rounds of the last call, to the model of a single one.
    callbacks : list or None, default=None
        Functions of the state after a round, or objects with ``after_iteration(state)``, see
        ``gpuens.callbacks``. A true result stops the training.

    Attributes
    ----------
    estimators_ : list of estimators
        The base learners: <outputs>
    estimator_weights_ : float64, shape (n_estimators,)
        The steps that line search found, one for each of ``estimators_``, without shrinkage.
    feature_importances_ : float64, shape (n_features,)
        Mean of the base learners' importances by their steps times learning rates, without signs;
        only where all of them have some, as trees do.
    learning_rates_ : float64, shape (n_rounds,)
    n_iter_ : int
        Rounds that the model keeps.
    train_score_ : float64, shape (n_rounds,)
        The mean loss over the training rows after every round.
    validation_score_ : float64, shape (n_rounds_run + 1,)
        The mean loss over the rows held out, beginning with the best constant.
    evals_result_ : dict of dict of list
        ``evals_result_["training"]["loss"]`` and, with early stopping, "validation"; entry 0 is
        the best constant.
    stopped_ : str
        Why the training ended: "finished", "early stopping", "callback", "interrupted", or
        "error", of a callback.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.
    <attributes>"""

Finish = Callable[[Array, Device], Any]


@dataclass(kw_only=True, eq=False, repr=False)
class StagewiseParameters:
    """The parameters of the classifier and the regressor."""

    estimator: Any = field(default=None, kw_only=False)
    loss: str | Loss | Callable[..., Any]
    n_estimators: int = 100
    learning_rate: float | Sequence[float] | Callable[[int], float] = 0.1
    line_search: bool = True
    selection: str = "best"
    subsample: float = 1.0
    early_stopping: bool = False
    validation_fraction: float | int | None = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-7
    warm_start: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    device: str = "auto"
    verbose: bool | int = 0
    callbacks: Any = None


class Stagewise(StagewiseParameters, SequentialEnsemble):
    """The base class of the classifier and the regressor."""

    _losses: ClassVar[tuple[type[Loss], ...]]
    """The losses that the parameter ``loss`` may name."""
    _base_score: np.ndarray
    _fitted_loss: Loss
    _seed: int
    classes_: np.ndarray
    estimators_: list[Any]

    @documented(FITTED, ends=ENDS_EARLY)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Add base learners stage by stage.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            NumPy, CuPy, torch, pandas, polars or pyarrow, with values that the base learners take.
        y : array, shape (n_rows,)
            The target: labels for a classifier, numbers for a regressor.
        sample_weight : array of shape (n_rows,), default=None
            For base learners whose ``fit`` takes weights. Rows of weight zero are as if they were
            absent.

        <shared>
        """
        check_rules(self, RULES)
        schedule_of(self.learning_rate, int(self.n_estimators))
        check_callbacks(self.callbacks)
        threads_of(self.n_jobs)
        kinds = self._kinds()
        check_kinds(kinds)
        if sample_weight is not None:
            check_weighted(kinds)
        loss = self._read_loss()
        work = self._training_work(X, y)
        device = self._device_for(kinds, X, work, y=y, sample_weight=sample_weight)
        patience = int(self.n_iter_no_change) if self.early_stopping else None
        watched = "training" if self.validation_fraction is None else "validation"
        rounds = rounds_in_words(int(self.n_estimators), patience, watched)
        self._report_choice(device, rounds)
        with growth_on_host(device, *kinds):
            return self._train(device, X, y, sample_weight, kinds, loss)

    def _training_work(self, X: Any, y: Any) -> Work | None:
        """Return the work of fitting all base learners to choose from in every round."""
        works = [training_work(kind, X, y, self.n_estimators) for kind in self._kinds()]
        known = [work for work in works if work is not None]
        return sum_of(known).times(outputs_in(y, self._of_classes())) if known else None

    def _prediction_work(self, X: Any) -> Work | None:
        return prediction_work_of(self.estimators_, X)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, kinds: list[Any], loss: Loss, device: Device
    ) -> Any:
        before = self._result_before()
        if before is None:
            self._seed = seed_of(self.random_state)
        table = MemberRows(self._read_table(X, kinds, device, before is None), device)
        target = self._read_y(y, table.n, device, before is not None)
        weight = read_sample_weight(sample_weight, table.n, device)
        weight = device.xp.empty(0) if weight is None else weight
        loss = self._bound(loss)
        loss.check_target(target, "y")
        if before is None:
            loss.check_training(target, weight, device)
        elif loss.n_outputs != self._base_score.size:
            raise ValueError(
                "The model that warm_start=True goes on from has "
                f"{self._base_score.size} base learners a round, loss={loss!r} and y ask for "
                f"{loss.n_outputs}: set warm_start=False."
            )
        training, held_out = self._split(table, target, weight, device)
        if before is None:
            base = loss.base_score(training.y, training.weight, device)
        else:
            base = self._base_score
        for rows in (training, held_out):
            if rows is not None:
                rows.raw = self._raw_so_far(rows.table, base, before, device)
        several = bool((training.y != training.y[:1]).any())
        if held_out is not None and self._of_classes() and several:
            warn_of_one_class("validation", held_out.y, self.classes_)
        before = before or StagewiseResult([], [], [], {})
        result = self._run(kinds, loss, base, training, held_out, before, device)
        warn_if_nothing_was_learned(kinds, result, training, float(self.subsample))
        self._finish(result, base, loss)
        return result.error

    def _run(
        self,
        kinds: list[Any],
        loss: Loss,
        base: np.ndarray,
        training: StagewiseRows,
        held_out: StagewiseRows | None,
        before: StagewiseResult,
        device: Device,
    ) -> StagewiseResult:
        """Run the rounds on rows whose raw predictions are those of the rounds before."""
        watched = [] if held_out is None else [("validation", held_out)]
        n_rounds = int(self.n_estimators)
        rounds = StagewiseRounds(
            self._learners(kinds, device),
            loss.on_training_rows(training.y, training.weight, base, device),
            schedule_of(self.learning_rate, n_rounds),
            training,
            [rows for _, rows in watched],
            before,
            lambda so_far: self._snapshot(so_far, base, loss),
        )
        watched.append(("training", training))
        stopping = EarlyStopping(int(self.n_iter_no_change), float(self.tol), False)
        plan = TrainingPlan(
            n_rounds,
            len(before.rates),
            before.evals,
            [Evaluation(data, "loss", rows, rounds.mean_loss) for data, rows in watched],
            stopping if self.early_stopping else None,
            callbacks_of(self),
        )
        return rounds.result(train(rounds, plan))

    def _learners(self, kinds: list[Any], device: Device) -> StagewiseLearners:
        return StagewiseLearners(
            kinds,
            self.selection == "cyclic",
            bool(self.line_search),
            float(self.subsample),
            self._seed,
            device,
        )

    def _split(
        self, table: MemberRows, target: Array, weight: Array, device: Device
    ) -> tuple[StagewiseRows, StagewiseRows | None]:
        """Return rows to train on and rows held out, neither with rows of weight zero."""
        used = np.flatnonzero(to_numpy(weight)) if weight.size else np.arange(table.n)

        def part(rows: np.ndarray) -> StagewiseRows:
            if rows.size == table.n:
                return StagewiseRows(table, target, weight, None)
            at = device.asarray(rows)
            own_weight = weight[at] if weight.size else weight
            return StagewiseRows(table.part(rows), target[at], own_weight, None)

        if not self.early_stopping or self.validation_fraction is None:
            return part(used), None
        codes = to_numpy(target).astype(np.int64)[used] if self._of_classes() else None
        trained, held_out = holdout_rows(
            used.size, self.validation_fraction, codes, self._seed, "validation_fraction"
        )
        return part(used[trained]), part(used[held_out])

    def _result_before(self) -> StagewiseResult | None:
        """Return the rounds that a warm start goes on from."""
        return self._result() if self._goes_on_from(getattr(self, "n_iter_", 0)) else None

    def _result(self) -> StagewiseResult:
        """Return the rounds of the fitted model."""
        steps, rates = self.estimator_weights_.tolist(), self.learning_rates_.tolist()
        return StagewiseResult(self.estimators_, steps, rates, self.evals_result_)

    def _finish(self, result: StagewiseResult, base: np.ndarray, loss: Loss) -> Any:
        self._base_score, self._fitted_loss = base, loss
        self.estimators_ = result.members
        self.estimator_weights_, self.learning_rates_ = result.weights()
        self.n_iter_ = len(result.rates)
        self.evals_result_ = result.evals
        self.stopped_ = result.stopped
        return self

    def _raw_so_far(
        self, table: MemberRows, base: np.ndarray, before: StagewiseResult | None, device: Device
    ) -> Array:
        raw = _constants(base, table.n, device)
        if before is not None:
            deque(_added(raw, table, before, device), maxlen=0)
        return raw

    def _predict(self, X: Any, finish: Finish) -> Any:
        """Return ``finish(raw, device)`` of the raw predictions (n_outputs, n_rows), in the array
        library of X."""
        return deque(self._staged(X, finish, last_only=True), maxlen=1).pop()

    def _staged(self, X: Any, finish: Finish, last_only: bool = False) -> Iterator[Any]:
        """Yield the result of ``_predict`` after every round; ``finish`` returns new arrays."""
        check_is_fitted(self)
        kinds = self._kinds()
        device = self._device_for(kinds, X, self._prediction_work(X))
        with self._working_on(device):
            table = MemberRows(self._read_table(X, kinds, device, False), device)
            raw = _constants(self._base_score, table.n, device)
            stages = _added(raw, table, self._result(), device)
        for t in range(1, self.n_iter_ + 1):
            with self._working_on(device):  # not around the yield: it is the caller's time
                raw = next(stages)
                if last_only and t < self.n_iter_:
                    continue
                result = to_input_library(finish(raw, device), X)
            yield result

    def _read_table(self, X: Any, kinds: list[Any], device: Device, reset: bool) -> Any:
        """Read X; the base learners validate the values of the rows that they see."""
        tags = [input_tags(kind) for kind in kinds]
        sparse = all(of_kind.sparse for of_kind in tags)
        values = read_features(X, device, estimator=self, reset=reset, sparse=sparse, allow_nd=True)
        has_text = any(tag.string or tag.categorical for tag in tags)
        has_type = reset and not (issparse(values) or is_frame(values))
        kind = values.dtype.kind if has_type else ""
        if kind == "O" and not has_text or kind in ("i", "u") and any(map(is_own, kinds)):
            read_table(values, CPU, estimator=DecisionTreeRegressor())  # rows without weight, too
        if len({of_kind.allow_nan for of_kind in tags}) > 1:
            # Which kinds will see X is not known yet, and some of them would accept NaN.
            remedy = "Fill them in, or choose among base learners that all take them."
            table = np.asarray(values, object) if is_frame(values) else on_host(values)
            require_finite_table(table, "X", remedy)
        return values

    def _kinds(self) -> list[Any]:
        """Return the base learners to choose from."""
        if self.estimator is None:
            return [
                DecisionTreeRegressor(
                    max_depth=3, max_bins=255, n_jobs=self.n_jobs, device=self.device
                )
            ]
        several = isinstance(self.estimator, (list, tuple))
        return list(self.estimator) if several else [self.estimator]

    def _device_for(self, kinds: list[Any], X: Any, work: Work | None, **others: Any) -> Device:
        if not all(map(is_own, kinds)):
            return home_of(self.device, X, **others)
        return resolve_device(self.device, X, work=work or NO_WORK, **others)

    def _read_loss(self) -> Loss:
        """Read the parameter ``loss``, before the data is known."""
        loss = loss_of(self.loss, self._losses, getattr(self, "quantile", None))
        if isinstance(loss, ArrayLoss) and loss.value is None:
            raise ValueError(
                f"loss={loss!r} has no value, by which rounds are compared: pass "
                "gpuens.losses.ArrayLoss(objective, value=...)."
            )
        if isinstance(loss, DistributionLoss):
            raise ValueError(f"loss={loss!r} is for GradientBoostingRegressor.")
        return loss

    @property
    def n_estimators_per_iteration_(self) -> int:
        """Base learners that one round adds: one for each output."""
        check_is_fitted(self)
        return int(self._base_score.size)

    @property
    def train_score_(self) -> np.ndarray:
        """The mean loss over the training rows after every round, float64 of shape (n_rounds,)."""
        check_is_fitted(self)
        return np.array(self.evals_result_["training"]["loss"][1 : self.n_iter_ + 1])

    @property
    def validation_score_(self) -> np.ndarray:
        """The mean loss over the rows held out, before the first round and after every round that
        was run; empty without early stopping."""
        check_is_fitted(self)
        return np.array(self.evals_result_.get("validation", {}).get("loss", []), np.float64)

    def _factors(self) -> np.ndarray:
        rates = np.repeat(self.learning_rates_, self.n_estimators_per_iteration_)
        return rates * self.estimator_weights_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_kinds = [input_tags(kind) for kind in self._kinds()]
        tags.input_tags.sparse = all(of_kind.sparse for of_kind in of_kinds)
        tags.input_tags.allow_nan = all(of_kind.allow_nan for of_kind in of_kinds)
        return tags

    @abstractmethod
    def _read_y(self, y: Any, n_rows: int, device: Device, warm: bool) -> Any:
        """Read the target as float64: values, or class numbers."""

    @abstractmethod
    def _bound(self, loss: Loss) -> Loss:
        """Return the loss for the target that was read."""

    @abstractmethod
    def _of_classes(self) -> bool:
        """Return whether this is a classifier."""


def _constants(base: np.ndarray, n_rows: int, device: Device) -> Array:
    """Return raw predictions before the first round: float64, shape (n_outputs, n_rows)."""
    return device.xp.zeros((base.size, n_rows)) + device.asarray(base)[:, None]


def _added(
    raw: Array, table: MemberRows, fitted: StagewiseResult, device: Device
) -> Iterator[Array]:
    """Yield the raw predictions after every round, always the same array; the sums are those of
    training."""
    n_outputs = raw.shape[0]
    for t, rate in enumerate(fitted.rates):
        of_round = slice(t * n_outputs, (t + 1) * n_outputs)
        directions = directions_of(fitted.members[of_round], table, device)
        for k, step in enumerate(fitted.steps[of_round]):
            raw[k] = raw[k] + (rate * step) * directions[k]
        yield raw
