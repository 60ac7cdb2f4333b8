"""scikit-learn's checks of arrays of other libraries, on every public estimator whose tags claim
``array_api_support``.

``running`` runs this file as it runs scikit-learn's, with SCIPY_ARRAY_API=1; what is expected to
fail is in ``lists/array_api.toml``, with its reason. A library that is not installed is skipped.
"""

from __future__ import annotations

import pytest
from sklearn.utils import _array_api, estimator_checks, get_tags
from sklearn.utils._array_api import yield_namespace_device_dtype_combinations
from sklearn.utils.estimator_checks import (
    check_array_api_input_and_values,
    check_array_api_same_namespace,
)

from tests.conformance.estimators import OF_NUMBERS, name_of

ON_THE_HOST = ("CPU_DEVICE", "device1", "cpu")
"""Devices that need no GPU."""
LIBRARIES = [
    pytest.param(*case, id="-".join(case))
    for case in yield_namespace_device_dtype_combinations(include_numpy_namespaces=False)
    if case[0] in ("array_api_strict", "torch") and case[1] in ON_THE_HOST
]
MIXED = [
    pytest.param(of_y, of_X, id=f"{of_y.xp}-{of_X.xp}")
    for of_y, of_X, _ in getattr(_array_api, "yield_mixed_namespace_input_permutations", list)()
    if {of_y.device, of_X.device} <= {*ON_THE_HOST, None}
]
"""From scikit-learn 1.9 on."""
CLAIM_IT = [e for e in OF_NUMBERS if get_tags(e).array_api_support]
every_estimator = pytest.mark.parametrize("estimator", CLAIM_IT, ids=name_of)


@every_estimator
@pytest.mark.parametrize("library, device, dtype", LIBRARIES)
def test_array_api(estimator, library, device, dtype):
    """Fitted on the same numbers as in NumPy, everything is the same, in the array's library."""
    check_array_api_input_and_values(name_of(estimator), estimator, library, device, dtype)


@every_estimator
@pytest.mark.parametrize("of_y, of_X", MIXED)
def test_array_api_mixed_inputs(estimator, of_y, of_X):
    """The target and the weights may be of another library than the table."""
    estimator_checks.check_array_api_mixed_inputs(
        name_of(estimator), estimator, other_ns_and_device=of_y, X_ns_and_device=of_X
    )


@every_estimator
def test_array_api_same_namespace(estimator):
    """Arrays of another library than in ``fit`` are refused."""
    check_array_api_same_namespace(name_of(estimator), estimator, "array_api_strict")
