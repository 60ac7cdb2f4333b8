"""The same model, bit for bit: by threads, by implementation, by blocks of rows.

Exits with 1 if anything differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.datasets import make_higgs_like
from gpuens.kernels.growth.histogram import histogram
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.kernels.runtime.dtypes import N_SLOTS, ROW_ALIGNMENT, Codes, Totals
from gpuens.kernels.statistics.quantise import quantise, scales_for

from ..common.identical import by_threads, identical
from ..common.markdown import pivot
from ..common.peers import GapError
from ..common.processes import run_python
from ..common.program import Content, Options, Program, Results

CASES = ["regression", "binary", "multiclass", "sampled"]
BLOCKS = (2, 3, 17, 200)


def fingerprint(case: str, n_rows: int, n_features: int, **parameters: object) -> str:
    """Train one kind of model on a table with missing values."""
    X, y = make_higgs_like(n_rows, n_features)
    if case == "regression":
        y = y + 3 * X[:, 0]
    elif case == "multiclass":
        y = y + (X[:, 0] > 0)
    elif case == "sampled":
        parameters |= {"subsample": 0.7, "colsample_bynode": 0.5, "max_depth": 5}
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    cls = GradientBoostingRegressor if case == "regression" else GradientBoostingClassifier
    return cls(**{"min_samples_leaf": 5, **parameters}).fit(X, y).forest_.fingerprint()


def on_threads(case: str, options: Options) -> dict[str, str]:
    table = {"n_rows": options.rows, "n_features": 28, "n_estimators": options.trees}
    return by_threads(lambda n: fingerprint(case, **table, device="cpu", n_jobs=n))


def by_reference(case: str, options: Options) -> dict[str, str]:
    table = {"n_rows": options.small_rows, "n_features": 12, "n_estimators": 3}
    found = {"cpu": fingerprint(case, **table, device="cpu", n_jobs=2)}
    with using(Implementation.REFERENCE):
        found["reference"] = fingerprint(case, **table, device="cpu")
    return found


def by_simulator(cases: Sequence[str], options: Options) -> dict[str, dict[str, str]]:
    """Compare with the CUDA kernels in Numba's simulator, which needs a process of its own.

    It takes half a millisecond for every thread that a GPU would run: the models are tiny.
    """
    table = {"n_rows": options.simulated_rows, "n_features": 4, "n_estimators": 2,
             "max_leaf_nodes": 5, "max_bins": 16}  # fmt: skip
    code = (
        "import json, sys\n"
        "from benchmarks.programs.identity import fingerprint\n"
        f"found = {{c: fingerprint(c, **{table}, device='cuda') for c in {tuple(cases)}}}\n"
        "print(json.dumps(found))"
    )
    try:
        simulated = run_python(code, NUMBA_ENABLE_CUDASIM="1")
    except GapError as gap:
        return {case: {"cpu": "", "simulator": f"failed: {gap}"} for case in cases}
    return {
        case: {"cpu": fingerprint(case, **table, device="cpu"), "simulator": simulated[case]}
        for case in cases
    }


def by_blocks(options: Options) -> dict[str, bool]:
    """Compare histograms of random blocks of rows, added up, with that of all rows."""
    rng = np.random.default_rng(0)
    n, n_features = options.rows, 28
    stride = -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT
    rows = np.zeros((n, stride), np.uint8)
    rows[:, :n_features] = rng.integers(0, N_SLOTS, (n, n_features))
    codes = Codes(rows, np.ascontiguousarray(rows[:, :n_features].T))
    g = rng.normal(size=n).astype(np.float32)
    h = rng.random(n, dtype=np.float32)
    totals = Totals(*(float(v) for v in (abs(g).max(), abs(g).sum(), h.max(), h.sum())))
    everything, scales = np.empty(0, np.int32), [scales_for(totals, n)]
    records = quantise(g[None], h[None], everything, 7, 0, scales).words[0]

    def summed(records: np.ndarray, cuts: np.ndarray) -> np.ndarray:
        return histogram(codes, records, cuts[:-1], cuts[1:]).sum(axis=0, dtype=np.int32)

    whole = summed(records, np.array([0, n]))
    found = {}
    for n_blocks in BLOCKS:
        cuts = np.sort(np.append(rng.integers(0, n + 1, n_blocks - 1), [0, n]))
        same = np.array_equal(summed(rng.permutation(records), cuts), whole)
        found[f"{n_blocks} blocks"] = bool(same)
    return found


def measure(options: Options) -> Results:
    hashes = {
        "threads": {case: on_threads(case, options) for case in options.only},
        "reference": {case: by_reference(case, options) for case in options.only},
    }
    if not options.no_simulator:
        hashes["simulator"] = by_simulator(options.only, options)
    equal = {kind: identical(by_case)["equal"] for kind, by_case in hashes.items()}
    equal["histogram over blocks"] = by_blocks(options)
    same = all(all(by_case.values()) for by_case in equal.values())
    return {"identical": same, "equal": equal, "fingerprints": hashes}


def show(content: Content) -> Iterator[str]:
    """Yield what was compared."""
    yield pivot("compared", {
        f"{kind}: {case}": {"": "identical" if same else "**different**"}
        for kind, by_case in content["results"]["equal"].items()
        for case, same in by_case.items()
    })  # fmt: skip


PROGRAM = Program(
    "identity", __doc__, measure,
    {
        "rows": (100_000, "rows for the CPU"),
        "trees": (20, "rounds of boosting on the CPU"),
        "small_rows": (2000, "rows for the reference"),
        "simulated_rows": (120, "rows for the simulator"),
        "only": (CASES, "kinds of models"),
        "no_simulator": (False, "leave the simulator out"),
    },
    show,
)  # fmt: skip
main = PROGRAM.main
