"""The same model, bit for bit: by threads, by implementation, by blocks of rows.

Exits with 1 if anything differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.datasets import make_higgs_like
from gpuens.kernels.growth.histogram import histogram
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.kernels.runtime.dtypes import N_SLOTS, ROW_ALIGNMENT, Codes, Totals
from gpuens.kernels.statistics.quantise import quantise, scales_for

from ..common.machine import ROOT
from ..common.records import Record, options_of, positive

CASES = ("regression", "binary", "multiclass", "sampled")


def fingerprint(case: str, n_rows: int, n_features: int, **parameters: Any) -> str:
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


def threads_agree(case: str, options: Any) -> dict[str, str]:
    table = {"n_rows": options.rows, "n_features": 28, "n_estimators": options.trees}
    return {f"{n} threads": fingerprint(case, **table, device="cpu", n_jobs=n) for n in (1, 2, 3)}


def reference_agrees(case: str, options: Any) -> dict[str, str]:
    table = {"n_rows": options.small_rows, "n_features": 12, "n_estimators": 3}
    found = {"cpu": fingerprint(case, **table, device="cpu", n_jobs=2)}
    with using(Implementation.REFERENCE):
        found["reference"] = fingerprint(case, **table, device="cpu")
    return found


def simulator_agrees(cases: Sequence[str], options: Any) -> dict[str, dict[str, str]]:
    """The CUDA kernels in Numba's simulator, which needs a process of its own.

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
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
    )
    if child.returncode:
        error = (child.stderr.strip().splitlines() or ["no output"])[-1]
        return {case: {"simulator": f"failed: {error}"} for case in cases}
    simulated = json.loads(child.stdout)
    return {
        case: {"cpu": fingerprint(case, **table, device="cpu"), "simulator": simulated[case]}
        for case in cases
    }


def blocks_agree(options: Any) -> dict[str, Any]:
    """Histograms of random blocks of rows, added up, against that of all rows."""
    rng = np.random.default_rng(0)
    n, n_features = options.rows, 28
    stride = -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT
    rows = np.zeros((n, stride), np.uint8)
    rows[:, :n_features] = rng.integers(0, N_SLOTS, (n, n_features))
    codes = Codes(rows, np.ascontiguousarray(rows[:, :n_features].T))
    g = rng.normal(size=n).astype(np.float32)
    h = rng.random(n, dtype=np.float32)
    totals = Totals(*(float(v) for v in (abs(g).max(), abs(g).sum(), h.max(), h.sum())))
    records = quantise(g, h, np.empty(0, np.int32), 7, scales_for(totals, n)).words

    def summed(records: np.ndarray, cuts: np.ndarray) -> np.ndarray:
        return histogram(codes, records, cuts[:-1], cuts[1:]).sum(axis=0, dtype=np.int32)

    whole = summed(records, np.array([0, n]))
    splits = []
    for n_blocks in (2, 3, 17, 200):
        cuts = np.sort(np.append(rng.integers(0, n + 1, n_blocks - 1), [0, n]))
        splits.append(bool(np.array_equal(summed(rng.permutation(records), cuts), whole)))
    return {"blocks": [2, 3, 17, 200], "equal": splits}


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("identity", __doc__)
    parser.add_argument("--rows", type=positive, default=100_000, help="rows for the CPU")
    parser.add_argument("--trees", type=positive, default=20, help="rounds of boosting on the CPU")
    parser.add_argument("--small-rows", type=positive, default=2000, help="for the reference")
    parser.add_argument("--simulated-rows", type=positive, default=120, help="for the simulator")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, help="kinds of models")
    parser.add_argument("--no-simulator", action="store_true", help="leave the simulator out")
    options = parser.parse_args(argv)
    record = Record("identity", options)
    hashes: dict[str, dict[str, dict[str, str]]] = {
        "threads": {case: threads_agree(case, options) for case in options.only},
        "reference": {case: reference_agrees(case, options) for case in options.only},
    }
    if not options.no_simulator:
        hashes["simulator"] = simulator_agrees(options.only, options)
    equal = {
        kind: {case: len(set(found.values())) == 1 for case, found in by_case.items()}
        for kind, by_case in hashes.items()
    }
    blocks = blocks_agree(options)
    equal["histogram over blocks"] = dict(
        zip([f"{n} blocks" for n in blocks["blocks"]], blocks["equal"], strict=True)
    )
    for kind, by_case in equal.items():
        for case, same in by_case.items():
            print(f"  {kind:<22}{case:<12}{'identical' if same else 'DIFFERENT'}")
    identical = all(all(by_case.values()) for by_case in equal.values())
    record.write({"identical": identical, "equal": equal, "fingerprints": hashes})
    return 0 if identical else 1
