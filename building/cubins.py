"""Builds the files of precompiled CUDA kernels (see ``kernels/runtime/cuda/precompiled.py``).

Numba and libNVVM write the PTX of each kernel of the catalogue once, for the oldest architecture
that is supported, and nvJitLink makes the machine code of each architecture from it. No GPU is
needed. Drivers take the machine code of the same generation of CUDA or of an older one: the files
are best built with the oldest toolkit that knows all architectures.

Names in the code are short, and those that nothing refers to are left out: names that list the
types of all arguments take more room than the instructions.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from numba import types
from numba.cuda import compile_ptx, dispatcher

from gpuens.kernels import catalogue
from gpuens.kernels.runtime.cuda import precompiled
from gpuens.kernels.runtime.cuda.compiling import RELEASE, kinds_of
from gpuens.kernels.runtime.cuda.loops import COMMENT
from gpuens.kernels.scalars.lazy_jit import load_numba

OLDEST = (7, 5)
FILES = ((75, 80), (90, 100, 120))
"""The architectures of each file with machine code, the first of each generation: later devices of
a generation run its code. Those of compute capability 8.6 and 8.9 run that of 8.0: one instruction
of forty is another one in their own, the rest in another order. 10.3 and 12.1 run that of 10.0 and
12.0."""
ENTRY = re.compile(r"\.entry (\w+)")
NO_UNROLLING = '.pragma "nounroll";\n'
"""In front of a kernel: the assembler leaves all of its loops as libNVVM has written them."""
UNUSED = re.compile(r"^\.common \.global \.align 8 \.u64 _ZN08NumbaEnv\w+;\n", re.MULTILINE)
"""Variables for exceptions in Python, which kernels do not raise."""


def ptx_of(entry: catalogue.Entry) -> tuple[precompiled.Code, precompiled.Version]:
    """Compile a kernel, and return its PTX with the version of CUDA that it is of."""
    load_numba()
    device = SimpleNamespace(compute_capability=OLDEST, id=0)
    with mock.patch.object(dispatcher, "get_current_device", lambda: device):
        signature, bounds = types.void(*entry.arguments), entry.kernel.bounds
        text, _ = compile_ptx(entry.kernel.py_func, signature, cc=OLDEST, launch_bounds=bounds)
    return shipped(text, entry)


def shipped(text: str, entry: catalogue.Entry) -> tuple[precompiled.Code, precompiled.Version]:
    """Return the PTX of a kernel as files hold it, with the version of CUDA that it is of."""
    (release,), (symbol,) = RELEASE.findall(text), ENTRY.findall(text)
    lines = (line for line in as_shipped(text).splitlines() if not line.lstrip().startswith("//"))
    name = f"gpuens_{entry.name}"
    code = shortened("\n".join(lines) + "\n", symbol, name)
    return precompiled.Code(name, precompiled.stamp_of(entry.kernel), code.encode()), tuple(
        map(int, release)
    )


def as_shipped(text: str) -> str:
    """Return PTX of libNVVM with what it asks of the assembler: to unroll no loop if there is one
    that is ``rolled``."""
    if COMMENT not in text:
        return text
    return text.replace(".visible .entry", f"{NO_UNROLLING}.visible .entry")


def shortened(text: str, symbol: str, name: str) -> str:
    """Return PTX with another name of its kernel and of the kernel's parameters, without unused
    variables."""
    return re.sub(rf"\b{symbol}(?=\b|_param_\d)", name, UNUSED.sub("", text))


def cubin_of(kernel: precompiled.Code, architecture: int) -> precompiled.Code:
    """Return the machine code of a kernel for an architecture."""
    from cuda.bindings import nvjitlink

    code = kernel.code + b"\0"
    handle = nvjitlink.create(1, [f"-arch=sm_{architecture}"])
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, code, len(code), kernel.symbol)
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
    finally:
        nvjitlink.destroy(handle)
    return kernel._replace(code=bytes(cubin))


def is_current(folder: Path = precompiled.FOLDER) -> bool:
    """Return whether a folder holds all files, with every kernel as its sources are."""
    expected = {
        precompiled.key_of(entry.kernel, kinds_of(entry.arguments)): precompiled.stamp_of(
            entry.kernel
        )
        for entry in catalogue.entries()
    }
    try:
        files = _files(folder, FILES)
        archives = [precompiled.read(path, architectures[0]) for path, architectures in files]
    except precompiled.DamagedKernelsError:  # or not there
        return False
    return all(
        {key: kernel.stamp for key, kernel in archive.kernels.items()} == expected
        for archive in archives
    )


def _files(folder: Path, groups: Sequence[Sequence[int]]) -> list[tuple[Path, Sequence[int]]]:
    """Return the files and their architectures, that of the PTX first."""
    oldest = 10 * OLDEST[0] + OLDEST[1]
    cubins = [(folder / f"cuda-sm_{'-'.join(map(str, group))}.xz", group) for group in groups]
    return [(folder / f"cuda-ptx_{oldest}.xz", [oldest]), *cubins]


def build(
    folder: Path = precompiled.FOLDER,
    groups: Sequence[Sequence[int]] = FILES,
    names: Sequence[str] | None = None,
) -> None:
    """Write all files into a folder: those of the kernels of the catalogue with these names."""
    from cuda.bindings import nvjitlink

    started = time.time()
    kernels, release = {}, (0, 0)
    for entry in catalogue.entries():
        if names is None or entry.name in names:
            key = precompiled.key_of(entry.kernel, kinds_of(entry.arguments))
            if key is None:
                sys.exit(f"The kernel {entry.name} has functions from outside of gpuens.")
            kernels[key], release = ptx_of(entry)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("cuda-*.xz"):
        old.unlink()
    (text, (oldest,)), *files = _files(folder, groups)
    precompiled.write(text, release, {oldest: kernels})
    for path, group in files:
        cubins = {n: {key: cubin_of(kernel, n) for key, kernel in kernels.items()} for n in group}
        precompiled.write(path, nvjitlink.version(), cubins)
    size = sum(path.stat().st_size for path in (text, *(path for path, _ in files))) / 1e6
    print(f"{len(kernels)} kernels for {sum(map(len, groups))} architectures: {size:.2f} MB in "
          f"{folder}, {time.time() - started:.0f} s")  # fmt: skip


if __name__ == "__main__":
    build(*map(Path, sys.argv[1:]))
