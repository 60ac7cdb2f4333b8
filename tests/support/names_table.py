"""The table of the guide that lists parameters of other libraries: ``python -m
tests.support.names_table`` prints it."""

from __future__ import annotations

from gpuens.other_names import EQUIVALENTS, VALUES

LIBRARIES = {"X": "XGBoost", "L": "LightGBM", "C": "CatBoost", "S": "scikit-learn"}


def parameters() -> str:
    lines = ["| elsewhere | here | | libraries |", "| --- | --- | --- | --- |"]
    for row in EQUIVALENTS:
        names = ", ".join(f"`{name}`" for name in row.names.split())
        here = " or ".join(f"`{name}`" for name in row.here.split()) or "–"
        of = ", ".join(LIBRARIES[letter] for letter in row.libraries)
        lines.append(f"| {names} | {here} | {row.note} | {of} |")
    return "\n".join(lines)


def values() -> str:
    lines = ["| parameter | elsewhere | here |", "| --- | --- | --- |"]
    for parameter, known in VALUES.items():
        for here in dict.fromkeys(known.values()):
            names = ", ".join(f"`{name}`" for name, value in known.items() if value == here)
            lines.append(f"| `{parameter}` | {names} | `{here}` |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(parameters(), values(), sep="\n\n")
