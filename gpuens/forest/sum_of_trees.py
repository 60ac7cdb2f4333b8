"""The sum of trees that a fitted model is, as its estimator describes itself.

Shapley values, partial dependence by recursion and the files of other libraries read this record
and nothing else of a model; none of them imports an estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..devices.placement import Device
from ..kernels.runtime.arrays import Array
from .forest import Forest


class NotASumOfTreesError(TypeError, ValueError):
    """The predictions of a model are not a function of a sum of trees; the message is why."""


class Link(NamedTuple):
    """A function from raw predictions to predictions that other formats know.

    ``name`` is "identity", "exp", "logistic", "softmax", "sorted", which sorts the outputs of a
    row, or "isolation", ``-2 ** x``; the raw prediction is multiplied by ``slope`` before.
    """

    name: str
    slope: float = 1.0


IDENTITY, SORTED = Link("identity"), Link("sorted")


@dataclass(frozen=True)
class SumOfTrees:
    """A model whose raw prediction is ``base + scale * (sum of the trees)``.

    Parameters
    ----------
    forest : Forest
    base : float64, shape (n_outputs,)
    scale : float
        1 / ``n_averaged``; imported models have other factors.
    n_averaged : int
        The number of trees where they are averaged, otherwise 1.
    link : Link or None
        From the raw prediction to predictions; None: a function that no other format knows.
    unlinked : str
        Why there is no link, for errors: "it predicts ...".
    response : {"predict", "predict_proba", "decision_function"} or None
        The method that returns the raw prediction, or of two classes that of the second.
    share_is_cover : bool
        Whether the covers of nodes are the weights of the training rows; if not, rows count alike.
    categories : sequence of ndarray or None, one for each feature
        The values of categorical features; empty if there are none.
    read : (X, device, name) -> float32 or float64, shape (n_rows, n_features), on the device
        Rows as the trees take them; ``name`` is that of X in errors.
    n_threads : int
    """

    forest: Forest
    base: np.ndarray
    scale: float
    n_averaged: int
    link: Link | None
    unlinked: str
    response: str | None
    share_is_cover: bool
    categories: Sequence[np.ndarray | None]
    read: Callable[[Any, Device, str], Array]
    n_threads: int

    @property
    def share(self) -> np.ndarray:
        """The training rows, or their weight, that came to each node, float64 of (n_nodes,)."""
        forest = self.forest
        return forest.cover if self.share_is_cover else forest.n_samples.astype(np.float64)


def described(model: Any) -> SumOfTrees | None:
    """Return the sum of trees that a fitted model is; None if it never is one.

    Raises
    ------
    NotASumOfTreesError
        Others of its class are, but not this one.
    sklearn.exceptions.NotFittedError
    """
    describe = getattr(model, "_sum_of_trees", None)
    if describe is None or isinstance(model, type):
        return None
    found: SumOfTrees = describe()
    return found
