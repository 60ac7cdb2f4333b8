"""Plots of models, as displays in the style of scikit-learn's.

A display computes what it shows in ``from_estimator`` or its other constructors, keeps that as
attributes, and draws it with ``plot(ax)``; ``ax_`` and ``figure_`` say where. matplotlib is only
needed to draw (``pip install 'gpuens[viz]'``), data on a GPU is copied to the host for it, and most
displays work with models of any library.

| display | shows |
| --- | --- |
| ``FeatureImportancesDisplay`` | importances and their spread over trees or repeats |
| ``LearningCurveDisplay`` | losses or scores after every round |
| ``OOBCurveDisplay`` | the out-of-bag error after every tree |
| ``PartialDependenceDisplay`` | how predictions depend on a feature, or on two |
| ``TreeDisplay`` | a tree, or one of an ensemble |
| ``DiversityDisplay`` | a measure of diversity for all pairs of models |
| ``KappaErrorDisplay`` | agreement and mean error of all pairs |
| ``DecisionRegionsDisplay`` | what a model of two features predicts where |
| ``SampleWeightsDisplay`` | the weights that AdaBoost gives to the rows |
| ``BeeswarmDisplay`` | Shapley values of many rows, by feature |
| ``WaterfallDisplay`` | Shapley values of one row |
| ``ShapleyDependenceDisplay`` | Shapley values of a feature against its values |
| ``CalibrationDisplay`` | how often what is predicted with a probability happens |

``python -m gpuens.gallery`` draws one of each.
"""

from __future__ import annotations

from .calibration import CalibrationDisplay
from .curves import LearningCurveDisplay, OOBCurveDisplay
from .dependence import PartialDependenceDisplay
from .diversity import DiversityDisplay, KappaErrorDisplay
from .importances import FeatureImportancesDisplay
from .regions import DecisionRegionsDisplay
from .sample_weights import SampleWeightsDisplay, staged_sample_weights
from .shapley import BeeswarmDisplay, ShapleyDependenceDisplay, WaterfallDisplay
from .tree import TreeDisplay

__all__ = [
    "BeeswarmDisplay",
    "CalibrationDisplay",
    "DecisionRegionsDisplay",
    "DiversityDisplay",
    "FeatureImportancesDisplay",
    "KappaErrorDisplay",
    "LearningCurveDisplay",
    "OOBCurveDisplay",
    "PartialDependenceDisplay",
    "SampleWeightsDisplay",
    "ShapleyDependenceDisplay",
    "TreeDisplay",
    "WaterfallDisplay",
    "staged_sample_weights",
]
