"""A plugin of pytest, ``-p tests.driver.first_of_each``: it runs one test of each file, but none of
what the stub of the driver has not: streams and kernels that take time."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the first test of each file that is left."""
    usual = [item for item in items if item.get_closest_marker("hardware") is None]
    first = {item.path: item for item in reversed(usual)}
    left = [item for item in usual if first[item.path] is item]
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = left
