"""Sets of classes with a guaranteed coverage, around any classifier: ``ConformalClassifier``."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone, is_classifier

from ..boosting.classifier import GradientBoostingClassifier
from ..devices.placement import Device, to_numpy
from ..estimators.docstrings import PREDICTED, documented
from ..estimators.scores import ScoresClasses
from ..inputs.arrays import to_input_library
from ..inputs.labels import places_among, read_labels
from ..members.classes import labels_of
from ..members.rows import MemberRows, home_of, readable
from .base import FIT, Conformal

SCORES = ("lac", "aps")


@dataclass(kw_only=True, eq=False, repr=False)
class ConformalClassifier(ScoresClasses, ClassifierMixin, Conformal):
    """A classifier whose sets of classes contain the true one with a chosen probability.

    Whatever the classifier, the distribution and the number of rows, the sets for new rows contain
    at least the chosen share of their classes on average (of "cv+", a smaller one is proven), if
    all rows are exchangeable (drawn independently from the same source, for example). Nothing is
    guaranteed for single classes or regions of the features. Sets are small where the classifier
    is sure and right, and large where it is not.

    Parameters
    ----------
    estimator : classifier, default=None
        Clones of it are fitted; it must have ``predict_proba``. None is a
        ``GradientBoostingClassifier`` of 100 rounds.
    method : {"split", "cv+"}, default="split"
        - "split": errors of rows held out. At least the coverage, and, where no errors are equal,
          at most one divided by the number of rows held out more.
        - "cv+": errors out of fold, each compared with that of the model of its fold (CV+). All
          rows train; at least ``2 * coverage - 1``, less up to ``sqrt(2 / n)`` for n rows, is
          proven, about the coverage is found.
    conformity_score : {"lac", "aps"}, default="lac"
        The error of a row with the probabilities p and the class y:

        - "lac": ``1 - p[y]``. A set has the classes that are probable enough: the smallest sets
          on average, of which some may be empty.
        - "aps": the sum of the probabilities above p[y], and of a random part, uniform in [0, 1],
          of p[y] itself. Sets are filled from the most probable class on, up to the same total:
          larger ones, whose coverage differs less from region to region.
    calibration_size : float or int, default=0.25
        Share or number of the rows that "split" holds out.
    cv : int or splitter, default=10
        Folds of "cv+"; a number shuffles the rows. Each row must be in exactly one fold.
    random_state : int, RandomState or None, default=None
        Draws the rows held out, the folds, and the random parts of "aps", which depend on the
        probabilities of a row and not on the table that it is in. None is a fixed seed.
    device : str, default="auto"
        Where predictions are compared; the classifier has a ``device`` of its own.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on all rows ("cv+") or on those not held out; ``predict`` is its prediction.
    fold_estimators_ : list of classifiers
        Those of the folds; only for "cv+".
    classes_ : ndarray, shape (n_classes,)
        The labels of the columns of sets and probabilities, ascending.
    conformity_score_ : str
        The score that was measured.
    scores_ : list of float64 ndarrays
        Errors, ascending: of the rows held out, or of each fold.
    n_calibration_ : int
        Number of the errors.
    n_features_in_ : int

    Notes
    -----
    Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with bounded error levels",
    2019 ("lac"); Romano, Sesia and Candès, "Classification with valid and adaptive coverage", 2020
    ("aps", and "cv+" of classifiers). With n errors, a class is in the set of a row if fewer than
    ``coverage * (n + 1)`` of them are smaller than its own.

    Rows are held out without regard to their classes, as the guarantee requires. A class that no
    training row of a model has is given a probability of zero. ``sample_weight`` weights rows in
    the fits of the classifier only.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from gpuens import ConformalClassifier, RandomForestClassifier
    >>> from sklearn.model_selection import train_test_split
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_new, y, y_new = train_test_split(X, y, random_state=0)
    >>> model = ConformalClassifier(RandomForestClassifier(random_state=0)).fit(X, y)
    >>> sets = model.predict_set(X_new, coverage=0.95)
    >>> sets.shape
    (450, 10)
    >>> bool(sets[range(450), y_new].mean() > 0.93)
    True
    """

    _methods = ("split", "cv+")

    conformity_score: str = "lac"

    @documented(
        FIT,
        kind="classifier",
        y="Labels: numbers, booleans, text or objects.",
        wrong="or the classifier has no probabilities.",
    )
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the classifier, and measure its errors on rows that it has not seen.

        <shared>
        """
        if self.conformity_score not in SCORES:
            raise ValueError(
                f"conformity_score must be one of {SCORES}, got {self.conformity_score!r}."
            )
        return self._fit(X, y, sample_weight)

    @documented(PREDICTED, result="array of labels, shape (n_rows,)")
    def predict(self, X: Any) -> Any:
        """Predict the class of each row.

        <shared>
        """
        self._require_method_of_fit()
        return self.estimator_.predict(X)

    @documented(PREDICTED, result="float64, shape (n_rows, n_classes), in the array library of X")
    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes, which ``estimator_`` has.

        <shared>
        """
        self._require_method_of_fit()
        home = home_of(self.device, X)
        with home.active():
            shares = self._shares(self.estimator_, MemberRows(readable(X), home))
            return to_input_library(home.asarray(shares), X)

    def predict_set(self, X: Any, coverage: float = 0.9) -> Any:
        """Predict a set of classes for each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.
        coverage : float, default=0.9
            The share of rows whose class is to be in its set, in (0, 1).

        Returns
        -------
        bool, shape (n_rows, n_classes)
            Whether the set of a row has the class of ``classes_``, in the array library of X.
            Sets may be empty.

        Raises
        ------
        ValueError
            ``coverage`` is not in (0, 1), or takes more calibration rows than there are.
        """
        self._require_method_of_fit()
        rank = self._rank(coverage)
        home = home_of(self.device, X)
        with home.active():
            rows = MemberRows(readable(X), home)
            smaller = np.zeros((rows.n, len(self.classes_)), np.int64)
            models = getattr(self, "fold_estimators_", [self.estimator_])
            for model, errors in zip(models, self.scores_, strict=True):
                own = self._scores(model, rows)
                smaller += np.searchsorted(errors, own)
            return to_input_library(home.asarray(smaller < rank), X)

    def _read_y(self, y: Any, n: int, home: Device) -> np.ndarray:
        self.classes_, codes = read_labels(y, n, home, estimator=self, min_classes=2)
        self._seed = int(self._random_state().randint(2**31 - 1))
        self.conformity_score_ = self.conformity_score
        return to_numpy(codes)

    def _target_of(self, numbers: np.ndarray, home: Device) -> Any:
        return labels_of(home.asarray(numbers), self.classes_, home)

    def _default(self) -> Any:
        return GradientBoostingClassifier(n_estimators=100)  # one for each fold

    def _inner(self) -> Any:
        model = clone(self._default() if self.estimator is None else self.estimator)
        if hasattr(model, "__sklearn_tags__") and not is_classifier(model):
            raise TypeError(f"estimator must be a classifier, got {model!r}.")
        return model

    def _errors(
        self, model: Any, rows: MemberRows, target: np.ndarray, part: np.ndarray
    ) -> np.ndarray:
        errors = self._scores(model, rows.part(part))
        return errors[np.arange(part.size), target[part]]

    def _scores(self, model: Any, rows: MemberRows) -> np.ndarray:
        """Return the error that each class would have as the true one: float64, shape (n_rows,
        n_classes)."""
        shares = self._shares(model, rows)
        if self.conformity_score_ == "lac":
            return 1.0 - shares
        return _adaptive_scores(shares, self._draws(rows))

    def _draws(self, rows: MemberRows) -> np.ndarray:
        """Return a number in [0, 1) of each row: a hash of its probabilities, so that its set is
        the same in any table, and the same one for the models of all folds."""
        key = self._seed.to_bytes(8, "little")
        shares = self._shares(self.estimator_, rows)
        words = [blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in shares]
        return np.frombuffer(b"".join(words), "<u8") / 2.0**64

    def _shares(self, model: Any, rows: MemberRows) -> np.ndarray:
        """Return the probabilities of the classes, on the host; 0 of those that a model has not
        seen."""
        if not hasattr(model, "predict_proba"):
            raise TypeError(
                f"estimator must have predict_proba, got {model!r}: wrap it, for example in "
                "sklearn.calibration.CalibratedClassifierCV."
            )
        found = np.asarray(to_numpy(model.predict_proba(rows.table(model))), np.float64)
        places = places_among(self.classes_, to_numpy(model.classes_))
        if found.shape != (rows.n, places.size) or (places < 0).any():
            raise ValueError(
                f"estimator gives probabilities of the shape {found.shape} for {rows.n} rows and "
                f"the classes {self.classes_.tolist()!r:.60}: pass a classifier of one output."
            )
        shares = np.zeros((rows.n, len(self.classes_)))
        shares[:, places] = found
        return shares


def _adaptive_scores(shares: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return the errors "aps" of all classes, with a number in [0, 1] for each row."""
    order = np.argsort(-shares, axis=1, kind="stable")
    ordered = np.take_along_axis(shares, order, axis=1)
    before = np.zeros_like(ordered)
    before[:, 1:] = np.cumsum(ordered, axis=1)[:, :-1]
    errors = np.empty_like(ordered)
    np.put_along_axis(errors, order, before + draws[:, None] * ordered, axis=1)
    return errors
