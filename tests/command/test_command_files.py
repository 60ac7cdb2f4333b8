"""The command line on files as people have them: what is read, what is said, what is refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpuens
from gpuens.command import main, training
from gpuens.command.columns import learn
from gpuens.command.errors import CommandError
from gpuens.command.features import ATTRIBUTE
from gpuens.command.tables import read
from gpuens.command.types import Overrides

pytest.importorskip("pyarrow")
N = 60
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch):
    monkeypatch.setattr(training, "find_spec", lambda name: None)


def learned(folder: Path, text: str | bytes, name: str = "a.csv", **options):
    """The values and notes of the columns of a file."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    overrides = Overrides(**options)
    table = read(str(path), overrides)
    table.require_unique(table.names)
    cells = dict(zip(table.names, table.columns, strict=True))
    readings, notes = learn(cells, overrides, table.separator)
    values = {
        n: r.values.tolist() if hasattr(r.values, "tolist") else r.values.to_pylist()
        for n, r in readings.items()
    }
    return values, "; ".join([*table.notes, *notes]), readings


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def fit_and_predict(folder: Path, train: str, new: str, capsys, *options: object):
    """The predictions for a file by a model of another one, and what was printed."""
    (folder / "train.csv").write_text(train)
    (folder / "new.csv").write_text(new)
    model = folder / "m.gpuens"
    assert run("fit", folder / "train.csv", "--target", "y", "--model", "tree", "--test-size", 0,
               "--output", model, *options) == 0, capsys.readouterr().err  # fmt: skip
    assert run("predict", model, folder / "new.csv") == 0, capsys.readouterr().err
    return pd.read_csv(folder / "new-predictions.csv"), capsys.readouterr().out


@pytest.mark.parametrize("text, said", [
    ("a,b\n1,x,\n2,y,\n", ""), ("a,b,\n1,x,\n2,y,\n", ""),
    ("a,b\n1,x,\n2,y\n", "further separator at their end, which was left out: 1, the first in"),
    ("a,b\n1,x\n2,y\n\n", ""), ("a,b\n1,x\n\n2,y\n", "blank lines among the rows were left out: 1"),
    ("a,b\r\n1,x\r\n\r\n\r\n2,y\r\n", "blank lines among the rows were left out: 2"),
    ("a;b\r\n1;x\r\n2;y\r\n", "separator ';'"), ("a\tb\r1\tx\r2\ty\r", "separator tab"),
    ("a|b\n1|x\n2|y", "separator '|'"), ("a b\n1 x\n2 y\n", "separator blank"),
    ("sep=;\na;b\n1;x\n2;y\n", "separator ';'"),
    ("'a','b'\n'1','x'\n'2','y'\n", "single quotes enclose cells"),
    ('"a", "b"\n1, "x"\n2, "y"\n', ""), ('"a" ,b\n1 ,x \n2 , y\n', ""),
    ("# made, by\n# a tool\na,b\n1,x\n2,y\n# end\n", "before the header: 2"),
    ("#a,b\n1,x\n2,y\n", "line that begins with #"),
    ("a,b\n1,x\na,b\n2,y\n", "repeat the header were left out: 1"),
    ('"a","b"\n"r1",1,"x"\n"r2",2,"y"\n', "first cell of each row was taken for its name"),
    ("a b\n1 1 x\n2 2 y\n", "first cell of each row was taken for its name"),
    ("a,b,a\n1,x,1\n2,y,2\n", "column 3 is a copy"),
])  # fmt: skip
def test_shapes_of_files(text, said, tmp_path):
    values, notes, _ = learned(tmp_path, text)
    assert values == {"a": [1.0, 2.0], "b": ["x", "y"]}
    assert said in notes and bool(said) == bool(notes)


@pytest.mark.parametrize("encode", [
    lambda t: t.encode("utf-8-sig"), lambda t: t.encode("utf-16"), lambda t: t.encode("utf-16-le"),
    lambda t: t.encode("utf-16-be"), lambda t: t.encode("utf-32"), lambda t: t.encode("latin-1"),
    lambda t: t.encode("cp1252"), lambda t: gzip.compress(t.encode()),
    lambda t: bz2.compress(t.encode()), lambda t: lzma.compress(t.encode("latin-1")),
    lambda t: t.replace("ö", "o\u0308").encode(),
])  # fmt: skip
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_encodings(encode, name, tmp_path):
    values, _, _ = learned(tmp_path, encode("größe,Ort\n1,Köln\n2,Graz\n"), name)
    assert values == {"größe": [1.0, 2.0], "Ort": ["Köln", "Graz"]}


