"""Quality and CPU time of learners that few libraries have, beside those that have them.

ranking
    LambdaMART beside LightGBM and XGBoost at the same settings: NDCG on LightGBM's own example,
    on its official split (mean over seeds) and on five folds of whole queries (mean over
    repetitions), and fits of generated documents in queries of 100.
survival
    Harrell's concordance on repeated folds: boosting with the losses of Cox and of accelerated
    failure times at the same settings as XGBoost and scikit-survival, forests at their defaults.
distributions
    Negative log-likelihood of normal distributions on held-out quarters, beside NGBoost with trees
    of the same depth, the same rate and the same early stopping.
intervals
    The share of targets inside of conformal intervals of 90 %, 1,000 rows to train on, 1,000 to
    count. Goals are of the defaults.
oblique
    Errors of oblique forests beside plain ones, on sparse parity and Trunk's normal classes (Tomita
    et al. 2020) with the error of the best rule, and on held-out quarters of real tables.
targets
    Sixteen generated targets, a tree a round for all of them, beside XGBoost's trees of vector
    leaves at the same rounds and rate: the error on fresh rows, and fits.

A library that is not installed takes no part. Seconds are those of all threads of the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, median

from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS, THEIRS
from ..common.program import Content, Program
from ..common.tables import DATA
from .distributions import COVERAGE, VARIED, distributions, intervals
from .oblique import BEST, GENERATED, oblique
from .ranking import ranking
from .survival import survival
from .targets import targets
from .values import Values

HIGHER_IS_BETTER = ("ranking", "survival")


def show(content: Content) -> Iterator[str]:
    """Yield the mean of everything that was measured, and median CPU seconds, by library."""
    results = measured(content["results"])
    for part, cases in results.items():
        if part == "intervals":
            yield pivot("intervals of 90 %", {
                case: {
                    "coverage": f"{row['coverage']:.4f}", "mean width": f"{row['width']:.3f}",
                    "spread over splits": f"{row['spread']:.4f}",
                }
                for case, row in measured(cases).items()
            })  # fmt: skip
            continue
        quality: dict[str, dict[str, str]] = {}
        seconds: dict[str, dict[str, str]] = {}
        for case, libraries in measured(cases).items():
            for library, own in libraries.items():
                for name, runs in own.items():
                    if name == "cpu":
                        seconds.setdefault(case, {})[library] = f"{median(runs):.2f}"
                    else:
                        row = quality.setdefault(f"{case}: {name}", {})
                        row[library] = f"{fmean(runs):.4g}"
        yield pivot(part, quality)
        yield pivot(f"{part}: CPU seconds of a fit", seconds)


MOST_LOST = {"ranking": 0.005, "survival": 0.005, "distributions": 0.0}
"""By which the mean of a measure may be worse than that of the best other library."""
LARGEST_RATIOS = {"ranking": 0.6, "survival": 0.1, "distributions": 0.1}
"""Goal of the CPU time, relative to the fastest other library."""
LARGEST_ERROR, TOLERANCE = 0.7, 0.01
LARGEST_OF_TARGETS = {"error": 1.0, "cpu": 0.3}


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    for part, limit in MOST_LOST.items():
        for case, libraries in measured(results.get(part, {})).items():
            yield from goals_of(part, case, libraries, limit)
    for case, row in measured(results.get("intervals", {})).items():
        if case not in VARIED:
            what = f"the distance of the coverage of conformal intervals ({case}) from 90 %"
            yield Goal(what, TOLERANCE, abs(row["coverage"] - COVERAGE))
    for case, libraries in measured(results.get("targets", {})).items():
        if "XGBoost" in libraries:
            for name, limit in LARGEST_OF_TARGETS.items():
                ours, theirs = (median(libraries[who][name]) for who in (OURS, "XGBoost"))
                what = "CPU time of a fit" if name == "cpu" else name
                what = f"the {what} of 16 targets on {case}, relative to XGBoost's vector leaves"
                yield Goal(what, limit, ours / theirs)
    for case, libraries in measured(results.get("oblique", {})).items():
        ours, theirs = (fmean(libraries[name]["error"]) for name in (OURS, THEIRS))
        if case in GENERATED and theirs:
            what = f"the error of an oblique forest on {case}, relative to scikit-learn's forest"
            if best := libraries[BEST]["error"][0]:
                what += f" (that of the best rule: {best / theirs:.2f})"
            yield Goal(what, LARGEST_ERROR, ours / theirs)


def goals_of(part: str, case: str, libraries: Values, limit: float) -> Iterator[Goal]:
    """Yield what is lost to the best other library in each measure, and the ratio of seconds."""
    others = [library for library in libraries if library != OURS]
    for name, runs in libraries.get(OURS, {}).items() if others else ():
        sign = -1.0 if part in HIGHER_IS_BETTER else 1.0
        means = {library: fmean(libraries[library][name]) for library in others
                 if name in libraries[library]}  # fmt: skip
        best = min(means, key=lambda library: sign * means[library], default=None)
        if best is None:
            continue
        if name == "cpu":
            fastest = min(others, key=lambda library: median(libraries[library]["cpu"]))
            ratio = median(runs) / median(libraries[fastest]["cpu"])
            what = f"the CPU time of a fit ({part}: {case}), relative to {fastest}"
            yield Goal(what, LARGEST_RATIOS[part], ratio)
        else:
            lost = sign * (fmean(runs) - means[best])
            what = f"the {name} lost to {best}, the best other library ({part}: {case}),"
            yield Goal(what, limit, lost)


PROGRAM = Program(
    "learners", __doc__,
    {
        "ranking": ranking, "survival": survival, "distributions": distributions,
        "intervals": intervals, "oblique": oblique, "targets": targets,
    },
    {
        "data": (DATA, "folder of the real tables"),
        "rounds": (100, "rounds of boosting, five times as many of distributions"),
        "seeds": (20, "fits to the official split of rankings"),
        "folds": (10, "repetitions of the five folds of rankings"),
        "queries": (10_000, "queries that are generated"),
        "repeats": (5, "repetitions of the five folds of survival, and of fits whose time counts"),
        "rows": (100_000, "rows with times that are generated"),
        "splits": (5, "splits of the tables of distributions"),
        "draws": (200, "splits that coverage is counted on"),
        "threads": (2, "threads where times are not compared with one"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
