"""Gradient boosting whose fit is a search; what it learns is moved into a plain estimator."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np
from sklearn.model_selection import GroupKFold

from ..boosting.classifier import GradientBoostingClassifier
from ..boosting.data.auto_values import MOST_ROUNDS, settled
from ..boosting.estimator import BoostingEstimator
from ..boosting.metrics import metrics_for
from ..boosting.parameters import check_parameters, rules_of_columns
from ..boosting.regressor import GradientBoostingRegressor
from ..boosting.round_data import BoostingResult, RoundSettings, Training
from ..boosting.steps.many_models import run_together
from ..boosting.steps.ranked_categories import NO_BINS, rank_categories
from ..boosting.steps.rare_categories import smooth_categories
from ..combining.folds import Fold, folds_of
from ..devices.placement import Device, places_beside, to_numpy
from ..devices.threads import map_in_threads
from ..estimators.nothing_learned import warn_user
from ..estimators.parameters import threads_of
from ..inputs.category_bins import set_bins
from ..inputs.sparse_bins import NarrowBinner
from ..kernels.growth.sparse_codes import SparseCodes
from ..kernels.runtime.cpu.team import using_threads
from ..kernels.runtime.dtypes import Codes
from ..tables.streaming import streamed
from .candidate import Candidate, FoldedTable, Map
from .search import MEMBERS, SearchPlan, SettingSearch, n_rounds_of
from .space import defaults, draws, first_of, space_of

PARTS = 5
"""Parts of the rows, which are held out in turn."""
ROWS_TO_SCORE = 2_500
"""Rows held out, after which no more parts are."""
CELLS_WORTH_THREADS = 2_000_000
"""Tables with more cells than this keep all threads busy one training at a time."""
clock = time.perf_counter


class SearchedBoosting(BoostingEstimator):
    """Gradient boosting that trains the ensemble of a search in place of one model.

    Attributes
    ----------
    found_ : SettingSearch or None
        None where the default was trained.
    """

    plan: SearchPlan
    found_: SettingSearch | None

    def _boost(self, sets: Any, before: Any, n_rounds: int, *how: Any) -> BoostingResult:
        settings, device, binner, memory, _, searches = how
        begin, self.found_ = clock(), None
        kept = list(sets)
        groups = self._groups(int(sets[0].table.shape[0]))
        if searches:
            table = self._table(sets[0], settings, device, binner, memory, groups)
            search = self._search(table, begin, len(searches))
            search.explore()
            if search.best():
                self.found_ = search
                search.choose()
                forest = search.forest()
                return BoostingResult(forest, n_rounds_of(forest), {}, "finished")
        why = "the budget is too small for one setting" if searches else "no rows can be held out"
        if searches and any(candidate.n_trained for candidate in search.candidates):
            why = f"{table.metric.name!r} is not defined on the rows held out"
        warn_user(f"Nothing was tuned: {why}. The model is that of the default.", UserWarning)
        return super()._boost(kept, before, n_rounds, *how)

    def _table(
        self, rows: Any, settings: RoundSettings, device: Device, binner: Any, memory: Any,
        groups: np.ndarray | None,
    ) -> FoldedTable:  # fmt: skip
        loss, builder = self._begin(rows, None, settings, device)
        start, own_bins = builder.freeze(), NO_BINS
        settings = replace(settings, in_pieces=memory.in_pieces)
        if self._categories is not None:
            binner, settings, own_bins = rank_categories(
                self, rows, True, loss, start.base, binner, settings, device
            )
            self._binner = binner if own_bins else self._binner
        _, trained = self._bin(rows, start, binner, device, None, memory.streams)
        for feature, bins in own_bins.items():
            set_bins(cast(Codes, trained.codes), feature, device.asarray(bins))
        if memory.streams:
            trained.codes = streamed(trained.codes, memory.n_resident)
        training = Training(trained, binner, loss, settings, device)
        metric = metrics_for(self.scoring, loss, getattr(self, "classes_", None), device)[0]
        parts: tuple[Any, ...] = tuple(trained.codes)
        codes: list[Any] = [trained.codes]
        folds, has_constant = self._folds(training, groups), getattr(self, "init", None) is None
        is_small = training.n_rows * start.n_features <= CELLS_WORTH_THREADS
        if is_small and all(isinstance(part, np.ndarray) for part in parts):
            kind, n_codes = type(trained.codes), max(len(folds), MEMBERS)
            codes = [kind(*(part.view() for part in parts)) for _ in range(n_codes)]
        return FoldedTable(training, start, folds, metric, codes, has_constant)

    def _groups(self, n: int) -> np.ndarray | None:
        """Return the groups of the rows, checked."""
        if self.plan.groups is None:
            return None
        groups = np.asarray(to_numpy(self.plan.groups))
        if groups.shape != (n,):
            raise ValueError(
                f"groups must hold one group for each of the {n} rows of X, got shape "
                f"{groups.shape}."
            )
        return groups

    def _folds(self, training: Training, groups: np.ndarray | None) -> list[Fold]:
        """Return the rows to train on and to hold out."""
        n, labels = training.n_rows, self._labels_of_folds(training)
        if self.plan.cv is not None:
            y = labels if labels.size else np.zeros(n)
            table = np.empty((n, 1))
            folds = folds_of(self.plan.cv, table, y, groups, bool(labels.size), self._seed)
            require_weight(folds, to_numpy(training.rows.weight))
            return folds
        rows = np.arange(n)
        if training.rows.weight.size:
            rows = np.flatnonzero(to_numpy(training.rows.weight) > 0)
        order = np.random.default_rng(self._seed).permutation(rows.size)
        if labels.size:
            order = order[np.argsort(labels[rows][order], kind="stable")]
        part, n_parts = np.arange(rows.size) % PARTS, PARTS
        if groups is not None:
            order, n_parts = np.arange(rows.size), min(PARTS, np.unique(groups[rows]).size)
            if n_parts < 2:
                raise ValueError("groups must hold at least two groups, got one.")
            dealt = GroupKFold(n_parts).split(rows, groups=groups[rows])
            for k, (_, own) in enumerate(dealt):
                part[own] = k
        n_folds = min(-(-PARTS * ROWS_TO_SCORE // rows.size), n_parts)
        asked = [np.sort(rows[order[part == k]]) for k in range(n_folds)]
        return [Fold(np.setdiff1d(rows, own, assume_unique=True), own) for own in asked]

    def _search(self, table: FoldedTable, begin: float, n_defaults: int) -> SettingSearch:
        device = table.training.device
        n_threads = min(threads_of(self.n_jobs), len(table.codes))
        candidates = partial(self._candidates, table, n_defaults)
        run = in_threads(n_threads, device)
        return SettingSearch(table, candidates, self.plan, run, n_threads, clock, begin)

    def _candidates(
        self, table: FoldedTable, n_defaults: int, best: Callable[[], list[dict[str, Any]]]
    ) -> Iterator[Candidate]:
        """Yield the default, with each of the shapes of trees that it chooses from, and settings of
        the space, some of them near the best so far."""
        space: Any = self.plan.space
        first = list(enumerate(defaults(n_defaults > 1)))
        changed: list[tuple[int, dict[str, Any]]] = []
        if space is None:
            has_categories = bool((np.asarray(table.forest.n_categories) > 0).any())
            space = space_of(has_categories, n_defaults > 1, self.max_features is None)
            first += first_of(space)
            changed = first
        found = chain((own for _, own in first), draws(space, int(self._seed), best, changed))
        for number, params in enumerate(found):
            yield self._candidate(number, params, table)

    def _candidate(self, number: int, params: dict[str, Any], table: FoldedTable) -> Candidate:
        training = table.training
        model = copy.copy(self).set_params(**params)
        check_parameters(model)
        model._seed = (int(self._seed) + number) % 2**32
        is_sparse = isinstance(training.rows.codes, SparseCodes)
        chosen = settled(model, training.loss, training.n_rows, is_sparse, False, False)
        shape = training.n_rows, table.forest.n_features
        settings = chosen._round_settings(MOST_ROUNDS, shape)
        rules, shared = settings.rules, training.settings
        if isinstance(training.binner, NarrowBinner):
            rules = rules_of_columns(rules, training.binner.features)
        rules = rules._replace(categorical=shared.rules.categorical)
        settings = replace(settings, rules=rules, in_pieces=shared.in_pieces)
        own = smooth_categories(model, replace(training, settings=settings), True)
        return Candidate(number, params, own.settings, table)


def require_weight(folds: Sequence[Fold], weight: np.ndarray) -> None:
    """Raise a ValueError if the rows of a fold have no weight."""
    for number, fold in enumerate(folds if weight.size else []):
        for what, rows in (("to train on", fold.seen), ("to hold out", fold.asked)):
            if not weight[rows].any():
                raise ValueError(
                    f"cv has rows {what} in fold {number} whose weights are all 0. Choose other "
                    "folds."
                )


def in_threads(n_threads: int, device: Device) -> Map:
    """Return a function that calls a function for some items, each on a thread of its own; on a GPU
    their models grow together."""
    place = places_beside() if n_threads > 1 else nullcontext

    def run(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        def on_one_thread(item: Any) -> Any:
            with place(), using_threads(1), device.active():
                return function(item)

        if device.runs_ahead and len(items) > 1:
            return run_together([partial(function, item) for item in items], len(items))
        if n_threads == 1 or len(items) == 1:
            return [function(item) for item in items]
        return map_in_threads(on_one_thread, items, n_threads)

    return run


class SearchedClassifier(SearchedBoosting, GradientBoostingClassifier):
    """A classifier whose fit is a search."""


class SearchedRegressor(SearchedBoosting, GradientBoostingRegressor):
    """A regressor whose fit is a search."""
