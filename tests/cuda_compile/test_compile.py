"""Every kernel of the repository, compiled for real architectures on a machine without a GPU.

Numba and NVVM write the PTX as they do for a launch, nvJitLink links it as it does at run time and
reports registers, stack and spills, and nvdisasm shows the machine code.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from numba import config, types

if config.ENABLE_CUDASIM:
    pytest.skip("compiling needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")
nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink")

from cuda.pathfinder import find_nvidia_binary_utility  # noqa: E402

from benchmarks.gpu import gpu_unknowns  # noqa: E402
from building.cubins import as_shipped  # noqa: E402
from gpuens.kernels import catalogue  # noqa: E402
from gpuens.kernels.growth.cuda.histogram import BLOCK, BLOCK_ALONE, OWN, SHARED  # noqa: E402
from gpuens.kernels.runtime.cuda import target  # noqa: E402
from gpuens.kernels.runtime.cuda.loops import COMMENT  # noqa: E402
from tests.ptx import driver  # noqa: E402
from tests.support.cuda_modules import cuda_modules  # noqa: E402
from tests.support.ptx_option import Gpu  # noqa: E402

GPUS = tuple(map(Gpu, ((7, 5), (8, 0), (9, 0), (12, 0))))
COMPILED_FOR = GPUS[1::2]
"""Numba and NVVM take most of the time. NVVM writes the same text for all architectures before
10.0: they are given that of sm_80, as a driver would translate it."""
INSTRUCTION_BYTES = 16
"""Bytes of an instruction of machine code."""
CATALOGUE = {entry.name: entry for entry in catalogue.entries()}
OUTSIDE = [
    catalogue.Entry(
        "benchmark_sizes", gpu_unknowns.sizes_kernel(),
        (catalogue.ROWS, catalogue.array(types.float64, 2), catalogue.ROWS), 64,
    ),
    *(
        catalogue.Entry(f"benchmark_empty_{n}", gpu_unknowns.empty_kernel(n),
                        (catalogue.ROWS,) * n, 64)
        for n in (2, 20)
    ),
    catalogue.Entry(
        "benchmark_pairs", gpu_unknowns.adding_kernel()[0],
        (types.int64, *(types.uint32,) * 3, catalogue.array(types.int64)), 64,
    ),
    catalogue.Entry(
        "benchmark_fill", gpu_unknowns.filling_kernel(),
        (types.int64, catalogue.array(types.int64)), 64,
    ),
    catalogue.Entry(
        "benchmark_spin", gpu_unknowns.spinning_kernel(),
        (types.int64, catalogue.array(types.uint32)), 64,
    ),
]  # fmt: skip
"""Kernels that no operation starts, which the catalogue leaves out."""
ENTRIES = CATALOGUE | {entry.name: entry for entry in OUTSIDE}
POWERS_OF_TWO = {
    f"0d{sign + exponent:03X}{0:013X}" for sign in (0, 2048) for exponent in range(1, 2047)
}
"""As PTX writes the bits of a float64: sign and exponent, and a mantissa of zeros."""

every_kernel = pytest.mark.parametrize("name", ENTRIES)
everywhere = pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
ALREADY_SEEN = {f"cart_{name}_uint32" for name in ("write_32", "write_128", "search_nodes_128")}
"""Kernels that are compiled for one architecture, since they differ little from others."""


@pytest.fixture(autouse=True, scope="module")
def a_driver() -> Iterator[None]:
    with driver.installed(COMPILED_FOR):
        yield


def ptx_of(name: str, gpu: Gpu) -> str:
    entry = ENTRIES[name]
    return driver.library_of(entry.kernel, entry.arguments).get_asm_str(cc=gpu.architecture)


def for_sm_75(ptx: str) -> str:
    """Return PTX of sm_80 for the older architecture."""
    return ptx.replace(".target sm_80\n", ".target sm_75\n")


def shipped_ptx(name: str) -> str:
    """Return the PTX from which a wheel's cubins are made (see ``building.cubins``)."""
    return as_shipped(for_sm_75(ptx_of(name, GPUS[1])))


