"""Small symmetric systems, solved on the host with the same bits on every machine.

LAPACK adds in an order of its own; here every step is one operation on whole arrays.
"""

from __future__ import annotations

import numpy as np


class Cholesky:
    """The factor L of ``matrix = L @ L.T``.

    Parameters
    ----------
    matrix : float64 ndarray, shape (n, n)
        Symmetric and positive definite; only the lower triangle is read.

    Raises
    ------
    numpy.linalg.LinAlgError
        It is not positive definite.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        lower = np.tril(matrix)
        for j in range(len(lower)):
            if not lower[j, j] > 0:
                raise np.linalg.LinAlgError(f"pivot {j} is {lower[j, j]}, not positive")
            lower[j:, j] /= np.sqrt(lower[j, j])
            below = lower[j + 1 :, j]
            lower[j + 1 :, j + 1 :] -= below[:, None] * below[None, :]
        self.lower = np.tril(lower)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """x with ``matrix @ x = right``; both float64, shape (n,) or (n, k)."""
        x = np.array(right, np.float64)
        columns = x.reshape(len(x), -1)
        lower = self.lower
        for j in range(len(x)):
            columns[j] /= lower[j, j]
            columns[j + 1 :] -= lower[j + 1 :, j, None] * columns[j]
        for j in range(len(x) - 1, -1, -1):
            columns[j] /= lower[j, j]
            columns[:j] -= lower[j, :j, None] * columns[j]
        return x
