"""Operations of ``kernels`` for the stand-in's arrays, by the CPU's implementations.

A call is compared with its contract first: which arguments are on the device and which on the host,
as the CUDA implementations take them. Then the CPU's implementation runs on the memory of the
arrays, and the results become arrays of the device where the contract puts them there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from gpuens.kernels.runtime import dispatch
from gpuens.kernels.runtime.collective import NO_ROWS
from gpuens.kernels.runtime.dispatch import Implementation
from gpuens.kernels.runtime.dtypes import NO_LEAF

from .arrays import ndarray, require_here, result
from .machine import begun, waited

_module = dispatch._module
ARGUMENTS: dict[str, set[str]] = {
    "add_out_of_bag": {"leaf", "value", "truth", "begin", "sums", "n_models"},
    "add_leaf_values": {"raw", "leaf"},
    "add_linear_values": {"leaves.*", "X", "leaf", "raw"},
    "add_values_of_trees": {"raw", "leaf"},
    "bin_values": {"X", "thresholds"},
    "count_draws": {"counts"},
    "draw_below": {"weight"},
    "draw_by_chances": {"weight", "chances"},
    "gradients": {"y", "raw", "shift", "weight", "g", "h", "update.leaf"},
    "gradients_of_outputs": {"y", "raw", "shift", "weight", "g", "h"},
    "gradients_of_piece": {"y", "raw", "shift", "weight", "g", "h"},
    "grow": {"codes.rows", "codes.columns", "records.words", "records.sums"},
    "grow_cart": {"table.codes", "target.classes", "target.values", "target.weight", "records"},
    "largest_linear_values": {"leaves.*", "X", "leaf"},
    "leaf_indices": {"X", "trees.*"},
    "leaf_quantiles": {"leaf", "values", "weight"},
    "leaf_sums": {"leaf", "g", "h"},
    "linear_sums": {"leaf", "g", "h", "X"},
    "log_sum_exp": {"raw"},
    "newton_steps": {"trees.leaf", "g", "h"},
    "ordered_sums": {"values"},
    "probabilities": {"raw"},
    "quantile_of_leaves": {"targets.*", "leaf", "least"},
    "quantise": {"g", "h", "rows"},
    "records_of_sample": {"counts"},
    "row_values": {"y", "raw", "shift"},
    "traverse": {"trees.*", "X", "raw"},
    "traverse_codes": {"codes.rows", "codes.columns", "leaf"},
}
"""The arguments of each operation that are on the device, all others being on the host."""
RESULTS: dict[str, set[str]] = {
    "add_out_of_bag": {""},
    "bin_values": {"rows", "columns"},
    "draw_below": {""},
    "draw_by_chances": {""},
    "grow": {"leaf"},
    "leaf_indices": {""},
    "log_sum_exp": {""},
    "probabilities": {""},
    "quantile_of_leaves": {""},
    "quantise": {"words", "sums"},
    "records_of_sample": {"records", "size"},
    "row_values": {""},
}
"""The results, or fields of results, that are on the device."""
FROZEN = {"trees.*", "leaves.*", "targets.*", "value"}
"""Arguments of forests, whose arrays are read-only on the host: kernels are compiled for these."""
COMPOSED = {"many_models"}
"""Modules whose reference is made up of operations that are routed themselves."""
OF_ARRAYS = {"cut_points", "rank_values", "sort_rows"}
"""Operations that CUDA leaves to functions of arrays, which run as they are."""
WAITING = {
    "draw_below", "draw_by_chances", "gradients_of_piece", "grow", "grow_cart",
    "largest_linear_values", "leaf_sums", "leaf_quantiles", "linear_sums",
}  # fmt: skip
"""Operations whose results the host waits for."""


BY_PHASES = "gpuens.kernels.growth.by_phases"
"""Another loop of ``growth.grow``, which also takes sums of records from the host."""


def module_for(contract: str, implementation: Implementation) -> Any:
    """Take the place of ``dispatch._module``."""
    room, stem = contract.split(".")[-2:]
    is_ours = contract.startswith("gpuens.")  # rooms of tests have no contracts
    is_cuda = implementation is Implementation.CUDA
    if not is_cuda or not is_ours or room == "runtime" or stem in OF_ARRAYS:
        return _module(contract, implementation)
    if stem in COMPOSED:
        return dispatch.composed(contract)
    return _routed(contract)


@cache
def _routed(contract: str) -> SimpleNamespace:
    cpu = _module(contract, Implementation.CPU)
    is_by_phases = contract == BY_PHASES
    declaring = contract.replace("by_phases", "grow") if is_by_phases else contract
    declared = import_of(declaring)
    return SimpleNamespace(**{
        name: _operation(name, getattr(cpu, name), is_by_phases)
        for name in ARGUMENTS
        if hasattr(cpu, name) and getattr(declared, name, None) is not None
        and getattr(declared, name).__module__ == declaring
    })  # fmt: skip


def import_of(contract: str) -> ModuleType:
    """Return the module that holds a contract."""
    from importlib import import_module

    return import_module(contract)


def _operation(name: str, on_cpu: Callable[..., Any], is_by_phases: bool) -> Any:
    parameters = inspect.signature(on_cpu)
    wanted = ARGUMENTS[name] - ({"records.sums"} if is_by_phases else set())
    results = RESULTS.get(name, set())

    def operation(*args: Any, **settings: Any) -> Any:
        bound = parameters.bind(*args, **settings)
        passed = bound.arguments
        for parameter, value in passed.items():
            require_places(name, parameter, value, wanted)
        begun(name)
        if name in WAITING:
            waited(name)
        passed.update({
            parameter: host(value, not wanted.isdisjoint({parameter, f"{parameter}.*"} & FROZEN))
            for parameter, value in passed.items()
        })  # fmt: skip
        if (narrow := passed.get("leaf")) is not None and narrow.dtype == np.uint16:
            # Leaves of two bytes are CUDA's alone: the CPU would take NO_LEAF for one.
            passed["leaf"] = np.where(narrow == NO_LEAF, np.int32(-1), narrow)
        found = on_cpu(*bound.args, **bound.kwargs)
        if narrow is not None and narrow is not passed["leaf"]:
            narrow[...] = passed["leaf"].astype(np.uint16)
        return _placed(found, results)

    return operation


def require_places(operation: str, path: str, value: Any, wanted: set[str]) -> None:
    """Raise a TypeError for an array that is not where the contract wants it."""
    fields = getattr(value, "_fields", None)
    if fields is not None:
        for field, part in zip(fields, value, strict=True):
            require_places(operation, f"{path}.{field}", part, wanted)
    elif isinstance(value, (list, tuple)):
        for part in value:
            require_places(operation, path, part, wanted)
    elif isinstance(value, (ndarray, np.ndarray)) and value is not NO_ROWS:
        on_device = path in wanted or f"{path.split('.')[0]}.*" in wanted
        if on_device != isinstance(value, ndarray):
            raise TypeError(
                f"{operation}(): {path} must be on the {'device' if on_device else 'host'}, got "
                f"{type(value)}"
            )
        if on_device:
            require_here(value)  # type: ignore[arg-type]


def host(value: Any, frozen: bool = False) -> Any:
    """Return arguments with the memory in place of the arrays; the same object without any."""
    if isinstance(value, ndarray):
        memory = value.memory
        if frozen:
            memory = memory.view()
            memory.flags.writeable = False
        return memory
    if isinstance(value, (list, tuple)):
        parts = [host(part, frozen) for part in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _placed(found: Any, on_device: set[str]) -> Any:
    if "" in on_device:
        return tuple(map(result, found)) if isinstance(found, tuple) else result(found)
    if not on_device:
        return found
    return found._replace(**{name: result(getattr(found, name)) for name in on_device})