@functools.cache
def linked(name: str, gpu: Gpu, is_shipped: bool = True) -> tuple[str, bytes]:
    """Return the report of the linker and the cubin: that of a wheel, or the one that is made where
    Numba compiles the kernel for a launch."""
    major, minor, features = gpu.architecture
    text = shipped_ptx(name) if is_shipped else ptx_of(name, gpu)
    ptx = text.encode() + b"\0"
    handle = nvjitlink.create(2, [f"-arch=sm_{major}{minor}{features}", "-verbose"])
    nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), name)
    nvjitlink.complete(handle)
    log = bytearray(nvjitlink.get_info_log_size(handle))
    nvjitlink.get_info_log(handle, log)
    cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, cubin)
    nvjitlink.destroy(handle)
    return log.decode(), bytes(cubin)


def test_the_catalogue_is_complete():
    catalogued = {id(entry.kernel) for entry in CATALOGUE.values()}
    for module in cuda_modules():
        for name, value in vars(module).items():
            if isinstance(value, target.CudaKernel):
                assert id(value) in catalogued, f"{name} in {module.__name__}"


def kernels_in(source: str) -> list[int]:
    """The lines on which the kernels of a module begin, wherever in it they are defined."""
    tree = ast.parse(source)
    names = {"cuda.jit"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("cuda.target"):
            names |= {a.asname or a.name for a in node.names if a.name == "kernel"}
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
            lines += [marks[0].lineno] if names & set(map(ast.unparse, marks)) else []
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            lines.append(node.lineno)  # a kernel without a decorator
    return lines


def test_every_kernel_of_the_repository_is_compiled():
    """Those inside of functions too, which only their use would show."""
    codes = (entry.kernel.py_func.__code__ for entry in ENTRIES.values())
    compiled = {(Path(code.co_filename).resolve(), code.co_firstlineno) for code in codes}
    root = Path(__file__).parents[2]
    found = {
        (path.resolve(), line)
        for folder in ("kernels", "benchmarks", "gpuens")
        for path in (root / folder).rglob("*.py")
        if path.resolve() != root / "kernels/runtime/cuda/target.py"  # which defines `kernel`
        for line in kernels_in(path.read_text(encoding="utf-8"))
    }
    assert found - compiled == set()
    assert compiled - found == set(), "kernels_in overlooks kernels"


@pytest.mark.parametrize("source, lines", [
    ("from ..cuda.target import cuda, kernel\n@kernel\ndef f(): ...", [2]),
    ("def g():\n from x.cuda.target import kernel as k\n @k\n def f(): ...", [3]),
    ("@cuda.jit\ndef f(): ...\n@cuda.jit(debug=True)\ndef g(): ...", [1, 3]),
    ("from .cuda.target import kernel\nf = kernel(g)", [2]),
    ("from ..compilation import kernel\n@kernel\ndef f(): ...", []),
])  # fmt: skip
def test_kernels_are_found(source, lines):
    assert sorted(set(kernels_in(source))) == lines


@everywhere
@every_kernel
def test_resources(name, gpu):
    if name in ALREADY_SEEN and gpu is not GPUS[2]:
        pytest.skip("kernels of the same source are compiled for this architecture")
    log, _ = linked(name, gpu)
    assert stack_of(log) == 0
    check_registers(name, log)
    shared = re.findall(r"(\d+) bytes smem", log)
    assert all(int(size) <= 48 * 1024 for size in shared)


@pytest.mark.parametrize("gpu", COMPILED_FOR, ids=lambda gpu: gpu.name)
@every_kernel
def test_resources_where_numba_compiles(name, gpu):
    """Its own PTX for newer devices, whose loops the assembler may unroll."""
    if name in ALREADY_SEEN or (gpu is GPUS[1] and COMMENT not in ptx_of(name, gpu)):
        pytest.skip("this machine code, or that of a kernel of the same source, has been looked at")
    log, _ = linked(name, gpu, is_shipped=False)
    assert stack_of(log) <= ENTRIES[name].spilled
    check_registers(name, log)


def stack_of(log: str) -> int:
    """The most bytes that a thread keeps in memory, by what the linker reports."""
    usage = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill \w+, (\d+) bytes spill", log)
    assert usage
    return max(int(size) for sizes in usage for size in sizes)


def check_registers(name: str, log: str) -> None:
    (registers,) = re.findall(r"Used (\d+) registers", log)
    assert int(registers) <= ENTRIES[name].registers
    assert registers_of_block(int(registers), ENTRIES[name].threads) <= REGISTERS


@pytest.mark.parametrize("name", ["histogram", "grow_search", "predict_deep_float32_tile"])
def test_older_architectures_have_the_same_ptx(name):
    older, newer = (without_comments(ptx_of(name, gpu)) for gpu in GPUS[:2])
    assert older == for_sm_75(newer) != newer


def without_comments(ptx: str) -> str:
    return re.sub("//.*", "", ptx)


REGISTERS = 65_536
"""Of a multiprocessor."""


def registers_of_block(registers: int, threads: int) -> int:
    """What a block takes of them: warps get theirs in pieces of 256."""
    return -(-threads // 32) * -(-32 * registers // 256) * 256


SHARED_KB = {(7, 5): 64, (8, 0): 164, (9, 0): 228, (12, 0): 100}
"""Of a multiprocessor, for all of its blocks (CUDA C++ Programming Guide)."""


@everywhere
@pytest.mark.parametrize(
    "name", [entry.name for entry in CATALOGUE.values() if entry.kernel.bounds]
)
def test_registers_leave_room_for_what_is_asked(name, gpu):
    threads, blocks = CATALOGUE[name].kernel.bounds
    assert threads == CATALOGUE[name].threads
    (registers,) = re.findall(r"Used (\d+) registers", linked(name, gpu)[0])
    assert blocks * registers_of_block(int(registers), threads) <= REGISTERS


@everywhere
def test_registers_leave_room_for_the_blocks_of_the_histogram(gpu):
    """For all those that shared memory is enough for."""
    (registers,) = re.findall(r"Used (\d+) registers", linked("histogram", gpu)[0])
    blocks = max(1, SHARED_KB[gpu.capability] * 1024 // (SHARED + target.RESERVED_SHARED))
    threads = BLOCK if blocks > 1 else BLOCK_ALONE
    assert blocks * registers_of_block(int(registers), threads) <= REGISTERS
    assert SHARED <= gpu.most_shared


@every_kernel
def test_no_product_is_fused_with_a_sum(name):
    """Unless the product is exact, one factor being a power of two."""
    ptx = ptx_of(name, GPUS[1])
    value = dict(re.findall(r"mov\.f64\s+(%fd\d+), (0d[0-9A-F]{16});", ptx))

    def is_exact(*factors: str) -> bool:
        return any(value.get(factor, factor) in POWERS_OF_TWO for factor in factors)

    for a, b in re.findall(r"\bfma\.rn\.f64\s+\S+, (\S+), (\S+), \S+;", ptx):
        assert is_exact(a, b)
    assert "fma.rn.f32" not in ptx
    # The linker may fuse a product that does not say how it is rounded.
    for product, a, b in re.findall(r"\bmul\.f64\s+(\S+), (\S+), (\S+);", ptx):
        assert is_exact(a, b) or not re.search(rf"\b(add|sub)\.f64\s.*{product}[,;]", ptx)


def code_of(name: str, gpu: Gpu) -> bytes:
    """Return the machine code of a kernel: the sections of its cubin, an ELF file of 64 bits, that
    hold instructions."""
    cubin = linked(name, gpu)[1]
    (first,) = struct.unpack_from("<Q", cubin, 40)
    size, n = struct.unpack_from("<HH", cubin, 58)
    sections = [struct.unpack_from("<IIQQQQ", cubin, first + k * size) for k in range(n)]
    is_code = 4  # SHF_EXECINSTR
    return b"".join(
        cubin[at : at + length] for _, _, flags, _, at, length in sections if flags & is_code
    )


def disassembled(names: Iterable[str], gpu: Gpu) -> dict[str, list[str]]:
    """Return the instructions (SASS) of kernels. nvdisasm takes longer to begin than for a kernel,
    so that it reads the code of all of them as that of one."""
    nvdisasm = find_nvidia_binary_utility("nvdisasm")
    if nvdisasm is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    major, minor, features = gpu.architecture
    codes = {name: code_of(name, gpu) for name in names}
    with tempfile.NamedTemporaryFile() as together:
        together.write(b"".join(codes.values()))
        together.flush()
        command = [nvdisasm, "--binary", f"SM{major}{minor}{features}", together.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    instructions = iter(re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*;)", text, re.MULTILINE))
    found = {
        name: list(itertools.islice(instructions, len(code) // INSTRUCTION_BYTES))
        for name, code in codes.items()
    }
    assert not list(instructions) and all(found.values())
    return found


def operations(instructions: list[str], pattern: str) -> list[str]:
    """Return the operations whose names match, behind the predicates of the instructions."""
    names = (re.sub(r"^@\S+ ", "", each).split()[0] for each in instructions)
    return [name for name in names if re.match(pattern, name)]


@everywhere
def test_histogram_adds_natively_in_shared_memory(gpu):
    instructions = disassembled(["histogram"], gpu)["histogram"]
    atomics = operations(instructions, "ATOMS")
    assert len(atomics) >= 2 * OWN
    assert set(atomics) <= {"ATOMS.ADD", "ATOMS.POPC.INC.32"}  # the latter where rows count
    assert not operations(instructions, "(STL|LDL)")


ON_SHARED = re.compile(r"^\s.*\b(?:atom|red)(?!\.global)\.", re.MULTILINE)
"""Operations of PTX that may be atomic ones on shared memory. A kernel without any has none in its
machine code."""
LOOP = r"ATOMS?\..*CAS"
"""Operations that are tried again until no other thread came between."""


@everywhere
def test_no_kernel_spins_on_shared_memory(gpu):
    """Shared memory adds integers of 32 bits natively; additions of 64 bits and of floats become
    loops of compare-and-swap, which PTX does not show."""
    names = [name for name in CATALOGUE if ON_SHARED.search(ptx_of(name, GPUS[1]))]
    assert {"histogram", "cart_sum_tiles_uint8", "grow_search"} <= set(names)
    found = {
        name: operations(instructions, LOOP)
        for name, instructions in disassembled(names, gpu).items()
    }
    assert {name: loops for name, loops in found.items() if loops} == {}


def test_loops_are_recognised():
    code = ["@!P0 ATOMS.CAST.SPIN.64 P1, [R2], R4, R6 ;", "ATOMS.CAS R4, [R2], R4, R6 ;"]
    code += ["ATOMS.ADD RZ, [R2], R4 ;", "@P0 ATOMG.E.CAS.64 PT, R4, [R2], R4 ;", "EXIT ;"]
    assert operations(code, LOOP) == ["ATOMS.CAST.SPIN.64", "ATOMS.CAS"]


@every_kernel
def test_no_kernel_has_a_loop_of_compare_and_swap(name):
    assert not re.search(r"\batom\.\S*cas", ptx_of(name, GPUS[1]))


OF_CONTROL = {
    "grow_open_roots": 18, "grow_open_nodes": 26, "grow_choose_nodes": 18,
    "grow_choose_in_order": 31, "grow_number_leaves": 26, "stream_plan_lines": 10,
    "cart_plant": 16, "cart_count_splits": 16, "cart_list_splits": 16, "cart_choose_best": 16,
    "cart_make_children": 16,
}  # fmt: skip
"""KiB of code of the kernels between launches over rows. What one block runs once, it waits for
instruction by instruction: more should be looked at. Two kernels
hold the children of a round and what follows from them, one the order of the leaves, since a launch
more in each round would take longer than their code."""


@everywhere
@pytest.mark.parametrize("name", OF_CONTROL)
def test_kernels_of_control_are_short(name, gpu):
    assert len(code_of(name, gpu)) <= OF_CONTROL[name] * 1024
