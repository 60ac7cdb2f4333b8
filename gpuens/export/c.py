"""Models as C: one file of standard C99 without dependencies, raw scores bit for bit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .additive import Additive, described, write_all

LINE = 96


def to_c(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model as a C file and a header beside it.

    ``name_raw(row, scores)`` computes the raw scores of a row of float64, those of this package
    to the last bit unless the compiler is told to reorder sums (``-ffast-math``);
    ``name_predict(row, result)`` what follows from them: predictions, class probabilities, or the
    score of an isolation forest. The name is that of the file. NaN is missing, and a category is
    its number.

    Parameters
    ----------
    model : fitted estimator
        Gradient boosting, a tree, a forest, bagging of trees, AdaBoost for classification, or an
        isolation forest.
    path : str or path
        Must end in ".c". It and the header, whose name ends in ".h", are replaced if they exist.

    Raises
    ------
    sklearn.exceptions.NotFittedError
    ValueError
        ``path`` does not end in ".c"; the model is not a sum of trees.
    OSError
        A file cannot be written.
    """
    path = Path(path)
    if path.suffix != ".c":
        raise ValueError(f"path must end in .c, got {str(path)!r}.")
    additive = described(model)
    name = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
    if not name or name[0].isdigit():
        name = f"model_{name}"
    header = path.with_suffix(".h")
    source = _source(additive, name, header.name)
    write_all({header: _header(additive, name), path: source})


def _n_results(model: Additive) -> int:
    return model.n_outputs if model.classes is None else len(model.classes)


def _header(model: Additive, name: str) -> str:
    upper = name.upper()
    what = "its prediction"
    if model.classes is not None:
        what = "the probabilities of the classes, ascending by label"
    return f"""/* {model.kind}: a sum of {model.forest.n_trees} trees. */
#ifndef {upper}_H
#define {upper}_H

#define {upper}_N_FEATURES {model.forest.n_features}
#define {upper}_N_SCORES {model.n_outputs}
#define {upper}_N_RESULTS {_n_results(model)}

#ifdef __cplusplus
extern "C" {{
#endif

/* The raw scores of a row; NaN is a missing value, a category is its number. */
void {name}_raw(const double *row, double *scores);

/* Of a row: {what}. */
void {name}_predict(const double *row, double *result);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _source(model: Additive, name: str, header: str) -> str:
    return "\n".join(
        [
            f"/* {model.kind}: a sum of {model.forest.n_trees} trees. See {header}. */",
            "#include <math.h>",
            "#include <stdint.h>",
            "",
            f'#include "{header}"',
            "",
            *_tables(model),
            _raw(model, name),
            _predict(model, name),
        ]
    )


def _tables(model: Additive) -> Iterable[str]:
    """Return the nodes of all trees; ``child`` of a leaf is the place of its values."""
    forest = model.forest
    leaf = forest.feature < 0
    first = np.repeat(forest.offset[:-1], np.diff(forest.offset))
    child = np.where(leaf, (np.cumsum(leaf) - 1) * forest.width, forest.left + first)
    yield _array("int32_t", "root", forest.offset[:-1].tolist())
    yield _array("int32_t", "output", forest.output.tolist())
    yield _array("int32_t", "feature", forest.feature.tolist())
    yield _array("int32_t", "child", child.tolist())
    yield _array("unsigned char", "missing_left", forest.missing_left.tolist())
    yield _array("double", "threshold", map(_literal, np.where(leaf, 0.0, forest.threshold)))
    yield _array("double", "value", map(_literal, forest.value[leaf].ravel()))
    if model.has_categories:
        yield _array("int32_t", "category_begin", forest.category_begin.tolist())
        yield _array("int32_t", "n_categories", forest.n_categories.tolist())
        yield _array("uint32_t", "categories", (f"{word}u" for word in forest.categories.tolist()))


def _array(kind: str, name: str, values: Iterable[Any]) -> str:
    lines, line = [], "   "
    for value in values:
        text = f" {value},"
        if len(line) + len(text) > LINE:
            lines.append(line)
            line = "   "
        line += text
    return f"static const {kind} {name}[] = {{\n" + "\n".join([*lines, line]) + "\n};\n"


def _literal(value: float) -> str:
    """Return a float64 in C's hexadecimal notation, which is exact."""
    value = float(value)
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    return value.hex()


