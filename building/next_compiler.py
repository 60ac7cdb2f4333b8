"""Tries numba-cuda-mlir, the successor of numba-cuda, on every kernel of the catalogue.

``python -m building next_compiler`` makes an environment of its own with it, compiles each kernel
for one architecture there, and prints which fail, by the line of the error that says why. What
follows from that is in ``docs/internals/next_compiler.md``.

Sources of kernels stay as they are: here is every place where a name of the successor takes that of
one of numba-cuda, and what it lacks is written in terms of what it has.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import venv
from collections import defaultdict
from pathlib import Path
from types import CellType, FunctionType, SimpleNamespace
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache" / "next-compiler"
PACKAGES = ("numba-cuda-mlir[cu13]", "cuda-toolkit[nvjitlink,nvrtc,nvvm]==13.*")
TELLING = re.compile(
    "no MLIR lowering|[Nn]ot ?[Ii]mplemented|not supported|Unknown attribute|cannot|No implementa"
)
"""The pattern of a line that names something missing."""
LONGEST = 110
"""Characters of an error that are told apart."""


def run() -> NoReturn:
    """Make the environment, where there is none, and compile all kernels in it."""
    python = FOLDER / "bin" / "python"
    if not python.exists():
        venv.create(FOLDER, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", str(ROOT), *PACKAGES]
        subprocess.run(install, check=True)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    sys.exit(subprocess.run([python, "-m", __name__], env=environment).returncode)


def main() -> None:
    """Compile kernels, each for the first types in the catalogue, and print what fails."""
    parser = argparse.ArgumentParser(prog="python -m building.next_compiler", description=__doc__)
    parser.add_argument("names", nargs="*", help="names in the catalogue")
    parser.add_argument("--all", action="store_true", help="compile each kernel for all types")
    parser.add_argument("--architecture", default="9.0", help="compute capability")
    chosen = parser.parse_args()
    major, minor = map(int, chosen.architecture.split("."))
    take_place((major, minor))
    failed: dict[str, list[str]] = defaultdict(list)
    n, started = 0, time.time()
    for entry in entries(chosen.names, chosen.all):
        n += 1
        try:
            compile_entry(entry, (major, minor))
        except Exception as error:  # of any of its stages
            failed[reason(error)].append(entry.name)
            print(f"{entry.name}: {reason(error)}", flush=True, file=sys.stderr)
    n_failed = sum(map(len, failed.values()))
    print(f"{n - n_failed} of {n} kernels compile, {time.time() - started:.0f} s.\n")
    print("| kernels | why not | which |\n|---|---|---|")
    for why, names in sorted(failed.items(), key=lambda item: -len(item[1])):
        print(f"| {len(names)} | {why} | {', '.join(names)} |")


def entries(names: list[str], of_all_types: bool) -> list[Any]:
    """Return the entries of the catalogue with some names, by default one for each kernel."""
    from gpuens.kernels import catalogue

    if names or of_all_types:
        return [entry for entry in catalogue.entries() if not names or entry.name in names]
    functions = {
        (entry.kernel.py_func.__module__, entry.kernel.py_func.__qualname__): entry
        for entry in reversed(list(catalogue.entries()))
    }
    return list(reversed(functions.values()))


def compile_entry(entry: Any, capability: tuple[int, int]) -> str:
    """Return the PTX of a kernel."""
    from numba_cuda_mlir import cuda
    from numba_cuda_mlir.numba_cuda import types
    from numba_cuda_mlir.numba_cuda.np.numpy_support import from_dtype

    from gpuens.kernels.runtime.cuda.compiling import kinds_of

    arguments = [
        types.Array(from_dtype(kind[0]), *kind[1:]) if isinstance(kind, tuple) else from_dtype(kind)
        for kind in kinds_of(entry.arguments)
    ]
    bounds = entry.kernel.bounds
    signature = types.void(*arguments)
    function = translated(entry.kernel.py_func)
    text, _ = cuda.compile_ptx(function, signature, cc=capability, launch_bounds=bounds)
    return text


def translated(function: Any) -> Any:
    """Return a function that refers to the objects of the successor."""
    names = function.__globals__
    own = {name: made(names[name]) for name in function.__code__.co_names if name in names}
    cells = tuple(CellType(made(cell.cell_contents)) for cell in function.__closure__ or ())
    return FunctionType(
        function.__code__, names | own, function.__name__, function.__defaults__, cells or None
    )


def made(value: Any) -> Any:
    """Return the object of the successor that a value is, or stands for."""
    from numba_cuda_mlir import cuda

    from gpuens.kernels.runtime.cuda.target import Cuda
    from gpuens.kernels.scalars.lazy_jit import Deferred

    if isinstance(value, Cuda):
        return cuda
    return value.made if issubclass(type(value), Deferred) else value


def reason(error: BaseException | None) -> str:
    """Return the line of an error, or of what caused it, that says what is missing."""
    lines: list[str] = []
    while error is not None:
        lines += [f"{type(error).__name__}: {line.strip()}" for line in str(error).splitlines()]
        error = error.__cause__ or error.__context__
    telling = [line for line in lines if TELLING.search(line)]
    line = (telling or lines)[-1]
    return re.sub(r" at 0x[0-9a-f]+|\(\S*/[^()]*\)", "", line).replace("|", "\\|")[:LONGEST]


def take_place(capability: tuple[int, int]) -> None:
    """Let the successor make the objects that kernels refer to, for a GPU that is not there."""
    from numba_cuda_mlir import cuda, tools
    from numba_cuda_mlir.numba_cuda import types

    from gpuens.kernels.runtime.cuda import target
    from gpuens.kernels.scalars import lazy_jit

    tools._cached_cc = capability
    target.numba_cuda = lambda: cuda
    target.Cuda._numba_type_ = property(lambda self: types.Module(cuda))
    lazy_jit.load_numba = lambda: cuda
    lazy_jit.sys = SimpleNamespace(modules={})  # no object is one of Numba's
    for kind in (lazy_jit.Function, target.DeviceFunction):
        kind._make = lambda self, module: cuda.jit(device=True)(translated(self.py_func))
    lazy_jit.Intrinsic._make = lambda self, module: reinterpretation(self.__name__)
    lazy_jit.Intrinsic._numba_type_ = property(lambda self: self.made._numba_type_)
    declare()


def reinterpretation(name: str) -> Any:
    """Return the function that keeps the bits of a number, by the name that it has in
    ``scalars.primitives``."""
    from numba_cuda_mlir import cuda
    from numba_cuda_mlir.cuda import libdevice

    functions = {
        "bits_of": lambda x: libdevice.double_as_longlong(x),
        "float_of": lambda bits: libdevice.longlong_as_double(bits),
        "bits_of_float32": lambda x: libdevice.float_as_int(x),
        "float32_of": lambda bits: libdevice.int_as_float(bits),
    }
    return cuda.jit(device=True)(functions[name])


def declare() -> None:
    """Declare the primitives and the loops, which stay as they are: all loops may be unrolled."""
    from numba_cuda_mlir.cuda import libdevice
    from numba_cuda_mlir.extending import overload, typing_registry

    from gpuens.kernels.runtime.cuda import loops
    from gpuens.kernels.scalars import primitives

    bits_of, float_of = primitives.bits_of.made, primitives.float_of.made

    shift = primitives.INT_IN_MANTISSA + primitives.EXPONENT_BIAS
    high, low = primitives._TWO_52_BITS, 2.0**52 + primitives.EXPONENT_BIAS
    versions = {
        primitives.mul: lambda x, y: lambda x, y: libdevice.dmul_rn(x, y),
        primitives.floor: lambda x: lambda x: libdevice.floor(x),
        primitives.select: lambda condition, x, y: lambda condition, x, y: x if condition else y,
        primitives.two_to: lambda k: lambda k: float_of(bits_of(k + shift) << 52),
        primitives.exponent: lambda x: lambda x: float_of((bits_of(x) >> 52) | high) - low,
        loops.rolled: lambda numbers: lambda numbers: numbers,
        loops.unknown: lambda number: lambda number: number,
    }
    for function, version in versions.items():
        overload(function, inline="always", typing_registry=typing_registry)(version)


if __name__ == "__main__":
    main()
