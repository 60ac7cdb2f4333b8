"""scikit-learn's own tests on our estimators: the share that passes, and the lists of failures."""

from __future__ import annotations

import functools

import pytest

from tests.conformance import listing
from tests.conformance.running import Outcome, available, run
from tests.conformance.suites import LISTS, SUITES

HERE = [name for name in SUITES if name != "checks"]
"""What runs in these tests: each estimator's own tests run its checks, on further settings."""


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
