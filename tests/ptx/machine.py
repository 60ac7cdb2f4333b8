"""A machine that runs the compiled PTX of a CUDA kernel on the CPU, without a GPU.

It shows what libNVVM has made of a kernel, which Numba's simulator does not: the simulator runs
Python. PTX becomes LLVM IR (``lower``, ``opcodes``), LLVM compiles it for the host, and ``native``
runs it: blocks one after another, the threads of a block in turns from barrier to barrier. What it
cannot show: SASS, timing, memory ordering, and blocks that wait for each other.

    kernel = machine.load(ptx)
    kernel.launch((blocks, 1, 1), (threads, 1, 1), parameters)
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np
from llvmlite import binding

from . import checks, native
from .context import N_WORDS, Word
from .lower import Options, lower
from .parse import Program, Variable, parse

CACHE = Path(__file__).parents[2] / ".cache" / "ptx"
FORMAT = 1
"""Part of the names of cached kernels."""
MOST_THREADS = 1024
MOST_SHARED = 227 * 1024
"""Of any architecture; ``Gpu`` knows its own."""
FUEL = 1 << 40
SHARED_ALIGNMENT = 256


class Kernel:
    """A compiled kernel.

    Attributes
    ----------
    name, ptx : str
        The PTX is the module's.
    program : Program
        Its instructions, with what each does to memory, and basic blocks.
    parameters : list of Variable
        Offset and size of each parameter in the parameter block.
    shared_bytes : int
        Shared memory that the kernel declares.
    registers : int
        Registers in PTX, which are not those of the hardware.
    counts : int64 array, a place for each basic block
        With ``count``: how often threads have run it in all launches so far.
    """

    def __init__(
        self, ptx: str, program: Program, options: Options, code: bytes, frame_bytes: int
    ) -> None:
        self.name, self.ptx, self.program, self.options = program.name, ptx, program, options
        self.parameters: list[Variable] = program.parameters
        self.shared_bytes = program.shared_bytes
        self.registers = len(program.registers)
        self.frame_bytes = frame_bytes
        self.counts = np.zeros(len(program.blocks) if options.count else 0, np.int64)
        self._engine = _engine()
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self._phase = self._engine.get_function_address("phase")

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: bytes,
        *,
        shared: int = 0,
        order: str = "random",
        seed: int = 0,
        memory: checks.Memory | None = None,
        blocks: Sequence[int] | None = None,
        fuel: int = FUEL,
    ) -> None:
        """Run a launch to its end.

        Parameters
        ----------
        grid, block : tuple of three integers
        parameters : bytes
            The parameter block. Pointers in it are addresses on the host.
        shared : int
            Bytes of dynamic shared memory, after the kernel's own.
        order : {"plain", "reversed", "turning", "random"}
            The order in which threads take their turns; ``random`` is another order at every
            barrier, and of the blocks as well.
        seed : int
        memory : Memory, optional
            The arrays of the launch; needed by kernels loaded with ``watch``.
        blocks : sequence of int, optional
            The blocks to run, by default all of them.
        fuel : int
            Jumps backwards, after which a kernel that is watched or counted is stopped.

        Raises
        ------
        ValueError
            The kernel cannot be launched like that.
        MachineFault
            A watched kernel did what it must not do, threads waited at different barriers, or the
            kernel went on for ever.
        """
        self._check(grid, block, parameters, shared, order, memory)
        numbers = np.arange(math.prod(grid)) if blocks is None else np.array(blocks, np.int64)
        if order == "random" and numbers.size > 1:
            numbers = np.random.default_rng(seed).permutation(numbers)
        n_threads = math.prod(block)
        context = np.zeros(N_WORDS, np.int64)
        context[Word.THREADS_X : Word.THREADS_X + 3] = block
        context[Word.BLOCKS_X : Word.BLOCKS_X + 3] = grid
        context[Word.FUEL] = fuel
        context[Word.DYNAMIC_SHARED] = shared
        words = np.frombuffer(parameters + bytes(16), np.uint8).copy()
        held = np.zeros(self.shared_bytes + shared + SHARED_ALIGNMENT, np.uint8)
        start = -held.ctypes.data % SHARED_ALIGNMENT
        context[Word.PARAMETERS] = words.ctypes.data
        context[Word.SHARED] = held.ctypes.data + start
        context[Word.COUNTS] = self.counts.ctypes.data
        points = np.zeros(n_threads, np.int64)
        frames = np.zeros((n_threads, self.frame_bytes), np.uint8)
        watching = None
        if memory is not None:
            watching = checks.Watch(self.program, memory, context, words, frames, shared)
        ended, where = native.run_blocks(
            self._phase, context, numbers, frames, points, native.ORDERS.index(order), seed
        )
        faults = watching.faults() if watching else []
        faults += checks.faults_of_end(self.program, ended, where, points)
        if faults:
            raise checks.MachineFault(self.program.short_name, faults)

    def _check(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: bytes,
        shared: int,
        order: str,
        memory: checks.Memory | None,
    ) -> None:
        """Raise ValueError where a driver would refuse the launch, or the machine must."""
        if not 0 < math.prod(block) <= MOST_THREADS or min(block) < 1:
            raise ValueError(f"block={block}: 1 to {MOST_THREADS} threads are possible.")
        if min(grid) < 1 or grid[0] >= 2**31 or max(grid[1:]) >= 2**16:
            raise ValueError(f"grid={grid}: 1 to 2**31 - 1, 65535 and 65535 blocks are possible.")
        if len(parameters) != self.program.parameter_bytes:
            raise ValueError(
                f"parameters has {len(parameters)} bytes, but {self.name} takes "
                f"{self.program.parameter_bytes}."
            )
        if self.shared_bytes + shared > MOST_SHARED:
            raise ValueError(
                f"shared={shared}: with the kernel's own {self.shared_bytes} bytes these are more "
                f"than {MOST_SHARED}."
            )
        if order not in native.ORDERS:
            raise ValueError(f"order={order!r}: it must be one of {native.ORDERS}.")
        if self.options.watch and memory is None:
            raise ValueError("memory: a watched kernel needs the arrays of the launch.")
        if memory is not None and not self.options.watch:
            raise ValueError("memory: load the kernel with watch=True to watch its accesses.")


def load(
    ptx: str,
    name: str | None = None,
    *,
    watch: bool = False,
    count: bool = False,
    keep: bool = True,
) -> Kernel:
    """Compile a kernel, or load it from ``.cache/ptx``.

    Parameters
    ----------
    ptx : str
    name : str, optional
        The kernel's name, if the module has several.
    watch : bool, default False
        Check every access to memory; see ``checks``.
    count : bool, default False
        Count how often basic blocks are run.
    keep : bool, default True
        Keep what has been compiled on disk.

    Raises
    ------
    PtxError
        The PTX has something that the machine does not know.
    """
    program = parse(ptx, name)
    options = Options(watch, count)
    path = CACHE / f"{_key(program, options)}.o"
    try:
        header, _, code = path.read_bytes().partition(b"\n")
        frame_bytes = json.loads(header)["frame_bytes"]
    except (OSError, ValueError, KeyError):
        lowered = lower(program, options)
        frame_bytes, code = lowered.frame_bytes, compile_for_host(lowered.text, watch)
        if keep:
            _keep(path, json.dumps({"frame_bytes": frame_bytes}).encode() + b"\n" + code)
    return Kernel(ptx, program, options, code, frame_bytes)


def _key(program: Program, options: Options) -> str:
    """Return a digest of all that a compiled kernel depends on, and not of names, which Numba
    numbers by the order of compilation."""
    variables = (program.parameters, program.shared, program.local)
    names = {
        variable.name: f"{kind}{variable.offset}"
        for kind, several in zip("psl", variables, strict=True)
        for variable in several
    }
    text = "\n".join(map(str, program.instructions))
    text = re.sub(r"[A-Za-z_][\w$]*", lambda word: names.get(word[0], word[0]), text)
    sizes = [[(v.offset, v.size) for v in several] for several in variables]
    facts = [FORMAT, llvmlite.__version__, *_host(), asdict(options), sizes, program.registers,
             sorted(program.labels.items()), text, _sources()]  # fmt: skip
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:40]


@functools.cache
def _sources() -> str:
    """Return a digest of the modules that decide what a kernel is compiled to."""
    digest = hashlib.sha256()
    for module in ("context", "lower", "opcodes", "parse"):
        digest.update((Path(__file__).parent / f"{module}.py").read_bytes())
    return digest.hexdigest()


def _keep(path: Path, content: bytes) -> None:
    """Write a file at once, so that other processes see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


@functools.cache
def _host() -> tuple[str, str]:
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


@functools.cache
def _initialised() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def _target(level: int) -> Any:
    _initialised()
    cpu, features = _host()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small"
    )


def _engine() -> Any:
    return binding.create_mcjit_compiler(binding.parse_assembly(""), _target(2))


def compile_for_host(text: str, quickly: bool = False) -> bytes:
    """Compile LLVM IR to an object file of the host, or quickly to one that is slower."""
    machine = _target(0 if quickly else 2)
    module = binding.parse_assembly(text)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=1)
    passes = binding.create_pass_builder(machine, options)
    if quickly:
        manager = binding.create_new_function_pass_manager()
        manager.add_sroa_pass()
        manager.add_simplify_cfg_pass()
        manager.add_instruction_combine_pass()
        for function in module.functions:
            if not function.is_declaration:
                manager.run(function, passes)
    else:
        passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)
