"""What `make test` leaves to `make test-all`, which continuous integration runs as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """Mark all but some cases of ``parametrize`` as slow: by number or, of cases that are names, by
    name. The others take the same way through the code."""
    cases = list(cases)
    unknown = [q for q in quick if q not in (range(len(cases)) if isinstance(q, int) else cases)]
    assert not unknown, f"there are no cases {unknown}"
    return [
        case
        if (case if isinstance(case, str) else number) in quick
        else pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]