@pytest.mark.parametrize("cells, options, values", [
    (["1,5", "2"], {}, [1.5, 2]), (["1.234,5", "2"], {}, [1234.5, 2]),
    (["1,234.5", "2"], {}, [1234.5, 2]), (["1,234,567", "2"], {}, [1234567, 2]),
    (["1.234.567", "2"], {}, [1234567, 2]), (["1 234,5", "\u00a02"], {}, [1234.5, 2]),
    (["1\u202f234.5", "2"], {}, [1234.5, 2]), (["1'234.5", "2"], {}, [1234.5, 2]),
    (["40%", "2.5 %"], {}, [0.4, 0.025]), (["+1e-3", "\u22122"], {}, [0.001, -2]),
    (["1,5E+2", ".5"], {"decimal": ","}, ["1,5E+2", ".5"]),
    (["1,234", "5,678"], {"decimal": ","}, [1.234, 5.678]),
    (["1,234", "5,678"], {"decimal": "."}, [1234, 5678]), (["0,123", "5,678"], {}, [0.123, 5.678]),
    (["1", "NA"], {}, [1, None]), (["1", "?"], {}, [1, None]),
    (["1", "oops"], {"missing": ("oops",)}, [1, None]),
    (["1", "-999.0"], {"missing": ("-999",)}, [1, None]),
    (["1", "NA"], {"missing": ()}, ["1", "NA"]), (["TRUE", "false"], {}, [1, 0]),
    (["True", "NA"], {}, [1, None]), (["9007199254740993", "1"], {}, ["9007199254740993", "1"]),
    (["1", "1 2"], {}, ["1", "1 2"]), (["NA", "None"], {}, [None, None]),
    (["NA", "x"], {}, ["NA", "x"]), (["40%", "0.4"], {}, ["40%", "0.4"]),
    (["2020-02-01", "2020-12-31 12:00"], {}, [18293, 18627.5]),
    (["2020-02-01T00:00:00.0Z", "2020-12-31T12:00:00+02:00"], {}, [18293, 18627 + 10 / 24]),
    (["01.02.2020", "31.12.2020"], {}, [18293, 18627]),
    (["01.02.2020", "02.02.2020"], {}, [18293, 18294]),
    (["1/2/2020", "12/31/2020"], {}, [18263, 18627]),
    (["1/2/2020", "31/12/2020"], {}, [18293, 18627]),
    (["1/2/2020", "2/2/2020"], {"dates": "day-first"}, [18293, 18294]),
    (["1/2/2020", "2/2/2020"], {"dates": "month-first"}, [18263, 18294]),
    (["31-12-69", "01-01-70"], {}, [-1, 0]), (["20200201", "20201231"], {}, [18293, 18627]),
    (["1 Feb 2020", "31-Dec-20"], {}, [18293, 18627]),
    (["Feb 1, 2020", "Thu, December 31st 2020"], {}, [18293, 18627]),
    (["1/2/2020 3:00 PM", "12/31/2020 12:00 AM"], {}, [18263.625, 18627]),
    (["1/1/2020", "2/2/2020"], {"dates": "none"}, ["1/1/2020", "2/2/2020"]),
    (["2020-02-30", "2020-12-31"], {}, ["2020-02-30", "2020-12-31"]),
    (["20-02-01", "99-12-31"], {}, [18293, 10956]),
    (["14/04/19", "25/04/1"], {}, ["14/04/19", "25/04/1"]),
    (["9999-12-31", "0001-01-01"], {}, [2932896, -719162]),
])  # fmt: skip
def test_cells(cells, options, values, tmp_path):
    text = "a;b\n" + "".join(f"{cell};x\n" for cell in cells)
    found = learned(tmp_path, text, **options)[0]["a"]
    wanted = [np.nan if v is None else v for v in values]
    if isinstance(values[0], str):
        assert found == values
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("text, message", [
    ("a;b\n1,234;x\n5,678;y\n", "--decimal , or --decimal ."),
    ("a;b\n1.234;x\n5.678;y\n", "--decimal , or --decimal ."),
    ("a;b\n01/02/2020;x\n03/04/2020;y\n", "--dates day-first or --dates month-first"),
    ("a;b\n01-02-20;x\n03-04-20;y\n", "--dates day-first or --dates month-first or --dates ye"),
    ("a,b\n1,5,x\n2,5,y\n", "2 names in its header, but 3 cells in each row.*--separator"),
    ("a,b\n1,x\n2,y,z\n", "3 cells in line 3, but 2 in others.*quotes"),
    ("a,b;c\n1,2;3\n4,5;6\n", "--separator ','"), ("a,b\n1,x\n2,y,\n3,x,z\n", "3 cells in line 4"),
    ("a,a\n1,x\n2,y\n", "Columns 1 and 2 .* both named 'a'"),
    ('a,b\n1,"x\n2,y\n', "misplaced quote in line"),
    ('a,b\n1,"x" z\n2,y\n', "misplaced quote in line 2"), ('a,"b\n1,x\n', "misplaced quote"),
    ("b,\n1,x,\n2,y,\n", "header of .* ends with a separator.*a name may be missing"),
    ('a\tb\n"r"\t1\t""\n"s"\t2\t""\n', "have a cell more than its header.*Name every column"),
    ("a\n0 73334.99\n1 2.5\n", "one name .* but several values in its rows, such as '0 7333"),
    ("Date\n2540962 True\nNA True\n12 False\n", "one name .* such as '2540962 True'"),
    ("a\n1;2\n3;4\n", "1 names in its header, but 2 cells in each row"),
    (b"a,b\n1,\xc3\xb6\xc3\xa4\n2,\xff\n", "UTF-8, but for 1 bytes, the first in line 3"),
    (b"a,b\n1,\x81\n", "not text in cp1252.*--encoding"),
    (b"a,b\n1,\0\n", "NUL character in line 2"), (b"PK\x03\x04 and more", "Excel workbook"),
    (gzip.compress(b"a,b\n1,2\n")[:-5], "damaged compressed data"),
])  # fmt: skip
def test_what_cannot_be_understood_is_refused(text, message, tmp_path):
    with pytest.raises(CommandError, match=message):
        learned(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        (
            'a,b\n1,"x\\\\"\n2,y\n',
            {"a": [1, 2], "b": ["x\\\\", "y"]},
            "doubled backslashes are kept",
        ),
        (
            'a,b\n1,"x\\"y"\n2,"z\\f"\n',
            {"a": [1, 2], "b": ['x"y', "zf"]},
            "backslashes that escape no mark were left out: 1",
        ),
        (
            "a\nx;\ny\nx\n",
            {"a": ["x;", "y", "x"]},
            "cells of the only column with a separator: 1, such as 'x;'",
        ),
        ("a\nx\n#y\n", {"a": ["x", "#y"]}, "rows that begin with # are kept: 1"),
        ("#a\nx\ny\n", {"x": ["y"]}, "comments before the header: 1"),
        (
            "# a,b\nx,y\nz,w\n",
            {"x": ["z"], "y": ["w"]},
            "has as many cells as the header, which was taken from the next line",
        ),
        ("NA\nx\nNA\n", {"NA": ["x", "NA"]}, "rows that are like the header are kept: 1"),
        (
            '"a",b"\n1,x\n2,y\n',
            {"a": [1, 2], 'b"': ["x", "y"]},
            "the name 'b\"' has a quote that does not enclose it",
        ),
        (
            '"a","e\\f"\n1,x\n2,y\n',
            {"a": [1, 2], "e\\f": ["x", "y"]},
            "name 'e\\\\f' has a backslash",
        ),
        (
            'a,b\n1,x"\n2,y\n',
            {"a": [1, 2], "b": ['x"', "y"]},
            "rows with quotes that enclose no cell: 1, the first in line 2",
        ),
        (
            "a,b\n1,x\n,\n2,y\n",
            {"a": [1, None, 2], "b": ["x", None, "y"]},
            "rows in which all cells are empty: 1",
        ),
        ("a,b\n1,x\n \n2,y\n", {"a": [1, 2], "b": ["x", "y"]}, "lines of blanks were left out: 1"),
        (
            '"a","b"\n"# 1"\n"x","y"\n',
            {"a": ["# 1", "x"], "b": [None, "y"]},
            "rows with fewer cells than the header: 1, the first in line 2",
        ),
        (
            "a,b\n1,'x\ny'\n2,z\n",
            {"a": [1, 2], "b": ["x\ny", "z"]},
            "single quotes enclose cells",
        ),
        (
            "a,b\n1,'x\\'y, z'\n2,'z'\n",
            {"a": [1, 2], "b": ["x'y, z", "z"]},
            "single quotes enclose cells",
        ),
        (
            "# a,b,c,\n1. Mai,NA,5%,\n2. Mai,x,6%,\n",
            {"a": ["1. Mai", "2. Mai"], "b": ["NA", "x"], "c": [0.05, 0.06]},
            "line that begins with #",
        ),
    ],
)
def test_what_a_file_does_not_decide_is_said(text, values, said, tmp_path):
    found, notes, _ = learned(tmp_path, text)
    assert list(found) == list(values) and said in notes
    for name, wanted in values.items():
        if any(isinstance(value, str) for value in wanted):
            assert found[name] == wanted
        else:
            np.testing.assert_array_equal(found[name], np.array(wanted, float))


