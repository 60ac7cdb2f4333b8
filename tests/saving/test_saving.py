"""Models in files: what comes back, and what is refused."""

from __future__ import annotations

import copy
import os
import pickle
import re
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import NotFittedError

import gpuens
from gpuens import (
    BaggingClassifier,
    DecisionTreeClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
    load,
)
from gpuens.saving import save
from gpuens.saving.file import FORMAT, ModelFileError

from .model_files import SAVED, SETTINGS, fitted, rewrite, table

X, Y = table()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gpuens"


def prints(model: Any) -> list[str]:
    """Fingerprints of all trees of a model."""
    if hasattr(model, "forest_"):
        return [model.forest_.fingerprint()]
    return [print_ for member in model.estimators_ for print_ in prints(member)]


def same(a: Any, b: Any) -> bool:
    """Equality throughout, with NaN equal to itself."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, BaseEstimator):
        return type(a) is type(b) and same(a.get_params(deep=False), b.get_params(deep=False))
    plain = isinstance(a, (bool, int, float, str, np.generic, type(None)))
    return type(a) is type(b) and (not plain or a == b)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_model_comes_back_whole(name, path):
    model = fitted(name)
    model.save(path)
    loaded = load(path)
    assert type(loaded) is type(model)
    assert same(loaded.get_params(deep=False), model.get_params(deep=False))
    assert prints(loaded) == prints(model)
    state, expected = loaded.__getstate__(), model.__getstate__()
    assert state.keys() == expected.keys()
    assert all(same(state[key], value) for key, value in expected.items())
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert not any(
        array.flags.writeable for forest in forests(loaded) for _, array in forest._arrays()
    )


@pytest.mark.parametrize(
    "file", sorted(SAVED.glob("*/*.gpuens")), ids=lambda p: "-".join(p.parts[-2:])
)
def test_files_of_every_format_load_for_ever(file):
    with np.load(file.parent / "predictions.npz") as expected:
        np.testing.assert_array_equal(load(file).predict(X), expected[file.stem])


def test_every_format_has_its_files():
    for number, least in zip(range(1, FORMAT + 1), (16, 2), strict=True):
        assert len(list((SAVED / f"format-{number}").glob("*.gpuens"))) >= least


@pytest.mark.parametrize("name", SETTINGS)
def test_pickles_and_copies(name, tmp_path):
    model = fitted(name)
    joblib.dump(model, tmp_path / "model.joblib")
    copies = [pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")]
    for copied in [*copies, copy.deepcopy(model), copy.copy(model)]:
        assert prints(copied) == prints(model)
        np.testing.assert_array_equal(copied.predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["RandomForestClassifier", "GradientBoostingRegressor"])
def test_skops(name):
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(fitted(name))
    unknown = skops.get_untrusted_types(data=data)
    assert unknown and all(kind.startswith("gpuens.") for kind in unknown)
    copied = skops.loads(data, trusted=unknown)
    np.testing.assert_array_equal(copied.predict(X), fitted(name).predict(X))


@pytest.mark.skipif(os.name == "nt", reason="permissions are other ones on Windows")
def test_files_have_the_usual_permissions(path, tmp_path):
    (tmp_path / "other").touch()
    fitted("DecisionTreeClassifier").save(path)
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


def forests(model: Any) -> list[Any]:
    if hasattr(model, "forest_"):
        return [model.forest_]
    return [member.forest_ for member in model.estimators_ if hasattr(member, "forest_")]


def test_saving_twice_gives_the_same_bytes(path, tmp_path):
    model = fitted("RandomForestClassifier")
    model.save(path)
    load(path).save(tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def test_a_loaded_model_goes_on_training(path):
    settings = {"warm_start": True, "random_state": 3}
    model = RandomForestClassifier(3, **settings).fit(X, Y)
    model.save(path)
    further = load(path).set_params(n_estimators=8).fit(X, Y)
    whole = RandomForestClassifier(8, **settings).fit(X, Y)
    assert prints(further) == prints(whole)


def test_categories_and_column_names_come_back(path):
    frame = pd.DataFrame({"size": X[:, 0], "colour": pd.Categorical(Y)})
    y = (Y == "low").astype(int)
    model = RandomForestClassifier(5, categorical_features="from_dtype").fit(frame, y)
    model.save(path)
    loaded = load(path)
    assert loaded.feature_names_in_.tolist() == ["size", "colour"]
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    with pytest.raises(ValueError, match="(?s)feature names.*same order"):
        loaded.predict(frame[["colour", "size"]])


def test_an_unfitted_model_can_be_saved(path):
    RandomForestClassifier(7, class_weight={"low": 2.0, "high": 1.0}, max_features=0.5).save(path)
    loaded = load(path)
    assert loaded.class_weight == {"low": 2.0, "high": 1.0}
    with pytest.raises(NotFittedError):
        loaded.predict(X)


def test_what_is_shared_is_stored_once(path):
    frame = pd.DataFrame({"a": X[:, 0], "c": pd.Categorical(Y)})
    model = RandomForestClassifier(3, categorical_features="from_dtype").fit(frame, Y)
    model._again = model._categories
    model.save(path)
    assert load(path)._again is load(path)._categories or load(path)._again is not None
    loaded = load(path)
    assert loaded._again is loaded._categories


def test_ensembles_of_ensembles(path):
    pytest.importorskip("skops")
    inner = VotingClassifier(
        [("forest", RandomForestClassifier(3)), ("tree", DecisionTreeClassifier(max_depth=2))],
        voting="soft",
        weights="optimal",
    )
    members = [
        ("voting", inner),
        ("line", LogisticRegression()),
        ("three", fitted("BaggingClassifier")),
    ]
    filled = np.nan_to_num(X)
    model = StackingClassifier(members, cv=3).fit(filled, Y)
    model.save(path)
    loaded = load(path)
    np.testing.assert_array_equal(loaded.predict_proba(filled), model.predict_proba(filled))
    assert loaded.named_estimators_["voting"].estimators_[0] is not None


class Majority(ClassifierMixin, BaseEstimator):
    """A user's estimator: always the commonest class."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.classes_, counts = np.unique(y, return_counts=True)
        self.commonest_ = self.classes_[counts.argmax()]
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.commonest_)


