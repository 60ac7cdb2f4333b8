"""The command line: ``python -m gpuens fit``, ``predict`` and ``info``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from .dates import CHOICES
from .errors import CommandError

EXAMPLES = """\
examples:
  python -m gpuens fit houses.csv --target price
  python -m gpuens fit flights.parquet --target delayed --model forest --set n_estimators=500
  python -m gpuens predict houses.gpuens new_houses.csv --output prices.csv
  python -m gpuens info houses.gpuens
"""


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"gpuens: {message}. See {self.prog} --help.\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Return the exit status: 0, 2 after an error in the input (one line on
    standard error says what to do), 130 after Ctrl-C."""
    options = _parser().parse_args(argv)
    from . import saved_models, training  # the estimators take a second to import

    run = {"fit": training.run, "predict": saved_models.run_predict, "info": saved_models.run_info}[
        options.command
    ]
    try:
        run(options)
    except (CommandError, ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        text = " ".join(str(error).split())
        print(f"gpuens: {text or type(error).__name__}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gpuens: interrupted", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m gpuens",
        description="Train tree ensembles on tables in files, and use them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gpuens {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_fit(commands.add_parser("fit", help="train a model, evaluate it, and save it"))
    _add_predict(commands.add_parser("predict", help="apply a saved model to a table"))
    info = commands.add_parser("info", help="describe a saved model")
    info.add_argument("model", metavar="MODEL", help="a file written by fit or by model.save")
    return parser


def _add_fit(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Train a model on a CSV or parquet file, evaluate it on held-out rows, save it, and draw "
        "the importances of its features."
    )
    add = parser.add_argument
    add("data", metavar="DATA", help="a .csv, .tsv, .csv.gz, .tsv.gz or .parquet file with a "
        "header")  # fmt: skip
    add("--target", required=True, metavar="COLUMN", help="the column to predict")
    add("--task", choices=("auto", "classification", "regression"), default="auto",
        help="default: by what the target holds")  # fmt: skip
    add("--model", choices=("boosting", "forest", "extra-trees", "tree", "adaboost"),
        default="boosting", help="default: boosting, with early stopping")  # fmt: skip
    add("--set", action="append", default=[], metavar="NAME=VALUE", dest="parameters",
        help="a parameter of the estimator, such as learning_rate=0.05; repeatable")  # fmt: skip
    add("--drop", action="append", default=[], metavar="COLUMN",
        help="a column to leave out; repeatable")  # fmt: skip
    add("--weights", metavar="COLUMN", help="a column with the weights of the rows")
    add("--test-size", type=float, default=0.2, metavar="SHARE",
        help="share of the rows to evaluate on; 0 trains on all (default: 0.2)")  # fmt: skip
    add("--seed", type=int, default=0, help="of the split and of the model (default: 0)")
    add("--device", default="auto", help='"auto", "cpu" or "cuda" (default: auto)')
    add("--output", metavar="FILE", help="the model's file (default: DATA with .gpuens)")
    _add_reading(parser)


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.description = "Apply a saved model to every row of a table."
    add = parser.add_argument
    add("model", metavar="MODEL", help="a file written by fit or by model.save")
    add("data", metavar="DATA", help="a .csv, .tsv or .parquet file with the model's features")
    add("--output", metavar="FILE", help="a .csv, .tsv or .parquet file (default: DATA with "
        "-predictions before its extension)")  # fmt: skip
    add("--probabilities", action="store_true", help="add a column for each class")
    _add_reading(parser)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "reading", "How a text file is read. By default the file decides; what was understood is "
        "printed, and predict reads columns as fit did."
    )  # fmt: skip
    add = group.add_argument
    add("--separator", metavar="CHARACTER", help='between cells, such as ";" or tab')
    add("--decimal", choices=(".", ","), help="the decimal mark of numbers")
    add("--encoding", help="such as utf-8, latin-1 or utf-16")
    add("--dates", choices=CHOICES, help="the order of dates such as 03/04/2025; none: as text")
    add("--missing", action="append", metavar="WORD", help="a word that stands for a missing "
        "value, in all columns, besides the empty cell; repeatable (default: NA, null, ? and "
        "others among numbers and dates)")  # fmt: skip
