"""Plots of single trees: ``TreeDisplay``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..estimators.parameters import integer
from ..forest.export import plot_tree
from ..forest.forest import Forest
from ..forest.view import TreeView
from .axes import axes_for, require_fitted


class TreeDisplay:
    """A decision tree, drawn by ``gpuens.plot_tree``.

    Parameters
    ----------
    tree : fitted decision tree of this package, or TreeView
        The tree to draw.
    feature_names, class_names : list of str, default=None
        As for ``plot_tree``.
    title : str or None, default=None
        Title of the axes.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    annotations_ : list of matplotlib texts
        The boxes, from the root downwards.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import RandomForestClassifier
    >>> from gpuens.plotting import TreeDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(n_estimators=5, device="cpu").fit(X, y)
    >>> display = TreeDisplay.from_estimator(forest, index=2, max_depth=2)
    >>> display.title
    'tree 2 of 0 ... 4'
    """

    def __init__(
        self, tree: Any, *, feature_names: Any = None, class_names: Any = None,
        title: str | None = None,
    ) -> None:  # fmt: skip
        self.tree, self.feature_names, self.class_names = tree, feature_names, class_names
        self.title = title

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, index: int = 0, feature_names: Any = None,
        class_names: Any = None, ax: Any = None, **kwargs: Any,
    ) -> TreeDisplay:  # fmt: skip
        """Create the display of a fitted tree of this package, or of one tree of an ensemble.

        Parameters
        ----------
        index : int, default=0
            Which tree of an ensemble. Of boosting with several outputs a round's trees follow
            each other.
        feature_names : list of str, default=None
            None: the columns of the data frame that was fitted.
        class_names : list of str or True, default=None
            None: the classes of the estimator.
        ax : matplotlib axes, default=None
            None: new ones. They are cleared.
        **kwargs
            As for ``plot_tree``.

        Returns
        -------
        TreeDisplay

        Raises
        ------
        TypeError, ValueError
            The model has no trees of this package, or not so many.
        """
        require_fitted(estimator)
        integer(0).check("index", index)
        tree, n_trees = _tree_of(estimator, int(index))
        if feature_names is None:
            feature_names = getattr(estimator, "feature_names_in_", None)
            if feature_names is not None and hasattr(estimator, "estimators_features_"):
                seen = estimator.estimators_features_[index]  # a bag's trees count their own
                feature_names = [feature_names[column] for column in seen]
        if class_names is None and not isinstance(tree, TreeView):
            class_names = _class_names(estimator, tree)
        display = cls(
            tree,
            feature_names=None if feature_names is None else [str(n) for n in feature_names],
            class_names=class_names,
            title=None if n_trees == 1 else f"tree {index} of 0 ... {n_trees - 1}",
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> TreeDisplay:
        """Draw the tree.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            None: new ones. They are cleared.
        **kwargs
            As for ``plot_tree``; nodes are painted unless ``filled=False``.

        Returns
        -------
        TreeDisplay
        """
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        style = {
            "filled": True, "rounded": True, "feature_names": self.feature_names,
            "class_names": self.class_names, "impurity": not isinstance(self.tree, TreeView),
        } | kwargs  # fmt: skip
        self.annotations_ = plot_tree(self.tree, ax=ax, **style)
        if self.title is not None:
            ax.set_title(self.title)
        return self


def _tree_of(estimator: Any, index: int) -> tuple[Any, int]:
    """Return a tree that ``plot_tree`` takes, and how many there are."""
    forest = getattr(estimator, "forest_", None)
    members = getattr(estimator, "estimators_", None)
    trees: Sequence[Any] = ()
    if isinstance(getattr(estimator, "tree_", None), TreeView):
        trees = [estimator]
    elif isinstance(members, list) and all(
        isinstance(getattr(member, "tree_", None), TreeView) for member in members
    ):
        trees = members
    n_trees = len(trees)
    if not trees and isinstance(forest, Forest):
        n_trees = forest.n_trees
    if n_trees == 0:
        raise TypeError(
            f"{type(estimator).__name__} has no trees of this package: pass a tree, a forest, "
            "boosting, or an ensemble of trees."
        )
    if index >= n_trees:
        raise ValueError(f"index must be in 0 ... {n_trees - 1}, the trees there are, got {index}.")
    if trees:
        return trees[index], n_trees
    assert isinstance(forest, Forest)
    return TreeView(forest, index, [1] * forest.value.shape[1]), n_trees


def _class_names(estimator: Any, tree: Any) -> list[str] | None:
    """Return the names of the ensemble's classes; those of the members may be numbers."""
    classes = getattr(estimator, "classes_", None)
    if classes is None or isinstance(classes, list) or len(classes) != tree.tree_.max_n_classes:
        return None
    return [str(label) for label in classes]
