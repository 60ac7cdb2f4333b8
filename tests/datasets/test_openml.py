"""The loaders of public tables, with a stand-in for the network."""

from __future__ import annotations

from http.client import IncompleteRead
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest

from gpuens.datasets import fetch_adult, fetch_airlines, fetch_covtype, fetch_higgs

pd = pytest.importorskip("pandas")


@pytest.fixture
def openml(monkeypatch):
    """What ``fetch_openml`` is asked for; set ``data`` and ``target``, or ``error``."""
    stand_in = SimpleNamespace(asked=[], data=None, target=None, error=None)

    def fetch_openml(**arguments):
        stand_in.asked.append(arguments)
        if stand_in.error is not None:
            raise stand_in.error
        return stand_in

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    return stand_in


def categories(*values):
    return pd.Series(pd.Categorical(values))


@pytest.mark.parametrize(("full", "data_id"), [(False, 23512), (True, 45570)])
def test_higgs(openml, full, data_id, tmp_path):
    openml.data = pd.DataFrame({"lepton_pT": [0.5, 1.5, np.nan], "m_bb": [1, 2, 3]})
    openml.target = categories("0", "1", "1")
    X, y = fetch_higgs(full=full, data_home=tmp_path)
    assert (X.dtype, y.dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(X, [[0.5, 1], [1.5, 2], [np.nan, 3]])
    assert y.tolist() == [0, 1, 1]
    assert [(a["data_id"], a["data_home"]) for a in openml.asked] == [(data_id, tmp_path)]


def test_covtype(openml):
    openml.data = pd.DataFrame({"Elevation": [2596, 2804], "Soil": categories("0", "1")})
    openml.target = categories("7", "1")
    X, y = fetch_covtype()
    np.testing.assert_array_equal(X, [[2596, 0], [2804, 1]])
    assert (X.dtype, y.dtype, y.tolist()) == (np.float32, np.int64, [6, 0])
    assert openml.asked[0]["data_id"] == 1596


def test_airlines(openml):
    openml.data = pd.DataFrame({"Airline": categories("US", "AA", None), "Time": [15, 20, 30]})
    openml.target = categories("1", "0", "1")
    X, y = fetch_airlines()
    assert X is openml.data and y.tolist() == [1, 0, 1]
    X, _ = fetch_airlines(as_frame=False)
    np.testing.assert_array_equal(X, np.float32([[1, 15], [0, 20], [np.nan, 30]]))
    assert X.dtype == np.float32 and openml.asked[0]["data_id"] == 1169


def test_adult(openml):
    openml.data = pd.DataFrame({"age": [25, 38], "workclass": categories("Private", np.nan)})
    openml.target = categories("<=50K", ">50K")
    X, y = fetch_adult(as_frame=False)
    np.testing.assert_array_equal(X, np.float32([[25, 0], [38, np.nan]]))
    assert y.tolist() == [0, 1] and openml.asked[0]["data_id"] == 1590


@pytest.mark.parametrize(
    "error", [URLError("no route"), ValueError("no such data"), IncompleteRead(b"half")]
)
@pytest.mark.parametrize("fetch", [fetch_higgs, fetch_covtype, fetch_airlines, fetch_adult])
def test_without_a_network(openml, fetch, error):
    openml.error = error
    with pytest.raises(OSError) as caught:
        fetch()
    message = str(caught.value)
    parts = [fetch.__name__, str(openml.asked[0]["data_id"]), type(error).__name__, "data_home"]
    assert [part for part in parts if part not in message] == []
    assert caught.value.__cause__ is error
