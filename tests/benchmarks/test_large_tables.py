"""The programs of several workers, and of tables that are larger than memory."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from benchmarks.common.peers import GapError
from benchmarks.programs import batches, cluster


class TestCluster:
    def test_blocks_have_all_rows(self):
        assert cluster.blocks_of(10_001) == [2500, 2500, 2500, 2501]
        first, second = (cluster.block(number, 50)[0] for number in range(2))
        assert first.shape == (50, 28) and not (first == second).all(axis=0).any()

    @pytest.mark.slow
    @pytest.mark.filterwarnings("default")
    def test_workers_fit_the_model_of_one_process(self, run):
        pytest.importorskip("distributed")
        options = "--rows 9000 --trees 2 --repeats 1 --only workers"
        part = run(cluster, *options.split())["results"]["workers"]
        assert part["equal"] == {"two workers and one process": True}
        assert list(part["libraries"]) == [cluster.WORKERS, cluster.ALONE]
        seconds = [row["median"] for row in part["libraries"].values()]
        assert part["libraries"][cluster.ALONE]["ratio"] == pytest.approx(
            seconds[0] / seconds[1], rel=1e-4
        )


class TestBatches:
    def test_batches_are_the_same_at_every_reading(self):
        made = batches.Batches(2500, 1000)
        first, second = (list(made()) for _ in range(2))
        assert [len(y) for _, y in first] == [1000, 1000, 500] and made.seconds > 0.0
        for (X, y), (again, y_again) in zip(first, second, strict=True):
            np.testing.assert_array_equal(X, again)
            np.testing.assert_array_equal(y, y_again)

    @pytest.mark.slow
    def test_the_same_model_from_batches_and_in_memory(self, run, tmp_path):
        if sys.platform != "linux":
            pytest.skip("allocated memory is read from /proc")
        options = "--rows 9000 --rows-in-memory 9000 --batch-rows 2000 --trees 2 --threads 1"
        found = run(batches, *options.split(), "--folder", tmp_path)["results"]
        assert found["equal"] == {"from batches and in memory": True}
        assert found["from batches"]["file_bytes"] > 2 * 9000 * 28
        assert found["ratio"] > 0.0

    @pytest.mark.slow
    def test_rows_of_a_parquet_file_under_a_limit(self, run, tmp_path):
        options = "--rows 400000 --rows-in-memory 400000 --batch-rows 100000 --trees 2 --threads 1"
        try:
            with batches.group_of(10**9):
                pass
        except GapError as error:
            pytest.skip(str(error))
        limit = "--parquet --limited --gigabytes 1.0"
        found = run(batches, *options.split(), *limit.split(), "--folder", tmp_path)["results"]
        assert found["equal"] == {"from batches and in memory": True}
        assert found["from batches"]["parquet"] and found["limited"]
        assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_the_environment_is_as_before_a_cluster():
    """Dask left OMP_NUM_THREADS=1 in it, which later processes inherited."""
    pytest.importorskip("distributed")
    before = dict(os.environ)
    with cluster.cluster(1):
        assert dict(os.environ) != before
    assert dict(os.environ) == before
