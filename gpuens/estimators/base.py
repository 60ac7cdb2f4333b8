"""The base of estimators that predict with a ``Forest``, and the method ``save`` of all."""

from __future__ import annotations

import inspect
import os
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device, is_sparse, report_choice
from ..devices.policy import Work, prediction_work, size_of
from ..forest.forest import Forest
from ..forest.sum_of_trees import SumOfTrees
from ..inputs.arrays import dense_table, resolve_device, to_input_library
from ..inputs.categories import read_features
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.cpu.team import using_threads
from ..kernels.runtime.first_use import watch
from ..other_names import meant
from .parameters import parameters_of, takes_any_parameter, threads_of

PACKAGE = __name__.partition(".")[0]
PAGE = "https://gpuens.github.io/gpuens/api/generated/gpuens.{estimator_name}.html"
"""The page of an estimator, to which its picture in a notebook leads."""


class _SignatureOfInit:
    """The signature that ``help`` and editors show, that of ``__init__``, beside a ``__new__``."""

    def __get__(self, estimator: Any, kind: type) -> inspect.Signature:
        signature = inspect.signature(kind.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Savable:
    """Give an estimator the method ``save``, the address of its page, and answers to names of
    other libraries."""

    __signature__ = _SignatureOfInit()
    _doc_link_module = PACKAGE
    _doc_link_template = PAGE

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Refuse parameters that do not exist, with the name that they have here."""
        kind: Any = cls
        unknown = parameters.keys() - parameters_of(kind) if parameters else ()
        for name in unknown:
            if not takes_any_parameter(kind):
                hint = meant(name, parameters_of(kind))
                raise TypeError(
                    f"{cls.__name__}.__init__() got an unexpected keyword argument {name!r}. {hint}"
                )
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also of members: ``set_params(n_estimators=50, estimator__max_depth=2)``.

        Parameters
        ----------
        **params : dict
            By name; ``member__name`` for a parameter of a member.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            There is no such parameter. The message names the nearest one.
        """
        try:
            return super().set_params(**params)  # type: ignore[misc]
        except ValueError as error:
            known = self.get_params(deep=False)  # type: ignore[attr-defined]
            unknown = [name for name in params if "__" not in name and name not in known]
            if not unknown:
                raise
            raise ValueError(f"{error} {meant(unknown[0], known)}".rstrip()) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model to a file that ``gpuens.load`` reads (see ``gpuens.saving.save``).

        Parameters
        ----------
        path : str or path
            Replaced if it exists, once the new file is complete.
        """
        import gpuens  # saving knows every class, training needs few

        gpuens.save(self, path)


class Exportable:
    """Gives a sum of trees its methods that write it for other libraries.

    What writes is imported when it is needed: training starts without it.
    """

    def to_treelite(self) -> Any:
        """Return the model for Treelite, a ``treelite.Model`` of float64.

        Raises
        ------
        ImportError
            Treelite is not installed.
        ValueError
            The model is not a sum of trees, or Treelite does not know its link.
        """
        from ..export.treelite import to_treelite

        return to_treelite(self)

    def to_lightgbm(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a text file that ``lightgbm.Booster(model_file=path)`` reads.

        Parameters
        ----------
        path : str or path
            Replaced if it exists, once the new file is complete.

        Raises
        ------
        ValueError
            The model is not a sum of trees, or LightGBM does not know its link.
        """
        from ..export.lightgbm import to_lightgbm

        to_lightgbm(self, path)

    def to_xgboost(self, path: str | os.PathLike[str], *, allow_rounding: bool = False) -> None:
        """Write the model as JSON that ``xgboost.Booster(model_file=path)`` reads.

        Parameters
        ----------
        path : str or path
            Should end in ".json". Replaced if it exists, once the new file is complete.
        allow_rounding : bool, default=False
            Must be True: XGBoost rounds thresholds, leaves and sums to float32.

        Raises
        ------
        ValueError
            ``allow_rounding`` is False; the model is not a sum of trees, or XGBoost does not know
            its link.
        """
        from ..export.xgboost import to_xgboost

        to_xgboost(self, path, allow_rounding=allow_rounding)

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        target_opset: int | dict[str, int] | None = None,
        dtype: str = "float64",
        allow_rounding: bool = False,
    ) -> None:
        """Write the model in ONNX; see ``gpuens.export.onnx.to_onnx``.

        Parameters
        ----------
        path : str or path
            Replaced if it exists, once the new file is complete.
        target_opset : int, dict or None, default=None
            Version of the operators, or versions by domain.
        dtype : {"float64", "float32"}, default="float64"
            Of the input, thresholds, leaves and sums.
        allow_rounding : bool, default=False
            Whether the model may be rounded to float32.

        Raises
        ------
        ImportError
            The package onnx is not installed.
        ValueError
            The model would be rounded, or is not a sum of trees.
        """
        from ..export.onnx import to_onnx

        to_onnx(
            self,
            path,
            target_opset=target_opset,
            dtype=dtype,
            allow_rounding=allow_rounding,
        )

    def to_c(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a file of C99 and a header beside it; see
        ``gpuens.export.c.to_c``.

        Parameters
        ----------
        path : str or path
            Must end in ".c". Both files are replaced if they exist.

        Raises
        ------
        ValueError
            ``path`` does not end in ".c", or the model is not a sum of trees.
        """
        from ..export.c import to_c

        to_c(self, path)


def require_fitted(estimator: Any) -> None:
    """Raise NotFittedError before ``fit``; scikit-learn's check alone takes 17 µs."""
    if not hasattr(estimator, "forest_"):
        check_is_fitted(estimator)


@contextmanager
def kept_on_failure(estimator: Any) -> Iterator[None]:
    """Give an estimator its attributes back if an error or Ctrl-C leaves the block."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise


class OnDevice:
    """Lets an estimator work where its parameters ``device`` and ``n_jobs`` say."""

    device: str
    n_jobs: int | None

    @contextmanager
    def _working_on(self, device: Device) -> Iterator[None]:
        with using_threads(threads_of(self.n_jobs)), device.active():
            yield
        if watch.is_due:
            watch.sum_up()

    def _report_choice(self, device: Device, further: str = "") -> None:
        """Print where ``fit`` runs, why, and what else was chosen, if the estimator is verbose."""
        if getattr(self, "verbose", False):
            report_choice(device, further)


class ForestEstimator(Savable, Exportable, OnDevice, BaseEstimator):
    """An estimator that is fitted once it has a ``forest_``."""

    forest_: Forest
    _averages_trees: ClassVar[bool] = False
    """Whether the mean of the trees is predicted, not their sum."""
    _keeps_sparse: ClassVar[bool] = False
    """Whether a sparse table is read without its zeros."""
    _recursive_base: ClassVar[tuple[str, str]] = ("", "")
    """The class of scikit-learn whose subclasses have partial dependence by recursion: its module
    and its name."""

    def _prediction_work(self, X: Any) -> Work:
        return prediction_work(size_of(X), self.forest_.n_trees)

    def _device_to_predict(self, X: Any, **others: Any) -> Device:
        """Return where rows go through the trees, see ``resolve_device``."""
        return resolve_device(self.device, X, work=self._prediction_work(X), **others)

    def _rows(self, X: Any, device: Device) -> Array:
        """Return the rows of X on ``device``, as the trees take them."""
        return read_features(X, device, estimator=self, reset=False)

    def _raw(self, table: Array, device: Device) -> Array:
        """Return the raw predictions of rows on the device, (n_outputs, n_rows)."""
        return self.forest_.raw_predict(table, device)

    def _first_raw(self, table: Array, device: Device) -> Array:
        """Return those before the first tree."""
        return self.forest_.slice(0, 0).raw_predict(table, device)

    def _predict(self, X: Any, finish: Callable[[Array, Device], Array]) -> Any:
        """``finish(raw, device)`` of the raw predictions (n_outputs, n_rows), in the array
        library of X."""
        require_fitted(self)
        device = self._device_to_predict(X)
        with self._working_on(device):
            table = self._rows(X, device)
            return to_input_library(finish(self._raw(table, device), device), X)

    def _staged(self, X: Any, finish: Callable[[Any, Device], Any]) -> Iterator[Any]:
        """Yield the result of ``_predict`` after every round; ``finish`` returns new arrays."""
        check_is_fitted(self)
        device = self._device_to_predict(X)
        forest = self.forest_
        of_round = forest.n_outputs // forest.width
        with self._working_on(device):
            table = self._rows(X, device)
            raw = self._first_raw(table, device)
        for first in range(0, forest.n_trees, of_round):
            with self._working_on(device):  # not around the yield: it is the caller's time
                forest.slice(first, first + of_round).add_to(raw, table, device)
                result = to_input_library(finish(raw, device), X)
            yield result

    def apply(self, X: Any) -> Array:
        """Return the leaf that each row ends in.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        int32, shape (n_rows, n_trees)
            Node numbers counted from the root of each tree; the trees of one round stand
            beside each other, one for each output.
        """
        check_is_fitted(self)
        device = self._device_to_predict(X)
        with self._working_on(device):
            table = self._rows(X, device)
            return to_input_library(self.forest_.apply(table, device), X)

    def _sum_of_trees(self) -> SumOfTrees:
        """Describe the model as a sum of trees; ``_averages_trees`` has it divided by their number.
        Raises a NotASumOfTreesError."""
        check_is_fitted(self)
        forest = self.forest_
        n_averaged = forest.n_trees if self._averages_trees else 1
        known = getattr(self, "_categories", None)
        return SumOfTrees(
            forest=forest,
            base=forest.base,
            scale=1.0 / n_averaged,
            n_averaged=n_averaged,
            link=None,
            unlinked="its predictions are not a function of the sum that other formats know",
            response=None,
            share_is_cover=self._averages_trees,
            categories=() if known is None else known.values,
            read=self._rows_of,
            n_threads=threads_of(self.n_jobs),
        )

    def _rows_of(self, X: Any, device: Device, name: str) -> Array:
        """Read rows as explanations take them, which are dense."""
        X = dense_table(X, name) if is_sparse(X) else X
        return read_features(X, device, estimator=self, reset=False, name=name)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forest_")

    def __sklearn_tags__(self) -> Any:
        """Return the tags, and become a virtual subclass of ``_recursive_base``: scikit-learn asks
        for tags first, and before, its module may not be loaded, which takes longer than
        training."""
        module, name = self._recursive_base
        base = getattr(sys.modules.get(module), name, None)
        if isinstance(base, ABCMeta):
            base.register(type(self))
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self._keeps_sparse
        tags.array_api_support = True
        return tags
