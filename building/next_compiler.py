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
from types import SimpleNamespace
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache" / "next-compiler"
PACKAGES = ("numba-cuda-mlir[cu13]", "cuda-toolkit[nvjitlink,nvrtc,nvvm]==13.*")
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
    """Compile the kernels whose names are given, by default all, and print what fails."""
    parser = argparse.ArgumentParser(prog="python -m building.next_compiler", description=__doc__)
    parser.add_argument("names", nargs="*", help="kernels of the catalogue")
    parser.add_argument("--architecture", default="9.0", help="compute capability")
    chosen = parser.parse_args()
    major, minor = map(int, chosen.architecture.split("."))
    take_place((major, minor))
    failed: dict[str, list[str]] = defaultdict(list)
    n, started = 0, time.time()
    for entry in entries(chosen.names):
        n += 1
        try:
            compile_entry(entry, (major, minor))
        except Exception as error:  # of any of its stages
            failed[reason(error)].append(entry.name)
        print(".", end="", flush=True, file=sys.stderr)
    n_failed = sum(map(len, failed.values()))
    print(f"\n{n - n_failed} of {n} kernels compile, {time.time() - started:.0f} s.\n")
    print("| kernels | why not | which |\n|---|---|---|")
    for why, names in sorted(failed.items(), key=lambda item: -len(item[1])):
        print(f"| {len(names)} | {why} | {', '.join(names)} |")


def entries(names: list[str]) -> list[Any]:
    """Return the entries of the catalogue with some names, by default all."""
    from gpuens.kernels import catalogue

    return [entry for entry in catalogue.entries() if not names or entry.name in names]


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
    text, _ = cuda.compile_ptx(entry.kernel.py_func, signature, cc=capability, launch_bounds=bounds)
    return text


def reason(error: BaseException) -> str:
    """Return the line of an error that says what is missing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"[Nn]o |[Uu]nknown|not |[Ii]nvalid|fail", line)]
    line = (telling or lines or [""])[0]
    line = re.sub(r"0x[0-9a-f]+|%\d+|\(\S*/[^()]*\)", "…", line).replace("|", "\\|")
    return f"{type(error).__name__}: {line[:LONGEST]}"


def take_place(capability: tuple[int, int]) -> None:
    """Let the successor make the objects that kernels refer to, for a GPU that is not there."""
    from numba_cuda_mlir import cuda, tools
    from numba_cuda_mlir.numba_cuda import types

    from gpuens.kernels.runtime.cuda import target
    from gpuens.kernels.scalars import deferred

    tools._cached_cc = capability
    target.numba_cuda = lambda: cuda
    target.Cuda._numba_type_ = property(lambda self: types.Module(cuda))
    deferred.load_numba = lambda: cuda
    deferred.sys = SimpleNamespace(modules={})  # no object is one of Numba's
    for kind in (deferred.Function, target.DeviceFunction):
        kind._make = lambda self, module: cuda.jit(device=True)(self.py_func)
    deferred.Intrinsic._make = lambda self, module: reinterpretation(self.__name__)
    deferred.Intrinsic._numba_type_ = property(lambda self: self.made._numba_type_)
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
    from gpuens.kernels.scalars.primitives import bits_of, float_of

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
        overload(function, typing_registry=typing_registry)(version)


if __name__ == "__main__":
    main()
