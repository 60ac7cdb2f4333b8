"""The warning of trees that the host grows although a GPU was asked for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..devices.placement import Device
from .cart import CartEstimator
from .parameters import grows_on_host


class HostGrowthWarning(UserWarning):
    """The host grows the trees, although ``device`` names a GPU or the data is on one.

    Trees with a bin for every distinct value (``max_bins=None``, the default of single trees) and
    those of ``criterion="absolute_error"`` are not grown on GPUs. The table is copied to the host;
    the model is the same, and predicts on the GPU.
    """


_inside = ContextVar("inside an ensemble that has warned", default=False)


@contextmanager
def growth_on_host(device: Device, *estimators: Any) -> Iterator[None]:
    """Warn if the host grows the trees of estimators whose data is on a GPU.

    Once for everything inside the block: the members of an ensemble do not warn again. To be
    entered by ``fit`` itself, whose caller the warning names.
    """
    told = _inside.get()
    settings = dict.fromkeys(filter(None, map(_setting, estimators)))
    if device.is_gpu and settings and not told:
        told = True
        warnings.warn(
            f"Trees with {' or '.join(settings)} are grown by the host, not on {device} "
            f"({device.reason}): their data is copied to the host. Set max_bins=255 and another "
            "criterion than 'absolute_error' to grow them on the GPU, or device='cpu'.",
            HostGrowthWarning,
            stacklevel=4,
        )
    token = _inside.set(told)
    try:
        yield
    finally:
        _inside.reset(token)


def _setting(estimator: Any) -> str | None:
    """Return the setting that keeps the growth of an estimator's trees on the host."""
    if not isinstance(estimator, CartEstimator) or not grows_on_host(estimator):
        return None
    if estimator.max_bins is None:
        return "max_bins=None"
    return "criterion='absolute_error'"
