"""What the campaign has found."""

from __future__ import annotations

import copy
import json
import os
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gpuens
from gpuens.command.tables import CommandError, read
from gpuens.inputs import binning
from gpuens.kernels.runtime import system
from gpuens.saving.file import ModelFileError
from gpuens.saving.records import loss_of_file
from gpuens.tables.file import DOCUMENT as TABLE
from tests.campaign.readers.objects import TREE
from tests.campaign.readers.own import contents

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0]


@pytest.mark.parametrize("theirs", [DecisionTreeClassifier(), RandomForestClassifier(2)])
def test_imported_models_of_one_class_predict_it(theirs):
    theirs.fit(X, np.full(40, 7))
    model = gpuens.from_sklearn(theirs)
    np.testing.assert_array_equal(model.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(model.predict_proba(X), theirs.predict_proba(X))


@pytest.mark.parametrize("name, value, message", [
    ("feature", np.full(3, 9), "feature of node 0 in tree 0 is beyond those of the model"),
    ("threshold", np.zeros(2), "threshold must have an entry for each of the 3 nodes"),
    ("n_features", 2**40, "The model has 1099511627776 features"),
    ("node_count", 2**31, "node_count is"),
    ("max_n_classes", 2**32, "tree_.value does not have 4294967296 outputs"),
    ("impurity", None, "does not hold what scikit-learn"),
])  # fmt: skip
def test_damaged_trees_of_scikit_learn_are_refused(name, value, message):
    theirs = DecisionTreeRegressor(max_depth=1).fit(X, Y)
    fields = {field: getattr(theirs.tree_, field) for field in TREE}
    theirs.tree_ = SimpleNamespace(**fields | {name: value})
    with pytest.raises(gpuens.ImportedModelError, match=message):
        gpuens.from_sklearn(theirs)


@pytest.mark.parametrize("name, value", [
    ("n_features_in_", 2**40), ("is_categorical_", np.ones(9, bool)),
    ("_baseline_prediction", np.zeros((1, 2))), ("_predictors", 3),
])  # fmt: skip
def test_damaged_histogram_models_are_refused(name, value):
    theirs = HistGradientBoostingRegressor(max_iter=1, categorical_features=[0])
    theirs.fit(np.abs(X).round(), Y)
    setattr(theirs, name, value)
    with pytest.raises(gpuens.ImportedModelError):
        gpuens.from_sklearn(theirs)


def test_interrupted_boosting_keeps_the_model_before(monkeypatch):
    """Also one that does not go on from it."""
    model = gpuens.GradientBoostingRegressor(n_estimators=2, device="cpu").fit(X, Y)
    before = copy.deepcopy(vars(model))

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(binning.Binner, "transform", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], -Y)
    assert vars(model).keys() == before.keys() and model.n_features_in_ == 3
    assert model.forest_.fingerprint() == before["forest_"].fingerprint()


def test_quantile_forest_without_a_finished_tree_is_not_fitted(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("gpuens.forests.quantile.rows_of_trees", interrupted)
    model = gpuens.QuantileForestRegressor(n_estimators=2, device="cpu")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not hasattr(model, "forest_")


@pytest.mark.parametrize(
    ("own", "files", "left"),
    [
        ("0::/\n", {"memory.max": "1000", "memory.current": "300"}, 700),
        ("0::/\n", {"memory.max": "max", "memory.current": "300"}, None),
        ("0::/a/b\n", {"memory.max": "1000", "memory.current": "300", "a/memory.max": "400",
                       "a/memory.current": "300", "a/b/memory.max": "max"}, 100),
        ("4:cpu,memory:/a\n", {"memory/a/memory.limit_in_bytes": "500",
                               "memory/a/memory.usage_in_bytes": "450",
                               "memory/a/memory.stat": "cache 9\ntotal_inactive_file 50"}, 100),
        ("4:memory:/hidden\n", {"memory/memory.limit_in_bytes": "500",
                                "memory/memory.usage_in_bytes": "450"}, 50),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": str(2**63 - 4096),
                          "memory/memory.usage_in_bytes": "450"}, None),
    ],
)  # fmt: skip
def test_limits_of_control_groups(own, files, left, tmp_path, monkeypatch):
    """Those of nested groups and of version 1 were not seen."""
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        stat = path.parent / "memory.stat"
        stat.exists() or stat.write_text("anon 7\ninactive_file 0\ntotal_inactive_file 0\n")
    monkeypatch.setattr(system, "_CGROUP", tmp_path)
    monkeypatch.setattr(system, "_OWN_GROUPS", tmp_path / "own")
    assert system._left_in_groups() == left


def test_limit_of_the_address_space(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (2**60, -1))
    left = system._left_in_address_space()
    assert 2**59 < left < 2**60
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1, -1))
    assert system.available_memory() == 0
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, -1))
    assert system._left_in_address_space() is None


def test_only_files_are_replaced(tmp_path):
    """A model saved to /dev/null took the place of the device."""
    model = gpuens.DecisionTreeRegressor(max_depth=1, device="cpu").fit(X, Y)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(OSError, match="is not a regular file: pass the name"):
            model.save(path)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize("name", ["n" * 245, "n" * 255, "é" * 127])
def test_names_as_long_as_the_system_takes(name, tmp_path):
    """The name of the unfinished file was longer than that of the file."""
    path = tmp_path / name
    gpuens.DecisionTreeRegressor(max_depth=1, device="cpu").fit(X, Y).save(path)
    assert gpuens.load(path).forest_.n_trees == 1
    path.unlink()
    gpuens.BinnedTable.from_batches(X, y=Y, path=path)
    assert len(gpuens.BinnedTable.open(path)) == len(X) and len(list(tmp_path.iterdir())) == 1


