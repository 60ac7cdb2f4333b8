"""The demonstration runs and prints what it should."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from gpuens import demo


@pytest.fixture
def small(monkeypatch):
    """Few rows, and warm kernels."""
    monkeypatch.setattr(demo, "QUICK_ROWS", 1500)
    monkeypatch.setattr(demo, "warm_up", lambda: 0.0)


@pytest.mark.slow
def test_quick(small, tmp_path, capsys):
    assert demo.main(["--quick", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"Models are trained on .* because ", out)
    assert "Waiting for Numba to compile" in out
    assert max(map(len, out.splitlines())) <= 120
    for name in ("breast cancer", "diabetes", "digits", "generated"):
        pattern = rf"^{name} +[\d,]+ × \d+ +\w+ +[\d.]+ +[\d.]+ +[\d.]+ s +[\d.]+ s$"
        assert len(re.findall(pattern, out, re.MULTILINE)) == 1
    hashes = re.findall(r"^  \d threads? +([0-9a-f]{64})$", out, re.MULTILINE)
    assert len(hashes) == 2 and hashes[0] == hashes[1]
    assert out.rstrip().splitlines()[-1].endswith("learning_curve.png") == bool(
        find_spec("matplotlib")
    )
    if find_spec("matplotlib"):
        assert (tmp_path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_missing_matplotlib_is_explained(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    demo.draw_learning_curve(None, None, None, tmp_path / "curve.png")
    assert "pip install 'gpuens[viz]'" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_different_fingerprints_fail(small, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "same_with_any_threads", lambda: False)
    monkeypatch.setattr(demo, "draw_learning_curve", lambda *args: None)
    monkeypatch.setattr(demo, "tasks", lambda n_rows: iter([None]))
    monkeypatch.setattr(demo, "run", lambda task, n_trees: ([""] * len(demo.HEAD), None, None))
    assert demo.main(["--quick", "--output", str(tmp_path)]) == 1


def test_too_few_rows_are_refused(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--rows", "10"])
    assert "at least 1000" in capsys.readouterr().err
