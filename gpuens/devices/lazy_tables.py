"""Tables and columns that are plans to compute one, which may be larger than memory."""

from __future__ import annotations

from typing import Any


def require_in_memory(values: Any, name: str) -> None:
    """Raise a TypeError for what holds no data yet: NumPy would compute it in silence.

    Parameters
    ----------
    values : object
    name : str
        Of the argument.

    Raises
    ------
    TypeError
        Values are a collection of Dask or a lazy frame of polars. The message says how to go on.
    """
    kind = type(values)
    if kind.__module__.partition(".")[0].startswith("dask") and hasattr(values, "compute"):
        raise TypeError(
            f"{name} is a Dask {kind.__name__}, which may be larger than memory. Use the "
            "estimators of gpuens.dask, which train and predict where its partitions are, or "
            f"pass {name}.compute()."
        )
    if kind.__name__ == "LazyFrame":
        raise TypeError(f"{name} is a LazyFrame, which holds no data yet: pass {name}.collect().")