def test_single_column_named_as_a_missing_cell(tmp_path, capsys):
    """Nothing shows whether the cells repeat the header."""
    assert "like the header are kept: 2" in learned(tmp_path, "NA\n5\nNA\nNA\n")[1]
    with pytest.raises(CommandError, match="header but no rows"):
        learned(tmp_path, "NA,b\n")


def test_dates_that_could_be_others_are_read_as_in_training(tmp_path, capsys):
    days = pd.Series(pd.date_range("2020-01-20", periods=N, freq="D"))
    text = "x,y\n" + rows(days.dt.strftime("%d/%m/%Y"), np.arange(N) + 0.5)
    said = "'01/02/2020' in column 'x' is read as in training: the day first"
    found, out = fit_and_predict(tmp_path, text, "x,z\n01/02/2020,a\n02/02/2020,b\n", capsys)
    expected, other = fit_and_predict(tmp_path, text, "x,z\n2020-02-01,a\n2020-02-02,b\n", capsys)
    assert said in out and said not in other
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("text, values", [
    ("a;b\n1,234;0,5\n5,678;1,5\n", [1.234, 5.678]), ("a;b\n1,234;0.5\n5,678;1.5\n", [1234, 5678]),
    ("a;b\n01/02/2020;31/12/2020\n03/04/2020;01/01/2020\n", [18293, 18355]),
    ("a;b\n01/02/2020;12/31/2020\n03/04/2020;01/01/2020\n", [18263, 18325]),
])  # fmt: skip
def test_other_columns_decide(text, values, tmp_path):
    found, notes, _ = learned(tmp_path, text)
    np.testing.assert_allclose(found["a"], values)
    assert "in column 'a' is read like other columns" in notes


