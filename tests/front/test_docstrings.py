"""Every public parameter is documented: its type, its default, and what it means."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import pytest

import gpuens
from gpuens.estimators.docstrings import documented

MODULES = [
    "bias_variance", "callbacks", "custom_metrics", "datasets", "diversity", "inspection", "losses",
    "plotting", "ranking_metrics", "survival_metrics",
]  # fmt: skip
GROUPED = [
    "AdaBoostClassifier", "AdaBoostRegressor", "BaggingClassifier", "BaggingRegressor",
    "DecisionTreeClassifier", "ExtraTreeRegressor", "ExtraTreesClassifier", "IsolationForest",
    "GradientBoostingClassifier", "GradientBoostingRanker", "GradientBoostingRegressor",
    "ObliqueRandomForestClassifier", "QuantileForestRegressor", "RandomForestRegressor",
    "RandomSurvivalForest", "StagewiseClassifier", "StagewiseRegressor",
]  # fmt: skip


class Entry(NamedTuple):
    """What a docstring says about a parameter, or the heading of a group without a type."""

    kind: str
    text: str
    default: str


def public() -> Iterator[tuple[str, Any]]:
    """Yield the public functions and classes by name, but for errors, protocols and formulas."""
    found = {name: getattr(gpuens, name) for name in gpuens.__all__}
    for room in MODULES:
        module = import_module(f"gpuens.{room}")
        own = [name for name, value in vars(module).items()
               if getattr(value, "__module__", "") == module.__name__]  # fmt: skip
        names = [name for name in getattr(module, "__all__", own) if name[0] != "_"]
        found |= {f"{room}.{name}": getattr(module, name) for name in names}
    for name, value in found.items():
        if getattr(value, "__module__", "").startswith("gpuens.kernels"):
            continue  # a formula, whose docstring is part of the source of kernels
        is_class = inspect.isclass(value) and not issubclass(value, Exception)
        if inspect.isfunction(value) or (is_class and not getattr(value, "_is_protocol", False)):
            yield name, value


def section(text: str, name: str) -> list[str]:
    """Return the lines of a section of a numpydoc string."""
    found = re.search(rf"^{name}\n-+\n(.*?)(?=\n\n\S[^\n]*\n-{{3,}}\n|\Z)", text, re.S | re.M)
    return found[1].splitlines() if found else []


def entries(text: str, name: str) -> dict[str, Entry]:
    """Return the entries of a section, by parameter; several can share an entry."""
    found: dict[str, Entry] = {}
    names: list[str] = []
    for line in section(inspect.cleandoc(text), name):
        if line[:1].strip():
            listed, _, kind = line.partition(" : ")
            kind, _, default = kind.partition("default=")
            names = [each.strip().lstrip("*") for each in listed.split(",")]
            stated = re.split(r", | and ", default) if len(names) > 1 else [default]
            stated *= len(names) if len(stated) == 1 else 1
            found |= {n: Entry(kind, "", d) for n, d in zip(names, stated, strict=True)}
        else:
            for n in names:
                found[n] = found[n]._replace(text=found[n].text + line.strip())
    return found


def lacks(thing: Any) -> list[str]:
    """Return what the documentation of a function or class lacks."""
    text, is_class = thing.__doc__ or "", inspect.isclass(thing)
    stated = entries(text, "Attributes") if is_class else {}
    given = entries(text, "Parameters")
    problems = []
    for name, parameter in inspect.signature(thing).parameters.items():
        entry = (stated | given).get(name)
        if entry is None or not entry.kind or not entry.text:
            problems.append(f"{name} has no {'entry' if entry is None else 'type or text'}")
        elif parameter.default is not inspect.Parameter.empty and name in given:
            if not entry.default:
                problems.append(f"{name} has no default")
            elif not is_default(entry.default, parameter.default):
                problems.append(f"{name}: default={entry.default} is {parameter.default!r}")
    return problems


def is_default(stated: str, value: Any) -> bool:
    """Return whether a default is as stated, or stated in words."""
    try:
        return bool(ast.literal_eval(stated) == value)
    except (ValueError, SyntaxError):
        return not isinstance(value, (str, bool, int, float)) or stated in ("1/3", "nan")


PUBLIC = dict(public())


def test_what_is_public():
    assert len(PUBLIC) > 140
    assert {"load", "GridSearchCV", "datasets.make_moons", "losses.Huber"} <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_has_type_text_and_default(name):
    assert lacks(PUBLIC[name]) == []


@pytest.mark.parametrize("name", GROUPED)
def test_parameters_are_in_groups(name):
    found = entries(getattr(gpuens, name).__doc__, "Parameters")
    known = inspect.signature(getattr(gpuens, name)).parameters
    groups = [entry for entry in found if entry not in known]
    assert groups[-1] == "Running" and len(groups) >= 2
    assert all(found[group].text.endswith(".") and not found[group].kind for group in groups)
    later = list(found)[list(found).index("Running") :]
    assert {"random_state", "device", "verbose"} & set(known) <= set(later)


@pytest.mark.parametrize("name", [name for name in PUBLIC if hasattr(PUBLIC[name], "fit")])
def test_every_parameter_of_methods_has_type_text_and_default(name):
    problems = {}
    for method, function in inspect.getmembers(PUBLIC[name], inspect.isroutine):
        function = inspect.unwrap(getattr(function, "__func__", function))
        is_own = (getattr(function, "__module__", "") or "").startswith("gpuens.")
        if method[0] != "_" and inspect.isfunction(function) and is_own:
            found = [gap for gap in lacks(function) if gap.split()[0] not in ("self", "cls")]
            if found:
                problems[method] = found
    assert problems == {}


@pytest.mark.parametrize("name", [name for name in PUBLIC if hasattr(PUBLIC[name], "plot")])
def test_parameters_of_plots_are_in_the_order_of_the_signature(name):
    known = inspect.signature(PUBLIC[name].plot).parameters
    assert ["self", *entries(PUBLIC[name].plot.__doc__, "Parameters")] == list(known)


def test_gaps_are_found():
    def function(first, second=1, third=2, fourth=3):
        """Return nothing.

        Parameters
        ----------
        first : int
        second : int
            Something.
        third : int, default=4
            Something.
        """

    assert lacks(function) == [
        "first has no type or text", "second has no default", "third: default=4 is 2",
        "fourth has no entry",
    ]  # fmt: skip


def test_shared_text_is_complete():
    for name, thing in PUBLIC.items():
        assert not re.search(r"<[a-z_]+>", (thing.__doc__ or "").replace("<number>", "")), name

    @documented("Parameters\n    ----------\n    <more>x : int", more="")
    def function(x):
        """Return it.

        <shared>
        """

    assert function.__doc__ == "Return it.\n\nParameters\n----------\nx : int"


def test_parameters_that_take_several_types_name_them():
    for name in GROUPED:
        for parameter in inspect.signature(getattr(gpuens, name)).parameters.values():
            if parameter.name in ("loss", "learning_rate", "scoring", "quantile"):
                assert parameter.annotation not in ("Any", Any), (name, parameter)


@pytest.mark.parametrize("name", [*GROUPED, "GridSearchCV", "StackingClassifier"])
def test_pictures_in_notebooks_lead_to_the_page(name):
    cls = getattr(gpuens, name)
    needed = {"GridSearchCV": (gpuens.AdaBoostClassifier(), {}), "StackingClassifier": ([],)}
    page = f"https://gpuens.github.io/gpuens/api/generated/gpuens.{name}.html"
    assert f'href="{page}"' in cls(*needed.get(name, ()))._repr_html_()
