"""All attacks by their names."""

from __future__ import annotations

from importlib import import_module

from .attack import Attack

ATTACKS = {
    "states-boosting": "states.BoostingStates",
    "states-distributions": "states.DistributionStates",
    "states-survival": "states.SurvivalStates",
    "states-forests": "states.ForestStates",
    "states-trees": "states.TreeStates",
    "states-adaboost": "states.AdaBoostStates",
    "states-bagging": "states.BaggingStates",
    "states-conformal": "states.ConformalStates",
    "tables": "tables.generated_tables.GeneratedTables",
    "passes": "tables.passes.Passes",
    "saved-models": "readers.own.SavedModels",
    "saved-members": "readers.own.SavedMembers",
    "binned-tables": "readers.own.Tables",
    "xgboost-json": "readers.exchange.XGBoostJson",
    "xgboost-ubjson": "readers.exchange.XGBoostBinary",
    "lightgbm": "readers.exchange.LightGBM",
    "catboost": "readers.exchange.CatBoost",
    "treelite": "readers.exchange.Treelite",
    "sklearn-objects": "readers.objects.SklearnObjects",
    "csv": "readers.command.CsvFiles",
    "odd-csv": "readers.odd_csv.OddCsv",
    "parquet": "readers.command.ParquetFiles",
    "storms": "storms.Storms",
    "address-space": "memory.AddressSpace",
    "cgroup": "memory.ControlGroup",
    "full-disks": "disks.FullDisks",
    "versions": "versions.Versions",
}
"""Modules and classes, which are imported where they run."""
PLANTED = {"planted": "planted.Planted"}
"""What the campaign itself is tested with."""


def attack(name: str) -> type[Attack]:
    """Return the class of an attack."""
    module, _, found = (ATTACKS | PLANTED)[name].rpartition(".")
    return getattr(import_module(f".{module}", __package__), found)
