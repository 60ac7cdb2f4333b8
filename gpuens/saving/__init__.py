"""Save fitted models, and load them on any machine: no pickle, no code in the file.

The file is a safetensors file whose metadata holds a JSON document (see ``file`` and
``codec``). A model that was trained on a GPU loads where there is none, and predicts the
same.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import sklearn
from sklearn.base import BaseEstimator

from .codec import Decoder, Encoder
from .file import ModelFileError, read_file, write_file
from .records import require


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save an estimator of this package, with all that it holds.

    Parameters
    ----------
    model : estimator
        Fitted or not. Parts that are not of this package (members of a voting ensemble, say) are
        saved by skops. Callbacks are not saved.
    path : str or path
        Replaced if it exists, once the new file is complete.

    Raises
    ------
    TypeError
        The model holds something that a file cannot; the message says where.
    OSError
        The folder does not exist or cannot be written, or the disk is full. What was there
        before is still there.
    """
    import gpuens

    encoder = Encoder()
    encoder.encode(model, type(model).__name__)
    if not encoder.entries or encoder.entries[-1][0] != "estimator":
        raise TypeError(
            f"save takes an estimator of gpuens, got {type(model).__module__}."
            f"{type(model).__qualname__}."
        )
    document = {
        "gpuens": gpuens.__version__,
        "versions": {"numpy": np.__version__, "numba": numba.__version__,
                     "scikit-learn": sklearn.__version__},
        "entries": encoder.entries,
    }  # fmt: skip
    write_file(path, document, encoder.arrays, encoder.format)


def load(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Load a model that ``save`` wrote.

    The file may come from anywhere: it is checked throughout, and cannot run code unless
    ``trusted`` allows it.

    Parameters
    ----------
    path : str or path
        The file, as ``save`` has written it.
    trusted : sequence of str, default=()
        Full names of classes outside this package and scikit-learn that the model may hold,
        as "my_module.MyEstimator".

    Returns
    -------
    estimator

    Raises
    ------
    OSError
        The file does not exist or cannot be read.
    ModelFileError (a ValueError)
        The file is not a model, is damaged, or has a newer format; the message names the version.
    UntrustedError (a ValueError)
        The model holds classes that ``trusted`` does not name.
    """
    document, arrays = read_file(path)
    try:
        model = Decoder(arrays, trusted).decode(document.get("entries"))
        require(isinstance(model, BaseEstimator), "its last entry is not an estimator")
    except ModelFileError as error:
        raise ModelFileError(f"{path} is damaged: {error}.") from error
    return model
