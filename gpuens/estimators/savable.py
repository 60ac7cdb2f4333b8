"""The method ``save`` of every estimator."""

from __future__ import annotations

import os


class Savable:
    """Gives an estimator its method ``save``."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model to a file that ``gpuens.load`` reads (see ``gpuens.saving.save``).

        Parameters
        ----------
        path : str or path
            Replaced if it exists, once the new file is complete.
        """
        import gpuens  # saving knows every class, training needs few

        gpuens.save(self, path)