@pytest.mark.parametrize("cells, example", [
    (["1", "2", "x3"], "x3"), (["1,5", "1.5", "2"], "1,5"),
    (["2020-01-01", "2020-01-02", "soon"], "soon"), (["True", "False", "n.d."], "n.d."),
    (["$5", "$6", "$7"], "$5"), (["12. März 2020", "1. Mai 2020"], "12. März 2020"),
    (["20200101", "20200102", "2020"], "2020"), (["x", "y", "1"], ""),
])  # fmt: skip
def test_columns_that_look_like_others(cells, example, tmp_path):
    text = "a;b\n" + "".join(f"{cell};x\n" for cell in cells)
    assert learned(tmp_path, text)[2]["a"].example == example


def rows(cells, y) -> str:
    return "".join(f"{c},{v}\n" for c, v in zip(cells, y, strict=True))


def test_rows_that_end_with_a_separator(tmp_path, capsys):
    """Every column was shifted by one, in silence."""
    X, y = RNG.integers(0, 100, (N, 2)), RNG.permutation(N) + 0.5
    plain = "a,b,y\n" + "".join(f"{p},{q},{t}\n" for (p, q), t in zip(X, y, strict=True))
    all_rows = plain.replace("\n", ",\n").replace("y,", "y", 1)
    first = plain.replace("\n", "\n", 1).replace(f"{y[0]}\n", f"{y[0]},\n", 1)
    expected, _ = fit_and_predict(tmp_path, plain, plain, capsys)
    for odd in (all_rows, first):
        found, _ = fit_and_predict(tmp_path, odd, odd, capsys)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("word", ["NA", "None", "NULL", "nan", "null"])
