"""Binned tables on disk: a safetensors file whose codes are written batch by batch, and mapped.

Its metadata describe the features as JSON. Codes follow small arrays, row by row and then column
by column, as the two readers of ``Codes`` walk them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ..files import replacing
from ..inputs.binning import Binner
from ..inputs.categories import Categories
from ..inputs.category_bins import CategoryBinner
from ..inputs.few_values import MOST_VALUES, NUMBERED, FewValues
from ..kernels.runtime.arrays import LINE_BYTES
from ..kernels.runtime.dtypes import MAX_BINS, MISSING, Codes
from ..kernels.runtime.system import write_at
from .extremes import Extremes
from .parts import Binning, Content, Features, stride_of

FORMAT = 3
"""Since 2, targets of few values are numbers of one byte; since 3, rows of weight zero are not
among the values in bins."""
CELLS_AT_ONCE = 1 << 22
"""Cells whose bins are checked together."""
DOCUMENT = "gpuens table"
"""Entry of the file's metadata that describes the table."""
_NAMES = {"u1": "U8", "b1": "BOOL", "f8": "F64", "f4": "F32"} | {
    f"{kind}{size}": f"{kind.upper()}{8 * size}" for kind in "iu" for size in (1, 2, 4, 8)
}
"""The names that safetensors has for dtypes."""
_DTYPES = {name: np.dtype(f"<{code}") for code, name in _NAMES.items()}
_LENGTH_BYTES = 8

Opened = tuple[Codes, Binner, Features, Binning, Content, Extremes | None]


