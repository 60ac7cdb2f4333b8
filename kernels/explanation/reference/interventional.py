"""Reference twin of ``kernels.explanation.interventional``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ..interventional import pattern_weights
from ..program import Program, Size
from .contributions import goes_left_at


def add_interventional(
    program: Program, size: Size, X: Array, background: Array, phi: Array
) -> None:
    """Leaf by leaf: compare the patterns of all rows with each pattern of the background."""
    xp = array_namespace(X)
    n_features = X.shape[1]
    weights = pattern_weights(size.n_slots)
    for group in range(program.group_output.shape[0]):
        output = int(program.group_output[group])
        sums = xp.zeros((n_features, X.shape[0]), dtype=xp.float64, device=device(X))
        for entry in range(int(program.group_begin[group]), int(program.group_begin[group + 1])):
            tree = int(program.trees[entry])
            column = output - int(program.first_output[tree])
            rows, others = _leaves(program, tree, X), _leaves(program, tree, background)
            for (leaf, passed), (_, known) in zip(rows, others, strict=True):
                _add_leaf(sums, float(program.value[leaf, column]), passed, known, weights)
        phi[output, :, :] = phi[output, :, :] + sums


def _leaves(program: Program, tree: int, X: Array) -> Iterator[tuple[int, dict[int, Array]]]:
    """Yield the leaves of a tree, each with the rows that pass all splits by the features of its
    path, these in the order of their first splits."""
    splits = program.splits
    arrived: dict[int, dict[int, Array]] = {-1: {}}
    for at in range(int(program.split_begin[tree]), int(program.split_begin[tree + 1])):
        passed, level, f = (
            arrived[int(splits.side[at])],
            int(splits.level[at]),
            int(splits.feature[at]),
        )
        on_left = goes_left_at(program, at, X)
        before = passed.get(f)
        for leaf, goes, side in ((splits.left, on_left, 0), (splits.right, ~on_left, 1)):
            below = {**passed, f: goes if before is None else goes & before}
            arrived[2 * level + side] = below
            if int(leaf[at]) >= 0:
                yield int(leaf[at]), below


def _add_leaf(
    sums: Array, value: float, passed: dict[int, Array], known: dict[int, Array], weights: Any
) -> None:
    xp, n = array_namespace(sums), weights.shape[0]
    table = xp.reshape(xp.asarray(weights, device=device(sums)), (-1,))
    found = [0.0 * sums[f, :] for f in passed]
    for pattern, count in _patterns(known):
        alone, u, v = [], 0.0 * found[0], 0.0 * found[0]
        covered = xp.ones(u.shape, dtype=xp.bool, device=device(u))
        for has, row in zip(pattern, passed.values(), strict=True):
            alone.append(xp.astype(~row if has else row, xp.float64))
            u, v = (u, v + alone[-1]) if has else (u + alone[-1], v)
            covered = covered if has else covered & row
        of_row = xp.take(table, xp.astype(u * n + v, xp.int64))
        of_background = xp.take(table, xp.astype(v * n + u, xp.int64))
        for s, has in enumerate(pattern):
            term = count * (-of_background if has else of_row) * alone[s]
            found[s] = found[s] + xp.where(covered, term, 0.0 * term)
    for f, slopes in zip(passed, found, strict=True):
        sums[f, :] = sums[f, :] + value * slopes


def _patterns(known: dict[int, Array]) -> Iterator[tuple[list[bool], float]]:
    """Yield the different patterns of the background, ascending, with their counts."""
    bits = [0] * next(iter(known.values())).shape[0]
    for s, row in enumerate(known.values()):
        bits = [pattern | int(bool(row[i])) << s for i, pattern in enumerate(bits)]
    for pattern, count in sorted(Counter(bits).items()):
        yield [bool(pattern >> s & 1) for s in range(len(known))], float(count)