def test_words_for_missing_values_are_classes(word, tmp_path, capsys):
    y = np.where(np.arange(N) % 3 == 0, word, np.where(np.arange(N) % 3 == 1, "yes", "no"))
    text = "x,y\n" + rows(np.arange(N) % 3, y)
    found, out = fit_and_predict(tmp_path, text, text, capsys)
    model = gpuens.load(tmp_path / "m.gpuens")
    assert list(model.classes_) == sorted([word, "no", "yes"])
    assert f"{word!r} in 20 rows of the target is a class (--missing {word}" in out
    _, out = fit_and_predict(tmp_path, text, text, capsys, "--missing", word)
    assert list(gpuens.load(tmp_path / "m.gpuens").classes_) == ["no", "yes"]
    assert "rows without a target were left out: 20." in out


@pytest.mark.parametrize("labels, classes", [
    (["0", "1", ""], [0, 1]), (["0.0", "1.0", ""], [0, 1]), (["0", "1", "NA"], [0, 1]),
    (["True", "False", ""], [False, True]), (["TRUE", "FALSE", "NA"], [False, True]),
    (["007", "1", ""], ["007", "1"]),
])  # fmt: skip
def test_targets_with_an_empty_cell_stay_classes(labels, classes, tmp_path, capsys):
    y = [*np.resize(labels[:2], N - 1), labels[2]]
    text = "x,y\n" + rows(np.arange(N) % 2, y)
    fit_and_predict(tmp_path, text, text, capsys)
    assert gpuens.load(tmp_path / "m.gpuens").classes_.tolist() == classes


def test_duplicated_target_does_not_leak(tmp_path, capsys):
    text = "x,y,y\n" + "".join(f"{k % 7},{k}.5,{k}.5\n" for k in range(N))
    _, out = fit_and_predict(tmp_path, text, text, capsys)
    assert gpuens.load(tmp_path / "m.gpuens").feature_names_in_.tolist() == ["x"]
    assert "column 3 is a copy of another one named 'y'" in out
    (tmp_path / "train.csv").write_text(text.replace("5.5\n", "6.5\n"))
    assert run("fit", tmp_path / "train.csv", "--target", "y") == 2
    assert "both named 'y'" in capsys.readouterr().err


@pytest.mark.parametrize("train, new, wanted", [
    (["1", "2", "3", "S"], ["1", "2"], ["1", "2"]), (["1", "2", "3", "S"], ["1.0", ""], ["1", ""]),
    (["True", "False"], ["True", ""], ["True", ""]),
    (["True", "False", ""], ["True", "False"], ["True", "False"]),
    (["True", "False"], ["1", "0"], ["True", "False"]),
    (["Köln", "Graz"], ["Ko\u0308ln", " Graz"], ["Köln", "Graz"]),
    (["1,5", "2,5"], ["1.5", "2.5"], ["1,5", "2,5"]),
    (["40%", "50%"], ["40.0 %", "50%"], ["40%", "50%"]),
    (["31.12.2020", "01.02.2020"], ["2020-12-31", "2020-02-01"], ["31.12.2020", "01.02.2020"]),
    (["31/12/2020", "01/02/2020"], ["01/02/2020", "01/02/2020"], ["01/02/2020", "01/02/2020"]),
])  # fmt: skip
def test_new_files_are_read_by_the_types_of_the_model(train, new, wanted, tmp_path, capsys):
    y = RNG.permutation(N) + 0.5
    mark = "," if "," in train[0] else "."
    lines = zip(np.resize(train, N), y, strict=True)
    text = "x;y\n" + "".join(f"{c};{str(v).replace('.', mark)}\n" for c, v in lines)
    found, expected = (
        fit_and_predict(tmp_path, text, "x;z\n" + "".join(f"{c};q\n" for c in cells), capsys)[0]
        for cells in (new, wanted)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["text", "number", "date", "boolean"])
