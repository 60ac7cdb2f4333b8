"""What ``sklearn.utils.estimator_checks`` checks, on every public estimator of numbers.

``running`` runs this file as it runs scikit-learn's. The checks of arrays of other libraries are in
``array_api``, for those that claim to take them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.conformance.estimators import OF_NUMBERS, name_of


def label(estimator: Any, check: partial) -> str:
    settings = "".join(f",{name}={value}" for name, value in check.keywords.items())
    return f"{name_of(estimator)}-{check.func.__name__}{settings}"


CASES = [
    pytest.param(estimator, check, id=label(estimator, check))
    for each in OF_NUMBERS
    for estimator, check in estimator_checks_generator(each)
    if not (get_tags(each).array_api_support and "array_api" in check.func.__name__)
]


@pytest.mark.parametrize("estimator, check", CASES)
def test_estimator(estimator, check):
    check(estimator)