def test_members_of_other_packages_go_by_skops(path):
    pytest.importorskip("skops")
    filled = np.nan_to_num(X)
    model = BaggingClassifier(LogisticRegression(), n_estimators=3).fit(filled, Y)
    model.save(path)
    np.testing.assert_array_equal(load(path).predict_proba(filled), model.predict_proba(filled))


def test_other_classes_are_loaded_only_if_they_are_trusted(path):
    pytest.importorskip("skops")
    model = BaggingClassifier(Majority(), n_estimators=2).fit(np.nan_to_num(X), Y)
    model.save(path)
    name = f"{Majority.__module__}.Majority"
    with pytest.raises(
        ValueError, match=rf"(?s){re.escape(name)}.*trusted=\['{re.escape(name)}'\]"
    ):
        load(path)
    loaded = load(path, trusted=[name])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("settings, parts", [
    ({"random_state": np.random.RandomState(0)}, "random_state.*RandomState"),
    ({"class_weight": {(1, 2): 1.0}}, r"class_weight.*key \(1, 2\)"),
    ({"max_features": lambda n: n}, "max_features.*function"),
])  # fmt: skip
def test_what_a_file_cannot_hold_is_named(path, settings, parts):
    with pytest.raises(TypeError, match=f"(?s)RandomForestClassifier.{parts}"):
        RandomForestClassifier(**settings).save(path)
    assert list(path.parent.iterdir()) == []


def test_only_estimators_of_this_package_are_saved(path):
    with pytest.raises(TypeError, match="takes an estimator of gpuens, got .*ndarray"):
        save(X, path)


def test_a_failed_save_leaves_the_old_file(path, monkeypatch):
    fitted("DecisionTreeClassifier").save(path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        fitted("RandomForestClassifier").save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        fitted("DecisionTreeClassifier").save(tmp_path / "nowhere" / "model")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"no model file: '{tmp_path}/none.gpuens'"):
        load(tmp_path / "none.gpuens")


def test_other_files_are_refused(path):
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match="cut off, or not a model file"):
        load(path)
    path.write_bytes(pickle.dumps(fitted("DecisionTreeClassifier")))
    with pytest.raises(ModelFileError, match="not a model file"):
        load(path)
    save_file({"weights": X[:, 1].copy()}, path)
    with pytest.raises(ModelFileError, match="safetensors file, but does not hold a gpuens model"):
        load(path)


def test_a_newer_format_is_refused(path):
    fitted("DecisionTreeClassifier").save(path)
    rewrite(path, lambda document, _: document.update(format=FORMAT + 1, gpuens="9.1"))
    with pytest.raises(ModelFileError, match=f"(?s)format {FORMAT + 1}.*gpuens 9.1.*Update gpuens"):
        load(path)