def test_parquet_files_are_read_by_the_types_of_the_model(kind, tmp_path, capsys):
    days = pd.date_range("2020-01-20", periods=N, freq="D")
    values = {
        "text": ([str(k % 4) for k in range(N)], [k % 4 for k in range(N)]),
        "number": ([f"{k / 4}" for k in range(N)], [k / 4 for k in range(N)]),
        "date": (list(days.strftime("%d.%m.%Y")), list(days)),
        "boolean": ([str(k % 2 == 0) for k in range(N)], [k % 2 == 0 for k in range(N)]),
    }[kind]
    y = [k % 4 + k / 7 for k in range(N)]
    text = "x,y\n" + rows([*values[0][:-1], "S" if kind == "text" else values[0][-1]], y)
    expected, _ = fit_and_predict(tmp_path, text, "x,z\n" + rows(values[0], y), capsys)
    for frame in (pd.DataFrame({"x": values[1]}), pd.DataFrame({"x": values[0]})):
        frame.to_parquet(tmp_path / "new.parquet")
        assert run("predict", tmp_path / "m.gpuens", tmp_path / "new.parquet") == 0
        found = pd.read_parquet(tmp_path / "new-predictions.parquet")
        np.testing.assert_allclose(found["prediction"], expected["prediction"], rtol=1e-12)


@pytest.mark.parametrize("train, new, message", [
    (["1", "2"], ["x", "2"], "'x' holds text such as 'x', but the model was trained on numbers"),
    (["40%", "50%"], ["0.4", "0.5"], "without a percent sign"),
    (["1", "2"], ["40%", "50%"], "with a percent sign"),
    (["2020-01-01", "2020-01-02"], ["1", "2"], "holds numbers, but .* on dates"),
    (["True", "False"], ["2", "3"], "holds numbers, but .* on truth values"),
])  # fmt: skip
def test_other_types_than_in_training_are_refused(train, new, message, tmp_path, capsys):
    text = "x,y\n" + rows(np.resize(train, N), RNG.permutation(N) + 0.5)
    fit_and_predict(tmp_path, text, text, capsys)
    (tmp_path / "new.csv").write_text("x,z\n" + rows(new, new))
    assert run("predict", tmp_path / "m.gpuens", tmp_path / "new.csv") == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize("train, status", [
    (["1.234", "5.5"], 2), (["1,234", "5.5"], 0), (["1,234.5", "5"], 0),
])  # fmt: skip
def test_training_decides_only_on_marks_that_it_had(train, status, tmp_path, capsys):
    """The number 169,773 was read as thousands because training had decimal points."""
    y = RNG.permutation(N) + 0.5
    text = "x;y\n" + "".join(f"{c};{v}\n" for c, v in zip(np.resize(train, N), y, strict=True))
    fit_and_predict(tmp_path, text, text, capsys)
    (tmp_path / "new.csv").write_text("x;z\n169,773;a\n670,330;b\n")
    assert run("predict", tmp_path / "m.gpuens", tmp_path / "new.csv") == status
    assert ("--decimal , or --decimal ." in capsys.readouterr().err) == (status == 2)


def test_unknown_categories_are_reported(tmp_path, capsys):
    text = "x,y\n" + rows(np.resize(["a", "b"], N), np.resize([1.5, 2.5], N))
    _, out = fit_and_predict(tmp_path, text, "x,z\na,1\nc,2\nc,3\n", capsys)
    assert "training did not have, such as 'c', in 2 rows; they count as missing" in out


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d %b %Y"])
def test_dates_of_any_format_make_the_same_model(form, tmp_path, capsys):
    days = pd.Series(pd.date_range("2020-01-20", periods=200, freq="D"))
    y = np.sin(np.arange(200) / 20) + 0.01
    prints = set()
    for shape in ("%Y-%m-%d", form):
        text = "x,y\n" + rows(days.dt.strftime(shape), y)
        fit_and_predict(tmp_path, text, text, capsys)
        model = gpuens.load(tmp_path / "m.gpuens")
        prints.add(model.forest_.fingerprint())
    assert len(prints) == 1
    names = [f"x ({part})" for part in ("days", "year", "month", "weekday")]
    assert model.feature_names_in_.tolist() == names
    assert run("info", tmp_path / "m.gpuens") == 0
    out = capsys.readouterr().out
    assert ", ".join(names) in out and "in 'x'" in out


