"""Calls as CuPy takes them: with the parameters that every recorded version of it has."""

from __future__ import annotations

import functools
import inspect
import json
from typing import Any

from .record import TABLE

TABLE_OF_NAMES: dict[str, dict[str, str | None]] = json.loads(TABLE.read_text(encoding="utf-8"))
"""For each function, and method (``ndarray.sum``), the parameters by version of CuPy."""


def signature_of(parameters: str) -> inspect.Signature:
    """Return the signature that a text describes, with defaults that nobody reads."""
    namespace: dict[str, Any] = {}
    exec(f"def function({parameters}): pass", namespace)
    return inspect.signature(namespace["function"])


@functools.cache
def signatures(name: str) -> tuple[inspect.Signature, ...]:
    """Return the signatures of a function, one a version of CuPy that has it."""
    return tuple(signature_of(text) for text in TABLE_OF_NAMES[name].values() if text is not None)


def is_everywhere(name: str) -> bool:
    """Return whether every recorded version has the function."""
    return name in TABLE_OF_NAMES and None not in TABLE_OF_NAMES[name].values()


def bound(name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by parameter.

    Raises
    ------
    TypeError
        A recorded version of CuPy takes no such call.
    """
    found: dict[str, Any] = {}
    for signature in signatures(name):
        try:
            found = dict(signature.bind(*args, **settings).arguments)
        except TypeError as error:
            raise TypeError(f"cupy.{name}(): {error}") from None
    return found
