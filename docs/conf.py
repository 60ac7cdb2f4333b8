"""How Sphinx builds the documentation site: ``make docs``."""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib
from docutils import nodes
from sphinx.addnodes import pending_xref

import gpuens

matplotlib.use("agg")
os.environ.setdefault("PYTHONHASHSEED", "0")
warnings.filterwarnings("ignore", category=DeprecationWarning, module="sphinx")

project = "gpuens"
author = "the gpuens developers"
copyright = "the gpuens developers"
version = release = gpuens.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples", "gallery/**/*.ipynb"]
templates_path = ["_templates"]

# Every cross-reference must resolve. Nothing is looked up on the network, so names of other
# libraries cannot: only these may stay plain text.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|np|sklearn|matplotlib|pandas|polars|cupy|torch|scipy|skops|threading)\..*"),
]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "groupwise"
autosummary_generate = True
autosummary_imported_members = False
maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

SUBMODULES = (
    "bias_variance",
    "callbacks",
    "custom_metrics",
    "dask",
    "datasets",
    "diversity",
    "inspection",
    "losses",
    "plotting",
    "ranking_metrics",
    "survival_metrics",
)

sphinx_gallery_conf = {
    "examples_dirs": ["examples"],
    "gallery_dirs": ["gallery"],
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("gpuens",),
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "capture_repr": (),
    "matplotlib_animations": False,
    "default_thumb_file": None,
}

html_theme = "pydata_sphinx_theme"
html_title = f"gpuens {version}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_js_files = ["names.js"]
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "tango",
}
html_sidebars = {"index": [], "quick_start": [], "changelog": []}


def public_names() -> dict[str, str]:
    """Return the full name of every public object, by each name that a text may call it by."""
    names = {name: f"gpuens.{name}" for name in gpuens.__all__ if name != "__version__"}
    for submodule in SUBMODULES:
        module = import_module(f"gpuens.{submodule}")
        own = [name for name, value in vars(module).items() if is_own_class(module, value)]
        for name in getattr(module, "__all__", own):
            if name[0].isupper() or "_" in name:  # "exp" or "entropy" may mean something else
                names.setdefault(name, f"gpuens.{submodule}.{name}")
            names[f"{submodule}.{name}"] = f"gpuens.{submodule}.{name}"
    modules = {f"gpuens.{name}": f"gpuens.{name}" for name in SUBMODULES}
    return names | modules | {full: full for full in names.values()}


def is_own_class(module: Any, value: Any) -> bool:
    """Return whether a value is a class that is defined in a module."""
    return isinstance(value, type) and value.__module__ == module.__name__


def link_names(app: Any, document: nodes.document) -> None:
    """Make a link of every literal text that is the name of a public object."""
    here = app.env.docname.rpartition("/")[2]
    for literal in list(document.findall(nodes.literal)):
        full = PUBLIC.get(literal.astext().removesuffix("()"))
        outer = literal.parent
        if full is None or here == full or isinstance(outer, nodes.reference | pending_xref):
            continue
        link = pending_xref(
            "", refdomain="py", reftype="obj", reftarget=full, refdoc=app.env.docname,
            refexplicit=True, refwarn=True,
        )  # fmt: skip
        outer.replace(literal, link)
        link += literal


def skip_inherited(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool:
    """Leave out methods that scikit-learn or Python itself defines and documents."""
    member = getattr(member, "fget", member)  # of a property
    module = getattr(member, "__module__", None) or ""
    return skip or module.split(".")[0] in ("sklearn", "builtins", "collections", "enum")


PUBLIC = public_names()


def setup(app: Any) -> None:
    """Register what this file adds to Sphinx."""
    app.connect("doctree-read", link_names)
    app.connect("autodoc-skip-member", skip_inherited)