def test_models_without_columns_are_used_as_before(tmp_path, capsys):
    """Those of Python, and those that the command line saved before it wrote the columns."""
    frame = pd.DataFrame({
        "n": np.arange(N) * 0.5, "c": pd.Categorical(np.resize([" a", "b"], N)),
        "d": (pd.date_range("2020-01-01", periods=N) - pd.Timestamp(0)) / pd.Timedelta(days=1),
        "t": np.arange(N) % 2 == 0,
    })  # fmt: skip
    model = gpuens.GradientBoostingRegressor(n_estimators=5, categorical_features="from_dtype")
    model.fit(frame, np.arange(N) + 3.0 * (np.arange(N) % 2)).save(tmp_path / "m.gpuens")
    days = pd.Series(pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d"))
    frame.assign(d=days).to_csv(tmp_path / "new.csv", index=False)
    assert run("predict", tmp_path / "m.gpuens", tmp_path / "new.csv") == 0
    found = pd.read_csv(tmp_path / "new-predictions.csv")["prediction"]
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-12)


@pytest.mark.parametrize(
    "damage",
    [{}, {"columns": 1}, {"columns": [["x", "colour"]]},
     {"columns": [["x", "number", ";", False, "", False]]}],
)  # fmt: skip
def test_damaged_columns_of_a_model_are_refused(damage, tmp_path, capsys):
    text = "x,y\n" + rows(np.arange(N), np.arange(N) + 0.5)
    fit_and_predict(tmp_path, text, text, capsys)
    model = gpuens.load(tmp_path / "m.gpuens")
    setattr(model, ATTRIBUTE, {"separator": ",", "missing": None} | damage)
    model.save(tmp_path / "m.gpuens")
    assert run("predict", tmp_path / "m.gpuens", tmp_path / "new.csv") == 2
    assert "description of its columns is damaged" in capsys.readouterr().err


def test_model_that_was_fitted_again_forgets_the_columns(tmp_path, capsys):
    text = "x,y\n" + rows(np.arange(N), np.arange(N) + 0.5)
    fit_and_predict(tmp_path, text, text, capsys)
    model = gpuens.load(tmp_path / "m.gpuens")
    frame = pd.DataFrame({"z": np.arange(N)})
    model.fit(frame, np.arange(N)).save(tmp_path / "m.gpuens")
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert run("predict", tmp_path / "m.gpuens", tmp_path / "new.csv") == 0
    found = pd.read_csv(tmp_path / "new-predictions.csv")["prediction"]
    np.testing.assert_array_equal(found, model.predict(frame))


def test_options_overrule(tmp_path, capsys):
    lines = "".join(f"{k:03d}|0{1 + k % 9}/0{1 + k % 7}/2020|{1 + k},{100 + k}\n" for k in range(N))
    (tmp_path / "a.csv").write_bytes(("k|d|y\n" + lines).encode("utf-16-le"))
    options = ["--target", "y", "--separator", "|", "--decimal", ",", "--dates", "day-first"]
    assert (
        run("fit", tmp_path / "a.csv", *options, "--encoding", "utf-16-le", "--missing", "007") == 0
    )
    out = capsys.readouterr().out
    assert "dates dd/mm/yyyy in 'd'" in out and "decimal commas in 'y'" in out
    assert run("fit", tmp_path / "a.csv", *options, "--encoding", "none") == 2
    assert "--encoding 'none' is not an encoding" in capsys.readouterr().err
    assert run("fit", tmp_path / "a.csv", "--target", "y", "--separator", "::") == 2
    assert "--separator must be one character" in capsys.readouterr().err


def test_names_of_importances_are_whole(tmp_path, capsys):
    name = "a name that is much longer than twenty-four characters"
    text = f"{name},y\n" + rows(np.arange(N), np.arange(N) + 0.5)
    _, out = fit_and_predict(tmp_path, text, text, capsys)
    assert re.search(rf"^  {name} +1\.000", out, re.MULTILINE)


def test_a_row_of_numbered_rows_that_does_not_fit(tmp_path):
    """Numbers of the rows, without a name, and blanks were taken for the text of one column."""
    rows = [f"{k} {word}" for k, word in enumerate(["Bonn", "'Kiel'", ""] * 7)]
    text = "# comment\n größe\n" + "\n".join(rows)
    values, notes, _ = learned(tmp_path, text)
    assert "separator blank" in notes and values["größe"][0] == "Bonn"
    rows[6:8] = [rows[6] + rows[7]]
    joined = text.split("0 Bonn")[0] + "\n".join(rows)
    with pytest.raises(CommandError, match="one name in its header, but blank in its rows"):
        learned(tmp_path, joined)
    towns = " town\n" + "\n".join([f"{k} Bonn" for k in (3, 9, 1, 4)] * 5 + ["5 Kiel 7"])
    assert list(learned(tmp_path, towns)[0]) == ["town"]
