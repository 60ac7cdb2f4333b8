"""The grown trees, frozen: what prediction, persistence, inspection and export know."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .binning import Binner
from .devices import CPU, Device
from .kernels.grow import GrownTrees
from .kernels.traverse import Trees, leaf_indices, traverse


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as flat arrays (NumPy, read-only), nodes of each tree breadth first.

    Parameters
    ----------
    n_features : int
    base : float64, shape (n_outputs,)
        Raw prediction before the first tree.
    offset : int64, shape (n_trees + 1,)
        Tree t owns entries ``offset[t]:offset[t + 1]`` of the node arrays.
    output : int32, shape (n_trees,)
        The column of the raw prediction that a tree adds to.
    feature : int32, shape (n_nodes,)
        -1 at a leaf.
    threshold : float64, shape (n_nodes,)
        ``x <= threshold`` goes left; raw feature values, never bin numbers.
    missing_left : uint8, shape (n_nodes,)
        Whether NaN goes left.
    left, right : int32, shape (n_nodes,)
        Children, counted from the root of their tree; -1 at a leaf.
    value : float64, shape (n_nodes,)
        What a leaf adds to the raw prediction; at an inner node what it would add as a leaf.
    gain : float64, shape (n_nodes,)
        Improvement of the loss's second-order model by the split; 0 at a leaf.
    n_samples : int32, shape (n_nodes,)
        Training rows.
    """

    n_features: int
    base: np.ndarray
    offset: np.ndarray
    output: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    gain: np.ndarray
    n_samples: np.ndarray

    def __post_init__(self) -> None:
        for _, array in self._arrays():
            array.flags.writeable = False

    def _arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                yield field.name, value

    @property
    def n_trees(self) -> int:
        return self.output.size

    @property
    def n_outputs(self) -> int:
        return self.base.size

    @property
    def n_leaves(self) -> np.ndarray:
        """Leaves of each tree, int64."""
        return np.add.reduceat((self.feature < 0).astype(np.int64), self.offset[:-1])

    def fingerprint(self) -> str:
        """SHA-256 of all arrays: equal for equal models, whatever they were trained on."""
        digest = hashlib.sha256(str(self.n_features).encode())
        for name, array in self._arrays():
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).data)
        return digest.hexdigest()

    def raw_predict(self, X: Any, device: Device = CPU) -> Any:
        """Sum of the trees' values.

        Parameters
        ----------
        X : float32 or float64, shape (n_rows, n_features)
            On ``device``; NaN is missing.

        Returns
        -------
        float64, shape (n_outputs, n_rows), on ``device``
        """
        xp = device.xp
        raw = xp.empty((self.n_outputs, X.shape[0]), dtype=xp.float64)
        raw[...] = device.asarray(self.base)[:, None]
        self.add_to(raw, X, device)
        return raw

    def add_to(self, raw: Any, X: Any, device: Device = CPU) -> None:
        """Add the sum of the trees' values to raw predictions, in place."""
        with device.active():
            traverse(self._trees_on(device), X, raw)

    def tree_predict(self, X: Any, device: Device = CPU) -> Any:
        """What each tree adds, float64 of shape (n_rows, n_trees), on ``device``."""
        value = device.asarray(self.value)
        return value[self.apply(X, device) + device.asarray(self.offset[:-1])]

    def apply(self, X: Any, device: Device = CPU) -> Any:
        """The leaf that each row ends in.

        Returns
        -------
        int32, shape (n_rows, n_trees), on ``device``
            Node numbers counted from the root of each tree.
        """
        with device.active():
            return leaf_indices(self._trees_on(device), X)

    def slice(self, first: int, last: int) -> Forest:
        """The forest of trees ``first … last - 1`` (views of the arrays)."""
        start, stop = int(self.offset[first]), int(self.offset[last])
        return replace(
            self,
            offset=self.offset[first : last + 1] - start,
            output=self.output[first:last],
            **{name: getattr(self, name)[start:stop] for name in NODE_ARRAYS},
        )

    def _trees_on(self, device: Device) -> Trees:
        """The arrays that prediction reads, copied to a device once."""
        kept: dict[str, Trees] = self.__dict__.setdefault("_trees", {})
        if str(device) not in kept:
            kept[str(device)] = Trees(*(device.asarray(getattr(self, f)) for f in Trees._fields))
        return kept[str(device)]

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what is derived, among it everything on a GPU."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()


NODE_ARRAYS: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "missing_left": np.uint8,
    "left": np.int32,
    "right": np.int32,
    "value": np.float64,
    "gain": np.float64,
    "n_samples": np.int32,
}


class ForestBuilder:
    """Collects trees while they are grown."""

    def __init__(self, n_features: int, base: np.ndarray, before: Forest | None = None) -> None:
        self._n_features = n_features
        self._base = np.asarray(base, np.float64)
        self._before = before
        self._output: list[int] = []
        self._nodes: list[dict[str, np.ndarray]] = []

    def __len__(self) -> int:
        return len(self._output) + (0 if self._before is None else self._before.n_trees)

    def append(
        self, trees: GrownTrees, t: int, value: np.ndarray, output: int, binner: Binner
    ) -> None:
        """Add tree ``t`` of a batch, with its leaf values and the column it adds to."""
        nodes = slice(trees.offset[t], trees.offset[t + 1])
        feature, bin_ = trees.feature[nodes], trees.bin[nodes]
        self._output.append(output)
        self._nodes.append(
            {
                "feature": feature,
                "threshold": np.where(feature >= 0, binner.table[feature, bin_], 0.0),
                "missing_left": trees.missing_left[nodes],
                "left": trees.left[nodes],
                "right": trees.right[nodes],
                "value": value,
                "gain": trees.gain[nodes],
                "n_samples": trees.n_samples[nodes],
            }
        )

    def keep(self, n: int) -> None:
        """Forget all but the first n trees."""
        n_before = len(self) - len(self._output)
        del self._output[max(0, n - n_before) :], self._nodes[max(0, n - n_before) :]
        if self._before is not None and n < n_before:
            self._before = self._before.slice(0, n)

    def freeze(self) -> Forest:
        """The forest of all trees so far."""
        before = self._before
        parts = [{name: np.empty(0, dtype) for name, dtype in NODE_ARRAYS.items()}]
        if before is not None:
            parts.append({name: getattr(before, name) for name in NODE_ARRAYS})
        parts += self._nodes
        start = np.zeros(1, np.int64) if before is None else before.offset
        sizes = np.array([nodes["feature"].size for nodes in self._nodes], np.int64)
        outputs = np.array(self._output, np.int32)
        return Forest(
            n_features=self._n_features,
            base=self._base,
            offset=np.concatenate([start, start[-1] + np.cumsum(sizes)]),
            output=outputs if before is None else np.concatenate([before.output, outputs]),
            **{name: np.concatenate([part[name] for part in parts]) for name in NODE_ARRAYS},
        )
