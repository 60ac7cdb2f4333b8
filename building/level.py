"""``python -m building.level LEVEL FOLDER`` compiles the library of one level of processors.

Numba compiles for the level that ``NUMBA_CPU_NAME`` names. Of each kernel the whole module of
optimised code is taken, with an entry that reads the kernel's arguments from words; nothing in
it refers to Numba or to Python.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import llvmlite.binding as llvm
from numba.core import types

from gpuens.kernels.runtime import native
from gpuens.kernels.runtime.source_stamps import sources_of

from .library import CALLS, Target, cpu_name, file_of, linker, target
from .workload import run_everything

RESULTS = {types.none: "n", types.int64: "i", types.float64: "d", types.boolean: "b"}
RUNTIME = (
    "NRT_MemInfo_alloc_aligned", "NRT_MemInfo_call_dtor", "NRT_MemInfo_new_varsize_dtor",
    "NRT_MemInfo_varsize_realloc",
)  # fmt: skip
"""The parts of Numba's runtime that ``calls.c`` has."""


class Recorder:
    """Compiles kernels by Numba, and writes the machine code of each into an object file."""

    def __init__(self, level: str, folder: Path) -> None:
        self.level, self.folder = level, folder
        self.kernels: dict[str, dict[str, list[str]]] = defaultdict(dict)
        self.left: dict[str, set[str]] = defaultdict(set)
        self.files: set[Path] = set()
        found = target()
        assert found is not None
        self.target, self.machine = found, machine_of(found, cpu_name(level))
        self.lock = threading.Lock()

    def bind(self, kernel: Any) -> Callable[..., Any]:
        """Return the compiled kernel, which notes its arguments."""
        name = native.name_of(kernel)
        self.files.update(sources_of(kernel))

        def call(*arguments: Any) -> Any:
            key = native.key_of(arguments)
            result = kernel.made(*arguments)
            with self.lock:
                if key not in self.kernels[name] and name not in self.left:
                    kinds = tuple(map(kernel.made.typeof_pyval, arguments))
                    if not kernel.made.stats.cache_hits[
                        kinds
                    ]:  # otherwise the other process has it
                        self.write(name, key, kernel.made.overloads[kinds])
            return result

        return call

    def write(self, name: str, key: str, compiled: Any) -> None:
        """Write the object file of a kernel, unless its code needs Numba."""
        symbol = "kernel_" + hashlib.sha256(f"{name}{key}".encode()).hexdigest()[:16]
        path = self.folder / f"{self.level}-{symbol}.o"
        module = _module(compiled, symbol, self.machine)
        result = RESULTS.get(compiled.signature.return_type)
        needed = _foreign(module) if result else [f"a {compiled.signature.return_type} to return"]
        if needed:
            self.left[name].update(needed)
            print(f"{name} is left to Numba: it needs {', '.join(needed)}.", file=sys.stderr)
            return
        path.write_bytes(self.machine.emit_object(module))
        self.kernels[name][key] = [symbol, str(result)]

    def take_over(self, folder: Path) -> None:
        """Add what another process compiled into a folder of its own."""
        table = json.loads((folder / f"{self.level}.json").read_text("utf-8"))
        for name, rows in table["kernels"].items():
            for key, (symbol, result) in rows.items():
                file = f"{self.level}-{symbol}.o"
                (folder / file).replace(self.folder / file)
                self.kernels[name][key] = [symbol, result]
        self.files.update(native.PACKAGE / path for path in table["sources"])

    def write_table(self) -> None:
        """Write a JSON file of what was compiled, and of its sources."""
        kernels = {name: dict(sorted(rows.items())) for name, rows in sorted(self.kernels.items())}
        paths = (Path(os.path.relpath(path, native.PACKAGE)) for path in self.files)
        sources = sorted(path.as_posix() for path in paths)
        table = {"kernels": kernels, "sources": sources}
        (self.folder / f"{self.level}.json").write_text(json.dumps(table), encoding="utf-8")

    def link(self) -> None:
        """Link what was compiled, and list it in a JSON file beside the library.

        The codes of a kernel for several types resemble each other. They lie side by side, within
        the 32 kB where the compression of wheels looks for what repeats: it saves a fifth.
        """
        objects = [str(self.folder / f"{self.level}-{symbol}.o")
                   for _, rows in sorted(self.kernels.items())
                   for _, (symbol, _) in sorted(rows.items())]  # fmt: skip
        library = self.folder / file_of(self.level)
        # A file with the arguments: Windows bounds the length of commands. A backslash in it would
        # take away the meaning of the next character.
        files = [f'"{Path(path).as_posix()}"' for path in (library, CALLS, *objects)]
        response = self.folder / f"{self.level}.txt"
        response.write_text("\n".join([*self.target.flags, "-o", *files]), encoding="utf-8")
        subprocess.run([str(linker()), f"@{response}"], check=True)
        self.write_table()