def _raw(model: Additive, name: str) -> str:
    forest = model.forest
    if forest.width == 1:
        add = "        scores[output[tree]] += value[child[node]];\n"
    else:
        add = (
            f"        for (int j = 0; j < {forest.width}; ++j)\n"
            "            scores[output[tree] + j] += value[child[node] + j];\n"
        )
    split = "            const int left = x != x ? missing_left[node] : x <= threshold[node];\n"
    if model.has_categories:
        split = (
            "            int left = x != x ? missing_left[node] : x <= threshold[node];\n"
            "            if (category_begin[node] >= 0)\n"
            "                left = in_set(node, x);\n"
        )
    average = ""
    if model.n_averaged > 1:
        average = (
            f"    for (int k = 0; k < {model.n_outputs}; ++k)\n"
            f"        scores[k] /= {model.n_averaged}.0;\n"
        )
    return (_IN_SET if model.has_categories else "") + (
        f"void {name}_raw(const double *row, double *scores)\n{{\n"
        f"    for (int k = 0; k < {model.n_outputs}; ++k)\n        scores[k] = 0.0;\n"
        f"    for (int tree = 0; tree < {forest.n_trees}; ++tree) {{\n"
        "        int32_t node = root[tree];\n"
        "        while (feature[node] >= 0) {\n"
        "            const double x = row[feature[node]];\n"
        f"{split}"
        "            node = child[node] + !left;\n"
        "        }\n"
        f"{add}"
        f"    }}\n{average}}}\n"
    )


_IN_SET = """/* Any value but 0, 1, ... n - 1 counts as missing. */
static int in_set(int32_t node, double x)
{
    if (!(x >= 0.0 && x < n_categories[feature[node]] && floor(x) == x))
        return missing_left[node];
    const uint32_t category = (uint32_t)x;
    return (categories[category_begin[node] + (int32_t)(category / 32)] >> (category % 32)) & 1u;
}

"""


def _predict(model: Additive, name: str) -> str:
    n, slope = model.n_outputs, _literal(model.slope)
    if model.classes is not None and len(model.classes) == 2 and n == 1:
        body = (
            f"    double score;\n    {name}_raw(row, &score);\n"
            f"    result[1] = 1.0 / (1.0 + exp(-{slope} * score));\n"
            "    result[0] = 1.0 - result[1];\n"
        )
    elif model.link == "softmax":
        body = (
            f"    double largest = -INFINITY, sum = 0.0;\n    {name}_raw(row, result);\n"
            f"    for (int k = 0; k < {n}; ++k) {{\n        result[k] *= {slope};\n"
            "        largest = result[k] > largest ? result[k] : largest;\n    }\n"
            f"    for (int k = 0; k < {n}; ++k)\n"
            "        sum += result[k] = exp(result[k] - largest);\n"
            f"    for (int k = 0; k < {n}; ++k)\n        result[k] /= sum;\n"
        )
    elif model.link == "sorted":
        body = (
            f"    {name}_raw(row, result);\n    for (int end = 1; end < {n}; ++end)\n"
            "        for (int k = end; k > 0 && result[k - 1] > result[k]; --k) {\n"
            "            const double larger = result[k - 1];\n"
            "            result[k - 1] = result[k];\n"
            "            result[k] = larger;\n        }\n"
        )
    else:
        after = {"exp": "exp(result[k])", "isolation": f"-exp2({slope} * result[k])"}.get(
            model.link
        )
        loop = f"    for (int k = 0; k < {n}; ++k)\n        result[k] = {after};\n" if after else ""
        body = f"    {name}_raw(row, result);\n{loop}"
    return f"void {name}_predict(const double *row, double *result)\n{{\n{body}}}\n"
