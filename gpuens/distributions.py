"""Distributions of the targets, one for each row, as ``predict_dist`` returns them.

They keep their parameters as NumPy arrays; densities and quantiles are scipy's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from .devices.placement import to_numpy

__all__ = ["Distribution", "LogNormal", "NegativeBinomial", "Normal", "StudentT"]


class Distribution(ABC):
    """The distributions of the targets of some rows."""

    @property
    @abstractmethod
    def frozen(self) -> Any:
        """The distribution of ``scipy.stats``, with all its methods."""

    @abstractmethod
    def crps(self, y: Any) -> np.ndarray:
        """Return the continuous ranked probability score of each row.

        It is the integral of the squared distance of the cumulative distribution from that of y,
        in units of y; lower is better, and for a prediction without spread it is the absolute
        error (Gneiting and Raftery 2007, "Strictly proper scoring rules").

        Parameters
        ----------
        y : array, shape (n_rows,)

        Returns
        -------
        float64, shape (n_rows,)
        """

    def __len__(self) -> int:
        return int(np.size(self.mean()))

    def mean(self) -> np.ndarray:
        """Return the means, float64 of shape (n_rows,)."""
        return np.asarray(self.frozen.mean())

    def std(self) -> np.ndarray:
        """Return the standard deviations, float64 of shape (n_rows,)."""
        return np.asarray(self.frozen.std())

    def quantile(self, q: Any) -> np.ndarray:
        """Return quantiles.

        Parameters
        ----------
        q : float or array of float, shape (n_quantiles,)
            In [0, 1].

        Returns
        -------
        float64, shape (n_rows,) or (n_rows, n_quantiles)

        Raises
        ------
        ValueError
            An entry of q is outside [0, 1].
        """
        wanted = np.asarray(q, np.float64)
        if wanted.ndim > 1 or not ((wanted >= 0.0) & (wanted <= 1.0)).all():
            raise ValueError(f"q must be a number in [0, 1], or an array of these, got {q!r}.")
        if wanted.ndim == 0:
            return np.asarray(self.frozen.ppf(wanted))
        return np.stack([self.frozen.ppf(p) for p in wanted], axis=-1)

    def cdf(self, y: Any) -> np.ndarray:
        """Return the probabilities of at most y, float64 of shape (n_rows,)."""
        return np.asarray(self.frozen.cdf(_targets(y)))

    def logpdf(self, y: Any) -> np.ndarray:
        """Return the logarithm of the density at y, or of the probability of a count y.

        Parameters
        ----------
        y : array, shape (n_rows,)

        Returns
        -------
        float64, shape (n_rows,)
        """
        return np.asarray(self.frozen.logpdf(_targets(y)))

    def sample(self, n: int, random_state: Any = None) -> np.ndarray:
        """Draw targets.

        Parameters
        ----------
        n : int
            Draws of each row.
        random_state : int, numpy.random.Generator or None, default=None
            None is a fixed seed: pass a generator to draw others at each call.

        Returns
        -------
        array, shape (n, n_rows)
        """
        rng = np.random.default_rng(0 if random_state is None else random_state)
        return np.asarray(self.frozen.rvs(size=(n, len(self)), random_state=rng))


@dataclass(frozen=True, eq=False)
class Normal(Distribution):
    """Normal distributions.

    Parameters
    ----------
    location, scale : float64, shape (n_rows,)
        Means and standard deviations.
    """

    location: np.ndarray
    scale: np.ndarray

    @property
    def frozen(self) -> Any:
        from scipy.stats import norm

        return norm(self.location, self.scale)

    def crps(self, y: Any) -> np.ndarray:
        from scipy.stats import norm

        z = (_targets(y) - self.location) / self.scale
        spread = z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi)
        return np.asarray(self.scale * spread)


@dataclass(frozen=True, eq=False)
class LogNormal(Distribution):
    """Distributions of positive numbers whose logarithms are normal.

    Parameters
    ----------
    location, scale : float64, shape (n_rows,)
        Means and standard deviations of the logarithms.
    """

    location: np.ndarray
    scale: np.ndarray

    @property
    def frozen(self) -> Any:
        from scipy.stats import lognorm

        return lognorm(self.scale, scale=np.exp(self.location))

    def crps(self, y: Any) -> np.ndarray:
        from scipy.stats import norm

        targets = _targets(y)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(targets > 0.0, (np.log(targets) - self.location) / self.scale, -np.inf)
        above = norm.cdf(z - self.scale) + norm.cdf(self.scale / np.sqrt(2.0)) - 1.0
        return np.asarray(targets * (2.0 * norm.cdf(z) - 1.0) - 2.0 * self.mean() * above)


@dataclass(frozen=True, eq=False)
class StudentT(Distribution):
    """Student's t distributions.

    Parameters
    ----------
    location, scale : float64, shape (n_rows,)
    df : float
        Degrees of freedom. The mean is infinite or undefined up to 1, the variance up to 2.
    """

    location: np.ndarray
    scale: np.ndarray
    df: float

    @property
    def frozen(self) -> Any:
        from scipy.stats import t

        return t(self.df, self.location, self.scale)

    def crps(self, y: Any) -> np.ndarray:
        """See ``Distribution.crps``; infinite for ``df`` up to 1."""
        from scipy.special import beta
        from scipy.stats import t

        if self.df <= 1.0:
            return np.full(len(self), np.inf)
        z = (_targets(y) - self.location) / self.scale
        tail = 2.0 * t.pdf(z, self.df) * (self.df + z * z) / (self.df - 1.0)
        ratio = beta(0.5, self.df - 0.5) / beta(0.5, 0.5 * self.df) ** 2
        own = 2.0 * np.sqrt(self.df) / (self.df - 1.0) * ratio
        return np.asarray(self.scale * (z * (2.0 * t.cdf(z, self.df) - 1.0) + tail - own))


@dataclass(frozen=True, eq=False)
class NegativeBinomial(Distribution):
    """Negative binomial distributions.

    Parameters
    ----------
    average, size : float64, shape (n_rows,)
        The variance is ``average + average**2 / size``.
    """

    average: np.ndarray
    size: np.ndarray

    @property
    def frozen(self) -> Any:
        from scipy.stats import nbinom

        return nbinom(self.size, self.size / (self.size + self.average))

    def logpdf(self, y: Any) -> np.ndarray:
        return np.asarray(self.frozen.logpmf(_targets(y)))

    def crps(self, y: Any) -> np.ndarray:
        """See ``Distribution.crps``; by Wei and Held (2014, "Calibration tests for count
        data")."""
        from scipy.special import hyp2f1
        from scipy.stats import nbinom

        targets, p = _targets(y), self.size / (self.size + self.average)
        failures = (1.0 - p) / p**2
        shifted = p * (2.0 * nbinom.cdf(targets - 1.0, self.size + 1.0, p) - 1.0)
        pairs = hyp2f1(self.size + 1.0, 0.5, 2.0, -4.0 * failures)
        within = self.size * failures * (shifted + pairs)
        return np.asarray(targets * (2.0 * self.cdf(targets) - 1.0) - within)


def _targets(y: Any) -> np.ndarray:
    return np.asarray(to_numpy(y), np.float64)
