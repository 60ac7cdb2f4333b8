"""State machines: fits, warm starts, interruptions, callbacks, files and copies in any order."""

from __future__ import annotations

import copy
import pickle
import sys
import tempfile
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import gpuens

from .answers import answers
from .attack import LIBRARY, Attack, FoundError, place_of
from .families import FAMILIES, N_ROWS, data_of

MOST_ROUNDS = 8
BAD_PARAMETERS = {"n_jobs": "many", "device": "toaster"}


def is_fitted(model: Any) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


class Interruption:
    """Raises KeyboardInterrupt where a function of the library is called for the n-th time, once.

    A signal does the same, but not at the same place when a run is repeated.
    """

    def __init__(self, n: int) -> None:
        self.left = n

    def __enter__(self) -> None:
        self.outer = sys.gettrace()
        sys.settrace(self._call)

    def __exit__(self, *error: object) -> None:
        sys.settrace(self.outer)

    def _call(self, frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code.co_filename.startswith(LIBRARY):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


class Machine(RuleBasedStateMachine):
    """A model, beside models of the same parameters that were fitted in one go."""

    family = "boosting"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.straight: dict[int, dict[str, np.ndarray]] = {}
        self.rounds: int | None = None
        """Rounds of the fitted model; None while it is not fitted."""
        self.warnings = warnings.catch_warnings()
        self.warnings.__enter__()
        warnings.simplefilter("ignore")

    def teardown(self) -> None:
        self.warnings.__exit__(None, None, None)
        self.folder.cleanup()

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.name, self.params = data.draw(st.sampled_from(FAMILIES[self.family]))
        which, n_jobs = data.draw(st.integers(0, 1)), data.draw(st.sampled_from([1, 2]))
        self.X, self.y, self.more = data_of(self.name, self.params.get("loss"), which)
        self.model = self.fresh(n_jobs=n_jobs)
        self.staged = hasattr(self.model, "staged_predict")
        self.grows = "n_estimators" in self.model.get_params(deep=False)
        self.calls = "callbacks" in self.model.get_params(deep=False)

    def fresh(self, **more: Any) -> Any:
        kind = getattr(gpuens, self.name)
        known = kind._get_param_names() if hasattr(kind, "_get_param_names") else []
        places = {"device": "cpu", "random_state": 0} | more
        return kind(**self.params, **{k: v for k, v in places.items() if k in known})

    def expected(self, rounds: int) -> dict[str, np.ndarray]:
        """Return the outputs of a model that was fitted in one go."""
        if rounds not in self.straight:
            model = self.fresh(n_jobs=1)
            if self.grows:
                model.set_params(n_estimators=rounds)
            self.straight[rounds] = answers(model.fit(self.X, self.y, **self.more), self.X)
        return self.straight[rounds]

    def check(self, model: Any, what: str) -> None:
        assert self.rounds is not None
        assert same(answers(model, self.X), self.expected(self.rounds)), what

    def size(self) -> int:
        """Return the number of rounds that the model now has."""
        model = self.model
        for count in ("n_iter_", "estimators_"):
            if hasattr(model, count):
                value = getattr(model, count)
                return int(value) if count == "n_iter_" else len(value)
        return int(model.forest_.n_trees)

    @rule(rounds=st.integers(1, MOST_ROUNDS))
    def fit(self, rounds: int) -> None:
        if self.grows:
            self.model.set_params(n_estimators=rounds, warm_start=False)
        self.model.fit(self.X, self.y, **self.more)
        self.rounds = rounds if self.grows else 1

    @precondition(lambda self: self.rounds is not None and self.grows)
    @rule(more=st.integers(0, 3))
    def warm_start(self, more: int) -> None:
        assert self.rounds is not None
        self.model.set_params(n_estimators=self.rounds + more, warm_start=True)
        self.model.fit(self.X, self.y, **self.more)
        self.rounds += more

    @precondition(lambda self: self.calls)
    @rule(at=st.integers(1, MOST_ROUNDS), how=st.sampled_from(["error", "stop", "interrupt"]))
    def end_by_callback(self, at: int, how: str) -> None:
        """The rounds so far are kept, whatever ends the training."""

        def callback(state: Any) -> bool:
            if state.iteration == at:
                if how == "interrupt":
                    raise KeyboardInterrupt
                if how == "error":
                    raise ArithmeticError("of a callback")
                return True
            return False

        self.model.set_params(n_estimators=MOST_ROUNDS, warm_start=False, callbacks=[callback])
        try:
            self.model.fit(self.X, self.y, **self.more)
        except ArithmeticError:
            assert how == "error"
        else:
            assert how != "error" or self.size() < at
        finally:
            self.model.set_params(callbacks=None)
        assert self.size() == at, (self.size(), at)
        self.rounds = at

    @rule(call=st.integers(1, 3000))
    def interrupt(self, call: int) -> None:
        """Ctrl-C at some call of a function of the library leaves finished rounds or the model
        before it, and nothing between."""
        if self.grows:
            self.model.set_params(n_estimators=MOST_ROUNDS, warm_start=False)
        interruption = Interruption(call)
        try:
            with interruption:
                self.model.fit(self.X, self.y, **self.more)
        except KeyboardInterrupt:  # nothing was finished: the model is the one before, or all was
            if not is_fitted(self.model):
                assert self.rounds is None
                return
        self.rounds = self.size() if self.grows else 1

    @rule(what=st.sampled_from(["rows", "target", "parameter", "type"]), data=st.data())
    def fail(self, what: str, data: st.DataObject) -> None:
        """A call that fails leaves the model as it was."""
        X, y = self.X, self.y
        bad = {}
        if what == "rows":
            y = y[:-1]
        elif what == "target":
            y = np.full(N_ROWS, np.nan)
        elif what == "type":
            X = np.array([["a"] * 4] * N_ROWS)
        else:
            name = data.draw(st.sampled_from(sorted(BAD_PARAMETERS)))
            bad = {name: BAD_PARAMETERS[name]} if name in self.model.get_params() else {}
        if self.grows:  # where there is nothing to add, nothing is read
            self.model.set_params(n_estimators=(self.rounds or 0) + 1)
        good = {name: getattr(self.model, name) for name in bad}
        self.model.set_params(**bad)
        try:
            self.model.fit(X, y, **self.more)
        except (ValueError, TypeError):
            pass
        else:
            assert not bad and (what == "parameter" or "Isolation" in self.name), what
            self.rounds = self.size() if self.grows else 1
        finally:
            self.model.set_params(**good)

    @precondition(lambda self: self.rounds is not None)
    @rule(go_on=st.booleans())
    def save_and_load(self, go_on: bool) -> None:
        path = Path(self.folder.name) / "model.gpuens"
        self.model.save(path)
        loaded = gpuens.load(path)
        self.check(loaded, "loaded")
        if go_on:
            self.model = loaded

    @rule(go_on=st.booleans(), how=st.sampled_from(["pickle", "deepcopy"]))
    def copied(self, go_on: bool, how: str) -> None:
        model = self.model
        other = pickle.loads(pickle.dumps(model)) if how == "pickle" else copy.deepcopy(model)
        if self.rounds is not None:
            self.check(other, how)
        if go_on:
            self.model = other

    @rule()
    def cloned(self) -> None:
        other = clone(self.model)
        assert not hasattr(other, "n_features_in_")
        mine, others = self.model.get_params(), other.get_params()
        assert repr(mine) == repr(others)

    @precondition(lambda self: self.rounds is not None)
    @rule(first=st.integers(0, N_ROWS - 1), n=st.integers(1, N_ROWS))
    def predict_some(self, first: int, n: int) -> None:
        """Rows are predicted alike, whatever rows are beside them."""
        part = answers(self.model, self.X[first : first + n])
        whole = {k: v[first : first + n] for k, v in answers(self.model, self.X).items()}
        assert same(part, whole)

    @precondition(lambda self: self.rounds is not None and self.staged)
    @rule()
    def predict_in_stages(self) -> None:
        stages = list(self.model.staged_predict(self.X))
        assert len(stages) >= 1
        assert np.array_equal(stages[-1], self.model.predict(self.X))

    @invariant()
    def as_if_in_one_go(self) -> None:
        if self.rounds is not None:
            self.check(self.model, "the model")


class States(Attack):
    """Runs of a state machine of one family; hypothesis shrinks those that fail."""

    family = "boosting"
    limit = 600.0
    n_runs, n_steps = 4, 12

    def trial(self, number: int) -> None:
        machine = type(f"{self.family.title()}Machine", (Machine,), {"family": self.family})
        options = settings(
            max_examples=self.n_runs, stateful_step_count=self.n_steps, deadline=None,
            database=None, suppress_health_check=list(HealthCheck), print_blob=False,
            phases=[Phase.generate, Phase.shrink],
        )  # fmt: skip
        try:
            run_state_machine_as_test(seed(self.seed * 10**9 + number)(machine), settings=options)
        except Exception as error:
            notes = "\n".join(getattr(error, "__notes__", []))
            kind = "wrong result" if isinstance(error, AssertionError) else "unnamed error"
            last = traceback_line(error)
            text = f"{type(error).__name__}: {str(error)[:200]} ({last})"
            raise FoundError(kind, text, f"{place_of(error)} {last}", notes) from error


def traceback_line(error: BaseException) -> str:
    """Return the rule of the machine that failed."""
    at, found = error.__traceback__, ""
    while at is not None:
        if at.tb_frame.f_code.co_filename == __file__:
            found = f"{at.tb_frame.f_code.co_name}:{at.tb_lineno}"
        at = at.tb_next
    return found


class BoostingStates(States):
    family = "boosting"


class ForestStates(States):
    family = "forests"


class DistributionStates(States):
    family = "distributions"
    weight = 0.5


class SurvivalStates(States):
    family = "survival"


class ConformalStates(States):
    family = "conformal"
    weight = 0.5


class TreeStates(States):
    family = "trees"
    weight = 0.5


class AdaBoostStates(States):
    family = "adaboost"


class BaggingStates(States):
    family = "bagging"