def compile_all(level: str, folder: Path, is_second: bool = False) -> None:
    """Compile, link and list the kernels of a level.

    Two processes share the work: each takes the next step that the other has not taken, and loads
    from Numba's cache what the other compiled already. The second starts at the last step, so that
    they seldom compile the same kernel at the same time. The first links.

    LLVM unrolls no loops, and interleaves no vectors of one: the compressed library is smaller by
    29 % (620 to 442 kB). Twelve fits and predictions of all kinds took 0.93 to 1.03 of their times,
    in turns; boosting of 1M x 28 by one thread takes 1.04 (on an AMD EPYC). Nor are loops and
    functions aligned: 4 % less (461 to 444 kB) for 0.98 to 1.03 of the times of ten.
    """
    apart = folder / f"second-{level}"
    if not is_second:
        apart.mkdir()
        command = [sys.executable, "-m", "building.level", level, str(folder), "second"]
        second = subprocess.Popen(command)
    recorder = Recorder(level, apart if is_second else folder)
    native.use(recorder)
    with mock.patch.object(llvm, "create_pipeline_tuning_options", _plain_loops):
        run_everything(partial(_take, apart), backwards=is_second)
    if is_second:
        recorder.write_table()
    else:
        if second.wait():
            sys.exit(second.returncode)
        recorder.take_over(apart)
        recorder.link()


def _take(folder: Path, number: int) -> bool:
    """Return whether no process has taken a step before, and take it."""
    try:
        (folder / f"step {number}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _plain_loops(speed_level: int = 2) -> Any:
    options = llvm.PipelineTuningOptions(speed_level)
    options.loop_unrolling = options.loop_interleaving = False
    return options


def machine_of(system: Target, cpu: str) -> Any:
    """Return what writes the machine code for a system."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(system.triple).create_target_machine(
        cpu=cpu, features="", opt=3, reloc="pic", codemodel="small"
    )


def _module(compiled: Any, symbol: str, machine: Any) -> Any:
    """Return the code of a kernel with the entry ``int symbol(int64 *words)``."""
    module = llvm.parse_bitcode(compiled.library._final_module.as_bitcode())
    function = module.get_function(compiled.fndesc.llvm_func_name)
    entry = _entry(symbol, function, "windows" in machine.triple)
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration:
            value.linkage = "internal"
    for value in module.functions:
        value.add_function_attribute("nounwind")  # no exception passes through: no tables for that
        value.add_function_attribute("optsize")  # of the machine code alone: LLVM has optimised it
    function.linkage = "external"
    header = f'target triple = "{module.triple}"\ntarget datalayout = "{module.data_layout}"\n'
    module.link_in(llvm.parse_assembly(header + entry))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.get_function(function.name).linkage = "internal"
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    return module


def _foreign(module: Any) -> list[str]:
    """Return what a module needs of Numba or Python that ``calls.c`` does not have."""
    values = (*module.functions, *module.global_variables)
    outside = [value.name for value in values if value.is_declaration]
    return [n for n in outside if n.startswith(("NRT_", "numba", "Py")) and n not in RUNTIME]


def _entry(symbol: str, function: Any, windows: bool) -> str:
    """Return the code that reads a kernel's arguments from words and calls it.

    Numba's calling convention: a pointer to the result, which takes the place of the first word,
    a pointer to the description of an exception, and the arguments; narrow ones are in the low
    bytes of their words.
    """
    kinds = [str(argument.type) for argument in function.arguments]
    exported = "dllexport " if windows else ""
    lines = [
        f"define {exported}i32 @{symbol}(ptr %words) nounwind {{",
        "  %exception = alloca ptr",
        "  store ptr null, ptr %exception",
    ]
    arguments = ["ptr %words", "ptr %exception"]
    for i, kind in enumerate(kinds[2:]):
        lines.append(f"  %p{i} = getelementptr i64, ptr %words, i64 {i}")
        lines.append(f"  %a{i} = load {kind}, ptr %p{i}")
        arguments.append(f"{kind} %a{i}")
    lines.append(f'  %status = call i32 @"{function.name}"({", ".join(arguments)})')
    lines += ["  ret i32 %status", "}", f'declare i32 @"{function.name}"({", ".join(kinds)})']
    return "\n".join(lines)


if __name__ == "__main__":
    compile_all(sys.argv[1], Path(sys.argv[2]), is_second="second" in sys.argv[3:])
