"""Shapley values of the rows of a table, in parts that fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..devices.memory_plan import format_bytes
from ..devices.placement import CPU, Device
from ..forest.forest import Forest
from ..kernels.explanation.contributions import add_contributions
from ..kernels.explanation.interventional import MOST_SLOTS, add_interventional
from ..kernels.explanation.program import DepthFirstSplits, Program, Size, lay_out
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.system import available_memory

PART_BYTES = 2**27
"""Memory for the sums of the rows that are explained together."""


def program_of(forest: Forest, device: Device, with_covers: bool) -> tuple[Program, Size]:
    """Return the layout of a forest on a device, made once. Raises a ValueError if ``with_covers``
    is set and training weights of nodes are missing."""
    kept: dict[Any, tuple[Program, Size]] = forest.__dict__.setdefault("_programs", {})
    key = str(device), with_covers
    if key not in kept:
        cover = forest.cover if with_covers else np.ones(forest.cover.size)
        program, size = lay_out(forest._trees_on(CPU), cover, forest.n_outputs)
        with device.active():
            splits = DepthFirstSplits(*map(device.asarray, program.splits))
            program = Program(splits, *map(device.asarray, program[1:]))
        kept[key] = device.settled(program), size
    return kept[key]


def shapley_values(forest: Forest, X: Array, device: Device) -> Array:
    """Return path-dependent Shapley values of the sum of the trees, float64 (n_rows, n_features,
    n_outputs)."""
    program, size = program_of(forest, device, with_covers=True)

    def explain(rows: Array) -> Array:
        phi = device.xp.zeros((forest.n_outputs, forest.n_features, len(rows)))
        add_contributions(program, size, rows, phi)
        return phi.transpose(2, 1, 0)

    return _in_parts(explain, X, (forest.n_features, forest.n_outputs), device)


def interaction_values(forest: Forest, X: Array, device: Device) -> Array:
    """Return path-dependent Shapley interaction values of the sum of the trees, float64 (n_rows,
    n_features, n_features, n_outputs): symmetric, and lines add up to the Shapley values."""
    program, size = program_of(forest, device, with_covers=True)
    n, n_outputs, xp = forest.n_features, forest.n_outputs, device.xp

    def explain(rows: Array) -> Array:
        phi = xp.zeros((n_outputs, n, len(rows)))
        pairs = xp.zeros((n_outputs, n * n, len(rows)))
        add_contributions(program, size, rows, phi, pairs)
        table = 0.5 * pairs.reshape(n_outputs, n, n, len(rows))
        table = table + table.transpose(0, 2, 1, 3)
        for feature in range(n):
            others = xp.zeros((n_outputs, len(rows)))
            for other in range(n):  # in a fixed order: the library's sums differ by device
                others = others + table[:, feature, other, :]
            table[:, feature, feature, :] = phi[:, feature, :] - others
        return table.transpose(3, 1, 2, 0)

    return _in_parts(explain, X, (n, n, n_outputs), device)


def values_against(forest: Forest, X: Array, background: Array, device: Device) -> Array:
    """Return interventional Shapley values of the sum of the trees against the rows ``background``,
    float64 (n_rows, n_features, n_outputs)."""
    program, size = program_of(forest, device, with_covers=False)
    if size.n_slots > MOST_SLOTS:
        raise ValueError(
            f"A path of the trees tests {size.n_slots} different features, and explanations "
            f"against background data take at most {MOST_SLOTS}: pass "
            "feature_perturbation='tree_path_dependent' and data=None."
        )
    if X.dtype != background.dtype:
        X, background = X.astype(np.float64), background.astype(np.float64)

    def explain(rows: Array) -> Array:
        phi = device.xp.zeros((forest.n_outputs, forest.n_features, len(rows)))
        add_interventional(program, size, rows, background, phi)
        return phi.transpose(2, 1, 0) / len(background)

    return _in_parts(explain, X, (forest.n_features, forest.n_outputs), device)


def expected_value(forest: Forest) -> np.ndarray:
    """Return the mean of the sum of the trees over the training weight, float64 (n_outputs,)."""
    leaf = forest.feature < 0
    weight = np.where(leaf, forest.cover, 0.0)
    total = np.zeros(forest.n_outputs)
    for tree in range(forest.n_trees):
        nodes = slice(int(forest.offset[tree]), int(forest.offset[tree + 1]))
        mean = weight[nodes] @ forest.value[nodes] / weight[nodes].sum()
        total[forest.output[tree] : forest.output[tree] + forest.width] += mean
    return total


def _in_parts(
    explain: Callable[[Array], Array], X: Array, shape: tuple[int, ...], device: Device
) -> Array:
    """Return ``explain(rows)`` of all rows, which are explained some at a time."""
    n_rows, bytes_of_row = X.shape[0], 8 * int(np.prod(shape))
    _require_memory(n_rows, bytes_of_row, device)
    result = device.xp.empty((n_rows, *shape))
    most = max(1, PART_BYTES // bytes_of_row)
    for first in range(0, n_rows, most):
        result[first : first + most] = explain(X[first : first + most])
    return result


def _require_memory(n_rows: int, bytes_of_row: int, device: Device) -> None:
    """Raise an error if results do not fit into the host's memory. (A GPU reports it itself.)"""
    available = available_memory() if device.kind == "cpu" else None
    needed = n_rows * bytes_of_row + 3 * min(n_rows * bytes_of_row, max(PART_BYTES, bytes_of_row))
    if available is not None and needed > available:
        raise MemoryError(
            f"The explanations of {n_rows} rows take {format_bytes(needed)}, "
            f"{format_bytes(available)} are free: {format_bytes(bytes_of_row)} a row. Pass fewer "
            "rows at a time."
        )
