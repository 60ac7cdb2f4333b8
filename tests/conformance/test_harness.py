"""The machinery that runs scikit-learn's tests on other classes sees what it should see."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.conformance import listing
from tests.conformance.listing import TODO, Listing
from tests.conformance.running import BrokenRunError, Outcome, available, run
from tests.conformance.suites import SUITES

PASSED, SKIPPED = Outcome("passed"), Outcome("skipped")
FAILED = Outcome("failed", "assert 1 == 2 (test_x.py:3)")
TREE = "sklearn.tree.DecisionTreeClassifier"


@pytest.fixture
def tiny(tmp_path):
    """A test file like scikit-learn's, and a tree that always predicts the first class."""
    test = """
        import os
        import pytest
        from sklearn import tree
        from sklearn.ensemble import BaggingClassifier
        from sklearn.tree import DecisionTreeClassifier

        X, y = [[0.0], [1.0]], [0, 1]

        def test_learns():
            assert list(DecisionTreeClassifier().fit(X, y).predict(X)) == y

        @pytest.mark.parametrize("depth", [0, 1])
        def test_depth(depth):
            fitted = DecisionTreeClassifier(max_depth=depth or None).fit(X, y)
            assert sum(fitted.predict(X)) == depth

        def test_bagging_keeps_its_own_tree():
            fitted = BaggingClassifier(n_estimators=1).fit(X, y)
            assert type(fitted.estimators_[0]).__module__ == "sklearn.tree._classes"

        def test_both_ways_to_import_it():
            assert tree.DecisionTreeClassifier is DecisionTreeClassifier

        def test_skipped():
            pytest.skip("for no reason")

        @pytest.fixture
        def broken():
            raise ValueError("no set-up")

        def test_set_up_fails(broken):
            pass

        @pytest.mark.xfail
        def test_expected_to_fail():
            assert False

        def test_process_ends():
            os._exit(3)
    """
    broken = """
        from sklearn.tree import DecisionTreeClassifier

        class FirstClass(DecisionTreeClassifier):
            def predict(self, X):
                return [self.classes_[0]] * len(X)
    """
    (tmp_path / "test_tiny.py").write_text(dedent(test))
    (tmp_path / "broken_trees.py").write_text(dedent(broken))
    return tmp_path


CRASH = "test_process_ends"


def run_tiny(tiny, replacement=TREE, **options):
    return run(str(tiny / "test_tiny.py"), {TREE: replacement}, python_path=tiny, **options)


def results(outcomes):
    return {test: outcome.result for test, outcome in outcomes.items()}


@pytest.mark.slow
def test_outcomes_of_the_class_itself(tiny):
    found = run_tiny(tiny, deselected=[CRASH])
    assert results(found) == {
        "test_process_ends": "deselected",
        "test_learns": "passed",
        "test_depth[0]": "failed",
        "test_depth[1]": "passed",
        "test_bagging_keeps_its_own_tree": "passed",
        "test_both_ways_to_import_it": "passed",
        "test_skipped": "skipped",
        "test_set_up_fails": "failed",
        "test_expected_to_fail": "skipped",
    }
    assert found["test_set_up_fails"].message.startswith("ValueError: no set-up (test_tiny.py:")
    assert listing.count(found) == listing.Counts(3, 3, cases_passed=4, cases_failed=3, skipped=2)


@pytest.mark.slow
def test_another_class_takes_its_place(tiny):
    found = run_tiny(tiny, "broken_trees.FirstClass", deselected=[CRASH, "test_set_up_fails"])
    expected = dict.fromkeys(found, PASSED) | {"test_learns": FAILED, "test_depth[1]": FAILED}
    failed = {test for test, outcome in found.items() if outcome.result == "failed"}
    assert failed == {test for test, outcome in expected.items() if outcome is FAILED}
    assert results(found)["test_both_ways_to_import_it"] == "passed"
    assert results(found)["test_bagging_keeps_its_own_tree"] == "passed"


@pytest.mark.slow
def test_a_crash_names_its_test(tiny):
    with pytest.raises(BrokenRunError, match=r"broke off in test_process_ends \(exit code 3\)"):
        run_tiny(tiny)


def test_a_run_may_not_take_forever(tiny):
    with pytest.raises(BrokenRunError, match=r"broke off \(exit code none after 0.1 s"):
        run_tiny(tiny, timeout=0.1)


LIST = Listing("1.9", {"test_a": "no sparse input", "test_b[1]": "other draws"})


def test_a_list_that_fits():
    outcomes = {"test_a[0]": FAILED, "test_a[1]": SKIPPED, "test_b[1]": FAILED, "test_c": PASSED}
    assert listing.problems(LIST, outcomes) == []


