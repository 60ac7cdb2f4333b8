"""Where the arrays of an ensemble of foreign models are combined."""

from __future__ import annotations

from typing import Any

from ..devices.placement import CPU, Device, gpu_of, resolve_device


def home_of(device: str, X: Any, **others: Any) -> Device:
    """The place of the predictions of models that decide for themselves where they work.

    Parameters
    ----------
    device : str
        "auto" follows the arrays and, unlike ``resolve_device``, leaves host data on the host: a
        weighted average is not worth the way to a GPU. All else as there.
    X, **others : array, data frame or None
        What the user passed, by argument name.

    Raises
    ------
    ValueError, RuntimeError
        As for ``resolve_device``.
    """
    arrays = [X, *others.values()]
    if device == "auto" and all(gpu_of(array) is None for array in arrays):
        return CPU
    return resolve_device(device, X, **others)
