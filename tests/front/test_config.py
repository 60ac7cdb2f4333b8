"""The report on what gpuens runs on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import joblib
import numba
import numpy as np
import pytest

import gpuens
from gpuens import config
from gpuens.config import available_threads, kernel_cache, show_config
from tests.support import strict_cupy


@pytest.fixture
def fresh_threads():
    available_threads.cache_clear()
    yield
    available_threads.cache_clear()


def test_reports_versions(capsys):
    report = show_config()
    assert report["gpuens"] == gpuens.__version__
    assert report["python"] == platform.python_version()
    assert report["numpy"] == np.__version__
    assert report["numba"] == numba.__version__
    printed = capsys.readouterr().out
    assert f"numpy             {np.__version__}\n" in printed
    assert f"threads           {report['threads']}\n" in printed


def test_says_why_there_is_no_gpu(monkeypatch, capsys):
    monkeypatch.setattr(config, "simulated", lambda: False)
    monkeypatch.setattr(config, "driver_version", lambda: None)
    monkeypatch.setattr(config, "gpu_problem", lambda: "no NVIDIA driver was found")
    report = show_config()
    assert (report["gpus"], report["cuda_driver"]) == ([], "none")
    assert "gpu problem       no NVIDIA driver was found\n" in capsys.readouterr().out


def test_lists_gpus(monkeypatch, capsys):
    strict_cupy.install(monkeypatch, gpus=2)
    monkeypatch.setattr(config, "simulated", lambda: False)
    monkeypatch.setattr(config, "driver_version", lambda: (13, 1))
    monkeypatch.setattr(config, "gpu_problem", lambda: None)
    report = show_config()
    assert report["gpu_problem"] is None
    assert [gpu["index"] for gpu in report["gpus"]] == [0, 1]
    printed = capsys.readouterr().out
    assert "cuda driver       CUDA 13.1\n" in printed
    assert "GPU 1             Stand-in, 16.0 GiB, compute capability 9.0\n" in printed


def test_names_the_simulator(monkeypatch):
    monkeypatch.setattr(config, "simulated", lambda: True)
    assert "simulator" in show_config()["gpu_problem"]


def test_packages_that_are_missing_are_no_error(monkeypatch, capsys):
    monkeypatch.setattr(config, "PACKAGES", ("no-such-package",))
    monkeypatch.setattr(config, "CUPY_PACKAGES", ("no-such-package",))
    report = show_config()
    assert report["no-such-package"] is None
    assert report["cupy"] == "not installed"
    assert "no-such-package" not in capsys.readouterr().out


def test_threads_stay_within_the_cpus(fresh_threads, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    assert 1 <= available_threads() <= (os.cpu_count() or 1)
    assert available_threads() == joblib.cpu_count()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity here")
def test_threads_respect_affinity(fresh_threads):
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert available_threads() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("variable", ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"])
@pytest.mark.parametrize("text, expected", [("3", 3), ("2,4", 2), ("", 8), ("0", 8), ("all", 8)])
def test_threads_respect_the_environment(fresh_threads, monkeypatch, variable, text, expected):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, text)
    assert available_threads() == expected


class TestKernelCache:
    def test_chosen_by_the_user(self, monkeypatch, tmp_path):
        monkeypatch.setattr(numba.core.config, "CACHE_DIR", str(tmp_path))
        assert kernel_cache() == tmp_path

    def test_beside_the_kernels(self, monkeypatch):
        monkeypatch.setattr(numba.core.config, "CACHE_DIR", "")
        monkeypatch.setattr(os, "access", lambda path, mode: True)
        assert kernel_cache().parts[-3:] == ("kernels", "cpu", "__pycache__")

    def test_in_the_home_of_the_user_where_the_package_is_read_only(self, monkeypatch):
        monkeypatch.setattr(numba.core.config, "CACHE_DIR", "")
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        assert kernel_cache().name == "numba"
        assert Path.home() in kernel_cache().parents or kernel_cache().is_absolute()