@pytest.mark.parametrize("name", ["RandomForestClassifier", "QuantileForestRegressor"])
def test_cut_and_flipped_files_are_refused(name, path):
    fitted(name).save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for end in rng.integers(0, len(whole), 40):
        path.write_bytes(whole[:end])
        with pytest.raises(ModelFileError):
            load(path)
    for bit in rng.integers(0, 8 * len(whole), 100):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(changed)
        with pytest.raises(ModelFileError):
            load(path)


def set_array(field: str, at: Any, value: Any) -> Any:
    """A change of one entry of an array of the first forest in a file."""

    def change(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        forest = next(e for e in document["entries"] if e[:2] == ["record", "Forest"])
        array = arrays[document["entries"][forest[2][field]["@"]][1]]
        array[at] = value

    return change


def set_type(field: str, dtype: Any) -> Any:
    def change(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        forest = next(e for e in document["entries"] if e[:2] == ["record", "Forest"])
        name = document["entries"][forest[2][field]["@"]][1]
        arrays[name] = arrays[name].astype(dtype)

    return change


def edit_last(change: Any) -> Any:
    return lambda document, _: change(document["entries"][-1])


LIES = {
    "a child beyond its tree": (set_array("left", 0, 10**6), "left has a child beyond its tree"),
    "a cycle": (set_array("left", 0, 0), "left has a child that comes before its parent"),
    "an only child": (set_array("right", 0, 7), "right is not left"),
    "a feature beyond X": (set_array("feature", 0, 4), "feature has columns beyond X"),
    "a feature below zero": (set_array("feature", 0, -2), "feature has columns beyond X"),
    "a threshold of NaN": (set_array("threshold", 0, np.nan), "threshold has NaN"),
    "infinite values": (set_array("value", (0, 0), np.inf), "value is not finite"),
    "trees out of order": (set_array("offset", 1, 0), "offset does not ascend"),
    "nodes beyond the end": (set_array("offset", -1, 10**9), "offset does not cover the nodes"),
    "a column beyond the outputs": (set_array("output", 0, 3), "output has columns"),
    "categories beyond the end": (set_array("category_begin", 0, 0), "category_begin at a numeric"),
    "half precision": (set_type("threshold", np.float16), "threshold is not an array of float64"),
    "another class": (
        edit_last(lambda entry: entry.__setitem__(1, "load")), "no estimator 'load'"),
    "an unknown class": (
        edit_last(lambda entry: entry.__setitem__(1, "os.system")), "no estimator 'os.system'"),
    "an unknown parameter": (
        edit_last(lambda entry: entry[2].update(evil=1)), r"no parameters \['evil'\]"),
    "a method": (edit_last(lambda entry: entry[3].update(_predict=1)), "no attribute '_predict'"),
    "a special method": (
        edit_last(lambda entry: entry[3].update(__class__=1)), "no attribute '__class__'"),
    "a reference to itself": (
        edit_last(lambda entry: entry[3].update(forest_={"@": 10**6})), "does not come before"),
    "trees for other data": (
        edit_last(lambda entry: entry[3].update(n_features_in_=9)), "n_features_in_ is not that"),
    "trees that are none": (
        edit_last(lambda entry: entry[3].update(forest_=1)), "forest_ is 1"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_files_that_lie_are_refused_with_the_field(lie, path):
    change, message = LIES[lie]
    fitted("RandomForestClassifier", oob_score=False).save(path)
    rewrite(path, change)
    with pytest.raises(ModelFileError, match=f"(?s){re.escape(path.name)} is damaged.*{message}"):
        load(path)


def test_targets_in_leaves_that_lie_are_refused(path):
    def change(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        targets = next(e for e in document["entries"] if e[:2] == ["record", "TargetsInLeaves"])
        arrays[document["entries"][targets[2]["segment"]["@"]][1]][0, 1] = 10**6

    fitted("QuantileForestRegressor").save(path)
    rewrite(path, change)
    with pytest.raises(ModelFileError, match="segment points beyond its tree"):
        load(path)


@pytest.mark.parametrize("n_outputs", [2, 2**63])
def test_a_loss_with_other_outputs_than_its_trees_is_refused(n_outputs, path):
    def change(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        loss = next(e for e in document["entries"] if e[0] == "loss")
        loss[2]["n_outputs"] = n_outputs

    fitted("GradientBoostingRegressor").save(path)
    rewrite(path, change)
    with pytest.raises(ModelFileError, match=f"its loss has {n_outputs} outputs, its trees have 1"):
        load(path)


def test_save_and_load_are_public():
    assert gpuens.load is load
    assert DecisionTreeClassifier.save.__doc__
