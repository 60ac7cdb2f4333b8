"""What ``gpu_check`` prints of its results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .bench import OURS

Rows = list[list[str]]


def tables_of(results: dict[str, Any]) -> Iterator[tuple[str, Rows]]:
    """Title, and a head with rows, of every table that has rows."""
    parts = results["parts"]
    for title, rows in (
        ("models of the card and of the host", identity(parts)),
        ("times", times(parts)),
        ("milliseconds a tree by the way kernels are started", launches(results)),
    ):
        if len(rows) > 1:
            yield title, rows


def identity(parts: dict[str, Any]) -> Rows:
    """A row a model."""
    rows = [["model", "table", "rows", "model", "predictions", "fingerprint"]]
    for name, row in parts.get("identity", {}).get("cases", {}).items():
        rows.append([
            name, f"{row['table']} ({row['source']})", f"{row['n_rows']:,}",
            "same" if row["same_model"] else "DIFFERENT",
            "same" if row["same_predictions"] else "DIFFERENT", row["fingerprints"]["cuda"][:12],
        ])  # fmt: skip
    return rows


def times(parts: dict[str, Any]) -> Rows:
    """A row a contestant of every case."""
    rows = [["case", "library", "seconds", "gpuens ÷ it", "quality"]]
    for name, part in parts.items():
        for case, result in part["cases"].items():
            for library, row in result.get("libraries", {}).items():
                quality = row.get("quality", {})
                if "accuracy" in row:
                    quality = {"accuracy": row["accuracy"]}
                told = ", ".join(f"{kind} {value:.5f}" for kind, value in quality.items())
                by = f"{row['ratio']:.3f}" if "ratio" in row else ""
                label = f"{name}: {case}" if library == OURS else ""
                rows.append([label, library, f"{row['median']:.4f}", by, told])
    return rows


def launches(results: dict[str, Any]) -> Rows:
    """A row a way to start kernels."""
    by_variant = results["others"]["launches"]["ms_a_tree"]
    sizes = sorted({size for row in by_variant.values() for size in row})
    head = ["launches", *(f"{size} × 28, depth 6" for size in sizes)]
    return [head, *(
        [variant, *(f"{row[size]:.3f}" if size in row else "" for size in sizes)]
        for variant, row in by_variant.items()
    )]  # fmt: skip
