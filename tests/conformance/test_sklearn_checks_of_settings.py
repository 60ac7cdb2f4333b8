"""scikit-learn's own checks on settings far from the defaults, and of the other classes."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.conformance import test_sklearn_checks as checks

pytestmark = [*checks.pytestmark, pytest.mark.slow]


@parametrize_with_checks(
    checks.OTHERS, expected_failed_checks=lambda estimator: checks.REASONS[id(estimator)]
)
def test_check(estimator, check):
    checks.test_check(estimator, check)
