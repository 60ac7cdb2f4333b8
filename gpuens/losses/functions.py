"""What losses from a user's functions have in common."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..devices.placement import Device
from ..kernels.runtime.dtypes import Totals
from ..numerics.minimise import minimise
from ..numerics.weighted import ordered_sum
from .base import Loss
from .classes import OneAgainstTheRest

LARGEST_CONSTANT = 1e30
PAIR = ("y", "score")
Function = Callable[..., Any]


class FunctionLoss(OneAgainstTheRest):
    """What losses of numbers or classes from a user's functions have in common."""

    name: ClassVar[str] = "custom"
    checks_rows: ClassVar[bool] = True
    reads_raw: ClassVar[bool] = True
    start: float | None
    inverse_link: Function | None
    of_classes: bool = False

    def for_targets(self, n_targets: int) -> FunctionLoss:
        return self._with(n_outputs=n_targets)

    def for_classes(self, n_classes: int) -> Loss:
        return self._with(n_outputs=1 if n_classes == 2 else n_classes, of_classes=True)

    def targets(self, y: Any, k: int, device: Device) -> Any:
        if self.of_classes:
            return super().targets(y, k, device)
        return y if y.ndim == 1 else y[k]

    def _terms(self) -> int:
        return 1 if self.of_classes else self.n_outputs

    def check_start(self) -> None:
        if self.start is None:
            return
        if not isinstance(self.start, numbers.Real) or not np.isfinite(float(self.start)):
            raise ValueError(f"start must be None or a finite number, got {self.start!r}.")

    def base_score(self, y: Any, weight: Any, device: Device) -> np.ndarray:
        """The constants at which the gradients sum to zero, found one after another; zero for
        more than two classes, whose constants may depend on each other."""
        base = np.full(self.n_outputs, 0.0 if self.start is None else float(self.start))
        if self.start is not None or (self.coupled_classes and self.n_outputs > 1):
            return base
        n = y.shape[-1]
        g, h = (device.xp.empty(n, dtype=np.float32) for _ in range(2))
        for k in range(self.n_outputs):

            def slope(constant: float, k: int = k) -> tuple[float, float]:
                base[k] = constant
                raw = device.xp.zeros((self.n_outputs, n)) + device.asarray(base)[:, None]
                target, shared = self.targets(y, k, device), self.shared(y, raw, device)
                totals = self.gradients(k, target, raw[k], shared, weight, g, h)
                if constant == 0.0:
                    where = "the score 0, where the best constant is searched from"
                    self.check_gradients(totals, g, h, target, raw[k], where)
                total = ordered_sum(g.astype(np.float64), device)
                return total, totals.sum_h if self.has_hessian else 0.0

            base[k] = minimise(slope, LARGEST_CONSTANT)
        return base

    @property
    def coupled_classes(self) -> bool:
        """Whether the gradients of a class depend on the other classes' scores."""
        return self.coupled and self.of_classes

    def check_gradients(
        self, totals: Totals, g: Any, h: Any, target: Any, raw: Any, where: str
    ) -> None:
        finite = (abs(g) < np.inf) & (h >= 0) & (h < np.inf)
        if bool(finite.all()):
            super().check_gradients(totals, g, h, target, raw, where)
            return
        row = int((~finite).argmax())
        which, value = ("gradient", float(g[row]))
        if np.isfinite(value):
            which, value = ("hessian", float(h[row]))
        raise ValueError(
            f"The {which} of loss={self!r} is {value} in row {row} of the training rows, with "
            f"y={float(target[row])} and score={float(raw[row])} (times the weight, in float32; "
            f"{where}). Gradients must be finite and hessians finite and not negative: change "
            "the function, or lower learning_rate."
        )