@pytest.mark.parametrize(("outcomes", "problem"), [
    ({"test_b[2]": FAILED}, "test_b[2] fails and is not listed: assert 1 == 2 (test_x.py:3)"),
    ({"test_b[1]": PASSED}, "test_b[1] passes; take it off the list (it says: other draws)"),
    ({"test_a[0]": PASSED}, "test_a[0] passes; take it off the list (it says: no sparse input)"),
    ({"test_c[0]": FAILED, "test_c[1]": FAILED, "test_c[2]": FAILED},
     "test_c[0] (and 2 more of its cases) fails and is not listed: assert 1 == 2 (test_x.py:3)"),
    ({"test_a[0]": None}, "test_a is listed and does not exist; take it off the list"),
])  # fmt: skip
def test_a_list_that_does_not_fit(outcomes, problem):
    fitting = {"test_a[0]": FAILED, "test_a[1]": FAILED, "test_b[1]": FAILED}
    if None in outcomes.values():
        fitting, outcomes = {"test_b[1]": FAILED}, {}
    assert listing.problems(LIST, fitting | outcomes) == [problem]


@pytest.mark.parametrize("reason", ["", "  ", TODO])
def test_a_reason_is_needed(reason):
    for kind in ("failing", "deselected"):
        known = Listing("1.9", **{kind: {"test_a": reason}})
        outcome = FAILED if kind == "failing" else Outcome("deselected")
        assert listing.problems(known, {"test_a": outcome}) == ["test_a is listed without a reason"]


def test_an_update_keeps_reasons():
    outcomes = {
        "test_a[0]": FAILED, "test_a[1]": FAILED, "test_b[0]": PASSED, "test_b[1]": FAILED,
        "test_b[2]": FAILED, "test_new": FAILED, "test_c": PASSED, "test_d[0]": FAILED,
        "test_d[1]": FAILED,
    }  # fmt: skip
    old = Listing(
        "1.8",
        {**LIST.failing, "test_c": "mended", "test_d[0]": "one", "test_d[1]": "another"},
        {"test_slow": "takes a minute"},
    )
    new = listing.updated(old, outcomes)
    assert new == Listing(
        listing.installed_version(),
        {
            "test_a": "no sparse input",
            "test_b[1]": "other draws",
            "test_b[2]": "other draws",
            "test_new": TODO,
            "test_d[0]": "one",
            "test_d[1]": "another",
        },
        {"test_slow": "takes a minute"},
    )
    assert listing.updated(new, outcomes) == new


def test_lists_survive_the_file(tmp_path):
    odd = Listing("1.9", {'test_a["quoted"-\\-ü]': 'says "no"'}, {"test_b": "slow"})
    listing.write(tmp_path / "list.toml", odd)
    assert listing.read(tmp_path / "list.toml") == odd
    listing.write(tmp_path / "empty.toml", Listing("1.9"))
    assert listing.read(tmp_path / "empty.toml") == Listing("1.9")
    assert listing.read(tmp_path / "none.toml") == Listing(listing.installed_version())


def test_test_modules_may_be_missing(tmp_path):
    assert not available("sklearn.no_such_package.tests.test_it")
    assert not available("sklearn.no_such_module")
    assert available("sklearn.tree") and available(__file__)
    assert not available(str(tmp_path / "none.py"))


def skip_without_tests(suite):
    if not available(suite.module):
        pytest.skip("this scikit-learn comes without its tests")


@pytest.mark.slow
def test_scikit_learn_conforms_to_itself():
    suite = SUITES["iforest"]
    skip_without_tests(suite)
    counts = listing.count(run(suite.module, suite.replacements("sklearn")))
    assert counts.share == counts.share_of_cases == 1 and counts.passed > 10


@pytest.mark.slow
def test_a_broken_class_is_found(tmp_path):
    suite = SUITES["iforest"]
    skip_without_tests(suite)
    (tmp_path / "broken_forests.py").write_text(
        "import sklearn.ensemble\n\n"
        "class IsolationForest(sklearn.ensemble.IsolationForest):\n"
        "    def score_samples(self, X):\n"
        "        return -super().score_samples(X)\n"
    )
    found = run(
        suite.module,
        suite.replacements("broken_forests"),
        only=["test_iforest_works", "test_iforest_error"],
        python_path=tmp_path,
    )
    ran = {test: result for test, result in results(found).items() if result != "deselected"}
    assert ran.pop("test_iforest_error") == "passed"
    assert ran and set(ran.values()) == {"failed"}
