"""Tree ensembles on NVIDIA GPUs and on the CPU, with scikit-learn's API."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .sklearn_import import lean_sklearn

if TYPE_CHECKING:  # what editors and type checkers see of the lazy imports below
    from . import bias_variance as bias_variance
    from . import callbacks as callbacks
    from . import custom_metrics as custom_metrics
    from . import datasets as datasets
    from . import diversity as diversity
    from . import inspection as inspection
    from . import losses as losses
    from . import plotting as plotting
    from . import ranking_metrics as ranking_metrics
    from . import survival_metrics as survival_metrics
    from .adaboost.estimators import AdaBoostClassifier as AdaBoostClassifier
    from .adaboost.estimators import AdaBoostRegressor as AdaBoostRegressor
    from .adaboost.three_learner import (
        ThreeLearnerBoostingClassifier as ThreeLearnerBoostingClassifier,
    )
    from .bagging.bagging import BaggingClassifier as BaggingClassifier
    from .bagging.bagging import BaggingRegressor as BaggingRegressor
    from .boosting.classifier import GradientBoostingClassifier as GradientBoostingClassifier
    from .boosting.ranker import GradientBoostingRanker as GradientBoostingRanker
    from .boosting.regressor import GradientBoostingRegressor as GradientBoostingRegressor
    from .combining.stacking import StackingClassifier as StackingClassifier
    from .combining.stacking import StackingRegressor as StackingRegressor
    from .combining.voting import VotingClassifier as VotingClassifier
    from .combining.voting import VotingRegressor as VotingRegressor
    from .config import show_config as show_config
    from .conformal.classifier import ConformalClassifier as ConformalClassifier
    from .conformal.regressor import ConformalRegressor as ConformalRegressor
    from .estimators.nothing_learned import NothingLearnedWarning as NothingLearnedWarning
    from .exchange.estimators import ImportedClassifier as ImportedClassifier
    from .exchange.estimators import ImportedRegressor as ImportedRegressor
    from .exchange.from_catboost import from_catboost as from_catboost
    from .exchange.from_lightgbm import from_lightgbm as from_lightgbm
    from .exchange.from_sklearn import from_sklearn as from_sklearn
    from .exchange.from_treelite import from_treelite as from_treelite
    from .exchange.from_xgboost import from_xgboost as from_xgboost
    from .exchange.reading.files import ImportedModelError as ImportedModelError
    from .explanation.explainer import TreeExplainer as TreeExplainer
    from .forest.export import export_graphviz as export_graphviz
    from .forest.export import export_text as export_text
    from .forest.export import plot_tree as plot_tree
    from .forests.forests import ExtraTreesClassifier as ExtraTreesClassifier
    from .forests.forests import ExtraTreesRegressor as ExtraTreesRegressor
    from .forests.forests import RandomForestClassifier as RandomForestClassifier
    from .forests.forests import RandomForestRegressor as RandomForestRegressor
    from .forests.isolation import IsolationForest as IsolationForest
    from .forests.oblique import ObliqueRandomForestClassifier as ObliqueRandomForestClassifier
    from .forests.oblique import ObliqueRandomForestRegressor as ObliqueRandomForestRegressor
    from .forests.quantile import QuantileForestRegressor as QuantileForestRegressor
    from .forests.survival import ExtraSurvivalTrees as ExtraSurvivalTrees
    from .forests.survival import RandomSurvivalForest as RandomSurvivalForest
    from .many_fits import GridSearchCV as GridSearchCV
    from .many_fits import RandomizedSearchCV as RandomizedSearchCV
    from .many_fits import fit_many as fit_many
    from .memory_plans import memory_plan as memory_plan
    from .predicting_batches import predict_batches as predict_batches
    from .saving import load as load
    from .saving import save as save
    from .stagewise.estimators import StagewiseClassifier as StagewiseClassifier
    from .stagewise.estimators import StagewiseRegressor as StagewiseRegressor
    from .tables.binned_table import BinnedTable as BinnedTable
    from .trees.on_host import HostGrowthWarning as HostGrowthWarning
    from .trees.trees import DecisionTreeClassifier as DecisionTreeClassifier
    from .trees.trees import DecisionTreeRegressor as DecisionTreeRegressor
    from .trees.trees import ExtraTreeClassifier as ExtraTreeClassifier
    from .trees.trees import ExtraTreeRegressor as ExtraTreeRegressor
    from .tuning.estimators import TunedClassifier as TunedClassifier
    from .tuning.estimators import TunedRegressor as TunedRegressor
    from .warming_up import warmup as warmup

__version__ = "0.1.0"

_HOME = {
    "AdaBoostClassifier": "adaboost.estimators",
    "AdaBoostRegressor": "adaboost.estimators",
    "BaggingClassifier": "bagging.bagging",
    "BaggingRegressor": "bagging.bagging",
    "BinnedTable": "tables.binned_table",
    "ConformalClassifier": "conformal.classifier",
    "ConformalRegressor": "conformal.regressor",
    "DecisionTreeClassifier": "trees.trees",
    "DecisionTreeRegressor": "trees.trees",
    "ExtraSurvivalTrees": "forests.survival",
    "ExtraTreeClassifier": "trees.trees",
    "ExtraTreeRegressor": "trees.trees",
    "ExtraTreesClassifier": "forests.forests",
    "ExtraTreesRegressor": "forests.forests",
    "GradientBoostingClassifier": "boosting.classifier",
    "GradientBoostingRanker": "boosting.ranker",
    "GradientBoostingRegressor": "boosting.regressor",
    "GridSearchCV": "many_fits",
    "HostGrowthWarning": "trees.on_host",
    "ImportedClassifier": "exchange.estimators",
    "ImportedModelError": "exchange.reading.files",
    "ImportedRegressor": "exchange.estimators",
    "IsolationForest": "forests.isolation",
    "NothingLearnedWarning": "estimators.nothing_learned",
    "ObliqueRandomForestClassifier": "forests.oblique",
    "ObliqueRandomForestRegressor": "forests.oblique",
    "QuantileForestRegressor": "forests.quantile",
    "RandomForestClassifier": "forests.forests",
    "RandomForestRegressor": "forests.forests",
    "RandomSurvivalForest": "forests.survival",
    "RandomizedSearchCV": "many_fits",
    "StackingClassifier": "combining.stacking",
    "StackingRegressor": "combining.stacking",
    "StagewiseClassifier": "stagewise.estimators",
    "StagewiseRegressor": "stagewise.estimators",
    "ThreeLearnerBoostingClassifier": "adaboost.three_learner",
    "TreeExplainer": "explanation.explainer",
    "TunedClassifier": "tuning.estimators",
    "TunedRegressor": "tuning.estimators",
    "VotingClassifier": "combining.voting",
    "VotingRegressor": "combining.voting",
    "export_graphviz": "forest.export",
    "export_text": "forest.export",
    "fit_many": "many_fits",
    "from_catboost": "exchange.from_catboost",
    "from_lightgbm": "exchange.from_lightgbm",
    "from_sklearn": "exchange.from_sklearn",
    "from_treelite": "exchange.from_treelite",
    "from_xgboost": "exchange.from_xgboost",
    "load": "saving",
    "memory_plan": "memory_plans",
    "plot_tree": "forest.export",
    "predict_batches": "predicting_batches",
    "save": "saving",
    "show_config": "config",
    "warmup": "warming_up",
}
"""The module of every public name; imported when the name is first used."""

_ROOMS = (
    "bias_variance",
    "callbacks",
    "custom_metrics",
    "datasets",
    "diversity",
    "inspection",
    "losses",
    "plotting",
    "ranking_metrics",
    "survival_metrics",
)
"""The public modules; imported when they are first used."""

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME and name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with lean_sklearn():
        value: Any = import_module(f"{__name__}.{_HOME.get(name, name)}")
    if name in _HOME:
        value = getattr(value, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