def test_text_that_utf_8_does_not_hold(tmp_path):
    frame = pd.DataFrame(X)
    frame.columns = pd.Index(["a", "b", "\ud83d"], dtype=object)
    labels = np.where(Y > 0, "yes", "\ud83d")
    gpuens.DecisionTreeClassifier(max_depth=1, device="cpu").fit(frame, labels).save(tmp_path / "m")
    model = gpuens.load(tmp_path / "m")
    assert model.feature_names_in_[2] == model.classes_[1] == "\ud83d"


def test_source_and_header_are_replaced_together(tmp_path, monkeypatch):
    """A full disk left the header of another model beside the old source."""
    path, written = tmp_path / "model.c", Path.write_bytes
    gpuens.DecisionTreeRegressor(max_depth=1, device="cpu").fit(X, Y).to_c(path)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}

    def full(self, data):
        if ".c." in self.name:
            raise OSError("No space left on device")
        return written(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    other = gpuens.GradientBoostingClassifier(n_estimators=1, device="cpu").fit(X, Y > 0)
    with pytest.raises(OSError, match="No space left"):
        other.to_c(path)
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before and len(before) == 2


@pytest.mark.parametrize("name, value, message", [
    ("names", "abc", "names and categories do not match"),
    ("names", [1, 2, 3], "names and categories do not match"),
    ("is_categorical", "abc", "names and categories do not match"),
    ("classes", ["a"], "index 1 is out of bounds"), ("max_bins", 1e400, "infinity"),
])  # fmt: skip
def test_damaged_descriptions_of_tables_are_refused(name, value, message, tmp_path):
    path = tmp_path / "table"
    gpuens.BinnedTable.from_batches(X, y=np.where(Y > 0, "yes", "no"), path=path)
    document, arrays = contents(path.read_bytes(), TABLE)
    path.write_bytes(save(arrays, metadata={TABLE: json.dumps(document | {name: value})}))
    with pytest.raises(ValueError, match=f"cannot be opened as a table: .*{message}"):
        gpuens.BinnedTable.open(path)


def test_damaged_targets_of_few_values_are_refused(tmp_path):
    """A target with a second axis was opened, and failed in the fit."""
    path = tmp_path / "table"
    gpuens.BinnedTable.from_batches(X, y=(Y > 0).astype(np.int64), path=path)
    document, arrays = contents(path.read_bytes(), TABLE)
    for damaged in (arrays["y"][:, None], arrays["y"] + 250, arrays["y"].astype(np.int8)):
        changed = arrays | {"y": np.ascontiguousarray(damaged)}
        path.write_bytes(save(changed, metadata={TABLE: json.dumps(document)}))
        with pytest.raises(ValueError, match=r"cannot be opened as a table: .*\(its classes\)"):
            gpuens.BinnedTable.open(path)


def test_damaged_pages_of_parquet_files_are_named(tmp_path, monkeypatch):
    """pyarrow's error, an OSError without a number, does not name the file."""

    def broken(path):
        raise OSError("Invalid page header")

    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setattr(pd, "read_parquet", broken)
    with pytest.raises(CommandError, match=r"table.parquet is not a readable .*Invalid page head"):
        read(str(path))


def test_shares_of_weights_that_no_sample_can_have():
    bag = gpuens.BaggingRegressor(max_samples=1.0, n_estimators=2, device="cpu")
    with pytest.raises(ValueError, match="share of the sum of sample_weight, which is 4e\\+31"):
        bag.fit(X, Y, np.full(40, 1e30))


@pytest.mark.parametrize("model", [
    gpuens.DecisionTreeRegressor(device="cpu"),
    gpuens.VotingRegressor([("tree", gpuens.DecisionTreeRegressor(device="cpu"))]),
    gpuens.StagewiseRegressor(device="cpu"),
], ids=lambda model: type(model).__name__)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_both_infinities_give_an_error_and_no_warning(model):
    """Their sum warned of an invalid value before the error named y."""
    y = Y.copy()
    y[:2] = np.inf, -np.inf
    with pytest.raises(ValueError, match="Input y contains infinity"):
        model.fit(X, y)


@pytest.mark.parametrize("classes, message", [
    ([0], "coef_ has the shape .* for 1 classes"),
    ([0, 1, 7], "final_estimator_ knows the classes \\[0, 1, 7\\]"),
])  # fmt: skip
def test_meta_models_of_other_classes_are_refused(classes, message, tmp_path):
    """The file loaded, and predictions looked for a label that was not there."""
    tree = gpuens.DecisionTreeClassifier(max_depth=2, device="cpu")
    stack = gpuens.StackingClassifier([(f"tree {k}", tree) for k in range(3)], device="cpu")
    stack.fit(X, np.digitize(Y, [-0.4, 0.4]))
    stack.final_estimator_.classes_ = np.array(classes)
    stack.save(tmp_path / "m")
    with pytest.raises(ValueError, match=message):
        gpuens.load(tmp_path / "m")


def test_impurity_decreases_of_scales_that_cancel_out():
    """Divided by one of the scales they are infinite, by both they are not."""
    y, weight = np.exp(np.linspace(0.0, 700.0, 40)), np.full(40, 1e-290)
    model = gpuens.DecisionTreeRegressor(criterion="absolute_error", device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model.fit(X, y, sample_weight=weight)
    assert np.isfinite(model.forest_.gain).all() and model.forest_.gain.max() > 0.0
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_losses_of_files_with_a_number_for_a_name():
    with pytest.raises(ModelFileError, match="distribution of AFT is not a number"):
        loss_of_file("AFT", {"distribution": float("nan"), "scale": 1.0})
    assert loss_of_file("AFT", {"distribution": "normal", "scale": 1.0}).distribution == "normal"
