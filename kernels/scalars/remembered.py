"""Cache of resolved operator signatures during the compilation of kernels.

Numba offers the types of every ``a + b`` to up to thirty templates in turn: when it infers types,
each time that a loop makes it infer them again, and when it writes the code. The functions of a
kernel hold the same operators of the same types thousands of times, and five of six searches are
repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.targetconfig import ConfigStack
from numba.core.types import functions

_BaseFunction: Any = functions.BaseFunction
_search: Any = None
"""Numba's own search while another method is in its place."""
_found: dict[tuple[Any, ...], tuple[Any, Any]] = {}
"""Signatures and what implements them, by function, options of compilation, and types."""
_options: dict[int, tuple[Any, str]] = {}
"""Options of compilation in words, by the identity of their object, which is kept for that."""


@contextmanager
def remembered_searches() -> Iterator[None]:
    """Let Numba search once for each operator and its types. Its lock must be held."""
    global _search
    if _search is not None:  # a function is compiled because another calls it
        yield
        return
    _search = _BaseFunction.get_call_type
    _BaseFunction.get_call_type = _remembered
    try:
        yield
    finally:
        _BaseFunction.get_call_type = _search
        _search = None


def _remembered(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a call, as ``BaseFunction.get_call_type`` does."""
    flags = ConfigStack.top_or_none()
    if id(flags) not in _options:
        _options[id(flags)] = (flags, str(flags))
    # Numba has one object for equal types, whose number no other type ever gets.
    key = (
        function._code,
        context,
        _options[id(flags)][1],
        tuple([kind._code for kind in args]),
        tuple([(name, kind._code) for name, kind in dict(kws).items()]),
    )
    if key not in _found:
        signature = _search(function, context, args, kws)
        _found[key] = signature, function._impl_keys[signature.args]
    signature, implementation = _found[key]
    function._impl_keys[signature.args] = implementation  # that of other options may be there
    return signature
