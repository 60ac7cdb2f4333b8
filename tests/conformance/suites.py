"""Which test files run, with which classes in place of scikit-learn's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
LISTS = HERE / "lists"

TREES = (
    "sklearn.tree.DecisionTreeClassifier",
    "sklearn.tree.DecisionTreeRegressor",
    "sklearn.tree.ExtraTreeClassifier",
    "sklearn.tree.ExtraTreeRegressor",
)
FORESTS = (
    "sklearn.ensemble.RandomForestClassifier",
    "sklearn.ensemble.RandomForestRegressor",
    "sklearn.ensemble.ExtraTreesClassifier",
    "sklearn.ensemble.ExtraTreesRegressor",
)
BAGGING = ("sklearn.ensemble.BaggingClassifier", "sklearn.ensemble.BaggingRegressor")
ADABOOST = ("sklearn.ensemble.AdaBoostClassifier", "sklearn.ensemble.AdaBoostRegressor")
ISOLATION = ("sklearn.ensemble.IsolationForest",)
HIST_TESTS = "sklearn.ensemble._hist_gradient_boosting.tests"
HIST = (
    "sklearn.ensemble.HistGradientBoostingClassifier",
    "sklearn.ensemble.HistGradientBoostingRegressor",
)
PARTIAL_DEPENDENCE = ("sklearn.inspection.partial_dependence",)
PERMUTATION = ("sklearn.inspection.permutation_importance",)
VOTING = ("sklearn.ensemble.VotingClassifier", "sklearn.ensemble.VotingRegressor")
STACKING = ("sklearn.ensemble.StackingClassifier", "sklearn.ensemble.StackingRegressor")


@dataclass(frozen=True)
class Suite:
    """One test file.

    Parameters
    ----------
    name : str
        What it is called here; its list is ``lists/NAME.toml``.
    module : str
        The test module in scikit-learn.
    replaced : tuple of str
        Full names in scikit-learn; ours have the same last part, functions of inspection also the
        same module.
    least_share : float
        Of the tests, whatever the number of their parameters, so many must pass.
    """

    name: str
    module: str
    replaced: tuple[str, ...]
    least_share: float = 0.0
    home: str = ""
    """Where our classes are, if not in the package."""
    title: str = ""
    """What the table calls it, if not by its module."""
    by_case: bool = False
    """Whether every case of a test counts as a test."""
    environment: tuple[tuple[str, str], ...] = (("JOBLIB_MULTIPROCESSING", "0"),)
    """Variables of the process that runs it. By default Joblib runs everything in it: each of its
    workers would import everything. Our own tests fit in processes."""
    on_request: bool = False
    """Whether ``python -m tests.conformance`` alone runs it, and no test."""

    @property
    def shown(self) -> str:
        """What the table calls it."""
        return self.title or self.module

    @property
    def path(self) -> Path:
        return LISTS / f"{self.name}.toml"

    def replacements(self, package: str = "gpuens") -> dict[str, str]:
        """Full names of scikit-learn's classes, and of those that take their place: of the same
        last part in another package, or scikit-learn's own, to try the machinery."""
        if package == "sklearn":
            return {name: name for name in self.replaced}
        if self.home:
            return {name: f"{self.home}.{name.rpartition('.')[2]}" for name in self.replaced}
        return {
            name: name.replace("sklearn.", f"{package}.")
            if name.startswith("sklearn.inspection.")
            else f"{package}.{name.rpartition('.')[2]}"
            for name in self.replaced
        }


SUITES = {
    suite.name: suite
    for suite in (
        Suite("tree", "sklearn.tree.tests.test_tree", TREES, 0.83),
        Suite("monotonic_tree", "sklearn.tree.tests.test_monotonic_tree", TREES + FORESTS, 0.90),
        Suite("forest", "sklearn.ensemble.tests.test_forest", TREES + FORESTS, 0.85),
        Suite("bagging", "sklearn.ensemble.tests.test_bagging", BAGGING + TREES + FORESTS, 0.92),
        Suite(
            "adaboost",
            "sklearn.ensemble.tests.test_weight_boosting",
            ADABOOST + TREES + FORESTS,
            1.0,
        ),
        Suite("voting", "sklearn.ensemble.tests.test_voting", VOTING + TREES, 0.96),
        Suite("stacking", "sklearn.ensemble.tests.test_stacking", STACKING + FORESTS, 0.92),
        Suite(
            "hist_gradient_boosting",
            f"{HIST_TESTS}.test_gradient_boosting",
            HIST,
            0.75,
            home="tests.conformance.hist_gradient_boosting",
        ),
        Suite("iforest", "sklearn.ensemble.tests.test_iforest", ISOLATION, 0.90),
        Suite(
            "partial_dependence",
            "sklearn.inspection.tests.test_partial_dependence",
            PARTIAL_DEPENDENCE + TREES + FORESTS,
            0.91,
        ),
        Suite(
            "permutation",
            "sklearn.inspection.tests.test_permutation_importance",
            PERMUTATION + TREES + FORESTS,
            0.92,
        ),
        Suite(
            "select_from_model",
            "sklearn.feature_selection.tests.test_from_model",
            TREES + FORESTS,
            1.0,
            on_request=True,
        ),
        Suite(
            "elimination",
            "sklearn.feature_selection.tests.test_rfe",
            TREES + FORESTS,
            1.0,
            on_request=True,
        ),
        Suite(
            "multioutput",
            "sklearn.tests.test_multioutput",
            TREES + FORESTS,
            1.0,
            on_request=True,
        ),
        Suite(
            "decision_boundary",
            "sklearn.inspection._plot.tests.test_boundary_decision_display",
            TREES + FORESTS,
            1.0,
            on_request=True,
        ),
        Suite(
            "checks",
            str(HERE / "checks.py"),
            (),
            0.98,
            title="`sklearn.utils.estimator_checks`, every estimator",
            by_case=True,
            environment=(("SCIPY_ARRAY_API", "1"),),
            on_request=True,
        ),
        Suite(
            "array_api",
            str(HERE / "array_api.py"),
            (),
            0.50,
            title="scikit-learn's array API checks, every estimator that claims it",
            by_case=True,
            environment=(("SCIPY_ARRAY_API", "1"),),
        ),
    )
}
