"""scikit-learn's checks of arrays of other libraries, on every public classifier and regressor.

``running`` runs this file as it runs scikit-learn's, with SCIPY_ARRAY_API=1; nothing is expected
to fail here. A library that is not installed is skipped.
"""

from __future__ import annotations

import pytest
from sklearn.utils._array_api import yield_namespace_device_dtype_combinations
from sklearn.utils.estimator_checks import (
    check_array_api_input_and_values,
    check_array_api_same_namespace,
)

from tests.conformance.estimators import PREDICTORS, name_of

ON_THE_HOST = ("CPU_DEVICE", "device1", "cpu")
"""Devices that need no GPU."""
LIBRARIES = [
    pytest.param(*case, id="-".join(case))
    for case in yield_namespace_device_dtype_combinations(include_numpy_namespaces=False)
    if case[0] in ("array_api_strict", "torch") and case[1] in ON_THE_HOST
]
predictors = pytest.mark.parametrize("estimator", PREDICTORS, ids=name_of)


@predictors
@pytest.mark.parametrize("library, device, dtype", LIBRARIES)
def test_array_api(estimator, library, device, dtype):
    """Fitted on the same numbers as in NumPy, everything is the same, in the array's library."""
    check_array_api_input_and_values(name_of(estimator), estimator, library, device, dtype)


@predictors
def test_array_api_same_namespace(estimator):
    """Arrays of another library than in ``fit`` are refused."""
    check_array_api_same_namespace(name_of(estimator), estimator, "array_api_strict")
