"""The error of models that cannot be imported."""

from __future__ import annotations


class ImportedModelError(ValueError):
    """A model of another library cannot be read, or does not fit the rows it should predict; the
    message names the field."""
