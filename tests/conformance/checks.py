"""What ``sklearn.utils.estimator_checks`` checks, on every public estimator of numbers.

``running`` runs this file as it runs scikit-learn's; nothing is expected to fail here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.conformance.estimators import OF_NUMBERS, name_of


def label(estimator: Any, check: partial) -> str:
    settings = "".join(f",{name}={value}" for name, value in check.keywords.items())
    return f"{name_of(estimator)}-{check.func.__name__}{settings}"


CASES = [
    pytest.param(estimator, check, id=label(estimator, check))
    for each in OF_NUMBERS
    for estimator, check in estimator_checks_generator(each)
]


@pytest.mark.parametrize("estimator, check", CASES)
def test_estimator(estimator, check):
    check(estimator)
