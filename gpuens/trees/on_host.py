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

    Trees of ``criterion="absolute_error"`` are not grown on GPUs. The table is copied to the host;
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
    if device.is_gpu and not told and any(map(_grows_on_host, estimators)):
        told = True
        warnings.warn(
            f"Trees with criterion='absolute_error' are grown by the host, not on {device} "
            f"({device.reason}): their data is copied to the host. Set another criterion to grow "
            "them on the GPU, or device='cpu'.",
            HostGrowthWarning,
            stacklevel=4,
        )
    token = _inside.set(told)
    try:
        yield
    finally:
        _inside.reset(token)


def _grows_on_host(estimator: Any) -> bool:
    return isinstance(estimator, CartEstimator) and grows_on_host(estimator)