def require_free(path: Path) -> None:
    """Raise a FileExistsError if there is a file, a FileNotFoundError without the folder."""
    if path.exists():
        raise FileExistsError(
            f"path={str(path)!r} exists. Open it with BinnedTable.open, delete it, or pass the "
            "name of a new file."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder of path={str(path)!r} does not exist: make it first.")


class CodesFile:
    """The file of a table while its codes are written; it appears under its name at the end."""

    def __init__(
        self,
        content: Content,
        shape: tuple[int, int],
        binner: Binner,
        features: Features,
        binning: Binning,
    ) -> None:
        assert content.path is not None
        n_rows, n_features = shape
        self.path = content.path
        self.stride = stride_of(n_features)
        document, self.arrays = _described(content, binner, features, binning)
        self.arrays |= Extremes.empty(n_features)._asdict()
        small = {name: (a.dtype.str[1:], a.shape) for name, a in self.arrays.items()}
        rows, columns = ("u1", (n_rows, self.stride)), ("u1", (n_features, n_rows))
        sections = {"rows": rows, **small, "columns": columns}
        self.header, self.offsets = _header(sections, document)
        self.n_rows = n_rows

    def __enter__(self) -> CodesFile:
        with ExitStack() as stack:
            unfinished = stack.enter_context(replacing(self.path))
            self.file = stack.enter_context(open(unfinished, "r+b", buffering=0))
            write_at(self.file.fileno(), self.header, 0)
            for name, array in self.arrays.items():
                write_at(self.file.fileno(), _bytes(array), self.offsets[name])
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> Any:
        if error[0] is None:
            require_free(self.path)
        return self._stack.__exit__(*error)

    def store(self, rows: slice, part: Codes) -> None:
        """Write the codes of some rows."""
        descriptor = self.file.fileno()
        start = self.offsets["rows"] + rows.start * self.stride
        write_at(descriptor, _bytes(part.rows), start)
        for f, column in enumerate(part.columns):
            start = self.offsets["columns"] + f * self.n_rows + rows.start
            write_at(descriptor, _bytes(column), start)

    def store_extremes(self, extremes: Extremes) -> None:
        """Write the values in the bins."""
        for name, array in extremes._asdict().items():
            write_at(self.file.fileno(), _bytes(array), self.offsets[name])


def read_table_file(path: Path, is_new: bool = False) -> Opened:
    """Return the parts of a table, its codes mapped, and checked unless ``CodesFile`` has just
    written them. Raises a FileNotFoundError, or a ValueError if it is damaged or not a table."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(DOCUMENT)
            if text is None:
                raise ValueError("it does not hold a table of gpuens")
            arrays = {
                name: file.get_tensor(name)
                for name in file.keys()
                if name not in ("rows", "columns")
            }
        document = json.loads(text)
        if document["format"] > FORMAT:
            raise ValueError(
                f"it has format {document['format']}, this version reads up to {FORMAT}: update "
                "gpuens"
            )
        return _opened(path, document, arrays, is_new)
    except FileNotFoundError:
        raise
    except (
        SafetensorError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError,
    ) as error:  # fmt: skip
        raise ValueError(
            f"{path} cannot be opened as a table: {error}. Make it again with "
            "BinnedTable.from_batches."
        ) from error


def _opened(
    path: Path, document: dict[str, Any], arrays: dict[str, np.ndarray], is_new: bool
) -> Opened:
    features = _features(document)
    codes = Codes(*_mapped(path, ("rows", "columns")))
    n_rows, n_features = codes.columns.shape[1], features.n
    _require(
        codes.rows.shape == (n_rows, stride_of(n_features)),
        "its rows have another shape than its columns",
    )
    _require(codes.columns.shape[0] == n_features, "codes and names of features do not match")
    binner = _binner(document, arrays, features)
    if not is_new:
        _require_codes(codes, binner.n_bins)
    y: np.ndarray | FewValues | None = arrays.get("y")
    if y is not None and document["classes"] is not None:
        y = _target(arrays["y"], document["classes"])
    weight = arrays.get("sample_weight")
    for values in (y, weight):
        _require(values is None or len(values) == n_rows, "y or weights have another length")
    binning = Binning(*(int(document[name]) for name in ("max_bins", "seed", "n_groups")))
    _require(2 <= binning.max_bins <= MAX_BINS, "max_bins is out of range")
    extremes = _extremes(arrays, binner)
    if document["format"] < 3 and weight is not None and not (weight > 0).all():
        extremes = None
    return codes, binner, features, binning, Content(y, weight, path), extremes


def _target(numbers: np.ndarray, classes: Any) -> np.ndarray | FewValues:
    """Return a target that the file holds by numbers: of texts in a list, or of few values."""
    if isinstance(classes, list):
        names = np.array(classes, np.str_)
        _require(names.ndim == 1 and bool((numbers >= 0).all()), "its classes")
        found: np.ndarray = names[numbers]
        return found
    dtype = np.dtype(classes["dtype"])
    values = np.array(classes["values"], dtype)
    _require(dtype.kind in NUMBERED, "its classes")
    _require(numbers.dtype == np.uint8 and numbers.ndim == 1, "its classes")
    _require(np.array_equal(values, np.unique(values)), "its classes")
    _require(int(numbers.max()) < values.size <= MOST_VALUES, "its classes")
    return FewValues(values, numbers)


def _extremes(arrays: dict[str, np.ndarray], binner: Binner) -> Extremes | None:
    """Return the values in the bins; None of files that an older version wrote."""
    if "lowest" not in arrays:
        return None
    found = Extremes(*(arrays[name] for name in Extremes._fields))
    n_features = len(binner.thresholds)
    for array, empty in zip(found, Extremes.empty(n_features), strict=True):
        _require(array.shape == empty.shape and array.dtype == empty.dtype, "values of bins")
    end = binner.table
    inside = (found.lowest <= found.highest) & (found.highest <= end)
    inside[:, 1:] &= end[:, :-1] < found.lowest[:, 1:]
    is_empty = np.isposinf(found.lowest) & np.isneginf(found.highest)
    _require(bool((inside | is_empty).all()), "values of bins")
    return found


def _binner(document: dict[str, Any], arrays: dict[str, np.ndarray], features: Features) -> Binner:
    cuts, ends = arrays["thresholds"], arrays["n_thresholds"].cumsum()
    _require(
        len(ends) == features.n and cuts.dtype == np.float64 and int(ends[-1]) == cuts.size,
        "thresholds and features do not match",
    )
    thresholds = tuple(np.split(cuts, ends[:-1]))
    for of_feature in thresholds:
        _require(
            of_feature.size < MAX_BINS and bool((np.diff(of_feature) > 0).all()),
            "thresholds do not ascend",
        )
    if features.categories is None:
        return Binner(thresholds)
    bins: list[np.ndarray | None] = []
    for f, n in enumerate(features.n_categories.tolist()):
        of_categories = arrays[f"bins.{f}"] if n else None
        if of_categories is not None:
            is_right = of_categories.shape == (n,) and of_categories.dtype == np.uint8
            _require(is_right and int(of_categories.max()) < MAX_BINS, "bins of categories")
        bins.append(of_categories)
    return CategoryBinner(thresholds, tuple(bins))


def _require_codes(codes: Codes, n_bins: np.ndarray) -> None:
    """Refuse bins that do not exist, and copies that differ: trees would divide other rows than
    those whose gains they have compared."""
    n_features, n_rows = codes.columns.shape
    most = n_bins.astype(np.uint8)[:, None]
    step = max(1, CELLS_AT_ONCE // n_features)
    for begin in range(0, n_rows, step):
        rows, columns = codes.rows[begin : begin + step], codes.columns[:, begin : begin + step]
        exist = ((columns < most) | (columns == MISSING)).all()
        same = (rows[:, :n_features] == columns.T).all() and not rows[:, n_features:].any()
        _require(bool(exist and same), "its bins")


def _described(
    content: Content, binner: Binner, features: Features, binning: Binning
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the document and the small arrays of a table."""
    arrays = {
        "thresholds": np.concatenate([np.empty(0), *binner.thresholds]),
        "n_thresholds": np.array([len(cuts) for cuts in binner.thresholds], np.int64),
    }
    if isinstance(binner, CategoryBinner):
        arrays |= {f"bins.{f}": bins for f, bins in enumerate(binner.bins) if bins is not None}
    classes: Any = None
    if isinstance(content.y, FewValues):
        arrays["y"], classes = content.y.numbers, _values(content.y.values)
    elif content.y is not None:
        arrays["y"] = content.y
        if content.y.dtype.kind == "U":
            names, arrays["y"] = np.unique(content.y, return_inverse=True)
            classes = names.tolist()
    if content.weight is not None:
        arrays["sample_weight"] = content.weight
    categories = features.categories
    document = {
        "format": FORMAT,
        "n_features": features.n,
        "names": None if features.names is None else features.names.tolist(),
        "is_categorical": None
        if features.is_categorical is None
        else features.is_categorical.tolist(),
        "categories": None if categories is None else [_values(v) for v in categories.values],
        "classes": classes,
        "max_bins": binning.max_bins,
        "seed": binning.seed,
        "n_groups": binning.n_groups,
    }
    return document, {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _values(values: np.ndarray | None) -> Any:
    """Return the categories of a feature as JSON holds them."""
    return None if values is None else {"dtype": values.dtype.str, "values": values.tolist()}


def _features(document: dict[str, Any]) -> Features:
    n, names, flags = document["n_features"], document["names"], document["is_categorical"]
    _require(type(n) is int and n > 0, "its number of features")
    for listed, kind in ((names, str), (flags, bool), (document["categories"], object)):
        is_list = isinstance(listed, list) and all(isinstance(item, kind) for item in listed)
        fits = listed is None or (is_list and len(listed) == n)
        _require(fits, "names and categories do not match")
    categories = None
    if document["categories"] is not None:
        categories = Categories(tuple(map(_categories, document["categories"])))
    return Features(
        n,
        None if names is None else np.array(names, object),
        None if flags is None else np.array(flags, np.bool_),
        categories,
    )


def _categories(stored: Any) -> np.ndarray | None:
    if stored is None:
        return None
    dtype = np.dtype(stored["dtype"])
    _require(dtype.kind in "biufO", "dtypes of categories")
    values = np.empty(len(stored["values"]), dtype)
    values[:] = stored["values"]
    is_text = all(isinstance(value, str) for value in stored["values"])
    _require(dtype.kind != "O" or is_text, "categories")
    values.flags.writeable = False
    return values


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"it is damaged ({what})")


def _header(
    sections: dict[str, tuple[str, tuple[int, ...]]], document: dict[str, Any]
) -> tuple[bytes, dict[str, int]]:
    """Return the first bytes of a safetensors file, and where each array begins in it: the first
    one on a cache line (see ``empty_on_line``)."""
    entries: dict[str, Any] = {"__metadata__": {DOCUMENT: json.dumps(document)}}
    end, begins = 0, {}
    for name, (code, shape) in sections.items():
        begins[name] = end
        end += int(np.prod(shape, dtype=np.int64)) * np.dtype(code).itemsize
        entries[name] = {
            "dtype": _NAMES[code], "shape": list(shape), "data_offsets": [begins[name], end],
        }  # fmt: skip
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(_LENGTH_BYTES + len(text)) % LINE_BYTES)
    start = _LENGTH_BYTES + len(text)
    header = len(text).to_bytes(_LENGTH_BYTES, "little") + text
    return header, {name: start + begin for name, begin in begins.items()}


class MappedArray(np.memmap):
    """An array that is mapped from a file, which it knows again when it is opened another time."""

    identity: tuple[int, int] | None = None

    @classmethod
    def of(cls, file: Any, offset: int, shape: tuple[int, ...]) -> MappedArray:
        """Map bytes of an open file. Nothing that is written to them reaches the file; kernels are
        compiled for arrays that could be written to."""
        found = cls(file, np.uint8, "c", offset, shape)
        found.identity = _identity(file.fileno())
        return found

    def is_of(self, descriptor: int) -> bool:
        """Return whether an open file is the one that is mapped."""
        return self.identity == _identity(descriptor)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _mapped(path: Path, names: tuple[str, ...]) -> Iterator[np.ndarray]:
    """Map arrays of a safetensors file that has been checked."""
    with open(os.fspath(path), "rb") as file:  # arrays of which know the file by a text
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        entries = json.loads(file.read(length))
        for name in names:
            entry = entries[name]
            offset = _LENGTH_BYTES + length + entry["data_offsets"][0]
            dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
            _require(dtype == np.uint8 and len(shape) == 2, name)
            yield np.asarray(MappedArray.of(file, offset, shape))


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
