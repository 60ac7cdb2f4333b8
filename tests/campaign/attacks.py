"""All attacks by their names."""

from __future__ import annotations

from importlib import import_module

from .attack import Attack

ATTACKS = {
    "states-boosting": "states.BoostingStates",
    "states-forests": "states.ForestStates",
    "states-trees": "states.TreeStates",
    "states-adaboost": "states.AdaBoostStates",
    "states-bagging": "states.BaggingStates",
    "tables": "generated_tables.GeneratedTables",
    "saved-models": "own_readers.SavedModels",
    "saved-members": "own_readers.SavedMembers",
    "binned-tables": "own_readers.Tables",
    "xgboost-json": "exchange_readers.XGBoostJson",
    "xgboost-ubjson": "exchange_readers.XGBoostBinary",
    "lightgbm": "exchange_readers.LightGBM",
    "catboost": "exchange_readers.CatBoost",
    "treelite": "exchange_readers.Treelite",
    "sklearn-objects": "objects.SklearnObjects",
    "csv": "command_readers.CsvFiles",
    "parquet": "command_readers.ParquetFiles",
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
    module, _, found = (ATTACKS | PLANTED)[name].partition(".")
    return getattr(import_module(f".{module}", __package__), found)
