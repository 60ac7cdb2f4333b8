"""Where arrays are that are read."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import strict_cupy


@pytest.fixture(params=["host", "gpu"])
def place(request, cupy):
    """Puts an array on the host or on a GPU."""
    return np.asarray if request.param == "host" else lambda y: strict_cupy.on_gpu(cupy, y, 1)
