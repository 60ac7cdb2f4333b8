"""Failures that leave nothing half done: estimators stay as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def kept_on_failure(estimator: Any) -> Iterator[None]:
    """Give an estimator its attributes back if an error or Ctrl-C leaves the block."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise
