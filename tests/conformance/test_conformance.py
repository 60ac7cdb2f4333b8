"""scikit-learn's own tests on our estimators: the share that passes, and the lists of failures."""

from __future__ import annotations

import functools
import re

import pytest
import sklearn.ensemble

from tests.conformance import listing
from tests.conformance.running import Outcome, available, run
from tests.conformance.suites import LISTS, SUITES

HERE = [name for name, suite in SUITES.items() if not suite.on_request]
"""What runs in these tests. Each estimator's own tests run its checks, on further settings; suites
in which nothing fails take long, and few cases of them are in ``test_ecosystem.py``."""

OF_OUR_OWN = {
    "QuantileForestRegressor": "a random forest, whose bootstrap samples draw rows by their number",
    "ObliqueRandomForestClassifier": "a random forest, like the next",
    "ObliqueRandomForestRegressor": "a random forest, whose bootstrap samples draw rows by number",
    "ConformalClassifier": "rows to calibrate with are held out by their number",
    "ConformalRegressor": "rows to calibrate with are held out by their number",
    "TunedClassifier": "rows to score are held out by their number, and those trained on are drawn",
    "TunedRegressor": "rows to score are held out by their number, and those trained on are drawn",
}
"""Estimators that fail a check although scikit-learn has none of their kind that fails it."""
MOST_OF_OUR_OWN = 7


def failed_checks() -> dict[str, set[str]]:
    """Return the checks that each estimator is listed to fail."""
    found: dict[str, set[str]] = {}
    for test in listing.read(SUITES["checks"].path).failing:
        match = re.fullmatch(r"test_estimator\[(\w+)-(\w+)\]", test)
        assert match, test
        found.setdefault(match[1], set()).add(match[2])
    return found


@functools.cache
def outcomes_of(name: str) -> dict[str, Outcome]:
    suite = SUITES[name]
    if not available(suite.module):
        pytest.skip("this scikit-learn comes without its tests")
    known = listing.read(suite.path)
    return run(
        suite.module,
        suite.replacements(),
        deselected=known.deselected,
        environment=suite.environment,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_enough_pass(name):
    counts = listing.count(outcomes_of(name), SUITES[name].by_case)
    assert counts.share >= SUITES[name].least_share, counts


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_failures_are_those_listed(name):
    known = listing.read(SUITES[name].path)
    if known.version != listing.installed_version():
        pytest.skip(f"the list is of scikit-learn {known.version}")
    found = listing.problems(known, outcomes_of(name))
    assert not found, "\n".join([*found, "python -m tests.conformance --update rewrites the list."])


def test_every_list_belongs_to_a_suite():
    assert {path.name for path in LISTS.glob("*")} <= {suite.path.name for suite in SUITES.values()}


@pytest.mark.parametrize("name", SUITES)
def test_every_entry_has_a_reason(name):
    known = listing.read(SUITES[name].path)
    reasons = {**known.failing, **known.deselected}
    assert not [test for test, why in reasons.items() if not why.strip() or why.startswith("TODO")]


def test_estimators_fail_only_what_those_of_scikit_learn_fail():
    """Weights that are not repeated rows are the only reason, and scikit-learn's estimator of the
    same name (of gradient boosting: both of its kinds) has it too, but for the few listed here."""
    module = "sklearn.utils._test_common.instance_generator"
    theirs = pytest.importorskip(module).PER_ESTIMATOR_XFAIL_CHECKS
    own = set()
    for name, checks in failed_checks().items():
        assert all("sample_weight_equivalence" in check for check in checks)
        names = (name, f"Hist{name}")
        kinds = [kind for kind in (getattr(sklearn.ensemble, n, None) for n in names) if kind]
        if not kinds or any(checks - set(theirs.get(kind, ())) for kind in kinds):
            own.add(name)
    assert own == set(OF_OUR_OWN) and len(own) <= MOST_OF_OUR_OWN
